"""The instruction set: every instruction survives bits and text, and every fault says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tileloom.archdsl import (
    CompileError,
    Instruction,
    InstructionSet,
    assemble,
    decode,
    disassemble,
    encode,
    encode_program,
    tensor_pe_array_isa,
)

ISA = tensor_pe_array_isa()
FORMAT_AT = next(low for field, low in ISA.layout(ISA.by_name["ST"]) if field.name == "format")
KINDS = st.sampled_from(ISA.instructions)


@st.composite
def instructions(draw: st.DrawFn) -> Instruction:
    """Any instruction that has bits, all operands given."""
    kind = draw(KINDS)
    return Instruction(
        name=kind.name,
        operands={field.name: draw(st.integers(field.least, field.most)) for field in kind.fields},
        pop_prev=draw(st.booleans()),
        pop_next=draw(st.booleans()),
        push_prev=draw(st.booleans()),
        push_next=draw(st.booleans()),
        issue_cycle=draw(st.integers(0, (1 << 28) - 1)),
    )


@given(instructions())
def test_bits_decode_to_the_same_instruction(instruction: Instruction) -> None:
    word = encode(instruction)
    assert 0 <= word < 1 << ISA.instruction_bits
    assert decode(word) == instruction


@given(instructions())
def test_decoded_bits_encode_to_the_same_bits(instruction: Instruction) -> None:
    word = encode(instruction)
    assert encode(decode(word)) == word


@given(st.lists(instructions(), max_size=6))
def test_text_assembles_to_the_same_bits(program: list[Instruction]) -> None:
    assert encode_program(assemble(disassemble(program))) == encode_program(program)


@given(st.lists(instructions(), max_size=6))
def test_disassembly_is_stable(program: list[Instruction]) -> None:
    text = disassemble(program)
    assert disassemble(assemble(text)) == text
    assert len(text.splitlines()) == len(program)


@given(instructions(), instructions())
def test_different_instructions_have_different_bits(one: Instruction, other: Instruction) -> None:
    assert (encode(one) == encode(other)) == (one == other)


def test_fields_stand_most_significant_first() -> None:
    word = encode(Instruction(name="LD", operands={"memory_address": 0xABCD, "space": 1}, push_next=True))
    assert word >> 124 == 3
    assert word >> 120 & 15 == 0b0001
    assert word >> 60 & 0xFFFFFFFF == 0xABCD
    assert word >> 14 & 3 == 1


def test_operands_left_out_are_0() -> None:
    assert Instruction(name="LD", operands={"rows": 3})["row_beats"] == 0
    assert decode(encode(Instruction(name="LD", operands={"rows": 3})))["rows"] == 3


def test_assembler_takes_comments_blank_lines_and_other_bases() -> None:
    text = "# nothing\n\nLD rows=0x10 row_beats=2 space=parameters push_next @7  # a load\n"
    assert assemble(text) == (
        Instruction(
            name="LD", operands={"rows": 16, "row_beats": 2, "space": 1}, push_next=True, issue_cycle=7
        ),
    )  # fmt: skip


def test_disassembly_reads_as_text() -> None:
    program = [
        Instruction(name="CFG_WALK", operands={"x_step_bytes": 3, "padding": -7}),
        Instruction(name="LD", operands={"rows": 2, "row_beats": 1}, pop_next=True, issue_cycle=12),
        Instruction(name="HALT"),
    ]
    assert disassemble(program) == (
        "CFG_WALK  x_step_bytes=3 padding=-7 input_bits=8 weight_bits=8\n"
        "LD        rows=2 row_beats=1 space=scratchpad pop_next @12\n"
        "HALT\n"
    )


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            Instruction(name="XYZ"),
            "unknown instruction 'XYZ'; known are NOP, CFG_LD, LD, CFG_TILE, CFG_WALK, PRELOAD, COMPUTE, CFG_ALU, ALU, CFG_ST, ST, FENCE, ...",
        ),
        (Instruction(name="LOAD"), "unknown instruction 'LOAD'; did you mean 'PRELOAD'?"),
        (Instruction(name="PRELAOD"), "unknown instruction 'PRELAOD'; did you mean 'PRELOAD'?"),
        (Instruction(name="LD", operands={"row": 1}), "LD: unknown operand 'row'; did you mean 'rows'?"),
        (Instruction(name="NOP", operands={"rows": 1}), "NOP: unknown operand 'rows'"),
        (Instruction(name="LD", operands={"rows": 4096}), "LD: rows is 4096; it must be from 0 to 4095"),
        (Instruction(name="LD", operands={"rows": -1}), "LD: rows is -1; it must be from 0 to 4095"),
        (Instruction(name="LD", operands={"space": 3}), "LD: space is 3; it must be from 0 to 2"),
        (Instruction(name="ST", operands={"format": 3}), "ST: format is 3; it must be from 0 to 2"),
        (Instruction(name="COMPUTE", operands={"y": -4097}), "COMPUTE: y is -4097; it must be from -4096 to 4095"),
        (Instruction(name="NOP", issue_cycle=1 << 28), "NOP: issue_cycle is 268435456; it must be from 0 to 268435455"),
    ],
)
def test_encoder_says_what_has_no_bits(instruction: Instruction, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        encode(instruction)
    assert str(caught.value) == message


def test_operands_cannot_stand_in_for_the_header() -> None:
    with pytest.raises(CompileError, match="NOP: unknown operand 'opcode'"):
        encode(Instruction(name="NOP", operands={"opcode": 3}))


def test_encoder_of_programs_says_where() -> None:
    with pytest.raises(CompileError) as caught:
        encode_program([Instruction(name="NOP"), Instruction(name="LD", operands={"rows": 4096})])
    assert str(caught.value) == "instruction 1: LD: rows is 4096; it must be from 0 to 4095"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (0, "no instruction has opcode 0"),
        (14 << 124, "no instruction has opcode 14"),
        (encode(Instruction(name="HALT")) | 5, "HALT: bits that it does not use are set: 0x5"),
        (encode(Instruction(name="ST")) | 3 << FORMAT_AT, "ST: format is 3; it must be below 3"),
    ],
)
def test_decoder_says_what_is_no_instruction(word: int, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        decode(word, "word 3: ")
    assert str(caught.value) == f"word 3: {message}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("LAOD", "unknown instruction 'LAOD'; did you mean 'LD'?"),
        ("LD row=1", "LD: 'row=1' is not understood; did you mean 'rows'?"),
        ("LD rows", "LD: 'rows' is not understood; did you mean 'rows'?"),
        ("LD push_nxt", "LD: 'push_nxt' is not understood; did you mean 'push_next'?"),
        ("LD rows=1 rows=2", "LD: rows is given twice"),
        ("LD space=here", "LD: space is 'here'; it must be one of scratchpad, parameters, table"),
        ("LD rows=one", "rows is 'one'; it must be a whole number"),
        ("LD @soon", "issue cycle is 'soon'; it must be a whole number"),
        ("LD rows=4096", "LD: rows is 4096; it must be from 0 to 4095"),
    ],
)
def test_assembler_says_what_is_wrong(line: str, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        assemble(f"NOP\n{line}\n", "some.s")
    assert str(caught.value) == f"some.s:2: {message}"


def test_assembler_reports_all_lines() -> None:
    with pytest.raises(CompileError) as caught:
        assemble("LD rows=x\nNOP\nST rows=1\n")
    assert [line.split(":")[1] for line in str(caught.value).splitlines()] == ["1", "3"]


def test_unknown_fields_are_named() -> None:
    with pytest.raises(KeyError, match="LD has no field 'width'; it has memory_address, local_address, rows"):
        Instruction(name="LD")["width"]
    with pytest.raises(KeyError, match="NOP has no field 'width'; it has none"):
        Instruction(name="NOP")["width"]


# ---- The definition itself.


def definition(**changes: Any) -> dict[str, Any]:
    """A small instruction set."""
    return {
        "name": "small",
        "instruction_bits": 16,
        "header": [{"name": "opcode", "bits": 4, "description": "."}],
        "queues": [{"name": "only", "description": "."}],
        "instructions": [{"name": "A", "opcode": 1, "queue": "only", "description": ".", "fields": []}],
        **changes,
    }


def kind(**changes: Any) -> dict[str, Any]:
    """One kind of it."""
    return {"name": "A", "opcode": 1, "queue": "only", "description": ".", "fields": [], **changes}


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ([kind(queue="onyl")], "A: no queue is called 'onyl'"),
        ([kind(), kind(name="B")], "B: opcode 1 is too large or taken"),
        ([kind(opcode=16)], "A: opcode 16 is too large or taken"),
        ([kind(fields=[{"name": "x", "bits": 13, "description": "."}])], "A: needs 17 bits and there are 16"),
    ],
)
def test_definition_says_what_is_wrong(kinds: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        InstructionSet.model_validate(definition(instructions=kinds))


def test_small_definition_is_valid() -> None:
    isa = InstructionSet.model_validate(definition())
    assert isa.by_opcode[1] is isa.by_name["A"]
    assert isa.header_bits == 4


def test_ranges_follow_from_bits_signs_and_choices() -> None:
    compute, st_kind = ISA.by_name["COMPUTE"], ISA.by_name["ST"]
    assert (compute.field("y").least, compute.field("y").most) == (-4096, 4095)
    assert (compute.field("rows").least, compute.field("rows").most) == (0, 255)
    assert st_kind.field("format").most == 2


def test_every_field_has_its_own_bits() -> None:
    for some in ISA.instructions:
        places = ISA.layout(some)
        ends = [low + field.bits for field, low in places]
        assert ends[0] == ISA.instruction_bits
        assert [low for _, low in places[:-1]] == ends[1:]
