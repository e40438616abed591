"""Ratios of scales as integers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import CompileError
from tileloom.compiler.quantisation.scaling import MAX_FACTOR, factor_pair, multiplier_and_shift


@given(st.floats(2.0**-30, 2.0**30))
def test_multiplier_and_shift_are_within_31_bits_of_the_ratio(ratio: float) -> None:
    multiplier, shift = multiplier_and_shift(ratio)
    assert 2**30 <= multiplier < 2**31
    assert 0 <= shift <= 63
    assert abs(Fraction(multiplier, 2**shift) / Fraction(ratio) - 1) <= Fraction(1, 2**31)


def test_ratio_of_0_is_0() -> None:
    assert multiplier_and_shift(0.0)[0] == 0


@pytest.mark.parametrize("ratio", [-1.0, float("nan"), float("inf"), 2.0**31])
def test_ratio_out_of_range_is_refused(ratio: float) -> None:
    with pytest.raises(CompileError, match="a ratio of scales is"):
        multiplier_and_shift(ratio)


@given(st.floats(0.001, 10), st.floats(0.001, 10), st.booleans())
def test_factors_have_16_bits_and_nearly_the_ratio(first: float, second: float, is_negative: bool) -> None:
    found = factor_pair(first, -second if is_negative else second)
    assert max(abs(factor) for factor in found) <= MAX_FACTOR
    assert (found[1] < 0) == (is_negative and found[1] != 0)
    larger, error = max(first, second), abs(abs(found[0]) * second - abs(found[1]) * first)
    assert error <= larger  # less than one step of the larger factor
