"""Time in the PE array: passes over stationary tiles, filling and draining, and the pace of instructions.

A *pass* is the time in which one set of stationary tiles stays in the PEs. All amounts are arrays over a
batch of mappings.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..archdsl import Tensor
from .detailed_timing import ArrayTiming
from .nest import FloatArray, Nest
from .pieces import Choice, Pieces, narrow, negate


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayCycles:
    """Cycles in the PE array, [batch]; their sum is its time.

    Attributes:
        steps: One step of the whole nest after the other.
        loading: Waiting for stationary tiles to be shifted in.
        filling: The first values on their way in and the last on their way out.
        pacing: Instructions too short for the array to be kept busy.
    """

    steps: FloatArray
    loading: FloatArray
    filling: FloatArray
    pacing: FloatArray

    @property
    def total(self) -> FloatArray:
        """Time of the array."""
        return self.steps + self.loading + self.filling + self.pacing


def time_steps(nest: Nest, pieces: Pieces, num_loops: int, skip: Choice | None = None, skipped: int = -1) -> FloatArray:
    """Steps in time of the first `num_loops` loops.

    Args:
        nest: The loops.
        pieces: Piece statistics of the batch.
        num_loops: How many loops, from the outermost.
        skip: Where loop `skipped` stays at its first step.
        skipped: Index of that loop.
    """
    total: FloatArray = np.ones(pieces.batch)
    for dim, _ in nest.op.dims:
        loops = nest.over(dim, num_loops)
        counted: dict[int, Choice] = {idx: nest.loops[idx].axis is None for idx in loops}
        if skip is not None and skipped in counted:
            counted[skipped] = negate(skip)
        if loops:
            total = total * pieces.visits(loops, dim, counted)
    return total


def tile_changes(nest: Nest, pieces: Pieces, tensor: Tensor, num_loops: int) -> FloatArray:
    """Steps in time at which the tile of `tensor` below the first `num_loops` loops changes; at least 1."""
    counted: dict[int, Choice] = {}
    still: Choice = True
    for idx in reversed(range(num_loops)):
        loop = nest.loops[idx]
        if loop.axis is not None:
            counted[idx] = False
        elif loop.dim in tensor.dims:
            counted[idx] = True
            still = narrow(still, pieces.bounds[idx] == 1)
        else:
            counted[idx] = negate(still)
    total: FloatArray = np.ones(pieces.batch)
    for dim, _ in nest.op.dims:
        loops = nest.over(dim, num_loops)
        if any(counted[idx] is not False for idx in loops):
            total = total * pieces.visits(loops, dim, counted)
    return total


def array_cycles(
    nest: Nest,
    pieces: Pieces,
    array: ArrayTiming,
    steps: FloatArray,
    step_cycles: float,
    feed_cycles: int,
    starts: FloatArray,
) -> ArrayCycles:
    """Cycles of a batch in the PE array.

    Without shadow registers every pass shifts its stationary tile in, fills, streams and drains:
    `load + steps + skew` with `skew` the sum of `size - 1` over the systolic axes. For an `a x a` array
    that is `K + 2a - 2` per pass output-stationary and `M + 3a - 2` weight-stationary. With them the next
    tile is shifted in behind the last instruction of a pass, which then takes `max(its steps, load)`, and
    filling and draining are paid once.

    Args:
        nest: Loops of the mappings.
        pieces: Their piece statistics.
        array: The PE array.
        steps: Steps of the whole nest.
        step_cycles: Cycles of one step.
        feed_cycles: Latency of the memory that feeds the array.
        starts: How often the array starts from rest, because something outside does not overlap.

    Source: closed forms of SCALE-Sim (Samajdar et al., ISPASS 2020, equations 1 to 4); shadow weights and
        instructions as in Gemmini (Genc et al., DAC 2021; ExecuteController.scala, MeshWithDelays.scala).

    Limits: ragged edges along an axis are not shorter in skew or load; the passes of one mapping count as
        equally long.
    """
    busy = steps * step_cycles
    zero = np.zeros(pieces.batch)
    passes, elements = _passes(nest, pieces, array)
    passes_by = _passes_array_by(nest)
    load = 0.0 * elements if passes_by else array.load_cycles * elements
    skew = 0 if passes_by else array.skew_cycles
    if not array.is_shadowed:
        each = passes if array.stationary is not None else starts
        return ArrayCycles(steps=busy, loading=passes * load, filling=each * skew, pacing=zero)
    instructions, rows = _instructions(nest, pieces, array, steps, step_cycles)
    per_pass = np.maximum(instructions / passes, 1.0)
    floored = rows / (passes * per_pass)
    behind = np.maximum(load - floored, 0.0)
    plain = per_pass * floored + behind
    paced = _paced(per_pass, floored, behind, array, skew + feed_cycles)
    return ArrayCycles(
        steps=busy,
        loading=passes * behind + starts * load,
        filling=starts * skew,
        pacing=passes * (paced - plain) + np.maximum(passes * per_pass * floored - busy, 0.0),
    )


def _passes_array_by(nest: Nest) -> bool:
    """Whether the lanes of the vector unit compute: a loop is spread over an axis that carries its dim only alone."""
    return any(
        loop.axis is not None and nest.op.sizes[loop.dim] > 1 and nest.op.dim_class(loop.dim) in loop.axis.alone_classes
        for loop in nest.loops
    )


def _passes(nest: Nest, pieces: Pieces, array: ArrayTiming) -> tuple[FloatArray, FloatArray]:
    """Passes, and elements of the stationary tile per PE."""
    one = np.ones(pieces.batch)
    for t_idx, tensor in enumerate(nest.op.tensors):
        if tensor.role != array.stationary:
            continue
        holder = nest.holders[t_idx][-2]
        inside = nest.hierarchy.levels[holder.level].num_fanouts == nest.hierarchy.num_fanouts
        num_loops = holder.num_loops if inside else len(nest.loops)
        elements: FloatArray | float = 1.0
        for dim in tensor.dims if inside else ():
            idx = nest.innermost(dim, num_loops)
            elements = elements * (pieces.tiles[idx] if idx >= 0 else float(nest.op.sizes[dim]))
        return tile_changes(nest, pieces, tensor, num_loops), one * elements
    return one, one


def _instructions(
    nest: Nest, pieces: Pieces, array: ArrayTiming, steps: FloatArray, step_cycles: float
) -> tuple[FloatArray, FloatArray]:
    """Instructions, and their cycles with none shorter than the least.

    An instruction covers the innermost loop in time, in portions of at most `instruction_steps`.
    """
    least = float(array.min_instruction_cycles)
    if array.instruction_steps is None:
        whole, _ = _passes(nest, pieces, array)
        return whole, np.maximum(steps * step_cycles, whole * least)
    instructions, cycles = steps.copy(), np.maximum(steps * step_cycles, steps * least)
    still: Choice = True
    for idx in reversed(range(len(nest.loops))):
        if nest.loops[idx].axis is not None or still is False:
            continue
        here = narrow(still, pieces.bounds[idx] > 1)
        if here is not False:
            num, long = _portions(nest, pieces, idx, here, array.instruction_steps, least / step_cycles)
            instructions = np.where(here, num, instructions)
            cycles = np.where(here, long * step_cycles, cycles)
        still = narrow(still, pieces.bounds[idx] == 1)
    return instructions, cycles


def _portions(
    nest: Nest, pieces: Pieces, idx: int, here: Choice, most: int, least: float
) -> tuple[FloatArray, FloatArray]:
    """Portions into which the runs of loop `idx` are cut, and their steps with none counted below `least`."""
    dim = nest.loops[idx].dim
    runs = time_steps(nest, pieces, len(nest.loops), here, idx)
    steps = time_steps(nest, pieces, len(nest.loops))
    portions = np.ceil(pieces.bounds[idx] / most)
    # Sum of max(size, least) over the pieces of `dim` that the loop runs through, on one instance.
    outside = [other for other in nest.over(dim, len(nest.loops)) if other != idx]
    in_time: dict[int, Choice] = {other: nest.loops[other].axis is None for other in outside}
    own = pieces.visits(outside, dim, in_time) if outside else np.ones(pieces.batch)
    spread: FloatArray | float = 1.0
    for other in outside:
        if nest.loops[other].axis is not None:
            spread = spread * pieces.bounds[other]
    whole = math.ceil(least)
    exact = (whole * own + pieces.overhang(outside, dim, whole) / spread) * (runs / own)
    average = np.maximum(steps, runs * portions * least)
    return runs * portions, np.where(portions == 1, np.maximum(exact, steps), average)


def _paced(
    per_pass: FloatArray, floored: FloatArray, behind: FloatArray, array: ArrayTiming, latency_cycles: int
) -> FloatArray:
    """Cycles of a pass when only so many instructions may be under way.

    An instruction may start once the one `max_in_flight` before it has left the array, `latency_cycles`
    after its own steps. The longest path through these starts either takes whole strides of that many
    instructions within a pass and the rest one by one, or strides across passes.
    """
    plain = per_pass * floored + behind
    if array.max_in_flight is None:
        return plain
    window = float(array.max_in_flight)
    stride = floored + latency_cycles
    whole = np.floor(per_pass / window)
    within = whole * stride + (per_pass - whole * window) * floored + behind
    across = (per_pass * stride + behind) / window
    return np.maximum(plain, np.maximum(within, across))
