"""Pinned arithmetic of the tensor PE array by number format: products, sums, post-processing.

Integers: sums wrap modulo two to their width; `numerics.requantised` says what post-processing does.

Floating point of 8 bits: every product is exact, and so is every sum, as a fixed-point number in steps of the least
product that wraps modulo two to the accumulator's width (a long accumulator as of Kulisch, "Computer arithmetic and
validity", 2013). Beside the number stand flags that stay set: NaN, +infinity, -infinity. A sum is NaN if NaN went in,
or infinity times zero, or both infinities; with one infinity it is that. Post-processing adds the bias (in steps of
2^-16), multiplies exactly by multiplier / 2^shift and rounds once to the element's format, saturates at its greatest
finite element, and clips in the order of values, where -0 comes before +0. A number that is not 0 keeps its sign when it
is rounded to 0; the sum 0 is +0. Stored with 32 bits, a sum is rounded once to IEEE 754 binary32, ties to even.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ...archdsl import BIAS_SHIFT, NumberFormat, PeArray, Rounding
from .numerics import Int64, requantised, wrapped

Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]
NAN, PLUS_INFINITY, MINUS_INFINITY = 4, 2, 1
UPPER, LOWER, FLAGS = range(3)
_LIMB_BITS = 32
_HALF_BITS = 16


class Arithmetic(Protocol):
    """What the functional simulator needs to know of numbers.

    Elements are int64 arrays: integers, or the codes 0 to 255 of floating-point elements. Sums are arrays whose first
    two axes are vectors and columns.
    """

    def zeros(self, num_vectors: int, cols: int) -> Int64:
        """Sums that are 0."""
        ...

    def elements(self, data: Bytes, *, is_nibbles: bool) -> Int64:
        """Elements of bytes along the last axis."""
        ...

    def element(self, value: int) -> int:
        """The element that a field of an instruction stands for."""
        ...

    def matmul(self, inputs: Int64, weights: Int64) -> Int64:
        """Sums of [vectors, rows] x [rows, cols] elements."""
        ...

    def scaled(self, values: Int64, operand: Int64 | int, shift: int) -> Int64:
        """Sums of one product each: [vectors, cols] elements times the second operand of ALU, by two to the shift."""
        ...

    def added(self, one: Int64, other: Int64) -> Int64:
        """Sums of sums."""
        ...

    def maximum(self, one: Int64, other: Int64) -> Int64:
        """The greater of sums."""
        ...

    def raw(self, sums: Int64) -> npt.NDArray[np.uint32]:
        """Sums [vectors, cols] as they are stored with 32 bits."""
        ...

    def post_processed(
        self, sums: Int64, bias: Int64, multiplier: Int64, shift: Int64, zero_point: int, low: int, high: int
    ) -> Int64:
        """Elements [vectors, cols] of sums; the further arguments as in `requantised`."""
        ...


def arithmetic_of(array: PeArray) -> Arithmetic:
    """The arithmetic of an array's number format."""
    return FloatArithmetic(array) if array.format.is_float else IntegerArithmetic(array)


class IntegerArithmetic:
    """Integers: sums are [vectors, cols]."""

    def __init__(self, array: PeArray) -> None:
        self._bits = array.accumulator_bits
        self._rounding: Rounding = array.rounding

    def zeros(self, num_vectors: int, cols: int) -> Int64:
        return np.zeros((num_vectors, cols), dtype=np.int64)

    def elements(self, data: Bytes, *, is_nibbles: bool) -> Int64:
        return unpacked(data, is_nibbles=is_nibbles)

    def element(self, value: int) -> int:
        return value

    def matmul(self, inputs: Int64, weights: Int64) -> Int64:
        return wrapped(inputs @ weights, self._bits)

    def scaled(self, values: Int64, operand: Int64 | int, shift: int) -> Int64:
        products = values * operand
        floor = products >> shift
        twice = (products - (floor << shift)) * 2 - (1 << shift)
        is_up = floor & 1 == 1 if self._rounding == "half_to_even" else products >= 0
        return wrapped(floor + ((twice > 0) | ((twice == 0) & is_up)), self._bits)

    def added(self, one: Int64, other: Int64) -> Int64:
        return wrapped(one + other, self._bits)

    def maximum(self, one: Int64, other: Int64) -> Int64:
        return np.maximum(one, other)

    def raw(self, sums: Int64) -> npt.NDArray[np.uint32]:
        return sums.astype(np.int32).view(np.uint32)

    def post_processed(
        self, sums: Int64, bias: Int64, multiplier: Int64, shift: Int64, zero_point: int, low: int, high: int
    ) -> Int64:
        return requantised(sums, bias, multiplier, shift, zero_point, low, high, self._rounding)


