"""The serving figure: tokens per second that a user sees against those that a chip yields."""

# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from .labels import Label, Obstacles, place_labels
from .style import (
    BLUE,
    FAINT,
    INK,
    LEGEND_LINE_IN,
    ORANGE,
    Caption,
    CsvTable,
    FigureFiles,
    axis_label,
    better_arrow,
    freeze_layout,
    house_style,
    legend_above,
    new_figure,
    save_figure,
    set_log,
    wants_log,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

SIZE_IN: Final = (6.4, 4.2)
MAX_LABELS: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingPoint:
    """One layout at one concurrency.

    Attributes:
        label: Layout and users.
        tokens_per_s_per_user: What a user sees.
        tokens_per_s_per_chip: What a chip yields.
        is_front: Whether no other point is better in both.
        holds: Whether it is within the limits.
        is_plan: Whether the plan uses it.
    """

    label: str
    tokens_per_s_per_user: float
    tokens_per_s_per_chip: float
    is_front: bool
    holds: bool
    is_plan: bool

    @property
    def place(self) -> tuple[float, float]:
        """Where it is drawn."""
        return self.tokens_per_s_per_user, self.tokens_per_s_per_chip


def plot_serving(points: Sequence[ServingPoint], title: str, caption: Caption, stem: Path) -> FigureFiles:
    """Draw the trade-off: the front filled with its stair line, what holds the limits as circles, the rest as crosses.

    Args:
        points: Everything that fits in memory.
        title: Claim or question.
        caption: For the foot of the figure.
        stem: Path of the files without suffix.
    """
    with house_style():
        figure = new_figure(*SIZE_IN, title=title, caption=caption, legend_in=LEGEND_LINE_IN)
        axes: Axes = figure.subplots()
        users = [point.tokens_per_s_per_user for point in points]
        chips = [point.tokens_per_s_per_chip for point in points]
        for which, values in (("x", users), ("y", chips)):
            if wants_log(values):
                set_log(axes, "x" if which == "x" else "y", values)
        axes.set_xlabel(axis_label("Output tokens per user", "1/s", is_log=wants_log(users)))
        axes.set_ylabel(axis_label("Output tokens per chip", "1/s", is_log=wants_log(chips)))
        line = _draw(axes, points)
        better_arrow(axes, "\N{NORTH EAST ARROW}")
        legend_above(figure, _legend(points))
        freeze_layout(figure)
        labels = [
            Label(x=point.place[0], y=point.place[1], text=point.label, is_bold=point.is_plan)
            for point in _labelled(points)
        ]
        front = [point.place for point in points if point.is_front]
        others = [point.place for point in points if not point.is_front]
        place_labels(axes, labels, Obstacles(markers=front, faint_markers=others, line=line))
        return save_figure(figure, stem, _csv(points))


def _draw(axes: Axes, points: Sequence[ServingPoint]) -> list[tuple[float, float]]:
    """Markers and the stair line, whose corners are returned."""
    hollow = [point.place for point in points if not point.is_front and point.holds]
    crossed = [point.place for point in points if not point.is_front and not point.holds]
    front = [point for point in points if point.is_front]
    for places, marker in ((hollow, "o"), (crossed, "x")):
        if places:
            x, y = zip(*places, strict=True)
            face = {"facecolors": "none", "edgecolors": FAINT} if marker == "o" else {"color": FAINT}
            axes.scatter(x, y, s=14, marker=marker, linewidths=0.8, zorder=2, **face)  # pyright: ignore[reportArgumentType]  the colours' names differ by marker
    for holds in (True, False):
        places = [point.place for point in front if point.holds == holds]
        if places:
            x, y = zip(*places, strict=True)
            axes.scatter(x, y, s=30, color=BLUE if holds else "white", edgecolors=BLUE, linewidths=1.0, zorder=4)
    plan = [point.place for point in points if point.is_plan]
    if plan:
        axes.scatter(*plan[0], s=80, marker="D", color=ORANGE, edgecolors=INK, linewidths=1.1, zorder=5)
    corners = sorted(point.place for point in front)
    line: list[tuple[float, float]] = []
    for (x, y), (_, y_next) in zip(corners, [*corners[1:], corners[-1]], strict=True) if corners else ():
        line += [(x, y), (x, y_next)]
    if line:
        x, y = zip(*line, strict=True)
        axes.plot(x, y, color=BLUE, linewidth=1.3, zorder=3)
    axes.margins(0.09)
    return line


def _labelled(points: Sequence[ServingPoint]) -> list[ServingPoint]:
    """The plan, the ends of the front and some between."""
    front = sorted((point for point in points if point.is_front and not point.is_plan), key=lambda point: point.place)
    step = max(1, -(-len(front) // (MAX_LABELS - 1)))
    chosen = front[::step]
    if front and front[-1] not in chosen:
        chosen.append(front[-1])
    return [*(point for point in points if point.is_plan), *chosen][: MAX_LABELS + 1]


def _legend(points: Sequence[ServingPoint]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    def entry(label: str, marker: str, face: str, edge: str, line: Literal["none", "-"] = "none") -> Line2D:
        return Line2D(
            [], [], label=label, marker=marker, color=BLUE, markerfacecolor=face, markeredgecolor=edge, linestyle=line
        )

    entries = [entry("Pareto front, within the limits", "o", BLUE, BLUE, "-")]
    if any(point.is_front and not point.holds for point in points):
        entries.append(entry("outside", "o", "white", BLUE))
    if any(point.is_plan for point in points):
        entries.append(entry("plan", "D", ORANGE, INK))
    entries.append(entry("dominated", "o", "none", FAINT))
    if any(not point.is_front and not point.holds for point in points):
        entries.append(entry("dominated, outside", "x", FAINT, FAINT))
    return entries


def _csv(points: Sequence[ServingPoint]) -> CsvTable:
    columns = ("label", "tokens_per_s_per_user", "tokens_per_s_per_chip", "is_front", "holds", "is_plan")
    rows = tuple((p.label, *p.place, int(p.is_front), int(p.holds), int(p.is_plan)) for p in points)
    return CsvTable(columns=columns, rows=rows)
