"""The recurrence behind the closed form: when each step of a kernel loads, computes and stores; compiled.

It walks over units and their steps (one weight tile on one tile of outputs) and keeps the last few times of five resources
that each work in order: dispatch, the execute unit, requests to main memory, its bus, and the store unit. A time follows from
earlier ones by `max` and `+`, so that no cycle and no instruction is visited; long stretches of the bus are taken at
once. Loads and stores are brought up to a time only when something waits for it, which keeps cause before effect.
One module, since compiled code on disk is renewed only when the module of the calling function changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..compiled import compiled

Ints = npt.NDArray[np.int64]

NEVER = 1 << 60
"""The time of what nothing has asked for yet."""
MOST_STORES = 64
"""How many stores back one may be that is waited for: two groups of as many as there are parameter slots."""
NUM_TIMES = 5
CYCLES, FIRST_WEIGHTS, LAST_LOAD, LAST_COMPUTE, LAST_STORE_BUT_ONE = range(NUM_TIMES)
"""What the recurrence gives: all cycles, and the cycles from which the first step's weights, the end of the last load,
that of the last computation and that of the last store but one count."""

# Scalars of the state, in its ring AT.
(
    DISPATCHED, LD_PUSHED, LD_ISSUED, LD_ISSUE, LOADS_ISSUED, LOADS_DONE, REQ_ROWS, REQ_BEATS, REQ_AT, REQ_MADE,
    REQ_DONE, BUS_FREE, IS_WRITE_TURN, EX_PUSHED, EX_ISSUE, ST_PUSHED, ST_STARTED, ST_DONE, ST_ISSUE, READ_OUT, VECTORS,
    VECTORS_LEFT, BEATS_LEFT, WRITE_AT, FREE_AT,
) = range(25)  # fmt: skip


class Machine(NamedTuple):
    """What of a PE array and its main memory the times depend on; see `PeArray`, and `OUT_DEPTH` for `out_depth`."""

    rows: int
    cols: int
    num_passes: int
    out_depth: int
    queue_depth: int
    loads_in_flight: int
    requests_in_flight: int
    latency: int
    cycles_per_beat: int


class Kernel(NamedTuple):
    """A kernel's numbers; see `KernelTiming`."""

    loads: Ints
    units: Ints
    stores: Ints
    lookback: int


class Batch(NamedTuple):
    """Kernels and machines behind each other.

    Attributes:
        machines: [kernels, 7] the fields of `Machine` before main memory's.
        ends: [kernels, 3] where each kernel's part of the three tables below ends.
        loads, units, stores: Of all kernels; see `KernelTiming`.
        lookbacks: [kernels] how many loads back a load may be that is waited for.
        latency, cycles_per_beat: [timings] of main memory.
    """

    machines: Ints
    ends: Ints
    loads: Ints
    units: Ints
    stores: Ints
    lookbacks: Ints
    latency: Ints
    cycles_per_beat: Ints


# Columns of the tables.
ROWS, BEATS = range(2)
LOADS_END, STEPS, UNIT_VECTORS, BEGINS_TILE, WANTS_WEIGHTS, WANTS_INPUT, WANTS_PARAMETERS, WANTS_STORES, STORES = range(
    9
)


# Rings of the state: times of the last few of everything, by number modulo the length.
(
    AT, LD_FROM, LD_ROWS, LD_BEATS, LD_TIME, ROW_FROM, ROW_BEATS, ROW_END, ROW_IS_LAST, LOAD_END, EX_TIME, ST_FROM,
    ST_VECTORS, ST_BEATS, ST_END, ST_TIME, POP,
) = range(17)  # fmt: skip


