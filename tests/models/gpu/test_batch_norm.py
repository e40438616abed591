"""Batch norms at inference: kernels, trips of the threads, bounds."""

import numpy as np
import pytest

from tileloom.models.gpu.batch_norm import BatchNorms

from .chips import chip_of, with_memory


def norms(*shapes: tuple[int, int], in_cache: bool = False) -> BatchNorms:
    pixels, channels = (np.array(column) for column in zip(*shapes, strict=True))
    return BatchNorms(pixels=pixels, channels=channels, datatype="bf16", inputs_in_cache=in_cache)


def test_a_small_batch_norm_is_three_kernels_one_after_another():
    times = norms((49, 512), in_cache=True).times(chip_of())
    assert times.serial_s["launch"] == pytest.approx(3 * 1.19e-6)
    assert times.serial_s["between kernels"] == pytest.approx(3 * 1.2e-6)
    assert times.regime == 2


def test_threads_walk_the_pixels_of_few_channels_in_dependent_trips():
    # 32 channels: 16 threads of a block share a column, in 128 slices. 819,200 pixels are 100 trips of 4 for each thread,
    # with 4 x 2,048 x 32 elements of 2 bytes under way: 0.7 of the latency of 0.6 us, and 0.3 by the queues they fill.
    times = norms((819200, 32)).times(chip_of())
    load = 4 * 2048 * 32 * 2 / (3350e9 * 0.6e-6)
    assert times.serial_s["scale and shift"] == pytest.approx(100 * 0.6e-6 * (0.7 + 0.3 * load))


def test_many_channels_take_as_long_as_their_stream():
    one, two = norms((200704, 256), (200704, 512)).times(chip_of()).serial_s["scale and shift"]
    assert two == pytest.approx(2 * one)


def test_no_batch_norm_beats_the_roofline():
    batch = norms((1, 8), (3136, 64), (200704, 256))
    times = batch.times(chip_of())
    assert (times.time_s >= times.main_memory_bytes / chip_of().memory_bytes_per_s).all()


def test_more_bandwidth_and_inputs_in_the_cache_are_never_slower():
    shapes = [(49, 2048), (3136, 64), (200704, 64)]
    times = norms(*shapes).times(chip_of()).time_s
    assert (norms(*shapes).times(with_memory(chip_of(), 2.0)).time_s <= times + 1e-12).all()
    assert (norms(*shapes, in_cache=True).times(chip_of()).time_s <= times + 1e-12).all()


def test_parts_sum_to_the_time_and_labels_say_the_shape():
    times = norms((3136, 64)).times(chip_of())
    assert times.part(0).amount == pytest.approx(times.time_s[0], rel=1e-12)
    assert norms((3136, 64)).label(0) == "batch norm bf16 3136x64"
