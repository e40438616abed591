"""Pass `lower-means`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import shape_of, typed_like
from ..ir.graph import GraphOp, is_op, is_static
from ..ir.store import DataStore
from ..quantisation.reals import elements_of
from .base import PassContext
from .canonicalise_graph import reshaped
from .rewriting import OpMaker, maker_for, rewritten


@dataclass(frozen=True, slots=True)
class LowerMeans:
    """Turns means over any axes into global average pooling.

    Before:
        %1 = "graph.reduce_mean"(%0) {axes = array<i64: 2, 3>, keepdims = 0} : (tensor<1x8x4x4xf32>) -> tensor<1x8xf32>
    After:
        %2 = "graph.global_average_pool"(%0) : (tensor<1x8x4x4xf32>) -> tensor<1x8x1x1xf32>
        %1 = "graph.reshape"(%2, %shape) : (tensor<1x8x1x1xf32>, tensor<2xi64>) -> tensor<1x8xf32>
    """

    name: ClassVar[str] = "lower-means"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def lower(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, GraphOp) or not is_op(op, "ReduceMean"):
                return
            axes = reduced_axes(op, ctx.store)
            if axes and is_static(shape_of(op.inputs[0])):
                rewriter.replace(op, [], [_lowered(op, axes, maker_for(op, rewriter, ctx.store))])

        return rewritten(module, lower)


def reduced_axes(op: GraphOp, store: DataStore) -> tuple[int, ...]:
    """The axes that an op reduces, in order; none where they are not known or it does nothing."""
    rank = len(shape_of(op.inputs[0]))
    stated = op.ints_attribute("axes")
    if op.input(1) is not None:
        known = elements_of(op.input(1), store)
        if known is None:
            return ()
        stated = tuple(int(axis) for axis in known)
    if not stated:
        return () if op.int_attribute("noop_with_empty_axes", 0) else tuple(range(rank))
    return tuple(sorted(axis % rank for axis in stated))


def _lowered(op: GraphOp, axes: tuple[int, ...], maker: OpMaker) -> SSAValue:
    source, shape = op.inputs[0], shape_of(op.inputs[0])
    image = source
    if not (len(shape) == 4 and axes == (2, 3)):
        kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
        order = (*kept, *axes)
        if order != tuple(range(len(shape))):
            moved = typed_like(source, [shape[axis] for axis in order])
            image = maker.graph("Transpose", [source], moved, {"perm": order})
        sizes = [math.prod(shape[axis] for axis in group) for group in (kept, axes)]
        image = reshaped(maker, image, typed_like(source, [1, sizes[0], 1, sizes[1]]))
    batch, channels = shape_of(image)[:2]
    pooled = maker.graph("GlobalAveragePool", [image], typed_like(source, [batch, channels, 1, 1]))
    return reshaped(maker, pooled, typed_like(source, shape_of(op.outputs[0])))
