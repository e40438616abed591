"""Cycles of a program's steps by a recurrence: one pass over loads, walks and stores, no cycle is looked at by itself.

Each unit is described by when it takes its next step and how long a step takes; what steps wait for is given. It
follows the event replay closely where units work by themselves, and is rough where they meet: weights in a bank of
inputs wait for all of them, other banks are never taken, queues are counted in steps, and reads and writes share the bus in the
order of the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...archdsl import PeArray
from ..compiled import compiled

Ints = npt.NDArray[np.int64]
LOAD, MATMUL, VECTOR, STORE = range(4)
"""Kinds of steps."""
INSTRUCTIONS_OF_A_WALK = 2
"""A PRELOAD or a CFG_ALU, and the walk itself: so many of the execute queue's places it takes."""
CONFIGS = 1
"""Places of the load and the store queue that CFG_LD and CFG_ST take now and then."""


class StepColumns(NamedTuple):
    """Steps in their order, [steps].

    Attributes:
        kind: Of those above.
        kernel: Index of its kernel.
        vectors: Vectors of a walk or a store; rows of a load.
        beats: Beats of a load's row; of a store's vector, or 0 where it goes to the scratchpad.
        operands: Cycles that a vector op's second operand takes besides: 1 for each time it is read.
        after_load, after_walk, after_store: What it waits for, each counted from 1 within its kind of unit; 0 for nothing.
        preload_after_load, preload_after_store: What the preload of a product's weights waits for.
        meets_inputs: Whether its weights stand in a bank from which the walk before it reads inputs, which come first.
    """

    kind: Ints
    kernel: Ints
    vectors: Ints
    beats: Ints
    operands: Ints
    after_load: Ints
    after_walk: Ints
    after_store: Ints
    preload_after_load: Ints
    preload_after_store: Ints
    meets_inputs: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCycles:
    """What the recurrence found.

    Attributes:
        cycles: Of the whole program.
        kernel_ends: [kernels] the cycle by which each kernel's walks and stores have ended.
    """

    cycles: int
    kernel_ends: Ints


class _Sizes(NamedTuple):
    rows: int
    cols: int
    num_passes: int
    latency: int
    cycles_per_beat: int
    loads_in_flight: int
    requests_in_flight: int
    queued_walks: int
    queued_others: int


def time_steps(array: PeArray, steps: StepColumns) -> StepCycles:
    """Cycles of a program.

    Args:
        array: The PE array.
        steps: Its steps.
    """
    sizes = _Sizes(
        rows=array.rows, cols=array.cols, num_passes=array.num_passes, latency=array.latency_cycles,
        cycles_per_beat=array.cycles_per_beat, loads_in_flight=array.loads_in_flight,
        requests_in_flight=array.requests_in_flight, queued_walks=max(1, array.queue_depth // INSTRUCTIONS_OF_A_WALK),
        queued_others=max(1, array.queue_depth - CONFIGS),
    )  # fmt: skip
    num_kernels = int(steps.kernel.max(initial=-1)) + 1
    ends = np.zeros(num_kernels, dtype=np.int64)
    cycles = _time(sizes, steps, ends)
    return StepCycles(cycles=int(cycles), kernel_ends=np.maximum.accumulate(ends) if num_kernels else ends)


@compiled
def _time(sizes: _Sizes, steps: StepColumns, kernel_ends: Ints) -> int:
    num = steps.kind.shape[0]
    # By number within the unit; the first entry stands for nothing.
    load_ends = np.zeros(num + 1, dtype=np.int64)
    read_ends = np.zeros(num + 1, dtype=np.int64)
    sums_ends = np.zeros(num + 1, dtype=np.int64)
    store_ends = np.zeros(num + 1, dtype=np.int64)
    load_begins = np.zeros(num + 1, dtype=np.int64)
    begins = np.zeros(num + 1, dtype=np.int64)
    store_begins = np.zeros(num + 1, dtype=np.int64)
    dispatched = 0  # when dispatch, which is in order, came to the step before
    loads, walks, stores = 0, 0, 0
    requests_free, bus_free = 0, 0  # the load unit's, and the bus
    walk_free, shadow_free, array_empty = 0, 0, 0
    store_free = 0
    last = 0
    for idx in range(num):
        kind = steps.kind[idx]
        vectors, beats = steps.vectors[idx], steps.beats[idx]
        if kind == LOAD:
            loads += 1
            begin = max(requests_free, read_ends[steps.after_walk[idx]] + 2, store_ends[steps.after_store[idx]] + 3)
            # A step is dispatched once all in front of it, and itself, have found room in their queues.
            if loads > sizes.queued_others:
                dispatched = max(dispatched, load_begins[loads - sizes.queued_others])
            begin = max(begin, dispatched)
            if loads > sizes.loads_in_flight:
                begin = max(begin, load_ends[loads - sizes.loads_in_flight])
            load_begins[loads] = begin
            requests_free = begin + vectors
            data = vectors * beats * sizes.cycles_per_beat
            data = max(data, vectors * sizes.latency // sizes.requests_in_flight)
            bus_free = max(bus_free, begin + sizes.latency) + data
            load_ends[loads] = bus_free
        elif kind == STORE:
            stores += 1
            if stores > sizes.queued_others:
                dispatched = max(dispatched, store_begins[stores - sizes.queued_others])
            begin = max(
                dispatched, store_free, sums_ends[steps.after_walk[idx]] + 2, load_ends[steps.after_load[idx]] + 2
            )
            store_begins[stores] = begin
            # The store unit passes a vector on once the bus has taken the one before.
            work = vectors * max(sizes.num_passes, beats * sizes.cycles_per_beat, 1)
            store_free = begin + work
            end = begin + work + sizes.num_passes + 5
            if beats:
                bus_free = max(bus_free, begin) + vectors * beats * sizes.cycles_per_beat
                end = max(end, bus_free)
            store_ends[stores] = end
            kernel_ends[steps.kernel[idx]] = max(kernel_ends[steps.kernel[idx]], end)
            last = max(last, end)
        else:
            walks += 1
            if walks > sizes.queued_walks:
                dispatched = max(dispatched, begins[walks - sizes.queued_walks])
            begin = max(
                dispatched, walk_free, load_ends[steps.after_load[idx]] + 2, store_ends[steps.after_store[idx]] + 2
            )
            if kind == MATMUL:
                preload = max(
                    shadow_free,
                    load_ends[steps.preload_after_load[idx]] + 2,
                    store_ends[steps.preload_after_store[idx]] + 2,
                )
                if steps.meets_inputs[idx]:
                    preload = max(preload, walk_free)
                begin = max(begin, preload + sizes.rows)
                begins[walks] = begin
                shadow_free = begin + 1
                walk_free = begin + vectors
                read_ends[walks] = walk_free
                array_empty = walk_free + sizes.rows + sizes.cols + 1
                sums_ends[walks] = array_empty
            else:
                begin = max(begin, array_empty)
                begins[walks] = begin
                walk_free = begin + vectors + steps.operands[idx] + 2
                read_ends[walks] = walk_free - 1
                array_empty = walk_free
                sums_ends[walks] = walk_free + 3
            kernel_ends[steps.kernel[idx]] = max(kernel_ends[steps.kernel[idx]], sums_ends[walks])
            last = max(last, sums_ends[walks])
    return last + 2
