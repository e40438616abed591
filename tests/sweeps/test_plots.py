"""Figures: what they say, that their files repeat byte for byte, and that labels keep apart."""

from __future__ import annotations

import csv
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.figure import Figure
from matplotlib.text import Text

from tileloom.sweeps.plots.breakdown import (
    Breakdown,
    OpCost,
    breakdown_table,
    merge_groups,
    merge_small,
    plot_breakdown,
)
from tileloom.sweeps.plots.front import (
    DesignPoint,
    FrontPlot,
    PlotAxis,
    Standing,
    panels,
    points_to_label,
    short_names,
    stair,
    varying_parameters,
)
from tileloom.sweeps.plots.labels import Label, Obstacles, place_labels
from tileloom.sweeps.plots.pareto import plot_pareto
from tileloom.sweeps.plots.roofline import MainMemory, Roofline, RooflineOp, plot_roofline, roofline_rows
from tileloom.sweeps.plots.style import (
    ORDERED,
    Caption,
    FigureFiles,
    axis_label,
    house_style,
    quantity_text,
    scale_for,
    wants_log,
    without_common_start,
)

AXES = (
    PlotAxis(name="latency_s", quantity="Latency", unit="s", word="latency"),
    PlotAxis(name="energy_pj", quantity="Energy", unit="pJ", word="energy"),
    PlotAxis(name="area_mm2", quantity="Area", unit="mm^2", word="area"),
)
CAPTION = Caption(workload="resnet50", commit="abc1234", num_points=12)


def make_front(num_axes: int = 2, num_front: int = 20) -> FrontPlot:
    """A convex front with a dominated point behind each of its points and two infeasible ones."""
    points: list[DesignPoint] = []
    for i in range(num_front):
        values = (1e-3 * (i + 1), 1e9 / (i + 1), 2.0 + i % 3)[:num_axes]
        parameters = (("parameters.rows", str(2**i)), ("hierarchy.scratchpad.capacity", "64 KiB"))
        points.append(DesignPoint(id=f"f{i}", standing=Standing.FRONT, values=values, parameters=parameters))
        worse = tuple(2 * v for v in values)
        points.append(DesignPoint(id=f"d{i}", standing=Standing.DOMINATED, values=worse, parameters=parameters))
    nothing = (None,) * num_axes
    points.append(DesignPoint(id="x0", standing=Standing.INFEASIBLE, values=nothing, parameters=(), reason="too small"))
    points.append(DesignPoint(id="x1", standing=Standing.FAILED, values=nothing, parameters=(), reason="broke"))
    return FrontPlot(title="What does speed cost?", axes=AXES[:num_axes], points=tuple(points), knee=6, caption=CAPTION)


def make_roofline(*, is_shared: bool = False, bandwidth: float = 16e9) -> Roofline:
    ops = (
        RooflineOp(
            name="stem", count=1, num_ops=2000, read_bytes=100, write_bytes=100, latency_s=1e-8, peak_ops_per_s=512e9
        ),
        RooflineOp(
            name="fc", count=2, num_ops=2000, read_bytes=1000, write_bytes=10, latency_s=1e-7, peak_ops_per_s=512e9
        ),
        RooflineOp(
            name="relu", count=1, num_ops=0, read_bytes=100, write_bytes=100, latency_s=1e-8, peak_ops_per_s=512e9
        ),
    )
    memory = MainMemory(read_bytes_per_s=bandwidth, write_bytes_per_s=bandwidth, is_shared=is_shared)
    return Roofline(title="What holds it back?", ops=ops, memory=memory, caption=CAPTION)


def make_breakdown(num_ops: int) -> Breakdown:
    rng = random.Random(num_ops)
    ops = tuple(
        OpCost(
            name=f"net_conv{i}",
            count=1 + i % 2,
            energy_pj=(("main_memory", 1e6 * rng.random()), ("mac", 1e6 * rng.random())),
            latency_s=1e-3 * rng.random(),
            bottleneck="mac" if i % 3 else "main_memory",
        )
        for i in range(num_ops)
    )
    return Breakdown(title="Where does energy go?", ops=ops, caption=CAPTION)


def assert_files(files: FigureFiles) -> None:
    assert files.png.read_bytes().startswith(b"\x89PNG")
    assert files.svg.read_text(encoding="utf-8").rstrip().endswith("</svg>")
    assert files.csv.read_text(encoding="utf-8").count("\n") > 1


@pytest.fixture(scope="module")
def front_files(tmp_path_factory: pytest.TempPathFactory) -> FigureFiles:
    """A figure, drawn once; the dot in its name must not cost it its end."""
    return plot_pareto(make_front(), tmp_path_factory.mktemp("front") / "v1.5")


def test_pareto_figure_repeats_byte_for_byte(front_files: FigureFiles, tmp_path: Path) -> None:
    again = plot_pareto(make_front(), tmp_path / "front")
    assert_files(front_files)
    assert front_files.png.read_bytes() == again.png.read_bytes()
    assert front_files.svg.read_bytes() == again.svg.read_bytes()
    assert front_files.csv.read_bytes() == again.csv.read_bytes()


