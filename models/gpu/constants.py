"""The named physical constants that GPU kernel models use beside a chip's description.

In `datasheet` mode each has the published value given here; `tileloom calibrate` fits at most twelve of them to measurements
of one chip. A model that needs a further constant adds a line to its family's tuple and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """One constant.

    Attributes:
        name: Its name, with its unit where it has one.
        value: Value in `datasheet` mode, from published figures alone.
        low: Least value that makes physical sense.
        high: Largest value that makes physical sense.
        meaning: What it stands for.
        source: Where `value` comes from.
    """

    name: str
    value: float
    low: float
    high: float
    meaning: str
    source: str


MEMORY: Final = (
    Constant(
        name="memory_efficiency",
        value=0.92,
        low=0.5,
        high=1.0,
        meaning="Share of the data sheet's main-memory bandwidth that a long stream sustains.",
        source="STREAM-like copies on A100 and H100 reach 90 to 94 %: BabelStream, Deakin et al., 2018 and its results",
    ),
    Constant(
        name="memory_latency_s",
        value=0.6e-6,
        low=0.2e-6,
        high=3e-6,
        meaning="Time of the first byte from main memory under load [s].",
        source="pointer chasing: 466 (A100) and 479 cycles (H100 PCIe), Luo et al., IPDPSW 2024, about doubled by load",
    ),
    Constant(
        name="l2_bytes_per_cycle_sm",
        value=40.0,
        low=8.0,
        high=128.0,
        meaning="Bytes per cycle that one SM gets from the cache while all do.",
        source="A100 whitepaper, 2020: 5,120 B/cycle of the chip over 108 SMs, about 47, of which 85 % are sustained",
    ),
)

TENSOR: Final = (
    Constant(
        name="tensor_efficiency",
        value=0.9,
        low=0.4,
        high=1.0,
        meaning="Share of the tensor cores' rate that a main loop at full occupancy sustains at a given clock.",
        source="large bf16 products on A100 reach 88 to 92 % of 312 TFLOP/s: NVIDIA, cuBLAS documentation and talks",
    ),
    Constant(
        name="tile_overhead_s",
        value=1.2e-6,
        low=0.1e-6,
        high=6e-6,
        meaning="Time of a kernel around its main loop that no size changes: filling the pipeline, draining it [s].",
        source="assumption: two trips to memory of about 0.5 us, and as much as a launch costs on the way out",
    ),
    Constant(
        name="tile_store_s",
        value=0.3e-6,
        low=0.02e-6,
        high=6e-6,
        meaning="Time to convert and store a tile of 128 x 128 results [s].",
        source="assumption: 32 KiB at 64 B/cycle, the store path of an SM, at 1.7 GHz",
    ),
    Constant(
        name="k_step_s",
        value=50e-9,
        low=1e-9,
        high=1e-6,
        meaning="Least time of one step of the main loop, 128 bytes deep, however small the tile [s].",
        source="assumption: an instruction's latency of 32 to 128 cycles with its barrier, Luo et al., IPDPSW 2024",
    ),
    Constant(
        name="unhidden_share",
        value=0.0,
        low=0.0,
        high=0.6,
        meaning="Share of main memory's time, or of the SM's own work, that shows where the two take equally long.",
        source="no published figure: pipelines of several stages are made to hide all of it",
    ),
    Constant(
        name="split_launches",
        value=2.0,
        low=0.5,
        high=8.0,
        meaning="Launch floors that bringing the parts of a split reduction together costs: a second kernel, or each turn.",
        source="a second kernel's own launch, and draining the first before it; assumption: a turn waits as long",
    ),
    Constant(
        name="power_window_s",
        value=1e-3,
        low=20e-6,
        high=10e-3,
        meaning="How long a kernel may draw the power of a burst [s].",
        source="assumption: power controllers act within a millisecond",
    ),
)

ATTENTION: Final = (
    Constant(
        name="attention_efficiency",
        value=0.9,
        low=0.3,
        high=1.0,
        meaning="Share of the tensor cores' rate that attention's products sustain, the softmax beside them aside.",
        source="Shah et al., FlashAttention-3, 2024: 75 % of an H100's peak with the softmax partly hidden; Luo et al., "
        "IPDPSW 2024: single instructions reach 95 %",
    ),
    Constant(
        name="attention_block_s",
        value=3.4e-6,
        low=0.5e-6,
        high=20e-6,
        meaning="Time of an attention block before its first and after its last step [s].",
        source="four dependent trips to main memory (lengths and pointers, Q, first keys, result) of memory_latency_s, and "
        "tile_overhead_s, at their published values",
    ),
)

CONVOLUTION: Final = (
    Constant(
        name="gather_efficiency",
        value=0.8,
        low=0.4,
        high=1.0,
        meaning="Rate of the tensor cores over that in a GEMM where threads compute addresses beside the products.",
        source="assumption: a fifth for addresses; CUTLASS, implicit_gemm_convolution.md, has them computed by the threads",
    ),
)

TILING: Final = (
    Constant(
        name="copy_cycles_per_line",
        value=1.0,
        low=0.05,
        high=8.0,
        meaning="Cycles of an SM per cache line that its blocks copy to shared memory, beside the bytes themselves.",
        source="Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018: 64 B/cycle from the "
        "L2 to an SM, 2 cycles a line; one of them is that of 128 bytes",
    ),
    Constant(
        name="queued_instructions",
        value=8.0,
        low=1.0,
        high=32.0,
        meaning="Asynchronous tensor instructions of a block that are under way while it goes on to its copies.",
        source="assumption: those of one step of 64 elements of two warp groups",
    ),
    Constant(
        name="overlap_exponent",
        value=4.0,
        low=1.5,
        high=16.0,
        meaning="Exponent of the norm over what limits a step: 1 adds all limits up, a large one takes the longest.",
        source="assumption: two limits that are alike cost a fifth more than one",
    ),
)

ENERGY: Final = (
    Constant(
        name="tensor_energy_pj_per_op",
        value=1.1,
        low=0.1,
        high=6.0,
        meaning="Energy of one 16-bit tensor op with all that feeds it, at the highest clock [pJ], random data.",
        source="Dally, Hot Chips 2023 keynote: 110 pJ + 30 pJ of overhead per HMMA of 128 ops; assumption: savings of "
        "later processes are spent on feeding the tensor cores at higher clocks",
    ),
    Constant(
        name="vector_energy_pj_per_op",
        value=17.0,
        low=2.0,
        high=60.0,
        meaning="Energy of one fp32 vector op with its share of the instruction, at the highest clock [pJ].",
        source="Dally, Hot Chips 2023 keynote: 30 pJ of overhead per instruction and lane, and Horowitz, ISSCC 2014: "
        "about 4.6 pJ per fp32 multiply and add, over 2 ops; assumption as for tensor ops",
    ),
    Constant(
        name="transfer_energy_pj_per_byte",
        value=60.0,
        low=5.0,
        high=300.0,
        meaning="Energy of a byte between the main memory's interface and registers, through the cache [pJ].",
        source="Keckler et al., IEEE Micro 2011: 0.12 pJ per bit and mm of wire; assumption: twice 30 mm of wire, to the "
        "cache and from it",
    ),
    Constant(
        name="burst_power_share",
        value=1.3,
        low=1.0,
        high=2.0,
        meaning="Power that a burst of milliseconds draws at most, over the limit that holds for seconds.",
        source="assumption: modules are allowed excursions of a third above their limit before the controller acts",
    ),
)

QUANTISE: Final = (
    Constant(
        name="quantise_block_s",
        value=1.2e-6,
        low=0.1e-6,
        high=5e-6,
        meaning="Time of a block that quantises a row, or as much of one as its threads hold: loads, maximum, stores [s].",
        source="assumption: two dependent trips to main memory of memory_latency_s at its published value",
    ),
)

SERVING: Final = (
    Constant(
        name="scheduler_s_per_sequence",
        value=0.0,
        low=0.0,
        high=200e-6,
        meaning="Time that the host of a serving engine adds to a step per sequence in it [s].",
        source="no published figure; the chips alone are priced without it",
    ),
)

CONSTANTS: Final[dict[str, Constant]] = {
    constant.name: constant
    for constant in (*MEMORY, *TENSOR, *ATTENTION, *CONVOLUTION, *TILING, *ENERGY, *QUANTISE, *SERVING)
}
"""Every constant, by name."""
