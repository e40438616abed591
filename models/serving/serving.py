"""Serving of one model on one system: what users and operators see, for one layout or for many at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ...archdsl import InfeasibleError
from ..gpu.energy import energy_notes, idle_power_w
from ..gpu.times import Floats
from ..parts import Part, sum_of
from .arrivals import ArrivalColumns, ArrivalEstimate, arrivals_at_mean
from .engine import SteadyState, steady_state
from .heterogeneous import pool_shortage
from .load_generator import LoadTest, run_load_test, step_costs
from .memory import MemoryColumns, budget_part, memory_shortage
from .parallel import Layout, Layouts, layouts_of
from .power import kernels_power_w
from .queueing import Waiting, burst_wait_s, closed_loop
from .service import Service, require_service


@dataclass(frozen=True)  # no slots: cached properties need a dictionary
class ServiceColumns:
    """A service at fixed concurrency, per layout `[n]`; `docs/serving.md` defines the metrics.

    Attributes:
        service: What is served.
        layouts: How one instance is laid out.
        concurrency: Users of one instance.
        state: Its steady state, per attention group and pipeline slot.
        memory: Bytes on a chip.
    """

    service: Service
    layouts: Layouts
    concurrency: Floats
    state: SteadyState
    memory: MemoryColumns

    @cached_property
    def slots(self) -> Floats:
        """Attention groups and pipeline slots that share the users `[n]`."""
        return (self.layouts.dp * self.layouts.pp).astype(np.float64)

    @cached_property
    def waiting(self) -> Waiting:
        """Waits at fixed concurrency."""
        return closed_loop(self.state, self.service.traffic.osl)

    @cached_property
    def ttft_s(self) -> Floats:
        """Time to first token on an idle instance [s]."""
        return self.state.lone_prompt_s

    @cached_property
    def ttft_queued_s(self) -> Floats:
        """Time to first token at fixed concurrency, waits included [s]."""
        return self.waiting.total_s + self.state.mixed_prompt_s + self.front_end_s

    @cached_property
    def front_end_s(self) -> Floats:
        """Time that a request waits because the front end carries fewer tokens than the engine makes [s]."""
        rate, osl = self.service.engine.front_end_tokens_per_s, self.service.traffic.osl
        if rate is None:
            return np.zeros_like(self.concurrency)
        made_s = self.waiting.total_s + self.state.mixed_prompt_s + (osl - 1) * self.tpot_s
        return np.maximum(0.0, self.concurrency * osl / rate - made_s)

    @cached_property
    def tpot_s(self) -> Floats:
        """Time per output token after the first [s]."""
        return self.state.tpot_s

    @cached_property
    def latency_s(self) -> Floats:
        """Of a request, at fixed concurrency [s]."""
        return self.ttft_queued_s + (self.service.traffic.osl - 1) * self.tpot_s

    @cached_property
    def requests_per_s(self) -> Floats:
        """Of one instance; Little's law: concurrency over latency."""
        return self.concurrency / self.latency_s

    @cached_property
    def tokens_per_s(self) -> Floats:
        """Output tokens per second of one instance."""
        return self.requests_per_s * self.service.traffic.osl

    @cached_property
    def tokens_per_s_per_chip(self) -> Floats:
        """Output tokens per second over the chips of an instance."""
        return self.tokens_per_s / self.layouts.num_chips

    @cached_property
    def tokens_per_s_per_user(self) -> Floats:
        """Output tokens per second that a user sees after the first."""
        return 1 / self.tpot_s

    @cached_property
    def arrivals(self) -> ArrivalColumns:
        """The same when requests arrive at random, as many in the mean as there are users."""
        return arrivals_at_mean(self.service, self.layouts, self.memory, self.concurrency)

    def load_test(self, idx: int) -> LoadTest:
        """What a load generator reports of one layout at this concurrency, a run step by step."""
        service, engine = self.service, self.service.engine
        costs = step_costs(service.timer, self.layouts, engine, service.traffic, self.state, idx)
        if engine.front_end_tokens_per_s is not None:
            # All groups and slots share it.
            share = engine.front_end_tokens_per_s / float(self.slots[idx])
            engine = replace(engine, front_end_tokens_per_s=share)
        return run_load_test(costs, engine, service.traffic, math.ceil(self.state.users[idx] - 1e-9))

    @cached_property
    def dynamic_w(self) -> Floats:
        """Energy of a chip's kernels per second, however much the power limit allows [W]."""
        # Each step visits the pipeline's stages in turn, so that of its work a chip does one share, and steps of all
        # slots overlap; slots without a user do nothing.
        busy = np.minimum(1.0, self.concurrency / self.slots)
        return busy * self.state.dynamic_j_per_step / self.state.step_s

    @cached_property
    def chip_power_w(self) -> Floats:
        """Mean power of a chip [W]."""
        chip = self.service.chip
        return idle_power_w(chip) + kernels_power_w(chip, self.dynamic_w)


