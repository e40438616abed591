"""Roughly how many cycles a tiling takes, for many of them at once: what tilings are compared by.

`models`' closed form is exact, but takes a thousand times longer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...archdsl import ceil_div
from .problem import Problem, is_product

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
AHEAD = 2
"""Units by which loads run ahead of computations; streaming weights have one place more."""


class Candidates(NamedTuple):
    """Many tilings, [candidates]; see `ConvTiling`."""

    num_y: Ints
    num_x: Ints
    chunk_bytes: Ints
    num_chunks: Ints
    group: Ints
    panel: Ints
    unit_taps: Ints
    weights_at: Ints


def estimated_cycles(problem: Problem, some: Candidates, beat: int) -> Floats:
    """Cycles of tilings at some cycles per beat, roughly: the busier of array and bus, and what comes before and after."""
    array, shape = problem.array, problem.shape
    num_tiles, passing_cycles = vector_cycles(problem, some)
    vectors = some.num_y * some.num_x
    num_panels = np.where(some.panel > 0, -(-problem.num_outputs // np.maximum(some.panel, 1)), 1)
    num_visits, num_outputs = num_tiles * num_panels, problem.num_outputs / num_panels
    output_cycles = max(array.num_passes, ceil_div(array.cols, array.bus_bytes) * beat)
    compute = passing_cycles * problem.num_taps * num_outputs / num_tiles
    input_cycles, begin = _input_cycles(problem, some, beat)
    groups = np.ceil(np.ceil(num_outputs) / some.group)
    # With several chunks all inputs come again for each group; else the next input tile comes while one is used.
    is_whole = some.num_chunks == 1
    outputs = shape.output_height * shape.output_width / num_tiles * output_cycles + array.slot_beats * beat
    bus = np.where(is_whole, 1, groups * some.num_chunks) * input_cycles + outputs * num_outputs
    next_input = np.where(is_whole, input_cycles, 0)
    weights = sum(problem.layout.tap_bytes) // array.bus_bytes * beat * num_outputs
    # Weights of a unit must come within the time of the units ahead of it.
    unit_cycles = some.unit_taps * problem.tap_bytes // array.bus_bytes * beat
    spare = some.unit_taps * np.maximum(vectors, array.rows + 1) - (array.latency_cycles + unit_cycles) / AHEAD
    late = np.maximum(0, -spare) / some.unit_taps * problem.num_taps * num_outputs
    # Weights that stay come with the first tile of each panel.
    loading = np.maximum(compute + late, bus + weights)
    usual = np.where(some.panel > 0, np.maximum(compute, bus), loading)
    head = begin + unit_cycles + compute + late
    tail = np.where(some.panel > 0, compute, compute + late) + vectors * some.group * output_cycles
    last_bus = np.where(some.panel > 0, bus, bus + weights) - next_input
    first = np.maximum(head, next_input + bus + weights)
    several = first + (num_panels - 1) * loading + (num_visits - num_panels - 1) * usual + np.maximum(tail, last_bus)
    single = np.maximum(head + tail - compute - late, bus + weights)
    return array.latency_cycles + np.where(num_visits == 1, single, several)


def _input_cycles(problem: Problem, some: Candidates, beat: int) -> tuple[Floats, Floats]:
    """Cycles of an input tile's loads, and those until computations can begin on the first one."""
    array, shape = problem.array, problem.shape
    rows = np.minimum(shape.height, (some.num_y - 1) * shape.stride + shape.reach_y)
    columns = np.minimum(shape.width, (some.num_x - 1) * shape.stride + shape.reach_x)
    is_whole = some.num_chunks == 1
    row_bytes = columns * np.where(is_whole, problem.layout.pixel_bytes, some.chunk_bytes)
    # Main memory takes so many requests for rows at a time.
    row_cycles = array.latency_cycles / array.requests_in_flight
    requests = rows * np.where(is_whole | (shape.width == 1), 1, columns)
    cycles = np.maximum(rows * row_bytes / array.bus_bytes * beat, requests * row_cycles)
    if not is_product(shape):
        return cycles, cycles
    num_parts = np.maximum(1, some.chunk_bytes // (some.unit_taps * array.rows))
    part = rows * np.maximum(some.unit_taps * array.rows / array.bus_bytes * beat, row_cycles)
    return cycles, np.maximum(part, num_parts * part - (num_parts - 1) * some.unit_taps * some.num_y * some.num_x)


def vector_cycles(problem: Problem, some: Candidates) -> tuple[Ints, Ints]:
    """Number of tiles, and the cycles in which one tap passes all of them."""
    shape = problem.shape
    sizes = (shape.output_height, some.num_y), (shape.output_width, some.num_x)
    (y, x), num_tiles, cycles = sizes, np.zeros_like(some.num_y), np.zeros_like(some.num_y)
    for num_y, tile_y in ((y[0] // y[1], y[1]), (y[0] % y[1] > 0, y[0] % y[1])):
        for num_x, tile_x in ((x[0] // x[1], x[1]), (x[0] % x[1] > 0, x[0] % x[1])):
            num_tiles += num_y * num_x
            cycles += num_y * num_x * np.maximum(tile_y * tile_x, problem.array.rows + 1)
    return num_tiles, cycles
