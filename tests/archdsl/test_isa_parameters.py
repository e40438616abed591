"""What an architecture says about the tensor PE array, and what no RTL can be built from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.archdsl import E4M3, E5M2, INT8, ArchError, PeArray, SpatialArch, load_arch, pe_array

FP8 = Path(__file__).parents[2] / "docs" / "examples" / "archs" / "tpe_8x8_fp8.yaml"


def made(source: str | Path, changes: dict[str, object] | None = None) -> PeArray:
    arch = load_arch(source, changes)
    assert isinstance(arch, SpatialArch)
    return pe_array(arch)


def test_widths_follow_from_datatypes() -> None:
    integers = made("tpe_8x8")
    assert (integers.format, integers.accumulator_bits, integers.sum_bits) == (INT8, 32, 32)
    narrow = made("tpe_8x8", {"hierarchy.mac.datatypes.int8.accumulator_bits": 24})
    # 512 vectors of 8 sums of 4 bytes have room for more of 3.
    assert (narrow.accumulator_bits, narrow.accumulator_vectors) == (24, 682)
    floats = made(FP8)
    assert (floats.format, floats.accumulator_bits, floats.sum_bits, floats.accumulator_vectors) == (E4M3, 53, 56, 512)
    assert made("tpe_8x8", {"hierarchy.mac.datatypes.int4": {"macs_per_cycle": 1}}).format == INT8


def test_greatest_elements_and_products() -> None:
    """Of the OCP specification: 448 and 57344, whose squares are counted in steps of 2^-18 and 2^-32."""
    assert E4M3.product_bits == (448**2 * 2**18).bit_length()
    assert E5M2.product_bits == (57344**2 * 2**32).bit_length()
    assert (E4M3.nan_code, E4M3.max_code, E4M3.low, E4M3.high) == (0x7F, 0x7E, 0xFE - 256, 0x7E)
    assert (E5M2.nan_code, E5M2.max_code, E5M2.infinity_code) == (0x7E, 0x7B, 0x7C)


@pytest.mark.parametrize(
    ("source", "changes", "message"),
    [
        (FP8, {"hierarchy.mac.datatypes.fp8.fixed_point_sum": False}, "fp8 must have fixed_point_sum: true"),
        (FP8, {"hierarchy.mac.datatypes.fp8.accumulator_bits": 37}, r"accumulator_bits \(37\) must be from 38 to 128 for e4m3"),
        (FP8, {"control.fp8_format": "e5m2"}, r"accumulator_bits \(53\) must be from 66 to 128 for e5m2"),
        (FP8, {"hierarchy.mac.datatypes.int8": {}}, "must be int8, int8 with int4, or fp8 alone, not int8, fp8"),
        ("tpe_8x8", {"hierarchy.mac.datatypes.int8.accumulator_bits": 48}, r"accumulator_bits \(48\) must be from 16 to 32 for int8"),
        ("ref16", {}, "ref16 is no tensor PE array: it has no `control`"),
    ],
)  # fmt: skip
def test_what_no_rtl_can_be_built_from(source: str | Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(ArchError, match=message):
        made(source, changes)
