"""Every way to spread dims over the axes of the fan-outs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ...models import AxisInfo, compiled
from .problem import FloatArray, IntArray, Problem, quotients
from .walk import Bools, Ints


@dataclass(frozen=True, slots=True)
class Spread:
    """Spatial factors of one fan-out over an array of candidates, per dim.

    Attributes:
        every: Instances over which a dim is spread.
        multicast: The same on axes with multicast alone.
        reduction: The same on axes with spatial reduction alone.
        needed: Fewest pieces for which no smaller factors would do: `every`, less what the last place on the
            outermost of a dim's axes holds, plus one.
    """

    every: tuple[FloatArray, ...]
    multicast: tuple[FloatArray, ...]
    reduction: tuple[FloatArray, ...]
    needed: tuple[FloatArray, ...]

    def take(self, rows: IntArray) -> Spread:
        """The candidates `rows`."""
        every, multicast, reduction, needed = (
            tuple(value[rows] for value in values)
            for values in (self.every, self.multicast, self.reduction, self.needed)
        )
        return Spread(every, multicast, reduction, needed)


Slot = tuple[int, tuple[AxisInfo, ...]]
"""A dim and the interchangeable axes over which one of its factors may be split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadTable:
    """All candidates for all fan-outs together.

    Attributes:
        spreads: Per fan-out its factors, outermost fan-out first.
        slots: Per fan-out what each row of `factors` stands for.
        factors: Per fan-out the factor of each slot, [slots, candidates].
        num: Number of candidates.
    """

    spreads: tuple[Spread, ...]
    slots: tuple[tuple[Slot, ...], ...]
    factors: tuple[FloatArray, ...]
    num: int

    def packing(self, row: int) -> tuple[tuple[AxisInfo, int, int], ...]:
        """How candidate `row` fills the axes: (axis, dim, factor)."""
        found: list[tuple[AxisInfo, int, int]] = []
        for slots, factors in zip(self.slots, self.factors, strict=True):
            found += _packed(slots, factors[:, row].astype(int).tolist())
        return tuple(found)


def _packed(slots: Sequence[Slot], factors: Sequence[int]) -> list[tuple[AxisInfo, int, int]]:
    """Splits each factor over the axes that may carry it so that no axis overflows; the first way found."""
    wanted = [(dim, axes, factor) for (dim, axes), factor in zip(slots, factors, strict=True) if factor > 1]
    room = {axis: axis.size for _, axes, _ in wanted for axis in axes}

    def place(idx: int) -> list[tuple[AxisInfo, int, int]] | None:
        if idx == len(wanted):
            return []
        dim, allowed, factor = wanted[idx]
        for split in _splits(factor, len(allowed)):
            if any(part > room[axis] for part, axis in zip(split, allowed, strict=True)):
                continue
            saved = dict(room)
            for part, axis in zip(split, allowed, strict=True):
                room[axis] //= part
            rest = place(idx + 1)
            if rest is not None:
                here = [(axis, dim, part) for part, axis in zip(split, allowed, strict=True) if part > 1]
                return [*here, *rest]
            room.update(saved)
        return None

    placed = place(0)
    assert placed is not None, "the table lists only factors that fit the axes"
    return placed


def _is_packable(slots: Sequence[Slot], axes: Sequence[AxisInfo], factors: FloatArray) -> Bools:
    """Whether each candidate's factors can be split over the axes without overflow."""
    parts = [(at, axes.index(axis), axis == allowed[-1]) for at, (_, allowed) in enumerate(slots) for axis in allowed]
    if not parts:
        return np.ones(int(factors.shape[1]), dtype=np.bool_)
    slot, place, is_last = (np.array(column, dtype=np.int64) for column in zip(*parts, strict=True))
    sizes = np.array([axis.size for axis in axes], dtype=np.int64)
    return packable(factors.astype(np.int64), slot, place, is_last > 0, sizes)


