"""The closed form of the PE array's kernels against event replay, which the RTL equals on every cycle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest

from tileloom.archdsl import ModelError, PeArray, SpatialArch, load_arch, pe_array
from tileloom.compiler import ConvKernel, ConvShape, ProgramBuilder, gemm_shape, kernel_timing, layout_of
from tileloom.models import KernelTiming, replay, time_kernel, time_kernels

SIZES = ((4, 4, 4), (8, 8, 8), (16, 16, 16), (4, 16, 4), (16, 4, 4), (32, 32, 32), (8, 8, 4), (16, 16, 4))
OTHERS: tuple[Mapping[str, object], ...] = (
    {"hierarchy.mac.vector_lanes": 2},
    {"control.queue_depth": 4, "control.loads_in_flight": 2, "control.requests_in_flight": 3},
    {"parameters.scratchpad": "4 KiB", "parameters.accumulator_vectors": 64},
)
NUM_CASES = 160
LARGE_CYCLES = 1000


def array_of(rows: int, cols: int, bus_bytes: int, overrides: Mapping[str, object] | None = None) -> PeArray:
    sizes = {"rows": rows, "cols": cols, "bus_bytes": bus_bytes, "scratchpad": "64 KiB"}
    changes = {**{f"parameters.{name}": value for name, value in sizes.items()}, **(overrides or {})}
    arch = load_arch("tpe_16x16", changes)
    assert isinstance(arch, SpatialArch)
    return pe_array(arch)


def random_shape(rng: Random) -> ConvShape:
    """Products and convolutions, small and large: primes, single rows and columns, ragged edges, strides."""
    if rng.random() < 0.5:
        m, k, n = (1, 2, 7, 37, 64, 127, 256), (1, 3, 17, 40, 100, 257), (1, 5, 16, 33, 100)
        return gemm_shape(rng.choice(m), rng.choice(k), rng.choice(n))
    while True:
        kernel_height, kernel_width = rng.choice(((1, 1), (3, 3), (3, 1), (1, 5), (2, 2)))
        stride, dilation, pad = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2)), rng.randint(0, 2)
        height, width = rng.randint(1, 28), rng.randint(1, 28)
        output_height = (height + 2 * pad - (kernel_height - 1) * dilation - 1) // stride + 1
        output_width = (width + 2 * pad - (kernel_width - 1) * dilation - 1) // stride + 1
        if output_height >= 1 and output_width >= 1:
            break
    return ConvShape(
        height=height, width=width, channels=rng.choice((1, 3, 8, 19, 32)), outputs=rng.choice((1, 4, 20, 33)),
        kernel_height=kernel_height, kernel_width=kernel_width, stride=stride, dilation=dilation, pad_top=pad,
        pad_left=pad, output_height=output_height, output_width=output_width,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    array: PeArray
    kernel: KernelTiming
    latency_cycles: int
    cycles_per_beat: int
    replayed: int


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    rng = Random("closed form, held apart")
    arrays = [*(array_of(*sizes) for sizes in SIZES), *(array_of(8, 8, 8, changes) for changes in OTHERS)]
    return [random_case(rng, arrays) for _ in range(NUM_CASES)]


def random_case(rng: Random, arrays: list[PeArray]) -> Case:
    while True:
        array, shape = rng.choice(arrays), random_shape(rng)
        layout = layout_of(array, shape)
        kernel = kernel_timing(array, shape, layout)
        if kernel.num_steps < 1500:
            break
    builder = ProgramBuilder(array)
    ConvKernel(builder, shape, layout).emit()
    latency, beat = rng.choice((1, 5, 20, 60, 100, 200)), rng.choice((1, 1, 2, 4, 8))
    found = replay(array, builder.finish(), latency_cycles=latency, cycles_per_beat=beat)
    return Case(array=array, kernel=kernel, latency_cycles=latency, cycles_per_beat=beat, replayed=found.cycles)


def cycles_of(case: Case) -> float:
    timing = {"latency_cycles": case.latency_cycles, "cycles_per_beat": case.cycles_per_beat}
    return time_kernel(case.kernel, case.array, **timing).amount


def test_large_programs_are_within_5_percent_and_2_on_average(cases: list[Case]) -> None:
    large = [case for case in cases if case.replayed >= LARGE_CYCLES]
    errors = np.array([cycles_of(case) / case.replayed - 1 for case in large])
    assert len(large) > 50
    assert np.abs(errors).max() <= 0.05
    assert np.abs(errors).mean() <= 0.02
    assert abs(errors.mean()) <= 0.01


def test_small_programs_are_within_50_cycles_and_20_on_average(cases: list[Case]) -> None:
    small = [case for case in cases if case.replayed < LARGE_CYCLES]
    errors = np.array([cycles_of(case) - case.replayed for case in small])
    assert len(small) > 30
    assert np.abs(errors).max() < 50
    assert np.abs(errors).mean() < 20


def test_usual_arrays_are_exact(cases: list[Case]) -> None:
    wrong = [case for case in cases if cycles_of(case) != case.replayed]
    assert not wrong


@pytest.mark.parametrize(
    "changes", [{"control.queue_depth": 2}, {"control.loads_in_flight": 1}, {"control.requests_in_flight": 1}], ids=str
)
def test_tight_arrays_are_exact(changes: Mapping[str, object]) -> None:
    rng = Random(str(changes))
    arrays = [array_of(8, 8, 4, {**changes, "parameters.accumulator_vectors": 32})]
    for case in (random_case(rng, arrays) for _ in range(10)):
        assert cycles_of(case) == case.replayed


def test_parts_sum_to_the_total_and_none_is_negative(cases: list[Case]) -> None:
    for case in cases:
        timing = {"latency_cycles": case.latency_cycles, "cycles_per_beat": case.cycles_per_beat}
        tree = time_kernel(case.kernel, case.array, **timing)
        assert tree.amount == sum(part.amount for part in tree.parts)
        assert all(part.amount >= 0 for part in tree.walk())


def test_a_batch_gives_the_numbers_of_batches_of_one(cases: list[Case]) -> None:
    latency, beat = [1, 20, 200], [8, 1, 3]
    kernels, arrays = [case.kernel for case in cases[:30]], [case.array for case in cases[:30]]
    batch = time_kernels(kernels, arrays, latency_cycles=latency, cycles_per_beat=beat)
    for idx, (kernel, array) in enumerate(zip(kernels, arrays, strict=True)):
        for timing in range(3):
            one = time_kernel(kernel, array, latency_cycles=latency[timing], cycles_per_beat=beat[timing])
            assert batch.part(idx, timing) == one


def test_more_bandwidth_is_never_slower_in_the_steady_part(cases: list[Case]) -> None:
    kernels, arrays = [case.kernel for case in cases], [case.array for case in cases]
    found = time_kernels(kernels, arrays, latency_cycles=[20] * 4, cycles_per_beat=[1, 2, 4, 8])
    assert (np.diff(found.steady, axis=1) >= 0).all()


def test_bottlenecks_are_named() -> None:
    array = array_of(8, 8, 8)
    shape = gemm_shape(64, 256, 64)

    def bottleneck(shape: ConvShape, array: PeArray, cycles_per_beat: int) -> str:
        kernel = kernel_timing(array, shape, layout_of(array, shape))
        return time_kernels([kernel], [array], latency_cycles=[20], cycles_per_beat=[cycles_per_beat]).bottleneck()

    assert bottleneck(shape, array, 1) == "compute"
    assert bottleneck(gemm_shape(1, 256, 64), replace(array, bus_bytes=8), 1) == "switch"
    assert bottleneck(shape, array, 16) == "load"
    assert bottleneck(gemm_shape(64, 8, 512), replace(array, post_lanes=1), 1) == "store"


def test_banks_that_units_share_are_refused() -> None:
    array = array_of(8, 8, 8)
    kernel = kernel_timing(array, gemm_shape(8, 8, 8), layout_of(array, gemm_shape(8, 8, 8)))
    with pytest.raises(ModelError, match=r"one port, 4 scratchpad banks and 2 accumulator banks; use `replay`"):
        time_kernel(kernel, replace(array, is_single_port=True))
    with pytest.raises(ValueError, match="every kernel needs one array"):
        time_kernels([kernel], [], latency_cycles=[1], cycles_per_beat=[1])
