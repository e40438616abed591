"""Convolutions in groups: each group's own work, at every level, and no more of it than the array has to do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from random import Random

import pytest
from onnx import ModelProto

from tileloom.archdsl import OpRecord, SpatialArch, pe_array
from tileloom.compiler.compilation import CompileOptions
from tileloom.compiler.generators import quantised_resnext, random_grouped_graph
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.tiling.activations import Buffers
from tileloom.compiler.tiling.bounds import least_tiles
from tileloom.compiler.tiling.channels import ChannelTile, Grouping, channel_tiles, over_tiles
from tileloom.compiler.tiling.target import Target
from tileloom.models import replay

from .arrays import arch_of, random_arch, random_options
from .compiled import compiled_for, only_image
from .qdq import Network, check_against_onnxruntime
from .test_random_graphs import check_model

NUM_FAST, NUM_SLOW = 10, 50


def grouped(
    channels: int, filters: int, groups: int, size: tuple[int, int] = (9, 7), *, uses: Sequence[str] = ("middle",),
    zero: int = 0, weight_dtype: str = "int8",
) -> ModelProto:  # fmt: skip
    """A convolution in groups, behind another one or at the border of the network."""
    net = Network()
    value = net.real_input((1, 3 if "middle" in uses else channels, *size))
    if "middle" in uses:
        value = net.node("Conv", [value, net.kernel((channels, 3, 1, 1))], kernel_shape=[1, 1])
        value = net.requantize(value, 0.06, -4)
    kernel = net.kernel((filters, channels // groups, 3, 3), axis=0, zero=zero, dtype=weight_dtype)
    result = net.node("Conv", [value, kernel], group=groups, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    result = net.quantize(result, 0.4, 3)
    if "middle" in uses:
        result = net.dequantize(result, 0.4, 3)
        result = net.quantize(net.node("Conv", [result, net.kernel((5, filters, 1, 1))], kernel_shape=[1, 1]), 0.6, 3)
    return net.model(result)


def op_of(model: ModelProto, arch: SpatialArch, options: CompileOptions | None = None) -> OpRecord:
    """What the program says of its convolution in groups."""
    image = only_image(compiled_for(model, arch, options))
    (op,) = (op for op in image.manifest.ops if "G" in op.dims)
    return op


@cache
def tiles_of(channels: int, filters: int, groups: int, sizes: tuple[int, int, int]) -> tuple[ChannelTile, ...]:
    array = pe_array(arch_of(*sizes))
    target = Target(array=array, buffers=Buffers(), store=DataStore(), staging=(0, 1024))
    grouping = Grouping(
        inputs=channels, outputs=filters, groups=groups, height=3, width=3, dilation=1, pixel_bytes=channels,
        weight_bits=8,
    )  # fmt: skip
    return channel_tiles(target, grouping)


@pytest.mark.parametrize(
    "seed", [seed if seed < NUM_FAST else pytest.param(seed, marks=pytest.mark.slow) for seed in range(NUM_SLOW)]
)
def test_random_groups_on_random_arrays(seed: int) -> None:
    rng = Random(seed)
    arch = random_arch(rng)
    check_model(random_grouped_graph(seed), arch, random_options(rng, arch), seed)


@pytest.mark.parametrize("seed", range(6))
def test_random_groups_are_those_of_onnxruntime(seed: int) -> None:
    check_against_onnxruntime(random_grouped_graph(seed))


@pytest.mark.parametrize("groups", [2, 4])
def test_grouped_convolutions_count_the_work_of_their_groups(groups: int) -> None:
    model, arch = grouped(16, 16, groups, (6, 5), uses=()), arch_of(8, 8, 8)
    check_model(model, arch, CompileOptions(), seed=1)
    op = op_of(model, arch)
    assert op.macs == 6 * 5 * 16 * (16 // groups) * 9
    assert {name: op.dims[name] for name in ("G", "K", "C")} == {"G": groups, "K": 16 // groups, "C": 16 // groups}


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 16)], ids=str)
@pytest.mark.parametrize("groups", [2, 4, 8, 32])
def test_groups_take_the_cycles_of_their_own_work(groups: int, sizes: tuple[int, int, int]) -> None:
    """Dense, they would take 2 to 16 times that."""
    op = op_of(grouped(128, 128, groups, (14, 14)), arch_of(*sizes))
    assert (op.predicted_cycles or 0) <= 1.03 * (op.bound_cycles or 0)


@pytest.mark.parametrize("keeps_on_chip", [True, False])
def test_through_main_memory_groups_are_read_once(*, keeps_on_chip: bool) -> None:
    """Of 256 channels only those of the groups at work are staged, so that tiles stay large."""
    arch, options = arch_of(8, 8, 8), CompileOptions(keeps_on_chip=keeps_on_chip)
    op = op_of(grouped(256, 256, 32, (28, 28)), arch, options)
    assert (op.predicted_cycles or 0) <= 1.1 * (op.bound_cycles or 0)


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 4), (4, 8, 4), (12, 12, 4)], ids=str)
@pytest.mark.parametrize(
    ("channels", "filters", "groups"), [(24, 24, 2), (20, 12, 4), (18, 27, 9), (8, 40, 8), (48, 6, 3), (36, 36, 3)]
)
def test_groups_of_any_width(sizes: tuple[int, int, int], channels: int, filters: int, groups: int) -> None:
    arch = arch_of(*sizes)
    check_model(grouped(channels, filters, groups, (5, 6), uses=()), arch, CompileOptions(), seed=2)
    check_model(grouped(channels, filters, groups, (5, 6)), arch, CompileOptions(keeps_on_chip=False), seed=2)


def test_weights_beyond_8_bits_are_those_of_their_groups() -> None:
    model, arch = grouped(24, 24, 4, zero=77, weight_dtype="uint8"), arch_of(8, 8, 8)
    check_model(model, arch, CompileOptions(), seed=3)
    assert op_of(model, arch).dims["C"] == 2 * 6


def test_narrow_groups_share_a_tile_and_wide_ones_have_their_own() -> None:
    narrow = tiles_of(32, 32, 8, (8, 8, 8))
    assert [(tile.output, tile.outputs, tile.input, tile.inputs) for tile in narrow[:2]] == [(0, 8, 0, 8), (8, 8, 8, 8)]
    wide = tiles_of(64, 64, 4, (8, 8, 8))
    assert [(tile.input, tile.inputs) for tile in wide] == [(16 * (idx // 2), 16) for idx in range(8)]


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 16), (4, 8, 4)], ids=str)
def test_groups_of_a_tile_take_no_more_vectors_than_each_by_itself(sizes: tuple[int, int, int]) -> None:
    rows = sizes[0]
    for channels in range(1, 40):
        alone = tiles_of(channels, 1, 1, sizes)[0].taps.num_vectors(rows)
        for groups in range(2, 6):
            together = tiles_of(groups * channels, groups, groups, sizes)
            touched = {tile.output: tile.inputs // channels for tile in together}
            for tile in together:
                assert tile.taps.num_vectors(rows) <= touched[tile.output] * alone


@pytest.mark.parametrize("case", [(48, 24, 2), (96, 96, 8), (40, 72, 4), (64, 20, 1), (7, 49, 7)], ids=str)
def test_loops_over_tiles_visit_each_of_them(case: tuple[int, int, int]) -> None:
    tiles = tiles_of(*case, (8, 8, 8))
    assert sum(tile.outputs for tile in tiles) == case[1]
    ops = over_tiles(tiles, 0, lambda at: [])
    assert not [op for loop in ops for op in loop.walk() if op.name != "tile.for"]
    assert len(ops) <= 3


def _least_by_trying(terms: int, outputs: int, groups: int, sizes: tuple[int, int]) -> int:
    rows, cols = sizes
    total = groups * outputs

    @cache
    def least(begin: int) -> int:
        if begin == total:
            return 0
        ends = range(begin + 1, min(total, begin + cols) + 1)
        return min(-(-((end - 1) // outputs - begin // outputs + 1) * terms // rows) + least(end) for end in ends)

    return least(0)


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 16), (4, 8, 4)], ids=str)
def test_bound_of_groups_is_the_best_of_all_ways_to_share_columns(sizes: tuple[int, int, int]) -> None:
    array = pe_array(arch_of(*sizes))
    for terms, outputs, groups in ((9, 1, 12), (36, 4, 8), (27, 3, 7), (108, 12, 4), (5, 20, 3), (2, 1, 40)):
        expected = _least_by_trying(terms, outputs, groups, sizes[:2])
        assert least_tiles(terms, outputs, groups, array) == expected


@pytest.mark.parametrize("groups", [8, 32])
def test_resnext_is_as_near_to_onnxruntime_as_its_integers_allow(groups: int) -> None:
    check_against_onnxruntime(quantised_resnext(0, groups=groups), runs=1, equal=0.0)


def test_resnext_runs_as_the_interpreter_says_and_near_its_bound() -> None:
    for arch in (arch_of(8, 8, 8), arch_of(16, 16, 16)):
        model = quantised_resnext(0)
        check_model(model, arch, CompileOptions(), seed=4)
        image = only_image(compiled_for(model, arch))
        cycles = replay(image.array, image.program).cycles
        assert cycles <= 1.15 * sum(op.bound_cycles or 0 for op in image.manifest.ops)
