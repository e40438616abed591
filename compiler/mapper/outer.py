"""The outermost segment: what the chip-wide memories exchange with each other and with main memory.

For given extents below, tiles of one dim are chosen by capacity alone: a larger tile of a dim that slides
over nothing never adds traffic, so the largest that fits is best. All other dims are enumerated, for many
extents below at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .inner import Frame, Pattern, Site, charge
from .objective import Traffic
from .placement import Chain, Point, chains, dim_options
from .problem import FloatArray, Problem
from .traffic import footprint

CELLS = 150_000
"""Tilings evaluated together."""
MOST_TILINGS = 4_000_000
"""Tilings of one chain around one inner tiling; past it they are thinned and the proof is lost."""

IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class OuterBlock:
    """Outer tilings of one chain around several inner tilings.

    Attributes:
        chain: The chain.
        traffic: Bytes per level, arrays [inner tilings, outer tilings]; steps and instances are neutral.
        fits: Whether the tiles fit, likewise.
        at: Per holder and dim the extent, broadcastable to the same shape.
        is_complete: False when tilings were dropped to respect a limit.
    """

    chain: Chain
    traffic: Traffic
    fits: npt.NDArray[np.bool_]
    at: tuple[tuple[FloatArray, ...], ...]
    is_complete: bool


@dataclass(slots=True)
class OuterSegment:
    """Outer tilings of one placement; what no architecture changes is kept.

    Attributes:
        problem: The problem.
        chains: Orders of the holders.
        levels: Levels of the segment that hold tiles.
    """

    problem: Problem
    chains: tuple[Chain, ...]
    levels: tuple[int, ...]
    _options: dict[tuple[int, int, int], FloatArray] = field(default_factory=dict[tuple[int, int, int], FloatArray])

    def options(self, chain: int, dim: int, below: int) -> FloatArray:
        """Extents of one dim at the top and at every holder, [1 + holders, options], ascending."""
        key = (chain, dim, below)
        if key not in self._options:
            table = dim_options(self.problem, self.chains[chain], dim, below, is_outermost=True)
            self._options[key] = table[:, np.lexsort(table[::-1])]
        return self._options[key]

    def num_tilings(self, below: Sequence[int]) -> int:
        """How many outer tilings there are around one inner tiling."""
        total = 0
        for chain in range(len(self.chains)):
            per_chain = 1
            for dim, extent in enumerate(below):
                per_chain *= self.options(chain, dim, extent).shape[1]
            total += per_chain
        return total

    def blocks(self, below: IntArray, capacities: Sequence[float]) -> list[OuterBlock]:
        """All outer tilings that can be best on one architecture.

        Args:
            below: Extents below, [dims, inner tilings].
            capacities: Per level the bytes that tiles may take.
        """
        found: list[OuterBlock] = []
        for chain in range(len(self.chains)):
            found += self._chain_blocks(chain, below, capacities)
        return found

    def _chain_blocks(self, c_idx: int, below: IntArray, capacities: Sequence[float]) -> list[OuterBlock]:
        chain = self.chains[c_idx]
        num_sites, num_inner = len(chain.points) + 1, below.shape[1]
        tables = [self._padded(c_idx, dim, below[dim]) for dim in range(len(self.problem.sizes))]
        counts = [table.shape[2] for table in tables]
        chosen = self._chosen_by_capacity(c_idx, counts)
        enumerated = [dim for dim, count in enumerate(counts) if count > 1 and dim != chosen]
        num = int(np.prod([counts[dim] for dim in enumerated], dtype=np.int64)) if enumerated else 1
        step = max(1, CELLS // num_inner)
        is_complete = num <= MOST_TILINGS
        picks = np.arange(num) if is_complete else np.linspace(0, num - 1, MOST_TILINGS).astype(np.int64)
        found: list[OuterBlock] = []
        for low in range(0, len(picks), step):
            rest = picks[low : low + step]
            sites: list[list[FloatArray]] = [[] for _ in range(num_sites)]
            for dim, table in enumerate(tables):
                index = np.zeros(len(rest), dtype=np.int64)
                if dim in enumerated:
                    rest, index = np.divmod(rest, counts[dim])
                for site in range(num_sites):
                    sites[site].append(table[site][:, index] if dim in enumerated else table[site][:, :1])
            if chosen is not None:
                self._choose(chain, sites, tables[chosen], chosen, capacities)
            found.append(self._priced(chain, sites, num_inner, is_complete, capacities))
        return found

    def _padded(self, chain: int, dim: int, below: IntArray) -> FloatArray:
        """Options of one dim for all inner tilings, [1 + holders, inner tilings, options]; short lists repeat their last."""
        unique, inverse = np.unique(below, return_inverse=True)
        lists = [self.options(chain, dim, int(extent)) for extent in unique]
        most = max(options.shape[1] for options in lists)
        places = np.arange(most)
        padded = np.stack([o[:, np.minimum(places, o.shape[1] - 1)] for o in lists], axis=1)
        return padded[:, inverse.reshape(-1)]

    def _chosen_by_capacity(self, chain: int, counts: Sequence[int]) -> int | None:
        """The dim with the most options whose tile may be chosen by capacity alone."""
        problem = self.problem
        sliding = {dim for info in problem.tensors for pair in info.sliding for dim, _ in pair}
        best = None
        for dim, count in enumerate(counts):
            if count == 1 or dim in sliding:
                continue
            table = self.options(chain, dim, 1)
            # One free extent: every holder's extent is fixed or the same free one.
            rows = {tuple(row) for row in table if (row != row[0]).any()}
            if len(rows) == 1 and (best is None or count > counts[best]):
                best = dim
        return best

    def _choose(
        self,
        chain: Chain,
        sites: list[list[FloatArray]],
        table: FloatArray,
        dim: int,
        capacities: Sequence[float],
    ) -> None:
        """Sets a dim's extents to the largest option with which all tiles fit (the least where none fits)."""
        problem = self.problem
        size = problem.sizes[dim]
        is_free = [bool((row != row[:, :1]).any()) for row in table]
        fixed: dict[int, FloatArray | float] = dict.fromkeys(self.levels, 0.0)
        slope: dict[int, FloatArray | float] = dict.fromkeys(self.levels, 0.0)
        for site, point in enumerate(chain.points, start=1):
            info = problem.tensors[point.tensor]
            extents: list[FloatArray | float] = [np.minimum(e, s) for e, s in zip(sites[site], problem.sizes, strict=True)]
            if dim in info.related and is_free[site]:
                extents[dim] = 1.0
                slope[point.level] = slope[point.level] + footprint(info, extents)
            else:
                fixed[point.level] = fixed[point.level] + footprint(info, extents)
        room: FloatArray | float = np.inf
        for level in self.levels:
            left = capacities[level] - fixed[level]
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.minimum(room, np.where(np.asarray(slope[level]) > 0, left / slope[level], np.inf))
        free = is_free.index(True)
        values = np.minimum(table[free], size)
        shape = np.broadcast_shapes(np.shape(room), (values.shape[0], 1))
        room = np.broadcast_to(np.asarray(room), shape)
        index = np.stack([np.searchsorted(v, r, side="right") for v, r in zip(values, room, strict=True)]) - 1
        index = np.maximum(index, 0)
        for site, row in enumerate(table):
            if is_free[site]:
                sites[site][dim] = np.take_along_axis(row, index, axis=1)

    def _priced(
        self,
        chain: Chain,
        sites: list[list[FloatArray]],
        num_inner: int,
        is_complete: bool,
        capacities: Sequence[float],
    ) -> OuterBlock:
        problem = self.problem
        num_levels = len(problem.hierarchy.levels)
        read: list[FloatArray | float] = [0.0] * num_levels
        write: list[FloatArray | float] = [0.0] * num_levels
        need: dict[int, FloatArray | float] = {}
        frame = Frame((), (), ())
        starts: dict[int, FloatArray | float] = {}
        parents: dict[int, int] = {}
        around: Sequence[FloatArray | float] = [float(size) for size in problem.sizes]
        for point, slide, at in zip(chain.points, chain.slides, sites[1:], strict=True):
            info = problem.tensors[point.tensor]
            sweep = None if slide is None else (slide, np.minimum(around[slide], problem.sizes[slide]))
            site = Site(0, at, sweep)
            start = starts.get(point.tensor, info.elements)
            parent = parents.get(point.tensor, 0)
            starts[point.tensor] = charge(problem, info, frame, site, parent, point.level, start, read, write)
            parents[point.tensor] = point.level
            limited = [np.minimum(extent, size) for extent, size in zip(at, problem.sizes, strict=True)]
            need[point.level] = need.get(point.level, 0.0) + footprint(info, limited)
            around = at
        fits: npt.NDArray[np.bool_] = np.ones((num_inner, 1), dtype=bool)
        for level, amount in need.items():
            fits = fits & (np.asarray(amount) <= capacities[level])
        return OuterBlock(
            chain,
            Traffic(read, write, [1.0] * num_levels, 0.0),
            fits,
            tuple(tuple(site) for site in sites[1:]),
            is_complete,
        )


def outer_segment(problem: Problem, pattern: Pattern) -> OuterSegment:
    """The outermost segment under a placement."""
    points = [
        Point(tensor, level)
        for tensor, levels in enumerate(pattern.levels)
        for level in levels[1:]
        if problem.segment_of[level] == 0
    ]
    levels = tuple(sorted({point.level for point in points}))
    return OuterSegment(problem, tuple(chains(problem, points)), levels)
