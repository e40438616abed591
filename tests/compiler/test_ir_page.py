"""docs/ir.md shows what a small network becomes at every level."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tileloom.compiler.compilation import DumpOptions, compile_network
from tileloom.compiler.generators.builder import GraphBuilder
from tileloom.compiler.generators.layers import dense
from tileloom.compiler.generators.quantisation import Scale
from tileloom.compiler.ir.text import print_module

from .compiled import arch_of

PAGE = Path(__file__).parents[2] / "docs" / "ir.md"
LEVELS = {
    "graph": "quantise-intermediates", "qnn": "check-host-ops", "tile": "convert-qnn-to-tile", "pe": "convert-tile-to-pe"
}  # fmt: skip
"""The last pass of each level."""


def level_text(level: str) -> str:
    """A matrix product of [4, 16] and [16, 8] at a level, as the page shows it."""
    builder = GraphBuilder(0, name="tiny")
    source = builder.add_input((4, 16), Scale(scale=0.5, zero_point=3))
    model = builder.finish([dense(builder, source, 8, has_relu=True)])
    found = compile_network(model, arch_of("8x8"), dumps=DumpOptions(stop_after=LEVELS[level]))
    text = re.sub(r'"([0-9a-f]{4})[0-9a-f]{60}"', r'"\1..."', print_module(found.module))
    text = re.sub(r" loc\((fused\[.*?\]|\".*?\")\)$", "", text, flags=re.MULTILINE)
    text = re.sub(r"((?:operand|result)_segment_sizes = array<i32: 1, 0)(, 0)+>", r"\1, ...>", text)
    return re.sub(r", nodes = \[.*?\]", "", text)


@pytest.mark.parametrize("level", LEVELS)
def test_the_page_shows_what_is_printed(level: str) -> None:
    text = level_text(level)
    assert f"```text\n{text}```\n" in PAGE.read_text(encoding="utf-8"), f"show this in {PAGE}:\n{text}"
