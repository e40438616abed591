"""How a convolution or a matrix product is cut to the PE array's memories: the choice alone, nothing is emitted."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ...archdsl import INDEX_BITS, CompileError, PeArray, ceil_div, tensor_pe_array_isa
from .estimate import AHEAD, Candidates, estimated_cycles, vector_cycles
from .problem import Problem, aligned

Floats = npt.NDArray[np.float64]
PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024, 2048, 4096)
"""Into how many parts rows and columns of outputs are cut at first; the parts are made equal then."""
UNITS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Taps whose weights one load may bring."""
SLACK = 1 / 32
"""Estimates that differ by less tell nothing; of such tilings that one is taken which is best at a slow main memory."""
SLOW_CYCLES_PER_BEAT = 8
"""Slow: traffic decides. Others may take turns with the PE array, and beats cost energy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvTiling:
    """How a kernel is cut.

    An input tile holds what a tile of outputs needs of one chunk of the channels. With several chunks sums stay in the
    accumulators until all of them have passed, and the sums of a `group` of tiles of output channels stand there
    together, so that each input tile is used for all of them.

    Attributes:
        num_y, num_x: Rows and columns of a tile of outputs.
        chunk_bytes: Bytes of a pixel in one chunk.
        num_chunks: Chunks of the channels.
        group: Tiles of output channels whose sums stand together.
        panel: Tiles of output channels that all tiles of outputs pass before the next ones' turn comes; their weights
            stay in the scratchpad. 0 when weights stream.
        unit_taps: The most taps whose weights one load brings.
        weights_at: First byte of the weights in the scratchpad; the two input tiles share what is in front.
    """

    num_y: int
    num_x: int
    chunk_bytes: int
    num_chunks: int
    group: int
    panel: int
    unit_taps: int
    weights_at: int


@cache
def most_count() -> int:
    """The greatest count that all instructions of a kernel can hold: rows, beats and vectors."""
    counts = (("LD", "rows"), ("LD", "row_beats"), ("CFG_TILE", "rows"), ("COMPUTE", "x_count"), ("COMPUTE", "y_count"))
    return min(tensor_pe_array_isa().by_name[name].field(count).most for name, count in counts)


def choose_tiling(problem: Problem) -> ConvTiling:
    """The tiling of the least estimated cost.

    Raises:
        CompileError: Not even one output fits, or sums may not be exact.
    """
    array, shape = problem.array, problem.shape
    terms = shape.kernel_height * shape.kernel_width * shape.channels
    if terms > array.exact_terms:
        raise CompileError(
            f"an output is a sum of {terms} products, and accumulators of {array.accumulator_bits} bits hold"
            f" {array.exact_terms} of them exactly; split the op into several sums"
        )
    if array.parameter_slots < 3:
        raise CompileError(f"the PE array has {array.parameter_slots} parameter slots; kernels need 3 or more")
    found = _candidates(problem)
    if not len(found.num_y):
        raise CompileError(_misfit(problem))
    is_short = _program_lengths(problem, found) <= 1 << INDEX_BITS
    if is_short.any():
        found = Candidates(*(column[is_short] for column in found))
    fast = estimated_cycles(problem, found, array.cycles_per_beat)
    slow = estimated_cycles(problem, found, max(array.cycles_per_beat, SLOW_CYCLES_PER_BEAT))
    near = np.flatnonzero(fast <= fast.min() * (1 + SLACK))
    best = near[np.lexsort((fast[near], slow[near]))[0]]
    return ConvTiling(**{name: int(column[best]) for name, column in found._asdict().items()})


def _candidates(problem: Problem) -> Candidates:
    """All tilings that fit: those of outputs and inputs, each with weights that stream and with weights that stay."""
    array, shape = problem.array, problem.shape
    table = np.array(list(_input_tilings(problem)), dtype=np.int64).reshape(-1, 6)
    repeated = np.repeat(table, 2 * len(UNITS), axis=0).T
    num_y, num_x, chunk_bytes, num_chunks, group, weights_at = repeated
    unit_taps = np.tile(np.repeat(UNITS, 2), len(table))
    stays = np.tile([0, 1], len(table) * len(UNITS))
    area = array.scratchpad_bytes - weights_at
    panel = np.minimum(area // sum(problem.layout.tap_bytes), problem.num_outputs)
    is_again = (num_y < shape.output_height) | (num_x < shape.output_width)
    # A later panel's weights take the place of an earlier one's, of which the last units may not have been used.
    is_behind = (num_chunks == 1) & (panel * -(-problem.num_taps // unit_taps) > AHEAD)
    may_stay = is_again & (panel > 0) & ((panel == problem.num_outputs) | is_behind)
    may_stream = (AHEAD + 1) * unit_taps * problem.tap_bytes <= area
    run = np.where(num_chunks == 1, problem.num_taps, -(-chunk_bytes // array.rows))
    is_whole = (unit_taps <= run) & (unit_taps * problem.tap_bytes <= most_count() * array.bus_bytes)
    fits = is_whole & ((stays == 1) & may_stay | (stays == 0) & may_stream)
    columns = num_y, num_x, chunk_bytes, num_chunks, group, panel * stays, unit_taps, weights_at
    return Candidates(*(column[fits] for column in columns))


def _program_lengths(problem: Problem, some: Candidates) -> Floats:
    """About how many instructions the kernels have: the program counter must reach them."""
    num_tiles, _ = vector_cycles(problem, some)
    num_stores = num_tiles * problem.num_outputs
    return num_stores * (problem.num_taps * (2 + 1 / some.unit_taps) + 4 * some.num_chunks)


def _input_tilings(problem: Problem) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Outputs, chunks, groups and the place of weights, in the order of `_candidates`, where inputs and sums fit."""
    array, shape, pixel_bytes = problem.array, problem.shape, problem.layout.pixel_bytes
    half = array.accumulator_vectors // 2
    most_rows = (most_count() - shape.reach_y) // shape.stride + 1
    for num_x in _parts(shape.output_width, min(half, most_count())):
        if problem.columns_of(num_x) > most_count():
            continue
        for group in range(1, min(array.parameter_slots, problem.num_outputs) + 1):
            for num_y in _parts(shape.output_height, min(half // (group * num_x), most_count(), most_rows)):
                seen: set[int] = set()
                for weights_at in _splits(array):
                    chunk = _largest_chunk(problem, num_y, num_x, input_slot_bytes(array, weights_at))
                    # With one chunk, input tiles serve all output channels anyway.
                    if chunk and chunk not in seen and (chunk < pixel_bytes or group == 1):
                        seen.add(chunk)
                        yield num_y, num_x, chunk, ceil_div(pixel_bytes, chunk), group, weights_at


def _parts(size: int, most: int) -> list[int]:
    """Equal parts of a size, of at most so much, from the largest."""
    if most < 1:
        return []
    fewest = ceil_div(size, most)
    return sorted({ceil_div(size, fewest * parts) for parts in PARTS}, reverse=True)


def _splits(array: PeArray) -> list[int]:
    """Where weights may begin in the scratchpad: between banks, so that inputs and weights have their own."""
    banks = 4 if array.scratchpad_banks == 1 else array.scratchpad_banks
    weights = {1, banks // 4, banks // 2, 3 * banks // 4}
    return [
        array.scratchpad_bytes // banks * num for num in sorted({banks - num for num in weights}) if 0 < num < banks
    ]


def _largest_chunk(problem: Problem, num_y: int, num_x: int, slot_bytes: int) -> int:
    """Bytes of a pixel that an input tile can hold, of about the same size in all chunks; 0 where none is small enough."""
    rows, pixel_bytes = problem.rows_of(num_y), problem.layout.pixel_bytes
    if rows * problem.row_bytes(num_x) <= slot_bytes:
        return pixel_bytes
    if not problem.granule:
        return 0
    most = min(slot_bytes // (rows * problem.columns_of(num_x)), most_count() * problem.array.bus_bytes)
    most = most // problem.granule * problem.granule
    if not 0 < most < pixel_bytes:
        return 0
    return aligned(ceil_div(pixel_bytes, ceil_div(pixel_bytes, most)), problem.granule)


def input_slot_bytes(array: PeArray, weights_at: int) -> int:
    """Bytes of one of the two input tiles."""
    return weights_at // 2 // array.word_bytes * array.word_bytes


def _misfit(problem: Problem) -> str:
    """Why nothing fits, and what would help."""
    array, shape = problem.array, problem.shape
    window = problem.rows_of(1) * (problem.columns_of(1) * problem.granule if problem.granule else problem.row_bytes(1))
    weights_at = _splits(array)[-1]
    needed = (AHEAD + 1) * problem.tap_bytes
    text = (
        f"one output needs {window} B of the input and {needed} B of weights ({AHEAD + 1} tiles) at once, and of the"
        f" scratchpad of {array.scratchpad_bytes} B an input tile has at most {input_slot_bytes(array, weights_at)} B;"
        " use a larger scratchpad"
    )
    if problem.granule:
        return text
    unit = math.lcm(array.rows, array.bus_bytes)
    return f"{text}, or pad the {shape.channels} channels to a multiple of {unit} so that they can be split"
