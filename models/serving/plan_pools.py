"""The cheapest way to serve a rate of requests with prompts on instances of their own.

Both sides are searched over all layouts at once: those for prompts by how many of them a queue needs, those that decode by
the batch at which one of them yields most. The pair with the fewest chips is then estimated as `serve_disaggregated` does,
the way of the cache between them included.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ...archdsl import Infeasible, InfeasibleError, ModelError, counted
from ..gpu.times import Floats, Ints
from .batch_curves import user_counts
from .disaggregated import DisaggregatedEstimate, Pools, decode_parts_s, prompt_times_s, serve_disaggregated
from .parallel import Layout, layouts_of, possible_layouts
from .plan import NO_INSTANCES, ConstraintName, Limits, binding_names
from .service import Service, require_context
from .steps import total_of

MAX_TRIES = 8
"""Pairs that are estimated at most; the first one mostly holds, since only the cache's way is missing from its price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolsPlan:
    """The cheapest plan with prompts and decoding apart.

    Attributes:
        pools: Instances of both kinds.
        estimate: Both at the rate that was asked for.
        binding: Limits without which fewer chips would do; `rate` when none of the others does.
    """

    pools: Pools
    estimate: DisaggregatedEstimate
    binding: tuple[ConstraintName, ...]

    @property
    def num_chips(self) -> int:
        """Chips of both pools."""
        return self.pools.num_chips


def plan_pools(service: Service, limits: Limits, layouts: Sequence[Layout] | None = None) -> PoolsPlan | Infeasible:
    """The plan with the fewest chips that holds, prompts and decoding apart.

    Args:
        service: What is served.
        limits: What must hold.
        layouts: Layouts to try on both sides; all of powers of two when left out.

    Raises:
        ModelError: The model cannot be laid out on the system at all, or the chip lacks a datatype.
    """
    tried = list(layouts) if layouts is not None else possible_layouts(service.model, service.fabric.num_chips)
    if not tried:
        raise ModelError(f"{service.model.name} cannot be laid out on {service.fabric.name}")
    require_context(service)
    sides = _Sides(service, limits, tried)
    prefill, decode = sides.prefill_instances(), sides.decode_instances()
    chips = _chips_of_pairs(sides.num_chips, prefill, decode)
    order: Ints = np.argsort(chips.reshape(-1), kind="stable")[:MAX_TRIES].astype(np.int64)
    least = int(chips.min())
    for pair in order.tolist():
        first, second = divmod(int(pair), len(tried))
        if chips[first, second] > service.fabric.num_chips:
            break
        pools = Pools(
            prefill=tried[first], num_prefill=int(prefill[first]), decode=tried[second], num_decode=int(decode[second])
        )
        estimate = _estimate_within(service, limits, pools)
        if estimate is not None:
            return PoolsPlan(pools=pools, estimate=estimate, binding=sides.binding(pools.num_chips))
    return _why_not(service, least)


