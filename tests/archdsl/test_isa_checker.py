"""The static checker: each message at its instruction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tileloom.archdsl import (
    E4M3,
    CompileError,
    Instruction,
    PeArray,
    ProgramFault,
    assemble,
    check_program,
    require_valid_program,
)
from tileloom.archdsl.isa import checker

from ..rtl.cases import array_of

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
ALU_AND_STORE = """FENCE
CFG_WALK x_step_bytes=4 y_step_rows=1 input_bits={}
CFG_ALU address=0 step_bytes=5000
NOP
NOP
ALU x_count=4 y_count=4 {} columns={}
FENCE
ST x_count=4 y_count=4 address=256 columns=4"""
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
    (3, "LD memory_address=128 rows=2 row_beats=9 space=parameters push_next", "instruction 3 (LD): rows is 2; a set of channel parameters takes a load of 1"),
    (3, "LD memory_address=128 rows=1 row_beats=8 space=parameters push_next", "instruction 3 (LD): row_beats is 8; a set of channel parameters has 9"),
    (3, "LD memory_address=128 local_address=4 rows=1 row_beats=9 space=parameters push_next", "instruction 3 (LD): local_address is slot 4; there are 4 parameter slots, from 0"),
    (3, "LD memory_address=128 rows=1 row_beats=9 space=table push_next", "instruction 3 (LD): row_beats is 9; a table has 64"),
    (3, "LD memory_address=128 local_address=2 rows=1 row_beats=64 space=table push_next", "instruction 3 (LD): local_address is slot 2; there are 2 table slots, from 0"),
    # Execution.
    (7, "PRELOAD address=1024 row_bytes=4 rows=5 pop_prev", "instruction 7 (PRELOAD): rows is 5; the PE array has 4"),
    (7, "PRELOAD address=1024 row_bytes=30000 rows=4 pop_prev", "instruction 7 (PRELOAD): it reads scratchpad byte 91027; the last is 65535"),
    (8, "COMPUTE x_count=4 y_count=4 rows=5 swap=1 pop_prev push_next", "instruction 8 (COMPUTE): rows is 5; the PE array has 4"),
    (4, "CFG_TILE address=65520 row_bytes=16 rows=4 width_bytes=16", "instruction 8 (COMPUTE): it reads scratchpad byte 65583; the last is 65535"),
    (8, "COMPUTE destination={last} x_count=4 y_count=4 rows=4 swap=1 pop_prev push_next", "instruction 8 (COMPUTE): it writes accumulator vector {end}; the last is {last}"),
    (5, "CFG_WALK x_step_bytes=1000000 y_step_rows=1", "instruction 8 (COMPUTE): its walk ends at x = 3000000; positions count to 2097151: lower x_count or x_step_bytes"),
    (5, "CFG_WALK x_step_bytes=4 y_step_rows=1 input_bits=32", "instruction 8 (COMPUTE): input_bits of CFG_WALK is 32; the PE array takes elements of 8 or 4 bits, and ALU alone those of 32"),
    (9, ALU_AND_STORE.format("32", "operand=scalar", 2), "instruction 14 (ALU): columns is 2; a vector of 32-bit elements has up to 1"),
    (9, ALU_AND_STORE.format("8", "operand=sequence", 4), "instruction 14 (ALU): it reads scratchpad byte 75003; the last is 65535"),
    # Stores.
    (6, "CFG_ST x_bytes=4 y_bytes=16 low=5 high=4", "instruction 6 (CFG_ST): low is 5 and high 4; low must not be above high"),
    (9, "ST x_count=4 y_count=4 address=256 columns=5 pop_prev", "instruction 9 (ST): columns is 5; the PE array has 4"),
    (9, "ST x_count=4 y_count=4 address=256 columns=4 slot=4 pop_prev", "instruction 9 (ST): slot is slot 4; there are 4 parameter slots, from 0"),
    (9, "ST x_count=4 y_count=4 address=256 columns=4 lookup=3 pop_prev", "instruction 9 (ST): lookup - 1 is slot 2; there are 2 table slots, from 0"),
    (9, "ST x_count=4 y_count=4 address=256 columns=4 lookup=1 pop_prev", "instruction 9 (ST): it reads table slot 0, which nothing has written: load it first"),
    (9, "ST x_count=4 y_count=4 address=256 columns=4 lookup=1 format=32 pop_prev", "instruction 9 (ST): lookup is 1, and format 32; tables hold elements of 8 bits: set it to 0"),
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


E4M3_CASES = [
    (5, "CFG_WALK x_step_bytes=4 y_step_rows=1 input_bits=4", "instruction 5 (CFG_WALK): input_bits is 4; the PE array's elements are e4m3, of 8 bits"),
    (5, "CFG_WALK x_step_bytes=4 y_step_rows=1 weight_bits=4", "instruction 5 (CFG_WALK): weight_bits is 4; the PE array's elements are e4m3, of 8 bits"),
    (5, "CFG_ALU scalar=-1\nCFG_WALK x_step_bytes=4 y_step_rows=1", "instruction 5 (CFG_ALU): scalar is -1; it must be the code of an element of e4m3, 0 to 255"),
    (5, "CFG_ALU shift=2\nCFG_WALK x_step_bytes=4 y_step_rows=1", "instruction 5 (CFG_ALU): shift is 2; products of e4m3 are exact: it must be 0"),
    (6, "CFG_ST x_bytes=4 y_bytes=16 low=-8 high=127", "instruction 6 (CFG_ST): high is 127, which is NaN in e4m3; it must be a number"),
    (6, "CFG_ST x_bytes=4 y_bytes=16 low=-1 high=7", "instruction 6 (CFG_ST): low is -1, which is NaN in e4m3; it must be a number"),
    (6, "CFG_ST x_bytes=4 y_bytes=16 zero_point=3 high=7", "instruction 6 (CFG_ST): zero_point is 3; elements of e4m3 have none: it must be 0"),
    # As codes -8 is -240 and -100 is -0.0547: the greater byte is the lesser number.
    (6, "CFG_ST x_bytes=4 y_bytes=16 low=-100 high=-8", "instruction 6 (CFG_ST): low is -100 and high -8; low must not be above high"),
    (9, "ST x_count=4 y_count=4 address=256 columns=4 format=4 pop_prev", "instruction 9 (ST): format is 4; the PE array's elements are e4m3: store 8 or 32 bits"),
]  # fmt: skip


@pytest.mark.parametrize(("idx", "text", "message"), E4M3_CASES)
def test_floating_point_elements(idx: int, text: str, message: str) -> None:
    array = replace(small_array(), format=E4M3, accumulator_bits=53)
    assert not check_program(assemble(GOOD), array, MEMORY_BYTES)
    assert [str(fault) for fault in check_program(changed(idx, text), array, MEMORY_BYTES)] == [message]


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
