"""Latency in `detailed` fidelity: ports, double buffering, fill and drain, exposed first and last transfers.

From the inside out: the PE array's time, not less than any memory's port time; then, for each place of the
nest at which tiles are moved, the transfers that do not hide behind what lies inside. docs/latency.md is the
definition. Everything is an array over a batch of mappings; one mapping is a batch of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .batches import count
from .conventions import Convention
from .counts import Counts
from .detailed_array import ArrayCycles, array_cycles
from .detailed_link import has_cached_path
from .detailed_timing import Timing
from .detailed_transfers import Exposed, Group, expose, groups_of
from .nest import FloatArray, Nest
from .parts import Part
from .pieces import Pieces
from .pricing import total


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycles:
    """A named amount of cycles over a batch; `Part` is one entry of it.

    Attributes:
        name: What it is.
        amount: Cycles, [batch].
        rule: How `amount` follows from `parts`.
        parts: What it is made of.
    """

    name: str
    amount: FloatArray
    rule: Literal["leaf", "sum", "max"] = "leaf"
    parts: tuple[Cycles, ...] = ()

    def at(self, idx: int) -> Part:
        """The tree of one mapping of the batch."""
        return Part(
            name=self.name,
            amount=float(self.amount[idx]),
            unit="cycles",
            rule=self.rule,
            parts=tuple(part.at(idx) for part in self.parts),
        )


def detailed_batch(
    nest: Nest, tiles: FloatArray, timing: Timing, convention: Convention, *, warm_caches: bool = False
) -> Cycles:
    """Detailed latency of a batch of mappings of one structure.

    Args:
        nest: Structure of the mappings.
        tiles: Tile of each loop, [loops, batch].
        timing: The architecture.
        convention: The counting convention.
        warm_caches: The op has just run once, so that a cache which holds all of its data holds them already.

    Returns:
        A tree over the batch; its `amount` is the latency.

    Raises:
        ModelError: The compute unit lacks the op's datatype.
    """
    return detailed_cycles(count(nest, tiles, convention), tiles, timing, warm_caches=warm_caches)


def detailed_cycles(counts: Counts, tiles: FloatArray, timing: Timing, *, warm_caches: bool = False) -> Cycles:
    """Detailed latency from counts that are there already; see `detailed_batch`."""
    nest = counts.nest
    pieces = Pieces(nest, tiles)
    groups = groups_of(counts, pieces, timing, warm_caches)
    starts = _starts(groups, pieces.batch)
    inside = _inside(counts, pieces, timing, starts[-1])
    for group, times in zip(reversed(groups), reversed(starts[:-1]), strict=True):
        exposed = expose(group, inside.amount, timing, times)
        inside = _with_transfers(inside, group, exposed, timing)
    return Cycles(name="latency", amount=inside.amount, rule=inside.rule, parts=inside.parts)


def bottleneck_of(latency: Part) -> str:
    """Name of what sets a latency: the largest part, followed down to a leaf."""
    part = latency
    while part.parts:
        part = part.largest
    return part.name


def _starts(groups: Sequence[Group], batch: int) -> list[FloatArray]:
    """How often each group, and last the array, starts from rest: at each refill outside that does not overlap."""
    starts: list[FloatArray] = [np.ones(batch)]
    for group in groups:
        serial = [link.refills for link in group.links if not link.overlaps]
        starts.append(np.maximum.reduce([starts[-1], *serial]))
    return starts


def _inside(counts: Counts, pieces: Pieces, timing: Timing, starts: FloatArray) -> Cycles:
    """The array's time and the ports' times, of which the largest counts."""
    nest = counts.nest
    array = array_cycles(
        nest,
        pieces,
        timing.array,
        counts.steps,
        timing.step_cycles(nest.op.datatype),
        _feed_latency(nest, timing),
        starts,
    )
    ports = [
        Cycles(name=level.name, amount=_port_time(counts, timing, idx))
        for idx, level in enumerate(timing.levels)
        # A cache on the way takes traffic off the outermost memory; its transfers are timed with the links.
        if idx > 0 or not has_cached_path(counts, timing)
    ]
    return _largest("computing", [_array_part(array, timing), *ports])


def _array_part(array: ArrayCycles, timing: Timing) -> Cycles:
    parts = [
        Cycles(name=timing.compute, amount=array.steps),
        Cycles(name="loading stationary tiles", amount=array.loading),
        Cycles(name="filling and draining the array", amount=array.filling),
        Cycles(name="pace of instructions", amount=array.pacing),
    ]
    return _summed("PE array", parts)


def _port_time(counts: Counts, timing: Timing, idx: int) -> FloatArray:
    level = timing.levels[idx]
    reads = total(counts.read_bytes[idx]) / level.read_bytes_per_cycle
    writes = total(counts.write_bytes[idx]) / level.write_bytes_per_cycle
    both = reads + writes if level.shares_port else np.maximum(reads, writes)
    return both / counts.instances[idx]


def _feed_latency(nest: Nest, timing: Timing) -> int:
    """Latency of the memory outside the array from which operands stream in: the longest of them."""
    compute = len(timing.levels)
    found = [1]
    for chain, tensor in zip(nest.holders, nest.op.tensors, strict=True):
        if tensor.role in ("input", "weight") and tensor.role != timing.array.stationary:
            feeding = [h.level for h in chain if h.level < compute and _is_outside(nest, h.level)]
            found.append(timing.levels[feeding[-1]].latency_cycles)
    return max(found)


def _is_outside(nest: Nest, level: int) -> bool:
    return nest.hierarchy.levels[level].num_fanouts < max(nest.hierarchy.num_fanouts, 1)


def _with_transfers(inside: Cycles, group: Group, exposed: Exposed, timing: Timing) -> Cycles:
    """What lies inside, with the group's transfers around it."""
    parent = timing.levels[group.parent].name
    children = ", ".join(timing.levels[child].name for child in sorted({link.child for link in group.links}))
    way = f"{parent} to {children}"
    busy = Cycles(name=parent, amount=exposed.busy)
    steady = _largest(f"computing beside {way}", [inside, busy])
    uneven = np.maximum(inside.amount + exposed.stalls - steady.amount, 0.0)
    parts = [
        steady,
        Cycles(name=f"uneven transfers, {way}", amount=uneven),
        Cycles(name=f"serial transfers, {way}", amount=exposed.serial),
        Cycles(name=f"first load, {way}", amount=exposed.first),
        Cycles(name=f"last store, {way}", amount=exposed.last),
    ]
    return _summed(f"with transfers, {way}", parts)


def _summed(name: str, parts: Sequence[Cycles]) -> Cycles:
    amount = parts[0].amount
    for part in parts[1:]:
        amount = amount + part.amount
    return Cycles(name=name, amount=amount, rule="sum", parts=tuple(parts))


def _largest(name: str, parts: Sequence[Cycles]) -> Cycles:
    return Cycles(name=name, amount=np.maximum.reduce([p.amount for p in parts]), rule="max", parts=tuple(parts))
