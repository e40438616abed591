"""Cycles of a program's steps by a recurrence: one pass over loads, walks and stores, no cycle is looked at by itself.

Instructions come into their queues in order, each where there is room, and issue once what they wait for has ended: the
constants between are those of the event replay. What units do to each other is told in the order of the steps: reads and
writes take turns on the bus, and a store waits while a walk adds to sums in the bank that it reads. Left out are reads and
writes that meet in a bank of the scratchpad, but for weights in the bank from which the walk before reads its inputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from ...archdsl import PeArray
from ..compiled import compiled

Ints = npt.NDArray[np.int64]
LOAD, MATMUL, VECTOR, STORE = range(4)
"""Kinds of steps."""
LOADS, WALKS, STORES = range(3)
"""Queues."""
NONE: Final = cast("int", np.int64(0))
"""No step and no cycle; no literal, for each of which functions would be compiled anew."""
TARGETS = 2
"""Stores that the store unit has under way at once: one reads sums while the one before still writes."""
VECTOR_DELAY = 3
"""Cycles from a vector op's step to its sum."""


class StepColumns(NamedTuple):
    """Steps in their order, [steps].

    Attributes:
        kind: Of those above.
        kernel: Index of its kernel.
        vectors: Vectors of a walk or a store; rows of a load.
        beats: Beats of a load's row; of a store's vector, or 0 where it goes to the scratchpad.
        operands: Cycles that a vector op's second operand takes besides: 1 for each time it is read.
        configs: Instructions in front of it, in its queue, that configure its unit.
        is_fenced: Whether a FENCE stands in front of it.
        after_load, after_walk, after_store: What its tokens come from, each counted from 1 within its kind of unit; 0 where it
            pops none.
        preload_after_load, preload_after_store: The same for the preload of a product's weights.
        meets_inputs: Whether its weights stand in a bank from which the walk before it reads inputs, which come first.
        sum_banks: Banks of the accumulators, a bit each, in which a walk adds to sums, or from which a store reads them.
    """

    kind: Ints
    kernel: Ints
    vectors: Ints
    beats: Ints
    operands: Ints
    configs: Ints
    is_fenced: Ints
    after_load: Ints
    after_walk: Ints
    after_store: Ints
    preload_after_load: Ints
    preload_after_store: Ints
    meets_inputs: Ints
    sum_banks: Ints


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
    through_array: int
    num_passes: int
    latency: int
    cycles_per_beat: int
    loads_in_flight: int


class _Ends(NamedTuple):
    """By number within the unit, [steps + 1], when loads end, walks have read, walks' sums are there, and stores end."""

    load: Ints
    read: Ints
    sums: Ints
    store: Ints


class _Queues(NamedTuple):
    """Queues of instructions.

    Attributes:
        issues: [queues, depth] when the last instructions of each issued, round and round.
        counts: [queues] instructions so far.
        dispatched: [1] when the last instruction of all came into its queue.
    """

    issues: Ints
    counts: Ints
    dispatched: Ints


class _Memory(NamedTuple):
    """Main memory and its bus, which takes a beat of a read and one of a write in turn where there are both.

    Attributes:
        read, write: [2] begin and end of the last reads, and of the last writes, one behind the other.
        row_ends: [requests in flight] when the last rows came, round and round.
        num_rows: [1] rows so far.
    """

    read: Ints
    write: Ints
    row_ends: Ints
    num_rows: Ints


class _Reads(NamedTuple):
    """How the last stores read sums, [`TARGETS`] by number of the store, round and round.

    Attributes:
        banks: The banks.
        first, last: When the first and the last vector is read.
        rest: From the last read to the end.
    """

    banks: Ints
    first: Ints
    last: Ints
    rest: Ints


