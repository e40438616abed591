"""docs/ir_reference.md is what the dialects' definitions say."""

from __future__ import annotations

from pathlib import Path

from tileloom.compiler.ir.reference import ir_markdown
from tileloom.compiler.ir.registry import OWN_DIALECTS, context

REFERENCE = Path(__file__).parents[3] / "docs" / "ir_reference.md"


def test_committed_reference_is_current() -> None:
    assert ir_markdown() == REFERENCE.read_text(encoding="utf-8"), (
        "write what tileloom.compiler.ir.reference.ir_markdown() returns to docs/ir_reference.md"
    )


def test_every_op_has_a_row_and_a_meaning() -> None:
    rows = [line for line in ir_markdown().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(list(dialect.operations)) for dialect in OWN_DIALECTS)
    assert all(row.rsplit("|", 2)[1].strip() for row in rows)


def test_every_dialect_can_be_parsed() -> None:
    known = {dialect.name for dialect in context().loaded_dialects}
    assert {dialect.name for dialect in OWN_DIALECTS} < known
