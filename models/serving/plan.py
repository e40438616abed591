"""The cheapest way to serve a rate of requests within limits: a search over layouts, batches and replicas.

All layouts at all batches are one batch of kernels. A point is one instance at fixed concurrency; it is used at the rate
that this concurrency sustains, by as many replicas as the wanted rate needs. The search is exhaustive over its space.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ...archdsl import Infeasible, ModelError
from ..gpu.times import Floats, Ints
from .memory import memory_shortage
from .parallel import Layout, layouts_of, possible_layouts
from .serving import (
    ServeEstimate,
    Service,
    ServiceColumns,
    estimate_at,
    require_context,
    sequences_in_cache,
    serve_columns,
)

Flags = npt.NDArray[np.bool_]
ConstraintName = Literal["memory", "ttft", "tpot", "rate"]
MAX_USERS = 4096
"""Most users of an attention group and pipeline slot that are tried."""


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
    """Everything that was tried, as columns `[n]`.

    Attributes:
        columns: The service at each point.
        fits: Whether a chip's memory holds it.
        holds_ttft: Whether it holds the limit on the time to first token.
        holds_tpot: Whether it holds the limit on the time per output token.
        replicas: Instances that the rate needs.
        num_chips: Chips of all replicas.
    """

    columns: ServiceColumns
    fits: Flags
    holds_ttft: Flags
    holds_tpot: Flags
    replicas: Ints
    num_chips: Ints

    @property
    def holds(self) -> Flags:
        """Whether it holds everything but the number of chips that there are."""
        return self.fits & self.holds_ttft & self.holds_tpot


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cheapest plan.

    Attributes:
        points: Everything that was tried.
        best: Index of the plan among them.
        replicas: Instances.
        num_chips: Chips of all of them.
        estimate: One instance.
        binding: Limits without which fewer chips would do; `rate` when none of the others does.
    """

    points: PlanPoints
    best: int
    replicas: int
    num_chips: int
    estimate: ServeEstimate
    binding: tuple[ConstraintName, ...]


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
    points = price_points(service, limits, tried)
    available = points.num_chips <= service.fabric.num_chips
    best = _cheapest(points, points.holds & available)
    if best is None:
        return _why_not(service, limits, points)
    return Plan(
        points=points,
        best=best,
        replicas=int(points.replicas[best]),
        num_chips=int(points.num_chips[best]),
        estimate=estimate_at(points.columns, best),
        binding=_binding(points, available, int(points.num_chips[best])),
    )


def price_points(service: Service, limits: Limits, layouts: Sequence[Layout]) -> PlanPoints:
    """All layouts at all batches.

    Raises:
        ModelError: Prompt and answer are longer than the model's context, or the chip lacks a datatype.
    """
    require_context(service)
    users = user_counts()
    rows = np.repeat(np.arange(len(layouts)), len(users))
    repeated = layouts_of(list(layouts)).take(rows)
    per_slot = np.tile(users.astype(np.float64), len(layouts))
    columns = serve_columns(service, repeated, per_slot * repeated.dp * repeated.pp)
    needed = columns.memory.needed(sequences_in_cache(columns))
    everywhere = np.ones(len(repeated), dtype=np.bool_)
    replicas = np.maximum(1, np.ceil(limits.requests_per_s / columns.requests_per_s - 1e-9).astype(np.int64))
    return PlanPoints(
        columns=columns,
        fits=needed <= columns.memory.capacity,
        holds_ttft=everywhere if limits.ttft_s is None else columns.ttft_open_s <= limits.ttft_s,
        holds_tpot=everywhere if limits.tpot_s is None else columns.tpot_s <= limits.tpot_s,
        replicas=replicas,
        num_chips=replicas * repeated.num_chips,
    )


def user_counts() -> Ints:
    """Users per attention group and pipeline slot that are tried: steps of about a fifth, all small ones."""
    counts = {1, 2, 3, 4, 5, 6, 7, 8}
    power = 8
    while power < MAX_USERS:
        counts |= {power, power * 5 // 4, power * 3 // 2, power * 7 // 4}
        power *= 2
    return np.array(sorted({*counts, MAX_USERS}), dtype=np.int64)


def _cheapest(points: PlanPoints, allowed: Flags) -> int | None:
    """Index of the point with the fewest chips, then the least time per output token."""
    rows = np.flatnonzero(allowed)
    if not len(rows):
        return None
    order = np.lexsort((points.columns.tpot_s[rows], points.num_chips[rows]))
    return int(rows[order[0]])


def _binding(points: PlanPoints, available: Flags, num_chips: int) -> tuple[ConstraintName, ...]:
    """Limits whose absence would save chips."""
    found: list[ConstraintName] = [
        name
        for name in ("memory", "ttft", "tpot")
        if np.any(points.num_chips[available & without(points, name)] < num_chips)
    ]
    return tuple(found) or ("rate",)


def without(points: PlanPoints, name: ConstraintName) -> Flags:
    """Which points hold everything but one limit."""
    flags: dict[ConstraintName, Flags] = {
        "memory": points.fits,
        "ttft": points.holds_ttft,
        "tpot": points.holds_tpot,
    }
    return np.logical_and.reduce([flag for other, flag in flags.items() if other != name])


def _why_not(service: Service, limits: Limits, points: PlanPoints) -> Infeasible:
    """The first of memory, times and chips that nothing holds, with how far the best point is from it."""
    fabric, columns = service.fabric, points.columns
    if not points.fits.any():
        needed = columns.memory.needed(sequences_in_cache(columns))
        nearest = int(np.argmin(needed))
        sequences = float(sequences_in_cache(columns)[nearest])
        layout = columns.layouts.at(nearest)
        short = memory_shortage(service.model, fabric, layout, columns.memory, sequences, nearest)
        assert short is not None
        return short
    if not points.holds.any():
        return _too_slow(service, limits, points)
    least = int(points.num_chips[points.holds].min())
    return Infeasible(
        resource=f"chips of {fabric.name}",
        demand=least,
        limit=fabric.num_chips,
        unit="chips",
        levers=(f"a system of {least} chips", "a lower --rate, or wider limits in --slo"),
        op=service.model.name,
    )


def _too_slow(service: Service, limits: Limits, points: PlanPoints) -> Infeasible:
    fits = points.fits
    name, times, limit_s = "TPOT", points.columns.tpot_s, limits.tpot_s
    allowed = fits & points.holds_ttft
    if limits.ttft_s is not None and not (fits & points.holds_ttft).any():
        name, times, limit_s = "TTFT", points.columns.ttft_open_s, limits.ttft_s
        allowed = fits & points.holds_tpot if (fits & points.holds_tpot).any() else fits
    assert limit_s is not None
    rows = np.flatnonzero(allowed)
    nearest = int(rows[np.argmin(times[rows])])
    layout = points.columns.layouts.at(nearest)
    return Infeasible(
        resource=f"{name}, least of all layouts and batches ({layout})",
        demand=_microseconds(times[nearest]),
        limit=_microseconds(limit_s),
        unit="us",
        levers=(f"a limit of {1e3 * float(times[nearest]):.3g} ms", "fewer bits: --quantisation, --kv", "faster chips"),
        op=service.model.name,
    )


def _microseconds(seconds: Floats | float) -> int:
    return int(np.ceil(1e6 * float(seconds)))
