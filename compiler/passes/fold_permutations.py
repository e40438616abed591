"""Pass `fold-permutations`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp
from ..ir.graph import owner_of
from ..ir.store import DataStore
from .base import PassContext
from .rewriting import OpMaker, names_of, rewritten
from .sink_transposes import permutation_of


@dataclass(frozen=True, slots=True)
class FoldPermutations:
    """Permutes the rows of constant weights instead of the activation that is flattened before them.

    Before:
        %1 = "qnn.transpose"(%0) {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x2x2x8xi8> -> tensor<1x8x2x2xi8>
        %2 = "qnn.reshape"(%1) : tensor<1x32xi8>
        %3 = "qnn.matmul"(%2, %w, ...)
    After:
        %2 = "qnn.reshape"(%0) : tensor<1x32xi8>
        %3 = "qnn.matmul"(%2, %permuted_w, ...)
    """

    name: ClassVar[str] = "fold-permutations"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def fold(op: Operation, rewriter: PatternRewriter) -> None:
            if isinstance(op, qnn.MatMulOp):
                _fold(op, OpMaker(rewriter, ctx.store, names_of(op)), ctx.store)

        return rewritten(module, fold)


def _fold(op: qnn.MatMulOp, maker: OpMaker, store: DataStore) -> None:
    view, weights = owner_of(op.input), owner_of(op.weights)
    if not isinstance(view, qnn.ReshapeOp) or not isinstance(weights, ConstantOp) or len(shape_of(op.weights)) != 2:
        return
    turn = owner_of(view.input)
    if not isinstance(turn, qnn.TransposeOp):
        return
    kept = _num_kept_axes(turn, shape_of(op.input))
    if kept is None:
        return
    order = permutation_of(turn)
    places = np.arange(shape_of(op.input)[-1]).reshape(shape_of(turn.result)[kept:])
    back = np.argsort([axis - kept for axis in order[kept:]])
    rows = weights.array(store)[places.transpose(back).ravel()]
    made = maker.insert(ConstantOp(store.add(rows), op.weights.type, names_of(weights)))  # pyright: ignore[reportArgumentType]
    flat = maker.insert(qnn.ReshapeOp(turn.input, shape_of(op.input), nodes=names_of(view)))
    maker.rewriter.replace(op, qnn.MatMulOp(flat, made, qnn.requantisation_of(op), nodes=maker.nodes))


def _num_kept_axes(turn: qnn.TransposeOp, flat: tuple[int, ...]) -> int | None:
    """How many leading axes a transpose keeps before all others are flattened; None where it is not so."""
    order, shape = permutation_of(turn), shape_of(turn.result)
    for kept in range(len(shape)):
        if math.prod(shape[kept:]) == flat[-1] and math.prod(shape[:kept]) == math.prod(flat[:-1]):
            return kept if order[:kept] == tuple(range(kept)) else None
    return None
