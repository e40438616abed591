"""What a problem's search needs that no capacity, bandwidth or energy changes, listed once on demand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from .inner import Pattern, Site, charge, make_frame, parent_width
from .menu import InnerChain, Menu, column_of, joined, kept_traffic, make_menu, outer_steps
from .objective import Traffic, joined_traffic
from .outer import Below, OuterChain, outer_chains
from .placement import Chain, Point, Tilings, chains, tilings
from .problem import FloatArray, IntArray, Problem, distinct
from .sketch import Clusters, Outline, Sketch, compulsory, fetched_again, make_clusters
from .spatial import spread_table

SPREAD_LIMIT = 400_000
TILING_LIMIT = 100_000
CLUSTERS = 32
"""Clusters of (group of spreads, class of tilings) pairs in the coarse bounds."""


class Tables:
    """Spreads, inner tilings and outer segments of one problem.

    Args:
        problem: The problem.
        roomiest: Per level the largest capacity of interest [bytes]; tilings beyond are never listed.
    """

    def __init__(self, problem: Problem, roomiest: Sequence[float]) -> None:
        self.problem = problem
        self.roomiest = tuple(roomiest)
        self.spread, self.is_spread_complete = spread_table(problem, SPREAD_LIMIT)
        self.patterns = patterns(problem)
        self.below = Below(problem)
        self._outer: dict[object, tuple[OuterChain, ...]] = {}
        self._inner: dict[object, Menu] = {}
        self._sketches: dict[Pattern, Sketch] = {}
        self._clusters: dict[int, tuple[Clusters, Traffic, list[FloatArray]]] = {}
        self._clustered_parts: dict[object, Traffic] = {}
        self._direct: dict[tuple[int, int], Traffic] = {}
        self._grouped: dict[object, Traffic] = {}

    def outer(self, pattern: Pattern) -> tuple[OuterChain, ...]:
        """The orders of the outermost segment's holders under a placement."""
        held = tuple(tuple(lv for lv in levels if self.problem.segment_of[lv] == 0) for levels in pattern.levels)
        child = None if pattern.raised is None else pattern.first_inner(self.problem, pattern.raised)
        key = (held, pattern.raised, child)
        if key not in self._outer:
            self._outer[key] = outer_chains(self.problem, pattern, self.below)
        return self._outer[key]

    def inner(self, pattern: Pattern) -> Menu:
        """Tilings of the inner segments."""
        problem = self.problem
        held = tuple(tuple(lv for lv in levels if problem.segment_of[lv] > 0) for levels in pattern.levels)
        raised = None if pattern.raised is None else (pattern.raised, pattern.first_inner(problem, pattern.raised))
        if (held, raised) not in self._inner:
            self._inner[held, raised] = make_menu(problem, self._list_inner(held, raised), raised)
        return self._inner[held, raised]

    def _list_inner(
        self, held: tuple[tuple[int, ...], ...], raised: tuple[int, int] | None
    ) -> list[tuple[Tilings, ...]]:
        problem = self.problem
        per_segment: list[list[Tilings]] = []
        for segment in range(1, problem.num_fanouts + 1):
            points = [
                Point(t, lv, outlives=(t, lv) == raised)
                for t, levels in enumerate(held)
                for lv in levels
                if problem.segment_of[lv] == segment
            ]
            orders = list(chains(problem, points, is_outermost=False))
            most = max(1, TILING_LIMIT // len(orders))
            listed = [tilings(problem, chain, self.roomiest, most) for chain in orders]
            per_segment.append([tiling for tiling in listed if tiling.num])
        options = list(itertools.product(*per_segment))
        return [joined(option, max(1, TILING_LIMIT // len(options))) for option in options]

    def direct(self, tensor: int, parent: int) -> Traffic:
        """Traffic of a tensor that goes from `parent` straight to the compute unit, per spread; least over tilings."""
        first = self._stand_in(tensor, parent)
        if (tensor, first) not in self._direct:
            problem = self.problem
            info = problem.tensors[tensor]
            num_levels = len(problem.hierarchy.levels)
            read: list[FloatArray | float] = [0.0] * num_levels
            write: list[FloatArray | float] = [0.0] * num_levels
            site = Site(problem.num_fanouts, [1.0] * len(problem.sizes))
            frame = make_frame(problem, self.spread.spreads, [_empty(problem)] * problem.num_fanouts)
            width = parent_width(problem, info, frame, site, first)
            charge(problem, info, frame, site, first, None, info.elements, read, write, (width, 0.0))
            self._direct[tensor, first] = Traffic(read, write, [1.0] * num_levels, 0.0)
        return self._direct[tensor, first].moved(first, parent)

    def _stand_in(self, tensor: int, level: int) -> int:
        """The outermost level through which a tensor moves as it does through a level.

        That of its segment, but for outputs whose sums are wider than they: levels differ in what they hold.
        """
        info = self.problem.tensors[tensor]
        if info.sum_bytes != info.element_bytes:
            return level
        return self.problem.segment_of.index(self.problem.segment_of[level])

    def inner_chains(self, pattern: Pattern) -> list[InnerChain]:
        """What every tensor's holders are from the innermost outside the fan-outs inward."""
        problem = self.problem
        return [
            InnerChain(
                tensor=info.idx,
                parent=pattern.parent(problem, info.idx, 0),
                levels=tuple(lv for lv in pattern.levels[info.idx] if problem.segment_of[lv] > 0),
                is_raised=info.idx == pattern.raised,
            )
            for info in problem.tensors
        ]

    def grouped_direct(self, tensor: int, parent: int) -> Traffic:
        """`direct`, the least over each group of spreads."""
        first = self._stand_in(tensor, parent)
        key = (tensor, first)
        if key not in self._grouped:
            self._grouped[key] = self._least_by_group(self.direct(tensor, first))
        return self._grouped[key].moved(first, parent)

    def grouped_kept(self, menu: Menu, chain: InnerChain) -> Traffic:
        """Least traffic of a tensor kept below a fan-out, over (group of spreads, largest class of tilings)."""
        first = replace(chain, parent=self._stand_in(chain.tensor, chain.parent))
        key = (id(menu), first)
        if key not in self._grouped:
            if any((chain.tensor, level) in menu.windows for level in chain.levels):
                every = np.arange(self.spread.num)
                kept = kept_traffic(self, menu, every, menu.largest, first)
                kept = self._least_by_group(kept.broadcast_counts((self.spread.num, len(menu.largest))))
            else:
                # Only what reaches the compute unit differs within a group.
                order, starts = self.group_order
                last = column_of(self.grouped_direct(chain.tensor, chain.levels[-1]), np.arange(len(starts)))
                kept = kept_traffic(self, menu, order[starts], menu.largest, first, last)
            self._grouped[key] = kept
        return self._grouped[key].moved(first.parent, chain.parent)

    def sketch(self, pattern: Pattern, menu: Menu) -> Sketch:
        """Coarse bounds on what a pattern moves below the outermost segment."""
        if pattern not in self._sketches:
            chains = self.inner_chains(pattern)
            clusters, total, steps = self._clusters_of(menu, chains)
            for chain in chains:
                total = total.plus(self._clustered(menu, chain))
            self._sketches[pattern] = Sketch(total, steps, clusters.holds)
        return self._sketches[pattern]

    def _clusters_of(self, menu: Menu, chains: Sequence[InnerChain]) -> tuple[Clusters, Traffic, list[FloatArray]]:
        """Clusters of one menu, their instances and steps, and their least steps outside the fan-outs."""
        key = id(menu)
        if key not in self._clusters:
            order, starts = self.group_order
            # Spreads of a group have equal products over every class of dims.
            steps = outer_steps(self, menu, order[starts], menu.largest)
            parts = [self._grouped_part(menu, chain) for chain in chains]
            neutral = self._per_group()
            values = [v for part in parts for v in (*part.read, *part.write)]
            clusters = make_clusters([*values, neutral.steps, *steps], (len(starts), len(menu.largest)), CLUSTERS)
            least = [np.asarray(clusters.least(v)) for v in steps]
            self._clusters[key] = clusters, clusters.least_traffic(neutral), least
        return self._clusters[key]

    def _clustered(self, menu: Menu, chain: InnerChain) -> Traffic:
        first = replace(chain, parent=self._stand_in(chain.tensor, chain.parent))
        key = (id(menu), first)
        if key not in self._clustered_parts:
            clusters, _, _ = self._clusters[id(menu)]
            self._clustered_parts[key] = clusters.least_traffic(self._grouped_part(menu, first))
        return self._clustered_parts[key].moved(first.parent, chain.parent)

    def _grouped_part(self, menu: Menu, chain: InnerChain) -> Traffic:
        if chain.levels:
            return self.grouped_kept(menu, chain)
        return column_of(self.grouped_direct(chain.tensor, chain.parent), np.arange(len(self.group_steps)))

    @cached_property
    def outline(self) -> Outline:
        """The sketches of all patterns together."""
        problem = self.problem
        groups = problem.dim_classes
        inner: list[Traffic] = []
        whole: list[Traffic] = []
        owners: list[int] = []
        sizes: list[int] = []
        is_complete = True
        for idx, pattern in enumerate(self.patterns):
            if pattern.raised is not None and not self.inner(replace(pattern, raised=None)).is_complete:
                continue  # a space too large to be covered anyway
            menu = self.inner(pattern)
            is_complete = is_complete and menu.is_complete
            if not menu.num:
                continue
            sketch = self.sketch(pattern, menu)
            num = len(sketch.holds)
            total = sketch.traffic.plus(compulsory(problem, pattern))
            alternatives = [total]
            if pattern.raised is not None:
                again = fetched_again(problem, pattern, groups, sketch.steps)
                alternatives = [total.plus(more) for more in again]
            for alternative in alternatives:
                whole.append(alternative)
                inner.append(sketch.traffic)
                owners.append(idx)
                sizes.append(num)
        # The sketches hold all that is still needed of these.
        self._grouped.clear()
        self._clusters.clear()
        self._clustered_parts.clear()
        if not owners:
            nothing = Traffic([], [], [], 0.0)
            return Outline(np.zeros(0, dtype=np.intp), nothing, nothing, is_complete)
        owner = np.repeat(np.array(owners), sizes)
        return Outline(owner, joined_traffic(inner, sizes), joined_traffic(whole, sizes), is_complete)

    def _per_group(self) -> Traffic:
        """No traffic, with the steps and instances of every group of spreads as columns."""
        num_levels = len(self.problem.hierarchy.levels)
        instances: list[FloatArray | float] = [
            x[:, None] if isinstance(x, np.ndarray) else x for x in self.group_instances
        ]
        return Traffic([0.0] * num_levels, [0.0] * num_levels, instances, self.group_steps[:, None])

    def _least_by_group(self, traffic: Traffic) -> Traffic:
        order, starts = self.group_order

        def least(values: Sequence[FloatArray | float]) -> list[FloatArray | float]:
            return [
                np.minimum.reduceat(v[order], starts, axis=0)
                if isinstance(v, np.ndarray) and v.shape[:1] == order.shape
                else v
                for v in values
            ]

        return Traffic(least(traffic.read), least(traffic.write), traffic.instances, traffic.steps)

    @cached_property
    def group_order(self) -> tuple[IntArray, IntArray]:
        """Spreads sorted by group, and where each group starts.

        A group has equal products of factors over every class of dims: its spreads are alike to the
        tensors, but for whole numbers and windows.
        """
        products = [
            np.prod([factors[d] for d in dims], axis=0)
            for spread in self.spread.spreads
            for factors in (spread.every, spread.multicast, spread.reduction)
            for dims in self.problem.dim_classes
        ]
        if not products:
            return np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp)
        _, inverse = distinct(np.stack(products))
        order = np.argsort(inverse, kind="stable")
        return order, np.searchsorted(inverse[order], np.arange(int(inverse.max()) + 1))

    @cached_property
    def group_steps(self) -> FloatArray:
        """Least steps per group."""
        order, starts = self.group_order
        return np.minimum.reduceat(self.steps[order], starts)

    @cached_property
    def group_instances(self) -> list[FloatArray | float]:
        """Instances in use of every level per group."""
        order, starts = self.group_order
        return [x[order][starts] if isinstance(x, np.ndarray) else x for x in self.instances]

    def members(self, groups: IntArray) -> IntArray:
        """Spreads of some groups, ascending."""
        order, starts = self.group_order
        ends = np.append(starts[1:], len(order))
        return np.sort(np.concatenate([order[starts[g] : ends[g]] for g in groups]))

    @cached_property
    def steps(self) -> FloatArray:
        """Least steps per spread."""
        total = np.ones(self.spread.num)
        for dim, size in enumerate(self.problem.sizes):
            factor = np.ones(self.spread.num)
            for spread in self.spread.spreads:
                factor = factor * spread.every[dim]
            total = total * np.ceil(size / factor)
        return total

    @cached_property
    def instances(self) -> list[FloatArray | float]:
        """Instances in use of every level per spread."""
        return [self._used(segment) for segment in self.problem.segment_of]

    @cached_property
    def num_used(self) -> FloatArray:
        """Compute units in use per spread."""
        return np.ones(self.spread.num) * self._used(self.problem.num_fanouts)

    def _used(self, num_fanouts: int) -> FloatArray | float:
        total: FloatArray | float = 1.0
        for spread in self.spread.spreads[:num_fanouts]:
            for factor in spread.every:
                total = total * factor
        return total


def _empty(problem: Problem) -> Tilings:
    ones = tuple(np.ones(1, dtype=np.int32) for _ in problem.sizes)
    return Tilings(Chain((), ()), ones, (), 1, is_complete=True)


def patterns(problem: Problem) -> list[Pattern]:
    """All choices of which levels keep which tensors that hardware and user allow."""
    constraints = problem.constraints
    per_tensor: list[list[tuple[int, ...]]] = []
    for info in problem.tensors:
        role, name = info.tensor.role, info.tensor.name
        inner_levels = list(enumerate(problem.hierarchy.levels))[1:]
        may = [idx for idx, lv in inner_levels if role in lv.keeps and (lv.name, name) not in constraints.bypass]
        must = {idx for idx, lv in inner_levels if role in lv.must_keep or (lv.name, name) in constraints.keep}
        choices = [
            (0, *(idx for idx, kept in zip(may, flags, strict=True) if kept))
            for flags in itertools.product((True, False), repeat=len(may))
        ]
        per_tensor.append([levels for levels in choices if must <= set(levels)])
    found = [Pattern(levels=levels) for levels in itertools.product(*per_tensor)]
    found = [pattern for pattern in found if _is_stationary(problem, pattern)]
    return found + [raised for pattern in found for raised in _raised(problem, pattern)]


def _raised(problem: Problem, pattern: Pattern) -> Iterator[Pattern]:
    """The pattern with each tensor raised that can be.

    Of several at once none but one does anything: below a raised holder only dims that do not index its tensor are
    looped over outside the fan-outs, and hardly ever does a dim index neither of two tensors. Sums that are kept
    at several levels below the fan-outs are not raised.
    """
    for info in problem.tensors:
        inner = [level for level in pattern.levels[info.idx] if problem.segment_of[level] > 0]
        if inner and info.unrelated and (len(inner) == 1 or not info.is_output):
            yield replace(pattern, raised=info.idx)


def _is_stationary(problem: Problem, pattern: Pattern) -> bool:
    """Whether the innermost memories hold the stationary tensor and no other, where the user names one."""
    wanted = problem.constraints.stationary
    if wanted is None:
        return True
    memories = problem.segment_of[: problem.latch]
    innermost = {level for level, segment in enumerate(memories) if segment == max(memories)}
    return all(
        bool(innermost & set(pattern.levels[info.idx])) == (info.tensor.name == wanted) for info in problem.tensors
    )
