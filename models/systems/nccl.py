"""NCCL's collectives: the algorithm and protocol that NCCL chooses, and what they cost.

NCCL chooses by a cost model of its own, whose published constants are facts here, whether or not its choice is the best.
What the choice takes is this model's: start and steps, the bytes of the busiest link, the time until the channels run full.

Source: NVIDIA NCCL, `src/graph/tuning.cc` (v2.20) and `src/tuning/cost_model.cc` (v2.28, read in part): base latencies,
    latencies per step, bandwidths per protocol, correction of trees. How NVLS is rated (efficiency 0.85 on Hopper, 0.74 on
    Blackwell) is recalled from v2.24.
Limits: One node, or nodes with as many chips each. Channels are taken as NCCL's search finds them on NVSwitch systems.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

import numpy as np

from ...archdsl import GpuArch, ModelError, System
from ..gpu.times import Floats, Ints, KernelTimes
from .algorithms import CollectiveOp, exchange_cost, ring_cost
from .machine import Machine
from .wiring import LOCAL_TECHNOLOGIES, Wiring, wiring_of

Hardware = Literal["nvlink", "pcie", "network"]

BASE_US: Final = {"LL": 6.6, "LL128": 14.0, "Simple": 8.4}
"""Base latency of a ring per protocol [us]."""

TREE_BASE_US: Final = {"LL": 6.8, "LL128": 14.0, "Simple": 8.4}
HOP_US: Final[dict[Hardware, dict[str, float]]] = {
    "nvlink": {"LL": 0.6, "LL128": 1.9, "Simple": 3.4},
    "pcie": {"LL": 1.0, "LL128": 2.5, "Simple": 5.7},
    "network": {"LL": 2.7, "LL128": 4.0, "Simple": 14.0},
}
"""Latency of one step of a ring [us]."""

TREE_HOP_US: Final[dict[Hardware, dict[str, float]]] = {
    "nvlink": {"LL": 0.6, "LL128": 1.25, "Simple": 4.0},
    "pcie": {"LL": 1.0, "LL128": 1.9, "Simple": 4.0},
    "network": {"LL": 5.0, "LL128": 8.5, "Simple": 14.0},
}
MULTICAST_US: Final = 25.0
"""Latency of NVLS [us]."""

LL_PAYLOAD: Final = 1 / 2
"""Of every 8 bytes of the LL protocol 4 are a flag."""

LL128_PAYLOAD: Final = 120 / 128
"""Of every 128 bytes of the LL128 protocol 8 are a flag."""

LL_CHANNEL_BYTES: Final = 8 * 512
"""LL takes another channel when every one of 512 threads has 8 bytes per step (NCCL_LL_THREAD_THRESHOLD)."""

SIMPLE_EXCHANGE_BYTES: Final = 16 * 1024
"""Point-to-point exchanges of at most so many bytes per peer use LL (NCCL_P2P_LL_THRESHOLD)."""

TREE_CORRECTION: Final = np.array([
    [1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1],
    [1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1],
    [.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9],
])  # fmt: skip
"""Share of a tree's bandwidth by protocol and by the power of two above 64 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What NCCL's cost model assumes of one generation of GPUs, single node.

    Attributes:
        link_share: Share of an NVLink's bandwidth that it counts with.
        num_channels: Channels that its search finds behind NVSwitch (recalled).
        ll_bytes_per_s: Most that LL moves.
        ring_ll128_bytes_per_s: Most that LL128 moves per channel in a ring.
        tree_ll128_bytes_per_s: The same in a tree.
        tree_bytes_per_s: Most that a tree moves per channel.
        multicast_share: Share of the bandwidth that NVLS is rated with; 0 where there is none.
    """

    link_share: float
    num_channels: int
    ll_bytes_per_s: float
    ring_ll128_bytes_per_s: float
    tree_ll128_bytes_per_s: float
    tree_bytes_per_s: float
    multicast_share: float


TUNINGS: Final[dict[str, Tuning]] = {
    "ampere": Tuning(
        link_share=20.0 / 25,
        num_channels=24,
        ll_bytes_per_s=87.7e9,
        ring_ll128_bytes_per_s=20e9,
        tree_ll128_bytes_per_s=20e9,
        tree_bytes_per_s=24e9,
        multicast_share=0.0,
    ),
    "hopper": Tuning(
        link_share=20.6 / 25,
        num_channels=24,
        ll_bytes_per_s=141e9,
        ring_ll128_bytes_per_s=36.7e9,
        tree_ll128_bytes_per_s=36.7e9,
        tree_bytes_per_s=38.7e9,
        multicast_share=0.85,
    ),
    "blackwell": Tuning(
        link_share=40.1 / 50,
        num_channels=32,
        ll_bytes_per_s=282e9,
        ring_ll128_bytes_per_s=40e9,
        tree_ll128_bytes_per_s=55.6e9,
        tree_bytes_per_s=70e9,
        multicast_share=0.74,
    ),
}
"""By generation, as the GPU's description names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Chips of one collective as NCCL sees them.

    Attributes:
        num: How many there are.
        num_nodes: Nodes that they stand in.
        hardware: What joins the chips of a node.
        ring_bytes_per_s: What each chip of a ring passes on at most, by the links' bandwidth [B/s].
        exchange_bytes_per_s: What each chip sends at most while all send to all [B/s].
        multicast_bytes_per_s: Bandwidth of a chip's link to a switch that adds up; 0 where there is none [B/s].
        tuning: What NCCL assumes of the chips.
    """

    num: int
    num_nodes: int
    hardware: Hardware
    ring_bytes_per_s: float
    exchange_bytes_per_s: float
    multicast_bytes_per_s: float
    tuning: Tuning


@lru_cache(maxsize=256)
def group_of(system: System, chips: tuple[str, ...]) -> Group:
    """What NCCL makes of some chips.

    Raises:
        ModelError: Not GPUs of a generation that NCCL's cost model knows, or nodes of unequal size.
    """
    arch = system.arch_of(chips[0])
    generation = arch.generation if isinstance(arch, GpuArch) else None
    if generation not in TUNINGS:
        raise ModelError(
            f"{system.name}: NCCL's cost model knows GPUs of {', '.join(TUNINGS)}; {arch.name} is of generation "
            f"'{generation}'; use library 'ideal'"
        )
    wiring = wiring_of(system)
    nodes = wiring.domains(chips)
    if len({len(node) for node in nodes}) != 1:
        sizes = ", ".join(str(len(node)) for node in nodes)
        raise ModelError(f"{system.name}: the chips stand in nodes of {sizes} chips; NCCL is modelled for equal nodes")
    rate = _ring_rate(wiring, nodes)
    exchange = (len(chips) - 1) / len(chips) / exchange_cost(wiring, chips, 1 / len(chips)).s_per_byte
    switch = wiring.reducing_switch(chips) if len(nodes) == 1 else None
    return Group(
        num=len(chips),
        num_nodes=len(nodes),
        hardware=_hardware_of(wiring, nodes),
        ring_bytes_per_s=rate,
        exchange_bytes_per_s=exchange,
        multicast_bytes_per_s=wiring.route(chips[0], switch)[0].bytes_per_s if switch else 0.0,
        tuning=TUNINGS[generation],
    )


def _ring_rate(wiring: Wiring, nodes: tuple[tuple[str, ...], ...]) -> float:
    """What a ring through all nodes passes on; between nodes its channels spread over the ports of all chips."""
    inner = min(1 / ring_cost(wiring, node, 1.0).s_per_byte for node in nodes) if len(nodes[0]) > 1 else float("inf")
    if len(nodes) == 1:
        return inner
    share = 1 / len(nodes[0])
    rails = [(a, b, share) for left, right in zip(nodes, (*nodes[1:], nodes[0]), strict=True)
             for a, b in zip(left, right, strict=True)]  # fmt: skip
    return min(inner, 1 / wiring.step(rails).s_per_byte)


def _hardware_of(wiring: Wiring, nodes: tuple[tuple[str, ...], ...]) -> Hardware:
    if len(nodes[0]) == 1:
        return "network"
    kinds = {hop.technology for hop in wiring.route(nodes[0][0], nodes[0][-1])}
    return "nvlink" if kinds <= {"nvlink", "c2c", None} and kinds <= LOCAL_TECHNOLOGIES else "pcie"


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One algorithm with one protocol.

    Attributes:
        algorithm: `ring`, `tree` or `multicast` (NVLS).
        protocol: `LL`, `LL128` or `Simple`.
        rated_s: What NCCL's cost model says, by which it chooses `[n]` [s].
        parts: What it takes, by this model: start, steps, links, pipeline fill, each `[n]` [s].
    """

    algorithm: str
    protocol: str
    rated_s: Floats
    parts: dict[str, Floats]


