"""Errors of a model against measurements, whole and by regime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...archdsl import ModelError
from ..gpu.chip import Chip
from ..gpu.times import REGIMES, Floats, KernelTimes
from ..parts import Part
from .measured import Measurements
from .rankings import ShapeRanking, rankings_of
from .target import Target, TargetT

Rows = Literal["all", "held_back", "fitted"]
SMALL_LAUNCHES = 10
"""A kernel is small when it was measured to last less than so many times an empty one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """How far predictions are from measurements; all but `n` in percent of the measured value.

    Attributes:
        n: Rows compared.
        mape: Mean absolute error.
        median_ape: Median absolute error.
        p90_ape: Nine in ten absolute errors are at most this.
        signed_bias: Mean error; above 0 the model says too much.
    """

    n: int
    mape: float
    median_ape: float
    p90_ape: float
    signed_bias: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatedRow:
    """One measurement and what the model says of it.

    Attributes:
        name: What was measured.
        line: 1-based line in the file.
        label: The shape.
        measured: Measured value, in the quantity's unit.
        predicted: Predicted value.
        regime: What limits it, as the model sees it.
        is_small: Whether it lasts but a few launches.
        choice: How the kernel is made, as the model sees it.
        reasoning: The predicted time as a tree; None for other quantities.
    """

    name: str
    line: int
    label: str
    measured: float
    predicted: float
    regime: str
    is_small: bool
    choice: str
    reasoning: Part | None

    @property
    def error_percent(self) -> float:
        """Signed error [%]."""
        return 100 * (self.predicted / self.measured - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """All rows of a table against a model.

    Attributes:
        rows: The rows, as in the file.
        notes: Approximations and borrowed constants.
    """

    rows: tuple[ValidatedRow, ...]
    notes: tuple[str, ...]

    @property
    def overall(self) -> ErrorSummary:
        """Over all rows."""
        return summary_of(self.rows)

    def by_regime(self) -> dict[str, ErrorSummary]:
        """By what limits a kernel, and by its size."""
        found: dict[str, ErrorSummary] = {}
        for regime in REGIMES:
            if rows := [row for row in self.rows if row.regime == regime]:
                found[regime] = summary_of(rows)
        for name, is_small in (("small", True), ("large", False)):
            if rows := [row for row in self.rows if row.is_small == is_small]:
                found[name] = summary_of(rows)
        return found

    def by_name(self) -> dict[str, ErrorSummary]:
        """By what was measured."""
        names = dict.fromkeys(row.name for row in self.rows)
        return {name: summary_of([row for row in self.rows if row.name == name]) for name in names}

    def rankings(self) -> tuple[ShapeRanking, ...]:
        """How well ways to make one shape are ranked, per shape; empty where each was made in one way."""
        return rankings_of(self.rows)

    def worst(self, num_rows: int = 10) -> tuple[ValidatedRow, ...]:
        """The rows with the largest absolute errors, the worst first."""
        return tuple(sorted(self.rows, key=lambda row: -abs(row.error_percent))[:num_rows])


def summary_of(rows: Sequence[ValidatedRow]) -> ErrorSummary:
    """Errors of some rows."""
    errors = np.array([row.error_percent for row in rows])
    sizes = np.abs(errors)
    return ErrorSummary(
        n=len(rows),
        mape=float(sizes.mean()),
        median_ape=float(np.median(sizes)),
        p90_ape=float(np.percentile(sizes, 90)),
        signed_bias=float(errors.mean()),
    )


def validate(measurements: Sequence[Measurements[TargetT]], chip: TargetT, rows: Rows = "all") -> Validation:
    """Compare a model with measurements.

    Args:
        measurements: What was measured.
        chip: The chip or the system, with the constants of its mode.
        rows: Which rows count: all, those that no fit may see, or the others.

    Raises:
        ModelError: No row is left, or the chip cannot run a kernel.
    """
    found: list[ValidatedRow] = []
    notes: dict[str, None] = dict.fromkeys(chip.notes)
    for one in measurements:
        times = one.kernels.times(chip)
        predicted = predicted_of(one, times)
        notes |= dict.fromkeys(times.notes)
        notes |= dict.fromkeys(_beyond_peak(one, times, chip))
        held_back = one.held_back
        for idx in range(len(one.kernels)):
            if rows == "all" or (rows == "held_back") == bool(held_back[idx]):
                found.append(_row(one, times, predicted, idx, chip))
    if not found:
        raise ModelError(f"no rows are left: none of the {sum(len(one.kernels) for one in measurements)} is '{rows}'")
    return Validation(rows=tuple(found), notes=tuple(notes))


def predicted_of(measured: Measurements[TargetT], times: KernelTimes) -> Floats:
    """The model's value of the quantity that was measured.

    Raises:
        ModelError: The model gives no such value.
    """
    if measured.quantity == "time_s":
        return times.time_s
    if times.energy_j is None:
        raise ModelError(f"{measured.name}: the model gives no energy for these kernels")
    return times.energy_j


def _beyond_peak(one: Measurements[TargetT], times: KernelTimes, chip: Target) -> tuple[str, ...]:
    """What to say of measurements that no chip like it can reach: their shapes or datatypes are not what the table says."""
    if not isinstance(chip, Chip) or one.quantity != "time_s":
        return ()
    num_rows = int((one.values < times.main_memory_bytes / chip.memory_bytes_per_s).sum())
    if num_rows == 0:
        return ()
    said = f"{num_rows} of {len(one.kernels)} rows were measured faster than main memory's peak moves what misses the cache"
    return (f"{one.name}: {said}",)


def _row(one: Measurements[TargetT], times: KernelTimes, predicted: Floats, idx: int, chip: Target) -> ValidatedRow:
    return ValidatedRow(
        name=one.name,
        line=int(one.lines[idx]),
        label=one.kernels.label(idx),
        measured=float(one.values[idx]),
        predicted=float(predicted[idx]),
        regime=REGIMES[int(times.regime[idx])],
        is_small=bool(times.time_s[idx] < SMALL_LAUNCHES * chip.launch_s),
        choice=times.choices[idx] if times.choices else "",
        reasoning=times.part(idx) if one.quantity == "time_s" else None,
    )