@compiled
def new_state(m: Machine, lookback: int, num_stores: int) -> Ints:
    """The state before the first cycle, [rings, places]; the number of places is a power of two."""
    needed = max(m.queue_depth, m.requests_in_flight, m.out_depth, lookback + m.loads_in_flight, num_stores)
    length = 32
    while length <= needed:
        length *= 2
    s = np.zeros((17, length), dtype=np.int64)
    s[AT, WRITE_AT] = NEVER
    s[AT, READ_OUT] = -m.num_passes
    for ring in (LD_TIME, ROW_END, LOAD_END, EX_TIME, ST_END, ST_TIME, POP):
        s[ring] = -1
    return s


@compiled
def mask(s: Ints) -> int:
    """What a number is masked with to give its place in a ring."""
    return s.shape[1] - 1


# ---- The load side.


@compiled
def push_load(m: Machine, s: Ints, rows: int, beats: int, after: int) -> None:
    """Dispatches an entry of the load queue: a load, or with 0 rows what configures one; `after` is its token."""
    place = s[AT, LD_PUSHED] & mask(s)
    while s[AT, LD_ISSUED] <= s[AT, LD_PUSHED] - m.queue_depth:
        issue_load(m, s)
    # tpe_fetch.sv hands out one instruction per cycle and waits for a place in its queue.
    s[AT, DISPATCHED] = max(s[AT, DISPATCHED] + 1, s[LD_TIME, (s[AT, LD_PUSHED] - m.queue_depth) & mask(s)] + 1)
    s[LD_FROM, place] = max(s[AT, DISPATCHED] + 1, after)
    s[LD_ROWS, place] = rows
    s[LD_BEATS, place] = beats
    s[AT, LD_PUSHED] += 1


@compiled
def issue_load(m: Machine, s: Ints) -> None:
    """Issues the load queue's next entry."""
    place = s[AT, LD_ISSUED] & mask(s)
    issue = max(s[LD_FROM, place], s[AT, LD_ISSUE] + 1)
    if s[LD_ROWS, place] > 0:
        # tpe_load.sv: one load makes requests at a time, `loads_in_flight` wait for data.
        while s[AT, REQ_ROWS] > 0:
            request_row(m, s)
        issue = max(issue, s[AT, REQ_AT])
        while s[AT, LOADS_ISSUED] - s[AT, LOADS_DONE] >= m.loads_in_flight:
            serve_row(m, s)
        before = s[AT, LOADS_ISSUED] - m.loads_in_flight
        if before >= 0:
            issue = max(issue, s[LOAD_END, before & mask(s)] + 1)
        s[AT, REQ_ROWS] = s[LD_ROWS, place]
        s[AT, REQ_BEATS] = s[LD_BEATS, place]
        s[AT, REQ_AT] = issue
        s[AT, LOADS_ISSUED] += 1
    s[AT, LD_ISSUE] = issue
    s[LD_TIME, place] = issue
    s[AT, LD_ISSUED] += 1


@compiled
def request_row(m: Machine, s: Ints) -> None:
    """Asks main memory for the next row: one per cycle, `requests_in_flight` at a time (tpe_memory.sv)."""
    if s[AT, REQ_MADE] - s[AT, REQ_DONE] >= m.requests_in_flight:
        serve_row(m, s)
    place = s[AT, REQ_MADE] & mask(s)
    s[AT, REQ_AT] = max(s[AT, REQ_AT] + 1, s[ROW_END, (s[AT, REQ_MADE] - m.requests_in_flight) & mask(s)] + 1)
    s[ROW_FROM, place] = s[AT, REQ_AT] + max(m.latency, 1)
    s[ROW_BEATS, place] = s[AT, REQ_BEATS]
    s[AT, REQ_ROWS] -= 1
    s[ROW_IS_LAST, place] = s[AT, REQ_ROWS] == 0
    s[AT, REQ_MADE] += 1


@compiled
def prepare_row(m: Machine, s: Ints) -> None:
    """Makes sure that a row is requested whose data have not come."""
    while s[AT, REQ_MADE] == s[AT, REQ_DONE]:
        if s[AT, REQ_ROWS] > 0:
            request_row(m, s)
        else:
            issue_load(m, s)


