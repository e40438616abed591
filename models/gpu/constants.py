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
        value=1.0e-6,
        low=0.0,
        high=10e-6,
        meaning="Time before and after the main loop of a tile: filling the pipeline, storing the result [s].",
        source="assumption: one trip to main memory and one back",
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

CONSTANTS: Final[dict[str, Constant]] = {constant.name: constant for constant in (*MEMORY, *TENSOR, *SERVING)}
"""Every constant, by name."""
