"""Convolutions and matrix products whose input stands in main memory: tile by tile through the scratchpad."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from ...archdsl import ceil_div
from ..ir.tile import Linear
from .convolution import (
    Convolution,
    OutputTile,
    block_bytes_of,
    flattened,
    row_bytes_of,
    section_ops,
    section_unit,
    sections_of,
    taps_of_convolution,
)
from .inputs import InputTile, begins_at_beats, most_span, staged_bytes, staged_tile, window_spans
from .limits import no_room
from .loops import equal_parts, loop
from .target import Target
from .trials import fastest


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTiling:
    """How a convolution is cut.

    Attributes:
        num_y, num_x: Rows and columns of a tile of outputs.
        panel: Tiles of output channels whose weights stay while all tiles of outputs pass; 0 when weights stream.
        cycles: Roughly what it takes: the busier of PE array and bus; by this tilings are chosen for a trial.
    """

    num_y: int
    num_x: int
    panel: int
    cycles: float


FINALISTS = 3
"""Tilings that are tried. Six instead make ResNet-50 0.3 % faster on 16 x 16 PEs, and compiling it half as long again."""


def choose_stream_tiling(target: Target, conv: Convolution) -> StreamTiling:
    """The fastest tiling of those that promise most; layers of one shape are asked once.

    Raises:
        InfeasibleError: Not even one output fits.
    """
    key = _key_of(target, conv)
    if key in target.choices:
        return target.choices[key]
    found = [tiling for num_y, num_x in _tile_sizes(target, conv) for tiling in _tilings(target, conv, num_y, num_x)]
    if not found:
        kernel, window, format_ = (conv.height, conv.width), conv.window, conv.input.format
        rows, columns = (
            most_span(
                1, kernel[axis], window.strides[axis], window.dilations[axis], (format_.height, format_.width)[axis]
            )
            for axis in (0, 1)
        )
        copies = 2 if conv.output_height * conv.output_width > 1 else 1
        inputs = copies * staged_bytes(target, conv.input, rows, columns)
        terms = (("inputs of one output", inputs), ("weights", _least_weight_bytes(target, conv)))
        raise no_room(target.array, terms, target.staging_bytes)
    found.sort(key=lambda tiling: (tiling.cycles, -tiling.num_y * tiling.num_x, tiling.panel))
    target.choices[key] = fastest(target, found[:FINALISTS], lambda tiling: _ops(target, conv, tiling))
    return target.choices[key]


def without_holes(target: Target, conv: Convolution) -> Convolution:
    """A convolution that looks at single rows or columns, over those alone that it looks at: what strides jump over is not read.

    Columns are read one by one, which pays unless the requests take longer than the bytes.
    """
    format_, array, (stride_y, stride_x) = conv.input.format, target.array, conv.window.strides
    pixel_beats = ceil_div(format_.channels, array.bus_bytes)
    pixel_cycles = max(pixel_beats * array.cycles_per_beat, array.latency_cycles // array.requests_in_flight)
    if any(conv.window.pads) or not begins_at_beats(target, conv.input):
        return conv
    if conv.height > 1:
        stride_y = 1
    if conv.width > 1 or pixel_cycles >= stride_x * pixel_beats * array.cycles_per_beat:
        stride_x = 1
    height, width = (ceil_div(size, step) for size, step in ((format_.height, stride_y), (format_.width, stride_x)))
    seen = replace(
        format_, height=height, width=width, pixel_bytes=format_.pixel_bytes * stride_x, row_bytes=format_.row_bytes * stride_y
    )  # fmt: skip
    strides = conv.window.strides[0] // stride_y, conv.window.strides[1] // stride_x
    return replace(conv, input=conv.input.view(seen), window=replace(conv.window, strides=strides))


def _key_of(target: Target, conv: Convolution) -> object:
    """Equal for convolutions that differ only in their numbers and where they stand."""
    outputs = tuple((place.format, place.is_local) for place in conv.output.targets)
    return (
        conv.input.format, outputs, conv.height, conv.width, conv.window, conv.outputs, conv.weight_bits, target.staging
    )  # fmt: skip


def _tile_sizes(target: Target, conv: Convolution) -> list[tuple[int, int]]:
    most = target.most_vectors
    sizes: set[tuple[int, int]] = set()
    for parts_x in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512, 1024):
        num_x = ceil_div(conv.output_width, parts_x)
        if num_x > most:
            num_x = equal_parts(conv.output_width, most)
        for most_y in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256):
            num_y = min(most_y, conv.output_height, max(1, most // num_x))
            sizes.add((equal_parts(conv.output_height, num_y), num_x))
    return sorted(sizes)


def _least_weight_bytes(target: Target, conv: Convolution) -> int:
    """The least room for weights: all of a tile of output channels, or two loads."""
    taps = taps_of_convolution(target, conv)
    block_bytes = block_bytes_of(target, conv, conv.height * taps.num_runs * taps.run_bytes)
    return min(block_bytes, 2 * section_unit(target, conv) * row_bytes_of(target, conv))


def _tilings(target: Target, conv: Convolution, num_y: int, num_x: int) -> list[StreamTiling]:
    """With weights that stream, and with panels of weights that stay, as far as both fit twice."""
    array, format_ = target.array, conv.input.format
    window, kernel = conv.window, (conv.height, conv.width)
    rows, columns = (
        most_span(
            num, kernel[axis], window.strides[axis], window.dilations[axis], (format_.height, format_.width)[axis]
        )
        for axis, num in ((0, num_y), (1, num_x))
    )
    input_bytes = staged_bytes(target, conv.input, rows, columns)
    taps = taps_of_convolution(target, conv)
    num_rows = conv.height * taps.num_runs * taps.run_bytes
    block_bytes = block_bytes_of(target, conv, num_rows)
    least_bytes = _least_weight_bytes(target, conv)
    num_tiles = ceil_div(conv.output_height, num_y) * ceil_div(conv.output_width, num_x)
    num_outputs = ceil_div(conv.outputs, target.columns)
    num_taps = conv.height * taps.num_runs * ceil_div(taps.run_bytes, array.rows)
    compute = num_tiles * num_outputs * num_taps * max(num_y * num_x, array.rows + 1)
    beat = array.cycles_per_beat / array.bus_bytes
    stored = conv.output_height * conv.output_width * conv.outputs * sum(not t.is_local for t in conv.output.targets)
    slots = num_tiles * num_outputs * target.slot_bytes
    inputs, weights = num_tiles * input_bytes, num_outputs * block_bytes
    found: list[StreamTiling] = []
    copies = 2 if num_tiles > 1 else 1
    room = target.staging_bytes - copies * input_bytes
    if room >= least_bytes:
        bus = inputs + num_tiles * weights + stored + slots
        found.append(StreamTiling(num_y=num_y, num_x=num_x, panel=0, cycles=max(compute, bus * beat)))
    most = min(num_outputs, room // block_bytes)
    if num_tiles > 1 and most > 0:
        panel = equal_parts(num_outputs, most)
        bus = ceil_div(num_outputs, panel) * inputs + weights + stored + slots
        # The first weights of a panel come while nothing can be computed, unless they find room beside those in use.
        idle = 0 if 2 * panel <= most else ceil_div(num_outputs, panel) * block_bytes * beat
        found.append(StreamTiling(num_y=num_y, num_x=num_x, panel=panel, cycles=max(compute, bus * beat) + idle))
    return found


def streamed_ops(target: Target, conv: Convolution) -> list[Operation]:
    """The loops of a convolution: panels of output channels, tiles of outputs, tiles of output channels."""
    conv = flattened(without_holes(target, conv))
    return _ops(target, conv, choose_stream_tiling(target, conv))


def _ops(target: Target, conv: Convolution, tiling: StreamTiling) -> list[Operation]:
    taps, row_bytes = taps_of_convolution(target, conv), row_bytes_of(target, conv)
    num_rows = conv.height * taps.num_runs * taps.run_bytes
    block_bytes = block_bytes_of(target, conv, num_rows)
    num_outputs = ceil_div(conv.outputs, target.columns)
    panel = tiling.panel or num_outputs
    copies = 2 if (tiling.num_y, tiling.num_x) != (conv.output_height, conv.output_width) else 1
    room = target.staging_bytes - copies * _input_bytes(target, conv, tiling)
    sections = sections_of(num_rows, room // row_bytes, section_unit(target, conv))
    found: list[Operation] = []

    def channels(
        at: Linear, columns: int, tile: tuple[int, int, int, int], inputs: InputTile, kept: SSAValue | None, first: int
    ) -> list[Operation]:
        y, x, y_count, x_count = tile
        parameters = target.parameters_op(conv.parameters, at)
        sums = target.sums_op(y_count * x_count)
        ops: list[Operation] = [parameters, sums]
        outputs = OutputTile(
            y=Linear(y), x=Linear(x), y_count=y_count, x_count=x_count, sums=sums.result, input=inputs
        )  # fmt: skip
        if kept is not None:
            begin = (at + -first) * block_bytes
            ops += section_ops(target, conv, taps, outputs, kept, 0, num_rows, begin)
        else:
            for begin, size in sections:
                place, staged = target.staged(conv.weights, at * block_bytes + begin * row_bytes, size * row_bytes)
                ops += staged + section_ops(target, conv, taps, outputs, place.result, begin, size, Linear())
        return ops + target.stores(
            conv.output, sums.result, parameters.result, Linear(y), Linear(x), at * target.columns, y_count=y_count,
            x_count=x_count, columns=columns,
        )  # fmt: skip

    for first in range(0, num_outputs, panel):
        num = min(panel, num_outputs - first)
        kept = None
        if tiling.panel:
            kept, staged = target.staged(conv.weights, Linear(first * block_bytes), num * block_bytes)
            found += staged
        rest = conv.outputs % target.columns if first + num == num_outputs else 0
        for y in range(0, conv.output_height, tiling.num_y):
            for x in range(0, conv.output_width, tiling.num_x):
                y_count, x_count = min(tiling.num_y, conv.output_height - y), min(tiling.num_x, conv.output_width - x)
                spans = window_spans(conv.input, conv.window, (conv.height, conv.width), (y, y_count), (x, x_count))
                inputs, staged = staged_tile(target, conv.input, *spans)
                found += staged
                tile, place = (y, x, y_count, x_count), None if kept is None else kept.result
                found += loop(
                    num - bool(rest),
                    lambda idx, tile=tile, inputs=inputs, place=place, first=first: channels(
                        idx + first, target.columns, tile, inputs, place, first
                    ),
                )
                if rest:
                    found += channels(Linear(first + num - 1), rest, tile, inputs, place, first)
    return found


def _input_bytes(target: Target, conv: Convolution, tiling: StreamTiling) -> int:
    format_, window, kernel = conv.input.format, conv.window, (conv.height, conv.width)
    rows, columns = (
        most_span(
            num, kernel[axis], window.strides[axis], window.dilations[axis], (format_.height, format_.width)[axis]
        )
        for axis, num in ((0, tiling.num_y), (1, tiling.num_x))
    )
    return staged_bytes(target, conv.input, rows, columns)