@compiled
def serve_row(m: Machine, s: Ints) -> None:
    """The data of the next requested row; stores whose vectors are ready take turns with it, beat by beat."""
    done = s[AT, REQ_DONE]
    while s[AT, REQ_DONE] == done:
        now = max(s[AT, BUS_FREE], s[ROW_FROM, done & mask(s)])
        write = max(s[AT, BUS_FREE], s[AT, WRITE_AT])
        if write < now or (write == now and s[AT, IS_WRITE_TURN] > 0):
            write_beat(m, s, write)
        else:
            read_beats(m, s, now)


@compiled
def read_beats(m: Machine, s: Ints, now: int) -> None:
    """Beats of the next requested row, until it ends or a store wants the bus, whose turn is next then."""
    place, num = s[AT, REQ_DONE] & mask(s), 1
    if s[AT, WRITE_AT] > now:
        num = min(s[ROW_BEATS, place], (s[AT, WRITE_AT] - now + m.cycles_per_beat - 1) // m.cycles_per_beat)
    last = now + (num - 1) * m.cycles_per_beat
    s[AT, BUS_FREE] = last + m.cycles_per_beat
    s[AT, IS_WRITE_TURN] = 1
    s[ROW_BEATS, place] -= num
    if s[ROW_BEATS, place] > 0:
        return
    s[ROW_END, place] = last
    s[AT, REQ_DONE] += 1
    if s[ROW_IS_LAST, place]:
        s[LOAD_END, s[AT, LOADS_DONE] & mask(s)] = last + 1
        s[AT, LOADS_DONE] += 1


@compiled
def wait_load(m: Machine, s: Ints, load: int) -> int:
    """First cycle in which execution sees that a load (counted from 1) has ended."""
    while s[AT, LOADS_DONE] < load:
        prepare_row(m, s)
        serve_row(m, s)
    return s[LOAD_END, (load - 1) & mask(s)] + 1


# ---- The store side.


@compiled
def dispatch_store(m: Machine, s: Ints) -> int:
    """Dispatches a store; the first cycle in which it can issue."""
    # The stores' configuration stands in front of the first store, so that this is entry `ST_PUSHED` + 1.
    before = s[AT, ST_PUSHED] + 1 - m.queue_depth
    while s[AT, ST_STARTED] < before:
        move_bus(m, s)
    s[AT, DISPATCHED] = max(s[AT, DISPATCHED], s[ST_TIME, (before - 1) & mask(s)]) + 1
    return s[AT, DISPATCHED] + 1


@compiled
def push_store(m: Machine, s: Ints, vectors: int, beats: int, earliest: int) -> None:
    """A store of some vectors that can issue from some cycle."""
    place = s[AT, ST_PUSHED] & mask(s)
    s[ST_FROM, place] = earliest
    s[ST_VECTORS, place] = vectors
    s[ST_BEATS, place] = beats
    s[AT, ST_PUSHED] += 1
    if s[AT, ST_STARTED] == s[AT, ST_DONE]:
        start_store(m, s)


@compiled
def start_store(m: Machine, s: Ints) -> None:
    """Issues the next store: when the one before is read out and the one before that has ended (tpe_store.sv)."""
    store = s[AT, ST_STARTED]
    issue = max(s[ST_FROM, store & mask(s)], s[AT, ST_ISSUE] + 1, s[AT, READ_OUT], s[ST_END, (store - 2) & mask(s)] + 1)
    s[AT, ST_ISSUE] = issue
    s[ST_TIME, store & mask(s)] = issue
    s[AT, VECTORS_LEFT] = s[ST_VECTORS, store & mask(s)]
    s[AT, ST_STARTED] += 1
    next_vector(m, s, issue + 1)


@compiled
def next_vector(m: Machine, s: Ints, earliest: int) -> None:
    """Reads out a vector: it takes `num_passes` cycles, and `out_depth` vectors may be under way."""
    room = s[POP, (s[AT, VECTORS] - m.out_depth) & mask(s)] + 1
    s[AT, READ_OUT] = max(s[AT, READ_OUT] + m.num_passes, room, earliest)
    # replay_core: num_passes + 4 cycles through post-processing, and one into the output queue.
    s[AT, WRITE_AT] = s[AT, READ_OUT] + m.num_passes + 5
    s[AT, BEATS_LEFT] = s[ST_BEATS, (s[AT, ST_STARTED] - 1) & mask(s)]


@compiled
def write_beat(m: Machine, s: Ints, now: int) -> None:
    """One beat of the vector that is being stored."""
    s[AT, BUS_FREE] = now + m.cycles_per_beat
    s[AT, IS_WRITE_TURN] = 0
    s[AT, BEATS_LEFT] -= 1
    if s[AT, BEATS_LEFT] > 0:
        return
    s[POP, s[AT, VECTORS] & mask(s)] = now
    s[AT, VECTORS] += 1
    s[AT, VECTORS_LEFT] -= 1
    if s[AT, VECTORS_LEFT] > 0:
        next_vector(m, s, 0)
        return
    s[ST_END, s[AT, ST_DONE] & mask(s)] = now
    s[AT, ST_DONE] += 1
    s[AT, WRITE_AT] = NEVER
    if s[AT, ST_PUSHED] > s[AT, ST_STARTED]:
        start_store(m, s)


@compiled
def wait_store(m: Machine, s: Ints, store: int) -> int:
    """First cycle in which execution sees that a store (counted from 1) has ended."""
    while s[AT, ST_DONE] < store:
        move_bus(m, s)
    return s[ST_END, (store - 1) & mask(s)] + 1


@compiled
def move_bus(m: Machine, s: Ints) -> None:
    """What the bus does next while a store is under way: a beat of it, or those of a load that come before."""
    write = max(s[AT, BUS_FREE], s[AT, WRITE_AT])
    read = next_read(m, s)
    if read < write or (read == write and s[AT, IS_WRITE_TURN] == 0):
        read_beats(m, s, read)
    else:
        write_beat(m, s, write)


@compiled
def next_read(m: Machine, s: Ints) -> int:
    """When a load can take the bus next, of those that were dispatched."""
    while s[AT, REQ_MADE] == s[AT, REQ_DONE]:
        if s[AT, REQ_ROWS] > 0:
            request_row(m, s)
        elif s[AT, LD_PUSHED] > s[AT, LD_ISSUED]:
            issue_load(m, s)
        else:
            return NEVER
    return max(s[AT, BUS_FREE], s[ROW_FROM, s[AT, REQ_DONE] & mask(s)])


# ---- The execute side.


@compiled
def dispatch_execute(m: Machine, s: Ints) -> int:
    """Dispatches an entry of the execute queue; the first cycle in which it can issue."""
    s[AT, DISPATCHED] = max(s[AT, DISPATCHED] + 1, s[EX_TIME, (s[AT, EX_PUSHED] - m.queue_depth) & mask(s)] + 1)
    s[AT, EX_PUSHED] += 1
    return s[AT, DISPATCHED] + 1


@compiled
def issue_execute(s: Ints, earliest: int) -> int:
    """Issues the entry that was dispatched last, not before `earliest`."""
    s[AT, EX_ISSUE] = max(s[AT, EX_ISSUE] + 1, earliest)
    s[EX_TIME, (s[AT, EX_PUSHED] - 1) & mask(s)] = s[AT, EX_ISSUE]
    return s[AT, EX_ISSUE]


# ---- The units.


@compiled
def run_batch(batch: Batch, times: Ints) -> None:
    """Fills in the times of every kernel on its machine at every timing of main memory, [kernels, timings, times]."""
    begins = np.zeros(3, dtype=np.int64)
    for idx in range(batch.ends.shape[0]):
        ends, sizes = batch.ends[idx], batch.machines[idx]
        kernel = Kernel(
            batch.loads[begins[0] : ends[0]],
            batch.units[begins[1] : ends[1]],
            batch.stores[begins[2] : ends[2]],
            batch.lookbacks[idx],
        )
        for timing in range(batch.latency.shape[0]):
            latency, cycles_per_beat = batch.latency[timing], batch.cycles_per_beat[timing]
            machine = Machine(
                sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], latency, cycles_per_beat
            )
            run_units(kernel, machine, times[idx, timing])
        begins = ends


