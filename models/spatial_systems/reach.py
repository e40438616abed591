"""How much on-chip memory a chip reaches within a time: the latency of distributed SRAM."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...archdsl import ModelError, SpatialArch, System
from ..systems.wiring import wiring_of
from .array import held_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """What lies within a number of hops.

    Attributes:
        capacity_bytes: Memory of the chip itself and of all chips within reach.
        num_chips: Those chips, with the chip itself.
        latency_s: Latency to the farthest of them [s].
    """

    capacity_bytes: float
    num_chips: int
    latency_s: float


def reach_of(system: System, chip: str) -> tuple[Reach, ...]:
    """Memory within reach of a chip, one entry per distinct latency, the nearest first.

    Raises:
        ModelError: The chips have main memory, or do not reach one another.
    """
    wiring = wiring_of(system)
    found = sorted((0.0 if other == chip else wiring.latency_s(chip, other), other) for other in system.chip_names)
    capacities = {group.name: _sram_bytes(group.arch) for group in system.chips}
    reached: list[Reach] = []
    total = 0.0
    for count, (latency, other) in enumerate(found, start=1):
        total += capacities[other.rpartition(".")[0]]
        is_last = count == len(found) or found[count][0] > latency * (1 + 1e-9) + 1e-12
        if is_last and other != chip:
            reached.append(Reach(capacity_bytes=total, num_chips=count, latency_s=latency))
    return tuple(reached)


def latency_for(reaches: Sequence[Reach], capacity_bytes: float) -> float:
    """Latency within which a capacity is reached [s].

    Raises:
        ModelError: It is more than the system has.
    """
    for reach in reaches:
        if reach.capacity_bytes >= capacity_bytes:
            return reach.latency_s
    has = reaches[-1].capacity_bytes if reaches else 0.0
    raise ModelError(f"{capacity_bytes:,.0f} bytes are wanted, and the system has {has:,.0f} on its chips")


def _sram_bytes(arch: object) -> float:
    if not isinstance(arch, SpatialArch) or arch.memories[0].memory_class == "main_memory":
        raise ModelError("only chips whose outermost memory is on the chip reach one another's memory this way")
    return held_bytes(arch.memories[0])
