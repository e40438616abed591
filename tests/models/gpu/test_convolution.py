"""Convolutions: which bytes and products they are, bounds, and what cannot be priced."""

from dataclasses import replace

import numpy as np
import pytest

from tileloom.archdsl import ModelError
from tileloom.models.gpu.convolution import Convolutions
from tileloom.models.gpu.memory_bound import stream_time_s

from .chips import chip_of, with_memory

# batch, input channels, output channels, taps, stride, input size, groups
Shape = tuple[int, int, int, int, int, int, int]
SHAPES: list[Shape] = [
    (1, 64, 64, 3, 1, 56, 1),
    (8, 256, 512, 1, 2, 56, 1),
    (64, 256, 256, 3, 1, 14, 1),
    (8, 3, 64, 7, 2, 224, 1),
    (64, 384, 384, 3, 1, 14, 384),
    (8, 128, 128, 3, 1, 28, 32),
]


def convolutions(*shapes: Shape) -> Convolutions:
    columns = [np.array(column) for column in zip(*shapes, strict=True)]
    return Convolutions(
        batch=columns[0],
        in_channels=columns[1],
        out_channels=columns[2],
        kernel=columns[3],
        stride=columns[4],
        in_size=columns[5],
        groups=columns[6],
        datatype="bf16",
    )


def test_a_small_convolution_is_its_steps_one_after_another():
    # 3,136 x 64 results in 98 tiles of 64 x 32, one an SM. Nine steps of 64 elements, of which neighbours fetch half:
    # 48 rows of 128 bytes at 40 bytes a cycle. The table of offsets is a launch and 1.2 us; the first bytes take 0.6 us.
    clock = 1.98e9
    busiest = 0.6e-6 + 9 * 48 * 128 / (40 * clock) + 0.3e-6 * 64 * 32 / 128**2
    moved = 2 * (56 * 56 * 64 * 2 + 64 * 576)
    memory = moved / (0.92 * 3350e9)
    times = convolutions((1, 64, 64, 3, 1, 56, 1)).times(chip_of())
    assert times.choices == ("tile 64 x 32, split 1",)
    assert times.time_s == pytest.approx(2 * 1.19e-6 + 1.2e-6 + np.hypot(busiest, memory))
    assert times.main_memory_bytes == pytest.approx(moved)


def test_a_reduction_of_one_step_needs_no_table_of_offsets():
    one, two = (convolutions((1, channels, 256, 1, 1, 56, 1)).times(chip_of()) for channels in (64, 128))
    assert one.serial_s["table of offsets"] == pytest.approx(0.0)
    assert two.serial_s["table of offsets"] == pytest.approx(1.19e-6 + 1.2e-6)


def test_long_reductions_of_few_results_are_split_and_added_up():
    one_tap, taps = convolutions((1, 2048, 512, 1, 1, 7, 1), (1, 512, 512, 3, 1, 7, 1)).times(chip_of()).choices
    assert not one_tap.endswith("split 1")
    assert not taps.endswith("split 1")


def test_more_images_are_never_faster():
    batches = [1, 2, 4, 8, 16, 32, 64]
    times = convolutions(*[(batch, 128, 128, 3, 1, 28, 1) for batch in batches]).times(chip_of()).time_s
    assert (np.diff(times) >= -1e-12).all()


def test_ops_count_real_taps_and_channels():
    # The first convolution of ResNet-50: 112 x 112 outputs of 64 channels, 7 x 7 taps of 3 channels.
    times = convolutions((1, 3, 64, 7, 2, 224, 1)).times(chip_of())
    assert times.ops == pytest.approx(2 * 112 * 112 * 64 * 7 * 7 * 3)


def test_few_channels_are_padded_before_and_say_so():
    # Two kernels copy input and weights: 8 images of 224 x 224 pixels, 3 channels read and 8 written.
    times = replace(convolutions((8, 3, 64, 7, 2, 224, 1)), datatype="fp16").times(chip_of())
    pixels = 8.0 * 224 * 224 * 2
    copied = stream_time_s(chip_of(), np.array([3 * pixels]), np.array([8 * pixels]))
    assert times.serial_s["padding channels"] == pytest.approx(2 * (1.19e-6 + 1.2e-6) + copied)
    assert "h100_sxm: channels are padded to a multiple of 16 bytes, by kernels before" in times.notes


def test_odd_channels_in_bf16_are_multiplied_on_vector_units():
    # 112 x 112 x 64 pixels and 64 channels in 50,176 blocks of 32 x 32, 381 on the busiest SM; 147 values in 19 steps of 8.
    # A step has 8 x 32 x 32 multiply-adds with an eighth of loads, and 512 gathered elements of 10 instructions.
    instructions = 381 * 19 * (8 * 32 * 32 * 9 / 8 + 512 * 10)
    times = convolutions((64, 3, 64, 7, 2, 224, 1)).times(chip_of())
    weights, pixels = 2 * 64 * 147, 2.0 * 64 * 224 * 224 * 3
    stream = stream_time_s(chip_of(), np.array([pixels + weights]), np.array([2.0 * 64 * 64 * 112 * 112]))
    work = np.hypot(0.6e-6 + instructions / (128 * 1.98e9), stream)
    assert times.time_s == pytest.approx(1.19e-6 + 1.2e-6 + work)
    assert times.notes == (
        "h100_sxm: odd channels in bf16 are multiplied on the vector units, as no tensor-core kernel takes them",
    )


