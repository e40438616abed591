"""Pass `hoist-quantize`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import element_of, shape_of, tensor_type
from ..ir.graph import GraphOp, is_op, is_static, made_by
from ..ir.store import DataStore
from ..quantisation.reals import is_int8, step_of
from .base import PassContext
from .rewriting import OpMaker, maker_for, rewritten
from .sink_dequantize import CARRIERS, carried, is_carried

HOISTED = CARRIERS - {"Split"}  # its other results may be quantised otherwise


@dataclass(frozen=True, slots=True)
class HoistQuantize:
    """Quantises before elements are moved, joined or selected; removes quantisation of what was quantised that way.

    Before:
        %3 = "graph.concat"(%1, %2) {axis = 1}
        %4 = "graph.quantize_linear"(%3, %scale, %zero)
    After:
        %5 = "graph.quantize_linear"(%1, %scale, %zero)
        %6 = "graph.quantize_linear"(%2, %scale, %zero)
        %4 = "graph.concat"(%5, %6) {axis = 1}
    """

    name: ClassVar[str] = "hoist-quantize"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def hoist(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, GraphOp) or not is_op(op, "QuantizeLinear") or not is_int8(op.outputs[0]):
                return
            maker = maker_for(op, rewriter, ctx.store)
            found = _cancelled(op, ctx.store) or _hoisted(op, maker, ctx.store)
            if found is not None:
                rewriter.replace(op, [], [found])

        return rewritten(module, hoist)


def _cancelled(op: GraphOp, store: DataStore) -> SSAValue | None:
    """The integers that are dequantised and quantised again in the same way."""
    before = made_by(op.inputs[0], "DequantizeLinear")
    step = step_of(op, store)
    if before is None or step is None or step_of(before, store) != step:
        return None
    return before.inputs[0] if element_of(before.inputs[0]) == element_of(op.outputs[0]) else None


def _hoisted(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    mover, step = made_by(op.inputs[0], *HOISTED), step_of(op, store)
    if mover is None or step is None or len(mover.outputs) != 1 or not mover.outputs[0].has_one_use():
        return None
    sources = list(mover.inputs) if mover.op_type == "Concat" else [mover.inputs[0]]
    if not all(is_static(shape_of(source)) for source in sources) or not is_carried(mover, step, store):
        return None
    attributes = op.onnx_attributes()
    integers = [
        maker.graph(
            "QuantizeLinear", [source, *op.inputs[1:]], tensor_type(shape_of(source), "int8"), attributes,
            version=op.opset,
        )
        for source in sources
    ]  # fmt: skip
    return carried(mover, integers, step, maker, store)[0]
