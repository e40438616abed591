"""Traffic of the outermost segment: what the chip-wide memories exchange with each other and with main memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .inner import Frame, Pattern, Site, charge
from .objective import Traffic
from .placement import Point, Tilings, chains, tilings
from .problem import FloatArray, Problem
from .traffic import footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterTable:
    """All tilings of the outermost segment that can be best for some architecture.

    Attributes:
        traffic: Bytes per level, arrays over the candidates (steps and instances are neutral).
        need_bytes: Bytes that tiles take, [levels of the segment][candidates], in the order of `levels`.
        levels: Memory levels of the segment that hold tiles.
        chain: Per candidate the index of its tilings in `tilings`.
        row: Per candidate its row there.
        tilings: The tilings, one per chain.
        is_complete: False when candidates were dropped to respect a limit.
        num_covered: Tilings that were looked at.
    """

    traffic: Traffic
    need_bytes: tuple[FloatArray, ...]
    levels: tuple[int, ...]
    chain: FloatArray
    row: FloatArray
    tilings: tuple[Tilings, ...]
    is_complete: bool
    num_covered: int


def outer_table(
    problem: Problem, pattern: Pattern, below: Sequence[int], capacities: Sequence[float], limit: int
) -> OuterTable:
    """Lists tilings of the outermost segment around the extents `below`, dominated ones left out.

    Args:
        problem: The problem.
        pattern: Which levels keep which tensors.
        below: Per dim the extent that one pass over the inner segments takes.
        capacities: Per level the bytes that tiles may take on the roomiest architecture of interest.
        limit: Most candidates per chain.
    """
    points = [
        Point(tensor, level)
        for tensor, levels in enumerate(pattern.levels)
        for level in levels[1:]
        if problem.segment_of[level] == 0
    ]
    listed = [
        tilings(problem, chain, below, capacities, is_outermost=True, limit=limit) for chain in chains(problem, points)
    ]
    listed = [tiling for tiling in listed if tiling.num > 0]
    levels = tuple(sorted({point.level for point in points}))
    num_levels = len(problem.hierarchy.levels)
    rows: list[FloatArray] = []
    for index, tiling in enumerate(listed):
        table = _chain_rows(problem, pattern, tiling, levels)
        where = np.stack([np.full(tiling.num, float(index)), np.arange(tiling.num, dtype=float)])
        rows.append(_undominated(np.concatenate([table, where]), num_levels * 2, len(levels)))
    joined = np.concatenate(rows, axis=1) if rows else np.zeros((2 * num_levels + len(levels) + 2, 0))
    joined = _undominated(joined, num_levels * 2, len(levels))
    read, write = list(joined[:num_levels]), list(joined[num_levels : 2 * num_levels])
    return OuterTable(
        traffic=Traffic(list(read), list(write), [1.0] * num_levels, 0.0),
        need_bytes=tuple(joined[2 * num_levels : 2 * num_levels + len(levels)]),
        levels=levels,
        chain=joined[-2],
        row=joined[-1],
        tilings=tuple(listed),
        is_complete=all(tiling.is_complete for tiling in listed),
        num_covered=sum(tiling.num for tiling in listed),
    )


def _chain_rows(problem: Problem, pattern: Pattern, tiling: Tilings, levels: Sequence[int]) -> FloatArray:
    """Rows of reads, writes per level and bytes needed per held level, [rows, candidates]."""
    num_levels = len(problem.hierarchy.levels)
    read: list[FloatArray | float] = [0.0] * num_levels
    write: list[FloatArray | float] = [0.0] * num_levels
    need: dict[int, FloatArray | float] = dict.fromkeys(levels, 0.0)
    frame = Frame((), (), ())
    sizes: Sequence[FloatArray | float] = [float(size) for size in problem.sizes]
    starts: dict[int, FloatArray | float] = {}
    parents: dict[int, int] = {}
    around = sizes
    for point, slide, at in zip(tiling.chain.points, tiling.chain.slides, tiling.at, strict=True):
        info = problem.tensors[point.tensor]
        parent = parents.get(point.tensor, 0)
        sweep = None if slide is None else (slide, around[slide])
        site = Site(0, at, sweep)
        start = starts.get(point.tensor, info.elements)
        starts[point.tensor] = charge(problem, info, frame, site, parent, point.level, start, read, write)
        parents[point.tensor] = point.level
        limited = [np.minimum(extent, size) for extent, size in zip(at, problem.sizes, strict=True)]
        need[point.level] = need[point.level] + footprint(info, limited)
        around = at
    columns = [np.broadcast_to(np.asarray(x, dtype=float), (tiling.num,)) for x in (*read, *write, *need.values())]
    return np.stack(columns)


def _undominated(table: FloatArray, num_traffic: int, num_needs: int) -> FloatArray:
    """Drops columns that another column matches or betters in all traffic and all needs; keeps the first of equals."""
    keys = table[: num_traffic + num_needs]
    varying = keys[(keys != keys[:, :1]).any(axis=1)] if keys.shape[1] else keys
    if table.shape[1] <= 1 or not len(varying):
        return table[:, :1]
    # Ascending by the sum of ranks would do; lexicographic order makes the result independent of rounding.
    order = np.lexsort(varying[::-1])
    ordered = varying[:, order]
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    order, ordered = order[fresh], ordered[:, fresh]
    kept = _front(ordered)
    return table[:, order[kept]]


def _front(ordered: FloatArray) -> np.ndarray:
    """Indices of undominated columns; columns are distinct and in lexicographic order."""
    num = ordered.shape[1]
    alive = np.ones(num, dtype=bool)
    kept: list[int] = []
    chunk = 256
    for start in range(0, num, chunk):
        block = np.flatnonzero(alive[start : start + chunk]) + start
        for at, column in enumerate(block):
            if not alive[column]:
                continue
            kept.append(int(column))
            later = block[at + 1 :]
            if len(later):
                worse = (ordered[:, later] >= ordered[:, column : column + 1]).all(axis=0)
                alive[later[worse]] = False
        rest = np.flatnonzero(alive[start + chunk :]) + start + chunk
        fresh = [column for column in kept if column >= start]
        if len(rest) and fresh:
            columns = ordered[:, fresh]
            worse = np.zeros(len(rest), dtype=bool)
            for column in range(columns.shape[1]):
                worse |= (ordered[:, rest] >= columns[:, column : column + 1]).all(axis=0)
            alive[rest[worse]] = False
    return np.array(kept, dtype=int)
