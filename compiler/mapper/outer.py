"""The outermost segment: what the chip-wide memories exchange with each other and with main memory.

For given extents below, tiles of one dim are chosen by capacity alone: a larger tile of a dim that slides
over nothing never adds traffic, so the largest that fits is best. All other dims are enumerated one after
the other, and what cannot fit or cannot beat the best score, even if the rest were ideal, is dropped on
the way. Many extents below are served at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .inner import Frame, Pattern, Site, charge
from .objective import Traffic
from .placement import Chain, Point, chains, dim_options
from .problem import FloatArray, IntArray, Problem
from .traffic import footprint, window_elements

CELLS = 100_000
"""Tilings evaluated together."""
MOST_TILINGS = 3_000_000
"""Tilings of one chain carried at a time; past it they are thinned and the proof is lost."""
PRUNE_FROM = 200
"""Fewer tilings than this are not worth the work of bounding them."""

Extent = FloatArray | float
Score = Callable[[Traffic], FloatArray]


@dataclass(frozen=True, slots=True)
class OuterChoice:
    """The best outer tiling found.

    Attributes:
        score: Its score.
        inner: Which of the extents below it belongs to.
        chain: The chain, with the loop over which each holder's windows slide.
        at: Per holder and dim the extent.
    """

    score: float
    inner: int
    chain: Chain
    at: tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class OuterSegment:
    """Outer tilings of one placement; what no architecture changes is kept.

    Attributes:
        problem: The problem.
        chains: Orders of the holders.
        levels: Levels of the segment that hold tiles.
        is_complete: False once tilings were dropped to respect a limit; whoever takes note sets it back.
        num_evaluated: Tilings evaluated since it was last set back.
    """

    problem: Problem
    chains: tuple[Chain, ...]
    levels: tuple[int, ...]
    is_complete: bool = True
    num_evaluated: int = 0
    _num_tilings: int = 0
    _options: dict[tuple[int, int, int], FloatArray] = field(default_factory=dict[tuple[int, int, int], FloatArray])

    def options(self, chain: int, dim: int, below: int) -> FloatArray:
        """Extents of one dim at the top and at every holder, [1 + holders, options], ascending."""
        key = (chain, dim, below)
        if key not in self._options:
            table = dim_options(self.problem, self.chains[chain], dim, below, is_outermost=True)
            if not table.shape[1]:
                # What the user fixed leaves nothing: a tile of no extent fits nowhere.
                table = np.full((len(table), 1), np.nan)
            self._options[key] = table[:, np.lexsort(table[::-1])]
        return self._options[key]

    @property
    def num_tilings(self) -> int:
        """The most outer tilings that a chain has around any inner tiling, up to a small factor."""
        if self._num_tilings == 0:
            counts = [
                sorted(self.options(chain, dim, 1).shape[1] for dim in range(len(self.problem.sizes)))
                for chain in range(len(self.chains))
            ]
            # The dim with the most options is mostly chosen by capacity.
            self._num_tilings = max((math.prod(some[:-1]) for some in counts), default=1)
        return self._num_tilings

    def best(self, below: IntArray, capacities: Sequence[float], score: Score, limit: float) -> OuterChoice | None:
        """The outer tiling with the least score below `limit`, the first of equals; None when there is none.

        Args:
            below: Extents below, [dims, inner tilings].
            capacities: Per level the bytes that tiles may take.
            score: Scores traffic of the segment, arrays [inner tilings, outer tilings]; monotone.
            limit: Only scores below it are of interest.
        """
        found: OuterChoice | None = None
        for chain in range(len(self.chains)):
            better = _ChainWalk(self, chain, below, capacities, score, None).best(limit)
            if better is not None:
                found, limit = better, better.score
        return found

    def reach(
        self,
        below: IntArray,
        capacities: Sequence[float],
        score: Score,
        limit: float,
        *,
        least: IntArray | None = None,
    ) -> npt.NDArray[np.bool_]:
        """Around which inner tilings some outer tiling scores below `limit`.

        Args:
            below: Extents below, [dims, inner tilings].
            capacities: Per level the bytes that tiles may take.
            score: See `best`.
            limit: The score to get below.
            least: Extents below which no tile may lie, [dims, inner tilings]. With `below` at 1 this bounds the
                outer tilings around all inner tilings that are at least so large.
        """
        reached = np.zeros(below.shape[1], dtype=bool)
        for chain in range(len(self.chains)):
            reached |= _ChainWalk(self, chain, below, capacities, score, least).reach(limit)
            if reached.all():
                break
        return reached


class _ChainWalk:
    """Enumerates the tilings of one chain around several inner tilings."""

    def __init__(
        self,
        segment: OuterSegment,
        chain: int,
        below: IntArray,
        capacities: Sequence[float],
        score: Score,
        least: IntArray | None,
    ) -> None:
        self.segment = segment
        self.problem = segment.problem
        self.chain = segment.chains[chain]
        self.capacities = capacities
        self.score = score
        self.num_inner = below.shape[1]
        self.tables = [self._padded(chain, dim, below[dim]) for dim in range(len(self.problem.sizes))]
        if least is not None:
            # Raising an option to the least extent leaves its number of tiles what the options above it have.
            self.tables = [
                np.maximum(table, row.astype(float)[:, None]) for table, row in zip(self.tables, least, strict=True)
            ]
        self.counts: list[int] = [table.shape[2] for table in self.tables]
        self.sliding = {dim for info in self.problem.tensors for pair in info.sliding for dim, _ in pair}
        self.chosen = self._chosen_by_capacity()
        self.least = [table[:, :, :].min(axis=2, keepdims=True) for table in self.tables]
        # A window is read least often where nothing cuts it.
        self.ideal = [
            np.full((len(table), 1, 1), float(size)) if dim in self.sliding else table.max(axis=2, keepdims=True)
            for dim, (table, size) in enumerate(zip(self.tables, self.problem.sizes, strict=True))
        ]

    def _padded(self, chain: int, dim: int, below: IntArray) -> FloatArray:
        """Options of one dim, [1 + holders, inner tilings, options]; short lists repeat their last."""
        if len(below) == 1:
            return self.segment.options(chain, dim, int(below[0]))[:, None]
        unique, inverse = np.unique(below, return_inverse=True)
        lists = [self.segment.options(chain, dim, int(extent)) for extent in unique]
        most: int = max(options.shape[1] for options in lists)
        places = np.arange(most)
        padded = np.stack([o[:, np.minimum(places, o.shape[1] - 1)] for o in lists], axis=1)
        return padded[:, inverse.reshape(-1)]

    def _chosen_by_capacity(self) -> int | None:
        """The dim with the most options whose tile may be chosen by capacity alone."""
        best: int | None = None
        if any(info.tensor.bits % 8 for info in self.problem.tensors):
            return None  # footprints rounded up to bytes are not linear in the extent
        for dim, count in enumerate(self.counts):
            if count == 1 or dim in self.sliding or (best is not None and count <= self.counts[best]):
                continue
            free = [row for row in self.tables[dim] if (row != row[:, :1]).any()]
            # One free extent: every holder's extent is fixed or the same free one.
            if free and all((row == free[0]).all() for row in free):
                best = dim
        return best

    def best(self, limit: float) -> OuterChoice | None:
        """See `OuterSegment.best`."""
        found: OuterChoice | None = None
        for part, shape in self._parts(limit):
            sites, scores = self._scores(part, shape)
            least = int(np.argmin(scores))
            k, column = divmod(least, shape[1])
            if scores[k, column] < limit:
                limit = float(scores[k, column])
                at = tuple(
                    tuple(int(np.broadcast_to(extent, shape)[k, column]) for extent in site) for site in sites[1:]
                )
                found = OuterChoice(limit, k, settled(self.problem, self.chain, at), at)
        return found

    def reach(self, limit: float) -> npt.NDArray[np.bool_]:
        """See `OuterSegment.reach`."""
        reached = np.zeros(self.num_inner, dtype=bool)
        for part, shape in self._parts(limit):
            reached |= (self._scores(part, shape)[1] < limit).any(axis=1)
        return reached

    def _parts(self, limit: float) -> Iterator[tuple[dict[int, IntArray], tuple[int, int]]]:
        """Tilings that may score below the limit, so many at a time as can be evaluated together."""
        order = sorted(
            (dim for dim, count in enumerate(self.counts) if count > 1 and dim != self.chosen),
            key=lambda dim: (dim not in self.sliding, self.counts[dim], dim),
        )
        picks: dict[int, IntArray] = {}
        num, last_pruned = 1, 1
        for position, dim in enumerate(order):
            count = self.counts[dim]
            picks = {d: np.repeat(index, count) for d, index in picks.items()}
            picks[dim] = np.tile(np.arange(count), num)
            num *= count
            is_last = position == len(order) - 1
            if num > PRUNE_FROM and (num >= 4 * last_pruned or is_last):
                keep = self._promising(picks, num, limit)
                picks = {d: index[keep] for d, index in picks.items()}
                num = last_pruned = len(keep)
                if num == 0:
                    return
            if num > MOST_TILINGS:
                thin = np.linspace(0, num - 1, MOST_TILINGS).astype(np.intp)
                picks = {d: index[thin] for d, index in picks.items()}
                num = MOST_TILINGS
                self.segment.is_complete = False
        step = max(1, CELLS // self.num_inner)
        for low in range(0, num, step):
            shape = (self.num_inner, min(step, num - low))
            self.segment.num_evaluated += shape[0] * shape[1]
            yield {d: index[low : low + step] for d, index in picks.items()}, shape

    def _scores(self, part: dict[int, IntArray], shape: tuple[int, int]) -> tuple[list[list[FloatArray]], FloatArray]:
        """Extents and scores of some tilings; infinite where they do not fit."""
        sites = self._sites(part, self.least)
        if self.chosen is not None:
            self._choose(sites, self.chosen)
        scores = np.broadcast_to(self.score(self._traffic(sites)), shape)
        return sites, np.where(self._fits(sites, shape), scores, np.inf)

    def _sites(self, picks: dict[int, IntArray], others: Sequence[FloatArray]) -> list[list[FloatArray]]:
        """Extents per site (the top first) and dim; dims not picked take theirs from `others`."""
        return [
            [
                table[site][:, picks[dim]] if dim in picks else (table[site] if count == 1 else others[dim][site])
                for dim, (table, count) in enumerate(zip(self.tables, self.counts, strict=True))
            ]
            for site in range(len(self.chain.points) + 1)
        ]

    def _promising(self, picks: dict[int, IntArray], num: int, limit: float) -> IntArray:
        """Which partial tilings can fit and can beat the limit for some inner tiling."""
        step = max(1, CELLS // self.num_inner)
        kept: list[IntArray] = []
        for low in range(0, num, step):
            part = {d: index[low : low + step] for d, index in picks.items()}
            shape = (self.num_inner, min(step, num - low))
            self.segment.num_evaluated += shape[0] * shape[1]
            fits = self._fits(self._sites(part, self.least), shape)
            if np.isfinite(limit):
                bound = self.score(self._traffic(self._sites(part, self.ideal)))
                fits = fits & (np.broadcast_to(bound, shape) < limit)
            kept.append(np.flatnonzero(fits.any(axis=0)) + low)
        return np.concatenate(kept)

    def _choose(self, sites: list[list[FloatArray]], dim: int) -> None:
        """Sets a dim's extents to the largest option with which all tiles fit (the least where none fits)."""
        problem, table, size = self.problem, self.tables[dim], self.problem.sizes[dim]
        is_free = [bool((row != row[:, :1]).any()) for row in table]
        fixed: dict[int, Extent] = dict.fromkeys(self.segment.levels, 0.0)
        slope: dict[int, Extent] = dict.fromkeys(self.segment.levels, 0.0)
        for site, point in enumerate(self.chain.points, start=1):
            info = problem.tensors[point.tensor]
            extents: list[Extent] = [np.minimum(e, s) for e, s in zip(sites[site], problem.sizes, strict=True)]
            if dim in info.related and is_free[site]:
                extents[dim] = 1.0
                slope[point.level] = slope[point.level] + footprint(info, extents)
            else:
                fixed[point.level] = fixed[point.level] + footprint(info, extents)
        room: Extent = np.inf
        for level in self.segment.levels:
            left = self.capacities[level] - fixed[level]
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.minimum(room, np.where(np.asarray(slope[level]) > 0, left / slope[level], np.inf))
        values = np.minimum(table[is_free.index(True)], size)
        shape = np.broadcast_shapes(np.shape(room), (values.shape[0], 1))
        room = np.broadcast_to(np.asarray(room), shape)
        above: list[IntArray] = [np.searchsorted(v, r, side="right") for v, r in zip(values, room, strict=True)]
        index: IntArray = np.maximum(np.stack(above) - 1, 0)
        for site, row in enumerate(table):
            sites[site][dim] = np.take_along_axis(row, index, axis=1) if is_free[site] else row[:, :1]

    def _fits(self, sites: list[list[FloatArray]], shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
        need: dict[int, Extent] = {}
        for point, at in zip(self.chain.points, sites[1:], strict=True):
            limited = [np.minimum(extent, size) for extent, size in zip(at, self.problem.sizes, strict=True)]
            need[point.level] = need.get(point.level, 0.0) + footprint(self.problem.tensors[point.tensor], limited)
        fits: npt.NDArray[np.bool_] = np.ones(shape, dtype=bool)
        for level, amount in need.items():
            fits = fits & (np.asarray(amount) <= self.capacities[level])
        return fits

    def _traffic(self, sites: list[list[FloatArray]]) -> Traffic:
        problem = self.problem
        num_levels = len(problem.hierarchy.levels)
        read: list[Extent] = [0.0] * num_levels
        write: list[Extent] = [0.0] * num_levels
        frame = Frame((), (), ())
        starts: dict[int, Extent] = {}
        parents: dict[int, int] = {}
        around: Sequence[Extent] = [float(size) for size in problem.sizes]
        for point, slides, at in zip(self.chain.points, self.chain.slides, sites[1:], strict=True):
            info = problem.tensors[point.tensor]
            sweeps = tuple((dim, np.minimum(around[dim], problem.sizes[dim])) for dim in slides)
            site = Site(0, at, sweeps)
            start = starts.get(point.tensor, info.elements)
            parent = parents.get(point.tensor, 0)
            starts[point.tensor] = charge(problem, info, frame, site, parent, point.level, start, read, write)
            parents[point.tensor] = point.level
            around = at
        return Traffic(read, write, [1.0] * num_levels, 0.0)


def settled(problem: Problem, chain: Chain, at: Sequence[Sequence[int]]) -> Chain:
    """The chain with, per holder, the one loop over which sliding saves most."""
    slides: list[tuple[int, ...]] = []
    around: Sequence[int] = problem.sizes
    for point, choices, extents in zip(chain.points, chain.slides, at, strict=True):
        info = problem.tensors[point.tensor]
        amounts = [
            float(window_elements(problem, info, extents, (dim, float(min(around[dim], problem.sizes[dim])))))
            for dim in choices
        ]
        slides.append((choices[int(np.argmin(amounts))],) if choices else ())
        around = extents
    return Chain(chain.points, tuple(slides))


def outer_segment(problem: Problem, pattern: Pattern) -> OuterSegment:
    """The outermost segment under a placement."""
    points = [
        Point(tensor, level)
        for tensor, levels in enumerate(pattern.levels)
        for level in levels[1:]
        if problem.segment_of[level] == 0
    ]
    levels = tuple(sorted({point.level for point in points}))
    return OuterSegment(problem, tuple(chains(problem, points, is_outermost=True)), levels)
