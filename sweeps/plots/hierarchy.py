"""Draw an architecture's hierarchy: main memory on top, PEs at the bottom, a widening shape for each fan-out."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ...archdsl import Arch
from .blocks import Block, Row, blocks_table, rows_of
from .style import (
    FAINT,
    INK,
    MUTED,
    Caption,
    FigureFiles,
    house_style,
    new_figure,
    quantity_text,
    save_figure,
)
from .totals import totals_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# All lengths in inches: the drawing's data coordinates are inches too, so that text and boxes keep step.
WIDTH_IN: Final = 7.4
_SIDE_IN: Final = 0.15
_GAP_IN: Final = 0.26
_BETWEEN_IN: Final = 0.22
_PAD_IN: Final = 0.09
_LINE_IN: Final = 0.148
_HEAD_IN: Final = 0.19
_PILL_IN: Final = 0.23
_CARD_IN: Final = 0.045
_LEGEND_IN: Final = 0.34
_FACT_PT: Final = 7.5
_HEAD_PT: Final = 8.5
_CHARACTERS_PER_INCH: Final = 17.0
"""Characters of `_FACT_PT` text that are sure to fit an inch; wider than the mean letter."""

_Horizontal = Literal["left", "center", "right"]
_Vertical = Literal["top", "center"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A block with its place.

    Attributes:
        block: What to draw.
        x: Left edge.
        y: Upper edge; y grows downward.
        width: Width.
        height: Height.
        lines: Its facts, wrapped to the width.
    """

    block: Block
    x: float
    y: float
    width: float
    height: float
    lines: tuple[str, ...]


def plot_hierarchy(arch: Arch, stem: Path, *, version: str) -> FigureFiles:
    """Draw one architecture.

    Args:
        arch: What to draw.
        stem: Path of the files without suffix.
        version: Version of the code, for the caption.

    Returns:
        PNG, SVG and CSV.
    """
    rows = rows_of(arch)
    with house_style():
        figure = draw_hierarchy(arch, rows, version)
        return save_figure(figure, stem, blocks_table(rows))


def draw_hierarchy(arch: Arch, rows: Sequence[Row], version: str) -> Figure:
    """The figure itself; call inside `house_style`."""
    placed = _layout(rows)
    has_roles = any(p.block.keeps for row in placed for p in row)
    bottom = max(p.y + p.height for row in placed for p in row) + 2 * _CARD_IN
    height = bottom + (_LEGEND_IN if has_roles else 0.05)
    figure = new_figure(WIDTH_IN, height, title=_title(arch), caption=_caption(arch, rows, version))
    engine = figure.get_layout_engine()
    assert engine is not None  # new_figure sets one
    engine.set(w_pad=0.0, h_pad=0.0)  # pyright: ignore[reportCallIssue]  set() takes each engine's own options
    axes = figure.subplots()
    axes.set(xlim=(0, WIDTH_IN), ylim=(height, 0))
    axes.set_axis_off()
    for upper, lower in pairwise(placed):
        _draw_links(axes, upper, lower)
    for row in placed:
        for item in row:
            _draw_block(axes, item)
    if has_roles:
        _draw_legend(axes, bottom + 0.12)
    return figure


def _title(arch: Arch) -> str:
    totals = totals_of(arch)
    datatype, rate = totals.fastest
    return f"{arch.name}: {totals.units_text}, {quantity_text(rate, 'ops/s')} {datatype}, {totals.onchip_text} on chip"


def _caption(arch: Arch, rows: Sequence[Row], version: str) -> Caption:
    node = "" if arch.technology is None else f"{arch.technology.node_nm:g} nm, "
    return Caption(
        workload=arch.description or arch.name,
        commit=version,
        num_points=sum(map(len, rows)),
        points="blocks",
        extra=(f"{node}{quantity_text(arch.clock_hz, 'Hz')}", "bandwidths per instance"),
    )


def _layout(rows: Sequence[Row]) -> list[list[_Placed]]:
    """Give every block its place; a row is as high as its highest block."""
    placed: list[list[_Placed]] = []
    y = 0.05
    for row in rows:
        width = (WIDTH_IN - 2 * _SIDE_IN - _BETWEEN_IN * (len(row) - 1)) / len(row)
        wrapped = [_wrap(block, width, is_alone=len(row) == 1) for block in row]
        height = max(_height(block, lines) for block, lines in zip(row, wrapped, strict=True))
        placed.append(
            [
                _Placed(block=b, x=_SIDE_IN + i * (width + _BETWEEN_IN), y=y, width=width, height=height, lines=lines)
                for i, (b, lines) in enumerate(zip(row, wrapped, strict=True))
            ]
        )
        y += height + _GAP_IN
    return placed


def _wrap(block: Block, width: float, *, is_alone: bool) -> tuple[str, ...]:
    """The facts as lines: one each, or run together in a memory that has the whole width."""
    taken = 2 * _PAD_IN + (2 * _slope(width) if block.kind == "fanout" else 0.0)
    characters = int((width - taken) * _CHARACTERS_PER_INCH)
    facts = ("; ".join(block.facts),) if is_alone and block.kind == "memory" else block.facts
    wrapped = (textwrap.wrap(fact, characters, subsequent_indent="  ", break_on_hyphens=False) for fact in facts)
    return tuple(line for lines in wrapped for line in lines)


