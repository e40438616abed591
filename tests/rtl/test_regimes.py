"""A large matrix product where the array is the limit, and where main memory is."""

from __future__ import annotations

from random import Random

import pytest

from tileloom.compiler import ConvKernel, ProgramBuilder, gemm_shape, layout_of
from tileloom.models import Replay, replay

from .cases import array_of, assert_agree, random_case

SHAPE = gemm_shape(256, 256, 256)
FAST = (20, 1)
SLOW = (100, 8)
"""Latency and cycles per beat."""


def replayed(latency_cycles: int, cycles_per_beat: int) -> Replay:
    array = array_of(16, 16, 16, {"parameters.scratchpad": "256 KiB"})
    builder = ProgramBuilder(array)
    ConvKernel(builder, SHAPE, layout_of(array, SHAPE)).emit()
    return replay(array, builder.finish(), latency_cycles=latency_cycles, cycles_per_beat=cycles_per_beat)


def test_array_is_busy_with_fast_memory() -> None:
    assert SHAPE.macs / (16 * 16 * replayed(*FAST).cycles) >= 0.9


def test_bus_is_busy_with_slow_memory() -> None:
    compulsory_bytes = 3 * 256 * 256
    assert compulsory_bytes / 16 * SLOW[1] / replayed(*SLOW).cycles >= 0.95


@pytest.mark.rtl
@pytest.mark.slow
def test_rtl_takes_the_replayed_cycles() -> None:
    array = array_of(16, 16, 16, {"parameters.scratchpad": "256 KiB"})
    assert_agree(array, [random_case(Random(256), array, SHAPE)])
