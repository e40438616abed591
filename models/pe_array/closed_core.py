"""The recurrence behind the closed form: when each step of a kernel loads, computes and stores; compiled.

It walks over steps (one weight tile on one tile of outputs) and keeps the last few times of five resources that each
work in order: dispatch, the execute unit, requests to main memory, its bus, and the store unit. A time follows from
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
NUM_TIMES = 5
CYCLES, FIRST_WEIGHTS, LAST_LOAD, LAST_COMPUTE, LAST_STORE_BUT_ONE = range(NUM_TIMES)
"""What the recurrence gives: all cycles, and the cycles from which the first step's weights, the end of the last load,
that of the last computation and that of the last store but one count."""

# Scalars of the state, in its ring AT.
(
    DISPATCHED, LD_PUSHED, LD_ISSUED, LD_ISSUE, LOADS_ISSUED, LOADS_DONE, REQ_ROWS, REQ_BEATS, REQ_AT, REQ_MADE,
    REQ_DONE, BUS_FREE, IS_WRITE_TURN, EX_PUSHED, EX_ISSUE, ST_PUSHED, ST_STARTED, ST_DONE, ST_ISSUE, READ_OUT, VECTORS,
    VECTORS_LEFT, BEATS_LEFT, WRITE_AT, FREED, NUM_LOADS, WANTED, TAKEN, IS_INPUT_STRIDE, FREE_AT,
    INPUT_STEPS,
) = range(31)  # fmt: skip


class Machine(NamedTuple):
    """What of a PE array and its main memory the times depend on; see `PeArray`, and `OUT_DEPTH` for `out_depth`."""

    rows: int
    cols: int
    num_passes: int
    out_depth: int
    queue_depth: int
    loads_in_flight: int
    requests_in_flight: int
    parameter_slots: int
    latency: int
    cycles_per_beat: int


class Kernel(NamedTuple):
    """A kernel's numbers; see `KernelTiming`."""

    tile_vectors: Ints
    tile_rows: Ints
    weight_beats: Ints
    input_beats: Ints
    output_beats: Ints
    parameter_beats: int
    ahead: int


class Batch(NamedTuple):
    """Kernels and machines behind each other.

    Attributes:
        machines: [kernels, 8] the fields of `Machine` before main memory's.
        scalars: [kernels, 2] parameter beats, ahead.
        ends: [kernels, 5] where each kernel's part of the five lists below ends.
        tile_vectors, tile_rows, weight_beats, input_beats, output_beats: Of all kernels.
        latency, cycles_per_beat: [timings] of main memory.
    """

    machines: Ints
    scalars: Ints
    ends: Ints
    tile_vectors: Ints
    tile_rows: Ints
    weight_beats: Ints
    input_beats: Ints
    output_beats: Ints
    latency: Ints
    cycles_per_beat: Ints


# Rings of the state: times of the last few of everything, by number modulo the length.
(
    AT, LD_FROM, LD_ROWS, LD_BEATS, LD_TIME, ROW_FROM, ROW_BEATS, ROW_END, ROW_IS_LAST, LOAD_END, EX_TIME, RELEASE,
    ST_FROM, ST_VECTORS, ST_BEATS, ST_END, ST_TIME, POP, WEIGHTS, INPUTS, PARAMETERS,
) = range(21)  # fmt: skip


@compiled
def new_state(m: Machine, ahead: int) -> Ints:
    """The state before the first cycle, [rings, places]; the number of places is a power of two."""
    needed = max(m.queue_depth, m.requests_in_flight, m.out_depth, 4 * (ahead + 4) + m.loads_in_flight)
    length = 32
    while length < needed:
        length *= 2
    s = np.zeros((21, length), dtype=np.int64)
    s[AT, WRITE_AT] = NEVER
    s[AT, READ_OUT] = -m.num_passes
    s[AT, IS_INPUT_STRIDE] = -1
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


# ---- The steps.


