"""One look for every figure: sizes, colours that survive grey print, units, captions, and the three files of a figure.

Colour never carries meaning alone: markers, fills, hatches and line styles do, so that a figure reads the
same in grey. Files are deterministic: no dates, a fixed salt for SVG ids, text drawn as paths.
"""

# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

import csv
import io
import math
import os
import textwrap
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

INK: Final = "#1a1a1a"
MUTED: Final = "#6b6b6b"
FAINT: Final = "#b4b4b4"
GRID: Final = "#e6e6e6"
# Source: Okabe and Ito, "Color Universal Design", 2008: told apart by colour-blind readers.
BLUE: Final = "#0072b2"
PALE_BLUE: Final = "#a6cee8"
ORANGE: Final = "#e69f00"
VERMILION: Final = "#d55e00"
# Dark to light with equal steps of lightness, for parts that have an order (outer to inner memory levels).
# Source: samples of the "cividis" map; Nunez, Anderton, Renslow, PLoS ONE 13(7), 2018.
ORDERED: Final = ("#00224e", "#3b496c", "#666970", "#8f8d79", "#bcae6c", "#ead24a")
HATCHES: Final = ("", "////", "", "....", "", "\\\\\\\\")
PNG_DPI: Final = 160
CAPTION_CHARACTERS_PER_INCH: Final = 18.0
TITLE_CHARACTERS_PER_INCH: Final = 9.5
TITLE_LINE_IN: Final = 0.22
LEGEND_LINE_IN: Final = 0.24
LOG_FROM_RATIO: Final = 8.0