@compiled
def packable(factors: Ints, slot: Ints, axis: Ints, is_last: Bools, sizes: Ints) -> Bools:
    """Whether factors can be split over axes without overflow.

    Args:
        factors: [slots, candidates] the factors.
        slot: [parts] each slot's factor is a product of parts, one per axis that may carry it.
        axis: [parts] the axis of each.
        is_last: [parts] whether the next part belongs to another slot.
        sizes: [axes] places on each.
    """
    num_parts = slot.shape[0]
    good = np.zeros(factors.shape[1], dtype=np.bool_)
    part = np.zeros(num_parts, dtype=np.int64)  # the size chosen; 0 before the first choice
    left = np.zeros(num_parts, dtype=np.int64)  # what it and the slot's later parts multiply to
    before = np.zeros(num_parts, dtype=np.int64)  # room on its axis before it was chosen
    room = np.zeros(sizes.shape[0], dtype=np.int64)
    for k in range(factors.shape[1]):
        room[:] = sizes
        depth = 0
        part[0], left[0] = 0, factors[slot[0], k]
        while depth >= 0:
            here = axis[depth]
            if part[depth]:
                room[here] = before[depth]
            chosen = part[depth] + 1
            if is_last[depth]:
                chosen = left[depth] if part[depth] == 0 else room[here] + 1
            else:
                while chosen <= room[here] and left[depth] % chosen:
                    chosen += 1
            if chosen > room[here] or chosen > left[depth]:
                depth -= 1
                continue
            part[depth], before[depth] = chosen, room[here]
            room[here] //= chosen
            if depth + 1 == num_parts:
                good[k] = True
                break
            left[depth + 1] = factors[slot[depth + 1], k] if is_last[depth] else left[depth] // chosen
            depth += 1
            part[depth] = 0
    return good


