"""What event replay reads and writes down, as arrays that compiled code takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Sizes(NamedTuple):
    """What of the PE array its timing depends on; see `PeArray`."""

    rows: int
    cols: int
    word_shift: int
    bank_word_shift: int
    num_banks: int
    is_single_port: bool
    acc_bank_vectors: int
    acc_banks: int
    num_passes: int
    out_depth: int
    bus_bytes: int
    queue_depth: int
    loads_in_flight: int
    requests_in_flight: int
    latency: int
    cycles_per_beat: int


class Program(NamedTuple):
    """Instructions as columns; operands that a kind does not have are 0.

    Attributes:
        kind: Its kind, of those above.
        queue: Its queue.
        pop_prev, pop_next, push_prev, push_next: Dependence bits.
        issue_cycle: Its cycle in static mode.
        rows, row_beats: Of LD, of CFG_TILE, of PRELOAD, of COMPUTE; ALU's columns.
        address, row_bytes, width_bytes: Scratchpad addresses of LD (local), CFG_TILE, PRELOAD and CFG_ALU; ST's target.
        local_row_bytes: Of CFG_LD.
        x, y, x_count, y_count, x_step, y_step: Walks of COMPUTE, ALU, CFG_WALK and ST; strides of CFG_ST.
        vector: First accumulator vector.
        accumulate, swap: Of COMPUTE.
        bits: Of an input, and of a weight (CFG_WALK), [instructions, 2].
        step_bytes: Of CFG_ALU.
        hold: Of ALU.
        columns, format: Of ST.
        is_other: Where LD and ST go, what ALU's second operand is; 0 for the scratchpad, main memory and a scalar.
    """

    kind: Ints
    queue: Ints
    pop_prev: Ints
    pop_next: Ints
    push_prev: Ints
    push_next: Ints
    issue_cycle: Ints
    rows: Ints
    row_beats: Ints
    address: Ints
    row_bytes: Ints
    width_bytes: Ints
    local_row_bytes: Ints
    x: Ints
    y: Ints
    x_count: Ints
    y_count: Ints
    x_step: Ints
    y_step: Ints
    vector: Ints
    accumulate: Ints
    swap: Ints
    bits: Ints
    step_bytes: Ints
    hold: Ints
    columns: Ints
    format: Ints
    is_other: Ints


class Record(NamedTuple):
    """What a replay writes down.

    Attributes:
        issue, end: [instructions] cycles; -1 where it never came to it.
        stalls: [queues, causes] cycles in which the queue issued nothing.
        occupancy: [queues] instructions in it, summed over cycles.
        busy: [4] cycles in which the load, preload, compute and store unit did their work.
        beats: [2] beats read from and written to main memory.
        last: [8] the state at the end: queue counts, tokens, program counter.
    """

    issue: Ints
    end: Ints
    stalls: Ints
    occupancy: Ints
    busy: Ints
    beats: Ints
    last: Ints
