"""Kernels that follow one another, as one batch: the sum of their times, with each kernel's share named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...archdsl import ModelError
from .chip import Chip
from .times import Kernels, KernelTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One place of a sequence.

    Attributes:
        name: What it does, e.g. `gate and up`; equal names add up.
        kernels: The kernel that each row of the sequence has in this place `[n]`.
        repeats: How often it runs.
    """

    name: str
    kernels: Kernels
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSequence:
    """Rows that each run the same list of steps, one kernel after another.

    Attributes:
        labels: One line per row that tells it from the others.
        steps: The steps, each with as many kernels as there are rows.

    Limits: no overlap between kernels (one stream, no programmatic launch); gaps between them are in the launch floor.
    """

    labels: tuple[str, ...]
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        for step in self.steps:
            if len(step.kernels) != len(self.labels):
                raise ModelError(
                    f"step '{step.name}' has {len(step.kernels)} kernels; the sequence has {len(self)} rows"
                )

    def __len__(self) -> int:
        return len(self.labels)

    def label(self, idx: int) -> str:
        """The row's label."""
        return self.labels[idx]

    @property
    def num_kernels(self) -> int:
        """Kernels of one row."""
        return sum(step.repeats for step in self.steps)

    def times(self, chip: Chip) -> KernelTimes:
        """The sum over the steps.

        Raises:
            ModelError: As the kernels' own.
        """
        results = [(step, step.kernels.times(chip)) for step in self.steps]
        serial: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        for step, times in results:
            before = serial.get(step.name, np.zeros(len(self)))
            serial[step.name] = before + step.repeats * times.time_s
        shares = np.array([step.repeats * times.time_s for step, times in results])
        regimes = np.array([times.regime for _, times in results])
        notes = dict.fromkeys(note for _, times in results for note in times.notes)
        return KernelTimes(
            serial_s=serial,
            regime=regimes[shares.argmax(axis=0), np.arange(len(self))],
            ops=_sum([step.repeats * times.ops for step, times in results]),
            main_memory_bytes=_sum([step.repeats * times.main_memory_bytes for step, times in results]),
            energy_j=_energy(results),
            notes=tuple(notes),
        )


def _sum(
    columns: Sequence[np.ndarray[tuple[int], np.dtype[np.float64]]],
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.sum(columns, axis=0)


def _energy(results: Sequence[tuple[Step, KernelTimes]]) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Energy of the sequence; None when a step has none."""
    found = [step.repeats * times.energy_j for step, times in results if times.energy_j is not None]
    return _sum(found) if len(found) == len(results) else None
