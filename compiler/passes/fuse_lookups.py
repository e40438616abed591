"""Pass `fuse-lookups`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ...archdsl import Rounding
from ..interpreters.modules import rounding_of
from ..interpreters.qnn import run_qnn_op
from ..ir import qnn
from ..ir.graph import owner_of
from ..ir.store import Array, DataStore
from ..quantisation.functions import ALL_INT8
from ..quantisation.reals import elements_of
from .base import PassContext
from .convert_functions_to_qnn import table_of
from .rewriting import OpMaker, merged_names, names_of, rewritten


@dataclass(frozen=True, slots=True)
class FuseLookups:
    """Joins chains and graphs of ops that look at one element of one tensor into one table.

    Before:
        %1 = "qnn.lookup"(%0, %table)
        %2 = "qnn.multiply"(%0, %1, ...)
    After:
        %2 = "qnn.lookup"(%0, %other_table)
    """

    name: ClassVar[str] = "fuse-lookups"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        rounding: Rounding = rounding_of(module)

        def fuse(op: Operation, rewriter: PatternRewriter) -> None:
            found = _region(op, ctx.store)
            if found is None:
                return
            source, ops = found
            maker = OpMaker(rewriter, ctx.store, merged_names(*(names_of(inner) for inner in ops)))
            table = maker.constant(table_of(_evaluated(ops, source, ctx.store, rounding)))
            scale, zero = _meaning(op)
            made = qnn.LookupOp(source, table, scale=scale, zero_point=zero, nodes=maker.nodes)
            rewriter.replace(op, made)

        return rewritten(module, fuse)


def _region(op: Operation, store: DataStore) -> tuple[SSAValue, list[Operation]] | None:
    """The tensor that an op is a function of through at least one other op, and the ops in order."""
    ops: list[Operation] = []
    sources: list[SSAValue] = []

    def visit(value: SSAValue) -> None:
        owner = owner_of(value)
        if owner in ops or value in sources:
            return
        if owner is None or not _is_pointwise(owner, store):
            sources.append(value)
            return
        for operand in _activations(owner):
            visit(operand)
        ops.append(owner)

    if not _is_pointwise(op, store):
        return None
    visit(op.results[0])
    return (sources[0], ops) if len(sources) == 1 and len(ops) > 1 else None


def _activations(op: Operation) -> tuple[SSAValue, ...]:
    return tuple(op.operands[: 2 if isinstance(op, (qnn.AddOp, qnn.MultiplyOp)) else 1])


def _is_pointwise(op: Operation, store: DataStore) -> bool:
    """Whether an op does the same to every element."""
    if isinstance(op, qnn.LookupOp):
        return True
    if not isinstance(op, (qnn.AddOp, qnn.MultiplyOp, qnn.RescaleOp)):
        return False
    arrays = [elements_of(value, store) for value in op.operands[len(_activations(op)) :]]
    return all(array is not None and bool(np.all(array == array.ravel()[0])) for array in arrays)


def _evaluated(ops: list[Operation], source: SSAValue, store: DataStore, rounding: Rounding) -> Array:
    """Results of the last op for -128 to 127."""
    found: dict[SSAValue, Array] = {source: ALL_INT8.astype(np.int8)[:, None]}
    for op in ops:
        count = len(_activations(op))
        constants = [elements_of(value, store) for value in op.operands[count:]]
        is_table = isinstance(op, qnn.LookupOp)
        known = [array if is_table else array[:1] for array in constants if array is not None]
        found[op.results[0]] = run_qnn_op(op, [*(found[value] for value in _activations(op)), *known], rounding)
    return found[ops[-1].results[0]][:, 0]


def _meaning(op: Operation) -> tuple[float, int]:
    assert isinstance(op, (qnn.AddOp, qnn.LookupOp, qnn.MultiplyOp, qnn.RescaleOp))
    return float(op.scale.value.data), int(op.zero_point.value.data)
