"""Static memory planning: which activations stand in the scratchpad, and where, by their lifetimes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .exact_planning import optimal_places


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetime:
    """Something that needs room for a while.

    Attributes:
        name: Unique.
        num_bytes: Its size.
        first, last: The first and the last kernel that touches it.
        traffic_bytes: Bytes that main memory is spared if it stands in the scratchpad.
    """

    name: str
    num_bytes: int
    first: int
    last: int
    traffic_bytes: int = 0

    def meets(self, other: Lifetime) -> bool:
        """Whether both are there at the same time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """Where things stand.

    Attributes:
        addresses: First byte by name, of all that found room.
        peak_bytes: First byte behind all of it.
        live_bytes: The most bytes that are there at the same time; no plan needs less room.
    """

    addresses: dict[str, int]
    peak_bytes: int
    live_bytes: int

    @property
    def fragmentation(self) -> float:
        """Share of the peak that is lost between things."""
        return 1 - self.live_bytes / self.peak_bytes if self.peak_bytes else 0.0


def plan_memory(lifetimes: Sequence[Lifetime], capacity_bytes: int, unit: int) -> MemoryPlan:
    """Places what spares main memory most first, the larger first, each as low as its neighbours in time allow.

    Where that does not fit and OR-Tools is installed, small cases are packed to the optimum.

    Args:
        lifetimes: What needs room.
        capacity_bytes: The room.
        unit: What places begin at a multiple of.
    """
    chosen = _chosen(lifetimes, capacity_bytes)
    while True:
        placed = _placed(chosen, unit)
        ends = {item.name: placed[item.name] + item.num_bytes for item in chosen}
        over = [item for item in chosen if ends[item.name] > capacity_bytes]
        if over:
            # All of them would fit side by side at any time: perhaps a better packing does.
            better = optimal_places(chosen, capacity_bytes, unit)
            if better is not None:
                placed, over = better, []
                ends = {item.name: placed[item.name] + item.num_bytes for item in chosen}
        if not over:
            peak = max(ends.values(), default=0)
            return MemoryPlan(addresses=placed, peak_bytes=peak, live_bytes=_most_live(chosen))
        chosen.remove(min(over, key=lambda item: (item.traffic_bytes / item.num_bytes, -item.num_bytes, item.name)))


def _chosen(lifetimes: Sequence[Lifetime], capacity_bytes: int) -> list[Lifetime]:
    """What fits by the sum of what is there at any time: those first that spare most for the room and time they take."""

    def value(item: Lifetime) -> float:
        return item.traffic_bytes / (item.num_bytes * (item.last - item.first + 1))

    found: list[Lifetime] = []
    for item in sorted(lifetimes, key=lambda item: (-value(item), item.first, item.name)):
        if _most_live([*found, item]) <= capacity_bytes:
            found.append(item)
    return found


def _most_live(items: Sequence[Lifetime]) -> int:
    times = {item.first for item in items}
    return max((sum(i.num_bytes for i in items if i.first <= time <= i.last) for time in times), default=0)


def _placed(items: Sequence[Lifetime], unit: int) -> dict[str, int]:
    """The lowest place for each, the largest first."""
    placed: dict[str, int] = {}
    done: list[Lifetime] = []
    for item in sorted(items, key=lambda item: (-item.num_bytes, item.first, item.name)):
        at = 0
        for other in sorted((o for o in done if o.meets(item)), key=lambda other: placed[other.name]):
            if placed[other.name] >= at + item.num_bytes:
                break
            at = max(at, -(-(placed[other.name] + other.num_bytes) // unit) * unit)
        placed[item.name] = at
        done.append(item)
    return placed
