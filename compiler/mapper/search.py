"""Branch and bound over patterns, spatial factors, inner tilings and outer tilings.

The score is monotone in every count, so a bound on the counts bounds the score. Candidates are taken in
the order of their bounds; the search ends when the next bound is no better than the best found: that is
the proof. Tables that do not depend on capacities, bandwidths or energies are kept, so that many
architectures of one shape are searched for the price of one.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .inner import Frame, Pattern, Site, charge, inner_traffic, make_frame
from .menu import Menu, joined, make_menu, num_of, relaxed_bounds, rows_of
from .objective import Scorer, Traffic
from .outer import OuterSegment, outer_segment
from .placement import Chain, Point, Tilings, chains, tilings
from .problem import FloatArray, Problem
from .spatial import spread_table

SPREAD_LIMIT = 400_000
TILING_LIMIT = 400_000
FIRST_PAIRS = 500
FIRST_CELLS = 2_000
CELLS = 100_000
"""Candidates evaluated together: few at first, until there is something good to compare with."""

MOST_AT_ONCE = 64
"""Candidates whose outer tilings are listed together."""

IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Choice:
    """One tiling of a segment: extents around it and at every holder, per dim, in multiples of what lies below."""

    chain: Chain
    top: tuple[int, ...]
    at: tuple[tuple[int, ...], ...]


def _choice(tiling: Tilings, row: int) -> Choice:
    return Choice(
        tiling.chain,
        tuple(int(extent[row]) for extent in tiling.top),
        tuple(tuple(int(extent[row]) for extent in site) for site in tiling.at),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One complete mapping in the search's terms.

    Attributes:
        pattern: Which levels keep which tensors.
        row: Row of the spread table.
        inner: Tilings of segments 1, 2, ...
        outer: Tiling of the outermost segment, in elements.
        score: The objective's value.
    """

    pattern: Pattern
    row: int
    inner: tuple[Choice, ...]
    outer: Choice
    score: float


@dataclass(slots=True)
class Outcome:
    """What a search found.

    Attributes:
        best: The best candidates, best first; empty when nothing fits.
        bound: No mapping of the space scores below it.
        is_complete: Whether the whole space was covered.
        num_covered: Candidates covered, pruned ones included.
    """

    best: list[Candidate] = field(default_factory=list[Candidate])
    bound: float = np.inf
    is_complete: bool = True
    num_covered: int = 0


