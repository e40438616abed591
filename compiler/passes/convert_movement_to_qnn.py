"""Pass `convert-movement-to-qnn`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.graph import REASON, GraphOp
from ..ir.store import DataStore
from ..quantisation.reals import Step, elements_of, is_int8, step_of
from ..quantisation.requantising import Channels, Unsuitable, requantisation
from ..quantisation.windows import channels_first, channels_last
from .base import PassContext
from .canonicalise_graph import permutation_of
from .convert_pools_to_qnn import pool_window
from .rewriting import OpMaker, maker_for, rewritten

UNKNOWN = Step(scale=0.0, zero_point=0)


@dataclass(frozen=True, slots=True)
class ConvertMovementToQnn:
    """Turns ops that move, join or select int8 elements into `qnn` ops.

    Before:
        %1 = "graph.max_pool"(%0) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x8x4x4xi8>
        %2 = "graph.reshape"(%1, %shape) : tensor<1x32xi8>
    After:
        %3 = "qnn.transpose"(%0) {permutation = array<i64: 0, 2, 3, 1>}
        %4 = "qnn.pool2d"(%3, %bias, %multiplier, %shift) {operation = "maximum", kernel = array<i64: 2, 2>, ...}
        %1 = "qnn.transpose"(%4) {permutation = array<i64: 0, 3, 1, 2>}
        %2 = "qnn.reshape"(%1) : tensor<1x32xi8>
    """

    name: ClassVar[str] = "convert-movement-to-qnn"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def convert(op: Operation, rewriter: PatternRewriter) -> None:
            rule = _RULES.get(op.op_type) if isinstance(op, GraphOp) and op.domain == "" else None
            if rule is None or not isinstance(op, GraphOp):
                return
            if not is_int8(op.inputs[0]) or not all(is_int8(result) for result in op.outputs):
                return
            try:
                found = rule(op, maker_for(op, rewriter, ctx.store), ctx.store)
            except Unsuitable as reason:
                op.attributes[REASON] = StringAttr(str(reason))
                return
            rewriter.replace(op, [], found)

        return rewritten(module, convert, once=True)


_Rule: TypeAlias = Callable[[GraphOp, OpMaker, DataStore], Sequence[SSAValue]]


def _reshape(op: GraphOp, maker: OpMaker, store: DataStore) -> Sequence[SSAValue]:
    del store
    return [maker.insert(qnn.ReshapeOp(op.inputs[0], shape_of(op.outputs[0]), nodes=maker.nodes))]


def _transpose(op: GraphOp, maker: OpMaker, store: DataStore) -> Sequence[SSAValue]:
    del store
    return [maker.insert(qnn.TransposeOp(op.inputs[0], permutation_of(op), nodes=maker.nodes))]


def _concat(op: GraphOp, maker: OpMaker, store: DataStore) -> Sequence[SSAValue]:
    del store
    axis = op.int_attribute("axis", 1) % len(shape_of(op.outputs[0]))
    return [maker.insert(qnn.ConcatOp(op.inputs, axis, nodes=maker.nodes))]


def _slice(op: GraphOp, maker: OpMaker, store: DataStore) -> Sequence[SSAValue]:
    shape = shape_of(op.inputs[0])
    starts, ends, axes, steps = (_list_of(op, idx, name, store) for idx, name in enumerate(SLICE_LISTS, 1))
    if starts is None or ends is None:
        raise Unsuitable("its bounds are computed; supported are constants")
    begins, apart = [0] * len(shape), [1] * len(shape)
    for idx, start in enumerate(starts):
        axis = (idx if axes is None else axes[idx]) % len(shape)
        apart[axis] = 1 if steps is None else steps[idx]
        if apart[axis] < 0:
            raise Unsuitable("it runs backwards along an axis; supported are positive steps")
        begins[axis] = slice(start, ends[idx], apart[axis]).indices(shape[axis])[0]
    return [maker.insert(qnn.SliceOp(op.inputs[0], begins, shape_of(op.outputs[0]), apart, nodes=maker.nodes))]


def _split(op: GraphOp, maker: OpMaker, store: DataStore) -> Sequence[SSAValue]:
    del store
    source = op.inputs[0]
    axis = op.int_attribute("axis", 0) % len(shape_of(source))
    parts: list[SSAValue] = []
    begin = [0] * len(shape_of(source))
    for result in op.outputs:
        parts.append(maker.insert(qnn.SliceOp(source, begin, shape_of(result), nodes=maker.nodes)))
        begin[axis] += shape_of(result)[axis]
    return parts


def _pad(op: GraphOp, maker: OpMaker, store: DataStore) -> Sequence[SSAValue]:
    rank = len(shape_of(op.inputs[0]))
    pads, axes = _list_of(op, 1, "pads", store), _list_of(op, 3, "axes", store)
    value = np.zeros(1, np.int8) if op.input(2) is None else elements_of(op.input(2), store)
    if op.text_attribute("mode", "constant") != "constant" or pads is None or value is None or min(pads) < 0:
        raise Unsuitable("supported is padding by constants of known size")
    before, after = [0] * rank, [0] * rank
    for idx, axis in enumerate(range(rank) if axes is None else axes):
        before[axis], after[axis] = pads[idx], pads[len(pads) // 2 + idx]
    padding = int(value.ravel()[0])
    return [maker.insert(qnn.PadOp(op.inputs[0], before, after, padding, nodes=maker.nodes))]


def _max_pool(op: GraphOp, maker: OpMaker, store: DataStore) -> Sequence[SSAValue]:
    if len(op.outputs) != 1:
        raise Unsuitable("the places of its maxima are asked for; supported are the maxima alone")
    window, channels = pool_window(op), shape_of(op.inputs[0])[1]
    step = _meaning(op, store)
    how = requantisation(
        maker,
        Channels(gain=np.ones(channels), offset=np.zeros(channels), low=-np.inf, high=np.inf, axis=3),
        np.full(channels, step.scale or 1.0),
        np.full(channels, -step.zero_point),
        Step(scale=step.scale or 1.0, zero_point=step.zero_point),
    )
    pooled = qnn.Pool2dOp(
        channels_last(maker, op.inputs[0]), "maximum", window.kernel, window.filled(qnn.LOW), how, nodes=maker.nodes
    )  # fmt: skip
    return [channels_first(maker, maker.insert(pooled))]


def _meaning(op: GraphOp, store: DataStore) -> Step:
    """What the elements of an op's result stand for, as whoever dequantises them says."""
    for use in op.outputs[0].uses:
        user = use.operation
        if isinstance(user, GraphOp) and user.op_type == "DequantizeLinear" and use.index == 0:
            return step_of(user, store) or UNKNOWN
    return UNKNOWN


SLICE_LISTS = ("starts", "ends", "axes", "steps")


def _list_of(op: GraphOp, position: int, name: str, store: DataStore) -> tuple[int, ...] | None:
    """A list of sizes, which is an operand or, in older operator sets, an attribute."""
    found = elements_of(op.input(position), store)
    return op.ints_attribute(name) if found is None else tuple(int(value) for value in found.ravel())


_RULES: Mapping[str, _Rule] = {
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "MaxPool": _max_pool,
    "GlobalMaxPool": _max_pool,
}
