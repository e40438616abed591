"""Branch and bound over patterns, spatial factors, inner tilings and outer tilings.

The score is monotone in every count, so a bound on the counts bounds the score. Candidates are taken in
the order of their bounds; the search ends when the next bound is no better than the best found: that is
the proof. Tables that do not depend on capacities, bandwidths or energies are shared, so that many
architectures of one shape are searched for little more than the price of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .candidates import Budget, Candidate, Choice, Outcome
from .inner import Frame, Pattern, inner_traffic, make_frame
from .menu import Floor, Menu, column_of, kept_traffic, neutral_traffic, num_of, relaxed_bounds, rows_of
from .objective import Scorer, Traffic, parse_objective
from .outer import OuterSegment
from .placement import Tilings
from .problem import FloatArray, IntArray
from .tables import Tables

FIRST_BOUNDS, MOST_BOUNDS = 20_000, 400_000
"""Pairs of spread and class of tilings that are bounded together: few at first, while nothing is found yet."""
FIRST_PAIRS = 500
FIRST_CELLS, MOST_CELLS = 2_000, 100_000
"""Inner tilings that are evaluated together."""
FIRST_OUTER, MOST_OUTER = 2, 512
"""Candidates whose outer tilings are enumerated together."""
MOST_OUTER_TILINGS = 400_000
"""Outer tilings of all these candidates together."""


@dataclass(frozen=True, slots=True)
class _Found:
    """Promising candidates without their outer tilings: arrays over candidates."""

    scores: FloatArray
    option: tuple[Tilings, ...]
    rows: IntArray
    columns: IntArray
    traffic: Traffic
    below: IntArray


@dataclass(frozen=True, slots=True)
class _Open:
    """A pattern that may hold something better: its spreads in ascending order of their bounds."""

    pattern: Pattern
    menu: Menu
    outer: Floor
    rows: IntArray
    bounds: FloatArray


class Search:
    """Searches the tables for one architecture and objective.

    Args:
        tables: The problem's tables.
        scorer: Scores traffic on the architecture.
        budget: How much it may do.
        keep: How many candidates to keep; the search then covers all that score below the last of them.
    """

    def __init__(self, tables: Tables, scorer: Scorer, *, budget: Budget | None = None, keep: int = 1) -> None:
        self.tables = tables
        self.problem = tables.problem
        self.scorer = scorer
        self.capacities = [float(c) for c in scorer.prices.capacity_bytes[:, 0]]
        self.budget = budget or Budget()
        self.keep = keep
        self.outcome = Outcome()
        self.limit = np.inf
        num_units = np.prod([axis.size for axis in self.problem.hierarchy.axes])
        self.least_units = self.problem.constraints.min_utilization * float(num_units)
        self._floors: dict[int, Floor | None] = {}

    def run(self) -> Outcome:
        """Runs to the end, or to the budget's."""
        tables, outcome = self.tables, self.outcome
        outcome.num_covered += len(tables.patterns) * tables.spread.num
        first = [float(np.min(self._bounds(pattern, self._compulsory(pattern)))) for pattern in tables.patterns]
        # First a look at the most promising part of every pattern: a good limit makes all bounds bite.
        opened: dict[int, _Open] = {}
        for k in sorted(range(len(first)), key=lambda k: (first[k], k)):
            found = self._open(tables.patterns[k]) if first[k] < self.limit else None
            if found is not None:
                opened[k] = found
                self._dive(found)
        open_bound = np.inf
        for k in sorted(opened, key=lambda k: (float(opened[k].bounds[0]), k)):
            open_bound = min(open_bound, self._search_pattern(opened[k]))
        outcome.is_complete = outcome.is_complete and tables.is_spread_complete
        outcome.bound = min(open_bound, outcome.best[0].score if outcome.best else np.inf)
        return outcome

    def _bounds(self, pattern: Pattern, outer: Floor) -> FloatArray:
        """Per group of spreads a bound on the score under a pattern."""
        problem, tables = self.problem, self.tables
        num_levels = len(problem.hierarchy.levels)
        total = Traffic([0.0] * num_levels, [0.0] * num_levels, tables.group_instances, tables.group_steps)
        for info in problem.tensors:
            total = total.plus(self._least_inner(pattern, info.idx))
        return np.broadcast_to(np.asarray(outer.score(self.scorer, total)), tables.group_steps.shape)

    def _compulsory(self, pattern: Pattern) -> Floor:
        """What the outermost segment moves at the very least: every tensor once into each level that keeps it."""
        num_levels = len(self.problem.hierarchy.levels)
        read: list[FloatArray | float] = [0.0] * num_levels
        write: list[FloatArray | float] = [0.0] * num_levels
        for info in self.problem.tensors:
            levels = [lv for lv in pattern.levels[info.idx] if self.problem.segment_of[lv] == 0]
            amount = info.elements * info.element_bytes
            for parent, child in itertools.pairwise(levels):
                if info.is_output:
                    write[parent] += amount
                else:
                    read[parent] += amount
                    write[child] += amount
        energy, latency, main_bytes = self.scorer.parts(Traffic(read, write, [1.0] * num_levels, 0.0))
        return Floor(float(energy) - self.scorer.mac_energy, float(latency), float(main_bytes))

    def _least_inner(self, pattern: Pattern, tensor: int) -> Traffic:
        """Least traffic of a tensor below the outermost segment, per group of spreads."""
        problem = self.problem
        info = problem.tensors[tensor]
        parent = pattern.parent(problem, tensor, 0)
        inner = [lv for lv in pattern.levels[tensor] if problem.segment_of[lv] > 0]
        if not inner:
            return self.tables.grouped_direct(tensor, parent)
        num_levels = len(problem.hierarchy.levels)
        read: list[FloatArray | float] = [0.0] * num_levels
        write: list[FloatArray | float] = [0.0] * num_levels
        whole = info.elements * info.element_bytes
        last = self.tables.grouped_direct(tensor, inner[-1])
        if info.is_output:
            write[parent] += whole
            # Accumulations that start from nothing read nothing, but drain once each in exchange.
            drains = whole if not problem.convention.final_drain_is_read else 0.0
            write[inner[-1]] = write[inner[-1]] + last.write[inner[-1]]
            read[inner[-1]] = read[inner[-1]] + np.maximum(last.write[inner[-1]] - drains, 0.0)
        else:
            for level in (parent, *inner[:-1]):
                read[level] += whole
            for level in inner:
                write[level] += whole
            read[inner[-1]] = read[inner[-1]] + last.read[inner[-1]]
        return Traffic(read, write, [1.0] * num_levels, 0.0)

    def _least_outer(self, pattern: Pattern) -> Floor | None:
        """What the outermost segment costs at least around any inner tiling; None when nothing fits."""
        segment = self.tables.outer(pattern)
        if id(segment) not in self._floors:
            self._floors[id(segment)] = self._floor(segment)
            self._charge(segment)
        return self._floors[id(segment)]

    def _floor(self, segment: OuterSegment) -> Floor | None:
        num_levels = len(self.problem.hierarchy.levels)
        neutral = Traffic([0.0] * num_levels, [0.0] * num_levels, [1.0] * num_levels, 0.0)
        below = np.ones((len(self.problem.sizes), 1), dtype=np.intp)
        parts: list[float] = []
        for name in ("energy", "latency", "main_memory_bytes"):
            if not getattr(self.scorer.objective, name):
                parts.append(0.0)
                continue
            scorer = Scorer(parse_objective(name), self.scorer.prices, 0)

            def score(outer: Traffic, scorer: Scorer = scorer) -> FloatArray:
                return np.asarray(scorer.score(neutral.plus(outer)))

            choice = segment.best(below, self.capacities, score, np.inf)
            if choice is None:
                return None
            parts.append(choice.score)
        return Floor(*parts)

    def _open(self, pattern: Pattern) -> _Open | None:
        """Bounds every spread under a pattern; None when nothing of it fits or can be better."""
        outer = self._least_outer(pattern)
        if outer is None:
            return None
        menu = self.tables.inner(pattern)
        self.outcome.is_complete = self.outcome.is_complete and menu.is_complete
        if not menu.num:
            return None
        self.outcome.num_covered += self.tables.spread.num * menu.num
        groups = np.flatnonzero(self._coarse(pattern, menu, outer, None) < self.limit)
        if not len(groups):
            return None
        rows = self.tables.members(groups)
        rows = rows[self.tables.num_used[rows] >= self.least_units]
        bounds = self._coarse(pattern, menu, outer, rows)
        good = bounds < self.limit
        if not good.any():
            return None
        rows, bounds = rows[good], bounds[good]
        order = np.argsort(bounds, kind="stable")
        return _Open(pattern, menu, outer, rows[order], bounds[order])

    def _coarse(self, pattern: Pattern, menu: Menu, outer: Floor, rows: IntArray | None) -> FloatArray:
        """Bounds over the largest classes of tilings: per spread of `rows`, or per group of spreads."""
        tables = self.tables
        num_levels = len(self.problem.hierarchy.levels)
        if rows is None:
            every = np.arange(len(tables.group_steps))
            instances: list[FloatArray | float] = [
                x[:, None] if isinstance(x, np.ndarray) else x for x in tables.group_instances
            ]
            steps = tables.group_steps[:, None]
            total = Traffic([0.0] * num_levels, [0.0] * num_levels, instances, steps)
        else:
            every = rows
            total = neutral_traffic(tables, rows)
        for tensor, parent, inner in tables.inner_chains(pattern):
            if not inner:
                direct = tables.grouped_direct(tensor, parent) if rows is None else tables.direct(tensor, parent)
                total = total.plus(column_of(direct, every))
            elif rows is None:
                total = total.plus(tables.grouped_kept(menu, tensor, parent, inner))
            else:
                total = total.plus(kept_traffic(tables, menu, rows, menu.largest, tensor, parent, inner))
        return np.broadcast_to(np.asarray(outer.score(self.scorer, total)), (len(every), len(menu.largest))).min(axis=1)

    def _dive(self, found: _Open) -> None:
        """Searches only the best-bounded pairs of the best-bounded spreads of a pattern."""
        num = min(max(1, FIRST_BOUNDS // len(found.menu.members)), int(np.searchsorted(found.bounds, self.limit)))
        if not num:
            return
        tighter = relaxed_bounds(self.tables, self.scorer, found.pattern, found.menu, found.rows[:num], found.outer)
        scores = tighter.reshape(-1)
        batch = np.argsort(scores, kind="stable")[:FIRST_PAIRS]
        r_idx, classes = np.divmod(batch[scores[batch] < self.limit], tighter.shape[1])
        ends = np.cumsum(found.menu.class_sizes[classes])
        most = max(1, int(np.searchsorted(ends, FIRST_CELLS)))
        if len(r_idx):
            self._search_pairs(found.pattern, found.rows[r_idx[:most]], classes[:most], found.menu, found.outer)

    def _search_pattern(self, found: _Open) -> float:
        """Searches one pattern; returns the least bound that was left open (infinite when none)."""
        rows, bounds, menu = found.rows, found.bounds, found.menu
        low, step = 0, max(1, FIRST_BOUNDS // len(menu.members))
        while low < len(rows) and bounds[low] < self.limit:
            high = low + int(np.searchsorted(bounds[low : low + step], self.limit))
            open_bound = self._search_rows(found.pattern, rows[low:high], menu, found.outer)
            if open_bound < np.inf:
                return min(open_bound, float(bounds[low]))
            low, step = low + step, max(1, MOST_BOUNDS // len(menu.members))
        return np.inf

    def _search_rows(self, pattern: Pattern, rows: IntArray, menu: Menu, outer: Floor) -> float:
        """Searches some spreads of one pattern; returns the least bound that was left open."""
        tighter = relaxed_bounds(self.tables, self.scorer, pattern, menu, rows, outer)
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
            num, cells = num * 8, MOST_CELLS
        return np.inf

    def _search_batch(
        self,
        pattern: Pattern,
        rows: IntArray,
        classes: IntArray,
        scores: FloatArray,
        menu: Menu,
        outer: Floor,
        cells: int,
    ) -> float:
        """Searches some (spread, class of tilings), best bound first, a limited number of tilings at a time."""
        ends = np.cumsum(menu.class_sizes[classes])
        low = 0
        while low < len(rows) and scores[low] < self.limit:
            if self.budget.is_spent:
                self.outcome.is_complete = False
                return float(scores[low])
            done = ends[low - 1] if low else 0
            high = max(low + 1, int(np.searchsorted(ends, done + cells)))
            left = self._search_pairs(pattern, rows[low:high], classes[low:high], menu, outer)
            if left < np.inf:
                return min(left, float(scores[low]))
            low, cells = high, min(cells * 4, MOST_CELLS)
        return np.inf

    def _search_pairs(self, pattern: Pattern, rows: IntArray, classes: IntArray, menu: Menu, outer: Floor) -> float:
        """Evaluates all inner tilings of some (spread, class of tilings), then completes the promising ones outward."""
        unique, inverse = np.unique(rows, return_inverse=True)
        fit = np.array([self.tables.spread.packing(int(row)) is not None for row in unique])[inverse]
        rows, classes = rows[fit], classes[fit]
        if not len(rows):
            return np.inf
        columns = np.concatenate([menu.members[int(c)] for c in classes])
        rows = np.repeat(rows, menu.class_sizes[classes])
        self.budget.tilings -= len(rows)
        found: list[_Found] = []
        for option, option_low in zip(menu.options, menu.starts, strict=True):
            here = np.flatnonzero((columns >= option_low) & (columns < option_low + num_of(option)))
            if not len(here):
                continue
            part = tuple(rows_of(t, columns[here] - option_low) for t in option)
            spreads = [spread.take(rows[here]) for spread in self.tables.spread.spreads]
            frame = make_frame(self.problem, spreads, part)
            traffic, fits = inner_traffic(
                self.problem, pattern, frame, part, self.capacities, with_steps=self.scorer.objective.latency > 0
            )
            shape = (len(here),)
            score = np.broadcast_to(np.asarray(outer.score(self.scorer, traffic)), shape)
            at = np.nonzero((score < self.limit) & fits & self._is_tight(frame))[0]
            if len(at):
                below = np.stack([np.broadcast_to(np.asarray(e), shape)[at] for e in frame.bottoms[0]])
                chosen = traffic.broadcast(shape).take(at)
                taken = columns[here[at]] - option_low
                found.append(_Found(score[at], option, rows[here[at]], taken, chosen, below.astype(np.intp)))
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
        """Adds the best outer tiling to each candidate, most promising first; returns the least bound left open."""
        for f in found:
            if self.budget.is_spent:
                self.outcome.is_complete = False
                return float(min(f.scores.min() for f in found))
            which = np.flatnonzero(f.scores < self.limit)
            which = self._reaching(pattern, f, which, is_exact=False)
            which = self._reaching(pattern, f, which, is_exact=True)
            self._finish_all(pattern, f, which)
        return np.inf

    def _reaching(self, pattern: Pattern, found: _Found, which: IntArray, *, is_exact: bool) -> IntArray:
        """Those candidates that some outer tiling could take below the limit, as far as their family tells.

        Args:
            pattern: Their pattern.
            found: What they are part of.
            which: The candidates.
            is_exact: Families have equal extents below, otherwise extents that are alike within a factor of 1.5,
                of which the least count.
        """
        if len(which) <= FIRST_OUTER:
            return which
        below = found.below[:, which]
        octave = np.floor(np.log2(below))
        order, starts = _runs(below if is_exact else 2 * octave + (below >= 1.5 * 2.0**octave))
        if is_exact and len(starts) == len(which):
            return which
        traffic = found.traffic.take(which).least_of(order, starts)
        extents = np.minimum.reduceat(below[:, order], starts, axis=1)
        lowest = np.minimum.reduceat(found.scores[which][order], starts)
        reached = np.zeros(len(starts), dtype=bool)
        segment = self.tables.outer(pattern)
        ascending = np.argsort(lowest, kind="stable")
        step = self._at_once(segment)
        for low in range(0, len(starts), step):
            if self.budget.is_spent:
                # What was not looked at stays possible.
                reached[ascending[low:]] = True
                break
            batch = ascending[low : low + step]
            batch = batch[lowest[batch] < self.limit]
            if not len(batch):
                break
            inner = _column(traffic.take(batch))

            def score(outer: Traffic, inner: Traffic = inner) -> FloatArray:
                return np.asarray(self.scorer.score(inner.plus(outer)))

            ones = np.ones((len(below), len(batch)), dtype=np.intp)
            least = extents[:, batch]
            reached[batch] = segment.reach(
                least if is_exact else ones, self.capacities, score, self.limit, least=None if is_exact else least
            )
            self._charge(segment)
        runs = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(order))))
        return np.sort(which[order[reached[runs]]])

    def _finish_all(self, pattern: Pattern, found: _Found, which: IntArray) -> None:
        which = which[np.argsort(found.scores[which], kind="stable")]
        low, step = 0, FIRST_OUTER if self.keep == 1 else 1
        while low < len(which):
            batch = which[low : low + step]
            batch = batch[found.scores[batch] < self.limit]
            if not len(batch):
                return
            self._finish(pattern, found, batch)
            most = self._at_once(self.tables.outer(pattern)) if self.keep == 1 else 1
            low, step = low + step, min(step * 2, most)

    @staticmethod
    def _at_once(segment: OuterSegment) -> int:
        """Inner tilings whose outer tilings are enumerated together: few where each has many."""
        return max(1, min(MOST_OUTER, MOST_OUTER_TILINGS // segment.num_tilings))

    def _charge(self, segment: OuterSegment) -> None:
        """Takes note of what a segment did, so that nothing of it is left to the next search that shares it."""
        self.budget.tilings -= segment.num_evaluated
        self.outcome.is_complete = self.outcome.is_complete and segment.is_complete
        segment.num_evaluated, segment.is_complete = 0, True

    def _finish(self, pattern: Pattern, found: _Found, which: IntArray) -> None:
        """Finds the best outer tiling for some candidates of one option."""
        inner = _column(found.traffic.take(which))
        segment = self.tables.outer(pattern)

        def score(outer: Traffic) -> FloatArray:
            return np.asarray(self.scorer.score(inner.plus(outer)))

        choice = segment.best(found.below[:, which], self.capacities, score, self.limit)
        self._charge(segment)
        if choice is None:
            return
        chosen = int(which[choice.inner])
        candidate = Candidate(
            pattern=pattern,
            row=int(found.rows[chosen]),
            inner=tuple(_choice(tiling, int(found.columns[chosen])) for tiling in found.option),
            outer=Choice(choice.chain, (), choice.at),
            score=choice.score,
        )
        best = sorted([*self.outcome.best, candidate], key=lambda kept: kept.score)[: self.keep]
        self.outcome.best = best
        if len(best) == self.keep:
            self.limit = best[-1].score


def _runs(columns: npt.NDArray[np.number]) -> tuple[IntArray, IntArray]:
    """An order in which equal columns are neighbours, and where each run of them begins."""
    order = np.lexsort(columns)
    ordered = columns[:, order]
    fresh = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
    return order, np.concatenate([[0], np.flatnonzero(fresh) + 1]).astype(np.intp)


def _choice(tiling: Tilings, row: int) -> Choice:
    return Choice(
        tiling.chain,
        tuple(int(extent[row]) for extent in tiling.top),
        tuple(tuple(int(extent[row]) for extent in site) for site in tiling.at),
    )


def _column(traffic: Traffic) -> Traffic:
    """Arrays as columns, so that outer tilings can be broadcast along the second axis."""

    def grow(values: Sequence[FloatArray | float]) -> list[FloatArray | float]:
        return [np.asarray(v, dtype=np.float64).reshape(-1, 1) for v in values]

    return Traffic(grow(traffic.read), grow(traffic.write), grow(traffic.instances), grow([traffic.steps])[0])
