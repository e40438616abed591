"""A whole network over time: its layers as bands, what its units do as tracks."""
# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..layers import ACTIVITIES, Activity, Layer
from .style import (
    BLUE,
    GRID,
    INK,
    MUTED,
    ORANGE,
    VERMILION,
    Caption,
    CsvTable,
    FigureFiles,
    axis_label,
    house_style,
    new_figure,
    save_figure,
    scale_for,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from matplotlib.axes import Axes

    Ints = npt.NDArray[np.int64]

WIDTH_IN: Final = 9.2
TRACK_IN: Final = 0.36
HEAD_IN: Final = 1.1
"""Inches for the numbers of layers, the axis and its label."""
STEPS: Final = 4000
"""Parts of the time axis: gaps shorter than one of them are not drawn."""
LABEL_SHARE: Final = 0.012
"""Share of the time from which a layer has its number written above it."""
TRACKS: Final[tuple[Activity, ...]] = ACTIVITIES[:-1]
TRACK_NAMES: Final[dict[Activity, str]] = {"weight switch": "preload"}
"""A track shows all of it, not only what nothing hides."""
LOOKS: Final[dict[Activity, tuple[str, str]]] = {
    "PE array": (BLUE, ""),
    "vector unit": (BLUE, "...."),
    "weight switch": (ORANGE, ""),
    "store unit": (VERMILION, ""),
    "bus": (MUTED, ""),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGantt:
    """What to draw.

    Attributes:
        layers: Of one program, in their order.
        names: A short name for each.
        spans: [spans, 2] per activity the cycles in which it works, last one excluded.
        caption: For the foot of the figure.
    """

    layers: Sequence[Layer]
    names: Sequence[str]
    spans: Mapping[Activity, Ints]
    caption: Caption

    @property
    def cycles(self) -> int:
        """Cycles of the program."""
        return self.layers[-1].last_cycle

    @property
    def title(self) -> str:
        """What it shows, as a claim."""
        shares = {name: sum(layer.activity_cycles[name] for layer in self.layers) for name in ACTIVITIES}
        most = max(ACTIVITIES, key=lambda name: shares[name])
        return (
            f"{most[0].upper()}{most[1:]} takes up {shares[most] / max(1, self.cycles):.0%} of {self.cycles:,} cycles"
        )


def layer_gantt_table(gantt: LayerGantt) -> CsvTable:
    """One row per layer: its time, and what its cycles went into."""
    keys = [f"{name.lower().replace(' ', '_')}_cycles" for name in ACTIVITIES]
    return CsvTable(
        columns=("number", "layer", "kind", "first_cycle", "last_cycle", *keys),
        rows=tuple(
            (
                number, layer.op.name, layer.op.kind, layer.first_cycle, layer.last_cycle,
                *(layer.activity_cycles[name] for name in ACTIVITIES),
            )
            for number, layer in enumerate(gantt.layers, 1)
        ),
    )  # fmt: skip


def plot_layer_gantt(gantt: LayerGantt, stem: Path) -> FigureFiles:
    """Draw a network over time.

    Args:
        gantt: What to draw.
        stem: Path of the files without suffix.

    Returns:
        PNG, SVG and CSV.
    """
    with house_style():
        figure = new_figure(WIDTH_IN, HEAD_IN + TRACK_IN * len(TRACKS), title=gantt.title, caption=gantt.caption)
        axes = figure.subplots()
        scale = scale_for("cycles", [gantt.cycles])
        _draw_bands(axes, gantt, scale.divisor)
        for place, activity in enumerate(TRACKS):
            spans = merged(gantt.spans[activity], gantt.cycles / STEPS)
            bars = [(start / scale.divisor, (end - start) / scale.divisor) for start, end in spans]
            axes.broken_barh(bars, (place + 0.14, 0.72), zorder=2, **_look(LOOKS[activity]))
        axes.set_xlim(0, gantt.cycles / scale.divisor)
        axes.set_ylim(len(TRACKS), 0)
        axes.set_yticks([place + 0.5 for place in range(len(TRACKS))], [TRACK_NAMES.get(name, name) for name in TRACKS])
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=False)
        axes.set_xlabel(axis_label("Time since the start", scale.unit))
        return save_figure(figure, stem, layer_gantt_table(gantt))


def merged(spans: Ints, gap: float) -> list[tuple[int, int]]:
    """Spans in order, those joined that are no further apart than `gap`."""
    found: list[tuple[int, int]] = []
    for start, end in sorted((int(start), int(end)) for start, end in spans if end > start):
        if found and start - found[-1][1] <= gap:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _draw_bands(axes: Axes, gantt: LayerGantt, divisor: float) -> None:
    """Every other layer on grey; the number of each above, its name where there is room."""
    for number, (layer, name) in enumerate(zip(gantt.layers, gantt.names, strict=True), 1):
        first, last = layer.first_cycle / divisor, layer.last_cycle / divisor
        if number % 2 == 0:
            axes.axvspan(first, last, color=GRID, linewidth=0, zorder=0)
        share = layer.cycles / max(1, gantt.cycles)
        if share < LABEL_SHARE:
            continue
        has_room = share * WIDTH_IN * 16 > len(name) + 4
        axes.annotate(
            f"{number} {name}" if has_room else str(number), ((first + last) / 2, 0), xytext=(0, 3),
            textcoords="offset points", ha="center", va="bottom", fontsize=6.5, color=INK if has_room else MUTED,
        )  # fmt: skip


def _look(look: tuple[str, str]) -> dict[str, Any]:
    colour, hatch = look
    return {"facecolor": colour, "hatch": hatch, "edgecolor": "white" if hatch else colour, "linewidth": 0.2}