_RC: Final[Any] = {  # Any: matplotlib types the keys as a list of literals that differs between its versions
    "font.family": "DejaVu Sans",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9.0,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "hatch.linewidth": 0.6,
    "hatch.color": "white",
    "svg.fonttype": "path",
    "svg.hashsalt": "tileloom",
    "path.simplify": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Caption:
    """What a reader must know to trust a figure.

    Attributes:
        workload: The network or networks.
        commit: Version of the code that made the numbers.
        num_points: How many points were evaluated (designs, or ops of one design).
        points: What the points are, e.g. `design points`.
        extra: Anything else, one phrase each.
    """

    workload: str
    commit: str
    num_points: int
    points: str = "design points"
    extra: tuple[str, ...] = ()

    def __str__(self) -> str:
        noun = self.points.removesuffix("s") if self.num_points == 1 else self.points
        return "; ".join([self.workload, f"{self.num_points:,} {noun}", *self.extra, f"tileloom {self.commit}"])


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvTable:
    """The numbers behind a figure, with units in the column names."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]

    def text(self) -> str:
        """The table as CSV; None becomes an empty cell."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(self.rows)
        return out.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureFiles:
    """The three files of a figure."""

    png: Path
    svg: Path
    csv: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A unit for people: numbers in the internal unit are divided by `divisor` and shown in `unit`."""

    divisor: float
    unit: str


UNIT_STEPS: Final[dict[str, tuple[tuple[float, str], ...]]] = {
    "pJ": ((1.0, "pJ"), (1e3, "nJ"), (1e6, "uJ"), (1e9, "mJ"), (1e12, "J")),
    "s": ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s")),
    "bytes": ((1.0, "B"), (2.0**10, "KiB"), (2.0**20, "MiB"), (2.0**30, "GiB")),
    "cycles": ((1.0, "cycles"), (1e3, "thousand cycles"), (1e6, "million cycles"), (1e9, "billion cycles")),
    "ops/s": ((1e6, "Mops/s"), (1e9, "Gops/s"), (1e12, "Tops/s"), (1e15, "Pops/s")),
    "bytes/s": ((1e6, "MB/s"), (1e9, "GB/s"), (1e12, "TB/s")),
    "Hz": ((1.0, "Hz"), (1e3, "kHz"), (1e6, "MHz"), (1e9, "GHz")),
    "mm^2": ((1.0, "mm^2"),),
    "W": ((1.0, "W"), (1e3, "kW"), (1e6, "MW")),
    "J": ((1e-3, "mJ"), (1.0, "J"), (1e3, "kJ")),
    "pJ s": ((1.0, "pJ s"), (1e3, "nJ s"), (1e6, "uJ s"), (1e9, "mJ s")),
}


def scale_for(unit: str, values: Sequence[float]) -> Scale:
    """The unit in which the values' middle reads best.

    Args:
        unit: Internal unit (`pJ`, `s`, `bytes`, `cycles`, `ops/s`, ...); an unknown one is kept.
        values: Numbers in that unit; those that are not finite and positive do not count.
    """
    steps = UNIT_STEPS.get(unit, ((1.0, unit),))
    usable = sorted(v for v in values if math.isfinite(v) and v > 0)
    middle = usable[len(usable) // 2] if usable else 1.0
    divisor, name = max((s for s in steps if s[0] <= middle), default=steps[0])
    return Scale(divisor=divisor, unit=name)


def quantity_text(value: float, unit: str) -> str:
    """A number with the unit that suits it, three significant digits."""
    scale = scale_for(unit, [value])
    shown = value / scale.divisor
    digits = f"{shown:,.0f}" if abs(shown) >= 1000 else f"{shown:.3g}"
    return f"{digits} {scale.unit}".rstrip()


def wants_log(values: Sequence[float]) -> bool:
    """Whether an axis over these values should be logarithmic: all positive and widely spread."""
    usable = [v for v in values if math.isfinite(v)]
    return bool(usable) and min(usable) > 0 and max(usable) / min(usable) >= LOG_FROM_RATIO


def axis_label(quantity: str, unit: str, *, is_log: bool = False) -> str:
    """`Quantity [unit]`, naming a log scale."""
    return f"{quantity} [{unit}]{', log scale' if is_log else ''}" if unit else quantity


@contextmanager
def house_style() -> Generator[None]:
    """Everything drawn and saved inside follows the one style; nothing leaks out."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield


def new_figure(width_in: float, height_in: float, *, title: str, caption: Caption, legend_in: float = 0.0) -> Figure:
    """A figure with its claim on top and its caption below; call inside `house_style`.

    Args:
        width_in: Width in inches.
        height_in: Height in inches of the drawing, before title, legend and caption are added.
        title: Claim or question.
        caption: Printed below the drawing.
        legend_in: Height in inches to keep for `legend_above`.
    """
    from matplotlib.figure import Figure

    text = textwrap.fill(str(caption), int(width_in * CAPTION_CHARACTERS_PER_INCH))
    heading = textwrap.fill(title, int(width_in * TITLE_CHARACTERS_PER_INCH))
    foot_in = 0.12 + 0.15 * (text.count("\n") + 1)
    head_in = 0.14 + TITLE_LINE_IN * (heading.count("\n") + 1) + legend_in
    total_in = height_in + foot_in + head_in
    figure = Figure(figsize=(width_in, total_in), dpi=PNG_DPI, layout="constrained")
    engine = figure.get_layout_engine()
    assert engine is not None  # asked for one line above
    engine.set(rect=(0.0, foot_in / total_in, 1.0, height_in / total_in), w_pad=0.08, h_pad=0.06)  # pyright: ignore[reportCallIssue]  set() takes each engine's own options
    figure.text(0.1 / width_in, 1 - 0.1 / total_in, heading, fontsize=11.5, weight="bold", color=INK, va="top")
    figure.text(0.1 / width_in, 0.08 / total_in, text, fontsize=7.0, color=MUTED, va="bottom", linespacing=1.25)
    return figure


def set_log(axes: Axes, which: Literal["x", "y"], values: Sequence[float]) -> None:
    """Make an axis logarithmic with plain numbers on its ticks, also where it spans less than a decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_xscale("log") if which == "x" else axes.set_yscale("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    spread = max(values) / min(values)
    subs = (1.0,) if spread > 3e3 else (1.0, 3.0) if spread > 60 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(base=10.0, subs=subs))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_formatter(NullFormatter())


def _tick(value: float, position: int | None) -> str:
    del position  # matplotlib passes it to every formatter
    return plain_number(value)


def plain_number(value: float) -> str:
    """A tick label without trailing zeros or, within reason, exponents."""
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        return f"{value:,.6g}" if abs(value) >= 1 else f"{value:.6g}"
    return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-").replace("e+", "e")


def better_arrow(axes: Axes, arrow: str = "\N{SOUTH WEST ARROW}") -> None:
    """Say above the frame, where no point can lie, which way better designs are."""
    axes.set_title(f"{arrow} better", loc="right", fontsize=8, color=MUTED, style="italic", pad=3)


def legend_above(figure: Figure, handles: Sequence[Line2D | Patch], *, note: str = "") -> None:
    """Put one row of legend entries, and a remark after them, in the band that `new_figure` kept for it."""
    width_in, height_in = figure.get_size_inches().tolist()
    lines = figure.texts[0].get_text().count("\n") + 1
    top = 1 - (0.14 + TITLE_LINE_IN * lines) / height_in
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.0, top),
        borderaxespad=0.3,
        ncols=len(handles),
        handletextpad=0.5,
        columnspacing=1.6,
    )
    if note:
        figure.text(0.1 / width_in, top - LEGEND_LINE_IN / height_in, note, fontsize=7.5, color=MUTED, va="top")


def freeze_layout(figure: Figure) -> None:
    """Lay the figure out once and for all, so that labels can be placed and every file looks the same."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")


def without_common_start(names: Sequence[str]) -> tuple[str, ...]:
    """Names of ops without the segments (up to `_`, `/` or `.`) with which all of them start."""
    start = os.path.commonprefix(list(names)) if len(set(names)) > 1 else ""
    cut = max(start.rfind(mark) for mark in "_/.") + 1
    return tuple(name[cut:] for name in names)


def save_figure(figure: Figure, stem: Path, table: CsvTable) -> FigureFiles:
    """Write `stem.png`, `stem.svg` and `stem.csv`; call inside `house_style`.

    Args:
        figure: What to save.
        stem: Path without a suffix; its folder is made.
        table: The figure's numbers.

    Returns:
        The three paths.
    """
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    stem.parent.mkdir(parents=True, exist_ok=True)
    files = FigureFiles(png=_with(stem, ".png"), svg=_with(stem, ".svg"), csv=_with(stem, ".csv"))
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        freeze_layout(figure)
    figure.savefig(files.png, dpi=PNG_DPI, metadata={"Software": None})
    figure.savefig(files.svg, metadata={"Date": None, "Creator": "tileloom"})
    files.csv.write_text(table.text(), encoding="utf-8")
    return files


def _with(stem: Path, suffix: str) -> Path:
    return stem.with_name(stem.name + suffix)  # with_suffix() would eat the part after a dot in the name