PARTS: Final = ("start", "steps", "links", "pipeline fill")


def nccl_times(machine: Machine, op: CollectiveOp, chips: tuple[str, ...], sizes_bytes: Ints) -> KernelTimes:
    """What NCCL takes for messages of some sizes, counted as in nccl-tests.

    Raises:
        ModelError: NCCL is not modelled for these chips.
    """
    group = group_of(machine.system, chips)
    sizes = sizes_bytes.astype(np.float64)
    if op in ("all_to_all", "point_to_point"):
        candidates = [_exchange(machine, group, op, sizes)]
    else:
        candidates = list(_candidates(machine, group, op, sizes))
    chosen: Ints = np.argmin([one.rated_s for one in candidates], axis=0)
    picked = {part: np.choose(chosen, [one.parts[part] for one in candidates]) for part in PARTS}
    names = [f"{one.algorithm} {one.protocol}" for one in candidates]
    moving = picked["links"] + picked["pipeline fill"]
    return KernelTimes(
        serial_s=picked,
        regime=np.where(moving > picked["start"] + picked["steps"], 1, 2),
        ops=np.zeros(len(sizes)),
        main_memory_bytes=np.zeros(len(sizes)),
        choices=tuple(names[int(idx)] for idx in chosen),
    )


def _candidates(machine: Machine, group: Group, op: CollectiveOp, sizes: Floats) -> list[Candidate]:
    found = [_ring(machine, group, op, protocol, sizes) for protocol in BASE_US]
    if op == "all_reduce":
        found += [_tree(machine, group, protocol, sizes) for protocol in TREE_BASE_US]
    # NCCL leaves two chips to the ring.
    if group.multicast_bytes_per_s and group.tuning.multicast_share and group.num > 2:
        found.append(_multicast(machine, group, op, sizes))
    return found


