"""The Pareto figure: what the sweep reached, the front, its knee, and what could not be built."""

# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from .front import (
    DesignPoint,
    FrontPlot,
    Standing,
    design_label,
    panels,
    points_to_label,
    short_names,
    stair,
    varying_parameters,
)
from .labels import Label, Obstacles, place_labels
from .style import (
    BLUE,
    FAINT,
    INK,
    LEGEND_LINE_IN,
    ORANGE,
    PALE_BLUE,
    VERMILION,
    CsvTable,
    FigureFiles,
    Scale,
    axis_label,
    better_arrow,
    freeze_layout,
    house_style,
    legend_above,
    new_figure,
    save_figure,
    scale_for,
    set_log,
    wants_log,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

PANEL_SIZE_IN: Final = {1: (7.2, 4.6), 2: (5.0, 3.8), 3: (4.3, 3.6)}
RASTERIZE_FROM_POINTS: Final = 4000
_WITHOUT_ANSWER: Final = (Standing.INFEASIBLE, Standing.EXCLUDED, Standing.FAILED)
_WHICH: Final[tuple[Literal["x", "y"], ...]] = ("x", "y")
_NO_SCALE: Final = (Scale(divisor=1.0, unit=""), Scale(divisor=1.0, unit=""))
_ARROWS: Final = {
    (False, False): "\N{SOUTH WEST ARROW}",
    (True, False): "\N{SOUTH EAST ARROW}",
    (False, True): "\N{NORTH WEST ARROW}",
    (True, True): "\N{NORTH EAST ARROW}",
}
"""Towards better designs, by whether they lie to the right and above."""
_PANEL_LABELS: Final = {1: 8, 2: 5, 3: 4}


def plot_pareto(plot: FrontPlot, stem: Path) -> FigureFiles:
    """Draw a trade-off; with more than two objectives one panel per pair of them.

    Filled circles are the front in all objectives, the stair line is the front of the two shown, so
    that a filled circle above the line earns its place by an objective of another panel.

    Args:
        plot: What to draw.
        stem: Path of the files without suffix.

    Returns:
        PNG, SVG and CSV.
    """
    pairs = panels(len(plot.axes))
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    names = _label_names(plot)
    width, height = PANEL_SIZE_IN[columns]
    with house_style():
        legend_in = LEGEND_LINE_IN * (2 if names else 1)
        figure = new_figure(width * columns, height * rows, title=plot.title, caption=plot.caption, legend_in=legend_in)
        grid = figure.subplots(rows, columns, squeeze=False)
        cells: list[Axes] = list(grid.flat)
        for axes, pair in zip(cells, pairs, strict=False):
            _draw_panel(axes, plot, pair)
        for spare in cells[len(pairs) :]:
            spare.set_axis_off()
        legend_above(figure, _legend_entries(plot), note=f"labels: {', '.join(short_names(names))}" if names else "")
        freeze_layout(figure)
        for axes, pair in zip(cells, pairs, strict=False):
            _draw_labels(axes, plot, pair, limit=_PANEL_LABELS[columns])
        return save_figure(figure, stem, front_table(plot))


def front_table(plot: FrontPlot) -> CsvTable:
    """All points of a trade-off in internal units, in their own order."""
    names = tuple(dict.fromkeys(name for point in plot.points for name, _ in point.parameters))
    columns = ("id", "standing", "is_knee", *names, *(axis.name for axis in plot.axes), "reason")
    rows = tuple(
        (
            point.id,
            point.standing.value,
            int(index == plot.knee),
            *(dict(point.parameters).get(name, "") for name in names),
            *point.values,
            point.reason,
        )
        for index, point in enumerate(plot.points)
    )
    return CsvTable(columns=columns, rows=rows)


def _draw_panel(axes: Axes, plot: FrontPlot, pair: tuple[int, int]) -> None:
    usable = plot.indices(Standing.FRONT, Standing.DOMINATED)
    scales: list[Scale] = []
    for axis_index, which in zip(pair, _WHICH, strict=True):
        objective = plot.axes[axis_index]
        shown = plot.column(axis_index, usable)
        scale = scale_for(objective.unit, shown)
        is_log = wants_log(shown)
        if is_log:
            set_log(axes, which, [v / scale.divisor for v in shown])
        label = axis_label(objective.quantity, scale.unit, is_log=is_log)
        axes.set_xlabel(label) if which == "x" else axes.set_ylabel(label)
        scales.append(scale)
    _draw_points(axes, plot, pair, scales)
    axes.margins(0.09)
    axes.autoscale_view()
    _draw_stair(axes, plot, pair, scales)
    right, up = (plot.axes[axis].is_larger_better for axis in pair)
    better_arrow(axes, _ARROWS[right, up])


def _draw_points(axes: Axes, plot: FrontPlot, pair: tuple[int, int], scales: Sequence[Scale]) -> None:
    def scatter(indices: Sequence[int], **look: Any) -> None:
        axes.scatter(*_transposed(_coordinates(plot, indices, pair, scales)), **look)

    dominated = plot.indices(Standing.DOMINATED)
    is_crowded = len(dominated) > RASTERIZE_FROM_POINTS
    scatter(dominated, s=16, facecolors="none", edgecolors=FAINT, linewidths=0.8, zorder=2, rasterized=is_crowded)
    scatter(plot.indices(*_WITHOUT_ANSWER), s=20, marker="x", color=VERMILION, linewidths=0.9, zorder=2.5)
    front = [i for i in plot.indices(Standing.FRONT) if i != plot.knee]
    on_line = _on_line(plot, pair)
    others = [i for i in front if i not in on_line]
    scatter(others, s=26, facecolors=PALE_BLUE, edgecolors=BLUE, linewidths=0.8, zorder=3.5)
    scatter([i for i in front if i in on_line], s=30, color=BLUE, linewidths=0, zorder=4)
    if plot.knee is not None:
        scatter([plot.knee], s=80, marker="D", color=ORANGE, edgecolors=INK, linewidths=1.1, zorder=5)


def _on_line(plot: FrontPlot, pair: tuple[int, int]) -> set[int]:
    """Front points that are on the front of these two objectives alone as well."""
    corners = set(_corners(plot, pair, _NO_SCALE))
    return {i for i in plot.indices(Standing.FRONT) if set(_coordinates(plot, [i], pair, _NO_SCALE)) <= corners}


def _corners(plot: FrontPlot, pair: tuple[int, int], scales: Sequence[Scale]) -> list[tuple[float, float]]:
    """Corners of the stair line of two objectives."""
    x_sign, y_sign = (plot.axes[axis].sign for axis in pair)
    front = _coordinates(plot, plot.indices(Standing.FRONT), pair, scales)
    return [(x_sign * x, y_sign * y) for x, y in stair([(x_sign * x, y_sign * y) for x, y in front])]


def _draw_stair(axes: Axes, plot: FrontPlot, pair: tuple[int, int], scales: Sequence[Scale]) -> None:
    x_limits, y_limits = axes.get_xlim(), axes.get_ylim()
    axes.plot(*_transposed(_front_line(axes, plot, pair, scales)), color=BLUE, linewidth=1.3, zorder=3)
    axes.set_xlim(x_limits)
    axes.set_ylim(y_limits)


def _front_line(
    axes: Axes, plot: FrontPlot, pair: tuple[int, int], scales: Sequence[Scale]
) -> list[tuple[float, float]]:
    """The stair line with its two ends at the frame."""
    corners = _corners(plot, pair, scales)
    if not corners:
        return []
    # From the worst y above the best x to the worst x beside the best y; limits are sorted.
    worst_x, worst_y = (
        limits[0 if plot.axes[axis].is_larger_better else 1]
        for axis, limits in zip(pair, (axes.get_xlim(), axes.get_ylim()), strict=True)
    )
    return [(corners[0][0], worst_y), *corners, (worst_x, corners[-1][1])]


def _draw_labels(axes: Axes, plot: FrontPlot, pair: tuple[int, int], *, limit: int) -> None:
    scales = [
        scale_for(plot.axes[a].unit, plot.column(a, plot.indices(Standing.FRONT, Standing.DOMINATED))) for a in pair
    ]
    names = _label_names(plot)
    labels: list[Label] = []
    for index in points_to_label(plot, limit):
        (xy,) = _coordinates(plot, [index], pair, scales)
        text = design_label(plot.points[index], names)
        is_knee = index == plot.knee
        labels.append(Label(x=xy[0], y=xy[1], text=f"knee: {text}" if is_knee else text, is_bold=is_knee))
    front = _coordinates(plot, plot.indices(Standing.FRONT), pair, scales)
    dominated = _coordinates(plot, plot.indices(Standing.DOMINATED), pair, scales)
    obstacles = Obstacles(markers=front, faint_markers=dominated, line=_front_line(axes, plot, pair, scales))
    place_labels(axes, [label for label in labels if label.text], obstacles)


def _legend_entries(plot: FrontPlot) -> list[Line2D]:
    from matplotlib.lines import Line2D

    def entry(label: str, marker: str, color: str, edge: str, size: float, line: str = "none") -> Line2D:
        look: dict[str, Any] = {"marker": marker, "color": color, "markeredgecolor": edge, "linestyle": line}
        return Line2D([], [], label=label, markersize=size, linewidth=1.3, **look)

    num = {standing: len(plot.indices(standing)) for standing in Standing}
    entries = [entry(f"Pareto front ({num[Standing.FRONT]})", "o", BLUE, BLUE, 5, "-")]
    if any(len(_on_line(plot, pair)) < num[Standing.FRONT] for pair in panels(len(plot.axes))):
        entries.append(entry("on the front through another objective", "o", PALE_BLUE, BLUE, 5))
    if plot.knee is not None:
        entries.append(entry("knee", "D", ORANGE, INK, 7))
    if num[Standing.DOMINATED]:
        entries.append(entry(f"dominated ({num[Standing.DOMINATED]})", "o", "none", FAINT, 4.5))
    if without := sum(num[standing] for standing in _WITHOUT_ANSWER):
        words = ", ".join(f"{standing.value} ({num[standing]})" for standing in _WITHOUT_ANSWER if num[standing])
        hidden = without - len(_coordinates(plot, plot.indices(*_WITHOUT_ANSWER), (0, 1), _NO_SCALE))
        note = "" if not hidden else "; no values" if hidden == without else f"; {hidden} without values"
        entries.append(entry(words + note, "x", VERMILION, VERMILION, 5))
    return entries


def _label_names(plot: FrontPlot) -> tuple[str, ...]:
    """Parameters that tell the named designs apart; no more than fit beside a marker."""
    front: list[DesignPoint] = [plot.points[i] for i in plot.indices(Standing.FRONT)]
    return varying_parameters(front)[:4]


def _coordinates(
    plot: FrontPlot, indices: Sequence[int], pair: tuple[int, int], scales: Sequence[Scale]
) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for index in indices:
        x, y = (plot.points[index].values[axis] for axis in pair)
        if x is not None and y is not None and math.isfinite(x) and math.isfinite(y):
            found.append((x / scales[0].divisor, y / scales[1].divisor))
    return found


def _transposed(xy: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in xy], [y for _, y in xy]
