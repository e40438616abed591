"""The cheapest way to serve a rate of requests within limits: a search over layouts and numbers of replicas.

All layouts at all batches are one batch of kernels. Requests arrive at random, and each replica gets its share of them: how
many it serves at once follows from that (`open_loop`). The search is exhaustive over its layouts: of each the fewest replicas
that hold the limits are found, which is a bisection, since fewer arrivals make nothing slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...archdsl import Infeasible, ModelError, counted
from ..gpu.times import Floats, Ints
from .arrivals import ArrivalColumns, ArrivalPrices, memory_slots
from .batch_curves import MAX_USERS, price_batches
from .memory import memory_shortage
from .open_loop import Flags
from .parallel import Layout, layouts_of, possible_layouts
from .service import Service, require_context
from .serving import ServeEstimate, estimate_at, serve_columns

ConstraintName = Literal["memory", "ttft", "tpot", "rate"]
NO_INSTANCES = 1 << 40
"""Stands for instances without number, where a layout cannot hold the limits."""
LOADS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)
"""Shares of its capacity at which each layout is shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a plan must hold.

    Attributes:
        requests_per_s: Rate of requests, arriving at random.
        ttft_s: Most time to first token, waits included; None for any.
        tpot_s: Most time per output token; None for any.
    """

    requests_per_s: float
    ttft_s: float | None = None
    tpot_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rate", self.requests_per_s), ("ttft", self.ttft_s), ("tpot", self.tpot_s)):
            if value is not None and not (value > 0 and math.isfinite(value)):
                raise ModelError(f"{name} {value:g} is not a number above 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPoints:
    """Layouts at some of the rates that they sustain, as columns `[n]`.

    Attributes:
        columns: The service at each point.
        fits: Whether a chip's memory holds it.
        holds: Whether it holds the limits as well.
    """

    columns: ArrivalColumns
    fits: Flags
    holds: Flags


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cheapest plan.

    Attributes:
        points: What the trade-off looks like; the last one is the plan.
        replicas: Instances.
        num_chips: Chips of all of them.
        estimate: One instance, at its share of the rate.
        binding: Limits without which fewer chips would do; `rate` when none of the others does.
    """

    points: PlanPoints
    replicas: int
    num_chips: int
    estimate: ServeEstimate
    binding: tuple[ConstraintName, ...]

    @property
    def best(self) -> int:
        """Index of the plan among the points."""
        return len(self.points.fits) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSearch:
    """Layouts, priced for any number of replicas.

    Attributes:
        limits: What must hold.
        prices: The layouts, each with as many sequences as its memory holds.
        unlimited: The same as if memory held any number.
        fits: Whether a chip's memory holds a sequence `[n]`.
    """

    limits: Limits
    prices: ArrivalPrices
    unlimited: ArrivalPrices
    fits: Flags

    @property
    def num_layouts(self) -> int:
        """Layouts that are searched."""
        return len(self.fits)

    def at(self, rows: Ints, replicas: Ints, without: Collection[ConstraintName] = ()) -> ArrivalColumns:
        """Layouts with some replicas `[p]`, each with its share of the rate."""
        prices = self.unlimited if "memory" in without else self.prices
        return prices.at_rate(rows, self.limits.requests_per_s / replicas)

    def holds(self, columns: ArrivalColumns, without: Collection[ConstraintName] = ()) -> Flags:
        """Which hold everything but some limits."""
        limits = self.limits
        found = columns.loop.is_stable & np.isfinite(columns.ttft_s)
        if "memory" not in without:
            found = found & self.fits[columns.rows]
        if "ttft" not in without and limits.ttft_s is not None:
            found = found & (columns.ttft_s <= limits.ttft_s)
        if "tpot" not in without and limits.tpot_s is not None:
            found = found & (columns.tpot_s <= limits.tpot_s)
        return found

    def replicas(self) -> Ints:
        """The fewest replicas of each layout that hold `[n]`, `NO_INSTANCES` where no number does."""
        rows = np.arange(self.num_layouts, dtype=np.int64)
        capacity = self.prices.capacity_per_s
        at_least = np.minimum(NO_INSTANCES, np.ceil(self.limits.requests_per_s / capacity))
        high = np.maximum(1, at_least.astype(np.int64))
        low = high - 1
        is_possible = self.holds(self.at(rows, np.full_like(high, NO_INSTANCES)))
        while True:
            short = is_possible & ~self.holds(self.at(rows, high))
            if not short.any():
                break
            low = np.where(short, high, low)
            high = np.where(short, np.minimum(NO_INSTANCES, 2 * high), high)
        while (is_open := is_possible & (high - low > 1)).any():
            middle = np.where(is_open, (low + high) // 2, high)
            good = self.holds(self.at(rows, middle))
            high, low = np.where(is_open & good, middle, high), np.where(is_open & ~good, middle, low)
        return np.where(is_possible, high, NO_INSTANCES).astype(np.int64)

    def would_save(self, names: Collection[ConstraintName], most: Ints) -> bool:
        """Whether some layout holds everything but some limits with at most so many replicas `[n]`."""
        rows = np.flatnonzero(most >= 1).astype(np.int64)
        return bool(len(rows)) and bool(self.holds(self.at(rows, most[rows], names), names).any())

    def points(self, best: int, replicas: int) -> PlanPoints:
        """All layouts at some loads, then the plan."""
        rows = np.repeat(np.flatnonzero(self.fits), len(LOADS)).astype(np.int64)
        rates = np.tile(LOADS, int(self.fits.sum())) * self.prices.capacity_per_s[rows]
        plan_rate = self.limits.requests_per_s / replicas
        shown = np.flatnonzero(self.prices.at_rate(rows, rates).loop.is_stable)
        columns = self.prices.at_rate(np.append(rows[shown], best).astype(np.int64), np.append(rates[shown], plan_rate))
        return PlanPoints(columns=columns, fits=self.fits[columns.rows], holds=self.holds(columns))


def search_rates(service: Service, limits: Limits, layouts: Sequence[Layout]) -> RateSearch:
    """Price layouts for any number of replicas.

    Raises:
        ModelError: Prompt and answer are longer than the model's context, or the chip lacks a datatype.
    """
    require_context(service)
    columns = layouts_of(list(layouts))
    memory = service.memory(columns)
    priced = price_batches(service.timer, columns, service.engine, service.traffic)

    def prices(slots: Floats) -> ArrivalPrices:
        return ArrivalPrices(service=service, layouts=columns, memory=memory, curves=priced.curves(slots))

    slots = memory_slots(memory, columns)
    return RateSearch(
        limits=limits,
        prices=prices(slots),
        unlimited=prices(np.full_like(slots, MAX_USERS)),
        fits=slots >= 1,
    )


def make_plan(service: Service, limits: Limits, layouts: Sequence[Layout] | None = None) -> Plan | Infeasible:
    """The plan with the fewest chips that holds; of equal ones, the one with the least time per output token.

    Args:
        service: What is served.
        limits: What must hold.
        layouts: Layouts to try; all of powers of two when left out.

    Raises:
        ModelError: The model cannot be laid out on the system at all, or the chip lacks a datatype.
    """
    tried = list(layouts) if layouts is not None else possible_layouts(service.model, service.fabric.num_chips)
    if not tried:
        raise ModelError(f"{service.model.name} cannot be laid out on {service.fabric.name}")
    search = search_rates(service, limits, tried)
    replicas = search.replicas()
    chips = replicas * search.prices.layouts.num_chips
    available = np.flatnonzero(chips <= service.fabric.num_chips).astype(np.int64)
    if not len(available):
        return _why_not(service, search, replicas, int(chips.min()))
    columns = search.at(available, replicas[available])
    first = int(np.lexsort((columns.tpot_s, chips[available]))[0])
    best = int(available[first])
    num_chips = int(chips[best])
    return Plan(
        points=search.points(best, int(replicas[best])),
        replicas=int(replicas[best]),
        num_chips=num_chips,
        estimate=planned_estimate(columns, first),
        binding=binding_of(search, (num_chips - 1) // search.prices.layouts.num_chips),
    )


def planned_estimate(columns: ArrivalColumns, idx: int) -> ServeEstimate:
    """An instance at its rate, and at a fixed concurrency of as many users as it serves in the mean."""
    layouts = columns.layouts.take(np.array([idx]))
    slots = float(columns.slots[idx])
    most = float(columns.curves.slots[columns.rows[idx]]) * slots
    users = np.array([min(most, max(1.0, math.ceil(float(columns.requests[idx]) - 1e-9)))])
    return estimate_at(serve_columns(columns.service, layouts, users), 0, columns.estimate_at(idx))


def binding_of(search: RateSearch, most: Ints) -> tuple[ConstraintName, ...]:
    """Limits whose absence would save chips: with at most so many replicas of each layout `[n]`."""
    return binding_names(lambda names: search.would_save(names, most))


def binding_names(would_save: Callable[[Collection[ConstraintName]], bool]) -> tuple[ConstraintName, ...]:
    """Limits each of which costs chips; where only some together do, those; `rate` where none do."""
    limits: tuple[ConstraintName, ...] = ("memory", "ttft", "tpot")
    found: tuple[ConstraintName, ...] = tuple(name for name in limits if would_save((name,)))
    if found:
        return found
    together: tuple[tuple[ConstraintName, ...], ...] = (
        ("ttft", "tpot"),
        ("memory", "ttft"),
        ("memory", "tpot"),
        limits,
    )
    for names in together:
        if would_save(names):
            return names
    return ("rate",)


def _why_not(service: Service, search: RateSearch, replicas: Ints, least: int) -> Infeasible:
    """The first of memory, times and chips that nothing holds, with how far the best layout is from it."""
    fabric, prices = service.fabric, search.prices
    if not search.fits.any():
        needed = prices.memory.needed(prices.layouts.pp.astype(np.float64))
        nearest = int(np.argmin(needed))
        layout = prices.layouts.at(nearest)
        short = memory_shortage(service.model, fabric, layout, prices.memory, float(layout.pp), nearest)
        assert short is not None
        return short
    if (replicas >= NO_INSTANCES).all():
        return _too_slow(service, search)
    return Infeasible(
        resource=f"chips of {fabric.name}",
        demand=least,
        limit=fabric.num_chips,
        unit="chips",
        levers=(f"a system of {counted(least, 'chips')}", "a lower --rate, or wider limits in --slo"),
        op=service.model.name,
    )


def _too_slow(service: Service, search: RateSearch) -> Infeasible:
    """Times without any load are the least that there are."""
    limits = search.limits
    rows = np.flatnonzero(search.fits).astype(np.int64)
    idle = search.at(rows, np.full_like(rows, NO_INSTANCES))
    holds_ttft = np.full(len(rows), True) if limits.ttft_s is None else idle.ttft_s <= limits.ttft_s
    holds_tpot = np.full(len(rows), True) if limits.tpot_s is None else idle.tpot_s <= limits.tpot_s
    if limits.ttft_s is not None and not holds_ttft.any():
        name, times, limit_s = "TTFT", idle.ttft_s, limits.ttft_s
        allowed = holds_tpot if holds_tpot.any() else ~holds_tpot
    else:
        assert limits.tpot_s is not None
        name, times, limit_s, allowed = "TPOT", idle.tpot_s, limits.tpot_s, holds_ttft
    candidates = np.flatnonzero(allowed)
    nearest = int(candidates[np.argmin(times[candidates])])
    return Infeasible(
        resource=f"{name}, least of all layouts without load ({idle.layouts.at(nearest)})",
        demand=_microseconds(times[nearest]),
        limit=_microseconds(limit_s),
        unit="us",
        levers=(f"a limit of {1e3 * float(times[nearest]):.3g} ms", "fewer bits: --quantisation, --kv", "faster chips"),
        op=service.model.name,
    )


def _microseconds(seconds: Floats | float) -> int:
    return int(np.ceil(1e6 * float(seconds)))