def _height(block: Block, lines: Sequence[str]) -> float:
    return 2 * _PAD_IN + _HEAD_IN + len(lines) * _LINE_IN + (_PILL_IN if block.keeps else 0.0)


def _slope(width: float) -> float:
    """How far a fan-out's upper edge is drawn in on each side."""
    return 0.12 * width


def _draw_links(axes: Axes, upper: Sequence[_Placed], lower: Sequence[_Placed]) -> None:
    """Join two rows: every block of the row with more blocks to the nearest one of the other."""
    from matplotlib.lines import Line2D

    many, few = (lower, upper) if len(lower) >= len(upper) else (upper, lower)
    top, bottom = max(u.y + u.height for u in upper), min(low.y for low in lower)
    for item in many:
        middle = item.x + item.width / 2
        partner = min(few, key=lambda other: abs(other.x + other.width / 2 - middle))
        inset = _slope(partner.width) if partner.block.kind == "fanout" and few is lower else 0.05
        end = min(max(middle, partner.x + inset), partner.x + partner.width - inset)
        ends = (end, middle) if many is lower else (middle, end)
        axes.add_line(Line2D(ends, (top, bottom), color=MUTED, linewidth=1.1, zorder=0))


def _draw_block(axes: Axes, item: _Placed) -> None:
    from matplotlib.patches import Polygon

    block = item.block
    fill = {"memory": "white", "fanout": "#efefef", "compute": "#dcdcdc"}[block.kind]
    for card in range(2 if block.instances > 1 else 0, -1, -1):
        axes.add_patch(
            Polygon(
                _outline(item, card * _CARD_IN),
                closed=True,
                facecolor=fill,
                edgecolor=INK if card == 0 else FAINT,
                linewidth=1.0 if card == 0 else 0.7,
                linestyle="--" if block.kind == "fanout" else "-",
                zorder=1,
            )
        )
    left = item.x + _PAD_IN + (_slope(item.width) if block.kind == "fanout" else 0.0)
    right = item.x + item.width - _PAD_IN - (_slope(item.width) if block.kind == "fanout" else 0.0)
    y = item.y + _PAD_IN
    _write(axes, left, y, block.name, size=_HEAD_PT, is_bold=True)
    number = f" x {block.instances:,}" if block.instances > 1 else ""
    # A narrow box has no room for it beside the name.
    what_y = y + _HEAD_IN + 0.01 if block.keeps else y + 0.01
    _write(axes, right, what_y, f"{block.what}{number}", size=_FACT_PT, anchor=("right", "top"), color=MUTED)
    y += _HEAD_IN
    if block.keeps:
        _draw_pills(axes, block, left, y)
        y += _PILL_IN
    for line_idx, line in enumerate(item.lines):
        _write(axes, left, y + line_idx * _LINE_IN, line, size=_FACT_PT)


def _outline(item: _Placed, shift: float) -> list[tuple[float, float]]:
    left, right = item.x + shift, item.x + item.width + shift
    top, bottom = item.y + shift, item.y + item.height + shift
    inset = _slope(item.width) if item.block.kind == "fanout" else 0.0
    return [(left + inset, top), (right - inset, top), (right, bottom), (left, bottom)]


def _draw_pills(axes: Axes, block: Block, left: float, y: float) -> None:
    """One pill per tensor role that is kept: filled when it must be kept here."""
    x = left
    for role in block.keeps:
        x += _draw_pill(axes, x, y, role.value, is_filled=role in block.must_keep) + 0.06


def _draw_pill(axes: Axes, x: float, y: float, text: str, *, is_filled: bool) -> float:
    """Draw one pill and return its width."""
    from matplotlib.patches import FancyBboxPatch

    width = 0.16 + 0.066 * len(text)
    height = _PILL_IN - 0.08
    axes.add_patch(
        FancyBboxPatch(
            (x + 0.03, y + 0.03),
            width - 0.06,
            height - 0.06,
            boxstyle="round,pad=0.03,rounding_size=0.06",
            facecolor=INK if is_filled else "white",
            edgecolor=INK,
            linewidth=0.7,
            zorder=2,
        )
    )
    color = "white" if is_filled else INK
    _write(axes, x + width / 2, y + height / 2, text, size=7.0, anchor=("center", "center"), color=color)
    return width


def _draw_legend(axes: Axes, y: float) -> None:
    x = _SIDE_IN
    for text, is_filled in (("must be kept here", True), ("may be kept here", False)):
        x += _draw_pill(axes, x, y, "tensor", is_filled=is_filled) + 0.06
        _write(axes, x, y + 0.005, text, size=7.0, color=MUTED)
        x += 0.07 * len(text) + 0.1
    _write(axes, x, y + 0.005, "a tensor without a pill passes by; stacked outlines: repeated", size=7.0, color=MUTED)


def _write(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    size: float,
    is_bold: bool = False,
    anchor: tuple[_Horizontal, _Vertical] = ("left", "top"),
    color: str = INK,
) -> None:
    """Write text with its anchor at (x, y)."""
    from matplotlib.text import Text

    horizontal, vertical = anchor
    written = Text(
        x,
        y,
        text,
        fontsize=size,
        fontweight="bold" if is_bold else "normal",
        horizontalalignment=horizontal,
        verticalalignment=vertical,
        color=color,
        zorder=3,
        clip_on=False,
    )
    axes.add_artist(written)