class Tables:
    """Everything about a problem that no capacity, bandwidth or energy changes; filled on demand.

    Args:
        problem: The problem.
        roomiest: Per level the largest capacity of interest [bytes]; tilings beyond are never listed.
    """

    def __init__(self, problem: Problem, roomiest: Sequence[float]) -> None:
        self.problem = problem
        self.roomiest = tuple(roomiest)
        self.spread, self.is_spread_complete = spread_table(problem, SPREAD_LIMIT)
        self.patterns = list(patterns(problem))
        self._outer: dict[object, OuterSegment] = {}
        self._inner: dict[object, Menu] = {}
        self._direct: dict[tuple[int, int], Traffic] = {}
        self._steps: FloatArray | None = None

    def outer(self, pattern: Pattern) -> OuterSegment:
        """The outermost segment under a placement."""
        held = tuple(tuple(lv for lv in levels if self.problem.segment_of[lv] == 0) for levels in pattern.levels)
        if held not in self._outer:
            self._outer[held] = outer_segment(self.problem, pattern)
        return self._outer[held]

    def inner(self, pattern: Pattern) -> Menu:
        """Tilings of the inner segments."""
        held = tuple(tuple(lv for lv in levels if self.problem.segment_of[lv] > 0) for levels in pattern.levels)
        if held not in self._inner:
            self._inner[held] = make_menu(self.problem, self._list_inner(held))
        return self._inner[held]

    def _list_inner(self, held: tuple[tuple[int, ...], ...]) -> list[tuple[Tilings, ...]]:
        problem = self.problem
        ones = [1] * len(problem.sizes)
        per_segment: list[list[Tilings]] = []
        for segment in range(1, problem.num_fanouts + 1):
            points = [Point(t, lv) for t, levels in enumerate(held) for lv in levels if problem.segment_of[lv] == segment]
            listed = [
                tilings(problem, chain, ones, self.roomiest, is_outermost=False, limit=TILING_LIMIT)
                for chain in chains(problem, points)
            ]
            per_segment.append([tiling for tiling in listed if tiling.num])
        return [joined(option, TILING_LIMIT) for option in itertools.product(*per_segment)]

    def direct(self, tensor: int, parent: int) -> Traffic:
        """Traffic of a tensor that goes from `parent` straight to the compute unit, per spread; least over tilings."""
        if (tensor, parent) not in self._direct:
            problem = self.problem
            info = problem.tensors[tensor]
            num_levels = len(problem.hierarchy.levels)
            read: list[FloatArray | float] = [0.0] * num_levels
            write: list[FloatArray | float] = [0.0] * num_levels
            site = Site(problem.num_fanouts, [1.0] * len(problem.sizes))
            frame = make_frame(problem, self.spread.spreads, [_empty(problem)] * problem.num_fanouts)
            charge(problem, info, frame, site, parent, None, info.elements, read, write)
            self._direct[tensor, parent] = Traffic(read, write, [1.0] * num_levels, 0.0)
        return self._direct[tensor, parent]

    @property
    def steps(self) -> FloatArray:
        """Least steps per spread."""
        if self._steps is None:
            total = np.ones(self.spread.num)
            for dim, size in enumerate(self.problem.sizes):
                factor = np.ones(self.spread.num)
                for spread in self.spread.spreads:
                    factor = factor * spread.every[dim]
                total = total * np.ceil(size / factor)
            self._steps = total
        return self._steps

    @property
    def instances(self) -> list[FloatArray | float]:
        """Instances of every level per spread."""
        found: list[FloatArray | float] = []
        for segment in self.problem.segment_of:
            total: FloatArray | float = 1.0
            for spread in self.spread.spreads[:segment]:
                for factor in spread.every:
                    total = total * factor
            found.append(total)
        return found


def _empty(problem: Problem) -> Tilings:
    ones = tuple(np.ones(1) for _ in problem.sizes)
    return Tilings(Chain((), ()), ones, (), 1, True)


def patterns(problem: Problem) -> list[Pattern]:
    """All choices of which levels keep which tensors that hardware and user allow."""
    constraints = problem.constraints
    names = [level.name for level in problem.hierarchy.levels]
    per_tensor: list[list[tuple[int, ...]]] = []
    for info in problem.tensors:
        role, name = info.tensor.role, info.tensor.name
        may = [
            idx
            for idx, level in enumerate(problem.hierarchy.levels)
            if idx > 0 and role in level.keeps and (names[idx], name) not in constraints.bypass
        ]
        must = {
            idx
            for idx, level in enumerate(problem.hierarchy.levels)
            if idx > 0 and (role in level.must_keep or (names[idx], name) in constraints.keep)
        }
        choices = [
            (0, *(idx for idx, kept in zip(may, flags, strict=True) if kept))
            for flags in itertools.product((True, False), repeat=len(may))
        ]
        per_tensor.append([levels for levels in choices if must <= set(levels)])
    found = [Pattern(levels=levels) for levels in itertools.product(*per_tensor)]
    return [pattern for pattern in found if _is_stationary(problem, pattern)]


def _is_stationary(problem: Problem, pattern: Pattern) -> bool:
    wanted = problem.constraints.stationary
    if wanted is None:
        return True
    innermost = max(range(len(problem.hierarchy.levels)), key=lambda idx: (problem.segment_of[idx], idx))
    segment = problem.segment_of[innermost]
    for info in problem.tensors:
        holds = any(problem.segment_of[level] == segment for level in pattern.levels[info.idx])
        if holds != (info.tensor.name == wanted):
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Found:
    """Promising candidates without their outer tilings: arrays over candidates."""

    scores: FloatArray
    option: tuple[Tilings, ...]
    rows: np.ndarray
    columns: np.ndarray
    traffic: Traffic
    below: np.ndarray


