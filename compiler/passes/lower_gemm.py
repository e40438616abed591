"""Pass `lower-gemm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import shape_of, typed_like
from ..ir.graph import GraphOp, is_op
from ..ir.store import DataStore
from .base import PassContext
from .rewriting import OpMaker, maker_for, rewritten


@dataclass(frozen=True, slots=True)
class LowerGemm:
    """Turns `gemm` into a matrix product and what it does besides.

    Before:
        %3 = "graph.gemm"(%0, %1, %2) {transB = 1, alpha = 0.5}
    After:
        %4 = "graph.transpose"(%1) {perm = array<i64: 1, 0>}
        %5 = "graph.matmul"(%0, %4)
        %6 = "graph.mul"(%5, %half)
        %3 = "graph.add"(%6, %2)
    """

    name: ClassVar[str] = "lower-gemm"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def lower(op: Operation, rewriter: PatternRewriter) -> None:
            if isinstance(op, GraphOp) and is_op(op, "Gemm"):
                rewriter.replace(op, [], [_lowered(op, maker_for(op, rewriter, ctx.store), ctx.store)])

        return rewritten(module, lower)


def _lowered(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue:
    del store
    result = op.outputs[0]
    first = _transposed(op.inputs[0], op.int_attribute("transA", 0), maker)
    second = _transposed(op.inputs[1], op.int_attribute("transB", 0), maker)
    kind = typed_like(result, shape_of(result))
    product = _scaled(maker.graph("MatMul", [first, second], kind), op.float_attribute("alpha", 1.0), maker)
    added = op.input(2)
    if added is None:
        return product
    return maker.graph("Add", [product, _scaled(added, op.float_attribute("beta", 1.0), maker)], kind)


def _transposed(value: SSAValue, wanted: int, maker: OpMaker) -> SSAValue:
    if not wanted:
        return value
    rows, cols = shape_of(value)
    return maker.graph("Transpose", [value], typed_like(value, [cols, rows]), {"perm": (1, 0)})


def _scaled(value: SSAValue, factor: float, maker: OpMaker) -> SSAValue:
    if factor == 1.0:
        return value
    constant = maker.constant(np.array(factor, dtype=np.float32))
    return maker.graph("Mul", [value, constant], typed_like(value, shape_of(value)))
