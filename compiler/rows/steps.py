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
from collections.abc import Sequence
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
FINE_SHIFT = 11
"""A correction is a factor 1 + byte / 2^11."""


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


def put_bytes(highs: Sequence[str], low: str, shift: int = 8) -> tuple[Put | Term, ...]:
    """Puts sums as bytes, 2^shift * (the sum of the upper ones) + the lower one."""
    made: list[Put | Term] = []
    for high in highs:
        made += [Put(name=high, shift=shift), Term(source=high, scalar=-(1 << shift))]
    return (*made, Put(name=low))


def put_index(name: str, greatest: float, table: int) -> Put:
    """Looks sums up in a table whose `LEVELS` steps go from 0 to a greatest sum."""
    return put_scaled(name, LEVELS / greatest, zero_point=-128, table=table)


def put_correction(name: str, target: int, table: int) -> Put:
    """Looks up by how far sums are from a target, in steps of 2^-11 of it."""
    return put_scaled(name, (1 << FINE_SHIFT) / target, bias=-target, table=table)


def correction_table(exponent: float) -> Table:
    """By the deviation of a number from its target, in steps of 2^-11, the correction of its power."""
    deviation = np.arange(-128, MAX_BYTE + 1) / (1 << FINE_SHIFT)
    return as_table(((1 + deviation) ** exponent - 1) * (1 << FINE_SHIFT))


def as_table(values: Reals) -> Table:
    """The table of values by index from 0 to 255, where an index comes less 128."""
    return np.roll(np.clip(np.rint(values), -128, MAX_BYTE), 128).astype(np.int8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """How a coarse and a fine factor of a row become one factor, 256 * (a sum of upper bytes) + a lower byte.

    Only rows with a large factor need more than one upper byte; it makes steps finer for all others.

    Attributes:
        low_bits: Bits of the lower byte of their product.
        gain_bits: The factor is 2^gain_bits times their product, corrected.
        num_highs: Number of upper bytes.
    """

    low_bits: int
    gain_bits: int
    num_highs: int

    @staticmethod
    def of(greatest: float, num_highs: int = 1) -> Factors:
        """For products up to a greatest."""
        return Factors(
            low_bits=max(0, math.ceil(math.log2(greatest / MAX_BYTE))),
            gain_bits=max(0, math.floor(math.log2(num_highs * MAX_PAIR / greatest))),
            num_highs=num_highs,
        )

    def highs(self, name: str) -> tuple[str, ...]:
        """Names of the upper bytes of a factor."""
        return tuple(f"{name}.high{idx}" for idx in range(self.num_highs))

    def stages(self, coarse: str, fine: str, correction: str, name: str) -> Stages:
        """Puts the bytes of a factor: those of `highs`, and `name.low`."""
        low, gain = self.low_bits, self.gain_bits
        high, rest = f"{name}.product.high", f"{name}.product.low"
        corrected = [
            Term(source=high, scalar=1 << (low + gain)),
            Term(source=high, by=correction, shift=FINE_SHIFT - low - gain),
            Term(source=rest, scalar=1 << gain),
            Term(source=rest, by=correction, shift=FINE_SHIFT - gain),
        ]
        return (
            over_rows(Term(source=coarse, by=fine), *put_bytes((high,), rest, low)),
            over_rows(*corrected, *put_bytes(self.highs(name), f"{name}.low")),
        )
