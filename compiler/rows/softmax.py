"""Softmax over the last axis in integers.

With the row's maximum m, exponents of q - m come from two tables as 256 * high + low, 15 bits; their sum over the row is exact.
Its reciprocal is a coarse factor looked up by the sum, a fine one looked up by sum * coarse, and a correction looked up by how
far sum * coarse * fine is from where it should be. The row's exponents times the reciprocal are requantised.

Source: the maximum is subtracted as in Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 2;
tables for exponent and reciprocal as in Stevens et al., "Softermax", DAC 2021, here with a second and a third lookup.

Limits: exponents are rounded to 2^-15 of the greatest, which their sum over a long row shows: where most of it is in elements of that
size, rows of 128 elements are within 0.1 steps of 1/256 before the result is rounded, of 512 within 0.3, of 2000 within 0.8. Others
are typically within 0.005.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .steps import (
    INPUT,
    LEVELS,
    MAX_BYTE,
    MAX_PAIR,
    OUTPUT,
    SAMPLES,
    Correction,
    Factors,
    Put,
    Reals,
    Stages,
    Term,
    as_table,
    over_channels,
    over_rows,
    put_index,
    put_parts,
)

EXP_HIGH, EXP_LOW, COARSE, FINE, CORRECTION = range(5)
MAX_CHANNELS = (1 << 15) - 1
_FINE_BITS = 7
"""By which the product with the fine factor is divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reciprocal:
    """Tables of the reciprocal of sums, in units of what `LEVELS` steps stand for.

    Attributes:
        coarse: By index of the sum.
        fine: By index of sum * coarse.
        base: sum * coarse * fine is near to `base` times the greatest sum.
        correction: Of what it is not.
    """

    coarse: Reals
    fine: Reals
    base: int
    correction: Correction


def _reciprocal(channels: int) -> _Reciprocal:
    least = LEVELS / channels  # one channel has all
    index = np.arange(LEVELS + 1)
    lower, upper = np.clip(index - 0.5, least, LEVELS), np.clip(index + 0.5, least, LEVELS)
    coarse = np.clip(np.floor(LEVELS / upper), 1, MAX_BYTE)
    base = max(1, int(MAX_BYTE * np.min(lower * coarse) / LEVELS))
    fine = np.clip(np.rint(base * LEVELS / np.maximum(index, 1)), 1, MAX_BYTE)
    sums = np.linspace(np.min(lower * coarse), LEVELS, SAMPLES)
    reached = sums * fine[np.rint(sums).astype(np.int64)] / (base * LEVELS)
    return _Reciprocal(coarse=coarse, fine=fine, base=base, correction=Correction.of(reached, -1))


def _factors(channels: int) -> Factors:
    return Factors.of(min(_reciprocal(channels).base * channels * 1.0625, MAX_BYTE**2))


def softmax_tables(scale: float, channels: int) -> npt.NDArray[np.int8]:
    """The op's tables, [5, 256].

    Args:
        scale: Of the input.
        channels: Of a row.
    """
    exps = np.rint(MAX_PAIR * np.exp(scale * np.arange(-LEVELS, 1)))
    high = np.minimum(np.rint(exps / 256), MAX_BYTE)
    reciprocal = _reciprocal(channels)
    tables = [as_table(values) for values in (high, exps - 256 * high, reciprocal.coarse, reciprocal.fine)]
    return np.stack([*tables, reciprocal.correction.table])


def softmax_stages(channels: int) -> Stages:
    """What a row goes through."""
    greatest, correction = float(channels * MAX_PAIR), _reciprocal(channels).correction
    return (
        over_rows(Term(source=INPUT, operation="maximum"), Put(name="maximum")),
        over_channels(
            Term(source=INPUT),
            Term(source="maximum", scalar=-1),
            Put(name="exp.high", zero_point=MAX_BYTE, table=EXP_HIGH),
            Put(name="exp.low", zero_point=MAX_BYTE, table=EXP_LOW),
        ),
        over_rows(
            Term(source="exp.high", scalar=256),
            Term(source="exp.low"),
            Put(name="sum", is_word=True),
            put_index("coarse", greatest, COARSE),
        ),
        over_rows(
            Term(source="sum", by="coarse"),
            Put(name="near", is_word=True),
            put_index("fine", greatest, FINE),
        ),
        over_rows(
            Term(source="near", by="fine", shift=_FINE_BITS),
            correction.put("correction", _target(channels), CORRECTION),
        ),
        *_factors(channels).stages("coarse", "fine", "correction", correction.shift, "reciprocal"),
        over_channels(Term(source="exp.high", by="reciprocal.high"), *put_parts("upper", "lower")),
        over_channels(
            Term(source="upper", scalar=-(1 << 15)),
            Term(source="lower", scalar=128),
            Term(source="exp.high", by="reciprocal.low", shift=1),
            Term(source="exp.low", by="reciprocal.high", shift=1),
            Term(source="exp.low", by="reciprocal.low", shift=9),
            Put(name=OUTPUT),
        ),
    )


def _target(channels: int) -> int:
    return round(_reciprocal(channels).base * channels * MAX_PAIR / (1 << _FINE_BITS))


def softmax_unit(channels: int) -> float:
    """What one step of the last sums stands for."""
    product = _target(channels) * 2.0 ** (_FINE_BITS + _factors(channels).gain_bits)  # of sum and reciprocal
    return 512 / product