class Search:
    """Searches the tables for one architecture."""

    def __init__(
        self,
        tables: Tables,
        scorer: Scorer,
        *,
        deadline: float = np.inf,
        keep: int = 1,
        start: float = np.inf,
    ) -> None:
        self.tables = tables
        self.problem = tables.problem
        self.scorer = scorer
        self.capacities = [float(c) for c in scorer.prices.capacity_bytes[:, 0]]
        self.deadline = deadline
        self.keep = keep
        self.outcome = Outcome()
        self.limit = start
        self.num_pes = float(np.prod([axis.size for axis in self.problem.hierarchy.axes]))

    def run(self) -> Outcome:
        """Runs to the end, or to the deadline."""
        bounded = [(self._pattern_bounds(pattern), pattern) for pattern in self.tables.patterns]
        order = sorted(
            (k for k, (bounds, _) in enumerate(bounded) if bounds is not None and len(bounds[0])),
            key=lambda k: (float(np.min(bounded[k][0][0])), k),  # pyright: ignore[reportOptionalSubscript] filtered
        )
        open_bound = np.inf
        for k in order:
            bounds, pattern = bounded[k]
            assert bounds is not None
            open_bound = min(open_bound, self._search_pattern(pattern, *bounds))
        self.outcome.is_complete = self.outcome.is_complete and self.tables.is_spread_complete
        best = self.outcome.best[0].score if self.outcome.best else np.inf
        self.outcome.bound = min(open_bound, best)
        return self.outcome

    def _pattern_bounds(self, pattern: Pattern) -> tuple[FloatArray, Traffic] | None:
        """Per spread a bound on the score under a pattern, and the least outer traffic; None when nothing fits."""
        problem, tables = self.problem, self.tables
        outer = self._least_outer(pattern)
        if outer is None:
            return None
        total = Traffic(list(outer.read), list(outer.write), tables.instances, tables.steps)
        for info in problem.tensors:
            total = total.plus(self._least_inner(pattern, info.idx))
        bounds = np.broadcast_to(np.asarray(self.scorer.score(total)), (tables.spread.num,)).copy()
        used = np.ones(tables.spread.num)
        for spread in tables.spread.spreads:
            used = used * np.prod(spread.every, axis=0)
        bounds[used < self.problem.constraints.min_utilization * self.num_pes] = np.inf
        return bounds, outer

    def _least_outer(self, pattern: Pattern) -> Traffic | None:
        """Least traffic of the outermost segment, each count on its own; None when nothing fits."""
        num_levels = len(self.problem.hierarchy.levels)
        least_read, least_write = [np.inf] * num_levels, [np.inf] * num_levels
        below = np.ones((len(self.problem.sizes), 1), dtype=int)
        is_feasible = False
        for block in self.tables.outer(pattern).blocks(below, self.capacities):
            if not block.fits.any():
                continue
            is_feasible = True
            for least, counts in ((least_read, block.traffic.read), (least_write, block.traffic.write)):
                for level, count in enumerate(counts):
                    amount = np.min(np.broadcast_to(np.asarray(count), block.fits.shape)[block.fits])
                    least[level] = min(least[level], float(amount))
        if not is_feasible:
            return None
        return Traffic(list(least_read), list(least_write), [1.0] * num_levels, 0.0)

    def _least_inner(self, pattern: Pattern, tensor: int) -> Traffic:
        """Least traffic of a tensor below the outermost segment, per spread."""
        problem = self.problem
        info = problem.tensors[tensor]
        parent = pattern.parent(problem, tensor, 0)
        inner = [lv for lv in pattern.levels[tensor] if problem.segment_of[lv] > 0]
        if not inner:
            return self.tables.direct(tensor, parent)
        num_levels = len(problem.hierarchy.levels)
        read: list[FloatArray | float] = [0.0] * num_levels
        write: list[FloatArray | float] = [0.0] * num_levels
        whole = info.elements * info.element_bytes
        if info.is_output:
            write[parent] += whole
            last = self.tables.direct(tensor, inner[-1])
            # Accumulations that start from nothing read nothing, but drain once each in exchange.
            drains = whole if not problem.convention.final_drain_is_read else 0.0
            write[inner[-1]] = write[inner[-1]] + last.write[inner[-1]]
            read[inner[-1]] = read[inner[-1]] + np.maximum(last.write[inner[-1]] - drains, 0.0)
        else:
            read[parent] += whole
            for level in inner:
                write[level] = write[level] + whole
            for level in inner[:-1]:
                read[level] = read[level] + whole
            last = self.tables.direct(tensor, inner[-1])
            read[inner[-1]] = read[inner[-1]] + last.read[inner[-1]]
        return Traffic(read, write, [1.0] * num_levels, 0.0)

    def _search_pattern(self, pattern: Pattern, bounds: FloatArray, outer: Traffic) -> float:
        """Searches one pattern; returns the least bound that was left open (infinite when none)."""
        rows = np.flatnonzero(bounds < self.limit)
        self.outcome.num_covered += len(bounds)
        if not len(rows):
            return np.inf
        menu = self.tables.inner(pattern)
        self.outcome.is_complete = self.outcome.is_complete and menu.is_complete
        self.outcome.num_covered += len(bounds) * menu.num
        if not menu.num:
            return np.inf
        coarse = relaxed_bounds(self.tables, self.scorer, pattern, menu, rows, menu.largest, outer)
        rows = rows[coarse.min(axis=1) < self.limit]
        every_class = np.arange(len(menu.members))
        tighter = relaxed_bounds(self.tables, self.scorer, pattern, menu, rows, every_class, outer)
        left = np.flatnonzero(tighter < self.limit)
        scores = tighter.reshape(-1)
        num, cells = FIRST_PAIRS, FIRST_CELLS
        while len(left):
            if len(left) > num:
                left = left[np.argpartition(scores[left], num)]
            batch, left = left[:num], left[num:]
            batch = batch[np.argsort(scores[batch], kind="stable")]
            r_idx, classes = np.divmod(batch, tighter.shape[1])
            open_bound = self._search_batch(pattern, rows[r_idx], classes, scores[batch], menu, outer, cells)
            if open_bound < np.inf:
                return open_bound
            left = left[scores[left] < self.limit]
            num, cells = num * 8, CELLS
        return np.inf

    def _search_batch(
        self,
        pattern: Pattern,
        rows: IntArray,
        classes: IntArray,
        scores: FloatArray,
        menu: Menu,
        outer: Traffic,
        cells: int,
    ) -> float:
        """Searches some (spread, class of tilings), best bound first, a limited number of tilings at a time."""
        ends = np.cumsum(menu.class_sizes[classes])
        low = 0
        while low < len(rows) and scores[low] < self.limit:
            if time.perf_counter() > self.deadline:
                self.outcome.is_complete = False
                return float(scores[low])
            done = ends[low - 1] if low else 0
            high = max(low + 1, int(np.searchsorted(ends, done + cells)))
            left = self._search_pairs(pattern, rows[low:high], classes[low:high], menu, outer)
            if left < np.inf:
                return min(left, float(scores[low]))
            low, cells = high, min(cells * 4, CELLS)
        return np.inf

    def _search_pairs(
        self, pattern: Pattern, rows: IntArray, classes: IntArray, menu: Menu, outer: Traffic
    ) -> float:
        """Evaluates all inner tilings of some (spread, class of tilings), then completes the promising ones outward."""
        unique, inverse = np.unique(rows, return_inverse=True)
        fit = np.array([self.tables.spread.packing(int(row)) is not None for row in unique])[inverse]
        rows, classes = rows[fit], classes[fit]
        if not len(rows):
            return np.inf
        columns = np.concatenate([menu.members[c] for c in classes])
        rows = np.repeat(rows, menu.class_sizes[classes])
        spreads = [spread.take(rows) for spread in self.tables.spread.spreads]
        found: list[_Found] = []
        for option, option_low in zip(menu.options, menu.starts, strict=True):
            here = np.flatnonzero((columns >= option_low) & (columns < option_low + num_of(option)))
            if not len(here):
                continue
            part = tuple(rows_of(t, columns[here] - option_low) for t in option)
            frame = make_frame(self.problem, [spread.take(here) for spread in spreads], part)
            traffic, fits = inner_traffic(
                self.problem, pattern, frame, part, self.capacities, with_steps=self.scorer.objective.latency > 0
            )
            shape = (len(here),)
            score = np.broadcast_to(np.asarray(self.scorer.score(traffic.plus(outer))), shape)
            at = np.nonzero((score < self.limit) & fits & self._is_tight(frame))[0]
            if len(at):
                below = np.stack([np.broadcast_to(np.asarray(e), shape)[at] for e in frame.bottoms[0]])
                chosen = traffic.broadcast(shape).take(at)
                taken = columns[here[at]] - option_low
                found.append(_Found(score[at], option, rows[here[at]], taken, chosen, below.astype(int)))
        return self._complete(pattern, found)

    def _is_tight(self, frame: Frame) -> npt.NDArray[np.bool_] | bool:
        """Whether no spatial factor is larger than the pieces that there are."""
        tight: npt.NDArray[np.bool_] | bool = True
        for dim, size in enumerate(self.problem.sizes):
            if size == 1:
                continue
            for segment in range(1, self.problem.num_fanouts + 1):
                top = frame.tops[segment][dim]
                tight = tight & ((frame.spreads[segment - 1].every[dim] - 1) * top < size)
        return tight

    def _complete(self, pattern: Pattern, found: list[_Found]) -> float:
        """Adds the best outer tiling to each candidate, most promising first."""
        if not found:
            return np.inf
        scores = np.concatenate([f.scores for f in found])
        group = np.concatenate([np.full(len(f.scores), k) for k, f in enumerate(found)])
        within = np.concatenate([np.arange(len(f.scores)) for f in found])
        order = np.argsort(scores, kind="stable")
        low, step = 0, 2
        while low < len(order) and scores[order[low]] < self.limit:
            if time.perf_counter() > self.deadline:
                self.outcome.is_complete = False
                return float(scores[order[low]])
            batch = order[low : low + step]
            batch = batch[scores[batch] < self.limit]
            for k in np.unique(group[batch]):
                self._finish(pattern, found[k], within[batch[group[batch] == k]])
            low, step = low + step, min(step * 2, MOST_AT_ONCE)
        return np.inf

    def _finish(self, pattern: Pattern, found: _Found, which: IntArray) -> None:
        """Finds the best outer tiling for some candidates."""
        column = _column(found.traffic.take(which))
        for block in self.tables.outer(pattern).blocks(found.below[:, which], self.capacities):
            self.outcome.is_complete = self.outcome.is_complete and block.is_complete
            scores = np.where(block.fits, self.scorer.score(column.plus(block.traffic)), np.inf)
            best = int(np.argmin(scores))
            k, at = divmod(best, scores.shape[1])
            if not scores[k, at] < self.limit:
                continue
            extents = tuple(
                tuple(int(np.broadcast_to(x, scores.shape)[k, at]) for x in site) for site in block.at
            )
            chosen = int(which[k])
            candidate = Candidate(
                pattern=pattern,
                row=int(found.rows[chosen]),
                inner=tuple(_choice(tiling, int(found.columns[chosen])) for tiling in found.option),
                outer=Choice(block.chain, (), extents),
                score=float(scores[k, at]),
            )
            self._take(candidate)

    def _take(self, candidate: Candidate) -> None:
        self.outcome.best = [candidate, *self.outcome.best][: self.keep]
        self.limit = candidate.score




def _column(traffic: Traffic) -> Traffic:
    """Arrays as columns, so that outer tilings can be broadcast along the second axis."""

    def grow(values: Sequence[FloatArray | float]) -> list[FloatArray | float]:
        return [np.asarray(v, dtype=np.float64).reshape(-1, 1) for v in values]

    return Traffic(grow(traffic.read), grow(traffic.write), grow(traffic.instances), grow([traffic.steps])[0])