def test_three_objectives_are_drawn(tmp_path: Path) -> None:
    assert_files(plot_pareto(make_front(num_axes=3, num_front=6), tmp_path / "front"))


def test_svg_holds_no_date(front_files: FigureFiles) -> None:
    text = front_files.svg.read_text(encoding="utf-8")
    assert "<dc:date>" not in text
    assert not re.search(r"20\d\d-\d\d-\d\d", text)


def test_figure_name_with_a_dot_keeps_it(front_files: FigureFiles) -> None:
    assert front_files.png.name == "v1.5.png"


def test_pareto_csv_lists_every_point_in_internal_units(front_files: FigureFiles) -> None:
    plot = make_front()
    rows = list(csv.DictReader(front_files.csv.open(encoding="utf-8")))
    assert [row["id"] for row in rows] == [point.id for point in plot.points]
    assert [row["id"] for row in rows if row["is_knee"] == "1"] == [plot.points[6].id]
    assert float(rows[2]["latency_s"]) == 2e-3
    assert rows[-2]["latency_s"] == ""
    assert rows[-2]["reason"] == "too small"


def test_pareto_figure_without_a_front_is_still_drawn(tmp_path: Path) -> None:
    lost = DesignPoint(id="x", standing=Standing.INFEASIBLE, values=(None, None), parameters=())
    plot = FrontPlot(title="Nothing fits", axes=AXES[:2], points=(lost,), knee=None, caption=CAPTION)
    assert_files(plot_pareto(plot, tmp_path / "front"))


def test_front_point_without_a_value_is_refused() -> None:
    bad = DesignPoint(id="p", standing=Standing.FRONT, values=(1.0, None), parameters=())
    with pytest.raises(ValueError, match="point p is front but lacks a value"):
        FrontPlot(title="", axes=AXES[:2], points=(bad,), knee=None, caption=CAPTION)


def test_one_objective_is_no_trade_off() -> None:
    with pytest.raises(ValueError, match="at least two objectives, got 1"):
        FrontPlot(title="", axes=AXES[:1], points=(), knee=None, caption=CAPTION)


def test_every_pair_of_up_to_four_objectives_gets_a_panel() -> None:
    assert panels(2) == ((0, 1),)
    assert len(panels(4)) == 6
    assert panels(5) == ((0, 1), (0, 2), (0, 3), (0, 4))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_stair_has_a_corner_at_exactly_the_undominated_points(xy: list[tuple[int, int]]) -> None:
    corners = stair(xy)
    undominated = {p for p in xy if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in xy)}
    assert set(corners[::2]) == undominated
    for (x0, y0), (x1, y1) in pairwise(corners):
        assert (y0 == y1 and x1 > x0) or (x0 == x1 and y1 < y0)


def test_labels_name_knee_and_best_of_each_objective_first() -> None:
    plot = make_front()
    named = points_to_label(plot)
    assert named[0] == 6
    assert {plot.points[i].id for i in named[1:3]} == {"f0", "f19"}
    assert len(named) == 8
    assert all(plot.points[i].standing is Standing.FRONT for i in named)


def test_coinciding_designs_are_named_once() -> None:
    same = tuple(DesignPoint(id=str(i), standing=Standing.FRONT, values=(1.0, 1.0), parameters=()) for i in range(5))
    plot = FrontPlot(title="", axes=AXES[:2], points=same, knee=0, caption=CAPTION)
    assert points_to_label(plot) == (0,)


def test_only_parameters_that_vary_are_named() -> None:
    assert varying_parameters(make_front().points) == ("parameters.rows",)


def test_short_names_stay_apart() -> None:
    names = ("hierarchy.scratchpad.capacity", "hierarchy.register.capacity", "clock")
    assert short_names(names) == ("scratchpad.capacity", "register.capacity", "clock")


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=12), st.integers(1, 30))
def test_labels_never_overlap_or_leave_the_frame(xy: list[tuple[float, float]], length: int) -> None:
    with house_style():
        figure = Figure(figsize=(5, 4))
        axes = figure.subplots()
        axes.set(xlim=(-0.1, 1.1), ylim=(-0.1, 1.1))
        figure.draw_without_rendering()
        num = place_labels(axes, [Label(x=x, y=y, text="w" * length) for x, y in xy], Obstacles(markers=xy))
        boxes = [Text.get_window_extent(text) for text in annotations_of(axes.texts)]
        frame = axes.get_window_extent()
    assert len(boxes) == num
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))
    for box in boxes:
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 and box.y1 <= frame.y1


def annotations_of(texts: Sequence[Text]) -> list[Text]:
    for text in texts:
        text.get_window_extent()  # puts an annotation's words in their place
    return list(texts)


def test_units_suit_the_middle_of_the_values() -> None:
    assert scale_for("pJ", [2e8, 3e8, 9e9]).unit == "uJ"
    assert scale_for("bytes", [3 * 2**20]).unit == "MiB"
    assert scale_for("s", []).unit == "s"
    assert quantity_text(205_835_500.0, "pJ") == "206 uJ"
    assert quantity_text(1234567.0, "cycles") == "1.23 million cycles"