def serve_columns(service: Service, layouts: Layouts, concurrency: Floats) -> ServiceColumns:
    """A service at fixed concurrency in many layouts; memory is not checked."""
    # Where there are fewer users than groups and slots, those that are there have theirs for themselves.
    users = np.maximum(1.0, concurrency / (layouts.dp * layouts.pp))
    state = steady_state(service.timer, layouts, service.engine, service.traffic, users)
    return ServiceColumns(
        service=service, layouts=layouts, concurrency=concurrency, state=state, memory=service.memory(layouts)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeEstimate:
    """One layout at fixed concurrency; times and bytes are trees of named parts.

    Attributes:
        layout: Chips of one instance.
        concurrency: Users of the instance.
        batch: Sequences of one attention group and pipeline slot that are served at once.
        ttft: On an idle instance [s].
        ttft_queued: At fixed concurrency [s].
        arrivals: When requests arrive at random, as many in the mean as there are users; of plans at the planned rate.
        ttft_burst: When all users start at once [s].
        tpot: Time per output token after the first [s].
        latency_s: Of a request [s].
        requests_per_s: Of the instance.
        tokens_per_s: Output tokens of the instance.
        tokens_per_s_per_chip: The same per chip.
        tokens_per_s_per_user: What a user sees after the first token.
        power: Of the instance's chips, idle and above [W].
        memory: Bytes of the fullest chip.
        free_bytes: What is left there.
        notes: Approximations and assumptions.
    """

    layout: Layout
    concurrency: int
    batch: float
    ttft: Part
    ttft_queued: Part
    arrivals: ArrivalEstimate
    ttft_burst: Part
    tpot: Part
    latency_s: float
    requests_per_s: float
    tokens_per_s: float
    tokens_per_s_per_chip: float
    tokens_per_s_per_user: float
    power: Part
    memory: Part
    free_bytes: int
    notes: tuple[str, ...]

    @property
    def tokens_per_j(self) -> float:
        """Output tokens per joule of the instance's chips."""
        return self.tokens_per_s / self.power.amount


def serve(service: Service, layout: Layout, concurrency: int) -> ServeEstimate:
    """A service in one layout at fixed concurrency.

    Raises:
        ModelError: The layout does not suit the model or the system.
        InfeasibleError: A chip's memory does not hold it; it has the missing bytes.
    """
    require_service(service, layout, concurrency)
    columns = serve_columns(service, layouts_of([layout]), np.array([float(concurrency)]))
    in_cache = sequences_in_cache(columns)
    short = memory_shortage(service.model, service.fabric, layout, columns.memory, float(in_cache[0]), 0)
    if short is None and service.feed_forward is not None:
        short = pool_shortage(service.model, service.numerics, service.feed_forward)
    if short is not None:
        raise InfeasibleError(short)
    return estimate_at(columns, 0)


def load_test(service: Service, layout: Layout, concurrency: int) -> LoadTest:
    """What a load generator with so many users reports of one instance; memory is not checked.

    Raises:
        ModelError: The layout does not suit the model or the system.
    """
    require_service(service, layout, concurrency)
    return serve_columns(service, layouts_of([layout]), np.array([float(concurrency)])).load_test(0)


def sequences_in_cache(columns: ServiceColumns) -> Floats:
    """Sequences of one group whose cache a chip holds at once: those of all pipeline slots, at their longest `[n]`."""
    return np.ceil(columns.state.batch - 1e-9) * columns.layouts.pp.astype(np.float64)


def estimate_at(columns: ServiceColumns, idx: int, arrivals: ArrivalEstimate | None = None) -> ServeEstimate:
    """One layout of many, as trees.

    Args:
        columns: The layouts at fixed concurrency.
        idx: Which.
        arrivals: The layout at random arrivals, where these are others than as many in the mean as there are users.
    """
    state, waiting = columns.state, columns.waiting
    osl = columns.service.traffic.osl
    layout = columns.layouts.at(idx)
    own = [_time("own steps", float(state.mixed_prompt_s[idx])), _time("front end", float(columns.front_end_s[idx]))]
    lone = _time("prompt", float(columns.ttft_s[idx]))
    budget = budget_part(columns.memory, float(sequences_in_cache(columns)[idx]), idx)
    return ServeEstimate(
        layout=layout,
        concurrency=round(float(columns.concurrency[idx])),
        batch=float(state.batch[idx]),
        ttft=sum_of("TTFT, idle", "s", [lone]),
        ttft_queued=sum_of("TTFT, fixed concurrency", "s", [*_waits(waiting, idx), *own]),
        arrivals=arrivals or columns.arrivals.estimate_at(idx),
        ttft_burst=sum_of("TTFT, burst", "s", [_time("prompts of others", float(burst_wait_s(state)[idx])), lone]),
        tpot=_tpot_part(state, osl, idx),
        latency_s=float(columns.latency_s[idx]),
        requests_per_s=float(columns.requests_per_s[idx]),
        tokens_per_s=float(columns.tokens_per_s[idx]),
        tokens_per_s_per_chip=float(columns.tokens_per_s_per_chip[idx]),
        tokens_per_s_per_user=float(columns.tokens_per_s_per_user[idx]),
        power=_power_part(columns, layout, idx),
        memory=budget,
        free_bytes=int(columns.memory.capacity - budget.amount),
        notes=(
            *columns.service.model.notes,
            *columns.service.fabric.notes,
            *state.notes,
            *_power_notes(columns, idx),
        ),
    )


def _tpot_part(state: SteadyState, osl: int, idx: int) -> Part:
    """Decoding and the prompts of others, each by kernels; both per token that a request gains."""
    tokens = max(1, osl - 1)
    per_token, prompts = float(state.steps_per_request[idx]) / tokens, float(state.prompts_met[idx]) / tokens
    return sum_of(
        "TPOT",
        "s",
        [
            _scaled("decoding", state.decode_parts_s, per_token, idx),
            _scaled("prompts of others", state.prompt_parts_s, prompts, idx),
        ],
    )


def _power_part(columns: ServiceColumns, layout: Layout, idx: int) -> Part:
    """Power of all chips of the instance: what they draw idle, and what kernels add."""
    idle_w = idle_power_w(columns.service.chip)
    kernels_w = float(columns.chip_power_w[idx]) - idle_w
    parts = (("idle", idle_w), ("kernels", kernels_w))
    return sum_of("power", "W", [Part(name=name, amount=layout.num_chips * watt, unit="W") for name, watt in parts])


def _power_notes(columns: ServiceColumns, idx: int) -> tuple[str, ...]:
    """What is to be said of the power: what was assumed, and whether the limit holds."""
    chip = columns.service.chip
    wanted_w, limit_w = idle_power_w(chip) + float(columns.dynamic_w[idx]), chip.arch.power.limit_w
    slowed = (
        f"{chip.arch.name}: kernels would draw {wanted_w:,.0f} W of {limit_w:,.0f} W: steps last longer than stated",
    )
    return (*energy_notes(chip), *(slowed if wanted_w > limit_w else ()))


def _waits(waiting: Waiting, idx: int) -> list[Part]:
    return [
        _time("room in the batch", float(waiting.slot_s[idx])),
        _time("step that runs", float(waiting.running_s[idx])),
        _time("prompts of others", float(waiting.prompts_s[idx])),
    ]


def _scaled(name: str, parts: Mapping[str, Floats], factor: float, idx: int) -> Part:
    leaves = [_time(part, factor * float(column[idx])) for part, column in parts.items()]
    return sum_of(name, "s", [leaf for leaf in leaves if leaf.amount != 0])


def _time(name: str, amount: float) -> Part:
    return Part(name=name, amount=amount, unit="s")