def test_threads_of_a_depthwise_convolution_walk_down_columns_in_dependent_trips():
    # 96 x 56 columns, fewer than an SM holds for each of 132: 28 trips of two rows, at 0.7 of the latency of 0.6 us and 0.3
    # by the queues that a 28th of the input fills. Twice the channels take as long.
    one, two = (convolutions((1, channels, channels, 3, 1, 56, channels)).times(chip_of()) for channels in (96, 192))
    load = 96 * 56 * 56 * 2 / 28 / (3350e9 * 0.6e-6)
    assert one.serial_s["depthwise"] == pytest.approx(28 * 0.6e-6 * (0.7 + 0.3 * load))
    assert two.time_s == pytest.approx(one.time_s, rel=0.01)


def test_many_columns_of_a_depthwise_convolution_are_walked_in_waves():
    # 72 registers leave room for 910 threads on each of 132 SMs: 64 x 384 x 14 columns are 2.9 waves of 7 trips.
    times = convolutions((64, 384, 384, 3, 1, 14, 384)).times(chip_of())
    waves = 64 * 384 * 14 / (910 * 132)
    assert times.serial_s["depthwise"] > 7 * waves * 0.7 * 0.6e-6


def test_groups_of_few_channels_share_tiles():
    # 32 groups of 8 channels are 4 products of 64; of 64 channels each group is a product of its own.
    narrow, dense = convolutions((64, 256, 256, 3, 1, 28, 32), (64, 256, 256, 3, 1, 28, 1)).times(chip_of()).time_s
    assert narrow < dense
    lone = convolutions((64, 2048, 2048, 3, 1, 7, 32)).times(chip_of())
    assert lone.choices[0].startswith("tile")


def test_channels_of_whole_vectors_are_not_padded():
    times = convolutions((8, 64, 64, 3, 1, 56, 1)).times(chip_of())
    assert times.serial_s["padding channels"] == pytest.approx(0.0)
    assert times.notes == ()


def test_depthwise_moves_input_and_output_once():
    times = convolutions((64, 384, 384, 3, 1, 14, 384)).times(chip_of())
    assert times.main_memory_bytes == pytest.approx(2 * 64 * 384 * 14 * 14 * 2)
    # Around the work: a launch and 1.2 us.
    assert times.serial_s["depthwise"] + 1.19e-6 + 1.2e-6 == pytest.approx(times.time_s)


def test_a_stride_beyond_the_taps_leaves_pixels_unread():
    every, second = (convolutions((8, 256, 512, 1, stride, 56, 1)).times(chip_of()) for stride in (1, 2))
    read_every = every.main_memory_bytes - 8 * 512 * 56 * 56 * 2
    read_second = second.main_memory_bytes - 8 * 512 * 28 * 28 * 2
    assert (read_second < read_every).all()


def test_no_convolution_beats_the_roofline():
    chip = chip_of().with_constants({"memory_efficiency": 1.0, "tensor_efficiency": 1.0, "gather_efficiency": 1.0})
    times = convolutions(*SHAPES).times(chip)
    peak = chip.tensor_ops_per_s("bf16") * chip.arch.max_clock_hz / chip.arch.clock_hz
    assert (times.time_s >= times.ops / peak).all()
    assert (times.time_s >= times.main_memory_bytes / chip.memory_bytes_per_s).all()


def test_more_bandwidth_is_never_slower():
    chip, batch = chip_of(), convolutions(*SHAPES)
    assert (batch.times(with_memory(chip, 2.0)).time_s <= batch.times(chip).time_s + 1e-12).all()


def test_parts_sum_to_the_time_and_energy_is_given():
    times = convolutions(*SHAPES).times(chip_of())
    assert times.energy_j is not None
    assert (times.energy_j > 0).all()
    for idx in range(len(SHAPES)):
        assert times.part(idx).amount == pytest.approx(times.time_s[idx], rel=1e-12)


def test_labels_say_the_shape():
    assert convolutions((8, 64, 256, 3, 2, 56, 1)).label(0) == "bf16 b8 64->256 3x3/2 56x56 g1"


def test_groups_that_do_not_divide_are_refused():
    with pytest.raises(ModelError, match="bf16 b1 64->64 3x3/1 56x56 g3: 3 groups do not divide the channels"):
        convolutions((1, 64, 64, 3, 1, 56, 3)).times(chip_of())