@compiled
def run_units(kernel: Kernel, m: Machine, times: Ints) -> None:
    """Fills in the times of one kernel on one machine, [NUM_TIMES]."""
    num_stores = kernel.stores.shape[0]
    s = new_state(m, kernel.lookback, MOST_STORES)
    # Configurations of the walk, of stores and of loads; tpe_fetch.sv hands the first instruction out in cycle 1.
    issue_execute(s, dispatch_execute(m, s))
    s[AT, DISPATCHED] += 1
    push_load(m, s, 0, 0, 0)
    load, stored, release = 0, 0, 0
    for idx in range(kernel.units.shape[0]):
        unit = kernel.units[idx]
        while load < unit[LOADS_END]:
            # The first load of a boundary takes the token of the unit before.
            push_load(m, s, kernel.loads[load, ROWS], kernel.loads[load, BEATS], release)
            release = 0
            load += 1
        weights_at = compute_unit(m, s, unit)
        if idx == 0:
            times[FIRST_WEIGHTS] = weights_at
        # tpe_tokens.sv: a token counts from the cycle behind what gave it.
        release = s[AT, FREE_AT] + 1
        # tpe_execute.sv: rows + cols cycles through the array, one to end, one for the token.
        summed = s[AT, FREE_AT] + m.rows + m.cols + 2
        for _ in range(unit[STORES]):
            push_store(m, s, unit[UNIT_VECTORS], kernel.stores[stored], max(dispatch_store(m, s), summed))
            stored += 1
    times[LAST_LOAD] = s[LOAD_END, (s[AT, LOADS_DONE] - 1) & mask(s)]
    times[LAST_COMPUTE] = s[AT, FREE_AT]
    times[LAST_STORE_BUT_ONE] = wait_store(m, s, num_stores - 1) + 1 if num_stores > 1 else 0
    end = wait_store(m, s, num_stores)
    times[CYCLES] = max(s[AT, DISPATCHED] + 2, s[AT, ST_ISSUE] + 1, end) + 1