class FloatArithmetic:
    """Floating point of 8 bits: sums are [vectors, cols, 3], the number's upper and lower limb and the flags.

    The number is upper * 2^32 + lower, in steps of the least product; lower is not negative.
    """

    def __init__(self, array: PeArray) -> None:
        self._format = array.format
        self._bits = array.accumulator_bits
        self._rounding = array.rounding
        # By code: the number in steps of the least element, 0 for what is none.
        codes = [_number(code, array.format) for code in range(256)]
        self._numbers = np.array([0 if number is None else number for number in codes], dtype=np.int64)
        magnitude = np.arange(256) & 0x7F
        self._is_infinite = (magnitude == array.format.infinity_code) & array.format.has_infinity
        self._is_nan = np.array([number is None for number in codes]) & ~self._is_infinite

    def zeros(self, num_vectors: int, cols: int) -> Int64:
        return np.zeros((num_vectors, cols, 3), dtype=np.int64)

    def elements(self, data: Bytes, *, is_nibbles: bool) -> Int64:
        del is_nibbles  # the checker lets no elements of 4 bits through
        return data.astype(np.int64)

    def element(self, value: int) -> int:
        return value & 0xFF

    def matmul(self, inputs: Int64, weights: Int64) -> Int64:
        return self._products(inputs, weights, np.matmul)

    def scaled(self, values: Int64, operand: Int64 | int, shift: int) -> Int64:
        del shift  # 0: the checker lets no other through
        others = np.broadcast_to(np.asarray(operand, dtype=np.int64) & 0xFF, values.shape)
        return self._products(values, others, np.multiply)

    def added(self, one: Int64, other: Int64) -> Int64:
        lower = one[..., LOWER] + other[..., LOWER]
        upper = one[..., UPPER] + other[..., UPPER]
        return self._limbs(upper, lower, one[..., FLAGS] | other[..., FLAGS])

    def maximum(self, one: Int64, other: Int64) -> Int64:
        nan_one, nan_other = _is_nan_sum(one[..., FLAGS]), _is_nan_sum(other[..., FLAGS])
        infinite_one, infinite_other = _infinity(one[..., FLAGS]), _infinity(other[..., FLAGS])
        is_less = (one[..., UPPER] < other[..., UPPER]) | (
            (one[..., UPPER] == other[..., UPPER]) & (one[..., LOWER] < other[..., LOWER])
        )
        is_less = np.where(infinite_one != infinite_other, infinite_one < infinite_other, is_less)
        takes_other = nan_other | (is_less & ~nan_one)
        return np.where(takes_other[..., None], other, one)

    def raw(self, sums: Int64) -> npt.NDArray[np.uint32]:
        step = -2 * self._format.least_shift
        values = np.array(
            [_binary32(upper << _LIMB_BITS | lower, step) for upper, lower, _ in sums.reshape(-1, 3).tolist()],
            dtype=np.float32,
        ).reshape(sums.shape[:-1])
        flags = sums[..., FLAGS]
        values[_infinity(flags) > 0], values[_infinity(flags) < 0] = np.inf, -np.inf
        return np.where(_is_nan_sum(flags), np.uint32(0x7FC00000), values.view(np.uint32)).astype(np.uint32)

    def post_processed(
        self, sums: Int64, bias: Int64, multiplier: Int64, shift: Int64, zero_point: int, low: int, high: int
    ) -> Int64:
        del zero_point  # 0: the checker lets no other through
        found = np.empty(sums.shape[:-1], dtype=np.int64)
        parameters = list(zip(bias.tolist(), multiplier.tolist(), shift.tolist(), strict=True))
        least, most = self._format.rank(low), self._format.rank(high)
        for at, vector in enumerate(sums.tolist()):
            for column, (upper, lower, flags) in enumerate(vector):
                added, factor, places = parameters[column]
                total = (upper << _LIMB_BITS | lower) + (added << 2 * self._format.least_shift - BIAS_SHIFT)
                code = self._rounded(total * factor, places, flags, factor)
                if code != self._format.nan_code:
                    rank = self._format.rank(code)
                    code = low & 0xFF if rank < least else high & 0xFF if rank > most else code
                found[at, column] = code
        return found

    def _rounded(self, product: int, shift: int, flags: int, factor: int) -> int:
        """The element nearest to product / 2^shift least products."""
        infinity = bool(flags & PLUS_INFINITY) - bool(flags & MINUS_INFINITY)
        if flags & NAN or flags & 3 == 3 or (infinity and factor == 0):
            return self._format.nan_code
        if infinity:
            return self._format.infinity_code | (0x80 if infinity * factor < 0 else 0)
        magnitude, least = abs(product), self._format.least_shift + shift
        # The step of the result: that of its exponent, or of the least element.
        places = max(magnitude.bit_length() - 1 - self._format.significand_bits, least)
        significand = _shifted(magnitude, places, is_to_even=self._rounding == "half_to_even")
        # Exponent and significand side by side: a carry out of the significand raises the exponent.
        code = min((places - least << self._format.significand_bits) + significand, self._format.max_code)
        return code | (0x80 if product < 0 else 0)

    def _products(self, one: Int64, other: Int64, product: Callable[[Int64, Int64], Int64]) -> Int64:
        """Exact sums of products of codes; `product` multiplies and adds up."""
        a, b = self._numbers[one], self._numbers[other]
        a_upper, a_lower, b_upper, b_lower = (
            part for x in (a, b) for part in (x >> _HALF_BITS, x & ((1 << _HALF_BITS) - 1))
        )
        middle = product(a_upper, b_lower) + product(a_lower, b_upper)
        lower = ((middle & ((1 << _HALF_BITS) - 1)) << _HALF_BITS) + product(a_lower, b_lower)
        upper = product(a_upper, b_upper) + (middle >> _HALF_BITS)
        return self._limbs(upper, lower, self._flags(one, other, product))

    def _limbs(self, upper: Int64, lower: Int64, flags: Int64) -> Int64:
        carried = upper + (lower >> _LIMB_BITS)
        limbs = (wrapped(carried, self._bits - _LIMB_BITS), lower & ((1 << _LIMB_BITS) - 1), flags)
        return np.stack(limbs, axis=-1)

    def _flags(self, one: Int64, other: Int64, product: Callable[[Int64, Int64], Int64]) -> Int64:
        """Flags of sums of products, where `product` counts pairs."""
        infinite_a, infinite_b = self._is_infinite[one], self._is_infinite[other]
        nan_a, nan_b = self._is_nan[one], self._is_nan[other]

        def occurs(a: Bools, b: Bools) -> Bools:
            return product(a.astype(np.int64), b.astype(np.int64)) > 0

        if not (infinite_a.any() or infinite_b.any() or nan_a.any() or nan_b.any()):
            return occurs(nan_a, nan_b).astype(np.int64)
        all_a, all_b = np.ones_like(nan_a), np.ones_like(nan_b)
        zero_a, zero_b = (one & 0x7F) == 0, (other & 0x7F) == 0
        minus_a, minus_b = one > 0x7F, other > 0x7F
        is_nan = occurs(nan_a, all_b) | occurs(all_a, nan_b) | occurs(infinite_a, zero_b) | occurs(zero_a, infinite_b)
        found = is_nan.astype(np.int64) * NAN
        for flag, is_minus in ((PLUS_INFINITY, False), (MINUS_INFINITY, True)):
            is_set = np.zeros_like(is_nan)
            for sign in (False, True):
                a, b = minus_a == sign, minus_b == (sign != is_minus)
                is_set |= occurs(infinite_a & a, b) | occurs(a, infinite_b & b)
            found |= is_set.astype(np.int64) * flag
        return found


