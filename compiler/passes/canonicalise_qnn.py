"""Pass `canonicalise-qnn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.graph import owner_of
from .base import PassContext
from .rewriting import OpMaker, names_of, rewritten
from .sink_transposes import permutation_of


@dataclass(frozen=True, slots=True)
class CanonicaliseQnn:
    """Turns transposes that move nothing in memory into reshapes, and several reshapes into one or none.

    Before:
        %1 = "qnn.transpose"(%0) {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x1x1x64xi8> -> tensor<1x64x1x1xi8>
        %2 = "qnn.reshape"(%1) : tensor<1x64x1x1xi8> -> tensor<1x64xi8>
    After:
        %2 = "qnn.reshape"(%0) : tensor<1x1x1x64xi8> -> tensor<1x64xi8>
    """

    name: ClassVar[str] = "canonicalise-qnn"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def canonicalise(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, (qnn.ReshapeOp, qnn.TransposeOp)):
                return
            found = _simplified(op, OpMaker(rewriter, ctx.store, names_of(op)))
            if found is not None:
                rewriter.replace(op, [], [found])

        return rewritten(module, canonicalise)


def _simplified(op: qnn.ReshapeOp | qnn.TransposeOp, maker: OpMaker) -> SSAValue | None:
    shape, result = shape_of(op.input), shape_of(op.result)
    if isinstance(op, qnn.TransposeOp):
        moved = [axis for axis in permutation_of(op) if shape[axis] != 1]
        is_still = moved == sorted(moved)
        return maker.insert(qnn.ReshapeOp(op.input, result, nodes=maker.nodes)) if is_still else None
    if shape == result:
        return op.input
    before = owner_of(op.input)
    if isinstance(before, qnn.ReshapeOp):
        return maker.insert(qnn.ReshapeOp(before.input, result, nodes=maker.nodes))
    return None
