"""docs/isa_reference.md is what the instruction set's file says."""

from __future__ import annotations

from pathlib import Path

from tileloom.archdsl import isa_markdown, tensor_pe_array_isa

REFERENCE = Path(__file__).parents[2] / "docs" / "isa_reference.md"


def test_committed_reference_is_current() -> None:
    assert isa_markdown() == REFERENCE.read_text(encoding="utf-8"), (
        "write what tileloom.archdsl.isa_markdown() returns to docs/isa_reference.md"
    )


def test_every_instruction_fits_and_has_a_section() -> None:
    isa = tensor_pe_array_isa()
    assert len({kind.opcode for kind in isa.instructions}) == len(isa.instructions)
    for kind in isa.instructions:
        assert isa.layout(kind)[-1][1] >= 0
        assert f"## {kind.name}\n" in isa_markdown()
