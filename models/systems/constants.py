"""The named physical constants of collectives, beside what a system's description and the libraries' facts say.

In `datasheet` mode each has the published value given here. A calibration of a system replaces at most twelve of them;
`nccl` and `custom_allreduce` are separate sets, since the two were measured by different harnesses.
"""

from __future__ import annotations

from typing import Final

from ..gpu.constants import Constant

LINKS: Final = (
    Constant(
        name="link_efficiency",
        value=0.8,
        low=0.4,
        high=1.0,
        meaning="Share of the links' bandwidth that a ring of copying thread blocks sustains.",
        source="NCCL src/graph/topo.h: 20.0 of 25 GB/s (SM80), 20.6 of 25 (SM90), 40.1 of 50 (SM100)",
    ),
    Constant(
        name="pipeline_fill_s",
        value=25e-6,
        low=1e-6,
        high=200e-6,
        meaning="Time until all channels of a large message run at full rate [s]; a short one waits in proportion.",
        source="NCCL docs: 4 MiB of buffer in 8 steps; one step of 512 KiB at 20 GB/s per channel",
    ),
    Constant(
        name="multicast_efficiency",
        value=0.6,
        low=0.3,
        high=1.0,
        meaning="Share of the links' bandwidth that reduction in the switch sustains.",
        source="NCCL cost model: 20.6 of 25 GB/s x 0.85 (Hopper) or 40.1 of 50 x 0.74 (Blackwell), x 5/6, x (1 + 1/8)",
    ),
    Constant(
        name="multicast_fill_s",
        value=25e-6,
        low=1e-6,
        high=300e-6,
        meaning="As pipeline_fill_s, for reduction in the switch [s].",
        source="assumption: as pipeline_fill_s",
    ),
)

NCCL: Final = (
    Constant(
        name="collective_start_s",
        value=6.6e-6,
        low=1e-6,
        high=30e-6,
        meaning="Launch of a collective and its first synchronisation [s].",
        source="NCCL cost model: base latency of a ring with the LL protocol",
    ),
    Constant(
        name="ring_hop_s",
        value=0.6e-6,
        low=0.1e-6,
        high=5e-6,
        meaning="One step of a ring over NVLink with the LL protocol [s]; those over PCIe and networks in NCCL's ratio.",
        source="NCCL cost model: latency per step of a ring over NVLink, LL",
    ),
    Constant(
        name="simple_hop_s",
        value=3.4e-6,
        low=0.3e-6,
        high=20e-6,
        meaning="The same with the Simple protocol [s].",
        source="NCCL cost model: latency per step of a ring over NVLink, Simple",
    ),
    Constant(
        name="local_step_share",
        value=0.25,
        low=0.0,
        high=1.0,
        meaning="Part of the copy of a chip's own data that the transfers do not hide, in steps of the ring.",
        source="assumption: a copy within the chip runs at four times the rate of its links",
    ),
    Constant(
        name="exchange_start_s",
        value=8.4e-6,
        low=1e-6,
        high=40e-6,
        meaning="Launch of point-to-point exchanges such as all-to-all [s].",
        source="NCCL cost model: base latency of the Simple protocol",
    ),
    Constant(
        name="exchange_efficiency",
        value=0.8,
        low=0.4,
        high=1.0,
        meaning="Share of the links' bandwidth that exchanges between all pairs sustain.",
        source="assumption: as link_efficiency",
    ),
    Constant(
        name="multicast_start_s",
        value=25e-6,
        low=1e-6,
        high=60e-6,
        meaning="Launch and synchronisation of a reduction in the switch [s].",
        source="NCCL cost model: latency of NVLS",
    ),
)

PEERS: Final = (
    Constant(
        name="peer_start_s",
        value=1.2e-6,
        low=0.3e-6,
        high=10e-6,
        meaning="Launch of a kernel that reads or writes the memory of peers, in a graph [s].",
        source="as the launch floor of the GPU presets",
    ),
    Constant(
        name="peer_barrier_s",
        value=1.2e-6,
        low=0.2e-6,
        high=10e-6,
        meaning="Flags written to all peers and awaited from all [s].",
        source="assumption: two steps of NCCL's LL protocol, there and back",
    ),
    Constant(
        name="peer_flag_s",
        value=0.05e-6,
        low=0.0,
        high=1e-6,
        meaning="What each peer beyond the first adds to a barrier [s].",
        source="assumption: one store of a flag after another",
    ),
    Constant(
        name="second_phase_s",
        value=3.4e-6,
        low=0.0,
        high=30e-6,
        meaning="Barrier with memory fences between the two phases of a two-shot all-reduce [s].",
        source="assumption: as a step of NCCL's Simple protocol, which fences as well",
    ),
    Constant(
        name="peer_efficiency",
        value=0.8,
        low=0.2,
        high=1.0,
        meaning="Share of the links' bandwidth that loads and stores to peers sustain.",
        source="assumption: as link_efficiency",
    ),
    Constant(
        name="peer_latency_s",
        value=1.2e-6,
        low=0.3e-6,
        high=5e-6,
        meaning="Round trip of a load from a peer's memory [s].",
        source="assumption: two steps of NCCL's LL protocol, there and back",
    ),
    Constant(
        name="host_launch_vllm_s",
        value=20e-6,
        low=1e-6,
        high=200e-6,
        meaning="Time between calls that the host takes in vLLM without a graph [s].",
        source="assumption: some ten calls of PyTorch at 2 us each",
    ),
    Constant(
        name="host_launch_sglang_s",
        value=20e-6,
        low=1e-6,
        high=200e-6,
        meaning="The same in SGLang [s].",
        source="assumption: some ten calls of PyTorch at 2 us each",
    ),
)

CONSTANTS: Final[dict[str, Constant]] = {constant.name: constant for constant in (*LINKS, *NCCL, *PEERS)}
"""Every constant, by name."""

NCCL_SET: Final = tuple(constant.name for constant in (*LINKS, *NCCL))
"""What a calibration of NCCL's collectives fits."""

CUSTOM_SET: Final = tuple(constant.name for constant in (*LINKS, *PEERS))
"""What a calibration of all-reduces through peer memory fits; their fallback to NCCL starts as published."""
