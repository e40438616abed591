"""All-reduces of inference frameworks: kernels that load from and store to the memory of peers.

A framework takes one of five kernels by the size of the message, and NCCL above them. Which one, and how many thread blocks
load how many bytes, are facts of the frameworks; what a kernel costs follows from launches, barriers, the bytes of the
busiest link, the bytes in flight over a round trip, and local copies.

Source: vLLM `csrc/custom_all_reduce.cuh` (36 blocks of 512 threads, one shot below 512 KiB for 4 chips and 256 KiB for 8;
    recalled) and `vllm/distributed/device_communicators/all_reduce_utils.py` (limits; read); SGLang
    `.../device_communicators/configs/custom_all_reduce_v2.py` (read); TensorRT-LLM
    `cpp/tensorrt_llm/common/customAllReduceUtils.h` (table of strategies, row of hidden size 4,096; read) and, before 1.1,
    at most 128 tokens of custom kernels (recalled).
Limits: Chips of one node behind switches. Hopper and Blackwell have SGLang's second kernels, Ampere its first, as measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from ...archdsl import GpuArch, ModelError
from ..gpu.times import Floats, Ints, KernelTimes
from .algorithms import exchange_cost
from .machine import Machine
from .nccl import nccl_times
from .wiring import wiring_of

KIB: Final = 1024
MIB: Final = 1024**2

KernelKind = Literal[
    "one-shot pull", "two-shot pull", "one-shot push", "one-shot flagged", "two-shot flagged", "multicast"
]
"""Pull: load from peers after a barrier; push: store to peers; flagged: push data that carry their own flags (Lamport)."""

KINDS: Final[tuple[KernelKind, ...]] = (
    "one-shot pull",
    "two-shot pull",
    "one-shot push",
    "one-shot flagged",
    "two-shot flagged",
    "multicast",
)

COPY_EFFICIENCY: Final = 0.92
"""Share of the memory's bandwidth that copies sustain, as `memory_efficiency` of the GPU models."""

LOAD_BYTES: Final = 16
"""Bytes of one load of a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Which kernel serves messages of some sizes.

    Attributes:
        kind: The kernel.
        up_to_bytes: Largest message.
    """

    kind: KernelKind
    up_to_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """How one framework does all-reduce on one generation of GPUs.

    Attributes:
        bands: Kernels by number of chips, those for smaller messages first; NCCL serves what is above all of them.
        threads: Threads that load from peers at once.
    """

    bands: Mapping[int, tuple[Band, ...]]
    threads: int = 36 * 512


def _bands(*limits: tuple[KernelKind, float]) -> tuple[Band, ...]:
    return tuple(Band(kind=kind, up_to_bytes=int(limit)) for kind, limit in limits)


def _vllm(limits: Mapping[int, float], multicast: Mapping[int, float]) -> Framework:
    """One shot below a size, two shots up to a limit, the switch up to another where it is used."""
    one_shot = {2: limits[2], 4: 512 * KIB - 1, 6: 256 * KIB - 1, 8: 256 * KIB - 1}
    bands: dict[int, tuple[Band, ...]] = {}
    for num, limit in limits.items():
        found = _bands(("one-shot pull", min(one_shot[num], limit)), ("two-shot pull", limit))
        bands[num] = found + (_bands(("multicast", multicast[num])) if num in multicast else ())
    return Framework(bands=bands)


_FIRST_KERNELS: Final = _vllm(dict.fromkeys((2, 4, 6, 8), 8 * MIB), {})
"""vLLM's kernels with its default limit, which SGLang took over."""

