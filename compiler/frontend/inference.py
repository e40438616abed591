"""Shapes and small constants of one node's outputs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from .dims import Shape, declared_shape
from .graph import Array, Value

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto, TypeProto
    from onnx.defs import OpSchema

# Shape arithmetic works on lists of sizes and indices; anything larger is data.
MAX_FOLDED_ELEMENTS = 4096
FLOAT = 1  # ONNX element type of fp32
UNSUPPORTED_TYPE = "has unsupported type"  # ONNX's words
RANDOM_OPS = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
# Operators that give their first input's shape and whose schemas lack an inference function in some versions.
SAME_SHAPE_OPS = frozenset({"GroupNormalization", "MeanVarianceNormalization", "BatchNormalization", "Dropout"})
# Operators whose last input is a list of sizes.
RANK_OPS = frozenset({"ConstantOfShape", "Expand", "Reshape", "Tile"})
MAX_RANK = 1000
OutputType = tuple[int, Shape | None]


class InferenceFailure(Exception):
    """A node's inputs contradict its operator; the message is ONNX's own."""


def infer_outputs(
    proto: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int], ir_version: int
) -> list[OutputType]:
    """Element type and shape of each output; `(0, None)` where ONNX cannot tell.

    Args:
        proto: The node, without references to a function's attributes.
        inputs: Its inputs, in order.
        opsets: Version of every operator set in force.
        ir_version: Of the model.

    Raises:
        InferenceFailure: The inputs do not fit the operator.
    """
    from onnx import checker, defs, shape_inference

    unknown: list[OutputType] = [(0, None)] * len(proto.output)
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    if domain not in opsets or not defs.has(proto.op_type, opsets[domain], domain):
        return unknown
    schema = defs.get_schema(proto.op_type, opsets[domain], domain)
    if not schema.has_type_and_shape_inference_function:
        return _infer_without_schema(proto, inputs)
    if any(value is not None and not value.element_type for value in inputs):
        return unknown
    _check_rank(proto, inputs)
    try:
        return _run_inference(schema, proto, inputs, opsets, ir_version)
    except checker.ValidationError as error:
        narrow = {value.element_type for value in inputs if value is not None and value.datatype.is_float} - {FLOAT}
        if UNSUPPORTED_TYPE not in str(error) or len(narrow) != 1:
            raise InferenceFailure(_plain_text(str(error))) from error
    except (shape_inference.InferenceError, ValueError, RuntimeError) as error:
        # the last two come from malformed attributes, before inference starts
        raise InferenceFailure(_plain_text(str(error))) from error
    return _infer_as_float(schema, proto, inputs, opsets, ir_version, narrow.pop())


def fold(
    proto: NodeProto, inputs: Sequence[Value | None], outputs: Sequence[OutputType], opsets: Mapping[str, int]
) -> list[Array | None]:
    """Elements of the outputs of a node that computes with small known constants.

    Args:
        proto: The node.
        inputs: Its inputs, in order.
        outputs: Element type and shape of its outputs.
        opsets: Version of every operator set in force.

    Returns:
        One array an output; None where it is not small, not known, or cannot be computed here.
    """
    nothing: list[Array | None] = [None] * len(proto.output)
    if proto.op_type in RANDOM_OPS or any(not is_small(shape) for _, shape in outputs):
        return nothing
    if not proto.output:
        return nothing
    if proto.op_type in ("Shape", "Size"):
        return _fold_shape(proto, inputs)
    if any(value is not None and value.data is None for value in inputs):
        return nothing
    if proto.op_type == "Constant":
        return [constant_array(proto)]
    if proto.op_type in ("DequantizeLinear", "QuantizeLinear"):
        return nothing  # constants of these are weights, not shapes
    return _run_reference(proto, inputs, opsets) or nothing


def is_small(shape: Shape | None) -> bool:
    """Whether a tensor is small enough to be evaluated here; an unknown shape may be."""
    if shape is None:
        return True
    elements = 1
    for size in shape:
        elements *= 1 if size is None else size
    return elements <= MAX_FOLDED_ELEMENTS


def tensor_array(tensor: TensorProto, folder: Path | None) -> Array | None:
    """Elements of a small stored tensor; None for a large one or one whose file is missing.

    Args:
        tensor: From the model.
        folder: Where files with tensors are looked for; None for nowhere.
    """
    return stored_array(tensor, folder) if is_small(tuple(tensor.dims)) else None


def stored_array(tensor: TensorProto, folder: Path | None) -> Array | None:
    """Elements of a stored tensor of any size; None for text or one whose file is missing.

    Args:
        tensor: From the model.
        folder: Where files with tensors are looked for; None for nowhere.
    """
    from onnx import TensorProto, checker, numpy_helper
    from onnx.external_data_helper import load_external_data_for_tensor

    if tensor.data_type == TensorProto.STRING:
        return None
    if tensor.data_location == TensorProto.EXTERNAL:
        if folder is None:
            return None
        copy = TensorProto()
        copy.CopyFrom(tensor)
        try:
            load_external_data_for_tensor(copy, str(folder))
        except (OSError, ValueError, checker.ValidationError):
            return None  # weights may be missing; if it was a shape, the node that needs it says so
        tensor = copy
    try:
        return numpy_helper.to_array(tensor)
    except (KeyError, TypeError, ValueError):
        return None  # of a type that is unknown here, or a shape without values, as in files stripped of their weights


def constant_array(proto: NodeProto) -> Array | None:
    """Elements of a `Constant` node; None for a large or sparse one."""
    for attribute in proto.attribute:
        match attribute.name:
            case "value":
                return tensor_array(attribute.t, None)
            case "value_int":
                return np.array(attribute.i, dtype=np.int64)
            case "value_ints":
                return np.array(attribute.ints, dtype=np.int64)
            case "value_float":
                return np.array(attribute.f, dtype=np.float32)
            case "value_floats":
                return np.array(attribute.floats, dtype=np.float32)
            case _:
                continue
    return None


def _check_rank(proto: NodeProto, inputs: Sequence[Value | None]) -> None:
    """Refuse a list of sizes of absurd length before ONNX's inference makes a shape of it."""
    value = inputs[-1] if inputs and proto.op_type in RANK_OPS else None
    if value is not None and value.shape and (value.shape[0] or 0) > MAX_RANK:
        raise InferenceFailure(f"a tensor of {value.shape[0]} axes")