@compiled
def compute_unit(m: Machine, s: Ints, unit: Ints) -> int:
    """Preloads weights and streams the vectors of a tile, for every step of a unit; when the weights were there."""
    if unit[BEGINS_TILE]:
        issue_execute(s, dispatch_execute(m, s))  # where the input tile stands
    num_steps, weights_at = unit[STEPS], 0
    for step in range(num_steps):
        # Weights shift in, a row per cycle (tpe_preload.sv), from the cycle behind the last swap (tpe_execute.sv).
        earliest = dispatch_execute(m, s)
        if step == 0 and unit[WANTS_WEIGHTS]:
            weights_at = wait_load(m, s, unit[WANTS_WEIGHTS])
            earliest = max(earliest, weights_at)
        preloaded = issue_execute(s, earliest) + m.rows
        earliest = max(dispatch_execute(m, s), preloaded, s[AT, FREE_AT])
        if step == 0 and unit[WANTS_INPUT]:
            earliest = max(earliest, wait_load(m, s, unit[WANTS_INPUT]))
        if step == num_steps - 1 and unit[WANTS_PARAMETERS]:
            earliest = max(earliest, wait_load(m, s, unit[WANTS_PARAMETERS]))
        if step == 0 and unit[WANTS_STORES]:
            # The stores had the same sums, or the same channel parameters.
            earliest = max(earliest, wait_store(m, s, unit[WANTS_STORES]))
        s[AT, FREE_AT] = issue_execute(s, earliest) + unit[UNIT_VECTORS]
    return weights_at
