"""Convolutions: which bytes and products they are, bounds, and what cannot be priced."""

import numpy as np
import pytest

from tileloom.archdsl import ModelError
from tileloom.models.gpu.convolution import Convolutions
from tileloom.models.gpu.gemm import Gemms

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


def test_one_tap_at_every_pixel_is_a_gemm_after_four_trips_for_its_tables():
    chip = chip_of()
    gemm = Gemms(
        m=np.array([64 * 14 * 14]),
        n=np.array([1024]),
        k=np.array([256]),
        datatype="bf16",
        weights_in_cache=np.array([False]),
        inputs_in_cache=np.array([False]),
    )
    times = convolutions((64, 256, 1024, 1, 1, 14, 1)).times(chip)
    assert times.time_s == pytest.approx(gemm.times(chip).time_s + 4 * 260 / 1.98e9)


def test_ops_count_real_taps_and_channels():
    # The first convolution of ResNet-50: 112 x 112 outputs of 64 channels, 7 x 7 taps of 3 channels.
    times = convolutions((1, 3, 64, 7, 2, 224, 1)).times(chip_of())
    assert times.ops == pytest.approx(2 * 112 * 112 * 64 * 7 * 7 * 3)


def test_few_channels_run_on_the_vector_units_and_say_so():
    times = convolutions((1, 3, 64, 7, 2, 224, 1)).times(chip_of())
    assert times.serial_s["on vector units"][0] > 0
    assert times.notes == ("h100_sxm: convolutions of fewer than 16 bytes of channels run on the vector units",)


def test_depthwise_moves_input_and_output_once():
    times = convolutions((64, 384, 384, 3, 1, 14, 384)).times(chip_of())
    assert times.main_memory_bytes == pytest.approx(2 * 64 * 384 * 14 * 14 * 2)
    assert times.serial_s["depthwise"] == pytest.approx(times.time_s)


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
