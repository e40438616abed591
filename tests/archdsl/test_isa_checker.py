"""The static checker: each message at its instruction, kernels pass, and what it says of mutations."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tileloom.archdsl import (
    CompileError,
    Instruction,
    PeArray,
    ProgramFault,
    assemble,
    check_program,
    require_valid_program,
)
from tileloom.archdsl.isa import checker
from tileloom.archdsl.isa.ordering import clocks
from tileloom.archdsl.isa.tokens import issue
from tileloom.compiler import ConvShape, gemm_shape, take_output
from tileloom.models import FunctionalSimulator

from ..rtl.cases import array_of, random_case
from .program_schedules import conflicts, random_run, violated

MEMORY_BYTES = 4096
"""Of the hand-written programs below: on an array of 4 by 4 with a bus of 4 B."""

GOOD = """
CFG_LD    memory_row_bytes=16 local_row_bytes=16            # 0
LD        memory_address=0 local_address=0 rows=4 row_beats=4  # 1: input, 64 B at 0
LD        memory_address=64 local_address=1024 rows=1 row_beats=4 push_next  # 2: weights, 16 B at 1024
LD        memory_address=128 rows=1 row_beats=9 space=parameters push_next  # 3: slot 0
CFG_TILE  row_bytes=16 rows=4 width_bytes=16                # 4
CFG_WALK  x_step_bytes=4 y_step_rows=1                      # 5
CFG_ST    x_bytes=4 y_bytes=16 low=-8 high=7                # 6
PRELOAD   address=1024 row_bytes=4 rows=4 pop_prev          # 7
COMPUTE   x_count=4 y_count=4 rows=4 swap=1 pop_prev push_prev push_next  # 8
ST        x_count=4 y_count=4 address=256 columns=4 pop_prev push_prev    # 9
HALT                                                        # 10
"""


def small_array() -> PeArray:
    """4 by 4 PEs, a bus of 4 B, a scratchpad of 64 KiB."""
    return array_of(4, 4, 4)


def changed(idx: int, text: str) -> tuple[Instruction, ...]:
    """The good program with some lines in place of one."""
    program = assemble(GOOD)
    return (*program[:idx], *assemble(text), *program[idx + 1 :])


def faults(program: Sequence[Instruction]) -> list[str]:
    """The faults of a program on the small array."""
    return [str(fault) for fault in check_program(program, small_array(), MEMORY_BYTES)]


def test_good_program_has_no_fault() -> None:
    assert faults(assemble(GOOD)) == []
    require_valid_program(assemble(GOOD), small_array(), MEMORY_BYTES)


# ---- Single instructions.

LD_MEMORY = "LD memory_address={} local_address=1024 rows=1 row_beats=4 push_next"
OPERAND_CASES = [
    # Fields.
    (1, "LD rows=4 row_beats=4 memory_address=2 ", "instruction 1 (LD): memory_address is 2; it must be a multiple of the bus (4 B): 0 or 4"),
    # Counts.
    (1, "LD rows=0 row_beats=4", "instruction 1 (LD): rows is 0; it must be at least 1"),
    (1, "LD rows=4 row_beats=0", "instruction 1 (LD): row_beats is 0; it must be at least 1"),
    (7, "PRELOAD address=1024 row_bytes=4 pop_prev", "instruction 7 (PRELOAD): rows is 0; it must be at least 1"),
    (8, "COMPUTE x_count=0 y_count=4 rows=4 swap=1 pop_prev push_next", "instruction 8 (COMPUTE): x_count is 0; it must be at least 1"),
    (8, "COMPUTE x_count=4 y_count=0 rows=4 swap=1 pop_prev push_next", "instruction 8 (COMPUTE): y_count is 0; it must be at least 1"),
    (8, "COMPUTE x_count=4 y_count=4 rows=0 swap=1 pop_prev push_next", "instruction 8 (COMPUTE): rows is 0; it must be at least 1"),
    (9, "ST x_count=0 y_count=4 columns=4 pop_prev", "instruction 9 (ST): x_count is 0; it must be at least 1"),
    (9, "ST x_count=4 y_count=0 columns=4 pop_prev", "instruction 9 (ST): y_count is 0; it must be at least 1"),
    (9, "ST x_count=4 y_count=4 columns=0 pop_prev", "instruction 9 (ST): columns is 0; it must be at least 1"),
    # Loads.
    (2, "LD memory_address=64 local_address=1026 rows=1 row_beats=4 push_next", "instruction 2 (LD): local_address is 1026; it must be a multiple of the bus (4 B): 1024 or 1028"),
    (0, "CFG_LD memory_row_bytes=18 local_row_bytes=16", "instruction 1 (LD): memory_row_bytes of CFG_LD is 18; it must be a multiple of the bus (4 B): 16 or 20"),
    (0, "CFG_LD memory_row_bytes=16 local_row_bytes=17", "instruction 1 (LD): local_row_bytes of CFG_LD is 17; it must be a multiple of the bus (4 B): 16 or 20"),
    (2, LD_MEMORY.format(4084), "instruction 2 (LD): it reads main memory byte 4099; the last is 4095"),
    (2, "LD memory_address=64 local_address=65524 rows=1 row_beats=4 push_next", "instruction 2 (LD): it writes scratchpad byte 65539; the last is 65535"),
    (3, "LD memory_address=128 rows=2 row_beats=9 space=parameters push_next", "instruction 3 (LD): rows is 2; a load of channel parameters has 1"),
    (3, "LD memory_address=128 rows=1 row_beats=8 space=parameters push_next", "instruction 3 (LD): row_beats is 8; a set of channel parameters has 9"),
    (3, "LD memory_address=128 local_address=4 rows=1 row_beats=9 space=parameters push_next", "instruction 3 (LD): local_address is slot 4; there are 4 parameter slots, from 0"),
    # Execution.
    (7, "PRELOAD address=1024 row_bytes=4 rows=5 pop_prev", "instruction 7 (PRELOAD): rows is 5; the PE array has 4"),
    (7, "PRELOAD address=1024 row_bytes=30000 rows=4 pop_prev", "instruction 7 (PRELOAD): it reads scratchpad byte 91027; the last is 65535"),
    (8, "COMPUTE x_count=4 y_count=4 rows=5 swap=1 pop_prev push_next", "instruction 8 (COMPUTE): rows is 5; the PE array has 4"),
    (4, "CFG_TILE address=65520 row_bytes=16 rows=4 width_bytes=16", "instruction 8 (COMPUTE): it reads scratchpad byte 65583; the last is 65535"),
    (8, "COMPUTE destination={last} x_count=4 y_count=4 rows=4 swap=1 pop_prev push_next", "instruction 8 (COMPUTE): it writes accumulator vector {end}; the last is {last}"),
    (5, "CFG_WALK x_step_bytes=1000000 y_step_rows=1", "instruction 8 (COMPUTE): its walk ends at x = 3000000; positions count to 2097151: lower x_count or x_step_bytes"),
    # Stores.
    (6, "CFG_ST x_bytes=4 y_bytes=16 low=5 high=4", "instruction 6 (CFG_ST): low is 5 and high 4; low must not be above high"),
    (9, "ST x_count=4 y_count=4 address=256 columns=5 pop_prev", "instruction 9 (ST): columns is 5; the PE array has 4"),
    (9, "ST x_count=4 y_count=4 address=256 columns=4 slot=4 pop_prev", "instruction 9 (ST): slot is slot 4; there are 4 parameter slots, from 0"),
    (9, "ST x_count=4 y_count=4 address=258 columns=4 pop_prev", "instruction 9 (ST): address is 258; it must be a multiple of the bus (4 B): 256 or 260"),
    (9, "ST x_count=4 y_count=4 address=257 columns=4 format=4 pop_prev", "instruction 9 (ST): address is 257; it must be a multiple of a vector of 4 columns (2 B): 256 or 258"),
    (6, "CFG_ST x_bytes=3 y_bytes=16 high=7", "instruction 9 (ST): x_bytes of CFG_ST is 3; it must be a multiple of the bus (4 B): 0 or 4"),
    (6, "CFG_ST x_bytes=4 y_bytes=18 high=7", "instruction 9 (ST): y_bytes of CFG_ST is 18; it must be a multiple of the bus (4 B): 16 or 20"),
    (9, "ST x_count=4 y_count=4 address=254 columns=4 format=32 pop_prev", "instruction 9 (ST): address is 254; it must be a multiple of the bus (4 B): 252 or 256"),
    (9, "ST x_count=4 y_count=4 address=4040 columns=4 pop_prev", "instruction 9 (ST): it writes main memory byte 4103; the last is 4095"),
    (9, "ST x_count=4 y_count=4 address=65480 columns=4 space=scratchpad pop_prev", "instruction 9 (ST): it writes scratchpad byte 65543; the last is 65535"),
    (9, "ST source={last} x_count=4 y_count=4 address=256 columns=4 pop_prev", "instruction 9 (ST): it reads accumulator vector {end}; the last is {last}"),
    (9, "ST x_count=4 y_count=4 address=256 columns=3 format=4 pop_prev", "instruction 9 (ST): columns is 3; of 4-bit elements two share a byte, so it must be even: store 4 columns"),
    (9, "ST x_count=4 y_count=4 address=256 columns=4 format=32 space=scratchpad pop_prev", "instruction 9 (ST): format is 32; the scratchpad takes elements of 8 or 4 bits: store to main memory"),
    (9, "ST x_count=4 y_count=4 address=258 columns=4 space=scratchpad pop_prev", "instruction 9 (ST): a vector of 4 B begins at byte 2 of a scratchpad word of 4 B and does not end in it; choose address, x_bytes and y_bytes so that each vector lies in one word"),
]  # fmt: skip


@pytest.mark.parametrize(("idx", "text", "message"), OPERAND_CASES)
def test_single_instructions(idx: int, text: str, message: str) -> None:
    last = small_array().accumulator_vectors - 1
    sizes = {"last": last, "end": last + 15}
    if "{last}" in message:
        text, message = text.format(**sizes), message.format(**sizes)
    assert faults(changed(idx, text)) == [message]


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (Instruction(name="LOAD"), "unknown instruction 'LOAD'; did you mean 'PRELOAD'?"),
        (Instruction(name="LD", operands={"row": 1}), "unknown operand 'row'; did you mean 'rows'?"),
        (Instruction(name="LD", operands={"rows": 4096}), "rows is 4096; it must be from 0 to 4095"),
        (Instruction(name="NOP", issue_cycle=-1), "issue_cycle is -1; it must be from 0 to 268435455"),
    ],
)
def test_instructions_without_bits(instruction: Instruction, message: str) -> None:
    program = assemble(GOOD)
    found = check_program([*program[:1], instruction, *program[1:]], small_array(), MEMORY_BYTES)
    assert found == (ProgramFault(index=1, instruction=instruction.name, message=message),)


def test_all_faults_are_reported_in_order() -> None:
    program = list(changed(2, "LD rows=0 row_beats=4 push_next"))
    program[1] = Instruction(name="LD", operands={"rows": 4096, "row_beats": -1})
    with pytest.raises(CompileError) as caught:
        require_valid_program(program, small_array(), MEMORY_BYTES)
    assert str(caught.value).splitlines() == [
        "instruction 1 (LD): rows is 4096; it must be from 0 to 4095",
        "instruction 1 (LD): row_beats is -1; it must be from 0 to 4095",
        "instruction 2 (LD): rows is 0; it must be at least 1",
    ]


@pytest.mark.parametrize("memory_bytes", [0, (1 << 32) + 1])
def test_memory_must_have_a_size(memory_bytes: int) -> None:
    with pytest.raises(ValueError, match=f"memory_bytes is {memory_bytes}; it must be from 1 to 4294967296"):
        check_program((), small_array(), memory_bytes)


@pytest.mark.parametrize(
    ("idx", "text"),
    [
        (2, "LD memory_address=64 local_address=1024 rows=1 row_beats=4 push_next @9"),
        (6, "CFG_ST x_bytes=3 y_bytes=18 low=-8 high=7\nCFG_ST x_bytes=4 y_bytes=16 low=-8 high=7"),
        (8, "COMPUTE y=-1 x=-3 x_count=6 y_count=6 rows=4 swap=1 pop_prev push_next"),
        (9, "ST x_count=4 y_count=4 address=258 columns=2 format=4 pop_prev"),
        (9, "ST x_count=1 y_count=1 address=4080 columns=4 format=32 pop_prev"),
        (9, "ST x_count=4 y_count=4 address=4032 columns=4 pop_prev"),
        (9, "ST x_count=4 y_count=4 address=2048 columns=3 space=scratchpad pop_prev"),
    ],
)
def test_what_looks_odd_and_is_valid(idx: int, text: str) -> None:
    assert faults(changed(idx, text)) == []


# ---- Configuration, weights, the end.


@pytest.mark.parametrize(
    ("idx", "messages"),
    [
        (0, ["instruction 0 (LD): no CFG_LD stands in front of it, which gives the strides of several rows; put one there"]),
        (4, ["instruction 7 (COMPUTE): no CFG_TILE stands in front of it, which gives the input tile; put one there"]),
        (5, ["instruction 6 (PRELOAD): no CFG_WALK stands in front of it, which gives the bits of a weight; put one there",
             "instruction 7 (COMPUTE): no CFG_WALK stands in front of it, which gives the walk over it; put one there"]),
        (6, ["instruction 8 (ST): no CFG_ST stands in front of it, which gives strides and output range; put one there"]),
        (7, [("instruction 7 (COMPUTE): it waits for ever: swap is set, and no PRELOAD stands between it and the last swap;"
             " put one there")]),
        (10, ["instruction 10 (end): the program has no HALT; end it with one"]),
    ],
)  # fmt: skip
def test_what_is_missing(idx: int, messages: list[str]) -> None:
    program = assemble(GOOD)
    assert faults([*program[:idx], *program[idx + 1 :]]) == messages


def test_nothing_stands_behind_halt() -> None:
    assert faults(assemble(GOOD + "NOP\nNOP\n")) == [
        "instruction 11 (NOP): it stands behind instruction 10 (HALT) and never issues; remove it, or move the HALT to the end"
    ]


def test_preload_waits_for_a_swap() -> None:
    text = "PRELOAD address=1024 row_bytes=4 rows=4 pop_prev\nPRELOAD address=1024 row_bytes=4 rows=4"
    assert faults(changed(7, text)) == [
        (
            "instruction 8 (PRELOAD): it waits for ever: the weights of instruction 7 (PRELOAD) still wait in the shadow"
            " registers; put a COMPUTE with swap between"
        )
    ]


def test_compute_needs_weights() -> None:
    assert faults(changed(8, "COMPUTE x_count=4 y_count=4 rows=4 pop_prev push_next")) == [
        "instruction 8 (COMPUTE): no weights are in use yet: put a PRELOAD in front of it, and set swap"
    ]


def test_program_counter_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "INDEX_BITS", 3)
    assert faults(assemble("NOP\n" * 7 + "HALT\n")) == []
    assert faults(assemble("NOP\n" * 8 + "HALT\n")) == [
        "instruction 8 (HALT): the program has 9 instructions; the program counter reaches 8"
    ]


# ---- Dependence bits and tokens.


@pytest.mark.parametrize(
    ("name", "bit", "message"),
    [
        ("CFG_LD", "pop_prev", "pop_prev is set; there is no queue in front of the load queue: clear it"),
        ("CFG_LD", "push_prev", "push_prev is set; there is no queue in front of the load queue: clear it"),
        ("CFG_ST", "pop_next", "pop_next is set; there is no queue behind the store queue: clear it"),
        ("CFG_ST", "push_next", "push_next is set; there is no queue behind the store queue: clear it"),
        ("FENCE", "push_prev", "push_prev is set; FENCE goes to no queue and moves no tokens: put it on a NOP"),
    ],
)
def test_dependence_bits_need_a_neighbour(name: str, bit: str, message: str) -> None:
    assert faults(assemble(f"{name} {bit}\nHALT\n")) == [f"instruction 0 ({name}): {message}"]


def test_token_that_nothing_gives() -> None:
    assert faults(assemble("NOP push_next\nCFG_ST pop_prev\nCFG_ST pop_prev\nHALT\n")) == [
        (
            "instruction 2 (CFG_ST): it waits for token 2 of the execute queue for ever: the program gives 1; give one more, or"
            " take one less"
        )
    ]


def test_two_queues_wait_for_each_other() -> None:
    assert faults(assemble("CFG_LD pop_next push_next\nNOP pop_prev push_prev\nHALT\n")) == [
        (
            "instruction 0 (CFG_LD): it waits for token 1 of the execute queue for ever: instruction 1 (NOP) gives it, and"
            " cannot issue before this one has; move it forward"
        ),
        (
            "instruction 1 (NOP): it waits for token 1 of the load queue for ever: instruction 0 (CFG_LD) gives it, and"
            " cannot issue before this one has; move it forward"
        ),
    ]


def test_token_from_behind_reaches_as_far_as_queues_are_deep() -> None:
    depth = small_array().queue_depth
    fits = "CFG_LD pop_next\n" + "CFG_LD\n" * (depth - 1) + "NOP push_prev\nHALT\n"
    full = "CFG_LD pop_next\n" + "CFG_LD\n" * depth + "NOP push_prev\nHALT\n"
    assert faults(assemble(fits)) == []
    assert faults(assemble(full)) == [
        (
            f"instruction 0 (CFG_LD): it waits for token 1 of the execute queue for ever: instruction {depth + 1} (NOP) gives"
            " it, and cannot issue before this one has; move it forward"
        )
    ]


def test_fence_holds_back_a_token() -> None:
    assert faults(assemble("CFG_LD pop_next\nFENCE\nNOP push_prev\nHALT\n")) == [
        (
            "instruction 0 (CFG_LD): it waits for token 1 of the execute queue for ever: instruction 2 (NOP) gives it, and"
            " cannot issue before this one has; move it forward"
        )
    ]


def test_counter_of_tokens_overflows() -> None:
    assert faults(assemble("NOP push_next\n" * 255 + "HALT\n")) == []
    assert faults(assemble("NOP push_next\n" * 256 + "HALT\n")) == [
        (
            "instruction 255 (NOP): it may give token 256 to the store queue when only 0 are taken; a counter holds 255: let the"
            " store queue take tokens earlier, or give none that nobody takes"
        )
    ]


def test_tokens_taken_in_time_do_not_overflow() -> None:
    taken = "NOP push_next\n" * 250 + "CFG_ST pop_prev\n" * 250
    assert faults(assemble(taken + "FENCE\n" + taken + "HALT\n")) == []
    # Eight of the first 250 may still wait in the queue.
    assert len(faults(assemble(taken + taken + "HALT\n"))) == 1


# ---- Data.

TOKEN = "let a token from the {} to the {} queue{} order it behind instruction {}, or put a FENCE between"


@pytest.mark.parametrize(
    ("idx", "text", "message"),
    [
        (7, "PRELOAD address=1024 row_bytes=4 rows=4\nNOP pop_prev",
         "instruction 7 (PRELOAD): it reads scratchpad byte 1024, which instruction 2 (LD) may not have written yet: "
         + TOKEN.format("load", "execute", "", 2)),
        (8, "COMPUTE x_count=4 y_count=4 rows=4 swap=1 pop_prev push_prev\nNOP push_next",
         "instruction 10 (ST): it reads accumulator vector 0, which instruction 8 (COMPUTE) may not have written yet: "
         + TOKEN.format("execute", "store", "", 8)),
        (9, "ST x_count=4 y_count=4 address=256 columns=4 pop_prev\nLD rows=1 row_beats=1 local_address=4",
         "instruction 10 (LD): it overwrites scratchpad byte 4, which instruction 8 (COMPUTE) may not have read yet: "
         + TOKEN.format("execute", "load", "", 8)),
        (9, "ST x_count=4 y_count=4 address=256 columns=4 pop_prev\nLD rows=1 row_beats=1 memory_address=260 local_address=2048",
         "instruction 10 (LD): it reads main memory byte 260, which instruction 9 (ST) may not have written yet: "
         + TOKEN.format("store", "load", ", through the execute queue,", 9)),
        (9, ("ST x_count=4 y_count=4 address=0 columns=4 pop_prev\n"
            "LD rows=1 row_beats=9 memory_address=512 space=parameters pop_next"),
         "instruction 10 (LD): it overwrites parameter slot 0, which instruction 9 (ST) may not have read yet: "
         + TOKEN.format("store", "load", ", through the execute queue,", 9)),
        (9, "ST x_count=4 y_count=4 address=256 columns=4 pop_prev\nCOMPUTE destination=3 x_count=1 y_count=1 rows=4",
         "instruction 10 (COMPUTE): it overwrites accumulator vector 3, which instruction 9 (ST) may not have read yet: "
         + TOKEN.format("store", "execute", "", 9)),
        (9, "LD rows=1 row_beats=1 local_address=2048\nST x_count=4 y_count=4 address=2048 columns=4 space=scratchpad pop_prev",
         "instruction 10 (ST): it writes scratchpad byte 2048 before instruction 9 (LD) may have written it: "
         + TOKEN.format("load", "store", ", through the execute queue,", 9)),
        (3, "LD rows=1 row_beats=1 local_address=4096 push_next",
         "instruction 9 (ST): it reads parameter slot 0, which nothing has written: load it first"),
        (8, "COMPUTE x_count=4 y_count=4 rows=4 swap=1 accumulate=1 pop_prev push_next",
         ("instruction 8 (COMPUTE): it reads accumulator vector 0, which nothing has written: let a COMPUTE without accumulate"
         " write it first")),
        (9, "ST source=9 x_count=4 y_count=2 address=256 columns=4 pop_prev",
         ("instruction 9 (ST): it reads accumulator vector 16, which nothing has written: let a COMPUTE without accumulate"
         " write it first")),
        (7, "PRELOAD address=3072 row_bytes=4 rows=4 pop_prev",
         "instruction 7 (PRELOAD): it reads scratchpad bytes 3072 to 3087, and nothing has written any of them: load them first"),
    ],
)  # fmt: skip
def test_hazards(idx: int, text: str, message: str) -> None:
    assert faults(changed(idx, text)) == [message]


@pytest.mark.parametrize(
    "text",
    [
        "FENCE\nLD rows=1 row_beats=1 local_address=4",
        "LD rows=1 row_beats=1 local_address=4 pop_next",
        "FENCE\nLD rows=1 row_beats=1 memory_address=260 local_address=2048",
        "NOP pop_next push_prev\nCFG_LD pop_next\nLD rows=1 row_beats=1 memory_address=260 local_address=2048 pop_next",
        "COMPUTE destination=3 x_count=1 y_count=1 rows=4 pop_next",
        "LD rows=1 row_beats=1 memory_address=244 local_address=2048",
    ],
)
def test_hazards_are_mended_by_tokens_and_fences(text: str) -> None:
    assert faults([*assemble(GOOD)[:-1], *assemble(text), Instruction(name="HALT")]) == []


# ---- Kernels.

Sizes = tuple[int, int, int]
PLAIN: dict[str, object] = {}
TIGHT: dict[str, object] = {
    "hierarchy.scratchpad.banks": 1,
    "hierarchy.accumulator.banks": 1,
    "control.queue_depth": 3,
    "control.loads_in_flight": 2,
    "control.requests_in_flight": 3,
}
ARRAYS: tuple[tuple[Sizes, dict[str, object]], ...] = (
    ((4, 4, 4), PLAIN), ((8, 8, 8), PLAIN), ((16, 16, 16), PLAIN), ((4, 16, 4), PLAIN), ((16, 4, 4), PLAIN), ((8, 8, 4), TIGHT),
)  # fmt: skip
BITS = ("pop_prev", "pop_next", "push_prev", "push_next")


def with_change(program: Sequence[Instruction], idx: int, **changes: Any) -> list[Instruction]:
    """A program with one instruction changed: dependence bits or operands."""
    bits = {name: value for name, value in changes.items() if name in BITS}
    operands = {name: value for name, value in changes.items() if name not in BITS}
    old = program[idx]
    return [*program[:idx], replace(old, operands={**old.operands, **operands}, **bits), *program[idx + 1 :]]


@pytest.mark.parametrize(("sizes", "overrides"), ARRAYS, ids=str)
def test_random_kernels_have_no_fault(sizes: Sizes, overrides: dict[str, object]) -> None:
    array, rng = array_of(*sizes, overrides), Random(f"checked {sizes}")
    for _ in range(12):
        case = random_case(rng, array)
        assert check_program(case.program, array, len(case.memory)) == (), case.shape


@pytest.mark.parametrize(("sizes", "overrides"), ARRAYS, ids=str)
def test_dropped_dependence_bits_are_found_or_harmless(sizes: Sizes, overrides: dict[str, object]) -> None:
    """A dropped pop is always found.

    A dropped push makes every later pop of its counter wait for a later token: either one waits for ever, which is
    found, or no instruction knows less of what has ended, so that all that was ordered still is.
    """
    array, rng = array_of(*sizes, overrides), Random(f"dropped {sizes}")
    num_found = num_harmless = 0
    for _ in range(3):
        case = random_case(rng, array)
        order = issue(case.program, array.queue_depth).order
        before = clocks(case.program, order, array)
        places = [(idx, bit) for idx, some in enumerate(case.program) for bit in BITS if getattr(some, bit)]
        for idx, bit in rng.sample(places, min(40, len(places))):
            program = with_change(case.program, idx, **{bit: False})
            if check_program(program, array, len(case.memory)):
                num_found += 1
                continue
            num_harmless += 1
            assert bit.startswith("push"), f"{idx} {bit} of {case.shape}"
            after = clocks(program, issue(program, array.queue_depth).order, array)
            assert all(
                new >= old
                for one, other in zip(after, before, strict=True)
                for new, old in zip(one, other, strict=True)
            )
    # Most that stay are releases by COMPUTE and ST that no later instruction happens to wait for.
    assert num_found / (num_found + num_harmless) > 0.6


def test_dropped_pop_is_reported_where_it_bites() -> None:
    array = array_of(4, 4, 4)
    case = random_case(Random(5), array)
    pops = [idx for idx, some in enumerate(case.program) if some.pop_prev and some.name in ("PRELOAD", "ST")]
    for idx in pops:
        first, *_ = check_program(with_change(case.program, idx, pop_prev=False), array, len(case.memory))
        assert first.index == idx
        assert "may not have" in first.message


@pytest.mark.parametrize(
    ("name", "operand", "delta", "part"),
    [
        ("LD", "memory_address", 1, "memory_address is"),
        ("LD", "memory_address", 1 << 20, "it reads main memory byte"),
        ("LD", "local_address", 1, "local_address is"),
        ("PRELOAD", "address", 1 << 16, "it reads scratchpad byte"),
        ("PRELOAD", "rows", 100, "rows is"),
        ("COMPUTE", "destination", 1 << 15, "it writes accumulator vector"),
        ("COMPUTE", "x_count", -1, "x_count is"),
        ("ST", "address", 1, "address is"),
        ("ST", "address", 1 << 20, "it writes main memory byte"),
        ("ST", "source", 1 << 15, "it reads accumulator vector"),
        ("ST", "columns", 100, "columns is"),
    ],
)
def test_changed_operands_are_found(name: str, operand: str, delta: int, part: str) -> None:
    array = array_of(8, 8, 8)
    case = random_case(Random(11), array, gemm_shape(13, 17, 9))
    for idx, some in enumerate(case.program):
        if some.name != name or some.operands.get("space"):
            continue
        value = 0 if operand == "x_count" else some[operand] + delta
        faults = check_program(with_change(case.program, idx, **{operand: value}), array, len(case.memory))
        assert (faults[0].index, faults[0].instruction) == (idx, name)
        assert part in faults[0].message


@pytest.mark.parametrize(
    "window",
    [
        {"kernel_height": 3, "kernel_width": 3, "dilation": 2, "pad_left": 2, "output_height": 7},
        {"kernel_height": 3, "kernel_width": 1, "output_height": 9},
        {"kernel_height": 1, "kernel_width": 3, "pad_left": 1, "output_height": 11},
    ],
)
def test_windows_over_an_input_one_column_wide_load_no_byte_twice(window: dict[str, int]) -> None:
    array = array_of(16, 4, 4)
    shape = ConvShape(height=11, width=1, channels=19, outputs=20, output_width=1, **window)
    case = random_case(Random(2), array, shape)
    assert check_program(case.program, array, len(case.memory)) == ()
    assert (
        take_output(FunctionalSimulator(array).run(case.program, case.memory), shape, case.layout) == case.expected
    ).all()


def test_kernel_without_halt_is_found() -> None:
    array = array_of(8, 8, 8)
    case = random_case(Random(3), array)
    assert [str(fault) for fault in check_program(case.program[:-1], array, len(case.memory))] == [
        f"instruction {len(case.program) - 1} (end): the program has no HALT; end it with one"
    ]


def test_thousands_of_instructions_take_seconds() -> None:
    array = array_of(8, 8, 8)
    case = random_case(Random(1), array, gemm_shape(128, 256, 160))
    assert len(case.program) > 4000
    start = time.perf_counter()
    assert check_program(case.program, array, len(case.memory)) == ()
    assert time.perf_counter() - start < 10


# ---- Against random schedules.


def random_program(rng: Random, array: PeArray) -> list[Instruction]:
    """A short program of small accesses, valid but for its tokens."""
    program = list(
        assemble("CFG_TILE row_bytes=4 rows=8 width_bytes=4\nCFG_WALK x_step_bytes=4 y_step_rows=1\nCFG_ST x_bytes=4\n")
    )
    program += assemble(
        f"LD rows=1 row_beats={array.slot_beats} space=parameters\nLD rows=1 row_beats=16\nFENCE\nPRELOAD rows=4\n"
    )
    program += assemble("COMPUTE x_count=1 y_count=4 rows=4 swap=1\nFENCE\n")
    is_waiting = False
    for _ in range(rng.randint(2, 14)):
        name = rng.choice(("LD", "LD", "PRELOAD", "COMPUTE", "COMPUTE", "ST", "ST", "NOP", "CFG_LD", "CFG_ST"))
        if rng.random() < 0.05:
            name = "FENCE"
        if name == "PRELOAD" and is_waiting:
            continue
        program.append(_random_instruction(rng, name, is_waiting=is_waiting, array=array))
        if name in ("PRELOAD", "COMPUTE"):
            is_waiting = name == "PRELOAD" or (is_waiting and not program[-1]["swap"])
    return [*program, Instruction(name="HALT")]


def _random_instruction(rng: Random, name: str, *, is_waiting: bool, array: PeArray) -> Instruction:
    at, bits = 4 * rng.randrange(8), dict[str, bool]()
    if name == "LD" and rng.random() < 0.3:
        operands = {"rows": 1, "row_beats": array.slot_beats, "space": 1, "local_address": 0}
    elif name == "LD":
        operands = {
            "rows": 1,
            "row_beats": rng.randint(1, 2),
            "local_address": at,
            "memory_address": 4 * rng.randrange(4),
        }
    elif name == "PRELOAD":
        operands = {"rows": 1, "address": at}
    elif name == "COMPUTE":
        operands = {"y": at // 4, "x_count": 1, "y_count": 1, "rows": 4, "destination": rng.randrange(4)}
        operands["swap"] = int(is_waiting and rng.random() < 0.7)
    elif name == "ST":
        space = int(rng.random() < 0.3)
        operands = {"source": rng.randrange(4), "x_count": 1, "y_count": 1, "columns": 4, "space": space}
        operands["address"] = at if space else 4 * rng.randrange(4)
    else:
        operands = {"low": -8, "high": 7, "x_bytes": 4} if name == "CFG_ST" else {}
    chance = {"load": ("pop_next", "push_next"), "execute": BITS, "store": ("pop_prev", "push_prev")}
    if name != "FENCE":
        queue = Instruction(name=name).queue
        bits = {bit: rng.random() < (0.15 if bit.startswith("pop") else 0.6) for bit in chance[queue]}
    return replace(Instruction(name=name, operands=operands), **bits)


def test_verdicts_hold_in_random_schedules() -> None:
    """A program without faults ends and keeps its order in every schedule; one that hangs does so in every schedule.

    Of those with hazards most show one within a few schedules; the rest need luck.
    """
    array, rng = array_of(4, 4, 4, {"control.queue_depth": 3, "control.loads_in_flight": 2}), Random(8)
    verdicts = {"valid": 0, "hangs": 0, "hazard": 0, "shown": 0}
    for _ in range(400):
        program = random_program(rng, array)
        faults = check_program(program, array, 256)
        is_hung = any("for ever" in fault.message for fault in faults)
        runs = [random_run(program, array, rng) for _ in range(6 if not faults or is_hung else 30)]
        assert {run.is_hung for run in runs} == {is_hung}
        if is_hung:
            verdicts["hangs"] += 1
            continue
        pairs = conflicts(program, array, 256)
        bad = {idx for run in runs for idx in violated(run, pairs)}
        assert bad <= {fault.index for fault in faults}
        verdicts["hazard" if faults else "valid"] += 1
        verdicts["shown"] += bool(bad)
    assert min(verdicts.values()) > 40, verdicts
    assert verdicts["shown"] > 0.9 * verdicts["hazard"], verdicts
