"""Ops that only move elements: strided copies on the vector unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from ...archdsl import PassError
from ..ir.tile import Linear, StoreOp, VectorOp, indexed
from .activations import Activation, Format
from .loops import equal_parts, split
from .target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class StridedCopy:
    """Copies a box of elements.

    Attributes:
        source, target: From where to where; both in the scratchpad, or the target in main memory.
        shape: Elements along each axis, the channels last.
        read_at, write_at: Byte of the first element in source and target.
        read_strides, write_strides: Bytes from one element to the next along each axis.
        scalar: Every element is multiplied by it; 0 fills the target with what the channel parameters add.
    """

    source: Activation
    target: Activation
    shape: tuple[int, ...]
    read_at: int = 0
    write_at: int = 0
    read_strides: tuple[int, ...]
    write_strides: tuple[int, ...]
    scalar: int = 1


def strides_of(format_: Format, shape: Sequence[int]) -> tuple[int, ...]:
    """Bytes from one element of an activation to the next along each axis of its shape, which may have any rank."""
    if len(shape) == 4:
        return format_.strides
    outer = [math.prod(shape[axis:-1]) * format_.pixel_bytes for axis in range(1, len(shape))]
    return (*outer, 1)


def copy_ops(target: Target, copy: StridedCopy, parameters: SSAValue) -> list[Operation]:
    """The loops of a copy: vectors of neighbours where there are such on both sides, else one element at a time.

    Args:
        target: The array.
        copy: What is copied.
        parameters: Channel parameters of one tile of channels, in main memory.
    """
    lanes, axes = _axes(target, copy)
    axes += [(1, 0, 0)] * (2 - len(axes))
    # The two longest loops are those of an instruction.
    *outer, y_axis, x_axis = sorted(axes)
    num_x = equal_parts(x_axis[0], min(x_axis[0], target.most_vectors))
    num_y = equal_parts(y_axis[0], min(y_axis[0], max(1, target.most_vectors // num_x)))
    width = copy.read_at + sum((size - 1) * read for size, read, _ in (*outer, x_axis)) + lanes
    source = Activation(
        name=f"{copy.source.name}.walk", space=copy.source.space, address=copy.source.address,
        format=Format(
            images=1, height=y_axis[0], width=width, channels=1, pixel_bytes=1, row_bytes=y_axis[1] or width
        ),
    )  # fmt: skip
    buffers = [target.buffers.of(source), target.buffers.of(copy.target)]
    slot = target.parameters_op(parameters, Linear())

    def moved(read: Linear, write: Linear, y: Linear, y_count: int, x_count: int) -> list[Operation]:
        sums = target.sums_op(y_count * x_count)
        maps = {"y": y, "x": read, "values_at": Linear(), "sums_at": Linear(), "accumulate": Linear()}
        sizes: dict[str, int | str] = {
            "columns": lanes, "y_count": y_count, "x_count": x_count, "y_step": 1, "x_step": x_axis[1], "values_step": 0,
            "padding": 0, "operation": "add", "operand": "scalar", "scalar": copy.scalar, "shift": 0,
            "lanes": "separate", "hold": 0, "input_bits": 8,
        }  # fmt: skip
        walk = VectorOp.build(**indexed([[buffers[0]], [], [sums.result]], maps, sizes))
        sizes = {
            "y_count": y_count, "x_count": x_count, "y_pitch": y_axis[2], "x_pitch": x_axis[2], "columns": lanes,
            "zero_point": 0, "low": -128, "high": 127, "bits": 8,
        }  # fmt: skip
        maps = {"sums_at": Linear(), "write_at": write}
        store = StoreOp.build(**indexed([[sums.result], [slot.result], [], [buffers[1]]], maps, sizes))
        return [sums, walk, store]

    def inner(read: Linear, write: Linear) -> list[Operation]:
        return split(
            y_axis[0], num_y,
            lambda y, y_count: split(
                x_axis[0], num_x,
                lambda x, x_count: moved(
                    read + x * (num_x * x_axis[1]), write + y * (num_y * y_axis[2]) + x * (num_x * x_axis[2]), y * num_y,
                    y_count, x_count,
                ),
            ),
        )  # fmt: skip

    def nested(axes: Sequence[tuple[int, int, int]], read: Linear, write: Linear) -> list[Operation]:
        if not axes:
            return inner(read, write)
        (size, read_step, write_step), *rest = axes
        return split(size, 1, lambda at, _: nested(rest, read + at * read_step, write + at * write_step))

    return [slot, *nested(outer, Linear(copy.read_at), Linear(copy.write_at))]


def _axes(target: Target, copy: StridedCopy) -> tuple[int, list[tuple[int, int, int]]]:
    """Lanes of a vector, and (size, read stride, write stride) of what is left to loop over."""
    axes = list(zip(copy.shape, copy.read_strides, copy.write_strides, strict=True))
    size, read, write = axes[-1]
    array, lanes = target.array, 1
    if read == write == 1:
        # A vector must lie within a word of the scratchpad, or begin at a multiple of itself in main memory.
        steps = [copy.target.address + copy.write_at, *(step for num, _, step in axes[:-1] if num > 1)]
        while lanes * 2 <= array.cols and size % (lanes * 2) == 0 and not any(step % (lanes * 2) for step in steps):
            lanes *= 2
    if not copy.target.is_local and lanes < min(array.cols, array.bus_bytes):
        raise PassError(
            f"{copy.target.name}: elements move to places that stores to main memory cannot reach; it must fit the"
            f" scratchpad ({copy.target.format.num_bytes} B)"
        )
    axes[-1] = (size // lanes, lanes * read, lanes * write)
    return lanes, [axis for axis in axes if axis[0] > 1]
