"""Pass `sink-transposes`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp
from ..ir.graph import owner_of
from ..quantisation.reals import elements_of
from .base import PassContext
from .rewriting import OpMaker, names_of, rewritten

Permutation = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SinkTransposes:
    """Moves transposes behind ops that look at one element at a time, until two of them meet and cancel.

    Before:
        %1 = "qnn.transpose"(%0) {permutation = array<i64: 0, 3, 1, 2>}
        %2 = "qnn.lookup"(%1, %table)
        %3 = "qnn.transpose"(%2) {permutation = array<i64: 0, 2, 3, 1>}
    After:
        %3 = "qnn.lookup"(%0, %table)
    """

    name: ClassVar[str] = "sink-transposes"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def sink(op: Operation, rewriter: PatternRewriter) -> None:
            maker = OpMaker(rewriter, ctx.store, names_of(op))
            found = _merged(op, maker) if isinstance(op, qnn.TransposeOp) else _sunk(op, maker)
            if found is not None:
                rewriter.replace(op, [], [found])

        return rewritten(module, sink)


def _merged(op: qnn.TransposeOp, maker: OpMaker) -> SSAValue | None:
    """One transpose in place of two; none where it changes nothing."""
    order, before = permutation_of(op), owner_of(op.input)
    if order == tuple(range(len(order))):
        return op.input
    if not isinstance(before, qnn.TransposeOp):
        return None
    first = permutation_of(before)
    joined = [first[axis] for axis in order]
    return maker.insert(qnn.TransposeOp(before.input, joined, nodes=maker.nodes))


def _sunk(op: Operation, maker: OpMaker) -> SSAValue | None:
    """An op on what its operands were transposed from, and a transpose behind it."""
    count = _num_activations(op)
    if count == 0:
        return None
    transposes = [owner_of(value) for value in op.operands[:count]]
    orders = {permutation_of(found) for found in transposes if isinstance(found, qnn.TransposeOp)}
    if len(orders) != 1:
        return None
    order = orders.pop()
    if not all(isinstance(found, (qnn.TransposeOp, ConstantOp)) for found in transposes):
        return None
    is_last_kept = order[-1] == len(order) - 1
    if not is_last_kept and not all(_is_uniform(vector, maker) for vector in _vectors(op)):
        return None  # its channels would become another axis, and differ
    made = _applied(op, [_before(value, order, maker) for value in op.operands[:count]], order, maker)
    return maker.insert(qnn.TransposeOp(maker.insert(made), order, nodes=maker.nodes))


def _num_activations(op: Operation) -> int:
    """How many of an op's operands are activations; 0 for ops that look at more than one element."""
    match op:
        case qnn.LookupOp() | qnn.RescaleOp() | qnn.SliceOp() | qnn.PadOp():
            return 1
        case qnn.AddOp() | qnn.MultiplyOp():
            return 2
        case qnn.ConcatOp():
            return len(op.inputs)
        case _:
            return 0


def _vectors(op: Operation) -> list[SSAValue]:
    """The constants of an op that have one element per channel."""
    if not isinstance(op, (qnn.AddOp, qnn.MultiplyOp, qnn.RescaleOp)):
        return []
    return [*qnn.requantisation_of(op).operands, *([op.weights] if isinstance(op, qnn.RescaleOp) else [])]


def _before(value: SSAValue, order: Permutation, maker: OpMaker) -> SSAValue:
    """What a value was transposed from; constants are turned back here."""
    found = owner_of(value)
    if isinstance(found, qnn.TransposeOp):
        return found.input
    assert isinstance(found, ConstantOp)
    return maker.constant(np.ascontiguousarray(found.array(maker.store).transpose(np.argsort(order))))


def _applied(op: Operation, sources: Sequence[SSAValue], order: Permutation, maker: OpMaker) -> Operation:
    """The op on the sources."""
    source, nodes = sources[0], maker.nodes
    match op:
        case qnn.LookupOp():
            scale, zero = float(op.scale.value.data), int(op.zero_point.value.data)
            return qnn.LookupOp(source, op.table, scale=scale, zero_point=zero, nodes=nodes)
        case qnn.ConcatOp():
            return qnn.ConcatOp(sources, order[int(op.axis.value.data)], nodes=nodes)
        case qnn.SliceOp():
            begin, steps, sizes = (
                _unturned(values, order)
                for values in (op.begin.get_values(), op.steps.get_values(), shape_of(op.result))
            )
            return qnn.SliceOp(source, begin, sizes, steps, nodes=nodes)
        case qnn.PadOp():
            before, after = (_unturned(values.get_values(), order) for values in (op.before, op.after))
            return qnn.PadOp(source, before, after, int(op.value.value.data), nodes=nodes)
        case _:
            assert isinstance(op, (qnn.AddOp, qnn.MultiplyOp, qnn.RescaleOp))
            return _requantised(op, sources, order, maker)


def _requantised(
    op: qnn.RescaleOp | qnn.AddOp | qnn.MultiplyOp, sources: Sequence[SSAValue], order: Permutation, maker: OpMaker
) -> Operation:
    how = qnn.requantisation_of(op)
    size = None if order[-1] == len(order) - 1 else shape_of(sources[0])[-1]
    bias, multiplier, shift, *weights = (_resized(vector, size, maker) for vector in _vectors(op))
    how = replace(how, bias=bias, multiplier=multiplier, shift=shift)
    match op:
        case qnn.RescaleOp():
            return qnn.RescaleOp(sources[0], weights[0], how, nodes=maker.nodes)
        case qnn.AddOp():
            first, second = op.factors.get_values()
            return qnn.AddOp(sources[0], sources[1], (int(first), int(second)), how, nodes=maker.nodes)
        case qnn.MultiplyOp():
            first, second = op.zero_points.get_values()
            return qnn.MultiplyOp(sources[0], sources[1], (int(first), int(second)), how, nodes=maker.nodes)


def _is_uniform(vector: SSAValue, maker: OpMaker) -> bool:
    array = elements_of(vector, maker.store)
    return array is not None and bool(np.all(array == array[0]))


def _resized(vector: SSAValue, size: int | None, maker: OpMaker) -> SSAValue:
    """A vector of equal elements in another size; the vector itself where its size stays."""
    array = None if size is None else elements_of(vector, maker.store)
    return vector if size is None or array is None else maker.constant(np.full(size, array[0], dtype=array.dtype))


def _unturned(values: Sequence[int], order: Permutation) -> list[int]:
    """Numbers per axis of a transpose's result as numbers per axis of its input."""
    return [int(values[order.index(axis)]) for axis in range(len(order))]


def permutation_of(op: qnn.TransposeOp) -> Permutation:
    """The permutation of a `qnn.transpose`."""
    return tuple(int(axis) for axis in op.permutation.get_values())
