"""Tiled GEMM kernels: what blocks need against a compiler, ranks against measurements, physics, and what is refused."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import GpuArch, InfeasibleError, ModelError, load_arch
from tileloom.models import TiledProduct, Tiling, candidate_tilings, rank_tilings
from tileloom.models.gpu.chip import make_chip
from tileloom.models.gpu.gemm import Gemms
from tileloom.models.gpu.tiled_gemm import TiledGemms
from tileloom.models.gpu.tilings import BlockNeeds, blocks_of
from tileloom.models.validation import read_measurements, validate

from .chips import chip_of, with_memory

DATA = Path(__file__).parents[2] / "data"
PLAIN = Tiling(tile_m=128, tile_n=128, tile_k=64, stages=3, warps=8)
WAYS = (
    PLAIN,
    Tiling(tile_m=16, tile_n=64, tile_k=32, stages=2, warps=4),
    Tiling(tile_m=64, tile_n=256, tile_k=64, stages=4, warps=4),
    Tiling(tile_m=128, tile_n=256, tile_k=32, stages=2, warps=8),
)
SHAPES = ((16, 4096, 4096), (1024, 4096, 4096), (1000, 2000, 3000), (300, 300, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled:
    """Kernels as Triton 3.6 compiled them for sm_90a, columns `[count]`.

    The kernel is that of Triton's matrix-multiplication tutorial with B[n, k]; registers and stack by `cuobjdump
    --dump-resource-usage`. `is_aligned` says whether K was known to be divisible by 16.
    """

    tilings: tuple[Tiling, ...]
    is_aligned: np.ndarray
    registers: np.ndarray
    shared_bytes: np.ndarray
    stack_bytes: np.ndarray


@pytest.fixture(scope="module")
def compiled() -> Compiled:
    with (DATA / "triton_resources.csv").open(encoding="utf-8") as file:
        rows = [{name: int(value) for name, value in row.items()} for row in csv.DictReader(file)]
    names = ("tile_m", "tile_n", "tile_k", "stages", "warps")
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0] if name not in names}
    return Compiled(
        tilings=tuple(Tiling(**{name: row[name] for name in names}) for row in rows),
        is_aligned=columns["is_aligned"] == 1,
        registers=columns["registers"],
        shared_bytes=columns["shared_bytes"],
        stack_bytes=columns["stack_bytes"],
    )


def needs(compiled: Compiled) -> BlockNeeds:
    arch = load_arch("h100_sxm")
    assert isinstance(arch, GpuArch)
    k = np.where(compiled.is_aligned, 4096, 3000)
    return blocks_of(compiled.tilings, k, arch, "bf16", np.array([2.0, 2.0, 2.0])).needs


def kernels(*tilings: Tiling, shape: tuple[int, int, int] = SHAPES[1], in_cache: bool = False) -> TiledGemms:
    m, n, k = (np.full(len(tilings), side) for side in shape)
    flags = np.full(len(tilings), in_cache)
    return TiledGemms(
        products=Gemms(m=m, n=n, k=k, datatype="bf16", weights_in_cache=flags, inputs_in_cache=flags), tilings=tilings
    )


def test_shared_memory_is_what_the_compiler_takes_for_buffers(compiled: Compiled) -> None:
    ours = needs(compiled).shared_bytes[compiled.is_aligned]
    assert ours.tolist() == compiled.shared_bytes[compiled.is_aligned].tolist()


def test_registers_and_resident_blocks_are_near_the_compilers(compiled: Compiled) -> None:
    ours = needs(compiled)
    assert np.abs(ours.registers - compiled.registers).mean() < 8
    granted = np.ceil(compiled.registers / 8) * 8 * ours.threads
    resident = np.minimum(65536 // granted, 2048 // ours.threads)
    resident = np.minimum(resident, 233472 // (compiled.shared_bytes + 1024))
    assert (resident == ours.resident).mean() > 0.94


def test_the_kernels_that_spill_are_those_that_spill(compiled: Compiled) -> None:
    assert ((needs(compiled).spills > 0) == (compiled.stack_bytes > 0)).all()


@pytest.mark.parametrize("mode", ["datasheet", "calibrated"])
def test_ranks_agree_with_measurements_on_every_shape(mode: str) -> None:
    arch = load_arch("h100_sxm")
    assert isinstance(arch, GpuArch)
    chip = make_chip(arch) if mode == "datasheet" else make_chip(arch, "calibrated", "triton")
    rankings = validate(read_measurements(DATA / "h100_sxm" / "triton_gemm.csv").measurements, chip).rankings()
    assert len(rankings) == 5
    assert min(one.rank_correlation for one in rankings) > 0.9
    assert max(one.regret_percent for one in rankings) < 7
    assert np.median([one.regret_percent for one in rankings]) < 3


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["a100_sxm", "h100_sxm", "b200"])
def test_no_kernel_beats_peak_rate_and_compulsory_bytes(name: str, shape: tuple[int, int, int]) -> None:
    chip = chip_of(name)
    times = kernels(*WAYS, shape=shape).times(chip)
    peak = chip.tensor_ops_per_s("bf16") * chip.arch.max_clock_hz / chip.arch.clock_hz
    m, n, k = shape
    assert (times.time_s >= times.ops / peak).all()
    assert (times.main_memory_bytes >= 2 * (m * k + n * k + m * n)).all()
    assert (times.time_s >= times.main_memory_bytes / chip.memory_bytes_per_s).all()


def test_parts_are_not_negative_and_sum_to_the_time() -> None:
    times = kernels(*WAYS).times(chip_of())
    for idx in range(len(WAYS)):
        tree = times.part(idx)
        assert tree.amount == pytest.approx(float(times.time_s[idx]), rel=1e-9)
        assert all(part.amount >= 0 for part in tree.parts)


def test_more_bandwidth_and_operands_in_the_cache_never_cost_time() -> None:
    chip = chip_of()
    plain = kernels(*WAYS, shape=SHAPES[0]).times(chip).time_s
    assert (kernels(*WAYS, shape=SHAPES[0]).times(with_memory(chip, 4.0)).time_s <= plain).all()
    assert (kernels(*WAYS, shape=SHAPES[0], in_cache=True).times(chip).time_s < plain).all()


def test_a_batch_is_its_members() -> None:
    together = kernels(*WAYS).times(chip_of()).time_s.tolist()
    assert together == [float(kernels(one).times(chip_of()).time_s[0]) for one in WAYS]


def test_stages_hide_latency_until_products_take_longer() -> None:
    chip = chip_of()
    ways = [replace(PLAIN, stages=stages) for stages in (2, 3, 4)]
    times = kernels(*ways, shape=(16, 4096, 4096)).times(chip)
    assert (np.diff(times.time_s) < 0).all()
    assert times.overlapped_s["main loop"]["pipeline"][0] > times.overlapped_s["main loop"]["tensor cores"][0]


def test_rows_of_unknown_alignment_are_slow_and_stages_do_not_help() -> None:
    chip = chip_of()
    ways = [replace(PLAIN, stages=stages) for stages in (2, 4)]
    unaligned = kernels(*ways, shape=(1024, 4096, 4088)).times(chip).time_s
    assert unaligned[0] == unaligned[1]
    assert unaligned[1] > 2 * kernels(*ways).times(chip).time_s[1]


def test_ranking_refuses_by_name_and_orders_the_rest() -> None:
    product = TiledProduct(m=1024, n=4096, k=4096, datatype="bf16")
    ranking = rank_tilings(product, candidate_tilings(), chip_of())
    times = [one.time_s for one in ranking.tilings]
    assert times == sorted(times)
    assert len(times) + len(ranking.refused) == len(candidate_tilings())
    assert {one.resource for one in ranking.refused} == {"shared memory of a block", "registers of a thread"}


def test_tilings_that_fit_nowhere_say_what_would() -> None:
    large = replace(PLAIN, tile_m=256, tile_n=256, tile_k=128)
    text = (
        "tile 256 x 256 x 128, 3 stages, 8 warps: shared memory of a block: needs 393,216 bytes, has 232,448 bytes\n"
        "  would fit: fewer stages\n"
    )
    product = TiledProduct(m=1024, n=1024, k=1024, datatype="bf16")
    with pytest.raises(InfeasibleError) as caught:
        rank_tilings(product, [large], chip_of())
    assert str(caught.value).startswith(text)
    with pytest.raises(ModelError, match="h100_sxm: tile 256 x 256 x 128, 3 stages, 8 warps: shared memory of a block"):
        kernels(large).times(chip_of())
    with pytest.raises(InfeasibleError, match=r"registers of a thread: needs 275 registers \(accumulators 256"):
        rank_tilings(product, [replace(PLAIN, tile_n=256, warps=4)], chip_of())
    with pytest.raises(InfeasibleError, match="threads of a block: needs 2,048 threads, has 1,024"):
        rank_tilings(product, [replace(PLAIN, warps=64)], chip_of())


def test_what_cannot_be_priced_is_an_error() -> None:
    with pytest.raises(ModelError, match="a100_sxm: tiled kernels need tensor cores, which multiply no 'fp8'"):
        rank_tilings(TiledProduct(m=64, n=64, k=64, datatype="fp8"), [PLAIN], chip_of("a100_sxm"))
    with pytest.raises(ValueError, match="tile_n is 96; it is a power of two"):
        replace(PLAIN, tile_n=96)
    with pytest.raises(ValueError, match="stages is 0; it counts from 1"):
        replace(PLAIN, stages=0)
    with pytest.raises(ValueError, match="k is 0; it counts from 1"):
        TiledProduct(m=64, n=64, k=0, datatype="bf16")
    with pytest.raises(ValueError, match="no tilings to rank"):
        rank_tilings(TiledProduct(m=64, n=64, k=64, datatype="bf16"), [], chip_of())
