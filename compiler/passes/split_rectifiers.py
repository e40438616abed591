"""Pass `split-rectifiers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import shape_of, tensor_type, typed_like
from ..ir.graph import GraphOp, is_op, made_by
from ..ir.store import DataStore
from ..quantisation.epilogues import epilogue_of
from ..quantisation.reals import is_int8, quantised, real_constant, step_of
from .base import PassContext
from .quantise_intermediates import CORES
from .rewriting import OpMaker, merged_names, rewritten


@dataclass(frozen=True, slots=True)
class SplitRectifiers:
    """Computes a product twice where a leaky rectifier stands between it and its quantisation: once for each side of 0.

    One 8-bit step for both sides, before the rectifier, would be as coarse as the side with the smaller slope needs; each
    side alone is an affine map with a limit, which requantisation computes without another rounding.

    Before:
        %2 = "graph.conv"(%0, %w)
        %3 = "graph.leaky_relu"(%2) {alpha = 0.1}
        %4 = "graph.quantize_linear"(%3, %scale, %zero)
    After:
        %2 = "graph.conv"(%0, %w)
        %5 = "graph.clip"(%2, %zero) and %6 = "graph.clip"(%2, %none, %zero), the latter times 0.1
        %4 = quantised sum of both, each quantised with %scale, %zero
    """

    name: ClassVar[str] = "split-rectifiers"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def split(op: Operation, rewriter: PatternRewriter) -> None:
            if isinstance(op, GraphOp) and is_op(op, "QuantizeLinear") and is_int8(op.outputs[0]):
                found = _split(op, rewriter, ctx.store)
                if found is not None:
                    rewriter.replace(op, [], [found])

        return rewritten(module, split, once=True)


def _split(op: GraphOp, rewriter: PatternRewriter, store: DataStore) -> SSAValue | None:
    rectifier = made_by(op.inputs[0], "LeakyRelu", "PRelu")
    if rectifier is None or step_of(op, store) is None or quantised(rectifier.inputs[0], store) is not None:
        return None
    if made_by(epilogue_of(rectifier.inputs[0], store).source, *CORES) is None:
        return None
    slope = np.array(rectifier.float_attribute("alpha", 0.01))
    if rectifier.op_type == "PRelu":
        given = real_constant(rectifier.inputs[1], store)
        if given is None or np.any(given < 0):
            return None
        slope = given
    maker = OpMaker(rewriter, store, merged_names(rectifier.node_names, op.node_names))
    source, kind = rectifier.inputs[0], typed_like(op.inputs[0], shape_of(op.inputs[0]))
    zero = maker.constant(np.array(0, np.float32))
    positive = maker.graph("Clip", [source, zero], kind)
    negative = maker.graph("Clip", [source, None, zero], kind)
    sides = [positive, maker.graph("Mul", [negative, maker.constant(slope.astype(np.float32))], kind)]
    integers = [_quantised(op, side, maker) for side in sides]
    reals = [maker.graph("DequantizeLinear", [side, *op.inputs[1:]], kind) for side in integers]
    return _quantised(op, maker.graph("Add", reals, kind), maker)


def _quantised(op: GraphOp, value: SSAValue, maker: OpMaker) -> SSAValue:
    """A value quantised as `op` does it."""
    kind = tensor_type(shape_of(value), "int8")
    return maker.graph("QuantizeLinear", [value, *op.inputs[1:]], kind, op.onnx_attributes(), version=op.opset)
