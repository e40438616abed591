"""Coarse bounds that no capacity outside the fan-outs, bandwidth or energy changes: listed once, priced often.

Thousands of pairs of spread and class of tilings are put into a few clusters of much alike traffic. A cluster
moves at least the least of its members, by level and direction, and one look at it often rules out all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...models import compiled
from .inner import Pattern
from .objective import Traffic
from .problem import FloatArray, IntArray, Problem
from .walk import Bools, Floats, Ints


@dataclass(frozen=True, slots=True)
class Sketch:
    """Coarse bounds on one pattern, over clusters of (group of spreads, class of tilings).

    Attributes:
        traffic: The least traffic below the outermost segment, and the most instances.
        steps: Per class of dims the least steps outside the fan-outs.
        holds: See `Clusters`.
    """

    traffic: Traffic
    steps: list[FloatArray]
    holds: Bools


@dataclass(frozen=True, slots=True)
class Outline:
    """The sketches of all patterns end to end.

    Attributes:
        owner: The pattern of each entry; a raised pattern has its clusters once for each tensor that it can outlive,
            and patterns of which nothing fits have none.
        inner: Least traffic below the outermost segment.
        whole: The same with what the outermost segment moves at least.
        is_complete: False when tilings below the fan-outs were too many to be listed.
    """

    owner: IntArray
    inner: Traffic
    whole: Traffic
    is_complete: bool


@dataclass(frozen=True, slots=True)
class Clusters:
    """(group of spreads, class of tilings) pairs, sorted into clusters.

    Attributes:
        shape: Groups of spreads, and classes of tilings.
        order: Pairs by cluster.
        starts: Where each cluster begins in `order`.
        holds: [clusters, groups of spreads] whether some pair of the group is in the cluster.
    """

    shape: tuple[int, int]
    order: IntArray
    starts: IntArray
    holds: Bools

    def least(self, values: FloatArray | float) -> FloatArray | float:
        """The least of each cluster; `values` are broadcastable to `shape`."""
        return np.minimum.reduceat(self._ordered(values), self.starts) if isinstance(values, np.ndarray) else values

    def most(self, values: FloatArray | float) -> FloatArray | float:
        """The most of each cluster."""
        return np.maximum.reduceat(self._ordered(values), self.starts) if isinstance(values, np.ndarray) else values

    def least_traffic(self, traffic: Traffic) -> Traffic:
        """The least reads, writes and steps, and the most instances, of each cluster."""
        return Traffic(
            [self.least(v) for v in traffic.read],
            [self.least(v) for v in traffic.write],
            [self.most(v) for v in traffic.instances],
            self.least(traffic.steps),
        )

    def _ordered(self, values: FloatArray) -> FloatArray:
        return np.broadcast_to(values, self.shape).reshape(-1)[self.order]


def make_clusters(values: Sequence[FloatArray | float], shape: tuple[int, int], most: int) -> Clusters:
    """Clusters pairs that are alike by ratio in every one of some values, each broadcastable to `shape`."""
    flat = [np.broadcast_to(v, shape).reshape(-1) for v in values if isinstance(v, np.ndarray)]
    flat = [column for column in flat if column.min() != column.max()]
    order = np.arange(shape[0] * shape[1])
    starts = np.zeros(most, dtype=np.int64)
    num = cluster(np.log(np.maximum(np.stack(flat, axis=1), 1e-3)), order, starts) if flat else 1
    starts = starts[:num]
    holds = np.zeros((num, shape[0]), dtype=np.bool_)
    holds[np.repeat(np.arange(num), np.diff(starts, append=len(order))), order // shape[1]] = True
    return Clusters(shape, order, starts, holds)


@compiled
def cluster(members: Floats, order: Ints, starts: Ints) -> int:
    """Splits the widest cluster in the middle of its widest column until there are enough, or all are points.

    Args:
        members: [members, columns].
        order: [members] all members; sorted by cluster.
        starts: [clusters] where each begins in `order`; as many clusters are made as it has room for.

    Returns:
        The number of clusters.
    """
    size, width = members.shape
    most = starts.shape[0]
    stops = np.zeros(most, dtype=np.int64)
    low = np.empty((most, width))
    high = np.empty((most, width))
    starts[0], stops[0] = 0, size
    _measure(members, order, 0, size, low[0], high[0])
    num = 1
    while num < most:
        at, column, widest = 0, 0, 0.0
        for k in range(num):
            for c in range(width):
                if high[k, c] - low[k, c] > widest:
                    at, column, widest = k, c, high[k, c] - low[k, c]
        if widest <= 0.0:
            break
        middle = (low[at, column] + high[at, column]) / 2
        # What lies above the middle goes to the end.
        left, right = starts[at], stops[at] - 1
        while left <= right:
            if members[order[left], column] <= middle:
                left += 1
            else:
                order[left], order[right] = order[right], order[left]
                right -= 1
        starts[num], stops[num], stops[at] = left, stops[at], left
        _measure(members, order, starts[at], stops[at], low[at], high[at])
        _measure(members, order, starts[num], stops[num], low[num], high[num])
        num += 1
    # Clusters in the order in which they lie.
    starts[:num] = np.sort(starts[:num])
    return num


@compiled
def _measure(members: Floats, order: Ints, start: int, stop: int, low: Floats, high: Floats) -> None:
    """Least and most of every column over some members."""
    low[:] = np.inf
    high[:] = -np.inf
    for i in range(start, stop):
        member = members[order[i]]
        for c in range(member.shape[0]):
            low[c] = min(low[c], member[c])
            high[c] = max(high[c], member[c])


def compulsory(problem: Problem, pattern: Pattern) -> Traffic:
    """What the outermost segment moves at the very least: every tensor once into each level that keeps it."""
    num_levels = len(problem.hierarchy.levels)
    read: list[FloatArray | float] = [0.0] * num_levels
    write: list[FloatArray | float] = [0.0] * num_levels
    for info in problem.tensors:
        levels = [lv for lv in pattern.levels[info.idx] if problem.segment_of[lv] == 0]
        amount = info.elements * info.element_bytes
        for parent, child in itertools.pairwise(levels):
            if info.is_output:
                write[parent] += amount
            else:
                read[parent] += amount
                write[child] += amount
    return Traffic(read, write, [1.0] * num_levels, 0.0)


def fetched_again(
    problem: Problem, pattern: Pattern, groups: Sequence[tuple[int, ...]], steps: Sequence[FloatArray | float]
) -> Iterator[Traffic]:
    """What moves beyond `compulsory` in a pattern with a raised holder.

    From the raised holder inward, dims that index its tensor keep the extents that they have at the fan-outs, so that
    some tensor held there is fetched again at each of their steps that does not index it. Which tensor that is
    is open: the traffic for each that it can be.

    Args:
        problem: The problem.
        pattern: The pattern.
        groups: Dims, those that index the same tensors together.
        steps: Per group the steps of its dims outside the fan-outs, at least.
    """
    assert pattern.raised is not None
    related = problem.tensors[pattern.raised].related
    num_levels = len(problem.hierarchy.levels)
    for info in problem.tensors:
        held = [level for level in pattern.levels[info.idx] if problem.segment_of[level] == 0]
        if info.idx == pattern.raised or len(held) == 1:
            continue
        times: FloatArray | float = 1.0
        for dims, number in zip(groups, steps, strict=True):
            if dims[0] in related and dims[0] not in info.related:
                times = times * number
        amount = (times - 1.0) * (info.elements * info.element_bytes)
        read: list[FloatArray | float] = [0.0] * num_levels
        write: list[FloatArray | float] = [0.0] * num_levels
        parent, child = held[-2:]
        if info.is_output:
            write[parent], read[child] = amount, amount
        read[parent], write[child] = amount, amount
        yield Traffic(read, write, [1.0] * num_levels, 0.0)