def test_log_scale_is_for_wide_positive_values_and_is_named() -> None:
    assert wants_log([1, 10])
    assert not wants_log([1, 5])
    assert not wants_log([0, 100])
    assert axis_label("Energy", "uJ", is_log=True) == "Energy [uJ], log scale"


def test_ordered_colours_get_lighter_step_by_step_in_grey() -> None:
    def lightness(color: str) -> float:
        red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    greys = [lightness(color) for color in ORDERED]
    assert all(b - a > 0.1 for a, b in pairwise(greys))


def test_common_start_of_names_is_cut_at_a_separator() -> None:
    assert without_common_start(["net_stage1_conv", "net_stage2_conv"]) == ("stage1_conv", "stage2_conv")
    assert without_common_start(["only_one"]) == ("only_one",)


def test_roofline_bound_follows_each_ops_own_mix_of_reads_and_writes() -> None:
    stem, fc = roofline_rows(make_roofline())
    assert stem.intensity_ops_per_byte == 10
    assert stem.bound_ops_per_s == pytest.approx(2000 / (100 / 16e9))
    assert stem.limit == "main memory"
    assert fc.bound_ops_per_s == pytest.approx(2000 / (1000 / 16e9))
    shared, _ = roofline_rows(make_roofline(is_shared=True))
    assert shared.bound_ops_per_s == pytest.approx(2000 / (200 / 16e9))


def test_roofline_shares_count_repeats_and_ops_without_a_place() -> None:
    stem, fc = roofline_rows(make_roofline())
    assert stem.time_share == pytest.approx(1e-8 / 2.2e-7)
    assert fc.time_share == pytest.approx(2e-7 / 2.2e-7)


def test_unbounded_memory_leaves_compute_as_the_only_limit(tmp_path: Path) -> None:
    roofline = make_roofline(bandwidth=math.inf)
    assert {row.limit for row in roofline_rows(roofline)} == {"compute"}
    assert_files(plot_roofline(roofline, tmp_path / "roofline"))


def test_roofline_figure_repeats_byte_for_byte(tmp_path: Path) -> None:
    first = plot_roofline(make_roofline(), tmp_path / "a")
    again = plot_roofline(make_roofline(), tmp_path / "b")
    assert first.png.read_bytes() == again.png.read_bytes()
    assert first.svg.read_bytes() == again.svg.read_bytes()
    rows = list(csv.DictReader(first.csv.open(encoding="utf-8")))
    assert [row["op"] for row in rows] == ["stem", "fc"]
    assert float(rows[0]["arithmetic_intensity_ops_per_byte"]) == 10


def test_roofline_without_any_mac_op_is_refused(tmp_path: Path) -> None:
    roofline = make_roofline()
    vectors_only = Roofline(title="", ops=roofline.ops[2:], memory=roofline.memory, caption=CAPTION)
    with pytest.raises(ValueError, match="needs an op with MACs"):
        plot_roofline(vectors_only, tmp_path / "roofline")


@given(st.integers(1, 60), st.integers(2, 24))
def test_merging_small_ops_keeps_the_sums(num_ops: int, limit: int) -> None:
    ops = make_breakdown(num_ops).ops
    rows = merge_small(ops, limit)
    assert len(rows) == min(num_ops, limit)
    assert math.fsum(r.total_pj for r in rows) == pytest.approx(math.fsum(op.total_pj for op in ops))
    assert math.fsum(r.latency_s for r in rows) == pytest.approx(math.fsum(op.latency_s for op in ops))
    assert sum(r.count for r in rows) == sum(op.count for op in ops)


def test_ops_of_a_group_share_a_row_where_the_first_stands() -> None:
    ops = [replace(op, group="relu" if i in (1, 3) else "") for i, op in enumerate(make_breakdown(5).ops)]
    rows = merge_groups(ops)
    assert [row.name for row in rows] == ["net_conv0", "relu, 2 shapes", "net_conv2", "net_conv4"]
    assert rows[1].total_pj == pytest.approx(ops[1].total_pj + ops[3].total_pj)
    assert rows[1].count == ops[1].count + ops[3].count


def test_breakdown_csv_keeps_every_op_and_its_parts(tmp_path: Path) -> None:
    breakdown = make_breakdown(40)
    files = plot_breakdown(breakdown, tmp_path / "breakdown")
    assert_files(files)
    rows = list(csv.DictReader(files.csv.open(encoding="utf-8")))
    assert len(rows) == 40
    for row in rows:
        parts = float(row["main_memory_energy_pj"]) + float(row["mac_energy_pj"])
        assert parts == pytest.approx(float(row["energy_pj"]))
    assert breakdown_table(breakdown).text() == files.csv.read_text(encoding="utf-8")


def test_caption_says_workload_points_and_commit() -> None:
    assert str(CAPTION) == "resnet50; 12 design points; tileloom abc1234"
    assert "1 op;" in str(Caption(workload="w", commit="c", num_points=1, points="ops"))