_VLLM: Final = {
    "ampere": _FIRST_KERNELS,
    "hopper": _vllm({2: 64 * MIB, 4: 32 * MIB, 6: MIB / 2, 8: MIB / 4}, {6: 64 * MIB, 8: 64 * MIB}),
    "blackwell": _vllm({2: 2 * MIB, 4: 2 * MIB, 6: MIB, 8: MIB}, {6: 128 * MIB, 8: 128 * MIB}),
}
_SGLANG_THREADS: Final = 64 * 512
_SGLANG_GRAPH: Final = {
    "ampere": _FIRST_KERNELS,
    "hopper": Framework(
        threads=_SGLANG_THREADS,
        bands={
            2: _bands(("one-shot push", 16 * MIB), ("one-shot pull", 128 * MIB)),
            4: _bands(("one-shot push", 384 * KIB), ("two-shot pull", 128 * MIB)),
            8: _bands(("one-shot push", 128 * KIB), ("two-shot pull", 512 * KIB - 1), ("multicast", 128 * MIB)),
        },
    ),
    "blackwell": Framework(
        threads=_SGLANG_THREADS,
        bands={
            2: _bands(("one-shot push", 8 * MIB), ("one-shot pull", 32 * MIB), ("two-shot pull", 128 * MIB)),
            4: _bands(("one-shot push", 1.125 * MIB), ("two-shot pull", 128 * MIB)),
            8: _bands(("one-shot push", MIB / 2), ("two-shot pull", 8 * MIB - 1), ("multicast", 128 * MIB)),
        },
    ),
}
_SGLANG_EAGER: Final = {
    "ampere": _FIRST_KERNELS,
    "hopper": Framework(
        threads=_SGLANG_THREADS,
        bands={
            2: _bands(("one-shot push", 32 * MIB), ("one-shot pull", 128 * MIB)),
            4: _bands(("one-shot push", 896 * KIB), ("multicast", 32 * MIB)),
            8: _bands(("one-shot push", 128 * KIB), ("multicast", 128 * MIB)),
        },
    ),
    "blackwell": Framework(
        threads=_SGLANG_THREADS,
        bands={
            2: _bands(("one-shot push", 16 * MIB), ("one-shot pull", 128 * MIB)),
            4: _bands(("one-shot push", 3 * MIB), ("two-shot pull", 32 * MIB)),
            8: _bands(("one-shot push", 0.75 * MIB), ("multicast", 128 * MIB)),
        },
    ),
}
_TOKEN_BYTES: Final = 4096 * 2
_TRTLLM: Final = {
    "ampere": Framework(bands={num: _bands(("one-shot flagged", 128 * _TOKEN_BYTES)) for num in (2, 4, 8)}),
    "hopper": Framework(
        bands={
            2: _bands(("one-shot flagged", 2048 * _TOKEN_BYTES)),
            4: _bands(("one-shot flagged", 128 * _TOKEN_BYTES), ("two-shot flagged", 1024 * _TOKEN_BYTES)),
            8: _bands(("one-shot flagged", 64 * _TOKEN_BYTES), ("two-shot flagged", 1024 * _TOKEN_BYTES)),
        }
    ),
    "blackwell": Framework(
        bands={
            2: _bands(("one-shot flagged", 2048 * _TOKEN_BYTES)),
            4: _bands(("one-shot flagged", 512 * _TOKEN_BYTES), ("two-shot flagged", 2048 * _TOKEN_BYTES)),
            8: _bands(("one-shot flagged", 256 * _TOKEN_BYTES), ("two-shot flagged", 4096 * _TOKEN_BYTES)),
        }
    ),
}
FRAMEWORKS: Final[Mapping[str, Mapping[str, Framework]]] = {
    "trtllm": _TRTLLM,
    "vllm_graph": _VLLM,
    "vllm_eager": _VLLM,
    "sglang_graph": _SGLANG_GRAPH,
    "sglang_eager": _SGLANG_EAGER,
}
"""By implementation, then by generation of the GPUs."""

HOST_CONSTANTS: Final = {"vllm_eager": "host_launch_vllm_s", "sglang_eager": "host_launch_sglang_s"}
"""What the host takes per call where no graph launches the kernels."""


def peer_times(machine: Machine, library: str, chips: tuple[str, ...], sizes_bytes: Ints) -> KernelTimes:
    """What a framework's all-reduce takes for messages of some sizes.

    Raises:
        ModelError: The framework has no kernels for these chips, or they do not reach one another directly.
    """
    arch = machine.system.arch_of(chips[0])
    framework, arch = _framework_of(machine, library, chips, arch if isinstance(arch, GpuArch) else None)
    costs = _Costs(machine, framework, chips, arch)
    sizes = sizes_bytes.astype(np.float64)
    bands = framework.bands[len(chips)]
    limits = np.array([band.up_to_bytes for band in bands])
    chosen: Ints = np.searchsorted(limits, sizes_bytes, side="left")
    fallback = nccl_times(machine, "all_reduce", chips, sizes_bytes)
    options = [costs.parts(band.kind, sizes) for band in bands]
    options.append(
        {
            "start": fallback.serial_s["start"],
            "barriers": fallback.serial_s["steps"],
            "links": fallback.serial_s["links"],
            "pipeline fill": fallback.serial_s["pipeline fill"],
            "local copies": np.zeros(len(sizes)),
        }
    )
    serial = {part: np.choose(chosen, [option[part] for option in options]) for part in options[0]}
    choices = tuple(bands[int(at)].kind if at < len(bands) else fallback.choices[idx] for idx, at in enumerate(chosen))
    moving = serial["links"] + serial["local copies"] + serial["pipeline fill"]
    overlapped: dict[str, dict[str, Floats]] = {}
    if library in HOST_CONSTANTS:
        # Without a graph the result goes to a new tensor, which is one copy more.
        kernels = np.sum(list(serial.values()), axis=0) + costs.copy_s(2 * sizes)
        host = np.full(len(sizes), machine.constants[HOST_CONSTANTS[library]])
        overlapped = {"call": {"host": host, "kernels": kernels}}
        serial = {"call": np.maximum(host, kernels)}
        moving = np.where(kernels > host, moving, 0.0)
    total = np.sum(list(serial.values()), axis=0)
    return KernelTimes(
        serial_s=serial,
        overlapped_s=overlapped,
        regime=np.where(moving > total / 2, 1, 2),
        ops=np.zeros(len(sizes)),
        main_memory_bytes=np.zeros(len(sizes)),
        choices=choices,
    )