@lru_cache(maxsize=65536)
def _splits(factor: int, parts: int) -> tuple[tuple[int, ...], ...]:
    """All ordered ways to write `factor` as a product of `parts` integers, undivided ones first."""
    if parts == 1:
        return ((factor,),)
    found = [
        (first, *rest)
        for first in range(1, factor + 1)
        if factor % first == 0
        for rest in _splits(factor // first, parts - 1)
    ]
    return tuple(sorted(found, key=lambda split: (sum(part > 1 for part in split), split), reverse=False))


def spread_table(problem: Problem, limit: int) -> tuple[SpreadTable, bool]:
    """Enumerates spatial factors of all fan-outs.

    Args:
        problem: The problem.
        limit: Most candidates to list; past it those that use the fewest PEs are dropped.

    Returns:
        The table, and whether it is complete.
    """
    per_fanout = [_fanout_factors(problem, fanout, limit) for fanout in range(problem.num_fanouts)]
    is_complete = all(complete for _, _, complete in per_fanout)
    num = 1
    columns: list[FloatArray] = []
    for _, factors, _ in per_fanout:
        columns = [np.repeat(column, factors.shape[1], axis=1) for column in columns]
        columns.append(np.tile(factors, (1, num)))
        num *= factors.shape[1]
        if num > limit:
            used = math.prod(np.prod(column, axis=0) for column in columns)
            best = np.sort(np.argsort(-used, kind="stable")[:limit])
            columns = [column[:, best] for column in columns]
            num, is_complete = limit, False
    slots = tuple(tuple(slots) for slots, _, _ in per_fanout)
    spreads = tuple(_spread(problem, s, column, num) for s, column in zip(slots, columns, strict=True))
    return SpreadTable(spreads=spreads, slots=slots, factors=tuple(columns), num=num), is_complete


def _fanout_factors(problem: Problem, fanout: int, limit: int) -> tuple[list[Slot], FloatArray, bool]:
    """Slots of one fan-out and all their factors, [slots, candidates]."""
    axes = problem.axes_of(fanout)
    slots: list[Slot] = []
    # Axes with equal capabilities are interchangeable for what moves: one slot serves them together.
    by_flags: dict[tuple[bool, bool], list[AxisInfo]] = {}
    for axis in axes:
        by_flags.setdefault((axis.multicast, axis.reduction), []).append(axis)
    for dim, size in enumerate(problem.sizes):
        if size == 1:
            continue
        for group in by_flags.values():
            allowed = tuple(axis for axis in group if axis.size > 1 and problem.may_carry(axis, dim))
            if allowed:
                slots.append((dim, allowed))
    unions = [set(some) for n in range(1, len(axes) + 1) for some in itertools.combinations(axes, n)]
    factors = np.ones((0, 1))
    is_complete = True
    for at, (dim, allowed) in enumerate(slots):
        values = _factors(problem.sizes[dim], tuple(axis.size for axis in allowed))
        factors = np.concatenate(
            [np.repeat(factors, len(values), axis=1), np.tile(np.array(values, dtype=float), factors.shape[1])[None]]
        )
        keep = np.ones(factors.shape[1], dtype=bool)
        for union in unions:
            rows = [i for i in range(at + 1) if set(slots[i][1]) <= union]
            if rows:
                keep &= np.prod(factors[rows], axis=0) <= math.prod(axis.size for axis in union)
        for same in [i for i in range(at) if slots[i][0] == dim]:
            keep &= factors[same] * factors[at] < 2 * problem.sizes[dim]
        factors = factors[:, keep]
        if factors.shape[1] > limit:
            used = np.prod(factors, axis=0)
            factors = factors[:, np.sort(np.argsort(-used, kind="stable")[:limit])]
            is_complete = False
    factors = factors[:, _is_alone_where_it_must(problem, slots, factors)]
    # That products are within the axes' does not mean that the factors can be split so.
    return slots, factors[:, _is_packable(slots, axes, factors)], is_complete


def _is_alone_where_it_must(problem: Problem, slots: Sequence[Slot], factors: FloatArray) -> Bools:
    """Whether candidates spread what an axis carries only alone beside nothing on other axes."""
    good = np.ones(factors.shape[1], dtype=np.bool_)
    for at, (dim, allowed) in enumerate(slots):
        if problem.op.dim_class(problem.dims[dim]) in allowed[0].alone_classes:
            beside = [other for other, (_, axes) in enumerate(slots) if axes != allowed]
            good &= (factors[at] == 1) | (factors[beside] == 1).all(axis=0)
    return good


@lru_cache(maxsize=4096)
def _factors(size: int, axes: tuple[int, ...]) -> tuple[int, ...]:
    """Factors of a dim on some axes: numbers of pieces, and where no split has as many places, the next that one has."""
    found: set[int] = set()
    for pieces in quotients(size):
        for factor in range(pieces, min(2 * pieces, math.prod(axes) + 1)):
            splits = _splits(factor, len(axes))
            if any(all(part <= room for part, room in zip(split, axes, strict=True)) for split in splits):
                if _needed(factor, len(axes)) <= pieces:
                    found.add(factor)
                break
    return tuple(sorted(found))


@lru_cache(maxsize=4096)
def _needed(factor: int, num_axes: int) -> int:
    """Fewest pieces for which a factor split over some axes is not larger than it must be."""
    outermost = factor if num_axes == 1 else next((p for p in range(2, factor + 1) if factor % p == 0), 1)
    return factor - factor // outermost + 1


def _spread(problem: Problem, slots: Sequence[Slot], factors: FloatArray, num: int) -> Spread:
    every = [np.ones(num) for _ in problem.sizes]
    multicast = [np.ones(num) for _ in problem.sizes]
    reduction = [np.ones(num) for _ in problem.sizes]
    needed = [np.ones(num) for _ in problem.sizes]
    # Axes that share less stand outside: the innermost come first here.
    order = sorted(range(len(slots)), key=lambda k: (slots[k][1][0].multicast, slots[k][1][0].reduction), reverse=True)
    for dim, axes, column in ((*slots[k], factors[k]) for k in order):
        inside = every[dim]
        every[dim] = inside * column
        steps = np.array([_needed(max(factor, 1), len(axes)) - 1 for factor in range(int(column.max(initial=1)) + 1)])
        needed[dim] = np.where(column > 1, inside * steps[column.astype(np.intp)] + 1, needed[dim])
        if axes[0].multicast:
            multicast[dim] = multicast[dim] * column
        if axes[0].reduction:
            reduction[dim] = reduction[dim] * column
    return Spread(tuple(every), tuple(multicast), tuple(reduction), tuple(needed))
