"""The tiles of a kernel: of outputs, with the input that they need, and how loads bring it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...archdsl import ceil_div
from .convolution import ConvShape, Tap, taps_of
from .problem import Problem
from .tiling import ConvTiling, most_count

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTile:
    """A tile of outputs and the input that it needs.

    Attributes:
        y, x: Its first output.
        num_y, num_x: Rows and columns of outputs.
        first_row, num_rows: The input rows.
        first_column, num_columns: The input columns.
    """

    y: int
    x: int
    num_y: int
    num_x: int
    first_row: int
    num_rows: int
    first_column: int
    num_columns: int

    @property
    def num_vectors(self) -> int:
        """Outputs of one tile of output channels."""
        return self.num_y * self.num_x


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTile:
    """What of the input stands in the scratchpad, from the first byte of a row that is there.

    Attributes:
        first_byte: That byte, as it is counted where all pixels of a row have `pixel_bytes`.
        pixel_bytes: Distance of two pixels.
        width_bytes: Bytes of a row.
        first_channel: The first channel.
    """

    first_byte: int
    pixel_bytes: int
    width_bytes: int
    first_channel: int


def output_tiles(shape: ConvShape, num_y: int, num_x: int) -> tuple[OutputTile, ...]:
    """Tiles of up to so many rows and columns of outputs, row by row."""
    rows = _spans(shape.output_height, num_y, shape.stride, shape.pad_top, shape.reach_y, shape.height)
    columns = _spans(shape.output_width, num_x, shape.stride, shape.pad_left, shape.reach_x, shape.width)
    return tuple(
        OutputTile(
            y=y, x=x, num_y=num_rows, num_x=num_columns, first_row=first_row, num_rows=input_rows, first_column=first_column,
            num_columns=input_columns,
        )
        for y, num_rows, first_row, input_rows in rows
        for x, num_columns, first_column, input_columns in columns
    )  # fmt: skip


def _spans(outputs: int, num: int, stride: int, pad: int, reach: int, size: int) -> list[tuple[int, int, int, int]]:
    """Per span of outputs: its first and their number, and the same of the inputs under their windows, at least one."""
    found: list[tuple[int, int, int, int]] = []
    for at in range(0, outputs, num):
        some = min(num, outputs - at)
        low = min(max(0, at * stride - pad), size - 1)
        high = min(size, (at + some - 1) * stride - pad + reach)
        found.append((at, some, low, max(1, high - low)))
    return found


def tap_order(problem: Problem, tiling: ConvTiling) -> tuple[tuple[Tap, ...], Ints, Ints]:
    """The taps chunk by chunk, each's chunk, and where its weights begin among those of a tile of output channels."""
    taps = taps_of(problem.array, problem.shape, problem.layout.pixel_bytes)
    begins = np.concatenate([[0], np.cumsum(problem.layout.tap_bytes)[:-1]])
    if tiling.num_chunks == 1:
        return taps, np.zeros(len(taps), dtype=np.int64), begins
    chunks = np.array([tap.x % problem.layout.pixel_bytes // tiling.chunk_bytes for tap in taps], dtype=np.int64)
    order = np.argsort(chunks, kind="stable")
    return tuple(taps[int(idx)] for idx in order), chunks[order], begins[order]


def input_tile(problem: Problem, tiling: ConvTiling, tile: OutputTile, chunk: int) -> InputTile:
    """What of the input stands in the scratchpad for a tile of outputs and a chunk of the channels."""
    pixel_bytes, end = problem.layout.pixel_bytes, tile.first_column + tile.num_columns
    if tiling.num_chunks > 1:
        chunk_bytes = tiling.chunk_bytes
        return InputTile(
            first_byte=tile.first_column * chunk_bytes, pixel_bytes=chunk_bytes, width_bytes=tile.num_columns * chunk_bytes,
            first_channel=chunk * chunk_bytes,
        )  # fmt: skip
    # Loads begin at a beat.
    first = tile.first_column * pixel_bytes // problem.array.bus_bytes * problem.array.bus_bytes
    return InputTile(first_byte=first, pixel_bytes=pixel_bytes, width_bytes=end * pixel_bytes - first, first_channel=0)


def input_pitch(problem: Problem, tiling: ConvTiling) -> int:
    """Distance of an input tile's rows in the scratchpad."""
    if tiling.num_chunks == 1:
        return problem.row_bytes(tiling.num_x)
    return problem.columns_of(tiling.num_x) * tiling.chunk_bytes


def input_strides(problem: Problem, tiling: ConvTiling) -> tuple[int, int]:
    """Distances of two rows of an input's loads, in main memory and in the scratchpad."""
    if tiling.num_chunks > 1 and problem.shape.width > 1:
        return problem.layout.pixel_bytes, tiling.chunk_bytes
    return problem.layout.input_row_bytes, input_pitch(problem, tiling)


def input_loads(
    problem: Problem, tiling: ConvTiling, tile: OutputTile, chunk: int, *, num_parts: int = 1, cuts: Sequence[int] = ()
) -> Ints:
    """The loads of an input tile, [loads, 4]: rows, beats, byte of main memory, byte of the place for input tiles.

    Args:
        problem, tiling: The kernel.
        tile, chunk: The tile of outputs, the chunk of channels.
        num_parts: Into how many loads the rows are parted, where one load could bring all.
        cuts: Bytes of the rows at which loads of columns end, the last of them the last byte.
    """
    layout, bus_bytes = problem.layout, problem.array.bus_bytes
    found = input_tile(problem, tiling, tile, chunk)
    row_bytes, pitch = layout.input_row_bytes, input_pitch(problem, tiling)
    memory = layout.input + tile.first_row * row_bytes
    if tiling.num_chunks > 1 and problem.shape.width > 1:
        # A chunk of every pixel: the pixels of a row of the image are the rows of one load.
        beats = ceil_div(min(tiling.chunk_bytes, layout.pixel_bytes - found.first_channel), bus_bytes)
        memory += tile.first_column * layout.pixel_bytes + found.first_channel
        return np.array(
            [(tile.num_columns, beats, memory + row * row_bytes, row * pitch) for row in range(tile.num_rows)],
            dtype=np.int64,
        )
    num_bytes = found.width_bytes
    if tiling.num_chunks > 1:
        num_bytes = min(tiling.chunk_bytes, layout.pixel_bytes - found.first_channel)
        memory += found.first_channel
    else:
        memory += found.first_byte
    ends = [min(ceil_div(cut, bus_bytes), ceil_div(num_bytes, bus_bytes)) for cut in cuts or (num_bytes,)]
    loads: list[tuple[int, int, int, int]] = []
    for part in range(num_parts):
        low, high = (tile.num_rows * idx // num_parts for idx in (part, part + 1))
        begin = 0
        for end in ends:
            while begin < end:
                beats = min(end - begin, most_count())
                at = begin * bus_bytes
                loads.append((high - low, beats, memory + low * row_bytes + at, low * pitch + at))
                begin += beats
    return np.array(loads, dtype=np.int64)
