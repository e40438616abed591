"""What a batch of kernels costs: columns of times with named parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..parts import Part, max_of, sum_of
from .chip import Chip

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Regime = Literal["compute", "memory", "latency"]
REGIMES: tuple[Regime, ...] = ("compute", "memory", "latency")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTimes:
    """Times of a batch of kernels on one chip.

    Attributes:
        serial_s: Parts that follow one another, by name, each `[n]` [s]; their sum is the time.
        overlapped_s: What runs at once within a serial part, by that part's name: it lasts as long as the longest [s].
        regime: What limits each kernel, an index into `REGIMES`, `[n]`.
        ops: Useful arithmetic, 2 per multiply-accumulate, `[n]`.
        main_memory_bytes: Bytes to and from main memory, `[n]`.
        choices: How each kernel is made (tile, split, waves), for reports, `[n]`; empty when there is no choice.
        energy_j: Energy of one run `[n]` [J]; None where the model gives none.
        notes: Approximations that were made.
    """

    serial_s: Mapping[str, Floats]
    overlapped_s: Mapping[str, Mapping[str, Floats]] = field(default_factory=dict[str, Mapping[str, Floats]])
    regime: Ints
    ops: Floats
    main_memory_bytes: Floats
    choices: tuple[str, ...] = ()
    energy_j: Floats | None = None
    notes: tuple[str, ...] = ()

    @property
    def time_s(self) -> Floats:
        """Time of each kernel `[n]` [s]."""
        # One after another: `np.sum` adds a batch of one in another order than a longer one.
        total = np.zeros(len(self.regime))
        for column in self.serial_s.values():
            total = total + column
        return total

    def part(self, idx: int) -> Part:
        """Time of one kernel as a tree [s]."""
        parts: list[Part] = []
        for name, column in self.serial_s.items():
            inside = self.overlapped_s.get(name, {})
            leaves = [Part(name=key, amount=float(values[idx]), unit="s") for key, values in inside.items()]
            whole = float(column[idx])
            parts.append(max_of(name, "s", leaves) if leaves else Part(name=name, amount=whole, unit="s"))
        return sum_of("time", "s", parts)


class Kernels(Protocol):
    """A batch of kernels of one family and datatype; shapes are columns."""

    def __len__(self) -> int: ...

    def label(self, idx: int) -> str:
        """One kernel's shape on one line; equal shapes have equal labels."""
        ...

    def times(self, chip: Chip) -> KernelTimes:
        """What each kernel costs.

        Raises:
            ModelError: The chip cannot run them, e.g. for want of the datatype.
        """
        ...