def _framework_of(
    machine: Machine, library: str, chips: tuple[str, ...], arch: GpuArch | None
) -> tuple[Framework, GpuArch]:
    known = FRAMEWORKS[library]
    generation = arch.generation if arch is not None else None
    if arch is None or generation not in known:
        raise ModelError(
            f"{machine.name}: {library} has all-reduce kernels for GPUs of {', '.join(known)}, not of '{generation}'"
        )
    framework = known[generation]
    if len(chips) not in framework.bands:
        sizes = ", ".join(str(num) for num in framework.bands)
        raise ModelError(f"{machine.name}: {library} has all-reduce kernels for {sizes} chips, not for {len(chips)}")
    if len(wiring_of(machine.system).domains(chips)) > 1:
        raise ModelError(f"{machine.name}: {library} loads from peers, so all chips must stand in one node")
    return framework, arch


class _Costs:
    """Costs of the kernels on some chips."""

    def __init__(self, machine: Machine, framework: Framework, chips: tuple[str, ...], arch: GpuArch) -> None:
        constants = machine.constants
        wiring = wiring_of(machine.system)
        self._num = len(chips)
        self._constants = constants
        self._memory_bytes_per_s = arch.main_memory.bandwidth.bytes_per_s(arch.clock_hz) * COPY_EFFICIENCY
        num_peers = self._num - 1
        links = num_peers / exchange_cost(wiring, chips, 1.0).s_per_byte
        self._rate = links * constants["peer_efficiency"]
        in_flight = framework.threads * LOAD_BYTES * num_peers
        self._pull_rate = min(self._rate, in_flight / constants["peer_latency_s"])
        switch = wiring.reducing_switch(chips)
        self._multicast_rate = wiring.route(chips[0], switch)[0].bytes_per_s if switch is not None else links
        self._multicast_rate *= constants["multicast_efficiency"]

    def copy_s(self, moved_bytes: Floats) -> Floats:
        """Time of moving bytes within a chip's memory [s]."""
        return moved_bytes / self._memory_bytes_per_s

    def parts(self, kind: KernelKind, sizes: Floats) -> dict[str, Floats]:
        """Serial parts of one kernel for all sizes [s]."""
        constants, num = self._constants, self._num
        barrier = constants["peer_barrier_s"] + constants["peer_flag_s"] * (num - 2)
        zeros = np.zeros(len(sizes))
        num_barriers = 2 if kind in ("one-shot pull", "two-shot pull", "multicast") else 1
        barriers = num_barriers * barrier
        if kind in ("two-shot pull", "two-shot flagged", "multicast"):
            barriers += constants["second_phase_s"]
        is_two_shot = kind in ("two-shot pull", "two-shot flagged")
        volume = sizes * (2 * (num - 1) / num if is_two_shot else num - 1)
        rate = self._pull_rate if kind in ("one-shot pull", "two-shot pull") else self._rate
        copied = zeros
        if kind == "one-shot flagged":
            # Every arrival is read and cleared again, beside the own input and output.
            copied = (2 * num + 2) * sizes
        elif kind == "two-shot flagged":
            # Two passes over arrivals of one whole message each, beside input and output.
            copied = 6 * sizes
        elif kind == "multicast":
            volume, rate = sizes * (1 + 1 / num), self._multicast_rate
        return {
            "start": zeros + constants["peer_start_s"],
            "barriers": zeros + barriers,
            "links": volume / rate,
            "pipeline fill": zeros,
            "local copies": self.copy_s(copied),
        }