class _Sides:
    """All layouts as instances for prompts, and as instances that decode at all batches."""

    def __init__(self, service: Service, limits: Limits, tried: Sequence[Layout]) -> None:
        self.service, self.limits = service, limits
        layouts = layouts_of(list(tried))
        self.num_chips: Ints = layouts.num_chips
        self.slots: Floats = (layouts.pp * layouts.dp).astype(np.float64)
        self.prompt_s: Floats = prompt_times_s(service, layouts)
        memory = service.memory(layouts)
        # Others beside a sequence that decodes, in the mean; of few, parts are tried as well.
        others = np.concatenate([[1 / 64, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4], user_counts().astype(np.float64)])
        in_cache = np.maximum(1.0, others)[None, :] * layouts.pp[:, None]
        needed = (memory.weights + memory.activations + memory.reserved)[:, None] + memory.kv_per_sequence[
            :, None
        ] * in_cache
        self.fits = needed <= memory.capacity
        rows = np.repeat(np.arange(len(layouts)), len(others))
        batch = np.tile(1 + others, len(layouts))
        steps_s = total_of(decode_parts_s(service, layouts.take(rows), batch)).reshape(self.fits.shape)
        tokens = max(1, service.traffic.osl - 1)
        self.tpot_s: Floats = steps_s
        # As many decode as arrive while one decodes: Little's law.
        self.requests_per_s: Floats = others[None, :] * self.slots[:, None] / (tokens * steps_s)

    def prefill_instances(self, *, holds_ttft: bool = True, fits: bool = True) -> Ints:
        """Instances for prompts that the rate needs, per layout: an M/D/1 queue within the limit."""
        prompt_s, ttft_s = self.prompt_s, self.limits.ttft_s
        busiest = np.ones_like(prompt_s)
        if holds_ttft and ttft_s is not None:
            # Prompt and wait, busy x prompt / (2 (1 - busy)), within the limit, solved for busy.
            left_s = ttft_s - prompt_s
            busiest = np.where(left_s > 0, 2 * left_s / (prompt_s + 2 * left_s), 0.0)
        load = self.limits.requests_per_s * prompt_s / self.slots
        allowed = (busiest > 0) & (self.fits[:, 0] | (not fits))
        needed = np.floor(load / np.where(allowed, busiest, 1.0) + 1e-9) + 1
        return np.where(allowed, needed, NO_INSTANCES).astype(np.int64)

    def decode_instances(self, *, holds_tpot: bool = True, fits: bool = True) -> Ints:
        """Instances that decode, per layout: each at the batch that yields most within the limits."""
        allowed = self.fits if fits else np.ones_like(self.fits)
        if holds_tpot and self.limits.tpot_s is not None:
            allowed = allowed & (self.tpot_s <= self.limits.tpot_s)
        most = np.where(allowed, self.requests_per_s, 0.0).max(axis=1)
        needed = np.ceil(self.limits.requests_per_s / np.where(most > 0, most, 1.0) - 1e-9)
        return np.where(most > 0, np.maximum(1.0, needed), NO_INSTANCES).astype(np.int64)

    def binding(self, num_chips: int) -> tuple[ConstraintName, ...]:
        """Limits whose absence would save chips."""

        def would_save(names: Collection[ConstraintName]) -> bool:
            fits = "memory" not in names
            prefill = self.prefill_instances(holds_ttft="ttft" not in names, fits=fits)
            decode = self.decode_instances(holds_tpot="tpot" not in names, fits=fits)
            return bool(_chips_of_pairs(self.num_chips, prefill, decode).min() < num_chips)

        return binding_names(would_save)


def _chips_of_pairs(num_chips: Ints, prefill: Ints, decode: Ints) -> Ints:
    """Chips of each layout for prompts with each that decodes `[n, n]`."""
    return (num_chips * prefill)[:, None] + (num_chips * decode)[None, :]


def _estimate_within(service: Service, limits: Limits, pools: Pools) -> DisaggregatedEstimate | None:
    """The estimate of two pools, None where they do not hold the limits."""
    try:
        found = serve_disaggregated(service, pools, limits.requests_per_s)
    except InfeasibleError:
        return None
    is_within = (limits.ttft_s is None or found.ttft.amount <= limits.ttft_s) and (
        limits.tpot_s is None or found.tpot.amount <= limits.tpot_s
    )
    return found if is_within else None


def _why_not(service: Service, least: int) -> Infeasible:
    """Chips that are missing, or that no number of them holds the limits."""
    fabric = service.fabric
    is_countable = fabric.num_chips < least < NO_INSTANCES
    return Infeasible(
        resource=f"chips of {fabric.name} with prompts and decoding apart",
        demand=least if is_countable else fabric.num_chips + 1,
        limit=fabric.num_chips,
        unit="chips",
        levers=(f"a system of {counted(least, 'chips')}",)
        if is_countable
        else ("wider limits in --slo", "prompts among those that decode"),
        op=service.model.name,
    )
