"""Transfers between memories: what one refill of a tile takes, and how refills hide behind computation.

All amounts are arrays over a batch of mappings. Transfers that leave one memory at the same place of the
nest form a *group*; a *step* of the group is one iteration of the loops above that place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from .counts import Counts, Transfer
from .detailed_array import time_steps
from .detailed_link import Link, link_of
from .detailed_timing import LevelTiming, Timing
from .nest import FloatArray, Holder
from .pieces import Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Links from one parent at one place of the nest.

    Attributes:
        parent: Level that serves them.
        num_loops: Loops above the place.
        steps: Iterations of those loops in time.
        links: The links.
    """

    parent: int
    num_loops: int
    steps: FloatArray
    links: tuple[Link, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposed:
    """What a group adds to the time of what lies inside it; cycles over the whole run, [batch].

    Attributes:
        busy: Time of the transfers that may hide.
        stalls: Part of it that does not, because single steps move more than one step's computation hides.
        serial: Transfers that do not overlap with computation at all.
        first: Loading the first tiles.
        last: Storing the last tile.
    """

    busy: FloatArray
    stalls: FloatArray
    serial: FloatArray
    first: FloatArray
    last: FloatArray


def groups_of(counts: Counts, pieces: Pieces, timing: Timing, warm_caches: bool) -> tuple[Group, ...]:
    """The groups of a batch, outermost first."""
    nest = counts.nest
    compute = len(nest.hierarchy.levels)
    place = {
        level: max(h.num_loops for chain in nest.holders for h in chain if h.level == level)
        for level in range(1, compute)
        if any(h.level == level for chain in nest.holders for h in chain)
    }
    members: dict[tuple[int, int], list[tuple[Transfer, Holder]]] = {}
    for transfer in counts.transfers:
        if transfer.child < compute:
            holder = next(h for h in nest.holders[transfer.tensor] if h.level == transfer.child)
            members.setdefault((place[transfer.child], transfer.parent), []).append((transfer, holder))
    groups: list[Group] = []
    for (num_loops, parent), transfers in sorted(members.items()):
        steps = time_steps(nest, pieces, num_loops)
        links = tuple(link_of(counts, pieces, timing, transfer, holder, warm_caches) for transfer, holder in transfers)
        groups.append(Group(parent=parent, num_loops=num_loops, steps=steps, links=links))
    return tuple(groups)


def expose(group: Group, inside: FloatArray, timing: Timing, starts: FloatArray) -> Exposed:
    """What the group's transfers add to `inside`, the time of everything below it.

    A double-buffered child gets the next step's tiles while the current step computes, so a step takes the
    longer of the two. Tensors with fewer refills move only at some of the steps; those steps are nested,
    because a refill of an outer tile also changes the inner ones.

    Args:
        group: The group.
        inside: Cycles of everything inside, over the whole run.
        timing: The architecture.
        starts: How often the pipeline starts from rest.
    """
    per_step = inside / group.steps
    hidden = tuple(link for link in group.links if link.overlaps)
    exposed = tuple(link for link in group.links if not link.overlaps)
    zero = np.zeros_like(inside)
    serial = zero
    for steps, cycles in _classes(group, exposed, timing):
        serial = serial + steps * cycles
    if not hidden:
        return Exposed(busy=zero, stalls=zero, serial=serial, first=zero, last=zero)
    busy, stalls = zero, zero
    together = zero
    for steps, cycles in _classes(group, hidden, timing):
        busy = busy + steps * cycles
        stalls = stalls + steps * np.maximum(cycles - per_step, 0.0)
        together = np.where(steps > 0, cycles, together)
    # The first step's tiles hide behind nothing, so one step fewer is overlapped.
    stalls = stalls - np.maximum(together - per_step, 0.0)
    return Exposed(
        busy=busy - together,
        stalls=np.maximum(stalls, 0.0),
        serial=serial,
        first=starts * _once(group, hidden, timing, inward=True),
        last=starts * _once(group, hidden, timing, inward=False),
    )


def _classes(group: Group, links: tuple[Link, ...], timing: Timing) -> list[tuple[FloatArray, FloatArray]]:
    """Kinds of steps by the tensors that move: how many steps, and the cycles of one's transfers.

    The kind with most tensors comes last.
    """
    if not links:
        return []
    refills = np.stack([link.refills for link in links])
    order = np.argsort(-refills, axis=0, kind="stable")
    ranked = np.take_along_axis(refills, order, axis=0)
    following = np.vstack([ranked[1:], np.zeros((1, ranked.shape[1]))])
    cycles = _port_cycles(group, links, timing, order)
    return [(ranked[k] - following[k], cycles[k]) for k in range(len(links))]


def _once(group: Group, links: tuple[Link, ...], timing: Timing, *, inward: bool) -> FloatArray:
    """Cycles of loading every operand's tile, or of storing the output's, when nothing else moves."""
    zero = np.zeros_like(links[0].refills)
    alone = [
        replace(
            link,
            parent_in=link.parent_in if inward else zero,
            parent_out=zero if inward else link.parent_out,
            parent_shared=zero,
            child_in=link.child_in if inward else zero,
            child_out=zero if inward else link.child_out,
            lanes=zero if inward else link.lanes,
        )
        for link in links
        if link.is_output != inward
    ]
    if not alone:
        return zero
    order = np.tile(np.arange(len(alone)).reshape(-1, 1), (1, zero.shape[0]))
    return _port_cycles(group, tuple(alone), timing, order)[-1]


def _port_cycles(group: Group, links: tuple[Link, ...], timing: Timing, order: npt.NDArray[np.intp]) -> FloatArray:
    """Cycles in which the first 1, 2, ... links in `order` are refilled together, [links, batch].

    The parent serves the links one after the other; so does each child. Every busy step waits once for
    the parent's latency.
    """

    def gathered(name: str, at: int | None = None) -> FloatArray:
        zero = np.zeros_like(links[0].refills)
        table = np.stack([getattr(link, name) if at is None or link.child == at else zero for link in links])
        return np.cumsum(np.take_along_axis(table, order, axis=0), axis=0)

    parent = timing.levels[group.parent]
    names = ("parent_in", "parent_out", "parent_shared", "lanes")
    cycles = np.maximum.reduce([gathered(name) for name in names])
    for child in sorted({link.child for link in links}):
        both = _combined(gathered("child_out", child), gathered("child_in", child), timing.levels[child])
        cycles = np.maximum(cycles, both)
    return np.where(cycles > 0, cycles + parent.latency_cycles, 0.0)


def _combined(reads: FloatArray, writes: FloatArray, level: LevelTiming) -> FloatArray:
    return reads + writes if level.shares_port else np.maximum(reads, writes)