def unpacked(data: Bytes, *, is_nibbles: bool) -> Int64:
    """Signed elements of bytes along the last axis; of two in a byte the low nibble comes first."""
    if not is_nibbles:
        return data.view(np.int8).astype(np.int64)
    both = np.stack([data & 15, data >> 4], axis=-1).reshape(*data.shape[:-1], -1).astype(np.int64)
    return np.where(both > 7, both - 16, both)


def _number(code: int, number_format: NumberFormat) -> int | None:
    """A code's number in steps of the least element; None for NaN and infinity."""
    magnitude = code & 0x7F
    if magnitude > number_format.max_code:
        return None
    exponent, significand = divmod(magnitude, 1 << number_format.significand_bits)
    if exponent:
        significand = (significand + (1 << number_format.significand_bits)) << (exponent - 1)
    return -significand if code > 0x7F else significand


def _shifted(magnitude: int, places: int, *, is_to_even: bool) -> int:
    """magnitude / 2^places to nearest, ties to even or away from 0."""
    floor = magnitude >> places
    twice = (magnitude - (floor << places)) * 2 - (1 << places)
    return floor + (twice > 0 or (twice == 0 and (not is_to_even or floor & 1 == 1)))


def _binary32(number: int, step: int) -> float:
    """number * 2^step as a number of IEEE 754 binary32; far from its limits."""
    magnitude = abs(number)
    places = max(0, magnitude.bit_length() - 24)
    return math.copysign(math.ldexp(_shifted(magnitude, places, is_to_even=True), places + step), number)


def _is_nan_sum(flags: Int64) -> Bools:
    return (flags & NAN != 0) | (flags & 3 == 3)


def _infinity(flags: Int64) -> Int64:
    """1, -1, or 0 for a number."""
    return (flags & PLUS_INFINITY) // PLUS_INFINITY - (flags & MINUS_INFINITY)
