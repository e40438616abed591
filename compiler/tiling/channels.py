"""Which output channels share a tile of weights, and which input channels those look at.

A tile of output channels of a convolution in groups multiplies the inputs of the groups that it touches and no others:
groups that are narrower than the PE array stand on the diagonal of a tile, wider ones have tiles of their own. The
ordinary convolution is the case of one group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from ...archdsl import ceil_div
from ..ir.tile import Linear
from .activations import aligned
from .loops import loop
from .target import Target, in_beats


@dataclass(frozen=True, slots=True, kw_only=True)
class Taps:
    """How a window is cut into vectors of input bytes that are neighbours: runs of a window's rows.

    Attributes:
        run_bytes: Bytes of a run.
        num_runs: Runs in a row of the window: one, or one per column.
    """

    run_bytes: int
    num_runs: int

    def num_vectors(self, rows: int) -> int:
        """Vectors of `rows` bytes in a row of the window."""
        return ceil_div(self.run_bytes, rows) * self.num_runs


def taps_of(rows: int, pixel_bytes: int, channels: int, width: int, dilation: int) -> Taps:
    """The cut of a window's row that needs the fewest vectors: all its columns in one run, or one run per column."""
    single = Taps(run_bytes=channels, num_runs=width)
    if width == 1 or dilation > 1:
        return single
    joint = Taps(run_bytes=(width - 1) * pixel_bytes + channels, num_runs=1)
    return min(joint, single, key=lambda taps: taps.num_vectors(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTile:
    """Output channels that share tiles of weights.

    Attributes:
        output, outputs: The first one and their number.
        input, inputs: The first input channel that they look at, and their number.
        taps: The cut of the window's rows over those input channels.
        num_rows: Rows of weights: bytes of all runs of the window.
        weights_at, weights_bytes: Where its weights begin behind those of the tiles before, and their bytes: whole beats.
    """

    output: int
    outputs: int
    input: int
    inputs: int
    taps: Taps
    num_rows: int
    weights_at: int
    weights_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TilePlace:
    """A tile of output channels that loops may stand for: what depends on them, and a tile that has the same sizes.

    Attributes:
        tile: The first one.
        idx: Its number.
        output, input, weights_at: As of `ChannelTile`.
    """

    tile: ChannelTile
    idx: Linear
    output: Linear
    input: Linear
    weights_at: Linear


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """What the tiles of output channels depend on.

    Attributes:
        inputs, outputs: Channels.
        groups: Of channels that see only each other.
        height, width, dilation: Of the window; the dilation is that of its columns.
        pixel_bytes: From one pixel of the input to the next.
        weight_bits: Of an element of the weights.
    """

    inputs: int
    outputs: int
    groups: int
    height: int
    width: int
    dilation: int
    pixel_bytes: int
    weight_bits: int


def row_bytes_of(target: Target, weight_bits: int) -> int:
    """Bytes of a row of weights."""
    return ceil_div(target.array.cols * weight_bits, 8)


def channel_tiles(target: Target, of: Grouping) -> tuple[ChannelTile, ...]:
    """The tiles of output channels: as many as the array has columns (a power of two of them), so that what is stored lies in words.

    A tile looks at the groups that it touches. To cut it between them would not pay: the channels of neighbouring groups
    side by side take at most as many vectors as those of each group by itself.
    """
    per_group, of_group = of.outputs // of.groups, of.inputs // of.groups
    row_bytes = row_bytes_of(target, of.weight_bits)
    found: list[ChannelTile] = []
    at = 0
    for begin in range(0, of.outputs, target.columns):
        end = min(begin + target.columns, of.outputs)
        first, behind = begin // per_group, (end - 1) // per_group + 1
        inputs = (behind - first) * of_group
        taps = taps_of(target.array.rows, of.pixel_bytes, inputs, of.width, of.dilation)
        num_rows = of.height * taps.num_runs * taps.run_bytes
        num_bytes = aligned(num_rows * row_bytes, target.array.bus_bytes)
        found.append(
            ChannelTile(
                output=begin, outputs=end - begin, input=first * of_group, inputs=inputs, taps=taps, num_rows=num_rows,
                weights_at=at, weights_bytes=num_bytes,
            )
        )  # fmt: skip
        at += num_bytes
    return tuple(found)


def packed_weights(
    target: Target, weights: npt.NDArray[np.int8], tiles: Sequence[ChannelTile], pixel_bytes: int, bits: int = 8
) -> npt.NDArray[np.uint8]:
    """Weights [FY, FX, C, K] as bytes, tile by tile: a row of weights per byte of all runs, whole beats.

    Of weights of 4 bits two share a byte, the first one in its low half.
    """
    return np.concatenate([_packed_tile(target, weights, tile, pixel_bytes, bits) for tile in tiles])


def _packed_tile(
    target: Target, weights: npt.NDArray[np.int8], tile: ChannelTile, pixel_bytes: int, bits: int
) -> npt.NDArray[np.uint8]:
    height, width, _, _ = weights.shape
    taps, cols = tile.taps, target.array.cols
    is_joint = taps.num_runs == 1 and width > 1
    channels = tile.inputs
    seen = weights[:, :, tile.input : tile.input + channels, tile.output : tile.output + tile.outputs]
    padded = np.zeros((height, width, max(pixel_bytes, channels), cols + cols % 2 if bits == 4 else cols), np.int8)
    padded[:, :, :channels, : tile.outputs] = seen
    if is_joint:
        rows = padded[:, :, :pixel_bytes].reshape(height, width * pixel_bytes, -1)[:, : taps.run_bytes]
    else:
        rows = padded[:, :, :channels]
    found = np.ascontiguousarray(rows).view(np.uint8)
    if bits == 4:
        nibbles = found & np.uint8(15)
        found = np.bitwise_or(nibbles[..., 0::2], nibbles[..., 1::2] << 4).astype(np.uint8)
    return in_beats(found.reshape(1, -1), target.array).reshape(-1)


def over_tiles(
    tiles: Sequence[ChannelTile], first: int, body: Callable[[TilePlace], list[Operation]]
) -> list[Operation]:
    """Runs a body for every tile, in order: in loops as far as tiles repeat, alone or several in turn.

    Args:
        tiles: The tiles.
        first: The number of the first one.
        body: What is done for a tile.
    """
    return over_sets(places_of(tiles, first), 1, lambda places: body(places[0]))


def places_of(tiles: Sequence[ChannelTile], first: int = 0) -> list[TilePlace]:
    """Tiles outside of loops, `first` being the number of the first one."""
    return [
        TilePlace(
            tile=tile, idx=Linear(first + number), output=Linear(tile.output), input=Linear(tile.input),
            weights_at=Linear(tile.weights_at),
        )
        for number, tile in enumerate(tiles)
    ]  # fmt: skip


def over_sets(
    places: Sequence[TilePlace], size: int, body: Callable[[Sequence[TilePlace]], list[Operation]]
) -> list[Operation]:
    """Runs a body for every so many tiles together, in order, and for those left over: in loops as far as they repeat.

    Args:
        places: The tiles, which may themselves stand for those of a loop.
        size: How many tiles the body takes at a time.
        body: What is done for them.
    """
    found: list[Operation] = []
    at = 0
    while at < len(places):
        period, count = _repetition([place.tile for place in places[at:]], size)
        turn = places[at : at + period]
        following = places[at + period] if count > 1 else turn[0]

        def of_turn(
            idx: Linear, turn: Sequence[TilePlace] = turn, step: tuple[int, int, int] = _step(turn[0], following)
        ) -> list[Operation]:
            output, input_, weights_at = step
            moved = [
                TilePlace(
                    tile=place.tile, idx=idx * len(turn) + place.idx, output=idx * output + place.output,
                    input=idx * input_ + place.input, weights_at=idx * weights_at + place.weights_at,
                )
                for place in turn
            ]  # fmt: skip
            return [op for begin in range(0, len(moved), size) for op in body(moved[begin : begin + size])]

        found += loop(count, of_turn)
        at += period * count
    return found


def _step(here: TilePlace, there: TilePlace) -> tuple[int, int, int]:
    """From tile to tile, whatever loops they stand for: output and input channel, and bytes of weights."""
    return (
        there.tile.output - here.tile.output,
        there.tile.input - here.tile.input,
        there.tile.weights_at - here.tile.weights_at,
    )


def _repetition(tiles: Sequence[ChannelTile], size: int) -> tuple[int, int]:
    """How many tiles at the beginning, a multiple of `size`, repeat how often: those that spare most when they become a loop."""
    best, most = (size, 1), 0
    for period in range(size, len(tiles) // 2 + 1, size):
        if len(tiles) - period <= most:
            break
        count = 1
        while _is_turn(tiles, period, count):
            count += 1
        if period * (count - 1) > most:
            best, most = (period, count), period * (count - 1)
    return best


def _is_turn(tiles: Sequence[ChannelTile], period: int, count: int) -> bool:
    """Whether the tiles behind `count` turns are one more turn: the first one's, moved as the second one is."""
    begin = period * count
    if begin + period > len(tiles):
        return False
    moved = {
        (
            there.output - here.output - count * (tiles[period].output - tiles[0].output),
            there.input - here.input - count * (tiles[period].input - tiles[0].input),
            there.weights_at - here.weights_at - count * (tiles[period].weights_at - tiles[0].weights_at),
        )
        for here, there in zip(tiles[:period], tiles[begin : begin + period], strict=True)
    }
    sizes = [(tile.outputs, tile.inputs) for tile in tiles[:period]]
    return moved == {(0, 0, 0)} and sizes == [(tile.outputs, tile.inputs) for tile in tiles[begin : begin + period]]
