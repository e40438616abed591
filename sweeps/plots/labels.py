"""Put labels beside points so that none covers another, a marker or the frame."""
# pyright: reportUnknownMemberType=false
# matplotlib leaves its **kwargs without a type, which makes each of its drawing methods "partially unknown".

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from .style import INK, MUTED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.transforms import Bbox

Pixels = tuple[float, float]

_DISTANCES_PT: Final = (7.0, 16.0, 28.0, 42.0, 60.0)
_SIDES: Final = ((-1, -1), (-1, 0), (0, -1), (1, 1), (1, 0), (1, -1), (-1, 1), (0, 1))
_GAP_PX: Final = 3.0
_MARKER_PX: Final = 5.0
_FORBIDDEN: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A label to place.

    Attributes:
        x: Data coordinate of its point.
        y: Data coordinate of its point.
        text: What to write.
        is_bold: Whether it stands out (the knee).
        radius_pt: Radius of its marker beyond a small one, in points.
    """

    x: float
    y: float
    text: str
    is_bold: bool = False
    radius_pt: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacles:
    """What labels keep off, in data coordinates.

    Attributes:
        markers: Markers that no label may cover.
        radii_pt: Radius of each of them beyond a small one, in points; none given means small ones.
        faint_markers: Markers that are better left uncovered.
        line: Corners of a line of level and upright pieces that is better left uncovered.
    """

    markers: Sequence[tuple[float, float]] = ()
    radii_pt: Sequence[float] = ()
    faint_markers: Sequence[tuple[float, float]] = ()
    line: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """An offset from the marker in points, with the cost of being far or on the crowded upper right."""

    x_pt: float
    y_pt: float
    cost: float
    is_near: bool

    def pushed_out(self, radius_pt: float) -> _Place:
        """The same place seen from the rim of a larger marker."""
        length = math.hypot(self.x_pt, self.y_pt)
        grow = (length + radius_pt) / length
        return replace(self, x_pt=self.x_pt * grow, y_pt=self.y_pt * grow)

    @property
    def alignment(self) -> tuple[str, str]:
        x, y = self.x_pt, self.y_pt
        return (
            "left" if x > 0 else "right" if x < 0 else "center",
            "bottom" if y > 0 else "top" if y < 0 else "center",
        )


def place_labels(
    axes: Axes,
    labels: Sequence[Label],
    obstacles: Obstacles,
    *,
    font_size_pt: float = 7.0,
    reach_pt: float = math.inf,
) -> int:
    """Place labels in order of importance; one for which there is no room is left out.

    Limits and layout must be final (draw the figure once before).

    Args:
        axes: Where to write.
        labels: Most important first.
        obstacles: What to keep off.
        font_size_pt: Size of the text in points.
        reach_pt: Furthest that a label may be from its marker, in points.

    Returns:
        How many found room.
    """
    frame = axes.get_window_extent()
    px_per_pt = axes.get_figure(root=True).get_dpi() / 72  # pyright: ignore[reportOptionalMemberAccess]  drawn axes have a figure
    radii_pt = obstacles.radii_pt or [0.0] * len(obstacles.markers)
    pixels = _Pixels(
        frame=frame,
        markers=_to_pixels(axes, obstacles.markers),
        clearances=[_MARKER_PX + radius_pt * px_per_pt for radius_pt in radii_pt],
        faint_markers=_to_pixels(axes, obstacles.faint_markers),
        line=_to_pixels(axes, obstacles.line),
    )
    taken: list[Bbox] = []
    for label in labels:
        ((x, y),) = _to_pixels(axes, [(label.x, label.y)])
        size = _measure(axes, label, font_size_pt)
        places = [p.pushed_out(label.radius_pt) for p in _PLACES if math.hypot(p.x_pt, p.y_pt) <= reach_pt]
        boxes = [(place, _box((x, y), size, place, px_per_pt)) for place in places]
        costs = [place.cost + _cost(box, pixels, taken) for place, box in boxes]
        best = min(range(len(boxes)), key=costs.__getitem__)
        if costs[best] >= _FORBIDDEN:
            continue
        taken.append(boxes[best][1])
        _write(axes, label, boxes[best][0], font_size_pt)
    return len(taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pixels:
    frame: Bbox
    markers: Sequence[Pixels]
    clearances: Sequence[float]
    faint_markers: Sequence[Pixels]
    line: Sequence[Pixels]


def _places() -> tuple[_Place, ...]:
    found: list[_Place] = []
    for distance in _DISTANCES_PT:
        for x, y in _SIDES:
            length = distance * (0.75 if x and y else 1.0)
            found.append(
                _Place(
                    x_pt=x * length,
                    y_pt=y * length,
                    cost=distance * 0.6 + 3.0 * ((x > 0) + (y > 0)),
                    is_near=distance == _DISTANCES_PT[0],
                )
            )
    return tuple(found)


_PLACES: Final = _places()


def _to_pixels(axes: Axes, xy: Sequence[tuple[float, float]]) -> list[Pixels]:
    return [(x, y) for x, y in axes.transData.transform(list(xy)).tolist()] if xy else []


def _measure(axes: Axes, label: Label, size_pt: float) -> Pixels:
    """Width and height of the words."""
    text = axes.text(label.x, label.y, label.text, fontsize=size_pt, weight="bold" if label.is_bold else "normal")
    extent = text.get_window_extent()
    text.remove()
    return extent.width, extent.height


def _box(at: Pixels, size: Pixels, place: _Place, px_per_pt: float) -> Bbox:
    from matplotlib.transforms import Bbox

    shift = {"left": 0.0, "bottom": 0.0, "center": 0.5, "right": 1.0, "top": 1.0}
    horizontal, vertical = place.alignment
    x0 = at[0] + place.x_pt * px_per_pt - shift[horizontal] * size[0]
    y0 = at[1] + place.y_pt * px_per_pt - shift[vertical] * size[1]
    return Bbox.from_bounds(x0, y0, *size).padded(_GAP_PX)


def _write(axes: Axes, label: Label, place: _Place, size_pt: float) -> None:
    from matplotlib.patheffects import withStroke

    leader: dict[str, Any] = {"arrowstyle": "-", "color": MUTED, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 3}
    horizontal, vertical = place.alignment
    axes.annotate(
        label.text,
        xy=(label.x, label.y),
        xytext=(place.x_pt, place.y_pt),
        textcoords="offset points",
        fontsize=size_pt,
        weight="bold" if label.is_bold else "normal",
        color=INK,
        ha=horizontal,
        va=vertical,
        arrowprops=None if place.is_near else leader,
        path_effects=[withStroke(linewidth=2.0, foreground="white")],
        zorder=6,
    )


def _cost(box: Bbox, pixels: _Pixels, taken: Sequence[Bbox]) -> float:
    frame = pixels.frame
    if box.x0 < frame.x0 or box.x1 > frame.x1 or box.y0 < frame.y0 or box.y1 > frame.y1:
        return _FORBIDDEN
    if any(box.overlaps(other) for other in taken):
        return _FORBIDDEN
    if any(_is_near(box, at, far) for at, far in zip(pixels.markers, pixels.clearances, strict=True)):
        return _FORBIDDEN
    crossed = sum(_crosses(box, a, b) for a, b in pairwise(pixels.line))
    return 3.0 * sum(box.contains(x, y) for x, y in pixels.faint_markers) + 20.0 * crossed


def _is_near(box: Bbox, at: Pixels, far: float) -> bool:
    """Whether a marker's middle is closer to the box than its clearance."""
    return box.x0 - far < at[0] < box.x1 + far and box.y0 - far < at[1] < box.y1 + far


def _crosses(box: Bbox, a: Pixels, b: Pixels) -> bool:
    """Whether a level or upright piece of line touches the box."""
    (x0, x1), (y0, y1) = sorted((a[0], b[0])), sorted((a[1], b[1]))
    return x0 <= box.x1 and x1 >= box.x0 and y0 <= box.y1 and y1 >= box.y0
