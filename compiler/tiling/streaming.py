"""Convolutions and matrix products whose input stands in main memory: tile by tile through the scratchpad."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from ...archdsl import PeArray, ceil_div
from ..ir.tile import Linear
from .activations import aligned
from .channels import TilePlace, over_tiles, row_bytes_of
from .convolution import (
    Convolution,
    OutputTile,
    flattened,
    section_ops,
    section_unit,
    sections_of,
)
from .inputs import (
    InputTile,
    Span,
    begins_at_beats,
    most_span,
    staged_bytes,
    staged_slice,
    staged_tile,
    window_spans,
)
from .limits import no_room
from .loops import equal_parts
from .target import Target
from .trials import fastest


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTiling:
    """How a convolution is cut.

    Attributes:
        num_y, num_x: Rows and columns of a tile of outputs.
        panel: Tiles of output channels that are computed while all tiles of outputs pass once.
        keeps_weights: Whether the panel's weights stay meanwhile; else they stream.
        is_sliced: Whether only those input channels are staged that the panel looks at.
        cycles: Roughly what it takes: the busier of PE array and bus; by this tilings are chosen for a trial.
    """

    num_y: int
    num_x: int
    panel: int
    keeps_weights: bool
    is_sliced: bool
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
        rows, columns = _most_inputs(conv, 1, 1)
        copies = 2 if conv.output_height * conv.output_width > 1 else 1
        inputs = copies * staged_bytes(target, conv.input, rows, columns)
        terms = (("inputs of one output", inputs), ("weights", _least_weight_bytes(target, conv)))
        raise no_room(target.array, terms, target.staging_bytes)
    found.sort(key=lambda tiling: (tiling.cycles, -tiling.num_y * tiling.num_x, tiling.keeps_weights, tiling.panel))
    target.choices[key] = fastest(target, found[:FINALISTS], lambda tiling: _ops(target, conv, tiling))
    return target.choices[key]


def without_holes(target: Target, conv: Convolution) -> Convolution:
    """A convolution that looks at single rows or columns, over those alone that it looks at: what strides jump over is not read.

    Columns are read one by one, which pays unless the requests take longer than the bytes.
    """
    format_, array, (stride_y, stride_x) = conv.input.format, target.array, conv.window.strides
    pixel_beats = ceil_div(format_.channels, array.bus_bytes)
    pixel_cycles = _pixel_cycles(array, format_.channels)
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
        conv.input.format, outputs, conv.height, conv.width, conv.window, conv.tiles, conv.weight_bits, target.staging
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
    block_bytes = max(tile.weights_bytes for tile in conv.tiles)
    return min(block_bytes, 2 * section_unit(target, conv) * row_bytes_of(target, conv.weight_bits))


def _tilings(target: Target, conv: Convolution, num_y: int, num_x: int) -> list[StreamTiling]:
    """With weights that stream, and with panels of weights that stay, as far as both fit twice."""
    array = target.array
    block_bytes, weights = max(tile.weights_bytes for tile in conv.tiles), conv.weights_bytes
    num_tiles = ceil_div(conv.output_height, num_y) * ceil_div(conv.output_width, num_x)
    num_outputs, outputs = len(conv.tiles), conv.outputs
    compute = num_tiles * conv.num_vectors(array.rows) * max(num_y * num_x, array.rows + 1)
    beat = array.cycles_per_beat / array.bus_bytes
    stored = conv.output_height * conv.output_width * outputs * sum(not t.is_local for t in conv.output.targets)
    others = (stored + num_tiles * num_outputs * target.slot_bytes) * beat
    copies = 2 if num_tiles > 1 else 1
    found: list[StreamTiling] = []

    def add(panel: int, inputs: float, *, keeps_weights: bool, is_sliced: bool, most: int = 0) -> None:
        num_panels = ceil_div(num_outputs, panel)
        bus = inputs * num_tiles + (1 if keeps_weights else num_tiles) * weights * beat + others
        # The first weights of a panel come while nothing can be computed, unless they find room beside those in use.
        idle = num_panels * block_bytes * beat if keeps_weights and 2 * panel > most else 0.0
        cycles = max(compute, bus) + idle
        found.append(
            StreamTiling(
                num_y=num_y, num_x=num_x, panel=panel, keeps_weights=keeps_weights, is_sliced=is_sliced, cycles=cycles
            )
        )  # fmt: skip

    rows, columns = _most_inputs(conv, num_y, num_x)
    input_bytes = staged_bytes(target, conv.input, rows, columns)
    room = target.staging_bytes - copies * input_bytes
    if room >= _least_weight_bytes(target, conv):
        add(num_outputs, input_bytes * beat, keeps_weights=False, is_sliced=False)
    most = min(num_outputs, room // block_bytes)
    if num_tiles > 1 and most > 0:
        panel = equal_parts(num_outputs, most)
        num_panels = ceil_div(num_outputs, panel)
        add(panel, num_panels * input_bytes * beat, keeps_weights=True, is_sliced=False, most=most)
    for panel in _sliced_panels(target, conv):
        spans = _panel_channels(target, conv, panel)
        room = target.staging_bytes - copies * rows * columns * max(span.num for span in spans)
        most = min(num_outputs, room // block_bytes)
        if room >= _least_weight_bytes(target, conv):
            inputs = rows * columns * sum(_pixel_cycles(array, span.num) for span in spans)
            keeps_weights = num_tiles > 1 and most >= panel
            add(panel, inputs, keeps_weights=keeps_weights, is_sliced=True, most=most)
    return found


def _most_inputs(conv: Convolution, num_y: int, num_x: int) -> tuple[int, int]:
    """Rows and columns of the input under a tile of outputs, at most."""
    format_, window, kernel = conv.input.format, conv.window, (conv.height, conv.width)
    sizes = format_.height, format_.width
    rows, columns = (
        most_span(num, kernel[axis], window.strides[axis], window.dilations[axis], sizes[axis])
        for axis, num in ((0, num_y), (1, num_x))
    )
    return rows, columns


def _pixel_cycles(array: PeArray, num_bytes: int) -> float:
    """Cycles of the bus for some bytes of a pixel that are asked for by themselves."""
    return max(
        ceil_div(num_bytes, array.bus_bytes) * array.cycles_per_beat, array.latency_cycles / array.requests_in_flight
    )


def _sliced_panels(target: Target, conv: Convolution) -> list[int]:
    """Panels that look at fewer channels than there are: those of convolutions in groups, where single pixels can be read.

    Windows whose columns share vectors need whole pixels.
    """
    is_joint = any(tile.taps.num_runs != conv.width for tile in conv.tiles)
    if is_joint or not begins_at_beats(target, conv.input):
        return []
    panels = [1 << bits for bits in range((len(conv.tiles) - 1).bit_length())]
    whole = aligned(conv.input.format.channels, target.array.bus_bytes)
    return [panel for panel in panels if max(span.num for span in _panel_channels(target, conv, panel)) < whole]


def _panel_channels(target: Target, conv: Convolution, panel: int) -> list[Span]:
    """The input channels that each panel looks at, from beat to beat."""
    bus = target.array.bus_bytes
    found: list[Span] = []
    for first in range(0, len(conv.tiles), panel):
        tiles = conv.tiles[first : first + panel]
        begin = tiles[0].input // bus * bus
        found.append(Span(first=begin, num=aligned(tiles[-1].input + tiles[-1].inputs - begin, bus)))
    return found


def streamed_ops(target: Target, conv: Convolution) -> list[Operation]:
    """The loops of a convolution: panels of output channels, tiles of outputs, tiles of output channels."""
    conv = flattened(without_holes(target, conv))
    return _ops(target, conv, choose_stream_tiling(target, conv))


def _ops(target: Target, conv: Convolution, tiling: StreamTiling) -> list[Operation]:
    row_bytes, tiles = row_bytes_of(target, conv.weight_bits), conv.tiles
    rows, columns = _most_inputs(conv, tiling.num_y, tiling.num_x)
    slices = _panel_channels(target, conv, tiling.panel) if tiling.is_sliced else []
    input_bytes = staged_bytes(target, conv.input, rows, columns)
    if slices:
        input_bytes = rows * columns * max(span.num for span in slices)
    copies = 2 if (tiling.num_y, tiling.num_x) != (conv.output_height, conv.output_width) else 1
    room = target.staging_bytes - copies * input_bytes
    found: list[Operation] = []

    def channels(
        at: TilePlace, tile: tuple[int, int, int, int], inputs: InputTile, kept: SSAValue | None, begin: int
    ) -> list[Operation]:
        y, x, y_count, x_count = tile
        parameters = target.parameters_op(conv.parameters, at.idx)
        sums = target.sums_op(y_count * x_count)
        ops: list[Operation] = [parameters, sums]
        outputs = OutputTile(
            y=Linear(y), x=Linear(x), y_count=y_count, x_count=x_count, sums=sums.result, input=inputs, channels=at
        )  # fmt: skip
        if kept is not None:
            ops += section_ops(target, conv, outputs, kept, 0, at.tile.num_rows, at.weights_at + -begin)
        else:
            for first, size in sections_of(at.tile.num_rows, room // row_bytes, section_unit(target, conv)):
                place, staged = target.staged(conv.weights, at.weights_at + first * row_bytes, size * row_bytes)
                ops += staged + section_ops(target, conv, outputs, place.result, first, size, Linear())
        return ops + target.stores(
            conv.output, sums.result, parameters.result, Linear(y), Linear(x), at.output, y_count=y_count,
            x_count=x_count, columns=at.tile.outputs,
        )  # fmt: skip

    for first in range(0, len(tiles), tiling.panel):
        some = tiles[first : first + tiling.panel]
        kept, begin = None, some[0].weights_at
        if tiling.keeps_weights:
            kept, staged = target.staged(conv.weights, Linear(begin), sum(tile.weights_bytes for tile in some))
            found += staged
        for y in range(0, conv.output_height, tiling.num_y):
            for x in range(0, conv.output_width, tiling.num_x):
                y_count, x_count = min(tiling.num_y, conv.output_height - y), min(tiling.num_x, conv.output_width - x)
                spans = window_spans(conv.input, conv.window, (conv.height, conv.width), (y, y_count), (x, x_count))
                if slices:
                    inputs, staged = staged_slice(target, conv.input, *spans, slices[first // tiling.panel])
                else:
                    inputs, staged = staged_tile(target, conv.input, *spans)
                found += staged
                tile, place = (y, x, y_count, x_count), None if kept is None else kept.result
                found += over_tiles(
                    some, first,
                    lambda at, tile=tile, inputs=inputs, place=place, begin=begin: channels(at, tile, inputs, place, begin),
                )  # fmt: skip
    return found
