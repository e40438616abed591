"""The cheapest way to serve with attention on GPUs and feed-forward networks on chips of another kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ...archdsl import Infeasible, ModelError
from ..gpu.times import Ints
from .heterogeneous import FeedForwardPool, pool_shortage
from .parallel import Layout, possible_layouts
from .plan import ConstraintName, Limits, RateSearch, binding_names, planned_estimate, search_rates
from .service import Service
from .serving import ServeEstimate

MICRO_BATCHES: Final = (1, 2, 4)
"""Parts of a batch that are tried."""
MAX_SIZES: Final = 3
"""Numbers of other chips per instance that are tried: all that there are, and halves of it, while they hold the weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    """The cheapest plan with feed-forward networks on other chips.

    Attributes:
        replicas: Instances.
        num_gpus: GPUs of all of them.
        pool: Other chips of one instance.
        estimate: One instance.
        binding: Limits without which fewer chips would do; `rate` when none of the others does.
    """

    replicas: int
    num_gpus: int
    pool: FeedForwardPool
    estimate: ServeEstimate
    binding: tuple[ConstraintName, ...]

    @property
    def num_others(self) -> int:
        """Other chips of all instances."""
        return self.replicas * self.pool.num_chips

    @property
    def num_chips(self) -> int:
        """Chips of both kinds."""
        return self.num_gpus + self.num_others


def plan_split(
    service: Service, limits: Limits, pool: FeedForwardPool, layouts: Sequence[Layout] | None = None
) -> SplitPlan | Infeasible:
    """The plan with the fewest chips of both kinds that holds; of equal ones, the one with the least time per output token.

    Layers are divided over all other chips of an instance: exchanges among those are not modelled, so fewer are never faster.

    Args:
        service: What is served.
        limits: What must hold.
        pool: The other chips that there are; its micro-batches and chips per layer are searched.
        layouts: Layouts of the GPUs to try; all of powers of two when left out.

    Raises:
        ModelError: The model cannot be laid out on the system at all, or a chip lacks a datatype.
    """
    tried = list(layouts) if layouts is not None else possible_layouts(service.model, service.fabric.num_chips)
    if not tried:
        raise ModelError(f"{service.model.name} cannot be laid out on {service.fabric.name}")
    short = pool_shortage(service.model, service.numerics, pool)
    if short is not None:
        return short
    tries = list(_tries(service, limits, pool, tried))
    best = min((found for one in tries if (found := one.cheapest()) is not None), default=None)
    if best is None:
        return _why_not(service, pool)
    num_chips, _, idx, row = best
    chosen = tries[idx]
    replicas = chosen.replicas[[row]]
    columns = chosen.search.at(np.array([row]), replicas)
    return SplitPlan(
        replicas=int(replicas[0]),
        num_gpus=int(replicas[0] * columns.layouts.num_chips[0]),
        pool=chosen.pool,
        estimate=planned_estimate(columns, 0),
        binding=_binding(tries, num_chips),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Try:
    """All layouts with one number of other chips per instance and one cut of the batch.

    Attributes:
        idx: Which try.
        pool: Other chips of an instance.
        search: The layouts.
        replicas: The fewest of each layout that hold.
        most: The most of each layout for which there are chips of both kinds.
    """

    idx: int
    pool: FeedForwardPool
    search: RateSearch
    replicas: Ints
    most: Ints

    @property
    def chips_per_replica(self) -> Ints:
        """Chips of both kinds of one instance of each layout."""
        return self.search.prices.layouts.num_chips + self.pool.num_chips

    def cheapest(self) -> tuple[int, float, int, int] | None:
        """Chips, time per output token [s], the try and the layout; None where nothing holds."""
        rows = np.flatnonzero(self.replicas <= self.most).astype(np.int64)
        if not len(rows):
            return None
        chips = (self.replicas * self.chips_per_replica)[rows]
        tpot_s = self.search.at(rows, self.replicas[rows]).tpot_s
        first = int(np.lexsort((tpot_s, chips))[0])
        return int(chips[first]), float(tpot_s[first]), self.idx, int(rows[first])


def _tries(service: Service, limits: Limits, pool: FeedForwardPool, layouts: Sequence[Layout]) -> Iterator[_Try]:
    cuts = [(size, parts) for size in _sizes(service, pool) for parts in MICRO_BATCHES]
    for idx, (size, parts) in enumerate(cuts):
        one = replace(pool, num_chips=size, chips_per_layer=size, micro_batches=parts)
        search = search_rates(replace(service, feed_forward=one), limits, layouts)
        most = np.minimum(service.fabric.num_chips // search.prices.layouts.num_chips, pool.num_chips // size)
        yield _Try(idx=idx, pool=one, search=search, replicas=search.replicas(), most=most)


def _binding(tries: Sequence[_Try], num_chips: int) -> tuple[ConstraintName, ...]:
    """Limits whose absence would save chips."""
    return binding_names(
        lambda names: any(
            one.search.would_save(names, np.minimum(one.most, (num_chips - 1) // one.chips_per_replica))
            for one in tries
        )
    )


def _why_not(service: Service, pool: FeedForwardPool) -> Infeasible:
    there = service.fabric.num_chips + pool.num_chips
    return Infeasible(
        resource=f"{service.fabric.name} and {pool.num_chips} {pool.name} for feed-forward networks",
        demand=there + 1,
        limit=there,
        unit="chips",
        levers=("more chips of both kinds", "a faster --ffn-link", "a lower --rate, or wider limits in --slo"),
        op=service.model.name,
    )


def _sizes(service: Service, pool: FeedForwardPool) -> Iterator[int]:
    """Numbers of other chips per instance that hold the weights, the largest first."""
    size = pool.num_chips
    for _ in range(MAX_SIZES):
        if size < 1 or pool_shortage(service.model, service.numerics, replace(pool, num_chips=size, chips_per_layer=1)):
            return
        yield size
        size //= 2
