"""Quantities: exact both ways, and messages that show the fix."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import Bandwidth, Dimension, Memory, units

DIMENSIONS = [value for value in vars(units).values() if isinstance(value, Dimension)]


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        (units.BYTES, "64 KiB", 65536),
        (units.BYTES, "64kB", 64000),
        (units.BYTES, "1.5 MiB", 1572864),
        (units.BITS, "512 bit", 512),
        (units.CLOCK, "1.41 GHz", 1.41e9),
        (units.NODE, "45 nm", 45.0),
        (units.ENERGY_PER_BYTE, "1 pJ/bit", 8.0),
        (units.ENERGY_PER_BYTE, "250 fJ/B", 0.25),
        (units.ENERGY, "1.2 nJ", 1200.0),
        (units.AREA, "250000 um2", 0.25),
        (units.TIME, "1.19 us", 1.19e-6),
        (units.POWER, "0.7 kW", 700.0),
        (units.RATE, "989.4 TFLOP/s", 989.4e12),
        (units.CYCLES, "1 cycle", 1),
    ],
)
def test_quantity_is_read_in_base_units(dimension: Dimension, text: str, value: float) -> None:
    read = dimension.parse(text)
    assert read == value
    assert isinstance(read, int) == dimension.is_whole


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.name)
def test_example_and_suggestion_are_readable(dimension: Dimension) -> None:
    assert dimension.parse(dimension.example) > 0
    suggestion = dimension.missing_unit(4096).partition("'")[2].rstrip("'")
    assert dimension.parse(suggestion) > 0


@given(st.sampled_from(DIMENSIONS), st.floats(0, 1e30, allow_subnormal=False))
def test_written_quantity_reads_back_equal(dimension: Dimension, value: float) -> None:
    number = int(min(value, 1e18)) if dimension.is_whole else value
    assert dimension.parse(dimension.format(number)) == number


@pytest.mark.parametrize(
    ("value", "text"), [(65536, "64 KiB"), (65537, "65537 B"), (3 * 2**30, "3 GiB"), (1, "1 B"), (1000, "1000 B")]
)
def test_capacity_is_written_in_the_largest_whole_unit(value: int, text: str) -> None:
    assert units.BYTES.format(value) == text


@pytest.mark.parametrize(
    ("dimension", "text", "message"),
    [
        (units.BYTES, "65536", "65536 has no unit; write '64 KiB'"),
        (units.CLOCK, "1.5", "1.5 has no unit; write '1.5 GHz'"),
        (units.BYTES, "64 Kib", "unknown unit 'Kib' (capacity, e.g. '64 KiB'); did you mean 'KiB'?"),
        (units.BYTES, "0.3 B", "'0.3 B' is not a whole number of B"),
        (units.AREA, "-1 mm2", "'-1 mm2' is negative; an area is at least 0"),
        (units.CLOCK, "fast", "a clock like '1 GHz' is needed here, not 'fast'"),
        (units.BYTES, "1e30 B", "'1e30 B' is too large"),
        (units.CLOCK, "1e999 GHz", "'1e999 GHz' is too large"),
    ],
)
def test_bad_quantity_shows_the_fix(dimension: Dimension, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=".") as caught:
        dimension.parse(text)
    assert str(caught.value) == message


def test_bandwidth_per_second_follows_the_clock() -> None:
    assert Bandwidth.parse("64 B/cycle").bytes_per_cycle(2e9) == 64
    assert Bandwidth.parse("64 B/cycle").bytes_per_s(2e9) == 128e9
    assert Bandwidth.parse("64 GB/s").bytes_per_cycle(2e9) == 32
    assert Bandwidth.parse("1 GiB/s").bytes_per_s(1) == 2**30
    assert math.isinf(Bandwidth.parse("unbounded").bytes_per_cycle(1e9))
    assert str(Bandwidth.parse("3.35 TB/s")) == "3.35 TB/s"


@pytest.mark.parametrize("text", ["64 B", "64", "0 B/cycle", "fast", "1e999 B/cycle"])
def test_bad_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"unit|moves nothing|is needed here|too large"):
        Bandwidth.parse(text)


def test_python_code_passes_base_units() -> None:
    memory = Memory(
        kind="memory",
        name="spad",
        memory_class="scratchpad",
        capacity_bytes=1024,
        width_bits=64,
        latency_cycles=3,
        source="x",
    )
    assert memory.capacity_bytes == 1024
    assert memory.latency_cycles == 3
