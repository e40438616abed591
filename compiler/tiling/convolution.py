"""Convolutions and matrix products over an input that stands in the scratchpad as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from ..ir.qnn import Window
from ..ir.tile import Linear, MatMulOp, indexed
from .activations import Activation
from .channels import ChannelTile, Taps, TilePlace, over_tiles, row_bytes_of
from .inputs import InputTile
from .limits import no_room
from .loops import equal_parts, loop, split
from .target import Output, Target

Fetch = Callable[[int], Sequence[Operation]]
"""What must be loaded for input rows up to some row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution of one image.

    Attributes:
        input: The image.
        output: How and where to its outputs go.
        height, width: Of the window.
        window: Its strides, dilations and pads.
        tiles: Of output channels, in order.
        output_height, output_width: Of the output.
        weights: Per tile of output channels its weights (see `channels.packed_weights`), in main memory.
        parameters: Per tile of output channels its channel parameters, in main memory.
        weight_bits: Of an element of the weights.
    """

    input: Activation
    output: Output
    height: int
    width: int
    window: Window
    tiles: tuple[ChannelTile, ...]
    output_height: int
    output_width: int
    weights: SSAValue
    parameters: SSAValue
    weight_bits: int = 8

    @property
    def outputs(self) -> int:
        """Its output channels."""
        return sum(tile.outputs for tile in self.tiles)

    @property
    def weights_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(tile.weights_bytes for tile in self.tiles)

    def num_vectors(self, rows: int) -> int:
        """Vectors of `rows` rows of weights, of all tiles."""
        return self.height * sum(tile.taps.num_vectors(rows) for tile in self.tiles)


def convolution_ops(target: Target, conv: Convolution, fetch: Fetch | None = None) -> list[Operation]:
    """The loops of a convolution: tiles of output channels outside, tiles of outputs inside, so that weights come once.

    Args:
        target: The array.
        conv: The convolution.
        fetch: Loads rows of the input, where that is not there yet.

    Raises:
        InfeasibleError: Not even the weights of one tile of terms fit.
    """
    height, conv = conv.input.format.height, flattened(conv)
    if fetch is not None and conv.input.format.height < height:
        fetch = _whole(fetch, height)
    row_bytes, unit = row_bytes_of(target, conv.weight_bits), section_unit(target, conv)
    least_bytes = min(max(tile.weights_bytes for tile in conv.tiles), unit * row_bytes)
    if least_bytes > target.staging_bytes:
        raise no_room(target.array, (("weights", least_bytes),), target.staging_bytes)
    num_x = equal_parts(conv.output_width, min(target.most_vectors, conv.output_width))
    num_y = equal_parts(conv.output_height, min(max(1, target.most_vectors // num_x), conv.output_height))
    whole = InputTile(buffer=target.buffers.of(conv.input))

    def channels(at: TilePlace, fetched: Fetch | None) -> list[Operation]:
        sections = sections_of(at.tile.num_rows, target.staging_bytes // row_bytes, unit)
        parameters = target.parameters_op(conv.parameters, at.idx)
        found: list[Operation] = [parameters]
        place = None
        if len(sections) == 1:
            place, ops = target.staged(conv.weights, at.weights_at, at.tile.weights_bytes)
            found += ops

        def outputs(y: Linear, x: Linear, y_count: int, x_count: int) -> list[Operation]:
            sums = target.sums_op(y_count * x_count)
            ops: list[Operation] = [sums]
            tile = OutputTile(
                y=y, x=x, y_count=y_count, x_count=x_count, sums=sums.result, input=whole, channels=at
            )  # fmt: skip
            for begin, size in sections:
                weights = place
                if weights is None:
                    weights, staged = target.staged(conv.weights, at.weights_at + begin * row_bytes, size * row_bytes)
                    ops += staged
                ops += section_ops(target, conv, tile, weights.result, begin, size, Linear())
            return ops + target.stores(
                conv.output, sums.result, parameters.result, y, x, at.output, y_count=y_count, x_count=x_count,
                columns=at.tile.outputs,
            )  # fmt: skip

        if fetched is None:
            return found + split(
                conv.output_height, num_y,
                lambda y, y_count: split(
                    conv.output_width, num_x, lambda x, x_count: outputs(y * num_y, x * num_x, y_count, x_count)
                ),
            )  # fmt: skip
        for y in range(0, conv.output_height, num_y):
            y_count = min(num_y, conv.output_height - y)
            last = (y + y_count - 1) * conv.window.strides[0] - conv.window.pads[0]
            found += fetched(last + (conv.height - 1) * conv.window.dilations[0] + 1)
            for x in range(0, conv.output_width, num_x):
                found += outputs(Linear(y), Linear(x), y_count, min(num_x, conv.output_width - x))
        return found

    if fetch is None:
        return over_tiles(conv.tiles, 0, lambda at: channels(at, None))
    found = over_tiles(conv.tiles[:1], 0, lambda at: channels(at, fetch))
    return found + over_tiles(conv.tiles[1:], 1, lambda at: channels(at, None))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTile:
    """A tile of outputs, its sums, where its inputs stand, and its channels."""

    y: Linear
    x: Linear
    y_count: int
    x_count: int
    sums: SSAValue
    input: InputTile
    channels: TilePlace


def _whole(fetch: Fetch, height: int) -> Fetch:
    """Loads all rows at once: those of an input whose rows have become one."""
    return lambda rows: fetch(height)


def flattened(conv: Convolution) -> Convolution:
    """A convolution that looks at every pixel alone as the matrix product that it is, where rows have no gaps."""
    is_pixelwise = conv.height == conv.width == 1 and conv.window.strides == (1, 1) and not any(conv.window.pads)
    formats = [conv.input.format, *(target.format for target in conv.output.targets)]
    if not is_pixelwise or conv.output_height == 1 or any(format_.has_gaps for format_ in formats):
        return conv
    targets = tuple(target.view(target.format.as_row()) for target in conv.output.targets)
    return replace(
        conv, input=conv.input.view(conv.input.format.as_row()), output=replace(conv.output, targets=targets),
        output_height=1, output_width=conv.output_height * conv.output_width,
    )  # fmt: skip


def section_unit(target: Target, conv: Convolution) -> int:
    """What sections are multiples of, in rows of weights: whole vectors, and whole beats."""
    row_bytes = row_bytes_of(target, conv.weight_bits)
    return math.lcm(target.array.rows * row_bytes, target.array.bus_bytes) // row_bytes


def sections_of(num_rows: int, most_rows: int, unit: int) -> list[tuple[int, int]]:
    """Rows of weights that stand in the scratchpad at once: first row and number."""
    size = num_rows if num_rows <= most_rows else most_rows // unit * unit
    return [(begin, min(size, num_rows - begin)) for begin in range(0, num_rows, size)]


def section_ops(
    target: Target,
    conv: Convolution,
    tile: OutputTile,
    weights: SSAValue,
    begin: int,
    size: int,
    weights_at: Linear,
) -> list[Operation]:
    """The products of rows `begin` to `begin + size` of the weights: loops over window rows, runs and vectors.

    Args:
        target, conv, tile: What is computed.
        weights: Where the weights stand, row `begin` first, from the byte `weights_at` on.
        begin, size: The rows.
        weights_at: See `weights`.
    """
    found: list[Operation] = []
    taps, whole = tile.channels.tile.taps, tile.channels.tile.num_rows
    if (begin, size) == (0, whole):
        return loop(
            conv.height,
            lambda fy: loop(
                taps.num_runs,
                lambda run: split(
                    taps.run_bytes, target.array.rows,
                    lambda at, rows: _matmul(target, conv, tile, weights, fy, run, at * target.array.rows, rows, weights_at),
                ),
            ),
        )  # fmt: skip
    row_bytes = row_bytes_of(target, conv.weight_bits)
    for fy, run, at, rows in _pieces(taps, begin, size, target.array.rows):
        found += _matmul(
            target, conv, tile, weights, Linear(fy), Linear(run), Linear(at), rows, weights_at + -begin * row_bytes
        )  # fmt: skip
    return found


def _pieces(taps: Taps, begin: int, size: int, most: int) -> Iterator[tuple[int, int, int, int]]:
    """Window row, run, byte in the run and bytes of all vectors of a section."""
    at = begin
    while at < begin + size:
        rest, place = divmod(at, taps.run_bytes)
        fy, run = divmod(rest, taps.num_runs)
        num = min(most, taps.run_bytes - place, begin + size - at)
        yield fy, run, place, num
        at += num


def _matmul(
    target: Target, conv: Convolution, tile: OutputTile, weights: SSAValue, fy: Linear, run: Linear, at: Linear, rows: int,
    weights_at: Linear,
) -> list[Operation]:  # fmt: skip
    window, pixel = conv.window, tile.input.pixel_bytes or conv.input.format.pixel_bytes
    row_bytes, taps = row_bytes_of(target, conv.weight_bits), tile.channels.tile.taps
    row = fy * (taps.num_runs * taps.run_bytes) + run * taps.run_bytes + at
    maps = {
        "y": tile.y * window.strides[0] + fy * window.dilations[0] + (-window.pads[0] - tile.input.first_row),
        "x": tile.x * (window.strides[1] * pixel)
        + run * (window.dilations[1] * pixel)
        + at
        + tile.channels.input
        + -window.pads[1] * pixel
        + tile.input.first_byte * -1,
        "weights_at": weights_at + row * row_bytes,
        "sums_at": 0,
        "accumulate": row,
    }
    sizes = {
        "rows": rows, "y_count": tile.y_count, "x_count": tile.x_count, "y_step": window.strides[0],
        "x_step": window.strides[1] * pixel, "weights_pitch": row_bytes, "padding": window.padding,
        "weight_bits": conv.weight_bits,
    }  # fmt: skip
    return [MatMulOp.build(**indexed([tile.input.buffer, weights, tile.sums], maps, sizes))]