def _run_inference(
    schema: OpSchema,
    proto: NodeProto,
    inputs: Sequence[Value | None],
    opsets: Mapping[str, int],
    ir_version: int,
) -> list[OutputType]:
    from onnx import shape_inference

    given = [(name, value) for name, value in zip(proto.input, inputs, strict=True) if value is not None]
    types = shape_inference.infer_node_outputs(
        schema,
        proto,
        {name: _type_proto(value) for name, value in given},
        {name: _tensor_proto(value.data) for name, value in given if value.data is not None},
        opset_imports=_opset_protos(opsets),
        ir_version=ir_version,
    )
    return [_output_type(types.get(name)) for name in proto.output]


def _infer_as_float(
    schema: OpSchema,
    proto: NodeProto,
    inputs: Sequence[Value | None],
    opsets: Mapping[str, int],
    ir_version: int,
    element_type: int,
) -> list[OutputType]:
    """Infer with fp32 in place of a float type that the operator does not list.

    Exporters write bf16 for operators that gained it only in a later version; shapes do not depend on it.
    """
    from onnx import checker, shape_inference

    as_float = [
        replace(value, element_type=FLOAT, data=None)
        if value is not None and value.element_type == element_type
        else value
        for value in inputs
    ]
    try:
        types = _run_inference(schema, proto, as_float, opsets, ir_version)
    except (shape_inference.InferenceError, checker.ValidationError, ValueError, RuntimeError) as error:
        raise InferenceFailure(_plain_text(str(error))) from error
    return [(element_type if kind == FLOAT else kind, shape) for kind, shape in types]


def _infer_without_schema(proto: NodeProto, inputs: Sequence[Value | None]) -> list[OutputType]:
    given = [value for value in inputs if value is not None]
    unknown: list[OutputType] = [(0, None)] * len(proto.output)
    if not given or not all(value.is_known for value in given):
        return unknown
    if not proto.output:
        return unknown
    if proto.op_type in SAME_SHAPE_OPS:
        return [(given[0].element_type, given[0].shape), *unknown[1:]]
    try:
        shape = np.broadcast_shapes(*(value.dims for value in given))
    except ValueError:
        return unknown
    return [(given[0].element_type, shape), *unknown[1:]]


def _fold_shape(proto: NodeProto, inputs: Sequence[Value | None]) -> list[Array | None]:
    value = inputs[0] if inputs else None
    if value is None or not value.is_known:
        return [None]
    if proto.op_type == "Size":
        return [np.array(value.elements, dtype=np.int64)]
    bounds = {a.name: a.i for a in proto.attribute}
    sizes = value.dims[bounds.get("start", 0) : bounds.get("end", len(value.dims))]
    return [np.array(sizes, dtype=np.int64)]


def _run_reference(
    proto: NodeProto, inputs: Sequence[Value | None], opsets: Mapping[str, int]
) -> list[Array | None] | None:
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    empty = helper.make_empty_tensor_value_info
    given = {name: value.data for name, value in zip(proto.input, inputs, strict=True) if value is not None}
    names = [name for name in proto.output if name]
    graph = helper.make_graph([proto], "fold", [empty(n) for n in given], [empty(n) for n in names])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # 0/0 in a constant is the network's own doing
            evaluator: Any = ReferenceEvaluator(graph, opsets=dict(opsets))  # its methods carry no types
            results: list[Any] = evaluator.run(names, given)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        return None  # the reference cannot run it; a node that needs the value says so
    found = dict(zip(names, results, strict=True))
    return [_small_array(found.get(name)) for name in proto.output]


def _small_array(result: Any) -> Array | None:
    if not isinstance(result, (np.ndarray, np.generic)):
        return None  # a sequence, or an output that was not computed
    array: Array = np.asarray(cast(Any, result))
    return array if array.size <= MAX_FOLDED_ELEMENTS else None


def _type_proto(value: Value) -> TypeProto:
    from onnx import TypeProto

    result = TypeProto()
    result.tensor_type.elem_type = value.element_type
    if value.shape is not None:
        result.tensor_type.shape.SetInParent()
        for size in value.shape:
            dim = result.tensor_type.shape.dim.add()
            if size is not None:
                dim.dim_value = size
    return result


def _tensor_proto(data: Array) -> TensorProto:
    from onnx import numpy_helper

    return numpy_helper.from_array(data)


def _opset_protos(opsets: Mapping[str, int]) -> list[Any]:
    from onnx import helper

    return [helper.make_opsetid(domain, version) for domain, version in opsets.items()]


def _output_type(type_proto: TypeProto | None) -> OutputType:
    if type_proto is None or not type_proto.HasField("tensor_type"):
        return (0, None)
    return type_proto.tensor_type.elem_type, declared_shape(type_proto, {})


def _plain_text(text: str) -> str:
    return text.replace("[ShapeInferenceError] ", "").strip()
