"""The roofline of one network: how far each op is from what the chip allows, and which limit it meets."""
# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from .labels import Label, Obstacles, place_labels
from .style import (
    BLUE,
    FAINT,
    GRID,
    INK,
    LEGEND_LINE_IN,
    MUTED,
    ORANGE,
    Caption,
    CsvTable,
    FigureFiles,
    Scale,
    axis_label,
    freeze_layout,
    house_style,
    legend_above,
    new_figure,
    quantity_text,
    save_figure,
    scale_for,
    set_log,
    without_common_start,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Limit = Literal["compute", "main memory"]

SIZE_IN: Final = (7.2, 4.6)
MAX_LABELS: Final = 8
LABEL_REACH_PT: Final = 18.0
ROOF_POINTS: Final = 120
LARGEST_MARKER_PT2: Final = 260.0
SMALLEST_MARKER_PT2: Final = 9.0
_LOOKS: Final[tuple[tuple[Limit, str, str], ...]] = (("main memory", "o", BLUE), ("compute", "s", ORANGE))


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineOp:
    """One op of a network as the roofline sees it; amounts are of one run.

    Attributes:
        name: Name in the workload.
        count: How often the network runs it.
        num_ops: Operations, two per MAC.
        read_bytes: Read from main memory.
        write_bytes: Written to main memory.
        latency_s: Time of one run.
        peak_ops_per_s: What the PE array does with the op's datatype at full use.
        bottleneck: What the latency model found to be slowest.
    """

    name: str
    count: int
    num_ops: int
    read_bytes: float
    write_bytes: float
    latency_s: float
    peak_ops_per_s: float
    bottleneck: str = ""

    @property
    def bytes(self) -> float:
        """Main-memory bytes in both directions."""
        return self.read_bytes + self.write_bytes

    @property
    def intensity_ops_per_byte(self) -> float:
        """Arithmetic intensity: ops per main-memory byte."""
        return self.num_ops / self.bytes

    @property
    def attained_ops_per_s(self) -> float:
        """Ops per second by the model."""
        return self.num_ops / self.latency_s


@dataclass(frozen=True, slots=True, kw_only=True)
class MainMemory:
    """Bandwidth of the main memory.

    Attributes:
        read_bytes_per_s: When it only reads.
        write_bytes_per_s: When it only writes.
        is_shared: Whether reads and writes take turns, so that their times add up.
    """

    read_bytes_per_s: float
    write_bytes_per_s: float
    is_shared: bool

    @property
    def best_bytes_per_s(self) -> float:
        """Most bytes per second at the best mix of reads and writes: the slope of the drawn roof."""
        if self.is_shared:
            return max(self.read_bytes_per_s, self.write_bytes_per_s)
        return self.read_bytes_per_s + self.write_bytes_per_s

    def time_s(self, read_bytes: float, write_bytes: float) -> float:
        """Least time to move this mix of reads and writes."""
        read_s, write_s = read_bytes / self.read_bytes_per_s, write_bytes / self.write_bytes_per_s
        return read_s + write_s if self.is_shared else max(read_s, write_s)

    def __str__(self) -> str:
        if self.is_shared:
            return quantity_text(self.best_bytes_per_s, "bytes/s")
        read, write = (quantity_text(v, "bytes/s") for v in (self.read_bytes_per_s, self.write_bytes_per_s))
        return f"{read} read + {write} write"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """A network on an architecture.

    Attributes:
        title: Claim or question.
        ops: In execution order; those without MACs or main-memory traffic have no place in the figure.
        memory: The main memory.
        caption: For the foot of the figure.
    """

    title: str
    ops: tuple[RooflineOp, ...]
    memory: MainMemory
    caption: Caption

    @property
    def drawn(self) -> tuple[RooflineOp, ...]:
        """The ops that have an arithmetic intensity."""
        return tuple(op for op in self.ops if op.num_ops > 0 and op.bytes > 0 and op.latency_s > 0)

    @property
    def time_s(self) -> float:
        """Time of the whole network, ops without a place included."""
        return sum(op.latency_s * op.count for op in self.ops)


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineRow:
    """One line of the roofline table; `bound` is for the op's own mix of reads and writes."""

    op: str
    count: int
    time_share: float
    intensity_ops_per_byte: float
    attained_ops_per_s: float
    bound_ops_per_s: float
    limit: Limit
    bottleneck: str

    @property
    def reached(self) -> float:
        """Attained over bound, 0 to 1."""
        return self.attained_ops_per_s / self.bound_ops_per_s


def roofline_rows(roofline: Roofline) -> tuple[RooflineRow, ...]:
    """The table behind the figure, in execution order."""
    return tuple(_row(op, roofline) for op in roofline.drawn)


def roofline_table(roofline: Roofline) -> CsvTable:
    """The table as CSV."""
    columns = (
        "op",
        "count",
        "time_share",
        "arithmetic_intensity_ops_per_byte",
        "attained_ops_per_s",
        "bound_ops_per_s",
        "limit",
        "attained_over_bound",
        "bottleneck",
    )
    rows = tuple(
        (
            row.op,
            row.count,
            row.time_share,
            row.intensity_ops_per_byte,
            row.attained_ops_per_s,
            row.bound_ops_per_s,
            row.limit,
            row.reached,
            row.bottleneck,
        )
        for row in roofline_rows(roofline)
    )
    return CsvTable(columns=columns, rows=rows)


def plot_roofline(roofline: Roofline, stem: Path) -> FigureFiles:
    """Draw the ops of a network below the roof of its architecture.

    Args:
        roofline: What to draw.
        stem: Path of the files without suffix.

    Returns:
        PNG, SVG and CSV.

    Raises:
        ValueError: No op has both MACs and main-memory traffic.

    Source: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model for
    Multicore Architectures", Communications of the ACM 52(4), 2009.
    """
    rows = roofline_rows(roofline)
    if not rows:
        raise ValueError("a roofline needs an op with MACs and main-memory traffic")
    with house_style():
        figure = new_figure(*SIZE_IN, title=roofline.title, caption=roofline.caption, legend_in=2 * LEGEND_LINE_IN)
        axes = figure.subplots()
        peaks = sorted({op.peak_ops_per_s for op in roofline.drawn})
        scale = scale_for("ops/s", peaks)
        _set_frame(axes, rows, peaks, roofline.memory, scale)
        roofs = _draw_roofs(axes, peaks, roofline.memory, scale)
        _draw_ops(axes, rows, scale)
        largest = max(row.time_share for row in rows)
        note = f"slope: main memory {roofline.memory}; marker area: share of time, largest {largest:.0%}"
        legend_above(figure, _legend_entries(rows), note=note)
        freeze_layout(figure)
        _draw_labels(axes, rows, scale, roofs)
        return save_figure(figure, stem, roofline_table(roofline))


def _row(op: RooflineOp, roofline: Roofline) -> RooflineRow:
    memory_s = roofline.memory.time_s(op.read_bytes, op.write_bytes)
    memory_ops_per_s = op.num_ops / memory_s if memory_s > 0 else float("inf")
    return RooflineRow(
        op=op.name,
        count=op.count,
        time_share=op.latency_s * op.count / roofline.time_s,
        intensity_ops_per_byte=op.intensity_ops_per_byte,
        attained_ops_per_s=op.attained_ops_per_s,
        bound_ops_per_s=min(op.peak_ops_per_s, memory_ops_per_s),
        limit="compute" if op.peak_ops_per_s <= memory_ops_per_s else "main memory",
        bottleneck=op.bottleneck,
    )


def _set_frame(
    axes: Axes, rows: Sequence[RooflineRow], peaks: Sequence[float], memory: MainMemory, scale: Scale
) -> None:
    """Fix limits so that every op and every ridge point is inside with air around."""
    x = [row.intensity_ops_per_byte for row in rows] + [ridge for _, ridge in _ridges(peaks, memory)]
    y = [row.attained_ops_per_s / scale.divisor for row in rows] + [peak / scale.divisor for peak in peaks]
    x_limits, y_limits = (min(x) / 2.2, max(x) * 2.2), (min(y) / 2.2, max(y) * 3.0)
    set_log(axes, "x", x_limits)
    set_log(axes, "y", y_limits)
    axes.set_xlim(x_limits)
    axes.set_ylim(y_limits)
    axes.set_xlabel(axis_label("Arithmetic intensity", "ops per main-memory byte", is_log=True))
    axes.set_ylabel(axis_label("Attained", scale.unit, is_log=True))


def _ridges(peaks: Sequence[float], memory: MainMemory) -> list[tuple[float, float]]:
    """Each peak with the arithmetic intensity from which on it can be reached; none with unbounded memory."""
    if not math.isfinite(memory.best_bytes_per_s):
        return []
    return [(peak, peak / memory.best_bytes_per_s) for peak in peaks]


def _draw_roofs(axes: Axes, peaks: Sequence[float], memory: MainMemory, scale: Scale) -> list[tuple[float, float]]:
    """Draw the roofs; returns points along them, which labels had better leave free."""
    (left, right), bottom = axes.get_xlim(), axes.get_ylim()[0]
    slope = memory.best_bytes_per_s / scale.divisor
    along: list[tuple[float, float]] = []
    for peak in peaks:
        top = peak / scale.divisor
        axes.plot([left, right], [top, top], color=FAINT, linewidth=0.8, linestyle=(0, (1, 2)), zorder=1)
        _note(axes, left, top, f"peak {quantity_text(peak, 'ops/s')}", ha="left", offset=(4, 3))
        if not math.isfinite(slope):
            axes.plot([left, right], [top, top], color=INK, linewidth=1.5, zorder=3)
        steps = [left * (right / left) ** (step / ROOF_POINTS) for step in range(ROOF_POINTS + 1)]
        along += [(x, min(top, x * slope)) for x in steps]
    for peak, ridge in _ridges(peaks, memory):
        top = peak / scale.divisor
        axes.plot([left, ridge, right], [left * slope, top, top], color=INK, linewidth=1.5, zorder=3)
        axes.plot([ridge, ridge], [bottom, top], color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
        axes.plot([ridge], [top], marker="v", color=INK, markersize=6, zorder=4)
        is_right = math.log(ridge / left) > 0.7 * math.log(right / left)
        side, shift = ("right", -4) if is_right else ("left", 4)
        _note(axes, ridge, bottom, f"ridge point {ridge:.3g} ops/B", ha=side, offset=(shift, 4))
    return along


def _note(axes: Axes, x: float, y: float, text: str, *, ha: str, offset: tuple[float, float]) -> None:
    look: dict[str, Any] = {"fontsize": 7.5, "color": MUTED, "ha": ha, "va": "bottom"}
    axes.annotate(text, xy=(x, y), xytext=offset, textcoords="offset points", **look)


def _draw_ops(axes: Axes, rows: Sequence[RooflineRow], scale: Scale) -> None:
    for limit, marker, color in _LOOKS:
        mine = sorted((row for row in rows if row.limit == limit), key=lambda row: -row.time_share)
        axes.scatter(
            [row.intensity_ops_per_byte for row in mine],
            [row.attained_ops_per_s / scale.divisor for row in mine],
            s=[_marker_pt2(row, rows) for row in mine],
            marker=marker,
            facecolors=color,
            edgecolors="white",
            linewidths=0.7,
            alpha=0.85,
            zorder=5,
        )


def _marker_pt2(row: RooflineRow, rows: Sequence[RooflineRow]) -> float:
    """Area of an op's marker, in square points."""
    largest = max(other.time_share for other in rows)
    return max(SMALLEST_MARKER_PT2, LARGEST_MARKER_PT2 * row.time_share / largest)


def _radius_pt(row: RooflineRow, rows: Sequence[RooflineRow]) -> float:
    """Radius of an op's marker beyond a small one, in points."""
    return max(0.0, math.sqrt(_marker_pt2(row, rows)) / 2 - 3.0)


def _legend_entries(rows: Sequence[RooflineRow]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    entries: list[Line2D] = []
    for limit, marker, color in _LOOKS:
        num = sum(row.limit == limit for row in rows)
        look: dict[str, Any] = {"marker": marker, "color": color, "linestyle": "none", "markeredgecolor": GRID}
        if num:
            entries.append(Line2D([], [], label=f"bound by {limit} ({num} ops)", markersize=7, **look))
    return entries


def _draw_labels(axes: Axes, rows: Sequence[RooflineRow], scale: Scale, roofs: Sequence[tuple[float, float]]) -> None:
    names = dict(zip((row.op for row in rows), without_common_start([row.op for row in rows]), strict=True))
    biggest = sorted(rows, key=lambda row: -row.time_share)[:MAX_LABELS]
    labels = [
        Label(
            x=row.intensity_ops_per_byte,
            y=row.attained_ops_per_s / scale.divisor,
            text=f"{names[row.op]} ({row.time_share:.0%})",
            radius_pt=_radius_pt(row, rows),
        )
        for row in biggest
    ]
    markers = [(row.intensity_ops_per_byte, row.attained_ops_per_s / scale.divisor) for row in rows]
    radii_pt = [_radius_pt(row, rows) for row in rows]
    obstacles = Obstacles(markers=markers, radii_pt=radii_pt, faint_markers=roofs)
    place_labels(axes, labels, obstacles, reach_pt=LABEL_REACH_PT)
