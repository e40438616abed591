"""Memory-bound kernels: hand-worked cases, bounds, and what cannot be priced."""

from typing import get_args

import numpy as np
import pytest

from tileloom.archdsl import ModelError
from tileloom.models.gpu.memory_bound import MemoryKernels, cache_hit_share, moving_time_s, stream_time_s
from tileloom.models.gpu.memory_structures import MemoryOp

from .chips import chip_of, with_memory

ROWS = np.array([1, 7, 128, 1000, 4096, 16384, 65536])
COLS = np.array([64, 1000, 4096, 5003, 8192, 128, 1024])
OPS: tuple[MemoryOp, ...] = get_args(MemoryOp)


def kernels(op: MemoryOp, rows: list[int], cols: list[int], in_cache: bool = False) -> MemoryKernels:
    warm = np.full(len(rows), in_cache)
    return MemoryKernels(op=op, datatype="bf16", rows=np.array(rows), cols=np.array(cols), inputs_in_cache=warm)


def test_a_large_copy_is_its_bytes_over_the_sustained_bandwidth_and_one_latency():
    # 2 x 134,217,728 bytes. Half of them read: 0.25 + 0.1 + 0.4 of the 8 % are lost, so 94 % of 3,350 GB/s are left.
    times = kernels("copy", [8192], [8192]).times(chip_of())
    assert times.main_memory_bytes == pytest.approx(268_435_456)
    assert times.time_s == pytest.approx(1.19e-6 + 85.24e-6 + 0.60e-6, rel=1e-3)


def test_streams_in_one_direction_lose_less():
    # 1 GB: writes lose 0.2 of the 8 %, reads half; writes wait for nothing.
    chip = chip_of()
    written = stream_time_s(chip, np.array([0.0]), np.array([1e9]))
    read = moving_time_s(chip, np.array([1e9]), np.array([0.0]))
    assert written == pytest.approx(1e9 / (0.984 * 3350e9), rel=1e-6)
    assert read == pytest.approx(1e9 / (0.96 * 3350e9), rel=1e-6)


def test_a_block_walks_its_row_in_dependent_steps():
    # One row of 4,096: 8 loads of 128 x 4 elements, two at once, each 0.7 of 0.6 us and a little more for the 2 KiB under
    # way, and a hit of 260 cycles; 32 elements of 45 cycles; half of 140 instructions after one another.
    chip = chip_of()
    latency = 0.6e-6 * (0.7 + 0.3 * 2048 / (3350e9 * 0.6e-6))
    chain = 4 * (latency + 260 / 1.98e9) + (32 * 45 + 70 * 4.5) / 1.98e9
    times = kernels("rmsnorm", [1], [4096]).times(chip)
    assert times.overlapped_s["work"]["rows"] == pytest.approx(chain)
    assert times.regime[0] == 2


def test_trips_to_memory_take_longer_the_more_is_under_way():
    # One wave of rows each, warps with 768 bytes under way: from idle memory to more than its queues hold.
    batch = kernels("rowsum", [16, 2048, 8448], [4096] * 3)
    few, many, most = batch.times(chip_of()).overlapped_s["work"]["rows"]
    assert few < many < most
    assert most == pytest.approx(4096 * 2 / 768 * 8448 * 768 / 3350e9 + 30 * 4.5 / 1.98e9)


def test_blocks_share_long_rows_of_a_sum():
    # From 8,192 elements on, all 16 warps of a block share a row, and 528 rows instead of 8,448 are under way.
    shorter, longer = kernels("rowsum", [528, 528], [8184, 8192]).times(chip_of()).overlapped_s["work"]["rows"]
    assert longer < shorter / 2


def test_a_transpose_looks_up_a_line_and_fetches_a_sector_for_each_element():
    times = kernels("transpose", [4096], [4096]).times(chip_of())
    cycles = 1 + (32 + 2) / 40
    assert times.overlapped_s["work"]["cache"] == pytest.approx(4096 * 4096 * cycles / (132 * 1.98e9))


def test_blocks_of_a_transpose_that_cover_several_rows_of_the_result_reuse_sectors():
    # A block of 512 elements covers 4 columns of 128 rows, so that 1 of 4 elements fetches its sector.
    times = kernels("transpose", [128], [4096]).times(chip_of())
    assert times.overlapped_s["work"]["cache"] == pytest.approx(128 * 4096 * (1 + (32 / 4 + 2) / 40) / (132 * 1.98e9))


def test_a_thread_of_a_transpose_makes_its_trips_one_after_another():
    # Four loads, of which the first waits for main memory and three for the cache; one row is copied as it lies.
    two, one = kernels("transpose", [2, 1], [1024, 2048]).times(chip_of()).serial_s["first bytes"]
    assert two == pytest.approx(one + 3 * 260 / 1.98e9)
    assert one == pytest.approx(kernels("copy", [1], [2048]).times(chip_of()).serial_s["first bytes"][0])


def test_a_lone_row_is_summed_by_as_many_threads_as_have_a_vector():
    # 1,024 elements are 128 vectors of 8, and as many threads.
    short = kernels("rowsum", [1], [1024]).times(chip_of()).overlapped_s["work"]["issue"]
    assert short == pytest.approx((4 * 1024 + 60 * 128) / (128 * 132 * 1.98e9))


