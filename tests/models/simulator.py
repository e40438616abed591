"""Brute-force counting: walk the nest, touch every element, count what moves.

This follows docs/counting.md with sets of coordinates and real per-element state, in plain loops, and
shares no formula with `models`. It is slow on purpose: use it on ops of a few hundred points.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

from tileloom import archdsl
from tileloom.archdsl import Op, TensorRole

from .sim_nest import AxisRule, AxisRules, Box, Element, Link, Nest, Place, Time, points, project, tile_elements

__all__ = ["AxisRule", "AxisRules", "SimCounts", "Traffic", "simulate"]


RegisterReads = Literal["per_use", "per_refill"]
MODES: tuple[RegisterReads, ...] = ("per_use", "per_refill")


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Elements that one level moves of one tensor.

    Attributes:
        read: Elements read, every drain included and first accumulations left out.
        write: Elements written.
        first_accumulations: Arrivals from the compute unit that found nothing to add to.
        final_drains: Finished outputs that left the level.
    """

    read: int = 0
    write: int = 0
    first_accumulations: int = 0
    final_drains: int = 0


TrafficMap = dict[tuple[str, str], Traffic]


@dataclass(frozen=True, slots=True, kw_only=True)
class SimCounts:
    """What the simulation counted.

    Attributes:
        traffic: Per way of counting register reads, per (level, tensor).
        steps: Temporal steps, all instances in lock step.
        active: Active compute instances, added up over the steps.
        peak_bytes: Bytes per instance of a level that all its tiles take together.
    """

    traffic: dict[RegisterReads, TrafficMap]
    steps: int
    active: int
    peak_bytes: dict[str, int]

    def actions(
        self, *, register_reads: RegisterReads, first_accumulation_reads: bool, final_drain_is_read: bool
    ) -> dict[tuple[str, str], tuple[int, int]]:
        """Elements (read, written) per (level, tensor) under one convention."""
        out: dict[tuple[str, str], tuple[int, int]] = {}
        for key, moved in self.traffic[register_reads].items():
            read = moved.read + (moved.first_accumulations if first_accumulation_reads else 0)
            out[key] = (read - (0 if final_drain_is_read else moved.final_drains), moved.write)
        return out


def _serve(link: Link, num_refill_loops: int) -> tuple[int, int]:
    """Elements filled into all child instances, and read from the parent for them."""
    held: dict[Place, tuple[Time, frozenset[Element]]] = {}
    asked: dict[tuple[Time, Place, Place], set[Element]] = defaultdict(set)
    filled = 0
    for visit in link.nest.visits[link.child]:
        event = visit.time[:num_refill_loops]
        tile = tile_elements(link.tensor, visit.box)
        old_event, old_tile = held.get(visit.place, (None, frozenset[Element]()))
        if event == old_event:
            assert tile == old_tile, "a tile changed without a refill"
            continue
        same_sweep = old_event is not None and old_event[:-1] == event[:-1]
        fetched = tile - old_tile if link.slides and same_sweep else tile
        held[visit.place] = (event, tile)
        filled += len(fetched)
        asked[event, link.parent_place(visit.place), link.multicast_key(visit.place)] |= fetched
    return filled, sum(map(len, asked.values()))


def _count_operand(links: list[Link], traffic: list[Traffic], mode: RegisterReads) -> None:
    for h, link in enumerate(links):
        filled, read = _serve(link, link.num_event_loops(mode))
        traffic[h].read += read
        traffic[h + 1].write += filled


@dataclass(slots=True)
class _Partial:
    """One element at one holder instance.

    Attributes:
        macs: How many accumulations its value holds.
        is_started: Whether it holds a value at all, or starts from nothing.
        is_lent: Whether its value is with a child instance.
        is_continued: Whether it came from the parent, as a sum to go on with.
        turn: Place in the order of instances that hold the element one after the other.
    """

    macs: int = 0
    is_started: bool = False
    is_lent: bool = False
    is_continued: bool = False
    turn: int = 0


_Content = dict[Element, _Partial]


