"""What stands where in the scratchpad while the layers of a network run."""
# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .style import (
    BLUE,
    FAINT,
    INK,
    LEGEND_LINE_IN,
    PALE_BLUE,
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

    from ...archdsl import OpRecord, Placement, ScratchpadMap

WIDTH_IN: Final = 9.2
HEIGHT_IN: Final = 4.2
KIB: Final = 1024
LABEL_SHARE: Final = 0.05
"""Share of the scratchpad from which an activation is labelled."""
CHARACTERS: Final = 95
"""Characters that fit beside one another across the figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlot:
    """What to draw.

    Attributes:
        ops: The layers of a program.
        names: A short name for each.
        pad: Activations in the scratchpad.
        caption: For the foot of the figure; peak and fragmentation are added.
    """

    ops: Sequence[OpRecord]
    names: Sequence[str]
    pad: ScratchpadMap
    caption: Caption


def memory_table(plot: MemoryPlot) -> CsvTable:
    """One row per activation, then one per layer's staging area."""
    rows: list[tuple[str | int | None, ...]] = [
        ("activation", place.name, place.address, place.size_bytes, place.first_op + 1, place.last_op + 1)
        for place in plot.pad.placements
    ]
    rows += [
        ("staging", op.name, op.staging[0], op.staging[1] - op.staging[0], number, number)
        for number, op in enumerate(plot.ops, 1)
        if op.staging is not None
    ]
    columns = ("kind", "name", "address_bytes", "size_bytes", "first_layer", "last_layer")
    return CsvTable(columns=columns, rows=tuple(rows))


def plot_memory_map(plot: MemoryPlot, stem: Path) -> FigureFiles:
    """Draw the scratchpad over the layers.

    Args:
        plot: What to draw.
        stem: Path of the files without suffix.

    Returns:
        PNG, SVG and CSV.
    """
    pad = plot.pad
    share = pad.peak_bytes / pad.size_bytes
    title = f"Activations take up to {share:.0%} of the scratchpad of {pad.size_bytes / KIB:g} KiB"
    facts = (f"peak {pad.peak_bytes:,} B, live {pad.live_bytes:,} B", f"fragmentation {pad.fragmentation:.1%}")
    caption = replace(plot.caption, extra=(*plot.caption.extra, *facts))
    with house_style():
        from matplotlib.patches import Patch, Rectangle
        from matplotlib.ticker import MaxNLocator

        figure = new_figure(WIDTH_IN, HEIGHT_IN, title=title, caption=caption, legend_in=LEGEND_LINE_IN)
        axes = figure.subplots()
        for number, op in enumerate(plot.ops, 1):
            if op.staging is not None and op.staging[1] > op.staging[0]:
                begin, end = (at / KIB for at in op.staging)
                axes.add_patch(
                    Rectangle((number - 0.5, begin), 1, end - begin, facecolor=FAINT, hatch="////", edgecolor="white", linewidth=0)
                )  # fmt: skip
        for place in pad.placements:
            _draw_place(axes, place, plot)
        legend_above(
            figure,
            [
                Patch(facecolor=PALE_BLUE, edgecolor=BLUE, label="activation"),
                Patch(facecolor=FAINT, hatch="////", edgecolor="white", linewidth=0, label="staging: weights and what streams"),
            ],
        )  # fmt: skip
        axes.set_xlim(0.5, len(plot.ops) + 0.5)
        axes.set_ylim(0, pad.size_bytes / KIB)
        axes.set_xlabel(axis_label("Layer", ""))
        axes.set_ylabel(axis_label("Address in the scratchpad", "KiB"))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False)
        return save_figure(figure, stem, memory_table(plot))


def _draw_place(axes: Axes, place: Placement, plot: MemoryPlot) -> None:
    """An activation, labelled by the layer that it comes from where there is room."""
    from matplotlib.patches import Rectangle

    left, width = place.first_op + 0.5, place.last_op - place.first_op + 1
    bottom, height = place.address / KIB, place.size_bytes / KIB
    axes.add_patch(Rectangle((left, bottom), width, height, facecolor=PALE_BLUE, edgecolor=BLUE, linewidth=0.8))
    room = int(CHARACTERS * width / len(plot.ops))
    if place.size_bytes < LABEL_SHARE * plot.pad.size_bytes or room < len("99"):
        return
    name = f"{place.first_op + 1} {plot.names[place.first_op]}"
    axes.text(
        left + width / 2, bottom + height / 2, name if len(name) <= room else str(place.first_op + 1), fontsize=6.5,
        ha="center", va="center", color=INK,
    )  # fmt: skip