def test_a_second_pass_hits_while_the_cache_holds_the_first():
    small, large = kernels("quantise", [1024, 65536], [1024, 4096]).times(chip_of()).main_memory_bytes
    assert small == pytest.approx(1024 * 1024 * 3)
    assert large == pytest.approx(65536 * 4096 * 5)


def test_short_rows_are_softmaxed_by_a_warp_and_long_ones_by_a_block():
    at_limit, beyond = kernels("softmax", [1, 1], [2048, 2056]).times(chip_of()).time_s
    assert beyond < at_limit


def test_warps_with_twice_the_elements_leave_room_for_half_of_them():
    narrow, wide = kernels("softmax", [100000, 50000], [1024, 2048]).times(chip_of()).overlapped_s["work"]["rows"]
    assert wide == pytest.approx(narrow, rel=0.2)


def test_softmax_of_more_than_4_elements_a_thread_leaves_an_sm_one_block():
    # 264 rows: 2 a block of whose registers let another in, then 1.
    shared, lone = kernels("softmax", [264, 264], [4096, 5120]).times(chip_of()).overlapped_s["work"]["rows"]
    assert lone > 1.7 * shared


def test_rows_of_one_wave_take_turns_with_their_waiting_and_those_of_many_waves_overlap_it():
    # 4,224 warps fit at once; ten waves of them cost less than ten times as much.
    one_wave, ten_waves = (
        kernels("softmax", [4224, 42240], [1024, 1024]).times(chip_of()).serial_s["what does not overlap"]
    )
    assert one_wave > 0
    assert ten_waves < 7 * one_wave


def test_rows_that_start_between_vectors_take_a_trip_more():
    aligned, between = kernels("rowsum", [16, 16], [1024, 1025]).times(chip_of()).overlapped_s["work"]["rows"]
    assert between > aligned + 0.4e-6


def test_rows_that_are_no_multiple_of_4_take_two_kernels():
    aligned, not_aligned = kernels("layernorm", [37, 37], [5000, 5003]).times(chip_of()).serial_s["launch"]
    assert not_aligned == pytest.approx(2 * aligned)


@pytest.mark.parametrize("op", OPS)
def test_no_op_beats_the_roofline(op: MemoryOp):
    chip = chip_of().with_constants({"memory_efficiency": 1.0})
    times = kernels(op, list(ROWS), list(COLS)).times(chip)
    assert (times.time_s >= times.main_memory_bytes / chip.memory_bytes_per_s + chip.arch.launch.floor_s * 0.999).all()


@pytest.mark.parametrize("op", OPS)
def test_more_bandwidth_is_never_slower(op: MemoryOp):
    chip, batch = chip_of(), kernels(op, list(ROWS), list(COLS))
    assert (batch.times(with_memory(chip, 2.0)).time_s <= batch.times(chip).time_s).all()


@pytest.mark.parametrize("op", OPS)
def test_more_rows_are_never_faster(op: MemoryOp):
    rows = [1, 2, 16, 100, 500, 3000, 20000, 100000]
    assert (np.diff(kernels(op, rows, [4096] * 8).times(chip_of()).time_s) >= -1e-12).all()


@pytest.mark.parametrize("op", OPS)
def test_parts_sum_to_the_time(op: MemoryOp):
    times = kernels(op, list(ROWS), list(COLS)).times(chip_of())
    for idx in range(len(ROWS)):
        assert times.part(idx).amount == pytest.approx(times.time_s[idx], rel=1e-12)


def test_inputs_in_the_cache_are_not_read_from_main_memory():
    cold = kernels("add", [1024], [1024]).times(chip_of())
    warm = kernels("add", [1024], [1024], in_cache=True).times(chip_of())
    assert cold.main_memory_bytes == pytest.approx(3 * 2 * 2**20)
    assert warm.main_memory_bytes == pytest.approx(2 * 2**20)
    assert (warm.time_s < cold.time_s).all()


def test_hits_fall_from_all_to_none_around_the_capacity():
    shares = cache_hit_share(np.array([10.0, 55.0, 97.5, 140.0, 200.0]), 100.0)
    assert shares == pytest.approx([1.0, 1.0, 0.5, 0.0, 0.0])


def test_energy_is_idle_power_and_bytes_and_a_little_arithmetic():
    times = kernels("copy", [8192], [8192]).times(chip_of())
    assert times.energy_j is not None
    expected = 123 * times.time_s + 2**28 * (32.4e-12 + 60e-12) + 2**26 * 17e-12
    assert times.energy_j == pytest.approx(expected, rel=1e-3)


def test_labels_say_op_datatype_and_shape():
    assert kernels("softmax", [37], [5003]).label(0) == "softmax bf16 37x5003"


def test_an_unknown_op_is_refused_with_what_is_known():
    batch = MemoryKernels(
        op="sofmax",  # pyright: ignore[reportArgumentType]  what a table or a caller without types may pass
        datatype="bf16",
        rows=np.array([1]),
        cols=np.array([1]),
        inputs_in_cache=np.array([False]),
    )
    with pytest.raises(ModelError, match="unknown memory-bound op 'sofmax'; did you mean 'softmax'.*known: copy, fill"):
        batch.times(chip_of())


def test_an_unknown_datatype_is_refused():
    batch = MemoryKernels(
        op="copy", datatype="bf61", rows=np.array([1]), cols=np.array([1]), inputs_in_cache=np.array([False])
    )
    with pytest.raises(ModelError, match="unknown datatype 'bf61'; did you mean 'bf16'"):
        batch.times(chip_of())
