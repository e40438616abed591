"""Event replay: when every instruction of a program issues and ends, and why not earlier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ...archdsl import OUT_DEPTH, Instruction, ModelError, PeArray, tensor_pe_array_isa

if TYPE_CHECKING:
    from .replay_records import Program, Record, Sizes

Cycles = npt.NDArray[np.int64]
KINDS = {
    "NOP": 0, "CFG_LD": 1, "LD": 2, "CFG_TILE": 3, "CFG_WALK": 4, "PRELOAD": 5, "COMPUTE": 6, "CFG_ST": 7, "ST": 8, "FENCE": 9,
    "HALT": 10, "CFG_ALU": 11, "ALU": 12,
}  # fmt: skip
STALL_CAUSES = ("token", "unit busy", "bank taken", "queue empty")
TOKENS = ("load to execute", "execute to load", "execute to store", "store to execute")
QUEUES = ("load", "execute", "store")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What a replay found.

    Attributes:
        cycles: Cycles from the start to the end of the program.
        issue_cycles: [instructions] cycle of each issue.
        end_cycles: [instructions] cycle of each end.
        stall_cycles: Per queue and cause the cycles in which it issued nothing.
        mean_occupancy: Per queue the instructions in it, on average.
        busy_cycles: Cycles in which each unit worked.
        read_bytes, write_bytes: Main-memory traffic.
    """

    cycles: int
    issue_cycles: Cycles
    end_cycles: Cycles
    stall_cycles: dict[str, dict[str, int]]
    mean_occupancy: dict[str, float]
    busy_cycles: dict[str, int]
    read_bytes: int
    write_bytes: int


def replay(
    array: PeArray,
    program: Sequence[Instruction],
    *,
    latency_cycles: int | None = None,
    cycles_per_beat: int | None = None,
    is_static: bool = False,
    max_cycles: int = 100_000_000,
) -> Replay:
    """Replays a program.

    Args:
        array: The PE array.
        program: The program.
        latency_cycles: Main memory's latency; the array's unless given.
        cycles_per_beat: Main memory's cycles per beat; the array's unless given.
        is_static: Whether issue cycles gate issue too.
        max_cycles: When to give up.

    Raises:
        ModelError: The program hangs; with the state of queues and tokens.
    """
    from .replay_core import DONE, replay_core
    from .replay_records import Record

    num = len(program)
    timing = replace(
        array,
        latency_cycles=array.latency_cycles if latency_cycles is None else latency_cycles,
        cycles_per_beat=array.cycles_per_beat if cycles_per_beat is None else cycles_per_beat,
    )
    record = Record(
        issue=np.full(num, -1, dtype=np.int64),
        end=np.full(num, -1, dtype=np.int64),
        stalls=np.zeros((3, 4), dtype=np.int64),
        occupancy=np.zeros(3, dtype=np.int64),
        busy=np.zeros(4, dtype=np.int64),
        beats=np.zeros(2, dtype=np.int64),
        last=np.zeros(8, dtype=np.int64),
    )
    end, cycles = replay_core(_sizes(timing), _columns(program), is_static, max_cycles, record)
    if end != DONE:
        raise ModelError(_hang(program, record, cycles))
    return Replay(
        cycles=cycles,
        issue_cycles=record.issue,
        end_cycles=record.end,
        stall_cycles={
            queue: {cause: int(value) for cause, value in zip(STALL_CAUSES, row, strict=True)}
            for queue, row in zip(QUEUES, record.stalls, strict=True)
        },
        mean_occupancy={queue: float(value) / cycles for queue, value in zip(QUEUES, record.occupancy, strict=True)},
        busy_cycles={
            unit: int(value) for unit, value in zip(("load", "preload", "compute", "store"), record.busy, strict=True)
        },
        read_bytes=int(record.beats[0]) * array.bus_bytes,
        write_bytes=int(record.beats[1]) * array.bus_bytes,
    )