def time_steps(array: PeArray, steps: StepColumns) -> StepCycles:
    """Cycles of a program.

    Args:
        array: The PE array.
        steps: Its steps.
    """
    sizes = _Sizes(
        rows=array.rows, through_array=array.rows + array.cols, num_passes=array.num_passes, latency=array.latency_cycles,
        cycles_per_beat=array.cycles_per_beat, loads_in_flight=array.loads_in_flight,
    )  # fmt: skip
    num, num_kernels = steps.kind.shape[0], int(steps.kernel.max(initial=-1)) + 1
    ends = _Ends(*np.zeros((4, num + 1), dtype=np.int64))
    queues = _Queues(_zeros(3, array.queue_depth), _zeros(3), _zeros(1))
    memory = _Memory(_zeros(2), _zeros(2), _zeros(array.requests_in_flight), _zeros(1))
    reads = _Reads(*np.zeros((4, TARGETS), dtype=np.int64))
    kernel_ends = _zeros(num_kernels)
    cycles = _time(sizes, steps, ends, queues, memory, reads, kernel_ends)
    return StepCycles(
        cycles=int(cycles), kernel_ends=np.maximum.accumulate(kernel_ends) if num_kernels else kernel_ends
    )


def _zeros(*shape: int) -> Ints:
    return np.zeros(shape, dtype=np.int64)


@compiled
def _time(
    sizes: _Sizes, steps: StepColumns, ends: _Ends, queues: _Queues, memory: _Memory, reads: _Reads, kernel_ends: Ints
) -> int:
    loads, walks, stores, written = NONE, NONE, NONE, NONE
    requests_free, walk_free, sums_free, vectors_free, reads_free = 0, 0, 0, 0, 0
    last = 0  # the end of all so far
    for idx in range(steps.kind.shape[0]):
        kind, vectors, beats = steps.kind[idx], steps.vectors[idx], steps.beats[idx]
        if steps.is_fenced[idx]:
            queues.dispatched[0] = max(queues.dispatched[0], last) + 1
        queue = LOADS if kind == LOAD else STORES if kind == STORE else WALKS
        for _ in range(steps.configs[idx]):
            _issue(queues, queue, NONE)
        if kind == LOAD:
            loads += 1
            ready = max(requests_free, _after(ends.read, steps.after_walk[idx]))
            if loads > sizes.loads_in_flight:
                ready = max(ready, ends.load[loads - sizes.loads_in_flight] + 1)
            begin = _issue(queues, queue, ready)
            requests_free, ends.load[loads] = _read(sizes, memory, begin, vectors, beats * sizes.cycles_per_beat)
            if written:
                ends.store[written] = max(ends.store[written], memory.write[1])
            last = max(last, ends.load[loads], ends.store[written])
            continue
        if kind == STORE:
            stores += 1
            ready = max(reads_free, _after(ends.sums, steps.after_walk[idx]))
            if stores > TARGETS:
                ready = max(ready, ends.store[stores - TARGETS] + 1)
            begin = _issue(queues, queue, ready)
            # The unit passes a vector on once the bus has taken the one before.
            busy = beats * sizes.cycles_per_beat
            pace = max(sizes.num_passes, busy)
            slot = stores % TARGETS
            reads.banks[slot], reads.first[slot] = steps.sum_banks[idx], begin + 1
            reads.last[slot] = begin + 1 + (vectors - 1) * pace
            reads.rest[slot] = sizes.num_passes + 5 + max(busy - 1, 0)
            end = max(reads.last[slot] + reads.rest[slot], ends.store[stores - 1] + 1)
            if beats:
                written = stores
                end = max(end, _write(memory, ends, loads, begin, vectors * busy))
            reads_free, ends.store[stores] = reads.last[slot], end
        else:
            walks += 1
            waits = max(_after(ends.load, steps.after_load[idx]), _after(ends.store, steps.after_store[idx]))
            if kind == MATMUL:
                ready = max(
                    _after(ends.load, steps.preload_after_load[idx]), _after(ends.store, steps.preload_after_store[idx])
                )
                preload = _issue(queues, queue, ready)
                if steps.meets_inputs[idx]:
                    preload = max(preload, walk_free)
                begin = _issue(queues, queue, max(waits, preload + sizes.rows, walk_free))
                walk_free, delay = begin + vectors, sizes.through_array
                sums_free, end = walk_free + delay, walk_free + delay + 1
            else:
                # It begins when no product's sums are on their way, and no other vector op's either.
                begin = _issue(queues, queue, max(waits, walk_free + 1, sums_free + 1, vectors_free + 2))
                walk_free, delay = begin + vectors + steps.operands[idx], VECTOR_DELAY
                vectors_free, end = walk_free, walk_free + delay + 1
            ends.read[walks], ends.sums[walks] = walk_free, end
            if steps.sum_banks[idx] and stores:
                _hold(ends, reads, stores, steps.sum_banks[idx], begin + 1 + delay, walk_free + delay)
                reads_free = reads.last[stores % TARGETS]
                end = max(end, ends.store[stores])
        kernel_ends[steps.kernel[idx]] = max(kernel_ends[steps.kernel[idx]], end)
        last = max(last, end)
    return last + 2


