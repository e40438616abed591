"""Where energy and time go: one row per op, energy stacked by where it is spent, time by what limits it."""
# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .style import (
    HATCHES,
    LEGEND_LINE_IN,
    MUTED,
    ORDERED,
    Caption,
    CsvTable,
    FigureFiles,
    axis_label,
    house_style,
    legend_above,
    new_figure,
    quantity_text,
    save_figure,
    scale_for,
    without_common_start,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

MAX_ROWS: Final = 36
WIDTH_IN: Final = 9.2
ROW_IN: Final = 0.19
MAX_NAME_CHARACTERS: Final = 34


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCost:
    """What one op costs, all its runs together.

    Attributes:
        name: Name in the workload.
        count: How often the network runs it.
        energy_pj: Energy by where it is spent, outermost level first, compute last.
        latency_s: Time.
        bottleneck: What limits it.
        group: Ops of one group share a row of the figure; empty keeps the op apart.
    """

    name: str
    count: int
    energy_pj: tuple[tuple[str, float], ...]
    latency_s: float
    bottleneck: str
    group: str = ""

    @property
    def total_pj(self) -> float:
        """Energy of all parts."""
        return math.fsum(amount for _, amount in self.energy_pj)


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """The costs of a network on an architecture.

    Attributes:
        title: Claim or question.
        ops: In execution order.
        caption: For the foot of the figure.
    """

    title: str
    ops: tuple[OpCost, ...]
    caption: Caption

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of energy, in the order of their first mention."""
        return tuple(dict.fromkeys(name for op in self.ops for name, _ in op.energy_pj))

    @property
    def bottlenecks(self) -> tuple[str, ...]:
        """Names of what limits ops, the one that takes most time first."""
        time_s: dict[str, float] = {}
        for op in self.ops:
            time_s[op.bottleneck] = time_s.get(op.bottleneck, 0.0) + op.latency_s
        return tuple(sorted(time_s, key=lambda name: (-time_s[name], name)))


def breakdown_table(breakdown: Breakdown) -> CsvTable:
    """Every op with its parts in internal units; nothing is merged here."""
    columns = (
        "op",
        "count",
        *(f"{part}_energy_pj" for part in breakdown.parts),
        "energy_pj",
        "latency_s",
        "bottleneck",
    )
    rows = tuple(
        (
            op.name,
            op.count,
            *(dict(op.energy_pj).get(part, 0.0) for part in breakdown.parts),
            op.total_pj,
            op.latency_s,
            op.bottleneck,
        )
        for op in breakdown.ops
    )
    return CsvTable(columns=columns, rows=rows)


def merge_groups(ops: Sequence[OpCost]) -> tuple[OpCost, ...]:
    """Sum the ops of each group into one row, where the first of them stands.

    Returns:
        Rows whose sums equal the sums over `ops`.
    """
    groups: dict[str, list[OpCost]] = {}
    for index, op in enumerate(ops):
        groups.setdefault(op.group or f"\0{index}", []).append(op)
    return tuple(
        members[0] if len(members) == 1 else _sum_of(members, f"{members[0].group}, {len(members)} shapes")
        for members in groups.values()
    )


def merge_small(ops: Sequence[OpCost], limit: int = MAX_ROWS) -> tuple[OpCost, ...]:
    """Keep the ops that matter most, in execution order, and sum the others into one last row.

    Args:
        ops: All ops.
        limit: Most rows, the merged one included.

    Returns:
        Rows whose sums equal the sums over `ops`.
    """
    if len(ops) <= limit:
        return tuple(ops)
    energy_pj = math.fsum(op.total_pj for op in ops) or 1.0
    latency_s = math.fsum(op.latency_s for op in ops) or 1.0
    weight = [max(op.total_pj / energy_pj, op.latency_s / latency_s) for op in ops]
    kept = set(sorted(range(len(ops)), key=lambda i: -weight[i])[: limit - 1])
    rest = [op for i, op in enumerate(ops) if i not in kept]
    return (*(op for i, op in enumerate(ops) if i in kept), _sum_of(rest, f"{len(rest)} other ops"))


def _sum_of(ops: Sequence[OpCost], name: str) -> OpCost:
    parts = tuple(dict.fromkeys(part for op in ops for part, _ in op.energy_pj))
    is_mixed = len({op.bottleneck for op in ops}) > 1
    return OpCost(
        name=name,
        count=sum(op.count for op in ops),
        energy_pj=tuple((part, math.fsum(dict(op.energy_pj).get(part, 0.0) for op in ops)) for part in parts),
        latency_s=math.fsum(op.latency_s for op in ops),
        bottleneck="several" if is_mixed else ops[0].bottleneck,
    )


def plot_breakdown(breakdown: Breakdown, stem: Path) -> FigureFiles:
    """Draw the energy and the time of every op side by side.

    Args:
        breakdown: What to draw.
        stem: Path of the files without suffix.

    Returns:
        PNG, SVG and CSV.

    Raises:
        ValueError: There are no ops.
    """
    if not breakdown.ops:
        raise ValueError("a breakdown needs at least one op")
    rows = merge_small(merge_groups(breakdown.ops))
    height_in = 0.75 + ROW_IN * max(4, len(rows))
    with house_style():
        figure = new_figure(
            WIDTH_IN, height_in, title=breakdown.title, caption=breakdown.caption, legend_in=2 * LEGEND_LINE_IN
        )
        energy_axes, time_axes = figure.subplots(1, 2, sharey=True)
        _draw_energy(energy_axes, rows, breakdown.parts)
        _draw_time(time_axes, rows, breakdown)
        _name_rows(energy_axes, rows)
        total_pj = math.fsum(op.total_pj for op in breakdown.ops)
        total_s = math.fsum(op.latency_s for op in breakdown.ops)
        note = f"in all {quantity_text(total_pj, 'pJ')} and {quantity_text(total_s, 's')}"
        legend_above(figure, _part_entries(breakdown.parts), note=note)
        return save_figure(figure, stem, breakdown_table(breakdown))


def _look(index: int) -> dict[str, Any]:
    """Fill of the index-th part: lightness and hatch both tell parts apart."""
    return {
        "facecolor": ORDERED[index % len(ORDERED)],
        "hatch": HATCHES[index % len(HATCHES)],
        "edgecolor": "white",
        "linewidth": 0.5,
    }


def _draw_energy(axes: Axes, rows: Sequence[OpCost], parts: Sequence[str]) -> None:
    scale = scale_for("pJ", [max(op.total_pj for op in rows)])
    left = [0.0] * len(rows)
    for index, part in enumerate(parts):
        widths = [dict(op.energy_pj).get(part, 0.0) / scale.divisor for op in rows]
        axes.barh(range(len(rows)), widths, left=left, height=0.78, **_look(index))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_xlabel(axis_label("Energy, all runs", scale.unit))
    axes.grid(visible=False, axis="y")


def _draw_time(axes: Axes, rows: Sequence[OpCost], breakdown: Breakdown) -> None:
    scale = scale_for("s", [max(op.latency_s for op in rows)])
    widths = [op.latency_s / scale.divisor for op in rows]
    axes.barh(range(len(rows)), widths, height=0.78, color="#c9d3dc", edgecolor=MUTED, linewidth=0.5)
    longest = max(widths)
    for row, (op, width) in enumerate(zip(rows, widths, strict=True)):
        axes.text(width + 0.012 * longest, row, op.bottleneck, va="center", fontsize=6.5, color=MUTED)
    axes.set_xlim(0, longest * 1.32)
    axes.set_xlabel(axis_label("Time, all runs, and what limits it", scale.unit))
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _name_rows(axes: Axes, rows: Sequence[OpCost]) -> None:
    names = without_common_start([op.name for op in rows])
    axes.set_yticks(range(len(rows)), [_row_name(name, op.count) for name, op in zip(names, rows, strict=True)])
    axes.tick_params(axis="y", labelsize=7.0, length=0)
    axes.set_ylim(len(rows) - 0.4, -0.6)


def _row_name(name: str, count: int) -> str:
    short = name if len(name) <= MAX_NAME_CHARACTERS else f"...{name[-MAX_NAME_CHARACTERS + 3 :]}"
    return f"{short} x{count}" if count > 1 else short


def _part_entries(parts: Sequence[str]) -> list[Patch]:
    from matplotlib.patches import Patch

    entries: list[Patch] = []
    for index, part in enumerate(parts):
        look = _look(index)
        entries.append(Patch(label=part, **look))
    return entries