def _ring(machine: Machine, group: Group, op: CollectiveOp, protocol: str, sizes: Floats) -> Candidate:
    num_passes = 2 if op == "all_reduce" else 1
    num_steps = num_passes * (group.num - 1)
    num_outer = 2 * group.num_nodes if op == "all_reduce" else group.num_nodes - 1
    num_outer = num_outer if group.num_nodes > 1 else 0
    num_inner = max(num_steps - num_outer, 0)
    volume = sizes * num_steps / group.num
    tuning = group.tuning
    rated_rate = group.ring_bytes_per_s * tuning.link_share
    if protocol == "LL":
        share = 1 / 4 if op == "all_reduce" or group.num_nodes > 1 else 1 / 3
        rated_rate = min(tuning.ll_bytes_per_s, rated_rate * share)
    elif protocol == "LL128":
        rated_rate = min(rated_rate * 0.92, tuning.num_channels * tuning.ring_ll128_bytes_per_s)
    inner, outer = HOP_US[group.hardware][protocol], HOP_US["network"][protocol]
    rated = (BASE_US[protocol] + num_inner * inner + num_outer * outer) * 1e-6 + volume / rated_rate
    steps = num_inner * _hop_s(machine, group.hardware, protocol) + num_outer * _hop_s(machine, "network", protocol)
    parts = _moving(machine, group, protocol, volume, num_steps)
    parts["start"] = np.full(len(sizes), _start_s(machine, protocol))
    parts["steps"] = np.full(len(sizes), steps)
    return Candidate(algorithm="ring", protocol=protocol, rated_s=rated, parts=parts)


