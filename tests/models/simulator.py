"""Brute-force counting: walk the nest, touch every element, count what moves.

This follows docs/counting.md with sets of coordinates and real per-element state, in plain loops, and
shares no formula with `models`. It is slow on purpose: use it on ops of a few hundred points.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import Protocol

from tileloom import archdsl
from tileloom.archdsl import Op, Tensor, TensorRole

from .sim_nest import AxisRule, AxisRules, Element, Link, Nest, Place, Time, tile_elements
from .sim_outputs import REFILLS, OutputMoves, PartialSumRefills, accumulate

__all__ = ["AxisRule", "AxisRules", "SimCounts", "Switches", "simulate"]


class Switches(Protocol):
    """A counting convention."""

    @property
    def register_reads(self) -> str: ...
    @property
    def first_accumulation_reads(self) -> bool: ...
    @property
    def final_drain_is_read(self) -> bool: ...
    @property
    def partial_sum_refills(self) -> PartialSumRefills: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandMoves:
    """What moves of an input or weight from one holder to the next, in elements.

    Attributes:
        filled: Written into all child instances.
        delivered: Read from the parent when it serves each use.
        delivered_per_refill: Read from the parent when a tile is served once.
    """

    filled: int
    delivered: int
    delivered_per_refill: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SimCounts:
    """What the simulation counted.

    Attributes:
        levels: Per tensor the levels that hold it, outermost first.
        operands: Per input or weight the moves from each holder to the next; the compute unit is the last.
        outputs: Likewise for the output, per way of refilling partial sums.
        steps: Temporal steps, all instances in lock step.
        peak_bytes: Bytes per instance of a level that all its tiles take together.
    """

    levels: dict[str, list[str]]
    operands: dict[str, list[OperandMoves]]
    outputs: dict[PartialSumRefills, list[OutputMoves]]
    steps: int
    peak_bytes: dict[str, int]

    def actions(self, switches: Switches) -> dict[tuple[str, str], tuple[int, int]]:
        """Elements (read, written) per (level, tensor) under one convention."""
        read: dict[tuple[str, str], int] = defaultdict(int)
        write: dict[tuple[str, str], int] = defaultdict(int)
        for name, levels in self.levels.items():
            holders = [(level, name) for level in levels]
            compute = ("", "")
            if name in self.operands:
                for parent, child, moves in zip(holders, [*holders[1:], compute], self.operands[name], strict=True):
                    is_latched = child == compute and switches.register_reads == "per_refill"
                    read[parent] += moves.delivered_per_refill if is_latched else moves.delivered
                    write[child] += moves.filled
                continue
            outputs = self.outputs[switches.partial_sum_refills]
            for parent, child, moves in zip(holders, [*holders[1:], compute], outputs, strict=True):
                back, sent = moves.back, moves.sent
                if switches.first_accumulation_reads:
                    is_in_goes = moves.arrived > moves.distinct
                    back, sent = (moves.arrived, moves.asked) if is_in_goes else (0, 0)
                write[parent] += moves.arrived
                read[parent] += back
                write[child] += sent
                read[child] += moves.drained - (0 if switches.final_drain_is_read else moves.distinct)
        keys = [(level, name) for name, levels in self.levels.items() for level in levels]
        return {key: (read[key], write[key]) for key in keys}


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


def _count_operand(links: list[Link]) -> list[OperandMoves]:
    moves: list[OperandMoves] = []
    for link in links:
        filled, per_refill = _serve(link, link.num_refill_loops)
        delivered = per_refill
        if link.is_compute:
            _, delivered = _serve(link, len(link.nest.temporal_above(link.child)))
        moves.append(OperandMoves(filled=filled, delivered=delivered, delivered_per_refill=per_refill))
    return moves


def simulate(op: Op, mapping: archdsl.Mapping, axes: AxisRules) -> SimCounts:
    """Count one mapping by walking it.

    Args:
        op: A small op.
        mapping: A legal mapping of it.
        axes: What every (fan-out, axis) named by the mapping can do.
    """
    nest = Nest(op, mapping)

    def links(tensor: Tensor) -> list[Link]:
        chain = [*nest.holders(tensor), nest.compute_idx]
        return [Link(nest, tensor, parent, child, axes) for parent, child in itertools.pairwise(chain)]

    return SimCounts(
        levels={tensor.name: [nest.level(holder) for holder in nest.holders(tensor)] for tensor in op.tensors},
        operands={t.name: _count_operand(links(t)) for t in op.tensors if t.role is not TensorRole.OUTPUT},
        outputs={refills: accumulate(nest, links(op.output), refills) for refills in REFILLS},
        steps=len({leaf.time for leaf in nest.visits[nest.compute_idx]}),
        peak_bytes=_peak_bytes(nest),
    )


def _peak_bytes(nest: Nest) -> dict[str, int]:
    peak: dict[str, int] = defaultdict(int)
    for tensor in nest.op.tensors:
        for holder in nest.holders(tensor):
            most = max(len(tile_elements(tensor, visit.box)) for visit in nest.visits[holder])
            peak[nest.level(holder)] += -(-most * tensor.bits // 8)
    return dict(peak)