@compiled
def run_batch(batch: Batch, times: Ints) -> None:
    """Fills in the times of every kernel on its machine at every timing of main memory, [kernels, timings, times]."""
    begins = np.zeros(5, dtype=np.int64)
    for idx in range(batch.ends.shape[0]):
        ends, sizes = batch.ends[idx], batch.machines[idx]
        kernel = Kernel(
            batch.tile_vectors[begins[0] : ends[0]],
            batch.tile_rows[begins[1] : ends[1]],
            batch.weight_beats[begins[2] : ends[2]],
            batch.input_beats[begins[3] : ends[3]],
            batch.output_beats[begins[4] : ends[4]],
            batch.scalars[idx, 0],
            batch.scalars[idx, 1],
        )
        for timing in range(batch.latency.shape[0]):
            latency, cycles_per_beat = batch.latency[timing], batch.cycles_per_beat[timing]
            machine = Machine(
                sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], latency, cycles_per_beat
            )
            run_steps(kernel, machine, times[idx, timing])
        begins = ends


@compiled
def run_steps(kernel: Kernel, m: Machine, times: Ints) -> None:
    """Fills in the times of one kernel on one machine, [NUM_TIMES]."""
    s = new_state(m, kernel.ahead)
    num_taps = kernel.weight_beats.shape[0]
    num_groups = kernel.tile_vectors.shape[0] * kernel.output_beats.shape[0]
    # The walk's configuration and the stores'; tpe_fetch.sv hands the first instruction out in cycle 1.
    issue_execute(s, dispatch_execute(m, s))
    s[AT, DISPATCHED] += 1
    parameters_ahead = min(kernel.ahead, (m.parameter_slots - 2) * num_taps - 1)
    for step in range(num_groups * num_taps + kernel.ahead):
        if step < num_groups * num_taps:
            load_step(kernel, m, s, step)
        now = step - kernel.ahead
        group, tap = divmod(now + parameters_ahead, num_taps)
        if tap == 0 and 0 <= group < num_groups:
            load_parameters(kernel, m, s, group)
        if now < 0:
            continue
        token = compute_step(kernel, m, s, now)
        if now == 0:
            times[FIRST_WEIGHTS] = token
    times[LAST_LOAD] = s[LOAD_END, (s[AT, LOADS_DONE] - 1) & mask(s)]
    times[LAST_COMPUTE] = s[AT, FREE_AT]
    times[LAST_STORE_BUT_ONE] = wait_store(m, s, num_groups - 1) + 1 if num_groups > 1 else 0
    stored = wait_store(m, s, num_groups)
    times[CYCLES] = max(s[AT, DISPATCHED] + 2, s[AT, ST_ISSUE] + 1, stored) + 1


@compiled
def load_step(kernel: Kernel, m: Machine, s: Ints, step: int) -> None:
    """Loads what a step is the first to need: input, and weights into the place of those `ahead` + 1 steps before."""
    load_input(kernel, m, s, step, step)
    set_stride(m, s, 0)
    beats = int(kernel.weight_beats[step % len(kernel.weight_beats)])
    load(m, s, 1, beats, step - kernel.ahead)
    s[WEIGHTS, step & mask(s)] = s[AT, NUM_LOADS]


@compiled
def load_input(kernel: Kernel, m: Machine, s: Ints, step: int, computed: int) -> None:
    """Loads the input that a step is the first to need, if that waits for none but the `computed` first steps."""
    num_taps, num_outputs = kernel.weight_beats.shape[0], kernel.output_beats.shape[0]
    if s[AT, INPUT_STEPS] > step or step >= kernel.tile_vectors.shape[0] * num_outputs * num_taps:
        return
    group, tap = divmod(step, num_taps)
    tile, output = divmod(group, num_outputs)
    if output > 0 or kernel.input_beats[tap] == 0:
        s[INPUTS, step & mask(s)] = s[INPUTS, (step - 1) & mask(s)]
        s[AT, INPUT_STEPS] = step + 1
        return
    # The tile before the last stood in the same place.
    released = (tile - 1) * num_outputs * num_taps
    if released > computed:
        return
    set_stride(m, s, 1)
    load(m, s, kernel.tile_rows[tile], kernel.input_beats[tap], released)
    s[INPUTS, step & mask(s)] = s[AT, NUM_LOADS]
    s[AT, INPUT_STEPS] = step + 1


