"""Number formats of the tensor PE array's elements: integers, and floating point of 8 bits."""

from __future__ import annotations

from dataclasses import dataclass

FLAG_BITS = 3
"""Bits of a sum of floating-point products beside its number: NaN, +infinity, -infinity."""


BIAS_SHIFT = 16
"""A bias of floating-point sums counts in steps of two to minus this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberFormat:
    """How the 8 bits of an element are read.

    Attributes:
        name: Its name.
        exponent_bits, significand_bits: Of a floating-point format, the hidden bit not counted; 0 for integers.
        has_infinity: Whether the exponent of all ones stands for infinity and NaN; else it is an exponent like the
            others, and only its last significand is NaN.

    Source: Micikevicius et al., "FP8 formats for deep learning", 2022, and the OCP 8-bit Floating Point Specification
        1.0: e4m3 and e5m2, both with subnormal numbers.
    """

    name: str
    exponent_bits: int = 0
    significand_bits: int = 0
    has_infinity: bool = False

    @property
    def is_float(self) -> bool:
        """Whether it is floating point."""
        return self.exponent_bits > 0

    @property
    def exponent_bias(self) -> int:
        """What is subtracted from the exponent's field."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def least_shift(self) -> int:
        """The least positive element is two to minus this, and the least product its square."""
        return self.exponent_bias - 1 + self.significand_bits

    @property
    def infinity_code(self) -> int:
        """The exponent of all ones with the significand 0, without sign."""
        return ((1 << self.exponent_bits) - 1) << self.significand_bits

    @property
    def nan_code(self) -> int:
        """NaN as it is stored."""
        return self.infinity_code | 1 << (self.significand_bits - 1) if self.has_infinity else 0x7F

    @property
    def max_code(self) -> int:
        """The greatest finite element."""
        return (self.infinity_code if self.has_infinity else self.nan_code) - 1

    @property
    def low(self) -> int:
        """The least finite element as a signed byte."""
        return self.max_code - 128 if self.is_float else -128

    @property
    def high(self) -> int:
        """The greatest finite element as a signed byte."""
        return self.max_code if self.is_float else 127

    def is_nan(self, byte: int) -> bool:
        """Whether an element, as a signed or unsigned byte, is NaN."""
        if not self.is_float:
            return False
        return byte & 0x7F > self.infinity_code if self.has_infinity else byte & 0x7F == self.nan_code

    def rank(self, byte: int) -> int:
        """Elements, as signed or unsigned bytes, in the order of their values; -0 comes before +0."""
        signed = (byte & 0xFF) - (byte & 0x80) * 2
        return -1 - (byte & 0x7F) if self.is_float and signed < 0 else signed

    @property
    def product_bits(self) -> int:
        """Bits of the magnitude of the greatest product, counted in least products."""
        if not self.is_float:
            return 14
        exponent, significand = divmod(self.max_code, 1 << self.significand_bits)
        greatest = (significand + (1 << self.significand_bits)) << (exponent - 1)
        return (greatest * greatest).bit_length()


INT8 = NumberFormat(name="int8")
E4M3 = NumberFormat(name="e4m3", exponent_bits=4, significand_bits=3)
E5M2 = NumberFormat(name="e5m2", exponent_bits=5, significand_bits=2, has_infinity=True)
FP8_FORMATS = {E4M3.name: E4M3, E5M2.name: E5M2}
"""Formats of datatype fp8 by name."""
