"""Pinned integer semantics of the tensor PE array.

Requantisation of an accumulator: add the bias without overflow, multiply by the multiplier exactly, divide by two to
the shift, round to nearest with ties as stated, add the zero point, clip. The order, and that nothing wraps after the
accumulator, is what integer networks expect (Jacob et al., CVPR 2018, equation 4, with the rounding made explicit).
The accumulator itself wraps modulo two to its width.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...archdsl import Rounding

Int64 = npt.NDArray[np.int64]


def wrapped(values: Int64, bits: int) -> Int64:
    """Values modulo two to the `bits`, in two's complement."""
    half = np.int64(1) << np.int64(bits - 1)
    mask = (np.int64(1) << np.int64(bits)) - 1
    return ((values + half) & mask) - half


def requantised(
    sums: Int64, bias: Int64, multiplier: Int64, shift: Int64, zero_point: int, low: int, high: int, rounding: Rounding
) -> Int64:
    """Requantises accumulators.

    Args:
        sums: [..., cols] accumulators, 32 bits.
        bias: [cols] 32 bits.
        multiplier: [cols] 32 bits.
        shift: [cols] 0 to 63.
        zero_point: Added after rounding.
        low: Least result.
        high: Greatest result.
        rounding: What happens to ties.

    Returns:
        [..., cols] results from `low` to `high`.
    """
    # 33 bits times 32 bits do not fit 64: the product is kept as high * 2^32 + low.
    biased = sums + bias
    upper = biased >> 32
    lower = biased & 0xFFFFFFFF
    product_low = lower * multiplier
    product_high = upper * multiplier + (product_low >> 32)
    product_low = product_low & 0xFFFFFFFF
    floor, rest_cmp, is_odd = _floor_shifted(product_high, product_low, shift)
    is_negative = product_high < 0
    tie_up = is_odd if rounding == "half_to_even" else ~is_negative
    rounded = floor + ((rest_cmp > 0) | ((rest_cmp == 0) & tie_up))
    return np.clip(rounded + zero_point, low, high)


def _floor_shifted(upper: Int64, lower: Int64, shift: Int64) -> tuple[Int64, Int64, npt.NDArray[np.bool_]]:
    """Floor of (upper * 2^32 + lower) / 2^shift, the rest against a half (-1, 0, 1), and whether the floor is odd.

    The floor saturates far beyond 8 bits where it does not fit.
    """
    shift = np.broadcast_to(shift, upper.shape)
    over = np.maximum(shift - 32, 0)
    under = np.minimum(shift, 32)
    # Shifts below 32 keep bits of the lower half; those above take them from the upper half alone.
    fits = (upper >= -(1 << 30)) & (upper < (1 << 30))
    wide = np.where(upper < 0, np.int64(-(1 << 40)), np.int64(1 << 40))
    small = ((np.clip(upper, -(1 << 30), (1 << 30) - 1) << 32) | lower) >> under
    floor = np.where(shift >= 32, upper >> over, np.where(fits, small, wide))
    low_mask = (np.int64(1) << under) - 1
    rest_low = np.where(shift >= 32, lower, lower & low_mask)
    rest_high = np.where(shift > 32, upper & ((np.int64(1) << over) - 1), 0)
    half_high = np.where(shift > 32, np.int64(1) << np.maximum(over - 1, 0), 0)
    half_low = np.where((shift > 0) & (shift <= 32), np.int64(1) << np.maximum(under - 1, 0), 0)
    against = np.where(rest_high != half_high, np.sign(rest_high - half_high), np.sign(rest_low - half_low))
    against = np.where(shift == 0, -1, against)
    return floor, against, (floor & 1) == 1
