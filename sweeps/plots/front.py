"""What a Pareto figure or report needs to know of a sweep, free of any plotting package."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from .style import Caption, wants_log

MAX_LABELS = 8
MAX_PAIRED_OBJECTIVES = 4


class Standing(StrEnum):
    """Where a design point stands in the trade-off; an excluded one breaks a constraint of the sweep."""

    FRONT = "front"
    DOMINATED = "dominated"
    INFEASIBLE = "infeasible"
    EXCLUDED = "excluded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlotAxis:
    """One objective of the trade-off.

    Attributes:
        name: Column name with its unit, e.g. `energy_pj`.
        quantity: For people, e.g. `Energy per inference`.
        unit: Internal unit of the values, e.g. `pJ`.
        word: Within a sentence, e.g. `energy`.
        is_larger_better: Whether more is better, not less.
    """

    name: str
    quantity: str
    unit: str
    word: str
    is_larger_better: bool = False

    @property
    def sign(self) -> float:
        """Factor that makes less of a value better."""
        return -1.0 if self.is_larger_better else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignPoint:
    """One evaluated design.

    Attributes:
        id: The point's id in its store.
        standing: On the front, dominated, or without a usable answer.
        values: One per objective, in its internal unit; None where there is none.
        parameters: What was swept, name and value as the user wrote them.
        reason: Why it is infeasible, excluded or failed.
    """

    id: str
    standing: Standing
    values: tuple[float | None, ...]
    parameters: tuple[tuple[str, str], ...]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontPlot:
    """A trade-off to draw.

    Attributes:
        title: Claim or question.
        axes: Its objectives, at least two.
        points: All of them, in a fixed order.
        knee: Index of the front's knee among the points, if it has one.
        caption: For the foot of the figure.
    """

    title: str
    axes: tuple[PlotAxis, ...]
    points: tuple[DesignPoint, ...]
    knee: int | None
    caption: Caption

    def __post_init__(self) -> None:
        if len(self.axes) < 2:
            raise ValueError(f"a trade-off needs at least two objectives, got {len(self.axes)}")
        for point in self.points:
            if len(point.values) != len(self.axes):
                raise ValueError(f"point {point.id} has {len(point.values)} values for {len(self.axes)} objectives")
            if point.standing in (Standing.FRONT, Standing.DOMINATED) and None in point.values:
                raise ValueError(f"point {point.id} is {point.standing.value} but lacks a value")

    def indices(self, *standings: Standing) -> tuple[int, ...]:
        """Indices of the points that stand so, in order."""
        return tuple(i for i, point in enumerate(self.points) if point.standing in standings)

    def column(self, axis: int, indices: Sequence[int]) -> list[float]:
        """Values of one objective for points that have one."""
        values = (self.points[i].values[axis] for i in indices)
        return [v for v in values if v is not None]


def panels(num_axes: int) -> tuple[tuple[int, int], ...]:
    """Pairs of objectives that get a panel: all pairs, or the first against each other beyond four."""
    if num_axes <= MAX_PAIRED_OBJECTIVES:
        return tuple(combinations(range(num_axes), 2))
    return tuple((0, other) for other in range(1, num_axes))


def points_to_label(plot: FrontPlot, limit: int = MAX_LABELS) -> tuple[int, ...]:
    """Which points to name: the knee, the best of each objective, then those furthest from any named one.

    Args:
        plot: The trade-off.
        limit: Most points to name.
    """
    front = plot.indices(Standing.FRONT)
    place = dict(zip(front, _scaled(plot, front), strict=True))
    chosen = [] if plot.knee is None else [plot.knee]
    for axis in range(len(plot.axes)):
        best = min(front, key=lambda i: (place[i][axis], sum(place[i])), default=None)
        if best is not None and best not in chosen:
            chosen.append(best)
    rest = [i for i in front if i not in chosen]

    def novelty(index: int) -> float:
        return min((math.dist(place[index], place[c]) for c in chosen), default=1.0)

    while rest and len(chosen) < limit:
        furthest = max(rest, key=novelty)
        if novelty(furthest) == 0.0:  # only designs that coincide with a named one are left
            break
        chosen.append(furthest)
        rest.remove(furthest)
    return tuple(chosen[:limit])


def varying_parameters(points: Sequence[DesignPoint]) -> tuple[str, ...]:
    """Names of the parameters that differ between the points, in their given order."""
    seen: dict[str, set[str]] = {}
    for point in points:
        for name, value in point.parameters:
            seen.setdefault(name, set()).add(value)
    return tuple(name for name, values in seen.items() if len(values) > 1)


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Each dotted path cut to the fewest last segments that keep it apart from the others."""
    parts = [name.split(".") for name in names]

    def shortest(own: list[str]) -> str:
        for length in range(1, len(own) + 1):
            tail = own[-length:]
            if sum(other[-length:] == tail for other in parts) == 1:
                return ".".join(tail)
        return ".".join(own)

    return tuple(map(shortest, parts))


def design_label(point: DesignPoint, names: Sequence[str]) -> str:
    """The values of the named parameters of one design, for use beside its marker."""
    values = dict(point.parameters)
    return ", ".join(values[name] for name in names if name in values)


def stair(xy: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Corners of the line that parts what is reached from what is not, less being better in both.

    Args:
        xy: Points of any kind; those dominated in these two coordinates are left out.
    """
    corners: list[tuple[float, float]] = []
    best = math.inf
    for x, y in sorted(set(xy)):
        if y < best:
            if corners:
                corners.append((x, corners[-1][1]))
            corners.append((x, y))
            best = y
    return corners


def _scaled(plot: FrontPlot, front: Sequence[int]) -> list[tuple[float, ...]]:
    """Per front point its objectives scaled to 0 (best on the front) .. 1 (worst), as they will look."""
    columns: list[list[float]] = []
    for axis, objective in enumerate(plot.axes):
        raw = plot.column(axis, front)
        values = [objective.sign * (math.log(v) if wants_log(raw) else v) for v in raw]
        low, high = (min(values), max(values)) if values else (0.0, 0.0)
        columns.append([(v - low) / (high - low) if high > low else 0.0 for v in values])
    return list(zip(*columns, strict=True))
