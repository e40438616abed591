"""Brute-force counting: walk the nest, touch every element, count what moves.

This follows docs/counting.md with sets of coordinates and real per-element state, in plain loops, and
shares no formula with `models`. It is slow on purpose: use it on ops of a few hundred points.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from tileloom import archdsl
from tileloom.archdsl import Op, Tensor, TensorRole

from .sim_nest import AxisRule, AxisRules, Box, Element, Link, Nest, Place, Time, points, project, tile_elements

__all__ = ["AxisRule", "AxisRules", "SimCounts", "Traffic", "simulate"]


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Elements that one level reads and writes of one tensor, split so that every convention can be formed."""

    read: int = 0
    write: int = 0
    read_per_use: int = 0
    read_per_refill: int = 0
    first_accumulations: int = 0
    final_drains: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimCounts:
    """What the simulation counted.

    Attributes:
        traffic: Per (level, tensor).
        steps: Temporal steps, all instances in lock step.
        active: Active compute instances, added up over the steps.
        peak_bytes: Bytes per instance of a level that all its tiles take together.
    """

    traffic: dict[tuple[str, str], Traffic] = field(default_factory=dict[tuple[str, str], Traffic])
    steps: int
    active: int
    peak_bytes: dict[str, int]

    def actions(
        self, *, register_reads: str, first_accumulation_reads: bool, final_drain_is_read: bool
    ) -> dict[tuple[str, str], tuple[int, int]]:
        """Elements (read, written) per (level, tensor) under one convention."""
        out: dict[tuple[str, str], tuple[int, int]] = {}
        for key, moved in self.traffic.items():
            read = moved.read + (moved.read_per_use if register_reads == "per_use" else moved.read_per_refill)
            read += moved.first_accumulations if first_accumulation_reads else 0
            read -= 0 if final_drain_is_read else moved.final_drains
            out[key] = (read, moved.write)
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


def _count_operand(nest: Nest, tensor: Tensor, axes: AxisRules, traffic: dict[tuple[str, str], Traffic]) -> None:
    chain = [*nest.holders(tensor), nest.compute_idx]
    for parent, child in itertools.pairwise(chain):
        link = Link(nest, tensor, parent, child, axes)
        above = traffic[nest.level(parent), tensor.name]
        if link.is_compute:
            above.read_per_use += _serve(link, len(nest.temporal_above(child)))[1]
            above.read_per_refill += _serve(link, link.num_refill_loops)[1]
        else:
            filled, read = _serve(link, link.num_refill_loops)
            above.read += read
            traffic[nest.level(child), tensor.name].write += filled


@dataclass(slots=True)
class _Partial:
    """One element at one holder instance.

    Attributes:
        macs: How many accumulations its value holds.
        is_started: Whether it holds a value at all, or starts from nothing.
        is_lent: Whether its value is with a child instance.
    """

    macs: int = 0
    is_started: bool = False
    is_lent: bool = False


_Content = dict[Element, _Partial]


