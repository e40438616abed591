"""Reshapes and transposes where a program begins and ends: done by where elements stand in main memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of

MOVES = (qnn.ReshapeOp, qnn.TransposeOp)


def moves_behind(value: SSAValue) -> list[Operation]:
    """Reshapes and transposes through which alone a value is read, in their order."""
    found: list[Operation] = []
    while True:
        users = {use.operation for use in value.uses}
        if len(users) != 1:
            return found
        user = users.pop()
        if not isinstance(user, MOVES):
            return found
        found.append(user)
        value = user.results[0]


def moves_before(value: SSAValue) -> list[Operation]:
    """Reshapes and transposes that make a value of one that nothing else reads, in their order."""
    found: list[Operation] = []
    while isinstance(value.owner, MOVES) and len(list(value.owner.input.uses)) == 1:
        found.insert(0, value.owner)
        value = value.owner.input
    return found


def strides_before(strides: Sequence[int], moves: Sequence[Operation]) -> tuple[int, ...] | None:
    """Bytes along each axis of what goes into some moves, by those of their result; None where no strides are right."""
    offsets = _offsets(shape_of(moves[-1].results[0]), strides)
    for op in reversed(moves):
        shape = shape_of(op.operands[0])
        if isinstance(op, qnn.TransposeOp):
            offsets = offsets.transpose(np.argsort(op.permutation.get_values()))
        offsets = offsets.reshape(shape)
    return _strides_of(offsets)


def strides_behind(strides: Sequence[int], moves: Sequence[Operation]) -> tuple[int, ...] | None:
    """Bytes along each axis of the result of some moves, by those of what goes in; None where no strides are right."""
    offsets = _offsets(shape_of(moves[0].operands[0]), strides)
    for op in moves:
        if isinstance(op, qnn.TransposeOp):
            offsets = offsets.transpose(op.permutation.get_values())
        offsets = offsets.reshape(shape_of(op.results[0]))
    return _strides_of(offsets)


def _offsets(shape: Sequence[int], strides: Sequence[int]) -> npt.NDArray[np.int64]:
    """Byte of every element."""
    found = np.zeros(shape, dtype=np.int64)
    for axis, (size, step) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(size) * step).reshape([-1 if at == axis else 1 for at in range(len(shape))])
    return found


def _strides_of(offsets: npt.NDArray[np.int64]) -> tuple[int, ...] | None:
    first = offsets.reshape(-1)[0]
    steps = tuple(
        int(np.take(offsets, 1, axis=axis).reshape(-1)[0] - first) if size > 1 else 1
        for axis, size in enumerate(offsets.shape)
    )
    is_right = bool((offsets == first + _offsets(offsets.shape, steps)).all()) and all(step > 0 for step in steps)
    return steps if is_right else None
