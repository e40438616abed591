"""Ops without a reduction over channels: on the vector unit, a tile of channels at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from ...archdsl import PassError, ceil_div
from ..ir.qnn import Window
from ..ir.tile import Linear, VectorOp, indexed, pitch_of
from .activations import Activation, aligned
from .inputs import InputTile, most_span, staged_bytes, staged_tile, window_spans
from .loops import equal_parts, split
from .target import Output, Target

Operation2d = Literal["add", "maximum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """One vector operation per output: an input at a place of the window times a value.

    Attributes:
        source: Index of the input.
        y, x: Place in the window, in input rows and columns.
        scalar: Factor of all channels.
        weights_at: Byte of its weights within those of a tile of channels; None for none.
        times: Index of the input by whose element the input's is multiplied; None for none.
    """

    source: int = 0
    y: int = 0
    x: int = 0
    scalar: int = 1
    weights_at: int | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorWork:
    """A vector op on one image.

    Attributes:
        inputs: Its inputs.
        output: How and where to its outputs go.
        taps: What is combined for an output.
        operation: How.
        window: Strides, pads and padding.
        channels: Channels.
        output_height, output_width: Of the output.
        weights: Per tile of channels its weights, `weight_bytes` each, in main memory; None for none.
        parameters: Per tile of channels its channel parameters, in main memory.
    """

    inputs: tuple[Activation, ...]
    output: Output
    taps: tuple[Tap, ...]
    operation: Operation2d
    window: Window
    channels: int
    output_height: int
    output_width: int
    weights: SSAValue | None
    weight_bytes: int
    parameters: SSAValue

    @property
    def reach(self) -> tuple[int, int]:
        """Input rows and columns under a window."""
        return max(tap.y for tap in self.taps) + 1, max(tap.x for tap in self.taps) + 1

    def is_held(self, num_outputs: int) -> bool:
        """Whether fewer instructions are needed if each combines all taps of one output."""
        height, width = self.reach
        is_plain = all(tap.times is None and tap.weights_at is None and tap.scalar == 1 for tap in self.taps)
        return is_plain and len(self.inputs) == 1 and height * width == len(self.taps) > num_outputs


def channel_weights(target: Target, weights: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
    """Weights [taps, C] as bytes per tile of channels: a vector per tap, whole beats."""
    num_taps, channels = weights.shape
    columns, cols = target.columns, target.array.cols
    num_tiles = ceil_div(channels, columns)
    padded = np.zeros((num_taps, num_tiles * columns), dtype=np.int8)
    padded[:, :channels] = weights
    wide = np.zeros((num_tiles, num_taps, cols), dtype=np.int8)
    wide[:, :, :columns] = padded.reshape(num_taps, num_tiles, columns).transpose(1, 0, 2)
    blocks = np.zeros((num_tiles, aligned(num_taps * cols, target.array.bus_bytes)), dtype=np.uint8)
    blocks[:, : num_taps * cols] = wide.reshape(num_tiles, -1).view(np.uint8)
    return blocks


@dataclass(frozen=True, slots=True, kw_only=True)
class _OutputTile:
    """A tile of outputs and where its inputs stand."""

    y: Linear
    x: Linear
    y_count: int
    x_count: int
    inputs: tuple[InputTile, ...]


def vector_ops(target: Target, work: VectorWork) -> list[Operation]:
    """The loops of a vector op.

    Inputs on chip are passed by tiles of channels outside and tiles of outputs inside; where one stands in main memory, each
    tile of it is staged once, and all channels pass it.

    Raises:
        PassError: Not even one output fits.
    """
    num_x = equal_parts(work.output_width, min(target.most_vectors, work.output_width))
    num_y = equal_parts(work.output_height, min(max(1, target.most_vectors // num_x), work.output_height))
    if any(tap.times is not None for tap in work.taps) and any(place.format.has_gaps for place in work.inputs):
        num_y = 1  # second operands lie side by side
    if all(place.is_local for place in work.inputs):
        whole = tuple(InputTile(buffer=target.buffers.of(place)) for place in work.inputs)

        def outputs(y: Linear, x: Linear, y_count: int, x_count: int) -> _OutputTile:
            return _OutputTile(y=y * num_y, x=x * num_x, y_count=y_count, x_count=x_count, inputs=whole)

        return _channel_tiles(
            target, work,
            lambda pass_tile: split(
                work.output_height, num_y,
                lambda y, y_count: split(
                    work.output_width, num_x, lambda x, x_count: pass_tile(outputs(y, x, y_count, x_count))
                ),
            ),
        )  # fmt: skip
    num_y, num_x = _staged_size(target, work, num_y, num_x)
    found: list[Operation] = []
    for y in range(0, work.output_height, num_y):
        for x in range(0, work.output_width, num_x):
            y_count, x_count = min(num_y, work.output_height - y), min(num_x, work.output_width - x)
            inputs: list[InputTile] = []
            for place in work.inputs:
                if place.is_local:
                    inputs.append(InputTile(buffer=target.buffers.of(place)))
                    continue
                spans = window_spans(place, work.window, work.reach, (y, y_count), (x, x_count))
                staged, ops = staged_tile(target, place, *spans)
                inputs.append(staged)
                found += ops
            tile = _OutputTile(y=Linear(y), x=Linear(x), y_count=y_count, x_count=x_count, inputs=tuple(inputs))
            found += _channel_tiles(target, work, lambda pass_tile, tile=tile: pass_tile(tile))
    return found


def _staged_size(target: Target, work: VectorWork, num_y: int, num_x: int) -> tuple[int, int]:
    """The largest tile of outputs whose inputs fit twice beside the weights."""
    room = target.staging_bytes - 2 * work.weight_bytes

    def needed(num_y: int, num_x: int) -> int:
        total = 0
        for place in work.inputs:
            if not place.is_local:
                sizes = place.format.height, place.format.width
                rows, columns = (
                    most_span(num, work.reach[axis], work.window.strides[axis], 1, sizes[axis])
                    for axis, num in ((0, num_y), (1, num_x))
                )
                total += staged_bytes(target, place, rows, columns)
        return total

    while 2 * needed(num_y, num_x) > room:
        if num_y > 1:
            num_y = ceil_div(num_y, 2)
        elif num_x > 1:
            num_x = ceil_div(num_x, 2)
        elif needed(1, 1) <= room:
            break
        else:
            raise PassError(
                f"one output needs {needed(1, 1)} B of its inputs at once, and {room} B of the scratchpad are free for"
                f" them: {needed(1, 1) - room} B are missing; use a larger scratchpad"
            )
    return equal_parts(work.output_height, num_y), equal_parts(work.output_width, num_x)


def _channel_tiles(
    target: Target, work: VectorWork, passes: Callable[[Callable[[_OutputTile], list[Operation]]], list[Operation]]
) -> list[Operation]:
    """A loop over tiles of channels: their weights and parameters, and `passes` over tiles of outputs."""
    cols = target.columns

    def channels(idx: Linear, columns: int) -> list[Operation]:
        parameters = target.parameters_op(work.parameters, idx)
        found: list[Operation] = [parameters]
        weights = None
        if work.weights is not None:
            weights, staged = target.staged(work.weights, idx * work.weight_bytes, work.weight_bytes)
            found += staged
        table = None if work.output.table is None else target.table_op(work.output.table)
        if table is not None:
            found.append(table)

        def pass_tile(tile: _OutputTile) -> list[Operation]:
            sums = target.sums_op(tile.y_count * tile.x_count)
            values = None if weights is None else weights.result
            ops: list[Operation] = [sums]
            if work.is_held(tile.y_count * tile.x_count):
                ops += _held(target, work, tile, sums.result, idx * cols, columns)
            else:
                for order, tap in enumerate(work.taps):
                    ops.append(_vector(target, work, tap, values, sums.result, tile, idx * cols, columns, order))
            return ops + target.stores(
                work.output, sums.result, parameters.result, tile.y, tile.x, idx * cols, y_count=tile.y_count,
                x_count=tile.x_count, columns=columns, table=None if table is None else table.result,
            )  # fmt: skip

        return found + passes(pass_tile)

    return split(work.channels, cols, channels)


def _place(work: VectorWork, tile: _OutputTile, source: int, y: int, x: int, channel: Linear) -> tuple[Linear, Linear]:
    """Row and byte in the row, in the buffer, of the input at a place of the first window."""
    window, inputs, pixel = work.window, tile.inputs[source], work.inputs[source].format.pixel_bytes
    return (
        tile.y * window.strides[0] + (y - window.pads[0] - inputs.first_row),
        tile.x * (window.strides[1] * pixel) + channel + ((x - window.pads[1]) * pixel - inputs.first_byte),
    )


def _vector(
    target: Target, work: VectorWork, tap: Tap, weights: SSAValue | None, sums: SSAValue, tile: _OutputTile,
    channel: Linear, columns: int, order: int,
) -> Operation:  # fmt: skip
    """One tap for all outputs of a tile."""
    pixel, window = work.inputs[tap.source].format.pixel_bytes, work.window
    y, x = _place(work, tile, tap.source, tap.y, tap.x, channel)
    maps = {"y": y, "x": x, "values_at": Linear(), "sums_at": Linear(), "accumulate": Linear(order)}
    sizes: dict[str, int | str] = {
        "columns": columns, "y_count": tile.y_count, "x_count": tile.x_count, "y_step": window.strides[0],
        "x_step": window.strides[1] * pixel, "values_step": 0, "padding": window.padding, "operation": work.operation,
        "operand": "scalar", "scalar": tap.scalar, "shift": 0, "lanes": "separate", "hold": 0, "input_bits": 8,
    }  # fmt: skip
    values: list[SSAValue] = []
    if tap.times is not None:
        other_y, other_x = _place(work, tile, tap.times, 0, 0, channel)
        values = [tile.inputs[tap.times].buffer]
        sizes |= {"operand": "sequence", "scalar": 0, "values_step": work.inputs[tap.times].format.pixel_bytes}
        maps["values_at"] = other_y * pitch_of(values[0]) + other_x
    elif tap.weights_at is not None:
        assert weights is not None
        values = [weights]
        sizes |= {"operand": "vector", "scalar": 0}
        maps["values_at"] = Linear(tap.weights_at)
    return VectorOp.build(**indexed([[tile.inputs[tap.source].buffer], values, [sums]], maps, sizes))


def _held(
    target: Target, work: VectorWork, tile: _OutputTile, sums: SSAValue, channel: Linear, columns: int
) -> list[Operation]:
    """All taps of one output after the other, each output by one instruction: for windows of many taps and few outputs."""
    pixel, window = work.inputs[0].format.pixel_bytes, work.window
    height, width = work.reach
    found: list[Operation] = []
    for output in range(tile.y_count * tile.x_count):
        at_y, at_x = divmod(output, tile.x_count)
        y, x = _place(work, tile, 0, at_y * window.strides[0], at_x * window.strides[1], channel)
        maps = {"y": y, "x": x, "values_at": Linear(), "sums_at": Linear(output), "accumulate": Linear()}
        sizes: dict[str, int | str] = {
            "columns": columns, "y_count": height, "x_count": width, "y_step": 1, "x_step": pixel, "values_step": 0,
            "padding": window.padding, "operation": work.operation, "operand": "scalar", "scalar": 1, "shift": 0,
            "lanes": "separate", "hold": 1, "input_bits": 8,
        }  # fmt: skip
        found.append(VectorOp.build(**indexed([[tile.inputs[0].buffer], [], [sums]], maps, sizes)))
    return found