class _Accumulation:
    """The output's partial sums, moved up and down the holders step by step."""

    def __init__(self, nest: Nest, tensor: Tensor, axes: AxisRules, traffic: dict[tuple[str, str], Traffic]) -> None:
        self.nest, self.tensor = nest, tensor
        self.chain = nest.holders(tensor)
        chain = [*self.chain, nest.compute_idx]
        self.links = [Link(nest, tensor, p, c, axes) for p, c in itertools.pairwise(chain)]
        self.traffic = [traffic[nest.level(holder), tensor.name] for holder in self.chain]
        self.content: list[dict[Place, _Content]] = [{} for _ in self.chain]
        self.loans: set[tuple[int, Place, Element]] = set()
        self.drained: list[set[Element]] = [set() for _ in self.chain]
        self.by_time = [self._group_by_time(node_idx) for node_idx in self.chain]

    def _group_by_time(self, node_idx: int) -> dict[Time, dict[Place, frozenset[Element]]]:
        grouped: dict[Time, dict[Place, frozenset[Element]]] = defaultdict(dict)
        for visit in self.nest.visits[node_idx]:
            grouped[visit.time][visit.place] = tile_elements(self.tensor, visit.box)
        return grouped

    def _leaves(self) -> dict[Time, dict[Place, Box]]:
        leaves: dict[Time, dict[Place, Box]] = defaultdict(dict)
        for visit in self.nest.visits[self.nest.compute_idx]:
            leaves[visit.time][visit.place] = visit.box
        return leaves

    def run(self) -> None:
        """Play all steps, then drain everything to the outermost holder and check the sums."""
        tile = self.by_time[0][()][()]
        self.content[0][()] = {element: _Partial() for element in tile}
        events: list[Time | None] = [None] * len(self.chain)
        depth_of_time = [len(self.nest.temporal_above(holder)) for holder in self.chain]
        for time, boxes in self._leaves().items():
            for h in range(len(self.chain) - 1, 0, -1):
                if events[h] is not None and events[h] != time[: self.links[h - 1].num_refill_loops]:
                    self._drain(h)
            for h in range(1, len(self.chain)):
                events[h] = time[: self.links[h - 1].num_refill_loops]
                self._fill(h, self.by_time[h][time[: depth_of_time[h]]])
            self._accumulate(boxes)
        for h in range(len(self.chain) - 1, 0, -1):
            self._drain(h)
        for h in range(1, len(self.chain)):
            self.traffic[h].final_drains += len(self.drained[h])
        self._check_sums()

    def _fill(self, h: int, tiles: dict[Place, frozenset[Element]]) -> None:
        """Give every instance without a tile its tile; a started sum goes to one instance of those that ask."""
        link = self.links[h - 1]
        for place, tile in sorted(tiles.items()):
            if place in self.content[h]:
                assert self.content[h][place].keys() == tile, "a tile changed without a refill"
                continue
            parent = self.content[h - 1][link.parent_place(place)]
            mine = self.content[h][place] = {element: _Partial() for element in sorted(tile)}
            for element, partial in mine.items():
                above = parent[element]
                if above.is_started and not above.is_lent:
                    partial.macs, partial.is_started = above.macs, True
                    above.macs, above.is_lent = 0, True
                    self.loans.add((h, place, element))
                    self.traffic[h - 1].read += 1
                    self.traffic[h].write += 1

    def _drain(self, h: int) -> None:
        """Send all tiles of holder `h` to the parents; sums of one reduction group arrive as one."""
        link = self.links[h - 1]
        arrivals: dict[tuple[Place, Place, Element], list[tuple[bool, int]]] = defaultdict(list)
        for place, tile in sorted(self.content[h].items()):
            for element, partial in tile.items():
                assert partial.is_started, "an element leaves that no accumulation reached"
                self.traffic[h].read += 1
                self.drained[h].add(element)
                was_lent = (h, place, element) in self.loans
                self.loans.discard((h, place, element))
                key = (link.parent_place(place), link.reduction_key(place), element)
                arrivals[key].append((was_lent, partial.macs))
        self.content[h] = {}
        # What was lent comes home first, or it would overwrite what the others brought.
        for (parent, _, element), parts in sorted(arrivals.items(), key=lambda item: not any(x for x, _ in item[1])):
            above = self.content[h - 1][parent][element]
            is_return = any(was_lent for was_lent, _ in parts)
            assert is_return or not above.is_lent
            if above.is_started and not is_return:
                self.traffic[h - 1].read += 1
            self.traffic[h - 1].write += 1
            above.macs += sum(macs for _, macs in parts)
            above.is_started, above.is_lent = True, False

    def _accumulate(self, boxes: dict[Place, Box]) -> None:
        """One step of all compute instances: add to the innermost holder."""
        link = self.links[-1]
        arrivals: dict[tuple[Place, Place, Element], int] = defaultdict(int)
        for place, box in boxes.items():
            parent, key = link.parent_place(place), link.reduction_key(place)
            for point in points(box):
                arrivals[parent, key, project(self.tensor, point)] += 1
        for (parent, _, element), added in arrivals.items():
            above = self.content[-1][parent][element]
            if above.is_started:
                self.traffic[-1].read += 1
            else:
                self.traffic[-1].first_accumulations += 1
            self.traffic[-1].write += 1
            above.macs += added
            above.is_started = True

    def _check_sums(self) -> None:
        """Every output element holds exactly the accumulations that belong to it."""
        whole = {dim: range(size) for dim, size in self.nest.op.dims}
        expected: dict[Element, int] = defaultdict(int)
        for point in points(whole):
            expected[project(self.tensor, point)] += 1
        got = {element: partial.macs for element, partial in self.content[0][()].items()}
        assert got == dict(expected), "a partial sum was lost or added twice"


def simulate(op: Op, mapping: archdsl.Mapping, axes: AxisRules) -> SimCounts:
    """Count one mapping by walking it.

    Args:
        op: A small op.
        mapping: A legal mapping of it.
        axes: What every (fan-out, axis) named by the mapping can do.
    """
    nest = Nest(op, mapping)
    traffic: dict[tuple[str, str], Traffic] = defaultdict(Traffic)
    for tensor in op.tensors:
        for holder in nest.holders(tensor):
            traffic[nest.level(holder), tensor.name] = Traffic()
        if tensor.role is TensorRole.OUTPUT:
            _Accumulation(nest, tensor, axes, traffic).run()
        else:
            _count_operand(nest, tensor, axes, traffic)
    leaves = nest.visits[nest.compute_idx]
    return SimCounts(
        traffic=dict(traffic),
        steps=len({leaf.time for leaf in leaves}),
        active=len(leaves),
        peak_bytes=_peak_bytes(nest),
    )


def _peak_bytes(nest: Nest) -> dict[str, int]:
    peak: dict[str, int] = defaultdict(int)
    for tensor in nest.op.tensors:
        for holder in nest.holders(tensor):
            most = max(len(tile_elements(tensor, visit.box)) for visit in nest.visits[holder])
            peak[nest.level(holder)] += -(-most * tensor.bits // 8)
    return dict(peak)
