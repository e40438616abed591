"""Operands of element-wise ops: int8 tensors of the shape of the result, constants among them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..passes.rewriting import OpMaker
from .reals import Quantised, quantised, quantised_constant


def operand_of(value: SSAValue, shape: Sequence[int], maker: OpMaker) -> Quantised | None:
    """What a float operand is the exact meaning of, in the shape of the result; None where it is nothing of 8 bits."""
    found = quantised(value, maker.store) or _constant_operand(value, shape, maker)
    if found is None or len(shape) < len(shape_of(found.value)):
        return None
    return Quantised(
        value=broadcast(maker, found.value, shape), scale=found.scale, zero_point=found.zero_point
    )  # fmt: skip


def broadcast(maker: OpMaker, value: SSAValue, shape: Sequence[int]) -> SSAValue:
    """A tensor repeated along the axes in which its size is 1 and another is wanted."""
    found = shape_of(value)
    if found == tuple(shape):
        return value
    missing = len(shape) - len(found)
    if missing:
        value = maker.insert(qnn.ReshapeOp(value, [*[1] * missing, *found], nodes=maker.nodes))
    for axis, size in enumerate(shape):
        if shape_of(value)[axis] != size:
            value = maker.insert(qnn.ConcatOp([value] * size, axis, nodes=maker.nodes))
    return value


def moved(maker: OpMaker, value: SSAValue, axis: int, *, back: bool = False) -> SSAValue:
    """A tensor with an axis moved to the last place, or back from there."""
    rank = len(shape_of(value))
    if axis == rank - 1:
        return value
    order = [*(other for other in range(rank) if other != axis), axis]
    if back:
        order = [order.index(place) for place in range(rank)]
    return maker.insert(qnn.TransposeOp(value, order, nodes=maker.nodes))


def _constant_operand(value: SSAValue, shape: Sequence[int], maker: OpMaker) -> Quantised | None:
    found = quantised_constant(value, maker.store)
    if found is None or found.scale.size != 1 or found.zero_point.size != 1:
        return None
    limits = (qnn.LOW, qnn.HIGH)
    zero = int(found.zero_point.ravel()[0])
    if found.integers.min() < limits[0] or found.integers.max() > limits[1] or not limits[0] <= zero <= limits[1]:
        return None
    array = np.ascontiguousarray(np.broadcast_to(found.integers, shape)).astype(np.int8)
    return Quantised(value=maker.constant(array), scale=float(found.scale.ravel()[0]), zero_point=zero)
