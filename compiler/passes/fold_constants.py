"""Pass `fold-constants`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

from ...archdsl import CompileError, Rounding
from ..frontend.inference import RANDOM_OPS
from ..interpreters.graph import run_graph_op
from ..interpreters.modules import rounding_of
from ..interpreters.qnn import run_qnn_op
from ..ir.attributes import dtype_of
from ..ir.data import ConstantOp
from ..ir.graph import GraphOp, owner_of
from ..ir.store import DataStore
from .base import PassContext
from .rewriting import names_of, rewritten

DEQUANTISERS = frozenset({"DequantizeLinear"})


@dataclass(frozen=True, slots=True)
class FoldConstants:
    """Computes what depends on constants alone, but for dequantised weights unless asked.

    Attributes:
        folds_weights: Whether dequantised weights become real numbers, for ops that are left to the host.

    Before:
        %1 = "data.constant"() {sha256 = "8d2..."} : tensor<4x8xi8>
        %2 = "graph.transpose"(%1) {perm = array<i64: 1, 0>}
    After:
        %2 = "data.constant"() {sha256 = "5c7..."} : tensor<8x4xi8>
    """

    name: ClassVar[str] = "fold-constants"
    folds_weights: bool = False

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        rounding: Rounding = rounding_of(module)
        kept = RANDOM_OPS if self.folds_weights else RANDOM_OPS | DEQUANTISERS

        def fold(op: Operation, rewriter: PatternRewriter) -> None:
            is_graph = isinstance(op, GraphOp) and op.op_type not in kept
            if op.operands and (is_graph or op.dialect_name() == "qnn"):
                _fold(op, rewriter, ctx.store, rounding)

        return rewritten(module, fold)


def _fold(op: Operation, rewriter: PatternRewriter, store: DataStore, rounding: Rounding) -> None:
    constants = [owner_of(value) for value in op.operands]
    arrays = [constant.array(store) for constant in constants if isinstance(constant, ConstantOp)]
    if len(arrays) != len(constants):
        return
    try:
        results = run_graph_op(op, arrays) if isinstance(op, GraphOp) else [run_qnn_op(op, arrays, rounding)]
    except CompileError:
        return  # what the reference cannot run is left to whoever runs the op
    if any(array.dtype != dtype_of(value) for array, value in zip(results, op.results, strict=True)):
        return
    made = [ConstantOp.of(array, store, names_of(op)) for array in results]
    rewriter.replace(op, made, [constant.result for constant in made])
