"""Branch and bound over patterns, spatial factors, inner tilings and outer tilings.

The score is monotone in every count, so a bound on the counts bounds the score. Candidates are taken in
the order of their bounds; the search ends when the next bound is no better than the best found: that is
the proof. Tables that do not depend on capacities, bandwidths or energies are shared, so that many
architectures of one shape are searched for little more than the price of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .candidates import Budget, Candidate, Outcome
from .completion import Completion, Found, stacked
from .inner import Frame, Pattern, inner_traffic, make_frame, raised_holder
from .menu import Floor, Menu, num_of, outer_steps, relaxed_traffic, rows_of
from .objective import Scorer, Traffic
from .problem import FloatArray, IntArray
from .sketch import compulsory, fetched_again
from .tables import Tables

FIRST_BOUNDS, MOST_BOUNDS = 20_000, 400_000
"""Pairs of spread and class of tilings that are bounded together: few at first, while nothing is found yet."""
FIRST_PAIRS = 500
FIRST_CELLS, MOST_CELLS = 2_000, 100_000
"""Inner tilings that are evaluated together."""


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
        start: A mapping to improve on.
    """

    def __init__(
        self,
        tables: Tables,
        scorer: Scorer,
        *,
        budget: Budget | None = None,
        keep: int = 1,
        start: Candidate | None = None,
    ) -> None:
        self.tables = tables
        self.problem = tables.problem
        self.scorer = scorer
        self.capacities = [float(c) for c in scorer.prices.capacity_bytes[:, 0]]
        self.budget = budget or Budget()
        self.keep = keep
        self.outcome = Outcome()
        self.completion = Completion(tables, scorer, self.budget, keep)
        if start is not None:
            self.completion.add(start)
        num_units = np.prod([axis.size for axis in self.problem.hierarchy.axes])
        self.least_units = self.problem.constraints.min_utilization * float(num_units)

    @property
    def limit(self) -> float:
        """Only scores below it are of interest."""
        return self.completion.limit

    def run(self) -> Outcome:
        """Runs to the end, or to the budget's."""
        tables, outcome = self.tables, self.outcome
        outcome.num_covered += len(tables.patterns) * tables.spread.num
        first = self._first_bounds()
        # First a look at the most promising part of every pattern: a good limit makes all bounds bite.
        opened: dict[int, _Open] = {}
        for k in sorted(range(len(first)), key=lambda k: (first[k], k)):
            if first[k] >= self.limit:
                break
            found = self._open(tables.patterns[k])
            if found is not None:
                opened[k] = found
                if not self.budget.is_spent:  # else nothing would come of it
                    self._dive(found)
        open_bound = np.inf
        for k in sorted(opened, key=lambda k: (float(opened[k].bounds[0]), k)):
            open_bound = min(open_bound, self._search_pattern(opened[k]))
        outcome.best = self.completion.best
        is_listed = tables.outline.is_complete and tables.is_spread_complete
        outcome.is_complete = outcome.is_complete and self.completion.is_complete and is_listed
        outcome.bound = min(open_bound, outcome.best[0].score if outcome.best else np.inf)
        if not is_listed:
            outcome.bound = min(outcome.bound, least_of_all(tables, self.scorer))
        return outcome

    def _first_bounds(self) -> list[float]:
        """Per pattern a bound on its scores; infinite where nothing fits below the fan-outs."""
        bounds = np.full(len(self.tables.patterns), np.inf)
        outline = self.tables.outline
        if len(outline.owner):
            for idx, part in enumerate(self.scorer.parts(outline.inner)):
                self.completion.least[idx] = float(np.min(part))
            np.minimum.at(bounds, outline.owner, np.asarray(self.scorer.score(outline.whole)))
        return bounds.tolist()

    def _open(self, pattern: Pattern) -> _Open | None:
        """Bounds every spread under a pattern; None when nothing of it fits or can be better."""
        outer = self.completion.least_outer(pattern)
        if outer is None:
            return None
        tables = self.tables
        menu = tables.inner(pattern)
        if not menu.num:
            return None
        self.outcome.num_covered += tables.spread.num * menu.num
        sketch = tables.sketch(pattern, menu)
        classes = self.problem.dim_classes
        bounds = np.asarray(self._bounded(pattern, outer, sketch.traffic, classes, sketch.steps))
        is_open = np.broadcast_to(bounds < self.limit, sketch.holds.shape[:1])
        if not is_open.any():
            return None
        rows = tables.members(np.flatnonzero(sketch.holds[is_open].any(axis=0)))
        rows = rows[tables.num_used[rows] >= self.least_units]
        bounds = self._class_bounds(pattern, menu, rows, menu.largest, outer).min(axis=1)
        good = bounds < self.limit
        if not good.any():
            return None
        rows, bounds = rows[good], bounds[good]
        order = np.argsort(bounds, kind="stable")
        return _Open(pattern, menu, outer, rows[order], bounds[order])

    def _class_bounds(
        self, pattern: Pattern, menu: Menu, rows: IntArray, classes: IntArray, outer: Floor
    ) -> FloatArray:
        """Bounds on the score of each (spread, class of tilings), [rows, classes]."""
        total = relaxed_traffic(self.tables, pattern, menu, rows, classes)
        steps = [] if pattern.raised is None else outer_steps(self.tables, menu, rows, classes)
        bounds = self._bounded(pattern, outer, total, self.problem.dim_classes, steps)
        return np.broadcast_to(bounds, (len(rows), len(classes)))

    def _bounded(
        self,
        pattern: Pattern,
        outer: Floor,
        inner: Traffic,
        groups: Sequence[tuple[int, ...]],
        steps: Sequence[FloatArray | float],
    ) -> FloatArray | float:
        """Bounds on the score of mappings that move `inner` below the outermost segment.

        Args:
            pattern: Their pattern.
            outer: What the outermost segment costs at least.
            inner: Their traffic.
            groups: Dims, those that index the same tensors together; of no concern where nothing is raised.
            steps: Per group the least steps of its dims outside the fan-outs.
        """
        bounds = outer.score(self.scorer, inner)
        if pattern.raised is None:
            return bounds
        whole = inner.plus(compulsory(self.problem, pattern))
        least: FloatArray | float = np.inf
        for again in fetched_again(self.problem, pattern, groups, steps):
            least = np.minimum(least, self.scorer.score(whole.plus(again)))
        return np.maximum(bounds, least)

    def _dive(self, found: _Open) -> None:
        """Searches only the best-bounded pairs of the best-bounded spreads of a pattern."""
        num = min(max(1, FIRST_BOUNDS // len(found.menu.class_sizes)), int(np.searchsorted(found.bounds, self.limit)))
        if not num:
            return
        every = np.arange(len(found.menu.class_sizes))
        tighter = self._class_bounds(found.pattern, found.menu, found.rows[:num], every, found.outer)
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
        low, step = 0, max(1, FIRST_BOUNDS // len(menu.class_sizes))
        while low < len(rows) and bounds[low] < self.limit:
            high = low + int(np.searchsorted(bounds[low : low + step], self.limit))
            open_bound = self._search_rows(found.pattern, rows[low:high], menu, found.outer)
            if open_bound < np.inf:
                return min(open_bound, float(bounds[low]))
            low, step = low + step, max(1, MOST_BOUNDS // len(menu.class_sizes))
        return np.inf

    def _search_rows(self, pattern: Pattern, rows: IntArray, menu: Menu, outer: Floor) -> float:
        """Searches some spreads of one pattern; returns the least bound that was left open."""
        tighter = self._class_bounds(pattern, menu, rows, np.arange(len(menu.class_sizes)), outer)
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
        columns = menu.members(classes)
        rows = np.repeat(rows, menu.class_sizes[classes])
        self.budget.tilings -= len(rows)
        found: list[Found] = []
        for k, (option, option_low) in enumerate(zip(menu.options, menu.starts, strict=True)):
            here = np.flatnonzero((columns >= option_low) & (columns < option_low + num_of(option)))
            if not len(here):
                continue
            part = tuple(rows_of(t, columns[here] - option_low) for t in option)
            spreads = [spread.take(rows[here]) for spread in self.tables.spread.spreads]
            frame = make_frame(self.problem, spreads, part)
            traffic, fits, width = inner_traffic(
                self.problem, pattern, frame, part, self.capacities, with_steps=self.scorer.objective.latency > 0
            )
            shape = (len(here),)
            good = fits & self._is_tight(frame)
            numbers: list[list[FloatArray | float]] = [[] for _ in self.problem.sizes]
            scale: list[FloatArray | float] = [0.0] * 4
            if pattern.raised is not None:
                raised = raised_holder(self.problem, pattern, frame, part, pattern.raised)
                good, numbers, scale = good & raised.is_possible, raised.keys, raised.scale
            dims = [(dim,) for dim in range(len(self.problem.sizes))]
            steps = [np.ceil(size / below) for size, below in zip(self.problem.sizes, frame.bottoms[0], strict=True)]
            score = np.broadcast_to(self._bounded(pattern, outer, traffic, dims, steps), shape)
            at = np.nonzero((score < self.limit) & good)[0]
            if len(at):
                keys = [[below, *rest] for below, rest in zip(frame.bottoms[0], numbers, strict=True)]
                found.append(
                    Found(
                        score[at],
                        np.full(len(at), k),
                        rows[here[at]],
                        columns[here[at]] - option_low,
                        traffic.take(at),
                        self.tables.below.kinds(np.stack([stacked(some, shape)[:, at] for some in keys])),
                        stacked([*scale, width], shape)[:, at],
                    )
                )
        return self.completion.complete(pattern, menu.options, Found.joined(found)) if found else np.inf

    def _is_tight(self, frame: Frame) -> npt.NDArray[np.bool_] | bool:
        """Whether no spatial factor is larger than the pieces that there are."""
        tight: npt.NDArray[np.bool_] | bool = True
        for dim, size in enumerate(self.problem.sizes):
            if size == 1:
                continue
            for segment in range(1, self.problem.num_fanouts + 1):
                top = frame.tops[segment][dim]
                tight = tight & ((frame.spreads[segment - 1].needed[dim] - 1) * top < size)
        return tight


def least_of_all(tables: Tables, scorer: Scorer) -> float:
    """A bound on everything, whether it was listed or not: every tensor moves once, in the fewest steps."""
    problem = tables.problem
    num_units = float(np.prod([axis.size for axis in problem.hierarchy.axes]))
    steps = float(np.ceil(np.prod([float(size) for size in problem.sizes]) / num_units))
    least = np.inf
    for pattern in tables.patterns:
        once = compulsory(problem, pattern)
        traffic = Traffic(once.read, once.write, [num_units] * len(once.read), steps)
        least = min(least, float(scorer.score(traffic)))
    return least
