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

from .inner import Frame, Pattern, Site, charge, inner_traffic, make_frame
from .objective import Scorer, Traffic
from .outer import OuterTable, outer_table
from .placement import Chain, Point, Tilings, chains, tilings
from .problem import FloatArray, Problem
from .spatial import SpreadTable, spread_table

SPREAD_LIMIT = 400_000
TILING_LIMIT = 400_000
CELLS = 200_000
"""Candidates evaluated together: spatial factors times inner tilings."""


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
        self._outer: dict[tuple[object, tuple[int, ...]], OuterTable] = {}
        self._inner: dict[object, list[tuple[Tilings, ...]]] = {}
        self._direct: dict[tuple[int, int], Traffic] = {}
        self._steps: FloatArray | None = None

    def outer(self, pattern: Pattern, below: tuple[int, ...]) -> OuterTable:
        """Tilings of the outermost segment around `below`."""
        held = tuple(tuple(lv for lv in levels if self.problem.segment_of[lv] == 0) for levels in pattern.levels)
        key = (held, below)
        if key not in self._outer:
            self._outer[key] = outer_table(self.problem, pattern, below, self.roomiest, TILING_LIMIT)
        return self._outer[key]

    def inner(self, pattern: Pattern) -> list[tuple[Tilings, ...]]:
        """Tilings of the inner segments, all combinations of their chains."""
        held = tuple(tuple(lv for lv in levels if self.problem.segment_of[lv] > 0) for levels in pattern.levels)
        if held not in self._inner:
            self._inner[held] = self._list_inner(held)
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
        return [_joined(option, TILING_LIMIT) for option in itertools.product(*per_segment)]

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
        table = tables.outer(pattern, (1,) * len(problem.sizes))
        fits = self._outer_fits(table)
        if not fits.any():
            return None
        least = table.traffic.take(fits)
        outer = Traffic(
            [float(np.min(x)) for x in least.read], [float(np.min(x)) for x in least.write], least.instances, 0.0
        )
        self.outcome.is_complete = self.outcome.is_complete and table.is_complete
        total = Traffic(list(outer.read), list(outer.write), tables.instances, tables.steps)
        for info in problem.tensors:
            total = total.plus(self._least_inner(pattern, info.idx))
        bounds = np.broadcast_to(np.asarray(self.scorer.score(total)), (tables.spread.num,)).copy()
        used = np.ones(tables.spread.num)
        for spread in tables.spread.spreads:
            used = used * np.prod(spread.every, axis=0)
        bounds[used < self.problem.constraints.min_utilization * self.num_pes] = np.inf
        return bounds, outer

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

    def _outer_fits(self, table: OuterTable) -> np.ndarray:
        num = len(table.chain)
        fits = np.ones(num, dtype=bool)
        for level, need in zip(table.levels, table.need_bytes, strict=True):
            fits &= need <= self.capacities[level]
        return fits

    def _search_pattern(self, pattern: Pattern, bounds: FloatArray, outer: Traffic) -> float:
        """Searches one pattern; returns the least bound that was left open (infinite when none)."""
        rows = np.flatnonzero(bounds < self.limit)
        self.outcome.num_covered += len(bounds)
        if not len(rows):
            return np.inf
        rows = rows[np.argsort(bounds[rows], kind="stable")]
        options = self.tables.inner(pattern)
        self.outcome.is_complete = self.outcome.is_complete and all(t.is_complete for o in options for t in o)
        num_options = sum(_num(option) for option in options)
        self.outcome.num_covered += len(bounds) * num_options
        start, step = 0, 4
        while start < len(rows):
            chunk = rows[start : start + step]
            if bounds[chunk[0]] >= self.limit:
                return np.inf
            if time.perf_counter() > self.deadline:
                self.outcome.is_complete = False
                return float(bounds[chunk[0]])
            packed = np.array([r for r in chunk if self.tables.spread.packing(int(r)) is not None], dtype=int)
            if len(packed):
                left = self._search_rows(pattern, packed, options, outer)
                if left < np.inf:
                    return min(left, float(bounds[chunk[0]]))
            start += step
            step = min(step * 2, max(1, CELLS // max(1, num_options)))
        return np.inf

    def _search_rows(
        self, pattern: Pattern, rows: np.ndarray, options: list[tuple[Tilings, ...]], outer: Traffic
    ) -> float:
        """Evaluates all inner tilings of some spreads, then completes the promising ones outward."""
        found: list[_Found] = []
        for option in options:
            num, step = _num(option), CELLS // len(rows) + 1
            for low in range(0, num, step):
                part = tuple(_rows(t, slice(low, low + step)) for t in option)
                spreads = [spread.take(rows) for spread in self.tables.spread.spreads]
                frame = make_frame(self.problem, spreads, part)
                traffic, fits = inner_traffic(self.problem, pattern, frame, part, self.capacities)
                shape = (len(rows), min(step, num - low))
                score = np.broadcast_to(np.asarray(self.scorer.score(traffic.plus(outer))), shape)
                at = np.nonzero((score < self.limit) & fits & self._is_tight(frame, shape))
                if len(at[0]):
                    below = np.stack([np.broadcast_to(np.asarray(e), shape)[at] for e in frame.bottoms[0]])
                    chosen = traffic.broadcast(shape).take(at)
                    found.append(_Found(score[at], option, rows[at[0]], low + at[1], chosen, below.astype(int)))
        return self._complete(pattern, found)

    def _is_tight(self, frame: Frame, shape: tuple[int, int]) -> np.ndarray | bool:
        """Whether no spatial factor is larger than the pieces that there are."""
        tight: np.ndarray | bool = True
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
        for at in np.argsort(scores, kind="stable"):
            if scores[at] >= self.limit:
                return np.inf
            if time.perf_counter() > self.deadline:
                self.outcome.is_complete = False
                return float(scores[at])
            self._finish(pattern, found[group[at]], int(within[at]))
        return np.inf

    def _finish(self, pattern: Pattern, found: _Found, k: int) -> None:
        table = self.tables.outer(pattern, tuple(found.below[:, k].tolist()))
        fits = self._outer_fits(table)
        if not fits.any():
            return
        self.outcome.is_complete = self.outcome.is_complete and table.is_complete
        inner = found.traffic.take(k)
        scores = np.where(fits, self.scorer.score(inner.plus(table.traffic)), np.inf)
        best = int(np.argmin(scores))
        if scores[best] >= self.limit:
            return
        outer = table.tilings[int(table.chain[best])]
        candidate = Candidate(
            pattern=pattern,
            row=int(found.rows[k]),
            inner=tuple(_choice(tiling, int(found.columns[k])) for tiling in found.option),
            outer=_choice(outer, int(table.row[best])),
            score=float(scores[best]),
        )
        self.outcome.best = [candidate, *self.outcome.best][: self.keep]
        self.limit = candidate.score


def _joined(option: tuple[Tilings, ...], limit: int) -> tuple[Tilings, ...]:
    """All combinations of the segments' tilings, as arrays of one common length."""
    num = 1
    joined: list[Tilings] = []
    for tiling in option:
        joined = [_rows(t, np.repeat(np.arange(num), tiling.num)) for t in joined]
        joined.append(_rows(tiling, np.tile(np.arange(tiling.num), num)))
        num *= tiling.num
        if num > limit:
            thin = np.linspace(0, num - 1, limit).astype(int)
            joined = [_rows(t, thin, is_complete=False) for t in joined]
            num = limit
    return tuple(joined)


def _rows(tiling: Tilings, rows: object, *, is_complete: bool = True) -> Tilings:
    top = tuple(x[rows] for x in tiling.top)  # pyright: ignore[reportCallIssue, reportArgumentType] any NumPy index
    at = tuple(tuple(x[rows] for x in site) for site in tiling.at)  # pyright: ignore[reportCallIssue, reportArgumentType]
    num = len(top[0]) if top else 1
    return Tilings(tiling.chain, top, at, num, tiling.is_complete and is_complete)


def _num(option: tuple[Tilings, ...]) -> int:
    return option[0].num if option else 1
