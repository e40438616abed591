"""docs/arch_reference.md is what the field descriptions say."""

from __future__ import annotations

import re
from pathlib import Path

from tileloom.archdsl import DATATYPE_BITS, GpuArch, SpatialArch, System, field_names, reference_markdown

REFERENCE = Path(__file__).parents[2] / "docs" / "arch_reference.md"


def test_committed_reference_is_current() -> None:
    assert reference_markdown() == REFERENCE.read_text(encoding="utf-8"), (
        "run: tileloom arch schema --markdown -o docs/arch_reference.md"
    )


def test_every_field_has_a_row_with_a_meaning() -> None:
    rows = [line for line in reference_markdown().splitlines() if line.startswith("| `")]
    assert all(len(row.split(" | ")) == 4 for row in rows if not row.startswith(("| `extends`", "| `par", "| `over")))
    assert not [row for row in rows if row.endswith("|  |")]
    for model in (SpatialArch, GpuArch, System):
        assert all(any(row.startswith(f"| `{name}` |") for row in rows) for name in field_names(model))


def test_every_link_leads_to_a_heading() -> None:
    text = reference_markdown()
    headings = {line.lstrip("# ").lower().replace(" ", "-") for line in text.splitlines() if line.startswith("#")}
    links = re.findall(r"\]\(#([^)]+)\)", text)
    assert len(links) > 20
    assert set(links) <= headings


def test_defaults_are_written_as_in_yaml() -> None:
    text = reference_markdown()
    assert "| `min_transfer` | quantity, e.g. `64 KiB` | `1 B` |" in text
    assert "| `double_buffered` | `true`, `false` | `false` |" in text
    assert "| `keeps` | list of `input`, `weight`, `output` | `[input, weight, output]` |" in text
    assert "| `clock` | quantity, e.g. `1 GHz` |  |" in text


def test_every_datatype_is_named() -> None:
    line = next(line for line in reference_markdown().splitlines() if "Datatypes:" in line)
    assert re.findall(r"`(\w+)`", line.split("Datatypes:")[1]) == list(DATATYPE_BITS)
