"""What the vector unit does to rows of a tensor [rows, C]: steps of which interpreter and kernels make the same integers.

Values have names. `input` and what a stage over channels puts are int8, [rows, C]; what a stage over rows puts has one int8
per row, or one word of 32 bits. A stage adds terms to sums of 32 bits, [rows, C] or [rows], and puts what they hold at a
point of its actions: bytes requantised as `qnn` says, perhaps looked up in a table; words as they are.

Products are divided by two to a shift and rounded before they are added, since the vector unit multiplies by bytes and never
by two to something that differs from row to row. So reciprocals and roots, which need a wide range and a fine step, are made
of three lookups: a coarse factor, a fine factor for what the first one leaves, and a small correction of their product.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..quantisation.scaling import multiplier_and_shift

Reals = npt.NDArray[np.float64]
Table = npt.NDArray[np.int8]
INPUT, OUTPUT = "input", "output"
LEVELS = 255
"""Greatest index of a table, counted from 0."""
MAX_BYTE = 127
MAX_PAIR = 256 * MAX_BYTE + MAX_BYTE
"""Of a number in two bytes: 256 * high + low."""
SAMPLES = 1 << 14
"""Points at which deviations are looked for."""
LEAST_DEVIATION, MOST_DEVIATION = 1 / 128, 1 / 16
"""Of what a correction is looked up by: less makes nothing better, and more has too few steps."""
MOST_SHIFT = 13
"""Of corrections; finer ones make nothing better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """source * (scalar or another value) / 2^shift, rounded, which sums are added to, or are the greater of.

    Attributes:
        source: Name of a value.
        scalar: Factor of 16 bits, where there is no other.
        by: Name of the factor: a byte per row, or the source itself.
        shift: 0 to 31.
        operation: How it is combined with the sums. A stage over rows combines all channels of a source that has channels.
    """

    source: str
    scalar: int = 1
    by: str | None = None
    shift: int = 0
    operation: Literal["add", "maximum"] = "add"


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """Names a value: what the sums hold.

    Attributes:
        name: Its name; `output` is requantised by the op's own constants.
        is_word: Whether it is the sum as it is.
        bias, multiplier, shift, zero_point: How a byte is made.
        table: Index of the op's table in which the byte is looked up; None for none.
    """

    name: str
    is_word: bool = False
    bias: int = 0
    multiplier: int = 1
    shift: int = 0
    zero_point: int = 0
    table: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Sums and what is done with them, in order; the first term replaces what they held.

    Attributes:
        has_channels: Whether there is a sum per channel.
        actions: Terms and puts.
    """

    has_channels: bool
    actions: tuple[Term | Put, ...]


Stages: TypeAlias = tuple[Stage, ...]


def over_rows(*actions: Term | Put) -> Stage:
    """A stage with a sum per row."""
    return Stage(has_channels=False, actions=actions)


def over_channels(*actions: Term | Put) -> Stage:
    """A stage with a sum per channel."""
    return Stage(has_channels=True, actions=actions)


def put_scaled(
    name: str, ratio: float, *, bias: int = 0, zero_point: int = 0, table: int | None = None
) -> Put:  # fmt: skip
    """Puts the sums, after a bias, times a ratio of either sign."""
    multiplier, shift = multiplier_and_shift(abs(ratio))
    signed = -multiplier if ratio < 0 else multiplier
    return Put(name=name, bias=bias, multiplier=signed, shift=shift, zero_point=zero_point, table=table)


def put_bytes(high: str, low: str, shift: int = 8) -> tuple[Put, Term, Put]:
    """Puts sums as two bytes, 2^shift * high + low."""
    return Put(name=high, shift=shift), Term(source=high, scalar=-(1 << shift)), Put(name=low)


def put_parts(upper: str, lower: str) -> tuple[Put, Term, Put]:
    """Puts sums from -32512 to 32511 as two bytes, lower - 256 * upper, exactly.

    Ties must not round down, or the lower byte would be 128: so what is rounded is positive, and a little more than it is.
    """
    more = Put(name=upper, bias=256 * MAX_BYTE, multiplier=-(1 << 20) - 1, shift=28, zero_point=MAX_BYTE)
    return more, Term(source=upper, scalar=256), Put(name=lower)


def put_index(name: str, greatest: float, table: int) -> Put:
    """Looks sums up in a table whose `LEVELS` steps go from 0 to a greatest sum."""
    return put_scaled(name, LEVELS / greatest, zero_point=-128, table=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A factor 1 + byte / 2^shift that is looked up by how far a number is from a target: the deviation's power.

    Attributes:
        deviation: The greatest, of the target.
        exponent: Of the power.
    """

    deviation: float
    exponent: float

    @staticmethod
    def of(reached: Reals, exponent: float) -> Correction:
        """For numbers, as parts of the target."""
        deviation = float(np.clip(np.abs(reached - 1).max(), LEAST_DEVIATION, MOST_DEVIATION))
        return Correction(deviation=deviation, exponent=exponent)

    @property
    def shift(self) -> int:
        """Bits behind the point of a correction."""
        return min(MOST_SHIFT, math.floor(math.log2(MAX_BYTE / (self.deviation * abs(self.exponent)))))

    @property
    def _index_shift(self) -> int:
        return math.floor(math.log2(MAX_BYTE / self.deviation))

    @property
    def table(self) -> Table:
        """By the deviation."""
        deviation = np.arange(-128, MAX_BYTE + 1) / (1 << self._index_shift)
        return as_table(((1 + deviation) ** self.exponent - 1) * (1 << self.shift))

    def put(self, name: str, target: int, table: int) -> Put:
        """Looks a correction up by sums."""
        return put_scaled(name, (1 << self._index_shift) / target, bias=-target, table=table)


def as_table(values: Reals) -> Table:
    """The table of values by index from 0 to 255, where an index comes less 128."""
    return np.roll(np.clip(np.rint(values), -128, MAX_BYTE), 128).astype(np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """How a coarse and a fine factor of a row become one factor of two bytes, 256 * high + low.

    Attributes:
        low_bits: Bits of the lower byte of their product.
        gain_bits: The factor is 2^gain_bits times their product, corrected.
    """

    low_bits: int
    gain_bits: int

    @staticmethod
    def of(greatest: float) -> Factors:
        """For products up to a greatest."""
        return Factors(
            low_bits=max(0, math.ceil(math.log2(greatest / MAX_BYTE))),
            gain_bits=max(0, math.floor(math.log2(MAX_PAIR / greatest))),
        )

    def stages(self, coarse: str, fine: str, correction: str, shift: int, name: str) -> Stages:
        """Puts the bytes of a factor, `name.high` and `name.low`; corrections have so many bits behind the point."""
        low, gain = self.low_bits, self.gain_bits
        high, rest = f"{name}.product.high", f"{name}.product.low"
        corrected = [
            Term(source=high, scalar=1 << (low + gain)),
            Term(source=high, by=correction, shift=shift - low - gain),
            Term(source=rest, scalar=1 << gain),
            Term(source=rest, by=correction, shift=shift - gain),
        ]
        return (
            over_rows(Term(source=coarse, by=fine), *put_bytes(high, rest, low)),
            over_rows(*corrected, *put_bytes(f"{name}.high", f"{name}.low")),
        )
