"""Ops that only move elements: strided copies on the vector unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...archdsl import PassError
from ..ir.tile import SCRATCHPAD, Linear, PlaceOp, StoreOp, VectorOp, ViewOp, bytes_memref, indexed, space_of
from .activations import Format
from .limits import no_room
from .loops import equal_parts, split
from .target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Where the elements of a box stand.

    Attributes:
        buffer: In which buffer or place.
        begin: Byte of the first element.
        strides: Bytes from one element to the next along each axis.
    """

    buffer: SSAValue
    begin: int
    strides: tuple[int, ...]


def strides_of(format_: Format, shape: Sequence[int]) -> tuple[int, ...]:
    """Bytes from one element of an activation to the next along each axis of its shape, which may have any rank."""
    if len(shape) == 4:
        return format_.strides
    outer = [math.prod(shape[axis:-1]) * format_.pixel_bytes for axis in range(1, len(shape))]
    return (*outer, 1)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Bytes along each axis of elements side by side."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def place_for(target: Target, num_bytes: int, what: str) -> PlaceOp:
    """A place of some bytes.

    Raises:
        InfeasibleError: There is not so much room.
    """
    if num_bytes > target.staging_bytes:
        raise no_room(target.array, ((what, num_bytes),), target.staging_bytes)
    return PlaceOp.build(result_types=[bytes_memref(1, num_bytes, SCRATCHPAD)])


def copy_parameters(target: Target, added: int = 0) -> SSAValue:
    """Channel parameters that leave elements as they are, and add something."""
    ones = np.ones(target.columns, dtype=np.int64)
    return target.channel_parameters("copy", ones * added, ones, ones * 0)


def copy_ops(
    target: Target, shape: Sequence[int], read: Box, write: Box, parameters: SSAValue, *, scalar: int = 1
) -> list[Operation]:
    """The loops of a copy: vectors of neighbours where there are such on both sides, else one element at a time.

    Args:
        target: The array.
        shape: Elements along each axis.
        read: Where from; in the scratchpad.
        write: Where to.
        parameters: Channel parameters of one tile of channels, in main memory.
        scalar: Every element is multiplied by it; 0 fills the box with what the channel parameters add.

    Raises:
        PassError: Stores to main memory cannot reach the elements.
    """
    lanes, axes = _axes(target, shape, read, write)
    axes += [(1, 0, 0)] * (2 - len(axes))
    # The two longest loops are those of an instruction.
    *outer, y_axis, x_axis = sorted(axes)
    num_x = equal_parts(x_axis[0], min(x_axis[0], target.most_vectors))
    num_y = equal_parts(y_axis[0], min(y_axis[0], max(1, target.most_vectors // num_x)))
    width = read.begin + sum((size - 1) * step for size, step, _ in (*outer, x_axis)) + lanes
    is_moving = y_axis[1] != 0  # else all rows are one
    view = ViewOp(read.buffer, 0, y_axis[0] if is_moving else 1, width, y_axis[1] or width)
    slot = target.parameters_op(parameters, Linear())

    def moved(read_at: Linear, write_at: Linear, y: Linear, y_count: int, x_count: int) -> list[Operation]:
        sums = target.sums_op(y_count * x_count)
        maps = {
            "y": y if is_moving else Linear(),
            "x": read_at,
            "values_at": Linear(),
            "sums_at": Linear(),
            "accumulate": Linear(),
        }
        sizes: dict[str, int | str] = {
            "columns": lanes, "y_count": y_count, "x_count": x_count, "y_step": int(is_moving), "x_step": x_axis[1], "values_step": 0,
            "padding": 0, "operation": "add", "operand": "scalar", "scalar": scalar, "shift": 0, "lanes": "separate",
            "hold": 0, "input_bits": 8,
        }  # fmt: skip
        walk = VectorOp.build(**indexed([[view.result], [], [sums.result]], maps, sizes))
        sizes = {
            "y_count": y_count, "x_count": x_count, "y_pitch": y_axis[2], "x_pitch": x_axis[2], "columns": lanes,
            "zero_point": 0, "low": -128, "high": 127, "bits": 8,
        }  # fmt: skip
        maps = {"sums_at": Linear(), "write_at": write_at}
        store = StoreOp.build(**indexed([[sums.result], [slot.result], [], [write.buffer]], maps, sizes))
        return [sums, walk, store]

    def inner(read_at: Linear, write_at: Linear) -> list[Operation]:
        return split(
            y_axis[0], num_y,
            lambda y, y_count: split(
                x_axis[0], num_x,
                lambda x, x_count: moved(
                    read_at + x * (num_x * x_axis[1]), write_at + y * (num_y * y_axis[2]) + x * (num_x * x_axis[2]),
                    y * num_y, y_count, x_count,
                ),
            ),
        )  # fmt: skip

    def nested(axes: Sequence[tuple[int, int, int]], read_at: Linear, write_at: Linear) -> list[Operation]:
        if not axes:
            return inner(read_at, write_at)
        (size, read_step, write_step), *rest = axes
        return split(size, 1, lambda at, _: nested(rest, read_at + at * read_step, write_at + at * write_step))

    return [view, slot, *nested(outer, Linear(read.begin), Linear(write.begin))]


def _axes(target: Target, shape: Sequence[int], read: Box, write: Box) -> tuple[int, list[tuple[int, int, int]]]:
    """Lanes of a vector, and (size, read stride, write stride) of what is left to loop over."""
    axes = list(zip(shape, read.strides, write.strides, strict=True))
    size, read_step, write_step = axes[-1]
    array, lanes = target.array, 1
    if read_step in (0, 1) and write_step == 1:
        # A vector must lie within a word of the scratchpad, or begin at a multiple of itself in main memory.
        steps = [write.begin, *(step for num, _, step in axes[:-1] if num > 1)]
        while lanes * 2 <= array.cols and size % (lanes * 2) == 0 and not any(step % (lanes * 2) for step in steps):
            lanes *= 2
    if space_of(write.buffer) != SCRATCHPAD and lanes < min(array.cols, array.bus_bytes):
        raise PassError("elements move to places that stores to main memory cannot reach")
    axes[-1] = (size // lanes, lanes * read_step, lanes * write_step)
    return lanes, [axis for axis in axes if axis[0] > 1]
