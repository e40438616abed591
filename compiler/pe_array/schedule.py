"""The order of a kernel's loads, computations and stores, as columns of numbers: kernel and timing model read the same.

A unit is a run of taps of one tile of output channels on one tile of outputs; one load brings its weights. In front
of a unit's computations stand the loads of its boundary: weights of a unit some units ahead, parts of the next input
tile, channel parameters. They wait for the unit before to end, so that each load finds its place free, and no load
overtakes a computation that waits. Stores follow the last unit of a group of tiles of output channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...archdsl import PeArray, ceil_div
from .convolution import ConvLayout, ConvShape, Tap
from .estimate import AHEAD
from .problem import Problem, flattened, is_product, problem_of
from .tiles import OutputTile, input_loads, input_pitch, output_tiles, tap_order
from .tiling import ConvTiling, choose_tiling, input_slot_bytes

Ints = npt.NDArray[np.int64]
PART_BEATS = 32
"""The least beats of a part of an input tile, so that many small loads do not keep others waiting."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Units in their order, [units].

    Attributes:
        tile, output, chunk: Tile of outputs, tile of output channels, chunk of channels.
        first_tap, num_taps: Its taps, in the order of `KernelPlan.taps`.
        place: Place among the sums of its group.
        group, block: Number of its group, and of its input tile.
        ends_group: Whether stores follow.
        weights_at: Where its weights stand in the scratchpad.
    """

    tile: Ints
    output: Ints
    chunk: Ints
    first_tap: Ints
    num_taps: Ints
    place: Ints
    group: Ints
    block: Ints
    ends_group: Ints
    weights_at: Ints

    def __len__(self) -> int:
        return len(self.tile)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Loads in their order, [loads].

    Attributes:
        boundary: The unit in front of whose computations they stand; below 0 at the very beginning.
        rows, beats: Rows, and beats of each.
        memory, local: Where from, and where to: a byte of the scratchpad, or a slot of parameters.
        kind: Of those below.
    """

    boundary: Ints
    rows: Ints
    beats: Ints
    memory: Ints
    local: Ints
    kind: Ints

    def __len__(self) -> int:
        return len(self.boundary)


FIRST_INPUT, WEIGHTS, PARAMETERS, INPUT = range(4)
"""Kinds of loads, in their order at a boundary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What waits for what: only what is not known yet from earlier waits, [units].

    Attributes:
        loads_end: How many loads stand in front of a unit's computations.
        weights, inputs, parameters: The load (counted from 1) that a unit's first PRELOAD, its first and its last COMPUTE
            wait for; 0 for none.
        stored: How many groups must have been stored before a unit's first COMPUTE; 0 for none.
        frees: Whether loads wait for a unit's end.
    """

    loads_end: Ints
    weights: Ints
    inputs: Ints
    parameters: Ints
    stored: Ints
    frees: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPlan:
    """All that a kernel does.

    Attributes:
        problem, tiling: What is computed, and how it is cut.
        taps: The taps in the order of the units.
        tiles: The tiles of outputs.
        units, loads, waits: See there.
    """

    problem: Problem
    tiling: ConvTiling
    taps: tuple[Tap, ...]
    tiles: tuple[OutputTile, ...]
    units: Units
    loads: Loads
    waits: Waits


def plan_kernel(array: PeArray, shape: ConvShape, layout: ConvLayout) -> KernelPlan:
    """Cuts a kernel, and puts its loads, computations and stores in order.

    Raises:
        CompileError: The kernel does not fit the array's memories.
    """
    problem = problem_of(array, *flattened(array, shape, layout))
    tiling = choose_tiling(problem)
    taps, chunks, offsets = tap_order(problem, tiling)
    tiles = output_tiles(problem.shape, tiling.num_y, tiling.num_x)
    units = _units(problem, tiling, _runs(tiling, chunks, offsets, problem.layout.tap_bytes), offsets, len(tiles))
    parts = [
        _weight_loads(problem, tiling, units, taps, offsets),
        _parameter_loads(problem, tiling, units),
        _first_input(problem, tiling, tiles[0], units, taps),
        _later_inputs(problem, tiling, tiles, units),
    ]
    columns = np.concatenate(parts)
    columns = columns[np.lexsort((columns[:, 5], columns[:, 0]))]
    boundary, rows, beats, memory, local, kind, needed = columns.T
    loads = Loads(boundary=boundary, rows=rows, beats=beats, memory=memory, local=local, kind=kind)
    waits = _waits(problem, tiling, units, loads, needed)
    return KernelPlan(problem=problem, tiling=tiling, taps=taps, tiles=tiles, units=units, loads=loads, waits=waits)


# ---- Units.


