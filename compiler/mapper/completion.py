"""Completes inner tilings outward: hands them to the compiled core, and keeps the best mappings found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .candidates import Budget, Candidate, Choice
from .inner import Pattern
from .menu import Floor
from .objective import Scorer, Traffic, joined_traffic
from .outer import OuterChain, settled
from .placement import Point, Tilings
from .problem import FloatArray, IntArray, distinct
from .sketch import compulsory
from .tables import Tables
from .walk import Goal, Inner, Ints, best_outer

FIRST_OUTER, MOST_OUTER = 4, 4096
"""Inner tilings that are completed outward together."""


@dataclass(frozen=True, slots=True)
class Found:
    """Inner tilings that may be part of something better; arrays over them.

    Attributes:
        scores: Bounds on their scores.
        options: Which entry of the menu's options each belongs to.
        rows: Its spread.
        columns: Its row in the option's tilings.
        traffic: What it moves.
        kinds: [groups, tilings] what lies below the outermost segment: see `Below`.
        scale: [5, tilings] see `walk.Inner`.
    """

    scores: FloatArray
    options: IntArray
    rows: IntArray
    columns: IntArray
    traffic: Traffic
    kinds: Ints
    scale: FloatArray

    def take(self, which: IntArray) -> Found:
        """Some of them."""
        return Found(
            self.scores[which],
            self.options[which],
            self.rows[which],
            self.columns[which],
            self.traffic.take(which),
            self.kinds[:, which],
            self.scale[:, which],
        )

    @staticmethod
    def joined(parts: Sequence[Found]) -> Found:
        """All of several."""
        if len(parts) == 1:
            return parts[0]
        return Found(
            np.concatenate([part.scores for part in parts]),
            np.concatenate([part.options for part in parts]),
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.columns for part in parts]),
            joined_traffic([part.traffic for part in parts], [len(part.scores) for part in parts]),
            np.concatenate([part.kinds for part in parts], axis=1),
            np.concatenate([part.scale for part in parts], axis=1),
        )


class Completion:
    """The best mappings of one search.

    Args:
        tables: The problem's tables.
        scorer: Scores traffic on the architecture.
        budget: How much the search may do.
        keep: How many mappings to keep.

    Attributes:
        best: The best mappings so far, best first.
        limit: The score of the last of them, infinite while there are fewer than `keep`.
        is_complete: False once the budget ended before all was looked at.
        least: The least energy, cycles and main-memory bytes below the outermost segment, over all patterns.
    """

    def __init__(self, tables: Tables, scorer: Scorer, budget: Budget, keep: int) -> None:
        self.tables = tables
        self.problem = tables.problem
        self.scorer = scorer
        self.budget = budget
        self.keep = keep
        self.best: list[Candidate] = []
        self.is_complete = True
        self.least = [0.0, 0.0, 0.0]
        self._scores = np.full(keep, np.inf)
        self._floors: dict[int, dict[tuple[Point, ...], Floor]] = {}
        prices, objective, convention = scorer.prices, scorer.objective, self.problem.convention
        self._goal = Goal(
            read_pj=prices.read_pj[:, 0].copy(),
            write_pj=prices.write_pj[:, 0].copy(),
            read_rate=prices.read_bytes_per_cycle[:, 0].copy(),
            write_rate=prices.write_bytes_per_cycle[:, 0].copy(),
            shares_port=prices.shares_port[:, 0] > 0,
            capacity=prices.capacity_bytes[:, 0].copy(),
            powers=np.array([objective.energy, objective.latency, objective.main_memory_bytes]),
            first_reads=convention.first_accumulation_reads,
            is_one=convention.partial_sum_refills == "one",
            drain_reads=convention.final_drain_is_read,
        )

    @property
    def limit(self) -> float:
        """Only scores below it are of interest."""
        return float(self._scores[-1])

    def add(self, candidate: Candidate) -> None:
        """Takes a mapping found elsewhere."""
        self.best = sorted([*self.best, candidate], key=lambda kept: kept.score)[: self.keep]
        self._scores[:] = np.sort([*self._scores, candidate.score])[: self.keep]

    def least_outer(self, pattern: Pattern) -> Floor | None:
        """What the outermost segment costs at least around any inner tiling; None when nothing fits."""
        floors = list(self._floors_of(pattern).values())
        if not floors:
            return None
        return Floor(
            min(floor.energy_pj for floor in floors),
            min(floor.latency_cycles for floor in floors),
            min(floor.main_memory_bytes for floor in floors),
        )

    def _floors_of(self, pattern: Pattern) -> dict[tuple[Point, ...], Floor]:
        """Per order of the outermost segment's holders what it costs at least.

        Orders that never fit, or cannot beat the best score, are missing.
        """
        chains = self.tables.outer(replace(pattern, raised=None))
        if not np.isfinite(self.limit):
            # Finding the exact floors takes long as long as there is no score to beat.
            energy, latency, main_bytes = self.scorer.parts(compulsory(self.problem, pattern))
            floor = Floor(float(energy) - self.scorer.mac_energy, float(latency), float(main_bytes))
            return {chain.chain.points: floor for chain in chains}
        key = id(chains)
        if key not in self._floors:
            floors = {chain.chain.points: self._floor(chain) for chain in chains}
            self._floors[key] = {points: floor for points, floor in floors.items() if floor is not None}
        return self._floors[key]

    def _floor(self, chain: OuterChain) -> Floor | None:
        """The least of each of energy, cycles and main-memory bytes, around tiles of one element."""
        num_levels = len(self.problem.hierarchy.levels)
        nothing = Traffic([0.0] * num_levels, [0.0] * num_levels, [1.0] * num_levels, 0.0)
        scale = np.zeros((5, 1))
        scale[4] = self.problem.tensors[-1].element_bytes
        inner = self._inner(nothing, scale)._replace(energy=np.zeros(1))
        kinds = self.tables.below.kinds(np.ones((len(self.problem.sizes), 1, 1)))
        powers = self._goal.powers
        parts = [0.0, 0.0, 0.0]
        for idx in np.flatnonzero(powers).tolist():
            # Above this the score cannot get below the limit, whatever lies inside.
            rest = math.prod(self.least[k] ** powers[k] for k in range(3) if k != idx and powers[k])
            most = (self.limit / rest) ** (1 / powers[idx]) if rest else np.inf
            most = most * (1 + 1e-9) - (0.0 if idx == 1 else self.least[idx])
            goal = self._goal._replace(powers=np.eye(3)[idx])
            scores, _, num = self._walk(chain, goal, inner, np.zeros(1), kinds, np.full(1, most))
            if num and not np.isfinite(scores[0]):
                return None
            parts[idx] = float(scores[0]) if num else 0.0  # the budget ended
        return Floor(*parts)

    def complete(self, pattern: Pattern, options: Sequence[tuple[Tilings, ...]], found: Found) -> float:
        """Adds the best outer tiling to each inner one, most promising first.

        Args:
            pattern: Their pattern.
            options: The menu's options.
            found: The inner tilings.

        Returns:
            The least bound that was left open; infinite when none was.
        """
        floors = self._floors_of(pattern)
        chains = [
            (chain, floors[points])
            for chain in self.tables.outer(pattern)
            if (points := tuple(point for point in chain.chain.points if not point.is_raised)) in floors
        ]
        inner = self._inner(found.traffic, found.scale)
        if self.keep == 1:
            found, inner = self._undominated(found, inner)
        parts = self.scorer.parts(found.traffic)
        order = np.argsort(found.scores, kind="stable")
        low, step = 0, FIRST_OUTER
        while low < len(order) and found.scores[order[low]] < self.limit:
            batch = order[low : low + step]
            open_bound = np.inf
            for chain, floor in chains:
                bounds = np.asarray(floor.with_inner(self.scorer.objective, *(_some(part, batch) for part in parts)))
                good = bounds < self.limit
                if good.any():
                    which, bounds = batch[good], bounds[good]
                    ascending = np.argsort(bounds, kind="stable")
                    which, bounds = which[ascending], bounds[ascending]
                    open_bound = min(open_bound, self._finish(pattern, options, found, inner, chain, which, bounds))
            if open_bound < np.inf:
                self.is_complete = False
                return open_bound
            low, step = low + step, min(step * 4, MOST_OUTER)
        return np.inf

    @staticmethod
    def _undominated(found: Found, inner: Inner) -> tuple[Found, Inner]:
        """Without those that have the same outer tilings as one that costs no more in any respect."""
        _, kind = distinct(np.concatenate([found.kinds, found.scale.view(np.int64)]))
        order = np.lexsort((inner.energy, kind))
        starts = np.flatnonzero(np.diff(kind[order], prepend=-1))
        cheapest = order[np.repeat(starts, np.diff(starts, append=len(order)))]
        is_better = np.ones(len(order), dtype=bool)
        for value in (inner.cycles, *inner.read.T, *inner.write.T, *(-inner.instances).T):
            is_better &= value[cheapest] <= value[order]
        is_kept = np.ones(len(order), dtype=bool)
        is_kept[order] = ~is_better
        is_kept[order[starts]] = True
        kept = np.flatnonzero(is_kept)
        return found.take(kept), Inner(*(values[kept] for values in inner))

    def _finish(
        self,
        pattern: Pattern,
        options: Sequence[tuple[Tilings, ...]],
        found: Found,
        inner: Inner,
        chain: OuterChain,
        which: IntArray,
        bounds: FloatArray,
    ) -> float:
        """Finds the best outer tilings of one order for some inner ones; returns the least bound left open."""
        some = Inner(*(values[which] for values in inner))
        scores, rows, num = self._walk(chain, self._goal, some, bounds, found.kinds[:, which], self._scores)
        for k in np.flatnonzero(np.isfinite(scores) & (scores <= self.limit)):
            at = chain.extents(rows[k].tolist())
            column = int(found.columns[which[k]])
            candidate = Candidate(
                pattern=pattern,
                row=int(found.rows[which[k]]),
                inner=tuple(_choice(tiling, column) for tiling in options[int(found.options[which[k]])]),
                outer=Choice(settled(self.problem, chain.chain, at), (), at),
                score=float(scores[k]),
            )
            self.best = sorted([*self.best, candidate], key=lambda kept: kept.score)[: self.keep]
        return float(bounds[num]) if num < len(which) else np.inf

    def _walk(
        self,
        chain: OuterChain,
        goal: Goal,
        inner: Inner,
        bounds: FloatArray,
        kinds: Ints,
        best: FloatArray,
    ) -> tuple[FloatArray, Ints, int]:
        """Scores and options of the best outer tilings, and how many inner tilings were finished."""
        pool, start, stop = chain.options(kinds)
        scores = np.full(len(start), np.inf)
        rows = np.zeros(start.shape, dtype=np.int64)
        most = 0 if self.budget.is_spent else int(min(self.budget.tilings, 2**62))
        num, num_nodes = best_outer(chain.form, goal, inner, bounds, start, stop, pool, best, most, scores, rows)
        self.budget.tilings -= num_nodes
        return scores, rows, num

    def _inner(self, traffic: Traffic, scale: FloatArray) -> Inner:
        """Inner tilings in the compiled core's terms."""
        num = scale.shape[1]
        energy, _, _ = self.scorer.parts(traffic)
        cycles = traffic.steps * float(self.scorer.prices.cycles_per_step[0])
        return Inner(
            energy=np.ascontiguousarray(np.broadcast_to(energy, (num,))),
            cycles=np.ascontiguousarray(np.broadcast_to(cycles, (num,)).astype(np.float64)),
            read=np.ascontiguousarray(stacked(traffic.read, (num,)).T),
            write=np.ascontiguousarray(stacked(traffic.write, (num,)).T),
            instances=np.ascontiguousarray(stacked(traffic.instances, (num,)).T),
            scale=np.ascontiguousarray(scale.T),
        )


def stacked(values: Sequence[FloatArray | float], shape: tuple[int, ...]) -> FloatArray:
    """Values in full shape, [values, ...]."""
    table = np.empty((len(values), *shape))
    for idx, value in enumerate(values):
        table[idx] = value
    return table


def _some(values: FloatArray | float, which: IntArray) -> FloatArray:
    return values[which] if isinstance(values, np.ndarray) else np.full(len(which), values)


def _choice(tiling: Tilings, row: int) -> Choice:
    return Choice(
        tiling.chain,
        tuple(int(extent[row]) for extent in tiling.top),
        tuple(tuple(int(extent[row]) for extent in site) for site in tiling.at),
    )
