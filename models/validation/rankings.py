"""How well a model ranks kernels that make one shape in many ways: what an autotuner asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..gpu.times import Floats
from .measured import is_held_back

if TYPE_CHECKING:
    from .report import ValidatedRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeRanking:
    """The ways to make one shape, ranked by a model and by measurement.

    Attributes:
        name: What was measured.
        label: The shape.
        n: Ways that were measured.
        is_held_back: Whether no fit may see the shape.
        rank_correlation: Spearman's, -1 to 1: that of the ranks of predicted and measured times, ties sharing theirs.
        regret_percent: Measured time of the model's first choice over that of the fastest way, less 1 [%].
        first_choice: The way that the model says is fastest.
        fastest: The way that was.
    """

    name: str
    label: str
    n: int
    is_held_back: bool
    rank_correlation: float
    regret_percent: float
    first_choice: str
    fastest: str


def rankings_of(rows: Sequence[ValidatedRow]) -> tuple[ShapeRanking, ...]:
    """One ranking per shape that was made in several ways, in the order of the rows."""
    by_shape: dict[tuple[str, str], list[ValidatedRow]] = {}
    for row in rows:
        by_shape.setdefault((row.name, row.label), []).append(row)
    return tuple(
        _ranking(ways) for ways in by_shape.values() if len({row.choice for row in ways}) > 1 and len(ways) > 2
    )


def rank_correlation(first: Floats, second: Floats) -> float:
    """Spearman's rank correlation, -1 to 1; ties share the mean of their ranks.

    Args:
        first: Values `[n]`, not all alike.
        second: Values `[n]`, not all alike.
    """
    return float(np.corrcoef(_ranks(first), _ranks(second))[0, 1])


def _ranking(ways: Sequence[ValidatedRow]) -> ShapeRanking:
    predicted = np.array([row.predicted for row in ways])
    measured = np.array([row.measured for row in ways])
    chosen, fastest = int(np.argmin(predicted)), int(np.argmin(measured))
    return ShapeRanking(
        name=ways[0].name,
        label=ways[0].label,
        n=len(ways),
        is_held_back=is_held_back(ways[0].label),
        rank_correlation=rank_correlation(predicted, measured),
        regret_percent=float(100 * (measured[chosen] / measured[fastest] - 1)),
        first_choice=ways[chosen].choice,
        fastest=ways[fastest].choice,
    )


def _ranks(values: Floats) -> Floats:
    """Rank of each value, from 1; ties share the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[places]