@compiled
def _after(ends: Ints, step: int) -> int:
    """The first cycle with the token that a step gives when it ends."""
    return ends[step] + 1 if step else 0


@compiled
def _issue(queues: _Queues, queue: int, ready: int) -> int:
    """When the next instruction issues: dispatched in order into a queue with room, and behind the one in front of it."""
    depth, count = queues.issues.shape[1], queues.counts[queue]
    dispatched = queues.dispatched[0] + 1
    before = 0
    if count >= depth:
        dispatched = max(dispatched, queues.issues[queue, count % depth] + 1)
    if count:
        before = queues.issues[queue, (count - 1) % depth]
    begin = max(ready, dispatched + 1, before + 1)
    queues.dispatched[0] = dispatched
    queues.issues[queue, count % depth] = begin
    queues.counts[queue] = count + 1
    return begin


@compiled
def _read(sizes: _Sizes, memory: _Memory, begin: int, num_rows: int, busy: int) -> tuple[int, int]:
    """When the last row of a load is requested, and when it has come; each row keeps the bus busy so long."""
    request, end, read, write = begin, 0, memory.read, memory.write
    for _ in range(num_rows):
        place = memory.num_rows[0] % memory.row_ends.shape[0]
        request = max(request, int(memory.row_ends[place])) + 1
        first = max(int(read[1]), request + sizes.latency)
        if first > read[1]:
            read[0] = first
        shared = _shared(first, busy, write)
        read[1] = first + busy + shared
        write[1] += shared
        end = first + busy + shared - sizes.cycles_per_beat
        memory.row_ends[place] = end
        memory.num_rows[0] += 1
    return request, end + 1


@compiled
def _write(memory: _Memory, ends: _Ends, loads: int, begin: int, busy: int) -> int:
    """When a store that keeps the bus busy so long has written; what is still to be read then comes later."""
    read, write = memory.read, memory.write
    first = max(begin, int(write[1]))
    if begin > write[1]:
        write[0] = begin
    shared = _shared(first, busy, read)
    write[1] = first + busy + shared
    read[1] += shared
    load = loads
    while load > 0 and ends.load[load] > first:
        ends.load[load] += min(shared, ends.load[load] - first)
        load -= 1
    return int(write[1])


@compiled
def _shared(first: int, busy: int, other: Ints) -> int:
    """Cycles by which a transfer from a cycle on is delayed by others, from a begin to an end, that take every second beat."""
    alone = max(int(other[0]) - first, 0)
    return min(max(busy - alone, 0), max(int(other[1]) - max(first, int(other[0])), 0))


@compiled
def _hold(ends: _Ends, reads: _Reads, stores: int, banks: int, first: int, last: int) -> None:
    """Stores that read from a bank wait while sums there are added to, from a first to a last cycle; later ones behind them."""
    for store in range(max(1, stores - TARGETS + 1), stores + 1):
        slot = store % TARGETS
        if reads.banks[slot] & banks == 0 or reads.last[slot] < first or reads.first[slot] > last:
            continue
        delay = last + 1 - max(first, reads.first[slot])
        for later in range(store, stores + 1):
            slot = later % TARGETS
            if later > store:
                delay = max(0, reads.last[(later - 1) % TARGETS] - reads.first[slot] + 1)
                reads.first[slot] += delay
            reads.last[slot] += delay
            ends.store[later] = max(ends.store[later], reads.last[slot] + reads.rest[slot])