def _runs(tiling: ConvTiling, chunks: Ints, offsets: Ints, tap_bytes: tuple[int, ...]) -> list[Ints]:
    """Per chunk its units, [2, units]: first tap and number of taps. The weights of a unit are neighbours in main memory."""
    found: list[Ints] = []
    for chunk in range(tiling.num_chunks):
        first, last = (int(np.searchsorted(chunks, at)) for at in (chunk, chunk + 1))
        # A chunk's taps of one place in the window are neighbours.
        run = last - first if tiling.num_chunks == 1 else _run_length(offsets[first:last], tap_bytes)
        num = ceil_div(run, tiling.unit_taps)
        cuts = np.arange(num + 1) * run // num
        begins = (first + np.arange(0, last - first, run)[:, None] + cuts[:-1]).reshape(-1)
        found.append(np.stack([begins, np.tile(np.diff(cuts), (last - first) // run)]))
    return found


def _run_length(offsets: Ints, tap_bytes: tuple[int, ...]) -> int:
    """Taps until the next one's weights do not follow."""
    gaps = np.flatnonzero(np.diff(offsets) > max(tap_bytes))
    return int(gaps[0]) + 1 if len(gaps) else len(offsets)


def _units(problem: Problem, tiling: ConvTiling, runs: list[Ints], offsets: Ints, num_tiles: int) -> Units:
    """All units: panel by panel, tile of outputs by tile, group by group, chunk by chunk, output by output."""
    num_outputs, panel = problem.num_outputs, tiling.panel or problem.num_outputs
    parts: list[Ints] = []
    for first in range(0, num_outputs, panel):
        last = min(first + panel, num_outputs)
        groups = [_group(at, min(tiling.group, last - at), runs) for at in range(first, last, tiling.group)]
        visit = np.concatenate(groups, axis=1)
        tiles = np.repeat(np.arange(num_tiles), visit.shape[1])
        parts.append(np.vstack([np.tile(visit, num_tiles), tiles]))
    output, place, chunk, first_tap, num_taps, tile = np.concatenate(parts, axis=1)
    # A group begins where its first output does on its first tap; an input tile serves as long as tile and chunk stay.
    first_of_group = (place == 0) & (first_tap == 0)
    group = np.cumsum(first_of_group) - 1
    key = [tile, group, chunk] if tiling.num_chunks > 1 else [tile, output // panel]
    block = np.cumsum(np.any([_changes(column) for column in key], axis=0)) - 1
    area = tiling.weights_at
    if tiling.panel:
        weights_at = area + output % panel * sum(problem.layout.tap_bytes) + offsets[first_tap]
    else:
        weights_at = area + np.arange(len(tile)) % (AHEAD + 1) * tiling.unit_taps * problem.tap_bytes
    return Units(
        tile=tile, output=output, chunk=chunk, first_tap=first_tap, num_taps=num_taps, place=place, group=group,
        block=block, ends_group=np.append(first_of_group[1:], True), weights_at=weights_at,
    )  # fmt: skip


def _group(first: int, size: int, runs: list[Ints]) -> Ints:
    """The units of a group of some tiles of output channels on one tile of outputs, [5, units]."""
    found: list[Ints] = []
    for chunk, run in enumerate(runs):
        num = run.shape[1]
        place = np.repeat(np.arange(size), num)
        found.append(np.vstack([first + place, place, np.full(size * num, chunk), np.tile(run, size)]))
    return np.concatenate(found, axis=1)


def _changes(column: Ints) -> npt.NDArray[np.bool_]:
    """Where a column differs from the row before."""
    return np.append(True, column[1:] != column[:-1])


# ---- Loads, [loads, 7]: boundary, rows, beats, byte of main memory, byte or slot of the target, kind, unit that needs it.


def _columns(*values: Ints | int) -> Ints:
    return np.stack(np.broadcast_arrays(*values), axis=-1).astype(np.int64)


def _weight_loads(problem: Problem, tiling: ConvTiling, units: Units, taps: tuple[Tap, ...], offsets: Ints) -> Ints:
    """Of every unit; where weights stay, on the first tile of outputs."""
    layout = problem.layout
    idx = np.flatnonzero(units.tile == 0) if tiling.panel else np.arange(len(units))
    first, last = units.first_tap[idx], units.first_tap[idx] + units.num_taps[idx] - 1
    num_bytes = offsets[last] - offsets[first] + np.array([problem.weight_bytes(tap) for tap in taps])[last]
    memory = layout.weights + units.output[idx] * sum(layout.tap_bytes) + offsets[first]
    beats = num_bytes // problem.array.bus_bytes
    return _columns(idx - AHEAD, 1, beats, memory, units.weights_at[idx], WEIGHTS, idx)


def _parameter_loads(problem: Problem, tiling: ConvTiling, units: Units) -> Ints:
    """One per tile of output channels of each group; its slot is free when it is known that its last store has ended."""
    array, layout = problem.array, problem.layout
    turns = parameter_turns(array, tiling)
    firsts, lasts = _first_units(units), _last_units(units)
    known = np.full(len(lasts), -1)
    later = np.arange(turns, len(lasts))
    # A group's first unit waits for the stores of the group before the last; see `_waits` for one turn.
    known[later] = 1 + (firsts[later - turns + 2] if turns > 1 else _last_but_one_chunk(tiling, units)[later])
    group = np.repeat(np.arange(len(lasts)), units.place[lasts] + 1)
    place = np.arange(len(group)) - np.searchsorted(group, group)
    output = units.output[firsts][group] + place
    return _columns(
        np.maximum(known, lasts - AHEAD - 1)[group], 1, array.slot_beats, layout.parameters + output * layout.parameter_bytes,
        group % turns * tiling.group + place, PARAMETERS, lasts[group],
    )  # fmt: skip


def parameter_turns(array: PeArray, tiling: ConvTiling) -> int:
    """How many groups have channel parameters at the same time."""
    return array.parameter_slots // tiling.group


def _first_units(units: Units) -> Ints:
    return np.flatnonzero(_changes(units.group))


def _last_units(units: Units) -> Ints:
    return np.flatnonzero(units.ends_group)


def _last_but_one_chunk(tiling: ConvTiling, units: Units) -> Ints:
    """Per group the last unit of the last chunk but one."""
    return np.flatnonzero((units.chunk == tiling.num_chunks - 1) & _changes(units.block)) - 1


def _first_input(problem: Problem, tiling: ConvTiling, tile: OutputTile, units: Units, taps: tuple[Tap, ...]) -> Ints:
    """Of the first input tile: at once, or, in a matrix product, the channels of one unit after the other."""
    if not is_product(problem.shape):
        loads = input_loads(problem, tiling, tile, 0)
        return _columns(-AHEAD, *loads.T, FIRST_INPUT, 0)
    ends = (units.first_tap + units.num_taps - 1)[(units.chunk == 0) & (units.output == 0) & (units.tile == 0)]
    cuts = [taps[int(idx)].x + taps[int(idx)].count for idx in ends]
    loads = input_loads(problem, tiling, tile, 0, cuts=cuts)
    needed = np.searchsorted(np.array(cuts), loads[:, 3] + (loads[:, 1] - 1) * problem.array.bus_bytes, side="right")
    return _columns(needed - AHEAD, *loads.T, FIRST_INPUT, needed)


def _later_inputs(problem: Problem, tiling: ConvTiling, tiles: tuple[OutputTile, ...], units: Units) -> Ints:
    """Of the other input tiles, in parts spread over the units that use the one before."""
    begins = np.flatnonzero(_changes(units.block))
    lengths = np.diff(begins)
    if not len(lengths):
        return np.zeros((0, 7), dtype=np.int64)
    spans = np.maximum(1, lengths - AHEAD)
    tables: dict[tuple[int, int, int], Ints] = {}
    found: list[Ints] = []
    for begin, span in zip(begins[1:], map(int, spans), strict=True):
        tile, chunk = int(units.tile[begin]), int(units.chunk[begin])
        if (tile, chunk, span) not in tables:
            beats = tiles[tile].num_rows * input_pitch(problem, tiling) // problem.array.bus_bytes
            num = max(1, min(span, tiles[tile].num_rows, beats // PART_BEATS))
            tables[tile, chunk, span] = input_loads(problem, tiling, tiles[tile], chunk, num_parts=num)
        found.append(tables[tile, chunk, span])
    nums = np.array([len(table) for table in found])
    block = np.repeat(np.arange(1, len(begins)), nums)
    part = np.arange(len(block)) - np.repeat(np.cumsum(nums) - nums, nums)
    rows, beats, memory, local = np.concatenate(found).T
    boundary = begins[block - 1] + part * spans[block - 1] // nums[block - 1]
    place = block % 2 * input_slot_bytes(problem.array, tiling.weights_at)
    return _columns(boundary, rows, beats, memory, place + local, INPUT, begins[block])


# ---- Waits.


def _waits(problem: Problem, tiling: ConvTiling, units: Units, loads: Loads, needed: Ints) -> Waits:
    loads_end = np.searchsorted(loads.boundary, np.arange(len(units)), side="right")
    wants = np.zeros((len(units), 3), dtype=np.int64)  # of a unit's first PRELOAD, its first and its last COMPUTE
    place = np.array([1, 0, 2, 1])[loads.kind]
    np.maximum.at(wants, (needed, place), np.arange(1, len(loads) + 1))
    # One COMPUTE takes one token.
    is_alone = units.num_taps == 1
    wants[is_alone, 1] = wants[is_alone, 1:].max(axis=1)
    wants[is_alone, 2] = 0
    wants = _news(wants.reshape(-1)).reshape(-1, 3)
    stored = np.zeros(len(units), dtype=np.int64)
    # A group has the place of the sums of the group before the last.
    firsts = _first_units(units)
    stored[firsts] = np.maximum(np.arange(len(firsts)) - 1, 0)
    if parameter_turns(problem.array, tiling) == 1:
        # The stores of the group before must end for its channel parameters to make room.
        late = _last_but_one_chunk(tiling, units)
        stored[late] = np.arange(len(late))
    return Waits(
        loads_end=loads_end,
        weights=wants[:, 0],
        inputs=wants[:, 1],
        parameters=wants[:, 2],
        stored=_news(stored),
        frees=np.append(np.diff(loads_end) > 0, False).astype(np.int64),
    )


def _news(wanted: Ints) -> Ints:
    """What is wanted beyond all that was wanted before; else 0."""
    before = np.concatenate([[0], np.maximum.accumulate(wanted)[:-1]])
    return np.where(wanted > before, wanted, 0)
