"""Pass `lower-one-dimensional`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import shape_of, typed_like
from ..ir.graph import GraphOp, Plain, is_op, is_static
from .base import PassContext
from .canonicalise_graph import reshaped
from .rewriting import OpMaker, maker_for, rewritten

WINDOWED = ("Conv", "AveragePool", "MaxPool", "GlobalAveragePool", "GlobalMaxPool")


@dataclass(frozen=True, slots=True)
class LowerOneDimensional:
    """Gives convolutions and pooling over one axis a second axis of size 1.

    Before:
        %2 = "graph.conv"(%0, %1) {kernel_shape = array<i64: 3>} : (tensor<1x4x9xf32>, tensor<8x4x3xf32>)
    After:
        %3 = "graph.reshape"(%0, %shape) : (tensor<1x4x9xf32>, tensor<4xi64>) -> tensor<1x4x1x9xf32>
        %4 = "graph.reshape"(%1, %shape) : (tensor<8x4x3xf32>, tensor<4xi64>) -> tensor<8x4x1x3xf32>
        %5 = "graph.conv"(%3, %4) {kernel_shape = array<i64: 1, 3>}
        %2 = "graph.reshape"(%5, %shape) : (tensor<1x8x1x7xf32>, tensor<3xi64>) -> tensor<1x8x7xf32>
    """

    name: ClassVar[str] = "lower-one-dimensional"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def lower(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, GraphOp) or not is_op(op, *WINDOWED) or len(op.outputs) != 1:
                return
            shapes = [shape_of(value) for value in (op.inputs[0], op.outputs[0])]
            if len(shapes[0]) == 3 and all(is_static(shape) for shape in shapes):
                rewriter.replace(op, [], [_lowered(op, maker_for(op, rewriter, ctx.store))])

        return rewritten(module, lower)


def _lowered(op: GraphOp, maker: OpMaker) -> SSAValue:
    inputs: list[SSAValue | None] = [_widened(value, maker) for value in op.inputs]
    result = op.outputs[0]
    batch, channels, width = shape_of(result)
    wide = typed_like(result, [batch, channels, 1, width])
    pooled = maker.graph(op.op_type, inputs, wide, _attributes(op), version=op.opset)
    return reshaped(maker, pooled, typed_like(result, [batch, channels, width]))


def _widened(value: SSAValue, maker: OpMaker) -> SSAValue:
    """The value with an axis of size 1 before its last one; biases stay."""
    shape = shape_of(value)
    if len(shape) != 3:
        return value
    return reshaped(maker, value, typed_like(value, [*shape[:2], 1, shape[2]]))


def _attributes(op: GraphOp) -> dict[str, Plain]:
    attributes = op.onnx_attributes()
    for name in ("kernel_shape", "strides", "dilations"):
        values = op.ints_attribute(name)
        if values is not None:
            attributes[name] = (1, *values)
    pads = op.ints_attribute("pads")
    if pads is not None:
        attributes["pads"] = (0, pads[0], 0, pads[1])
    return attributes
