"""When the units of the PE array work, and why its queues wait: a schedule over cycles."""
# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..schedules import QUEUES, UNITS, Schedule, Slice, Unit
from .style import (
    BLUE,
    INK,
    LEGEND_LINE_IN,
    MUTED,
    ORANGE,
    PALE_BLUE,
    VERMILION,
    Caption,
    CsvTable,
    FigureFiles,
    axis_label,
    house_style,
    legend_above,
    new_figure,
    save_figure,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch

WIDTH_IN: Final = 9.2
LANE_IN: Final = 0.26
STALLS_IN: Final = 1.35
# Lightness and hatch both tell kinds apart, so that they can be read in grey.
LOOKS: Final[dict[str, tuple[str, str]]] = {
    "LD input": (PALE_BLUE, ""),
    "LD weight": (ORANGE, "////"),
    "LD parameter": (MUTED, ""),
    "LD table": (MUTED, "...."),
    "LD output": (PALE_BLUE, "////"),  # of an op before
    "LD data": (PALE_BLUE, "...."),
    "PRELOAD": (ORANGE, ""),
    "COMPUTE": (BLUE, ""),
    "ALU": (BLUE, "...."),
    "ST to memory": (VERMILION, "\\\\\\\\"),
    "ST to scratchpad": (VERMILION, ""),
}
CAUSE_LOOKS: Final[dict[str, tuple[str, str]]] = {
    "issues": (INK, ""),
    "token": (ORANGE, ""),
    "unit busy": (BLUE, "////"),
    "bank taken": (VERMILION, "...."),
    "queue empty": ("#dddddd", ""),
}
LABEL_LANE_IN: Final = 0.45
"""Inches of a slice from which its instruction index is written into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gantt:
    """A schedule to draw.

    Attributes:
        title: Claim or question.
        schedule: What happened when.
        caption: For the foot of the figure.
        first_cycle, last_cycle: The part that is drawn; to the end when left out.
    """

    title: str
    schedule: Schedule
    caption: Caption
    first_cycle: int = 0
    last_cycle: int | None = None

    @property
    def span(self) -> tuple[int, int]:
        """First and last cycle that are drawn."""
        end = self.schedule.replay.cycles
        return self.first_cycle, end if self.last_cycle is None else min(self.last_cycle, end)


def gantt_table(schedule: Schedule) -> CsvTable:
    """One row per instruction, whatever part is drawn."""
    return CsvTable(
        columns=(
            "instruction", "mnemonic", "what", "queue", "unit", "lane", "dispatch_cycle", "issue_cycle", "end_cycle", "text",
        ),
        rows=tuple(
            (
                s.idx, s.name, s.what, s.queue, s.unit, s.lane if s.unit else None, s.dispatch_cycle, s.issue_cycle,
                s.end_cycle, s.text,
            )
            for s in schedule.slices
        ),
    )  # fmt: skip


def plot_gantt(gantt: Gantt, stem: Path) -> FigureFiles:
    """Draw a schedule: the units over time, and below them what each queue did with its cycles.

    Args:
        gantt: What to draw.
        stem: Path of the files without suffix.

    Returns:
        PNG, SVG and CSV.

    Raises:
        ValueError: The part to draw is empty.
    """
    first, last = gantt.span
    if last <= first:
        raise ValueError(f"there is nothing to draw from cycle {first} to cycle {last}")
    lanes: dict[Unit, int] = {unit: gantt.schedule.num_lanes(unit) for unit in UNITS}
    gantt_in = 0.55 + LANE_IN * (sum(lanes.values()) + 0.45 * (len(UNITS) + 1))
    with house_style():
        figure = new_figure(
            WIDTH_IN, gantt_in + STALLS_IN, title=gantt.title, caption=gantt.caption, legend_in=LEGEND_LINE_IN
        )
        axes, stall_axes = figure.subplots(2, 1, height_ratios=[gantt_in, STALLS_IN])
        shown = [s for s in gantt.schedule.slices if s.end_cycle >= first and s.issue_cycle <= last]
        _draw_units(axes, gantt, shown, lanes)
        _draw_stalls(stall_axes, gantt.schedule)
        kinds = {s.what for s in shown}
        legend_above(figure, [_patch(kind, look) for kind, look in LOOKS.items() if kind in kinds])
        return save_figure(figure, stem, gantt_table(gantt.schedule))


def _draw_units(axes: Axes, gantt: Gantt, shown: Sequence[Slice], lanes: dict[Unit, int]) -> None:
    first, last = gantt.span
    bottom = 0.0
    ticks: list[float] = []
    labels: list[str] = []
    top_of: dict[Unit, float] = {}
    for unit in UNITS:
        top_of[unit] = bottom + 0.45
        bottom = top_of[unit] + lanes[unit]
        ticks.append(top_of[unit] + lanes[unit] / 2)
        busy = gantt.schedule.replay.busy_cycles[unit] / gantt.schedule.replay.cycles
        labels.append(f"{unit}\nbusy {busy:.0%}")
        axes.axhline(bottom + 0.22, color=MUTED, linewidth=0.5)
    for what in LOOKS:
        for unit in UNITS:
            some = [s for s in shown if s.what == what and s.unit == unit]
            for lane in sorted({s.lane for s in some}):
                spans = [(s.issue_cycle, max(1, s.end_cycle - s.issue_cycle)) for s in some if s.lane == lane]
                axes.broken_barh(spans, (top_of[unit] + lane + 0.08, 0.84), **_look(LOOKS[what]))
    cycles_per_in = (last - first) / (WIDTH_IN * 0.85)
    for s in shown:
        if s.unit is not None and s.end_cycle - s.issue_cycle > LABEL_LANE_IN * cycles_per_in:
            middle = (max(s.issue_cycle, first) + min(s.end_cycle, last)) / 2
            axes.text(
                middle, top_of[s.unit] + s.lane + 0.5, f"{s.idx}", fontsize=6.0, ha="center", va="center", color=INK,
                bbox={"boxstyle": "round,pad=0.12", "facecolor": "white", "edgecolor": "none", "alpha": 0.85},
            )  # fmt: skip
    axes.set_xlim(first, last)
    axes.set_ylim(bottom + 0.22, 0.2)
    axes.set_yticks(ticks, labels)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(axis_label("Time since the start", "cycles"))


def _draw_stalls(axes: Axes, schedule: Schedule) -> None:
    """Every cycle of every queue: it issued, or waited for a cause."""
    cycles = schedule.replay.cycles
    left = [0.0] * len(QUEUES)
    for cause, look in CAUSE_LOOKS.items():
        widths: list[float] = []
        for queue in QUEUES:
            stalls = schedule.replay.stall_cycles[queue]
            widths.append(cycles - sum(stalls.values()) if cause == "issues" else stalls[cause])
        axes.barh(range(len(QUEUES)), widths, left=left, height=0.7, label=cause, **_look(look))
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(range(len(QUEUES)), [f"{queue} queue" for queue in QUEUES])
    axes.set_ylim(len(QUEUES) - 0.5, -0.5)
    axes.set_xlim(0, cycles)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(axis_label("What each queue did or waited for, whole program", "cycles"))
    axes.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=len(CAUSE_LOOKS), borderaxespad=0.2, fontsize=7.5)


def _look(look: tuple[str, str]) -> dict[str, Any]:
    colour, hatch = look
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0.4}


def _patch(kind: str, look: tuple[str, str]) -> Patch:
    from matplotlib.patches import Patch

    return Patch(label=kind, **_look(look))