def with_issue_cycles(program: Sequence[Instruction], found: Replay) -> tuple[Instruction, ...]:
    """The program for static mode: every instruction with the cycle at which it issues."""
    return tuple(replace(insn, issue_cycle=int(at)) for insn, at in zip(program, found.issue_cycles, strict=True))


def _sizes(array: PeArray) -> Sizes:
    from .replay_records import Sizes

    return Sizes(
        rows=array.rows,
        cols=array.cols,
        word_shift=array.word_bytes.bit_length() - 1,
        bank_word_shift=array.bank_words.bit_length() - 1,
        num_banks=array.scratchpad_banks,
        is_single_port=array.is_single_port,
        acc_bank_vectors=array.accumulator_vectors // array.accumulator_banks,
        acc_banks=array.accumulator_banks,
        num_passes=array.num_passes,
        out_depth=OUT_DEPTH,
        bus_bytes=array.bus_bytes,
        queue_depth=array.queue_depth,
        loads_in_flight=array.loads_in_flight,
        requests_in_flight=array.requests_in_flight,
        latency=array.latency_cycles,
        cycles_per_beat=array.cycles_per_beat,
    )


def _columns(program: Sequence[Instruction]) -> Program:
    from .replay_core import BARRIER
    from .replay_records import Program

    isa = tensor_pe_array_isa()
    queues = {queue.name: idx for idx, queue in enumerate(isa.queues)}

    def column(*names: str) -> Cycles:
        """The first of some operands that each instruction has."""
        values = [next((insn.operands[n] for n in names if n in insn.operands), 0) for insn in program]
        return np.array(values, dtype=np.int64)

    def bits(name: str) -> Cycles:
        """What a choice of bits stands for; 0 where there is none."""
        values = [int(insn.kind.field(name).choices[insn[name]]) if insn.name == "CFG_WALK" else 0 for insn in program]
        return np.array(values, dtype=np.int64)

    def header(name: str) -> Cycles:
        return np.array([int(getattr(insn, name)) for insn in program], dtype=np.int64)

    return Program(
        kind=np.array([KINDS[insn.name] for insn in program], dtype=np.int64),
        queue=np.array([BARRIER if insn.kind.is_barrier else queues[insn.queue] for insn in program], dtype=np.int64),
        pop_prev=header("pop_prev"),
        pop_next=header("pop_next"),
        push_prev=header("push_prev"),
        push_next=header("push_next"),
        issue_cycle=header("issue_cycle"),
        rows=column("rows", "columns"),
        row_beats=column("row_beats"),
        address=column("local_address", "address"),
        row_bytes=column("row_bytes"),
        width_bytes=column("width_bytes"),
        local_row_bytes=column("local_row_bytes"),
        x=column("x"),
        y=column("y"),
        x_count=column("x_count"),
        y_count=column("y_count"),
        x_step=column("x_step_bytes", "x_bytes"),
        y_step=column("y_step_rows", "y_bytes"),
        vector=column("destination", "source"),
        accumulate=column("accumulate"),
        swap=column("swap"),
        bits=np.stack([bits("input_bits"), bits("weight_bits")], axis=1),
        step_bytes=column("step_bytes"),
        hold=column("hold"),
        columns=column("columns"),
        format=column("format"),
        is_other=column("space", "operand"),
    )


def _hang(program: Sequence[Instruction], record: Record, cycles: int) -> str:
    waiting = [idx for idx, at in enumerate(record.issue) if at < 0]
    first = (
        f"instruction {waiting[0]} ({program[waiting[0]].name}) is the first that did not issue"
        if waiting
        else "all issued"
    )
    queues = ", ".join(f"{name} {int(num)}" for name, num in zip(QUEUES, record.last[:3], strict=True))
    tokens = ", ".join(f"{name} {int(num)}" for name, num in zip(TOKENS, record.last[3:7], strict=True))
    return f"the program did not end within {cycles} cycles: {first}; in the queues: {queues}; tokens: {tokens}"
