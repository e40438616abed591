"""The presets against the published figures of their chips; each figure has its source beside it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from tileloom.archdsl import GpuArch, Memory, SpatialArch, dump_arch, list_presets, load_arch

GIGA, TERA = 1e9, 1e12
KIB, MIB = 1024, 1024**2

PUBLISHED_SPATIAL = ("eyeriss_v1", "gemmini_16x16", "groq_tsp", "lp30", "nvdla_large", "simba_chiplet", "tpu_v1")
PUBLISHED_GPUS = ("a100_sxm", "b200", "h100_sxm", "h200_sxm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was published of a spatial chip.

    Attributes:
        datatype: Datatype of the peak rate.
        macs_per_s: Peak rate.
        digit: Half a unit in the last published digit of the rate.
        onchip_bytes: Capacity that the publication states.
        memories: Memories that make it up, all instances of each.
        bytes_per_s: Main-memory bandwidth.
        source: Where the three stand.
    """

    datatype: str
    macs_per_s: float
    digit: float
    onchip_bytes: int
    memories: tuple[str, ...]
    bytes_per_s: float
    source: str


SPATIAL = {
    "eyeriss_v1": Figures(
        datatype="int16",
        macs_per_s=33.6 * GIGA,
        digit=0.05 * GIGA,
        onchip_bytes=round(181.5 * KIB),
        memories=("scratchpad", "filter_scratchpad", "pe_weight_scratchpad"),
        bytes_per_s=64 / 8 * 60e6,
        source="Chen et al., JSSC 2017: 33.6 GMAC/s at 200 MHz, 181.5 KB of SRAM, 64-bit link at 60 MHz",
    ),
    "simba_chiplet": Figures(
        datatype="int8",
        macs_per_s=4.01 / 2 * TERA,
        digit=0.005 / 2 * TERA,
        onchip_bytes=(64 + 16 * (8 + 32 + 3)) * KIB,
        memories=("global_scratchpad", "input_scratchpad", "weight_scratchpad", "accumulation_scratchpad"),
        bytes_per_s=100 * GIGA,
        source="Zimmer et al., VLSI 2019: 4.01 TOPS; Shao et al., MICRO 2019: buffers, 100 GB/s per chiplet",
    ),
    "tpu_v1": Figures(
        datatype="int8",
        macs_per_s=92 / 2 * TERA,
        digit=0.5 / 2 * TERA,
        onchip_bytes=28 * MIB,
        memories=("unified_buffer", "accumulators"),
        bytes_per_s=30 * 1024**3,
        source="Jouppi et al., ISCA 2017: 92 TOPS, 28 MiB software-managed memory, 30 GiB/s (Figure 1)",
    ),
    "groq_tsp": Figures(
        datatype="int8",
        # 820 TOPS at 1 GHz, at its nominal 900 MHz.
        macs_per_s=0.9 * 820 / 2 * TERA,
        digit=0.9 * 5 / 2 * TERA,
        onchip_bytes=220 * MIB,
        memories=("sram",),
        bytes_per_s=0.9 * 55 * 1024**4,
        source="Abts et al., ISCA 2020: 820 TOPS and 55 TiB/s at 1 GHz, 220 MiB",
    ),
    "lp30": Figures(
        datatype="fp8",
        macs_per_s=1.2e15 / 2,
        digit=0.005e15 / 2,
        onchip_bytes=500_000_000,
        memories=("sram",),
        bytes_per_s=150e12,
        source="NVIDIA, Inside NVIDIA Groq 3 LPX: 1.2 PFLOP/s fp8, 500 MB, 150 TB/s",
    ),
    "gemmini_16x16": Figures(
        datatype="int8",
        macs_per_s=256 * GIGA,
        digit=0,
        onchip_bytes=(256 + 64) * KIB,
        memories=("scratchpad", "accumulator"),
        bytes_per_s=128 / 8 * GIGA,
        source="ucb-bar/gemmini: 16 x 16, sp_capacity 256, acc_capacity 64, dma_buswidth 128; at 1 GHz",
    ),
    "nvdla_large": Figures(
        datatype="int8",
        macs_per_s=2048 * GIGA,
        digit=0,
        onchip_bytes=512 * KIB,
        memories=("convolution_buffer",),
        bytes_per_s=10 * GIGA,
        source="nvdla/hw nv_large.spec: 64 x 32 MACs, 16 x 512 x 64 B; performance sheet: 1 GHz, 10 GB/s",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFigures:
    """What was published of a GPU.

    Attributes:
        num_sms: Enabled SMs.
        bf16_tflops: Dense tensor rate [TFLOP/s].
        bf16_macs_per_sm: Multiply-accumulates per SM and cycle.
        registers_bytes: Register files of the whole chip.
        l2_bytes: L2 cache.
        bytes_per_s: Main-memory bandwidth.
        limit_w: Power limit.
        source: Where they stand.
    """

    num_sms: int
    bf16_tflops: float
    bf16_macs_per_sm: int
    registers_bytes: int
    l2_bytes: int
    bytes_per_s: float
    limit_w: float
    source: str


GPUS = {
    "a100_sxm": GpuFigures(
        num_sms=108,
        bf16_tflops=312,
        bf16_macs_per_sm=1024,
        registers_bytes=27648 * KIB,
        l2_bytes=40 * MIB,
        bytes_per_s=2039 * GIGA,
        limit_w=400,
        source="NVIDIA A100 whitepaper and 80 GB data sheet",
    ),
    "h100_sxm": GpuFigures(
        num_sms=132,
        bf16_tflops=989.4,
        bf16_macs_per_sm=2048,
        registers_bytes=33792 * KIB,
        l2_bytes=50 * MIB,
        bytes_per_s=3350 * GIGA,
        limit_w=700,
        source="NVIDIA H100 data sheet and whitepaper (half of 1,979 TFLOP/s with sparsity)",
    ),
    "h200_sxm": GpuFigures(
        num_sms=132,
        bf16_tflops=989.4,
        bf16_macs_per_sm=2048,
        registers_bytes=33792 * KIB,
        l2_bytes=50 * MIB,
        bytes_per_s=4800 * GIGA,
        limit_w=700,
        source="NVIDIA H200 data sheet",
    ),
    "b200": GpuFigures(
        num_sms=148,
        bf16_tflops=2250,
        bf16_macs_per_sm=4096,
        registers_bytes=148 * 256 * KIB,
        l2_bytes=126 * MIB,
        bytes_per_s=7700 * GIGA,
        limit_w=1000,
        source="NVIDIA HGX B200 page, per GPU; SMs and L2 from Chips and Cheese",
    ),
}


def spatial(name: str) -> SpatialArch:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    return arch


def gpu(name: str) -> GpuArch:
    arch = load_arch(name)
    assert isinstance(arch, GpuArch)
    return arch


@pytest.mark.parametrize("name", list_presets())
def test_preset_loads_and_its_dump_loads_back_equal(name: str, tmp_path: Path) -> None:
    arch = load_arch(name)
    written = tmp_path / "written.yaml"
    written.write_text(dump_arch(arch), encoding="utf-8")
    assert arch.name == name
    assert arch.description
    assert load_arch(written) == arch


def test_every_published_chip_is_there() -> None:
    assert {*PUBLISHED_SPATIAL, *PUBLISHED_GPUS} <= set(list_presets())


@pytest.mark.parametrize("name", PUBLISHED_SPATIAL)
def test_every_block_of_a_spatial_preset_has_a_source(name: str) -> None:
    arch = spatial(name)
    texts = {"clock": arch.source, "technology": arch.technology.source} | {n.name: n.source for n in arch.hierarchy}
    assert [block for block, source in texts.items() if len(source.split()) < 2] == []


@pytest.mark.parametrize("name", PUBLISHED_GPUS)
def test_every_block_of_a_gpu_preset_has_a_source(name: str) -> None:
    arch = gpu(name)
    assert arch.technology is not None
    blocks = (arch.technology, arch.clocks, arch.sm, arch.tensor_cores, arch.vector_units, arch.l2, arch.main_memory,
              arch.launch, arch.power)  # fmt: skip
    assert [type(b).__name__ for b in blocks if not b.source.strip()] == []
    assert arch.source.strip()


@pytest.mark.parametrize("name", PUBLISHED_SPATIAL)
def test_peak_rate_is_the_published_one(name: str) -> None:
    arch, published = spatial(name), SPATIAL[name]
    rate = arch.num_pes * arch.compute.macs_per_cycle(published.datatype) * arch.clock_hz
    assert rate == pytest.approx(published.macs_per_s, rel=1e-12, abs=published.digit), published.source


@pytest.mark.parametrize("name", PUBLISHED_SPATIAL)
def test_onchip_capacity_is_the_published_one(name: str) -> None:
    arch, published = spatial(name), SPATIAL[name]
    memories = [node for node in map(arch.node, published.memories) if isinstance(node, Memory)]
    capacities = [(m.capacity_bytes or 0) * arch.instances(m.name) for m in memories]
    assert len(memories) == len(published.memories)
    assert sum(capacities) == published.onchip_bytes, published.source


@pytest.mark.parametrize("name", ["groq_tsp", "lp30"])
def test_bandwidth_of_memory_on_the_chip_is_the_published_one(name: str) -> None:
    arch, published = spatial(name), SPATIAL[name]
    found = arch.read_bytes_per_cycle(arch.memories[0]) * arch.clock_hz
    # Whole bytes per cycle.
    assert found == pytest.approx(published.bytes_per_s, rel=1e-5), published.source


@pytest.mark.parametrize("name", [name for name in PUBLISHED_SPATIAL if name not in ("groq_tsp", "lp30")])
def test_main_memory_bandwidth_is_the_published_one(name: str) -> None:
    arch, published = spatial(name), SPATIAL[name]
    main_memory = arch.memories[0]
    for bytes_per_cycle in (arch.read_bytes_per_cycle(main_memory), arch.write_bytes_per_cycle(main_memory)):
        assert bytes_per_cycle * arch.clock_hz == pytest.approx(published.bytes_per_s, rel=1e-12), published.source


@pytest.mark.parametrize("name", PUBLISHED_GPUS)
def test_gpu_has_the_published_figures(name: str) -> None:
    arch, published = gpu(name), GPUS[name]
    found = (
        arch.num_sms,
        arch.num_sms * arch.sm.register_file_bytes,
        arch.l2.capacity_bytes,
        arch.main_memory.bandwidth.bytes_per_s(arch.clock_hz),
        arch.power.limit_w,
        arch.tensor_cores.datatypes["bf16"].dense_ops_per_s,
    )
    assert found == (
        published.num_sms,
        published.registers_bytes,
        published.l2_bytes,
        published.bytes_per_s,
        published.limit_w,
        pytest.approx(published.bf16_tflops * TERA, rel=1e-12),
    ), published.source


@pytest.mark.parametrize("name", PUBLISHED_GPUS)
def test_gpu_rate_and_clock_give_the_tensor_cores_width(name: str) -> None:
    # The published rates have four digits, the clocks three or four.
    assert gpu(name).macs_per_cycle("bf16") == pytest.approx(GPUS[name].bf16_macs_per_sm, rel=5e-4)


@pytest.mark.parametrize("name", PUBLISHED_GPUS)
def test_halving_the_datatype_doubles_the_rate(name: str) -> None:
    rates = {kind: value.dense_ops_per_s for kind, value in gpu(name).tensor_cores.datatypes.items()}
    ladder = [kind for kind in ("tf32", "bf16", "fp8", "fp4") if kind in rates]
    for slow, fast in pairwise(ladder):
        assert rates[fast] / rates[slow] == pytest.approx(2, rel=1e-3)


def test_h200_is_the_h100_but_for_its_memory() -> None:
    h100, h200 = gpu("h100_sxm"), gpu("h200_sxm")
    assert h200.main_memory != h100.main_memory
    assert (h200.sm, h200.tensor_cores, h200.vector_units, h200.l2, h200.clocks) == (
        h100.sm, h100.tensor_cores, h100.vector_units, h100.l2, h100.clocks
    )  # fmt: skip


def test_tpu_ridge_point_is_that_of_the_paper_at_the_interface_rate() -> None:
    # Jouppi et al., ISCA 2017, sections 2 and 4: about 1,350 multiply-accumulates per weight byte, at 34 GB/s (Table 2).
    arch = spatial("tpu_v1")
    assert arch.num_pes * arch.clock_hz / (34 * GIGA) == pytest.approx(1350, abs=5)


def test_eyeriss_energies_have_the_papers_ratios() -> None:
    # Chen et al., ISCA 2016, Table IV: main memory 200, global buffer 6, between PEs 2, register file 1 per 16-bit word.
    arch = spatial("eyeriss_v1")
    mac = arch.compute.datatypes["int16"].energy_pj_per_mac
    assert mac is not None
    energies = {
        memory.name: (memory.read_energy_pj_per_byte, memory.write_energy_pj_per_byte) for memory in arch.memories
    }
    ratios = {name: tuple(2 * e / mac for e in pair if e is not None) for name, pair in energies.items()}
    assert ratios == {
        "main_memory": (200, 200),
        "scratchpad": (6, 6),
        "filter_scratchpad": (6, 6),
        "input_register_file": (1, 1),
        "pe_weight_scratchpad": (1, 1),
        "output_register_file": (1, 1),
    }
    assert [axis.hop_energy_pj_per_byte for axis in arch.fanouts[0].axes] == [mac, mac]


def test_eyeriss_pe_storage_is_the_published_one() -> None:
    # Chen et al., JSSC 2017: 12, 224 and 24 words of 16 bit; ISCA 2016: about 0.5 kB per PE.
    arch = spatial("eyeriss_v1")
    stores = [m.capacity_bytes for m in arch.memories if arch.instances(m.name) == 168]
    assert stores == [12 * 2, 224 * 2, 24 * 2]


def test_parameters_resize_a_preset() -> None:
    arch = load_arch("gemmini_16x16", {"parameters.rows": 32, "parameters.cols": 8})
    assert isinstance(arch, SpatialArch)
    widths = {m.name: m.width_bits for m in arch.memories}
    assert (arch.num_pes, widths["scratchpad"], widths["accumulator"]) == (256, 256, 256)