@compiled
def load_parameters(kernel: Kernel, m: Machine, s: Ints, group: int) -> None:
    """Loads channel parameters; their slot is free when a later group has begun, which waited for its store."""
    slots, num_taps = m.parameter_slots, kernel.weight_beats.shape[0]
    load(m, s, 1, kernel.parameter_beats, (group - slots + 2) * num_taps + 1 if group >= slots else 0)
    s[PARAMETERS, group & mask(s)] = s[AT, NUM_LOADS]


@compiled
def set_stride(m: Machine, s: Ints, is_input: int) -> None:
    """An entry of the load queue that sets the rows' strides, where they change between input and weights."""
    if s[AT, IS_INPUT_STRIDE] != is_input:
        push_load(m, s, 0, 0, 0)
        s[AT, IS_INPUT_STRIDE] = is_input


@compiled
def load(m: Machine, s: Ints, rows: int, beats: int, released: int) -> None:
    """A load that waits until some steps have read their data; an entry of the queue takes one step's token."""
    after = 0
    while s[AT, FREED] < released:
        after = s[RELEASE, s[AT, FREED] & mask(s)]
        s[AT, FREED] += 1
        if s[AT, FREED] < released:
            push_load(m, s, 0, 0, after)
    push_load(m, s, rows, beats, after)
    s[AT, NUM_LOADS] += 1


@compiled
def compute_step(kernel: Kernel, m: Machine, s: Ints, step: int) -> int:
    """Preloads weights, streams the vectors of a tile, and stores the sums after the last tap; when weights came."""
    num_taps, num_outputs = kernel.weight_beats.shape[0], kernel.output_beats.shape[0]
    group, tap = divmod(step, num_taps)
    tile, output = divmod(group, num_outputs)
    vectors, is_last, stored, store_from = kernel.tile_vectors[tile], tap == num_taps - 1, 0, 0
    if tap == 0 and output == 0:
        issue_execute(s, dispatch_execute(m, s))  # where the tile stands
    # Weights shift in, a row per cycle (tpe_preload.sv), from the cycle behind the last swap (tpe_execute.sv).
    weights_at = take_load(m, s, s[WEIGHTS, step & mask(s)])
    preloaded = issue_execute(s, max(dispatch_execute(m, s), weights_at)) + m.rows
    needed = s[INPUTS, step & mask(s)]
    if is_last:
        needed = max(needed, s[PARAMETERS, group & mask(s)])
    loaded = take_load(m, s, needed)
    compute_from = dispatch_execute(m, s)
    if is_last:
        store_from = dispatch_store(m, s)
    if tap == 0 and group >= 2:
        # The store had the same half of the accumulators. Loads that do not wait for this step overtake it.
        while s[AT, ST_DONE] < group - 1:
            if s[AT, LD_PUSHED] + 2 - m.queue_depth <= s[AT, LD_ISSUED]:
                load_input(kernel, m, s, step + kernel.ahead + 1, step)
            move_bus(m, s)
        stored = wait_store(m, s, group - 1)
    issue = issue_execute(s, max(compute_from, loaded, stored, preloaded, s[AT, FREE_AT]))
    s[AT, FREE_AT] = issue + vectors
    # tpe_tokens.sv: a token counts from the cycle behind what gave it.
    s[RELEASE, step & mask(s)] = issue + vectors + 1
    if is_last:
        # tpe_execute.sv: rows + cols cycles through the array, one to end, one for the token.
        summed = issue + vectors + m.rows + m.cols + 2
        push_store(m, s, vectors, kernel.output_beats[output], max(store_from, summed))
    return weights_at


@compiled
def take_load(m: Machine, s: Ints, wanted: int) -> int:
    """Takes the tokens of loads up to one, those before it by idle entries; when it was there, 0 if long taken."""
    s[AT, WANTED] = max(s[AT, WANTED], wanted)
    while s[AT, TAKEN] < s[AT, WANTED]:
        s[AT, TAKEN] += 1
        token = wait_load(m, s, s[AT, TAKEN])
        if s[AT, TAKEN] == s[AT, WANTED]:
            return token
        issue_execute(s, max(dispatch_execute(m, s), token))
    return 0
