"""Small ONNX models for tests, and where the larger ones lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tileloom.archdsl import Op, VectorOp, Workload
from tileloom.compiler.frontend.flattening import flatten
from tileloom.compiler.frontend.importer import build_workload
from tileloom.compiler.frontend.reading import check_model

FLOAT, INT8, UINT8, INT32, INT64 = (
    int(t) for t in (TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32, TensorProto.INT64)
)
BOOL = int(TensorProto.BOOL)
DATA = Path(__file__).parents[4] / "shared" / "data"
Shape = Sequence[int | str]


def tensor(name: str, shape: Shape | None, element_type: int = FLOAT) -> ValueInfoProto:
    """A typed input or output."""
    return helper.make_tensor_value_info(name, element_type, shape)


def constant(name: str, array: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> TensorProto:
    """A weight or a list of sizes."""
    return numpy_helper.from_array(np.asarray(array, dtype=dtype), name)


def weightless(name: str, shape: Sequence[int], element_type: int = FLOAT) -> TensorProto:
    """A weight whose values are in a file that does not exist."""
    result = TensorProto(name=name, data_type=element_type, dims=shape, data_location=TensorProto.EXTERNAL)
    result.external_data.add(key="location", value="not_there.bin")
    return result


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[str | ValueInfoProto],
    weights: Sequence[TensorProto] = (),
    *,
    opset: int = 17,
    functions: Sequence[FunctionProto] = (),
    domains: Sequence[str] = (),
) -> ModelProto:
    """A model; outputs given by name have no stated type."""
    typed = [helper.make_empty_tensor_value_info(o) if isinstance(o, str) else o for o in outputs]
    graph = helper.make_graph(list(nodes), "g", list(inputs), typed, list(weights))
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=9)


def load(
    network: ModelProto,
    shapes: Mapping[str, int] | None = None,
    *,
    strict: bool = False,
    datatype: str | None = None,
    acc_bits: int | None = None,
    fuse: bool = False,
) -> Workload:
    """Import a model that is in memory."""
    check_model(network, "net.onnx")
    graph = flatten(network, "net.onnx", shapes)
    return build_workload(graph, "net.onnx", strict=strict, datatype=datatype, acc_bits=acc_bits, fuse=fuse)


def only_op(workload: Workload) -> Op:
    """The one op of multiply-accumulates."""
    (op,) = workload.mac_ops()
    return op


def only_vector_op(workload: Workload) -> VectorOp:
    """The one vector op."""
    (op,) = workload.vector_ops()
    return op


def axes_of(op: Op, name: str) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Projection of a tensor, as nested tuples."""
    return tuple(axis.terms for axis in op.tensor(name).axes)
