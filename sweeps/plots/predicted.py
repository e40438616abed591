"""Predicted against measured: every row of a table of measurements as a point, the diagonal and a band of 10 %."""
# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .style import (
    BLUE,
    INK,
    MUTED,
    ORANGE,
    VERMILION,
    Caption,
    CsvTable,
    FigureFiles,
    axis_label,
    house_style,
    legend_above,
    new_figure,
    save_figure,
    scale_for,
    set_log,
)

if TYPE_CHECKING:
    from ...models import ValidatedRow
    from ..validating import Compared

SIDE_IN: Final = 5.2
BAND: Final = 0.10
LOOKS: Final[dict[str, tuple[str, str]]] = {
    "compute": ("o", BLUE),
    "memory": ("s", ORANGE),
    "latency": ("^", VERMILION),
}
"""Marker and colour per regime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """What to draw.

    Attributes:
        rows: Measurements with predictions.
        unit: Unit of both.
        quantity: What was measured, for the axes.
        title: What it shows, as a claim.
        caption: For the foot of the figure.
    """

    rows: Sequence[ValidatedRow]
    unit: str
    quantity: str
    title: str
    caption: Caption


def predicted_of(compared: Compared, *, commit: str) -> Predicted:
    """The figure of a comparison."""
    overall = compared.validation.overall
    name = compared.table.format.name
    constants = f"calibration {compared.calibration}" if compared.calibration else "data sheet alone"
    return Predicted(
        rows=compared.validation.rows,
        unit=compared.unit,
        quantity="time" if compared.quantity == "time_s" else "energy",
        title=f"{name[0].upper()}{name[1:]} on {compared.target}: {overall.mape:.1f} % mean error, "
        f"{overall.median_ape:.1f} % median",
        caption=Caption(
            workload=f"{Path(compared.table.table.file).name} ({compared.table.column})",
            commit=commit,
            num_points=overall.n,
            points="rows",
            extra=(
                constants,
                {"held_back": "held back from the fit", "fitted": "fitted"}.get(compared.rows, "all rows"),
            ),
        ),
    )


def predicted_table(predicted: Predicted) -> CsvTable:
    """One row per measurement, in seconds or joules."""
    unit = predicted.unit.lower()
    return CsvTable(
        columns=("line", "name", "shape", f"measured_{unit}", f"predicted_{unit}", "error_percent", "regime", "choice"),
        rows=tuple(
            (row.line, row.name, row.label, row.measured, row.predicted, row.error_percent, row.regime, row.choice)
            for row in predicted.rows
        ),
    )


def plot_predicted(predicted: Predicted, stem: Path) -> FigureFiles:
    """Draw predicted against measured.

    Args:
        predicted: What to draw.
        stem: Path of the files without suffix.

    Returns:
        PNG, SVG and CSV.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    values = [value for row in predicted.rows for value in (row.measured, row.predicted)]
    scale = scale_for(predicted.unit, values)
    low, high = min(values) / scale.divisor / 1.3, max(values) / scale.divisor * 1.3
    with house_style():
        figure = new_figure(SIDE_IN, SIDE_IN, title=predicted.title, caption=predicted.caption, legend_in=0.25)
        axes = figure.subplots()
        axes.fill_between(
            [low, high], [low * (1 - BAND), high * (1 - BAND)], [low * (1 + BAND), high * (1 + BAND)],
            color=MUTED, alpha=0.2, linewidth=0,
        )  # fmt: skip
        axes.plot([low, high], [low, high], color=INK, linewidth=0.8)
        handles: list[Line2D | Patch] = []
        for regime, (marker, colour) in LOOKS.items():
            rows = [row for row in predicted.rows if row.regime == regime]
            if not rows:
                continue
            points = [row.measured / scale.divisor for row in rows], [row.predicted / scale.divisor for row in rows]
            axes.plot(*points, marker, color=colour, markersize=3.5, markerfacecolor="none", markeredgewidth=0.8)
            handles.append(
                Line2D(
                    [], [], marker=marker, color=colour, markerfacecolor="none", linestyle="", label=f"{regime} bound"
                )
            )
        for which in ("x", "y"):
            set_log(axes, which, [low, high])
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.set_xlabel(axis_label(f"Measured {predicted.quantity}", scale.unit, is_log=True))
        axes.set_ylabel(axis_label(f"Predicted {predicted.quantity}", scale.unit, is_log=True))
        handles.append(Patch(color=MUTED, alpha=0.2, linewidth=0, label=f"within {BAND:.0%}"))
        legend_above(figure, handles)
        return save_figure(figure, stem, predicted_table(predicted))
