"""Ops without a reduction over channels: on the vector unit, a tile of channels at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from ...archdsl import ceil_div
from ..ir.qnn import Window
from ..ir.tile import Linear, VectorOp, indexed, pitch_of
from .activations import Activation, aligned
from .inputs import InputTile, Span, most_span, staged_bytes, staged_slice, staged_tile, window_spans
from .limits import no_room
from .loops import equal_parts, split
from .target import Output, Target, in_beats

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
    return in_beats(wide.view(np.uint8), target.array)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTile:
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
        InfeasibleError: Not even one output fits.
    """
    num_x = equal_parts(work.output_width, min(target.most_vectors, work.output_width))
    num_y = equal_parts(work.output_height, min(max(1, target.most_vectors // num_x), work.output_height))
    if any(tap.times is not None for tap in work.taps) and any(place.format.has_gaps for place in work.inputs):
        num_y = 1  # second operands lie side by side
    if all(place.is_local for place in work.inputs):
        whole = tuple(InputTile(buffer=target.buffers.of(place)) for place in work.inputs)

        def outputs(y: Linear, x: Linear, y_count: int, x_count: int) -> VectorTile:
            return VectorTile(y=y * num_y, x=x * num_x, y_count=y_count, x_count=x_count, inputs=whole)

        return over_channels(
            target, work,
            lambda pass_tile: split(
                work.output_height, num_y,
                lambda y, y_count: split(
                    work.output_width, num_x, lambda x, x_count: pass_tile(outputs(y, x, y_count, x_count))
                ),
            ),
        )  # fmt: skip
    num_y, num_x, num_channels = _staged_size(target, work, num_y, num_x)
    found: list[Operation] = []
    for first in range(0, work.channels, num_channels):
        channels = Span(first=first, num=min(num_channels, work.channels - first))
        found += _staged_channels(target, work, num_y, num_x, channels)
    return found


def _staged_channels(target: Target, work: VectorWork, num_y: int, num_x: int, channels: Span) -> list[Operation]:
    """Some channels, tile of outputs by tile of outputs."""
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
                if channels.num == work.channels:
                    staged, ops = staged_tile(target, place, *spans)
                else:
                    end = min(aligned(channels.first + channels.num, target.columns), place.format.pixel_bytes)
                    staged, ops = staged_slice(target, place, *spans, replace(channels, num=end - channels.first))
                inputs.append(staged)
                found += ops
            tile = VectorTile(y=Linear(y), x=Linear(x), y_count=y_count, x_count=x_count, inputs=tuple(inputs))
            found += over_channels(target, work, lambda pass_tile, tile=tile: pass_tile(tile), channels)
    return found


def _staged_size(target: Target, work: VectorWork, num_y: int, num_x: int) -> tuple[int, int, int]:
    """The largest tile of outputs whose inputs fit twice beside the weights, and the channels of which all can be staged."""
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
            return 1, 1, _slice_channels(target, work, needed(1, 1), room)
    return equal_parts(work.output_height, num_y), equal_parts(work.output_width, num_x), work.channels


def _slice_channels(target: Target, work: VectorWork, needed_bytes: int, room: int) -> int:
    """The most channels, whole tiles and whole beats, of which the inputs of one output fit."""
    bus, places = target.array.bus_bytes, [place for place in work.inputs if not place.is_local]
    unit = max(target.columns, bus)
    pixels = sum(
        min(place.format.height, work.reach[0]) * min(place.format.width, work.reach[1]) for place in places
    )  # fmt: skip
    is_whole = all(place.format.pixel_bytes % bus == place.format.row_bytes % bus == 0 for place in places)
    num = max(0, room) // pixels // unit * unit
    if num and is_whole:
        return num
    least = pixels * unit if is_whole else needed_bytes
    raise no_room(
        target.array, (("inputs of one output", least), ("weights", 2 * work.weight_bytes)), target.staging_bytes
    )  # fmt: skip


def over_channels(
    target: Target, work: VectorWork, passes: Callable[[Callable[[VectorTile], list[Operation]]], list[Operation]],
    span: Span | None = None,
) -> list[Operation]:  # fmt: skip
    """A loop over tiles of channels, of some of them or of all: weights, parameters, and `passes` over tiles of outputs."""
    cols = target.columns
    begin, num = (span.first // cols, span.num) if span else (0, work.channels)

    def channels(at: Linear, columns: int) -> list[Operation]:
        idx = at + begin
        parameters = target.parameters_op(work.parameters, idx)
        found: list[Operation] = [parameters]
        weights = None
        if work.weights is not None:
            weights, staged = target.staged(work.weights, idx * work.weight_bytes, work.weight_bytes)
            found += staged
        table = None if work.output.table is None else target.table_op(work.output.table)
        if table is not None:
            found.append(table)

        def pass_tile(tile: VectorTile) -> list[Operation]:
            sums = target.sums_op(tile.y_count * tile.x_count)
            values = None if weights is None else weights.result
            ops: list[Operation] = [sums]
            if work.is_held(tile.y_count * tile.x_count):
                ops += _held(target, work, tile, sums.result, idx * cols, columns)
            else:
                for order, tap in enumerate(work.taps):
                    ops.append(vector_op(target, work, tap, values, sums.result, tile, idx * cols, columns, order))
            return ops + target.stores(
                work.output, sums.result, parameters.result, tile.y, tile.x, idx * cols, y_count=tile.y_count,
                x_count=tile.x_count, columns=columns, table=None if table is None else table.result,
            )  # fmt: skip

        return found + passes(pass_tile)

    return split(num, cols, channels)


def _place(work: VectorWork, tile: VectorTile, source: int, y: int, x: int, channel: Linear) -> tuple[Linear, Linear]:
    """Row and byte in the row, in the buffer, of the input at a place of the first window."""
    window, inputs, pixel = work.window, tile.inputs[source], _pixel_bytes(work, tile, source)
    return (
        tile.y * window.strides[0] + (y - window.pads[0] - inputs.first_row),
        tile.x * (window.strides[1] * pixel) + channel + (x - window.pads[1]) * pixel + inputs.first_byte * -1,
    )


def _pixel_bytes(work: VectorWork, tile: VectorTile, source: int) -> int:
    """From one pixel of an input to the next, in the buffer."""
    return tile.inputs[source].pixel_bytes or work.inputs[source].format.pixel_bytes


def vector_op(
    target: Target, work: VectorWork, tap: Tap, weights: SSAValue | None, sums: SSAValue, tile: VectorTile,
    channel: Linear, columns: int, order: int,
) -> Operation:  # fmt: skip
    """One tap for all outputs of a tile."""
    pixel, window = _pixel_bytes(work, tile, tap.source), work.window
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
        sizes |= {"operand": "sequence", "scalar": 0, "values_step": _pixel_bytes(work, tile, tap.times)}
        maps["values_at"] = other_y * pitch_of(values[0]) + other_x
    elif tap.weights_at is not None:
        assert weights is not None
        values = [weights]
        sizes |= {"operand": "vector", "scalar": 0}
        maps["values_at"] = Linear(tap.weights_at)
    return VectorOp.build(**indexed([[tile.inputs[tap.source].buffer], values, [sums]], maps, sizes))


def _held(
    target: Target, work: VectorWork, tile: VectorTile, sums: SSAValue, channel: Linear, columns: int
) -> list[Operation]:
    """All taps of one output after the other, each output by one instruction: for windows of many taps and few outputs."""
    pixel, window = _pixel_bytes(work, tile, 0), work.window
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
