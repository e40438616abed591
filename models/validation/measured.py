"""Measured times or energies of kernels, and which of them are held back from every fit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Generic, Literal

import numpy as np

from ..gpu.times import Floats, Ints
from .target import Measurable, TargetT

Quantity = Literal["time_s", "energy_j"]
HELD_BACK_PERCENT = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements(Generic[TargetT]):
    """Measurements of one batch of kernels.

    Attributes:
        name: What was measured, e.g. `gemm bf16`; validations are grouped by it.
        kernels: The kernels, or the collectives.
        quantity: What was measured of them.
        values: Measured values `[n]`, in the unit that `quantity` says.
        lines: 1-based line of each in its file `[n]`.
    """

    name: str
    kernels: Measurable[TargetT]
    quantity: Quantity
    values: Floats
    lines: Ints

    @property
    def held_back(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which rows no fit may see `[n]`."""
        labels = [self.kernels.label(idx) for idx in range(len(self.kernels))]
        return np.array([is_held_back(label) for label in labels], dtype=np.bool_)


def is_held_back(label: str) -> bool:
    """Whether a shape is held back from fits, by a hash of its label: equal shapes are on the same side."""
    return int(hashlib.sha256(label.encode()).hexdigest(), 16) % 100 < HELD_BACK_PERCENT


def file_digest(content: bytes) -> str:
    """What a calibration keeps of a file of measurements."""
    return hashlib.sha256(content).hexdigest()[:16]
