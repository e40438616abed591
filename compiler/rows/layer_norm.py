"""Layer normalisation over the last axis in integers.

Scale and zero point of the input do not matter, but for epsilon. So each row is first centred at the middle of its range and
multiplied by the greatest integer with which it still fits a byte: q' = (q - c) * p, exactly, whose deviation is neither small
nor beyond a byte. Sum and sum of squares of q' are exact, and so is C times the variance, to the square of the mean's fraction.
Its inverse square root is a coarse factor looked up by C * variance, a fine one looked up by C * variance * coarse^2, and a
correction looked up by how far C * variance * (coarse * fine)^2 is from where it should be. The row times the root, less the mean
times the root, is requantised with gain and bias of each channel.

Source: sums about a shifted mean as in Chan, Golub and LeVeque, "Algorithms for computing the sample variance", The American
Statistician 37, 1983; normalisation in integers as in Kim et al., "I-BERT", ICML 2021, here with tables in place of iterations.

Limits: rows of up to 1024 channels are within 0.12 steps (of 0.03) of the result before it is rounded, and typically within 0.005. In
longer ones of which one element is far from all others, roots become coarse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..quantisation.scaling import multiplier_and_shift
from .steps import (
    INPUT,
    LEVELS,
    MAX_BYTE,
    OUTPUT,
    SAMPLES,
    Correction,
    Put,
    Reals,
    Stages,
    Term,
    as_table,
    over_channels,
    over_rows,
    put_bytes,
    put_index,
    put_parts,
    put_scaled,
)

GROWTH, COARSE, COARSE_SQUARE, FINE, CORRECTION = range(5)
MAX_SPREAD = (1 << 15) - 1
"""Of C * (1 + epsilon), so that no sum of a row wraps."""
_MOST_COARSE = 11
"""The greatest integer whose square is a byte."""
_LEAST_HALF_RANGE = 63
"""Of a row that was made to fill a byte."""
_SCALAR_BITS = 15
_SQUARE_BITS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Root:
    """Tables of the inverse root of C * variance, in units of what `LEVELS` steps stand for.

    Attributes:
        greatest: C * variance that `LEVELS` steps stand for.
        coarse: By index of C * variance.
        fine: By index of C * variance * coarse^2.
        base: coarse * fine is near to `base` * sqrt(greatest / (C * variance)).
        shift: By which products with the fine factor are divided, each.
        correction: Of what they are not.
    """

    greatest: float
    coarse: Reals
    fine: Reals
    base: int
    shift: int
    correction: Correction

    @property
    def target(self) -> int:
        """C * variance * (coarse * fine)^2, divided by two to both shifts, is near to it."""
        return round(self.greatest * self.base**2 / 4.0**self.shift)


def _root(channels: int, epsilon: float) -> _Root:
    greatest = channels * MAX_BYTE**2 * (1 + epsilon)
    least = min(channels * MAX_BYTE**2, 2 * _LEAST_HALF_RANGE**2) / greatest * LEVELS
    index = np.arange(LEVELS + 1)
    lower, upper = np.clip(index - 0.5, least, LEVELS), np.clip(index + 0.5, least, LEVELS)
    coarse = np.clip(np.floor(np.sqrt(LEVELS / upper)), 1, _MOST_COARSE)
    base = max(1, int(MAX_BYTE * np.sqrt(np.min(lower * coarse**2) / LEVELS)))
    fine = np.clip(np.rint(base * np.sqrt(LEVELS / np.maximum(index, 1))), 1, MAX_BYTE)
    shift = max(0, math.ceil((math.log2(greatest * MAX_BYTE**2) - _SQUARE_BITS) / 2))
    squares = np.linspace(np.min(lower * coarse**2), LEVELS, SAMPLES)
    reached = squares * fine[np.rint(squares).astype(np.int64)] ** 2 / (base**2 * LEVELS)
    return _Root(
        greatest=greatest, coarse=coarse, fine=fine, base=base, shift=shift, correction=Correction.of(reached, -0.5)
    )


_PRODUCT_BITS = 4
"""Of the lower byte of the product of coarse and fine factor, which is up to 11 * 127."""
_GAIN_BITS = 10
"""The root has steps so much finer than the product, and 21 bits."""


def layer_norm_tables(channels: int, epsilon: float) -> npt.NDArray[np.int8]:
    """The op's tables, [5, 256].

    Args:
        channels: Of a row.
        epsilon: What is added to the variance, in squares of input steps.
    """
    half_range = np.maximum(np.ceil(np.arange(LEVELS + 1) / 2), 1)
    growth = np.clip(np.floor(MAX_BYTE / half_range), 1, MAX_BYTE)
    root = _root(channels, epsilon)
    tables = [as_table(values) for values in (growth, root.coarse, root.coarse**2, root.fine)]
    return np.stack([*tables, root.correction.table])


def layer_norm_stages(channels: int, epsilon: float) -> Stages:
    """What a row goes through.

    Args:
        channels: Of a row.
        epsilon: What is added to the variance, in squares of input steps; `channels * (1 + epsilon)` up to `MAX_SPREAD`.
    """
    root = _root(channels, epsilon)
    # The mean's fraction is a byte of 1 / 256; its square times C has bytes of its own.
    square_bits = math.floor(math.log2(4 * MAX_BYTE**2 / channels))
    fraction = math.sqrt(2.0**square_bits / channels)
    padding, padding_shift = _scalar(channels * epsilon)
    return (
        over_rows(Term(source=INPUT, operation="maximum"), Put(name="maximum")),
        over_rows(Term(source=INPUT, scalar=-1, operation="maximum"), Put(name="minimum", multiplier=-1)),
        over_rows(
            Term(source="maximum"),
            Term(source="minimum", scalar=-1),
            Put(name="growth", zero_point=-128, table=GROWTH),
        ),
        over_rows(Term(source="maximum"), Term(source="minimum"), Put(name="centre", shift=1)),
        over_rows(Term(source="centre", by="growth"), *put_bytes("offset.high", "offset.low", 7)),
        over_rows(Term(source="growth", by="growth"), Put(name="growth.square", is_word=True)),
        over_channels(
            Term(source=INPUT, by="growth"),
            Term(source="offset.high", scalar=-128),
            Term(source="offset.low", scalar=-1),
            Put(name="row"),
        ),
        # With the rounded mean m and the sum s: C * m - 2 * s, then 2 * (C * m - s).
        over_rows(
            Term(source="row", scalar=-2),
            put_scaled("mean", -0.5 / channels),
            put_scaled("mean.negative", 0.5 / channels),
            Term(source="mean", scalar=channels),
            Put(name="moment", is_word=True),
            Term(source="mean", scalar=channels),
            put_scaled("rest", fraction / 2),
            put_scaled("rest.negative", -fraction / 2),
            put_scaled("fraction.negative", 128 / channels),
        ),
        over_rows(
            Term(source="row", by="row"),
            Term(source="moment", by="mean"),
            Term(source="rest", by="rest.negative", shift=square_bits),
            Term(source="growth.square", scalar=padding, shift=padding_shift),
            Put(name="square", is_word=True),
            put_index("coarse", root.greatest, COARSE),
            put_index("coarse.square", root.greatest, COARSE_SQUARE),
        ),
        over_rows(
            Term(source="square", by="coarse.square"),
            Put(name="near", is_word=True),
            put_index("fine", root.greatest, FINE),
        ),
        over_rows(Term(source="near", by="fine", shift=root.shift), Put(name="nearer", is_word=True)),
        over_rows(
            Term(source="nearer", by="fine", shift=root.shift),
            root.correction.put("correction", root.target, CORRECTION),
        ),
        *_root_stages(root.correction.shift),
        # Their product's upper part, and what is left of it, as bytes that a factor of 16 bits puts in their places.
        over_channels(
            Term(source="row", by="root.high"),
            Term(source="shift.high", scalar=128),
            Term(source="shift.low"),
            *put_parts("upper", "lower"),
        ),
        over_channels(
            Term(source="upper", scalar=-(1 << 15)),
            Term(source="lower", scalar=128),
            Term(source="row", by="root.middle"),
            Term(source="row", by="root.low", shift=7),
            Term(source="rest.high", scalar=256),
            Term(source="rest.low"),
            Put(name=OUTPUT),
        ),
    )


def _root_stages(shift: int) -> Stages:
    """Puts the bytes of the root, 2^14 * high + 2^7 * middle + low, and of what it makes of the mean.

    Args:
        shift: Bits behind the point of the correction.
    """
    high, low = "product.high", "product.low"
    return (
        over_rows(Term(source="coarse", by="fine"), *put_bytes(high, low, _PRODUCT_BITS)),
        over_rows(
            Term(source=high, by="correction"),
            Term(source=low, by="correction", shift=_PRODUCT_BITS),
            *put_bytes("corrected.high", "corrected.low"),
        ),
        over_rows(
            Term(source=high, scalar=1 << (_PRODUCT_BITS + _GAIN_BITS)),
            Term(source=low, scalar=1 << _GAIN_BITS),
            Term(source="corrected.high", scalar=256 << (_PRODUCT_BITS + _GAIN_BITS - shift)),
            Term(source="corrected.low", scalar=1 << (_PRODUCT_BITS + _GAIN_BITS - shift)),
            Put(name="root.high", shift=14),
            Term(source="root.high", scalar=-(1 << 14)),
            *put_bytes("root.middle", "root.low", 7),
        ),
        over_rows(Term(source="mean.negative", by="root.high"), *put_bytes("shift.high", "shift.low", 7)),
        over_rows(
            Term(source="mean.negative", by="root.middle"),
            Term(source="mean.negative", by="root.low", shift=7),
            Term(source="fraction.negative", by="root.high", shift=1),
            Term(source="fraction.negative", by="root.middle", shift=8),
            *put_bytes("rest.high", "rest.low"),
        ),
    )


def layer_norm_unit(channels: int, epsilon: float) -> float:
    """What one step of the last sums stands for, before gain and bias."""
    root = _root(channels, epsilon)
    product = root.base * math.sqrt(root.greatest / channels) * 2.0**_GAIN_BITS  # of deviation and root
    return 128 / product


def _scalar(number: float) -> tuple[int, int]:
    """A factor of 16 bits and a shift of up to 31."""
    multiplier, shift = multiplier_and_shift(number)
    narrow = shift - (31 - _SCALAR_BITS)
    if narrow > 31:
        return round(number * 2**31), 31
    return min(multiplier + (1 << 15) >> 16, (1 << _SCALAR_BITS) - 1), narrow
