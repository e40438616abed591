"""Ratios of scales as integers: multiplier and shift, pairs of factors."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ...archdsl import CompileError

Ints = npt.NDArray[np.int64]
MULTIPLIER_BITS = 31
MAX_SHIFT = 63
MAX_FACTOR = (1 << 15) - 1


def multiplier_and_shift(ratio: float) -> tuple[int, int]:
    """The integers of a ratio of scales: ratio = multiplier / 2^shift.

    Source: Jacob et al., "Quantization and Training of Neural Networks", CVPR 2018, equations 5 and 6, with a
    multiplier of 31 bits from 1/2 to 1.

    Args:
        ratio: 0 or more.

    Raises:
        CompileError: The ratio is negative, not finite, or 2^31 or more.
    """
    if not 0 <= ratio < 2**MULTIPLIER_BITS:
        raise CompileError(f"a ratio of scales is {ratio}; it must be from 0 to below {2**MULTIPLIER_BITS}")
    fraction, exponent = math.frexp(ratio)
    multiplier, shift = round(fraction * 2**MULTIPLIER_BITS), MULTIPLIER_BITS - exponent
    if multiplier == 2**MULTIPLIER_BITS:
        multiplier, shift = multiplier // 2, shift - 1
    if shift > MAX_SHIFT:
        multiplier, shift = multiplier >> min(shift - MAX_SHIFT, MAX_SHIFT), MAX_SHIFT
    return multiplier, shift


def multipliers_and_shifts(ratios: npt.NDArray[np.float64]) -> tuple[Ints, Ints]:
    """`multiplier_and_shift` of every ratio: two arrays of the same shape."""
    found = [multiplier_and_shift(float(ratio)) for ratio in ratios.ravel()]
    multipliers = np.array([multiplier for multiplier, _ in found], dtype=np.int64)
    shifts = np.array([shift for _, shift in found], dtype=np.int64)
    return multipliers.reshape(ratios.shape), shifts.reshape(ratios.shape)


def factor_pair(first: float, second: float) -> tuple[int, int]:
    """The two integers of 16 bits whose ratio is nearest to that of two numbers.

    Args:
        first, second: Of any sign, not both 0.

    Returns:
        Factors with the signs of the numbers; the greatest multiple that fits, so that their steps are fine.
    """
    larger, smaller = max(abs(first), abs(second)), min(abs(first), abs(second))
    ratio = Fraction(smaller / larger).limit_denominator(MAX_FACTOR)
    multiple = MAX_FACTOR // ratio.denominator
    large, small = ratio.denominator * multiple, ratio.numerator * multiple
    pair = (large, small) if abs(first) >= abs(second) else (small, large)
    return (-pair[0] if first < 0 else pair[0], -pair[1] if second < 0 else pair[1])