def _tree(machine: Machine, group: Group, protocol: str, sizes: Floats) -> Candidate:
    """Chains within nodes, a double binary tree between them; every chip passes the message up and down."""
    tuning = group.tuning
    rate = min(group.ring_bytes_per_s * tuning.link_share * 0.92, tuning.num_channels * tuning.tree_bytes_per_s)
    if protocol == "LL":
        rate = min(rate / 3.8, tuning.ll_bytes_per_s)
    elif protocol == "LL128":
        share = 7 / 9 if group.num_nodes == 1 else LL128_PAYLOAD
        rate = min(rate * share, tuning.num_channels * tuning.tree_ll128_bytes_per_s)
    power = np.clip(np.log2(np.maximum(sizes / 64, 1)).astype(np.int64), 0, TREE_CORRECTION.shape[1] - 1)
    corrected = rate * TREE_CORRECTION[list(TREE_BASE_US).index(protocol), power]
    num_inner = 2 * (group.num // group.num_nodes - 1)
    num_outer = 2 * int(np.log2(group.num_nodes))
    inner, outer = TREE_HOP_US[group.hardware][protocol], TREE_HOP_US["network"][protocol]
    rated = (TREE_BASE_US[protocol] + num_inner * inner + num_outer * outer) * 1e-6 + 2 * sizes / corrected
    ratio = TREE_HOP_US[group.hardware][protocol] / HOP_US[group.hardware][protocol]
    outer_ratio = TREE_HOP_US["network"][protocol] / HOP_US["network"][protocol]
    steps = num_inner * ratio * _hop_s(machine, group.hardware, protocol)
    steps += num_outer * outer_ratio * _hop_s(machine, "network", protocol)
    parts = _moving(machine, group, protocol, 2 * sizes, max(num_inner, 1))
    parts["start"] = np.full(len(sizes), _start_s(machine, protocol))
    parts["steps"] = np.full(len(sizes), steps)
    return Candidate(algorithm="tree", protocol=protocol, rated_s=rated, parts=parts)


def _multicast(machine: Machine, group: Group, op: CollectiveOp, sizes: Floats) -> Candidate:
    """Reduction in the switch: see `algorithms` for the volume."""
    tuning = group.tuning
    rated_rate = group.ring_bytes_per_s * tuning.link_share * tuning.multicast_share
    if op == "all_reduce":
        rated_rate *= 5 / 6
    volume = sizes * (1 + 1 / group.num) if op == "all_reduce" else sizes
    rate = group.multicast_bytes_per_s * machine.constants["multicast_efficiency"]
    zeros = np.zeros(len(sizes))
    return Candidate(
        algorithm="multicast",
        protocol="Simple",
        rated_s=MULTICAST_US * 1e-6 + sizes / rated_rate,
        parts={
            "start": zeros + machine.constants["multicast_start_s"],
            "steps": zeros,
            "links": volume / rate,
            "pipeline fill": filling_s(volume, rate, machine.constants["multicast_fill_s"]),
        },
    )


def _exchange(machine: Machine, group: Group, op: CollectiveOp, sizes: Floats) -> Candidate:
    """Sends and receives between all pairs at once; each peer has its channels."""
    num_peers = group.num - 1
    volume = sizes if op == "point_to_point" else sizes * num_peers / group.num
    is_short = volume / num_peers <= SIMPLE_EXCHANGE_BYTES
    rate = group.exchange_bytes_per_s * machine.constants["exchange_efficiency"]
    short_rate = min(group.tuning.ll_bytes_per_s, rate * LL_PAYLOAD)
    copies = 1 + machine.constants["local_step_share"] / num_peers if op == "all_to_all" else 1.0
    links = np.where(is_short, volume / short_rate, volume * copies / rate)
    fill = np.where(is_short, 0.0, filling_s(volume, rate, machine.constants["pipeline_fill_s"]))
    start = np.full(len(sizes), machine.constants["exchange_start_s"])
    network_s = (HOP_US["network"]["Simple"] - HOP_US["nvlink"]["Simple"]) * 1e-6 if group.num_nodes > 1 else 0.0
    steps = np.where(is_short, network_s, network_s + (BASE_US["Simple"] - BASE_US["LL"]) * 1e-6)
    parts = {"start": start, "steps": steps, "links": links, "pipeline fill": fill}
    return Candidate(algorithm="exchange", protocol="", rated_s=start, parts=parts)


def _moving(machine: Machine, group: Group, protocol: str, volume: Floats, num_steps: int) -> dict[str, Floats]:
    """Time on the links and until the pipeline is full."""
    if protocol == "LL":
        rate = min(group.tuning.ll_bytes_per_s, group.ring_bytes_per_s * LL_PAYLOAD)
        # A short message has fewer channels, each with its full share of bytes, so that its steps last as long.
        steps = np.maximum(volume / num_steps, 1.0)
        used = np.clip(steps / LL_CHANNEL_BYTES, 1.0, group.tuning.num_channels)
        links = volume / rate * group.tuning.num_channels / used
        return {"links": links, "pipeline fill": np.zeros(len(volume))}
    rate = group.ring_bytes_per_s * machine.constants["link_efficiency"]
    # Beside its steps every chip copies its own part once.
    copies = 1 + machine.constants["local_step_share"] / num_steps
    if protocol == "LL128":
        return {"links": volume * copies / (rate * LL128_PAYLOAD), "pipeline fill": np.zeros(len(volume))}
    fill = filling_s(volume, rate, machine.constants["pipeline_fill_s"])
    return {"links": volume * copies / rate, "pipeline fill": fill}


def filling_s(volume: Floats, rate: float, fill_s: float) -> Floats:
    """Time until a pipeline is full: that of a chunk, and a chunk is the smaller of its limit and the message [s]."""
    return fill_s * volume / (volume + fill_s * rate)


def _start_s(machine: Machine, protocol: str) -> float:
    return machine.constants["collective_start_s"] + (BASE_US[protocol] - BASE_US["LL"]) * 1e-6


def _hop_s(machine: Machine, hardware: Hardware, protocol: str) -> float:
    """One step; protocols and hardware without a constant of their own keep NCCL's ratio to those that have one."""
    reference = "Simple" if protocol == "Simple" else "LL"
    constant = machine.constants["simple_hop_s" if protocol == "Simple" else "ring_hop_s"]
    return constant * HOP_US[hardware][protocol] / HOP_US["nvlink"][reference]
