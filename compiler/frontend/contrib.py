"""Quantised operators of onnxruntime's own operator set (`com.microsoft`), as functions of standard operators.

Source: onnxruntime, `docs/ContribOperators.md`. Its quantisation tool writes them where it is asked for the operator-oriented
format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx import FunctionProto, NodeProto

DOMAIN = "com.microsoft"
OPSET = 13
"""The standard operators' version in the functions, where a node states none."""
Body = tuple[list[str], "list[NodeProto]"]
"""Names of a function's inputs, and its nodes; the output is `y`."""


def contrib_function(proto: NodeProto) -> FunctionProto | None:
    """What a node stands for; None when it is no such operator, or has a form that is not known here."""
    make = _BODIES.get(proto.op_type) if proto.domain == DOMAIN else None
    body = None if make is None else make(proto)
    if body is None:
        return None
    from onnx import helper

    opset = int(_attributes(proto).get("opset", OPSET))
    return helper.make_function(DOMAIN, proto.op_type, body[0], ["y"], body[1], [helper.make_opsetid("", opset)])


def _attributes(proto: NodeProto) -> dict[str, Any]:
    from onnx import helper

    return {attribute.name: helper.get_attribute_value(attribute) for attribute in proto.attribute}


def _node(op_type: str, inputs: Sequence[str], output: str, **attributes: Any) -> NodeProto:
    from onnx import helper

    return helper.make_node(op_type, inputs, [output], name=output, **attributes)


def _dequantised(name: str, **attributes: Any) -> NodeProto:
    return _node("DequantizeLinear", [name, f"{name}_scale", f"{name}_zero"], f"{name}_real", **attributes)


def _triple(name: str) -> list[str]:
    return [name, f"{name}_scale", f"{name}_zero"]


def _joined(names: Sequence[str], op_type: str, **attributes: Any) -> list[NodeProto]:
    """An operator on dequantised values, quantised again."""
    return [
        *map(_dequantised, names),
        _node(op_type, [f"{name}_real" for name in names], "real", **attributes),
        _node("QuantizeLinear", ["real", "y_scale", "y_zero"], "y"),
    ]


def _binary(op_type: str) -> Callable[[NodeProto], Body | None]:
    inputs = [*_triple("a"), *_triple("b"), "y_scale", "y_zero"]
    return lambda _: (inputs, _joined(["a", "b"], op_type))


def _unary(op_type: str, *kept: str) -> Callable[[NodeProto], Body | None]:
    """An operator with one input, which takes some of the node's attributes; channels must come first."""

    def make(proto: NodeProto) -> Body | None:
        attributes = _attributes(proto)
        if attributes.get("channels_last"):
            return None
        found = {name: value for name, value in attributes.items() if name in kept}
        return [*_triple("x"), "y_scale", "y_zero"], _joined(["x"], op_type, **found)

    return make


def _concat(proto: NodeProto) -> Body | None:
    names = [f"x{idx}" for idx in range((len(proto.input) - 2) // 3)]
    inputs = ["y_scale", "y_zero", *(part for name in names for part in _triple(name))]
    return inputs, _joined(names, "Concat", axis=_attributes(proto).get("axis", 0))


def _gemm(proto: NodeProto) -> Body | None:
    attributes = _attributes(proto)
    if attributes.get("alpha", 1.0) != 1.0:
        return None
    transposed = {name: attributes.get(name, 0) for name in ("transA", "transB")}
    nodes = [_dequantised("a"), _dequantised("b", axis=0 if transposed["transB"] else 1)]
    operands = ["a_real", "b_real"]
    if len(proto.input) > 6 and proto.input[6]:
        # The bias has the scale of the products.
        nodes += [
            _node("Mul", ["a_scale", "b_scale"], "c_scale"),
            _node("DequantizeLinear", ["c", "c_scale"], "c_real", axis=0),
        ]
        operands.append("c_real")
    is_real = len(proto.input) < 8 or not proto.input[7]
    nodes.append(_node("Gemm", operands, "y" if is_real else "real", **transposed))
    if not is_real:
        nodes.append(_node("QuantizeLinear", ["real", "y_scale", "y_zero"], "y"))
    return [*_triple("a"), *_triple("b"), "c", "y_scale", "y_zero"], nodes


_WINDOW = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
_BODIES: dict[str, Callable[[NodeProto], Body | None]] = {
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearAveragePool": _unary("AveragePool", *_WINDOW),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearLeakyRelu": _unary("LeakyRelu", "alpha"),
    "QLinearMul": _binary("Mul"),
    "QLinearReduceMean": _unary("ReduceMean", "axes", "keepdims"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearSoftmax": _unary("Softmax", "axis"),
}
