"""GEMM: physics that must hold on every chip, and what the model says of hand-worked cases."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.archdsl import GpuArch, ModelError, load_arch
from tileloom.models.gpu.cache import hit_share
from tileloom.models.gpu.chip import Chip, make_chip
from tileloom.models.gpu.gemm import Gemms

CHIPS = ("a100_sxm", "h100_sxm", "h200_sxm", "b200")
SHAPES = np.array(
    [(1, 4096, 4096), (7, 1000, 333), (64, 64, 64), (128, 128, 32768), (256, 57344, 8192), (4096, 4096, 4096),
     (16384, 5120, 128), (8192, 8192, 8192)]
)  # fmt: skip


def gpu(name: str, **overrides: object) -> GpuArch:
    arch = load_arch(name, {key.replace("__", "."): value for key, value in overrides.items()})
    assert isinstance(arch, GpuArch)
    return arch


def chip_of(name: str, **overrides: object) -> Chip:
    return make_chip(gpu(name, **overrides))


def gemms(datatype: str = "bf16", shapes: np.ndarray = SHAPES, in_cache: bool = False, **fields: object) -> Gemms:
    flags = np.full(len(shapes), in_cache)
    columns: dict[str, object] = {"m": shapes[:, 0], "n": shapes[:, 1], "k": shapes[:, 2]}
    return Gemms(**columns | fields, datatype=datatype, weights_in_cache=flags, inputs_in_cache=flags)  # pyright: ignore[reportArgumentType]  columns by name


@pytest.mark.parametrize("name", CHIPS)
def test_no_product_beats_peak_rate_and_compulsory_bytes(name: str) -> None:
    chip, batch = chip_of(name), gemms()
    times = batch.times(chip)
    peak = chip.tensor_ops_per_s("bf16") * chip.arch.max_clock_hz / chip.arch.clock_hz
    m, n, k = SHAPES.T.astype(float)
    moved = 2 * (m * k + n * k + m * n)
    assert (times.time_s >= times.ops / peak).all()
    assert (times.main_memory_bytes >= moved * (1 - 1e-12)).all()
    assert (times.time_s >= moved / chip.memory_bytes_per_s + chip.arch.launch.floor_s).all()


@pytest.mark.parametrize("name", CHIPS)
def test_parts_sum_to_the_time_and_the_main_loop_is_its_longest_part(name: str) -> None:
    times = gemms().times(chip_of(name))
    for idx in range(len(SHAPES)):
        tree = times.part(idx)
        assert tree.amount == pytest.approx(float(times.time_s[idx]), rel=1e-9)
        loop = next(part for part in tree.parts if part.name == "main loop")
        assert loop.amount == max(part.amount for part in loop.parts)


@pytest.mark.parametrize(
    "overrides",
    [
        {"main_memory__bandwidth": "40 TB/s"},
        {"power__limit": "9000 W"},
        {"l2__capacity": "4 GiB"},
        {"launch__floor": "0.1 us"},
    ],
    ids=str,
)
@pytest.mark.parametrize("in_cache", [False, True])
def test_more_of_a_resource_never_makes_a_product_slower(overrides: dict[str, str], in_cache: bool) -> None:
    plain = gemms(in_cache=in_cache).times(chip_of("h100_sxm")).time_s
    better = gemms(in_cache=in_cache).times(chip_of("h100_sxm", **overrides)).time_s
    assert (better <= plain * (1 + 1e-9)).all()
    assert (better < plain).any()


def test_time_grows_with_every_side() -> None:
    chip = chip_of("h100_sxm")
    for side in range(3):
        shapes = np.full((20, 3), 1024)
        shapes[:, side] = np.arange(1, 21) * 512
        times = gemms(shapes=shapes).times(chip).time_s
        assert (np.diff(times) >= -1e-12).all()


def test_a_batch_is_its_members_and_order_does_not_matter() -> None:
    chip = chip_of("b200")
    together = gemms().times(chip).time_s
    alone = [float(gemms(shapes=SHAPES[idx : idx + 1]).times(chip).time_s[0]) for idx in range(len(SHAPES))]
    assert together.tolist() == alone
    assert gemms(shapes=SHAPES[::-1]).times(chip).time_s.tolist() == alone[::-1]


def test_products_in_one_kernel_cost_less_than_apart_and_at_least_the_largest() -> None:
    chip, one = chip_of("h100_sxm"), np.array([[64, 512, 512]])
    single = float(gemms(shapes=one).times(chip).time_s[0])
    many = float(gemms(shapes=one, batch=np.array([32])).times(chip).time_s[0])
    assert single < many < 32 * single


def test_narrow_weights_move_fewer_bytes_and_are_converted() -> None:
    chip = chip_of("a100_sxm")
    wide = gemms(shapes=np.array([[1, 8192, 8192]])).times(chip)
    narrow = gemms(shapes=np.array([[1, 8192, 8192]]), weight_bits=8).times(chip)
    assert narrow.main_memory_bytes[0] == pytest.approx(8192 * 8192 + 2 * (8192 + 8192))
    assert narrow.time_s[0] < wide.time_s[0]
    assert narrow.overlapped_s["main loop"]["dequantising"][0] > 0
    assert wide.overlapped_s["main loop"]["dequantising"][0] == 0


def test_datatypes_run_where_the_chip_has_them() -> None:
    fp32 = gemms("fp32").times(chip_of("h100_sxm"))
    assert "vector units" in fp32.overlapped_s["main loop"]
    assert any("fp32 products run on the vector units" in note for note in fp32.notes)
    with pytest.raises(ModelError, match="a100_sxm: it multiplies no 'fp8'"):
        gemms("fp8").times(chip_of("a100_sxm"))


def test_hits_are_all_within_a_partition_and_none_beyond_the_cache() -> None:
    cache = gpu("h100_sxm").l2
    capacity = float(cache.capacity_bytes)
    assert hit_share(np.array([0.0, 0.5, 0.75, 1.0, 2.0]) * capacity, cache).tolist() == [1.0, 1.0, 0.5, 0.0, 0.0]
    whole = cache.model_copy(update={"partitions": 1})
    assert hit_share(np.array([0.5, 1.0, 1.01]) * capacity, whole).tolist() == [1.0, 1.0, 0.0]


def test_weights_in_the_cache_are_not_read_again() -> None:
    chip, shape = chip_of("h100_sxm"), np.array([[16, 1024, 1024]])
    cold, warm = gemms(shapes=shape).times(chip), gemms(shapes=shape, in_cache=True).times(chip)
    assert warm.main_memory_bytes[0] == 0
    assert warm.time_s[0] < cold.time_s[0]
    reused = gemms(shapes=shape, in_cache=True, reuse_bytes=np.array([1e9])).times(chip)
    assert reused.main_memory_bytes[0] == pytest.approx(2 * 1024 * 1024 + 2 * 16 * 1024)


def test_short_kernels_keep_the_clock_that_long_ones_lose() -> None:
    times = gemms(shapes=np.array([[1024, 1024, 1024], [16384, 16384, 16384]])).times(chip_of("h100_sxm"))
    slower = times.serial_s["slower clock within the power limit"] / times.time_s
    assert slower[0] < 0.05 < slower[1]


def test_main_memory_and_products_hide_each_other_worst_where_they_are_alike() -> None:
    shapes = np.array([(16, 8192, 8192), (128, 8192, 8192), (8192, 8192, 8192)])
    chip = chip_of("a100_sxm")
    assert (gemms(shapes=shapes).times(chip).serial_s["what does not overlap"] == 0).all()
    times = gemms(shapes=shapes).times(chip.with_constants({"unhidden_share": 0.3}))
    share = times.serial_s["what does not overlap"] / times.serial_s["main loop"]
    assert share[1] > share[0] > 0
    assert share[1] > share[2] > 0
    assert (share <= 0.3).all()


@pytest.mark.parametrize("share", [0.0, 0.3, 0.6])
def test_more_bandwidth_is_never_slower_whatever_does_not_overlap(share: float) -> None:
    slow, fast = (
        gemms().times(chip_of("b200", **overrides).with_constants({"unhidden_share": share})).time_s
        for overrides in ({}, {"main_memory__bandwidth": "9 TB/s"})
    )
    assert (fast <= slow).all()


def test_small_tiles_take_longer_where_the_vendors_products_are_synchronous() -> None:
    def factor(name: str, **fields: object) -> float:
        return gemms(**fields).machine(chip_of(name)).few_warps  # pyright: ignore[reportArgumentType]  columns by name

    assert factor("a100_sxm") == 1.14
    assert factor("h100_sxm") == factor("b200") == 1.0
    assert factor("a100_sxm", library="weight_only", weight_bits=8) == 1.0
    assert factor("h100_sxm", datatype="int8", output_bits=32) == 1.0
