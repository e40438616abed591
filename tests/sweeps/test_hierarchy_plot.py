"""The drawing of a hierarchy: complete, legible, deterministic."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.text import Text

from tileloom.archdsl import SpatialArch, list_presets, load_arch
from tileloom.sweeps.plots.blocks import blocks_table, rows_of
from tileloom.sweeps.plots.hierarchy import draw_hierarchy, plot_hierarchy
from tileloom.sweeps.plots.style import house_style


def _texts(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(lambda artist: isinstance(artist, Text)) if isinstance(text, Text)]


@pytest.mark.parametrize("name", list_presets())
def test_no_text_covers_another_or_leaves_the_figure(name: str) -> None:
    arch = load_arch(name)
    with house_style():
        figure = draw_hierarchy(arch, rows_of(arch), "0")
        figure.draw_without_rendering()
        texts = [t for t in _texts(figure) if t.get_text()]
        boxes = [(t.get_text(), t.get_window_extent()) for t in texts]
    assert len(boxes) > 10
    for (one, a), (two, b) in combinations(boxes, 2):
        assert not a.overlaps(b), f"{one!r} covers {two!r}"
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text


@pytest.mark.parametrize("name", list_presets())
def test_text_stays_inside_its_block(name: str) -> None:
    arch = load_arch(name)
    with house_style():
        figure = draw_hierarchy(arch, rows_of(arch), "0")
        figure.draw_without_rendering()
        outlines = [patch for patch in figure.axes[0].patches if isinstance(patch, Polygon)]
        for text in _texts(figure):
            box = text.get_window_extent()
            middle = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
            around = [outline for outline in outlines if outline.contains_point(middle)]
            for corner in box.corners().tolist():
                # Stacked outlines shift to the lower right: one that holds the middle holds the rest.
                assert not around or any(outline.contains_point(corner) for outline in around), text.get_text()


@pytest.mark.parametrize("name", list_presets())
def test_every_node_is_drawn_in_order(name: str) -> None:
    arch = load_arch(name)
    names = [block.name for row in rows_of(arch) for block in row]
    if isinstance(arch, SpatialArch):
        assert names == [node.name for node in arch.hierarchy]
    else:
        assert names[0] == "main_memory"
        assert "tensor_cores" in names


def test_parallel_memories_stand_side_by_side() -> None:
    rows = [[block.name for block in row] for row in rows_of(load_arch("eyeriss_v1"))]
    assert rows == [
        ["main_memory"],
        ["scratchpad", "filter_scratchpad"],
        ["pe_array"],
        ["input_register_file", "pe_weight_scratchpad", "output_register_file"],
        ["mac"],
    ]


def test_table_holds_base_units_and_leaves_unbounded_empty() -> None:
    table = blocks_table(rows_of(load_arch("ref16")))
    records = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert records[0]["capacity_bytes"] is None
    assert (records[1]["capacity_bytes"], records[1]["read_bytes_per_cycle"]) == (256 * 1024, 64)
    assert (records[3]["instances"], records[3]["read_bytes_per_cycle"]) == (256, None)


def test_the_same_architecture_gives_the_same_bytes(tmp_path: Path) -> None:
    arch = load_arch("simba_chiplet")
    one = plot_hierarchy(arch, tmp_path / "one", version="0")
    two = plot_hierarchy(arch, tmp_path / "two", version="0")
    for left, right in ((one.png, two.png), (one.svg, two.svg), (one.csv, two.csv)):
        assert left.read_bytes() == right.read_bytes()
