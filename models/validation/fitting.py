"""Fits of named constants to measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...archdsl import MAX_CONSTANTS, ModelError, nearest_hint
from ..gpu.constants import Constant
from ..gpu.times import Floats
from .measured import Measurements
from .report import predicted_of
from .target import TargetT

Rows = npt.NDArray[np.bool_]
MAX_ROUNDS = 60
FIRST_STEP = 0.25
LAST_STEP = 0.002
SPREAD = 0.25
"""Steps of the search, as shares of a constant's range on a logarithmic scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Fitted constants.

    Attributes:
        constants: Value per constant.
        mape: Mean absolute error over the rows that were fitted [%].
        num_rows: Rows that were fitted.
    """

    constants: dict[str, float]
    mape: float
    num_rows: int


def fit_constants(
    tables: Sequence[Sequence[Measurements[TargetT]]], chip: TargetT, names: Sequence[str], num_starts: int = 6
) -> Fit:
    """Fit constants to those rows that are not held back, to the least mean absolute error in percent.

    The models choose tiles, so their errors have kinks; a pattern search over the logarithms of the constants, one after
    another with shrinking steps, needs no slopes and gives the same answer every time.

    Args:
        tables: What was measured, by table; each table counts alike, however many rows it has.
        chip: The chip or the system with the constants to start from.
        names: Constants to fit.
        num_starts: Places that the search starts from; the best end counts.

    Raises:
        ModelError: Unknown constants, more than twelve, or no rows.
    """
    known = chip.known_constants
    for name in names:
        if name not in known:
            raise ModelError(f"unknown constant '{name}'{nearest_hint(name, known)}")
    if len(names) > MAX_CONSTANTS:
        raise ModelError(f"{len(names)} constants; at most {MAX_CONSTANTS} may be fitted")
    kept = [[(one, ~one.held_back) for one in table] for table in tables]
    kept = [table for table in kept if any(rows.any() for _, rows in table)]
    num_rows = sum(int(rows.sum()) for table in kept for _, rows in table)
    if num_rows == 0:
        raise ModelError("no rows to fit: all are held back, as 30 % of the shapes are by a hash; measure more shapes")

    ranges = [known[name] for name in names]

    def error(position: Floats) -> float:
        trial = chip.with_constants(_constants_at(ranges, position))
        return float(np.mean([_mean_error(table, trial) for table in kept]))

    first = np.array([_position_of(one, chip.constants[one.name]) for one in ranges])
    # Kinks leave the search in side valleys, so it starts from several places, always the same ones.
    random = np.random.default_rng(len(names))
    starts = [first, *(np.clip(first + random.normal(0, SPREAD, len(names)), 0, 1) for _ in range(num_starts - 1))]
    found = [_search(error, start) for start in starts]
    position, best = min(found, key=lambda one: one[1])
    return Fit(constants=_constants_at(ranges, position), mape=100 * best, num_rows=num_rows)


def _mean_error(table: Sequence[tuple[Measurements[TargetT], Rows]], trial: TargetT) -> float:
    """Mean absolute error over the rows of a table that are fitted, as a share."""
    errors = [
        np.abs(predicted_of(one, one.kernels.times(trial))[rows] / one.values[rows] - 1)
        for one, rows in table
        if rows.any()
    ]
    return float(np.concatenate(errors).mean())


def _search(error: Callable[[Floats], float], position: Floats) -> tuple[Floats, float]:
    """The place that the search comes to from a start, and the error there."""
    best = error(position)
    step = FIRST_STEP
    for _ in range(MAX_ROUNDS):
        position, found = _pass_over(error, position, best, step)
        if found > best - 1e-5:
            step /= 2
        best = found
        if step < LAST_STEP:
            break
    return position, best


def _pass_over(error: Callable[[Floats], float], position: Floats, best: float, step: float) -> tuple[Floats, float]:
    """One step of each constant up or down where that helps, then the same move once more."""
    start = position
    for idx in range(len(position)):
        for move in (step, -step):
            trial = position.copy()
            trial[idx] = min(max(trial[idx] + move, 0.0), 1.0)
            found = error(trial)
            if found < best:
                position, best = trial, found
                break
    trial = np.clip(2 * position - start, 0.0, 1.0)
    found = error(trial)
    return (trial, found) if found < best else (position, best)


def _position_of(constant: Constant, value: float) -> float:
    """Place of a value within its constant's range, 0 to 1: on a logarithmic scale unless the range starts at 0."""
    low, high = constant.low, constant.high
    value = min(max(value, low), high)
    if low > 0:
        return math.log(value / low) / math.log(high / low)
    return (value - low) / (high - low)


def _constants_at(constants: Sequence[Constant], position: Floats) -> dict[str, float]:
    found: dict[str, float] = {}
    for constant, share in zip(constants, position, strict=True):
        low, high = constant.low, constant.high
        found[constant.name] = float(low * (high / low) ** share if low > 0 else low + (high - low) * share)
    return found