class _Accumulation:
    """The output's partial sums, moved up and down the holders step by step; the compute unit is the last holder."""

    def __init__(self, nest: Nest, links: list[Link], traffic: list[Traffic], mode: RegisterReads) -> None:
        self.nest, self.tensor, self.links, self.traffic = nest, links[0].tensor, links, traffic
        self.num_event_loops = [0, *(link.num_event_loops(mode) for link in links)]
        self.content: list[dict[Place, _Content]] = [{} for _ in traffic]
        self.drained: list[set[Element]] = [set() for _ in traffic]

    def run(self) -> None:
        """Play all steps, then drain everything to the outermost holder and check the sums."""
        chain = [self.links[0].parent, *(link.child for link in self.links)]
        visits = [self.nest.by_time(node_idx) for node_idx in chain]
        depths = [len(self.nest.temporal_above(node_idx)) for node_idx in chain]
        outermost = tile_elements(self.tensor, visits[0][()][()])
        self.content[0][()] = {element: _Partial() for element in sorted(outermost)}
        inner_first = range(len(chain) - 1, 0, -1)
        last: Time | None = None
        for time, boxes in visits[-1].items():
            for h in inner_first:
                if last is not None and last[: self.num_event_loops[h]] != time[: self.num_event_loops[h]]:
                    self._drain(h)
            for h in range(1, len(chain)):
                self._fill(h, visits[h][time[: depths[h]]])
            for place, box in boxes.items():
                self._multiply(place, box)
            last = time
        for h in inner_first:
            self._drain(h)
            self.traffic[h].final_drains += len(self.drained[h])
        self._check_sums()

    def _fill(self, h: int, boxes: dict[Place, Box]) -> None:
        """Give every instance without a tile its tile; a started sum goes to one instance of those that ask.

        Where windows overlap without being side by side the instances take turns: each but the first
        is sent what the one before has brought back.
        """
        link = self.links[h - 1]
        turns: dict[tuple[Place, Element], dict[Place, int]] = defaultdict(dict)
        for place, box in boxes.items():
            tile = tile_elements(self.tensor, box)
            if place in self.content[h]:
                assert self.content[h][place].keys() == tile, "a tile changed without a refill"
                continue
            parent, turn = link.parent_place(place), link.apart_key(place)
            mine = self.content[h][place] = {element: _Partial() for element in sorted(tile)}
            for element, partial in mine.items():
                above = self.content[h - 1][parent][element]
                order = turns[parent, element]
                is_new_turn = turn not in order
                partial.turn = order.setdefault(turn, len(order))
                is_loan = above.is_started and not above.is_lent
                if not is_loan and not (is_new_turn and partial.turn > 0):
                    continue
                partial.macs, partial.is_started, partial.is_continued = above.macs, True, True
                above.macs, above.is_lent = 0, above.is_started
                self.traffic[h - 1].read += 1
                self.traffic[h].write += 1

    def _multiply(self, place: Place, box: Box) -> None:
        """One step of one compute instance."""
        for point in points(box):
            partial = self.content[-1][place][project(self.tensor, point)]
            partial.macs += 1
            partial.is_started = True

    def _drain(self, h: int) -> None:
        """Send all tiles of holder `h` to the parents; sums of one reduction group arrive as one."""
        link = self.links[h - 1]
        arrivals: dict[tuple[Place, Place, Element], list[_Partial]] = defaultdict(list)
        for place, tile in sorted(self.content[h].items()):
            for element, partial in tile.items():
                assert partial.is_started, "an element leaves that no accumulation reached"
                self.traffic[h].read += 1
                self.drained[h].add(element)
                key = (link.parent_place(place), link.reduction_key(place), element)
                arrivals[key].append(partial)
        self.content[h] = {}
        for (parent, _, element), parts in sorted(arrivals.items(), key=_homecoming):
            above = self.content[h - 1][parent][element]
            is_return = any(part.is_continued for part in parts)
            assert is_return or not above.is_lent
            if above.is_started and not is_return:
                self.traffic[h - 1].read += 1
            elif link.is_compute and not is_return:
                self.traffic[h - 1].first_accumulations += 1
            self.traffic[h - 1].write += 1
            above.macs += sum(part.macs for part in parts)
            above.is_started, above.is_lent = True, False

    def _check_sums(self) -> None:
        """Every output element holds exactly the accumulations that belong to it."""
        whole = {dim: range(size) for dim, size in self.nest.op.dims}
        expected: dict[Element, int] = defaultdict(int)
        for point in points(whole):
            expected[project(self.tensor, point)] += 1
        got = {element: partial.macs for element, partial in self.content[0][()].items()}
        assert got == dict(expected), "a partial sum was lost or added twice"


def _homecoming(arrival: tuple[object, list[_Partial]]) -> tuple[int, bool]:
    """In order of turns; within one, what was lent comes first, or it would overwrite what the others brought."""
    _, parts = arrival
    return min(part.turn for part in parts), not any(part.is_continued for part in parts)


def simulate(op: Op, mapping: archdsl.Mapping, axes: AxisRules) -> SimCounts:
    """Count one mapping by walking it.

    Args:
        op: A small op.
        mapping: A legal mapping of it.
        axes: What every (fan-out, axis) named by the mapping can do.
    """
    nest = Nest(op, mapping)
    traffic: dict[RegisterReads, TrafficMap] = {mode: {} for mode in MODES}
    for tensor in op.tensors:
        chain = [*nest.holders(tensor), nest.compute_idx]
        links = [Link(nest, tensor, parent, child, axes) for parent, child in itertools.pairwise(chain)]
        for mode in MODES:
            moved = [Traffic() for _ in chain]
            if tensor.role is TensorRole.OUTPUT:
                _Accumulation(nest, links, moved, mode).run()
            else:
                _count_operand(links, moved, mode)
            levels = [nest.level(holder) for holder in chain[:-1]]
            traffic[mode] |= {(level, tensor.name): t for level, t in zip(levels, moved, strict=False)}
    leaves = nest.visits[nest.compute_idx]
    steps = len({leaf.time for leaf in leaves})
    return SimCounts(traffic=traffic, steps=steps, active=len(leaves), peak_bytes=_peak_bytes(nest))


def _peak_bytes(nest: Nest) -> dict[str, int]:
    peak: dict[str, int] = defaultdict(int)
    for tensor in nest.op.tensors:
        for holder in nest.holders(tensor):
            most = max(len(tile_elements(tensor, visit.box)) for visit in nest.visits[holder])
            peak[nest.level(holder)] += -(-most * tensor.bits // 8)
    return dict(peak)
