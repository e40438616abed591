"""Numbers with units, where the field that they belong to is not known beforehand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, Literal

from ..archdsl import Dimension, units

BandwidthUnit = Literal["bytes/cycle", "bytes/s"]
"""Canonical units of bandwidths: per cycle of an architecture's clock, or per second where chips have clocks of their own."""

_NUMBER_AND_UNIT: Final = re.compile(r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z][A-Za-z0-9/]*)")
_DIMENSIONS: Final[tuple[tuple[Dimension, str], ...]] = (
    (units.BYTES, "bytes"),
    (units.BITS, "bits"),
    (units.CYCLES, "cycles"),
    (units.CLOCK, "Hz"),
    (units.NODE, "nm"),
    (units.VOLTAGE, "V"),
    (units.AREA, "mm^2"),
    (units.ENERGY_PER_BYTE, "pJ/byte"),
    (units.ENERGY, "pJ"),
    (units.POWER, "W"),
    (units.TIME, "s"),
    (units.RATE, "op/s"),
    (units.PER_CYCLE, "bytes/cycle"),
    (units.PER_SECOND, "bytes/s"),
)
KNOWN_UNITS: Final[tuple[str, ...]] = tuple(unit for dimension, _ in _DIMENSIONS for unit in dimension.units)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number with a unit.

    Attributes:
        amount: The number as written, exactly.
        unit: The unit as written.
        dimension: What kind of quantity the unit belongs to.
        canonical_unit: Unit of `value`.
    """

    amount: Decimal
    unit: str
    dimension: Dimension
    canonical_unit: str

    @property
    def scale(self) -> Decimal:
        """Canonical units in one written unit."""
        return self.dimension.units[self.unit]

    @property
    def value(self) -> float:
        """The amount in its canonical unit."""
        return float(self.amount * self.scale)


def parse_quantity(text: str) -> Quantity | None:
    """A number with a known unit, or None when the text is something else."""
    found = _NUMBER_AND_UNIT.fullmatch(text.strip())
    if found is None:
        return None
    for dimension, canonical_unit in _DIMENSIONS:
        if found[2] in dimension.units:
            return Quantity(Decimal(found[1]), found[2], dimension, canonical_unit)
    return None


def decimal_text(amount: Decimal) -> str:
    """A number in plain digits, without trailing zeros."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
