"""Pass `canonicalise-graph`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import Tensor, element_of, shape_of, typed_like
from ..ir.graph import GraphOp, is_static, made_by
from ..ir.store import DataStore
from ..quantisation.reals import elements_of
from .base import PassContext
from .rewriting import OpMaker, maker_for, rewritten

MAX_RUNS = 64
"""Slices that a gather may become."""
VIEWS = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that give the same elements another shape."""


@dataclass(frozen=True, slots=True)
class CanonicaliseGraph:
    """Gives ops that do the same one form, and removes those that do nothing.

    Views become `graph.reshape` with a constant shape, `gather` along known indices becomes `slice`, transposes of transposes and
    views of views become one, and `identity`, `dropout`, and transposes, views and casts that change nothing go.

    Before:
        %1 = "graph.flatten"(%0) {axis = 1} : (tensor<1x8x2x2xf32>) -> tensor<1x32xf32>
        %2 = "graph.identity"(%1)
        %3 = "graph.unsqueeze"(%2) {axes = array<i64: 0>} : (tensor<1x32xf32>) -> tensor<1x1x32xf32>
    After:
        %1 = "data.constant"() {sha256 = "9c1..."} : tensor<3xi64>
        %3 = "graph.reshape"(%0, %1) : (tensor<1x8x2x2xf32>, tensor<3xi64>) -> tensor<1x1x32xf32>
    """

    name: ClassVar[str] = "canonicalise-graph"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def canonicalise(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, GraphOp) or op.domain or not is_static(shape_of(op.outputs[0])):
                return
            rule = _RULES.get(op.op_type)
            found = None if rule is None else rule(op, maker_for(op, rewriter, ctx.store), ctx.store)
            if found is not None:
                rewriter.replace(op, [], [found, *[None] * (len(op.outputs) - 1)])

        return rewritten(module, canonicalise)


_Rule: TypeAlias = Callable[[GraphOp, OpMaker, DataStore], SSAValue | None]


def reshaped(maker: OpMaker, value: SSAValue, result: Tensor) -> SSAValue:
    """A `graph.reshape` to the shape of a type."""
    shape = maker.constant(np.array(result.get_shape(), dtype=np.int64))
    return maker.graph("Reshape", [value, shape], result)


def _same(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    """An op that does nothing."""
    del maker, store
    return op.inputs[0]


def _dropout(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    del maker
    training = op.input(2)
    known = elements_of(training, store)
    trains = training is not None and (known is None or bool(known.any()))
    return None if trains or any(result.first_use for result in op.outputs[1:]) else op.inputs[0]


def _cast(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    del maker, store
    return op.inputs[0] if element_of(op.inputs[0]) == element_of(op.outputs[0]) else None


def _view(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    source, shape = op.inputs[0], shape_of(op.outputs[0])
    if shape_of(source) == shape:
        return source
    before = made_by(source, "Reshape")
    stated = elements_of(op.input(1), store)
    if before is None and op.op_type == "Reshape" and stated is not None and tuple(stated.tolist()) == shape:
        return None
    return reshaped(maker, source if before is None else before.inputs[0], typed_like(op.outputs[0], shape))


def _transpose(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    del store
    source = op.inputs[0]
    axes = permutation_of(op)
    if axes == tuple(range(len(axes))):
        return source
    before = made_by(source, "Transpose")
    if before is None:
        return None
    first = permutation_of(before)
    joined = tuple(first[axis] for axis in axes)
    result = typed_like(op.outputs[0], shape_of(op.outputs[0]))
    return maker.graph("Transpose", [before.inputs[0]], result, {"perm": joined})


def _gather(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    """A gather along known indices, as slices of neighbours joined, and a view."""
    indices, source = elements_of(op.inputs[1], store), op.inputs[0]
    if indices is None or indices.size == 0 or not is_static(shape_of(source)):
        return None
    shape = list(shape_of(source))
    axis = op.int_attribute("axis", 0) % len(shape)
    wanted = [int(index) % shape[axis] for index in indices.ravel()]
    runs = _runs(wanted)
    if len(runs) > MAX_RUNS:
        return None
    parts: list[SSAValue] = []
    for first, end in runs:
        bounds = [maker.constant(np.array([at], np.int64)) for at in (first, end, axis)]
        shape[axis] = end - first
        parts.append(maker.graph("Slice", [source, *bounds], typed_like(source, shape)))
    shape[axis] = len(wanted)
    joined = parts[0] if len(parts) == 1 else maker.graph("Concat", parts, typed_like(source, shape), {"axis": axis})
    return reshaped(maker, joined, typed_like(source, shape_of(op.outputs[0])))


def _runs(indices: list[int]) -> list[tuple[int, int]]:
    """Indices as ranges, first and end, of those that follow each other."""
    runs: list[tuple[int, int]] = []
    for index in indices:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def permutation_of(op: GraphOp) -> tuple[int, ...]:
    """The permutation of a `graph.transpose`, which is reversal where it says none."""
    return op.ints_attribute("perm") or tuple(reversed(range(len(shape_of(op.inputs[0])))))


_RULES: Mapping[str, _Rule] = {
    "Identity": _same,
    "Dropout": _dropout,
    "Cast": _cast,
    **dict.fromkeys(VIEWS, _view),
    "Transpose": _transpose,
    "Gather": _gather,
}
