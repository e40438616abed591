"""Counting conventions: published tools differ in five choices, named here as switches."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Convention:
    """How accesses are charged where published tools disagree (see docs/counting.md).

    Attributes:
        name: Name of the preset, or of the user's own choice.
        register_reads: Inputs and weights are read from their innermost holder at every use by the compute
            unit, or only when the operand changes (operand latches at the compute unit).
        first_accumulation_reads: Where an output is accumulated in several goes, its first go too reads a
            partial sum (a zero) at every level on the way.
        final_drain_is_read: Moving finished outputs out of a level is charged as a read of it.
        partial_sum_refills: A partial sum that returns to a reduction group is written into one instance of
            the group, or into every one that goes on with it.
        partial_sums: Sums that are not finished have the width of the accumulator that the architecture states, or
            that of the stored output.
    """

    name: str
    register_reads: Literal["per_use", "per_refill"] = "per_use"
    first_accumulation_reads: bool = False
    final_drain_is_read: bool = True
    partial_sum_refills: Literal["one", "every"] = "one"
    partial_sums: Literal["accumulator", "output"] = "accumulator"


CONVENTIONS = MappingProxyType(
    {
        "tileloom": Convention(name="tileloom"),
        "accelforge": Convention(name="accelforge", partial_sum_refills="every", partial_sums="output"),
        "zigzag": Convention(
            name="zigzag",
            register_reads="per_refill",
            first_accumulation_reads=True,
            partial_sum_refills="every",
            partial_sums="output",
        ),
        "timeloop": Convention(name="timeloop", final_drain_is_read=False, partial_sums="output"),
    }
)
"""Presets by name. `tileloom` charges what moves: every use, no read of a zero, every drain, sums as wide as they are."""
