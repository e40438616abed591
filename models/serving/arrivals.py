"""Serving of requests that arrive at random: what users and operators see, for many layouts and rates at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...archdsl import InfeasibleError, ModelError
from ..gpu.energy import idle_power_w
from ..gpu.times import Floats, Ints
from ..parts import Part, sum_of
from .batch_curves import MAX_USERS, BatchCurves, price_batches
from .memory import MemoryColumns, budget_part, memory_shortage
from .open_loop import ArrivalModel, OpenLoop
from .parallel import Layout, Layouts, layouts_of
from .power import kernels_power_w
from .service import Service, require_service


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalEstimate:
    """One layout when requests arrive at random.

    Attributes:
        layout: Chips of one instance.
        requests_per_s: Rate of arrivals at the instance.
        capacity_per_s: The rate from which on queues would grow for ever.
        requests: Requests in the instance, waiting or served, in the mean.
        ttft: Time to first token [s].
        tpot: Time per output token after the first [s].
        power: Of the instance's chips, idle and above [W].
        memory: Bytes of the fullest chip, with as many sequences as are served in the mean.
        notes: Approximations and assumptions.
    """

    layout: Layout
    requests_per_s: float
    capacity_per_s: float
    requests: float
    ttft: Part
    tpot: Part
    power: Part
    memory: Part
    notes: tuple[str, ...]


@dataclass(frozen=True)  # no slots: cached properties need a dictionary
class ArrivalColumns:
    """A service at random arrivals, per layout and rate `[p]`; `docs/serving.md` defines the metrics.

    Attributes:
        service: What is served.
        layouts: How one instance is laid out.
        rows: Each one's layout on the curves.
        curves: Costs of steps.
        memory: Bytes on a chip.
        loop: What arrivals bring, per attention group and pipeline slot.
    """

    service: Service
    layouts: Layouts
    rows: Ints
    curves: BatchCurves
    memory: MemoryColumns
    loop: OpenLoop

    @cached_property
    def slots(self) -> Floats:
        """Attention groups and pipeline slots that share the arrivals."""
        return slots_of(self.layouts)

    @cached_property
    def requests_per_s(self) -> Floats:
        """Arrivals at one instance."""
        return self.loop.requests_per_s * self.slots

    @cached_property
    def capacity_per_s(self) -> Floats:
        """Rate of one instance that is not sustained any more."""
        return self.loop.capacity_per_s * self.slots

    @cached_property
    def requests(self) -> Floats:
        """Requests in one instance, waiting or served, in the mean."""
        return self.loop.requests * self.slots

    @cached_property
    def served(self) -> Floats:
        """Of those the ones of one attention group and pipeline slot that do not wait for room in its batch."""
        loop = self.loop
        return np.minimum(
            loop.requests_per_s * (loop.ttft_s - loop.slot_s + loop.decode_s), self.curves.slots[self.rows]
        )

    @cached_property
    def front_end_s(self) -> Floats:
        """What a token waits for those of its step and of other steps before it on the way to the users [s].

        Bursts of one size as M/D/1: Pollaczek-Khinchine without variance, and half of one's own burst.
        """
        rate = self.service.engine.front_end_tokens_per_s
        if rate is None:
            return np.zeros_like(self.slots)
        burst_s = self.loop.decoding / rate
        busy = np.minimum(1.0, self.requests_per_s * self.service.traffic.osl / rate)
        with np.errstate(divide="ignore"):
            return np.where(busy < 1, burst_s / 2 + busy * burst_s / (2 * (1 - busy)), np.inf)

    @cached_property
    def ttft_s(self) -> Floats:
        """Time to first token [s]."""
        return self.loop.ttft_s + self.front_end_s

    @cached_property
    def tpot_s(self) -> Floats:
        """Time per output token after the first [s]."""
        return self.loop.decode_s / max(1, self.service.traffic.osl - 1)

    @cached_property
    def tokens_per_s_per_chip(self) -> Floats:
        """Output tokens per second over the chips of an instance."""
        return self.requests_per_s * self.service.traffic.osl / self.layouts.num_chips

    @cached_property
    def tokens_per_s_per_user(self) -> Floats:
        """Output tokens per second that a user sees after the first."""
        return 1 / self.tpot_s

    @cached_property
    def kernels_w(self) -> Floats:
        """What kernels add to a chip's idle power [W]."""
        dynamic_w = self.loop.requests_per_s * self.loop.place.of(self.curves.request_j)
        return kernels_power_w(self.service.chip, dynamic_w)

    def estimate_at(self, idx: int) -> ArrivalEstimate:
        """One of them, as trees."""
        loop, layout = self.loop, self.layouts.at(idx)
        waits = (
            ("room in the batch", loop.slot_s),
            ("step that runs", loop.running_s),
            ("prompts of others", loop.prompts_s),
            ("own steps", loop.own_s),
            ("front end", self.front_end_s),
        )
        powers = (("idle", idle_power_w(self.service.chip)), ("kernels", float(self.kernels_w[idx])))
        return ArrivalEstimate(
            layout=layout,
            requests_per_s=float(self.requests_per_s[idx]),
            capacity_per_s=float(self.capacity_per_s[idx]),
            requests=float(self.requests[idx]),
            ttft=sum_of("TTFT, random arrivals", "s", [_time(name, float(column[idx])) for name, column in waits]),
            tpot=self._tpot_part(idx),
            power=sum_of(
                "power", "W", [Part(name=name, amount=layout.num_chips * watt, unit="W") for name, watt in powers]
            ),
            memory=budget_part(self.memory, math.ceil(self.served[idx] - 1e-9) * layout.pp, idx),
            notes=(*self.service.model.notes, *self.service.fabric.notes, *self.curves.notes),
        )

    def _tpot_part(self, idx: int) -> Part:
        """Decoding and the prompts of others, each by kernels; both per token that a request gains."""
        loop, curves = self.loop, self.curves
        tokens = max(1, self.service.traffic.osl - 1)
        steps, prompts = loop.steps_per_request / tokens, float(loop.prompts_met[idx]) / tokens
        own = {name: float(loop.place.of(column)[idx]) for name, column in curves.decode_parts_s.items()}
        others = {name: float(loop.place.of(column)[idx]) for name, column in curves.prompt_parts_s.items()}
        if loop.prompt_s[idx] == 0:
            others = {}  # prompts that make larger products faster cost nothing, whatever the sum of their parts
        return sum_of(
            "TPOT, random arrivals",
            "s",
            [_scaled("decoding", own, steps), _scaled("prompts of others", others, prompts)],
        )


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dictionary
class ArrivalPrices:
    """Some layouts, priced for any rate.

    Attributes:
        service: What is served.
        layouts: How one instance is laid out.
        memory: Bytes on a chip of each.
        curves: Costs of steps.
    """

    service: Service
    layouts: Layouts
    memory: MemoryColumns
    curves: BatchCurves

    @cached_property
    def model(self) -> ArrivalModel:
        """Solves for what arrivals bring."""
        rate, osl = self.service.engine.front_end_tokens_per_s, self.service.traffic.osl
        return ArrivalModel(
            curves=self.curves,
            engine=self.service.engine,
            traffic=self.service.traffic,
            most_requests_per_s=np.inf if rate is None else rate / osl / slots_of(self.layouts),
        )

    @property
    def capacity_per_s(self) -> Floats:
        """Rate of one instance that is not sustained any more `[n]`."""
        return self.model.capacity_per_s * slots_of(self.layouts)

    def at_rate(self, rows: Ints, requests_per_s: Floats) -> ArrivalColumns:
        """Some layouts at some rates of one instance `[p]`."""
        return self._columns(rows, self.model.at_rate(rows, requests_per_s / slots_of(self.layouts)[rows]))

    def at_mean(self, rows: Ints, requests: Floats) -> ArrivalColumns:
        """Some layouts at the rates at which so many requests are in the instance in the mean `[p]`."""
        return self._columns(rows, self.model.at_mean(rows, requests / slots_of(self.layouts)[rows]))

    def _columns(self, rows: Ints, loop: OpenLoop) -> ArrivalColumns:
        return ArrivalColumns(
            service=self.service,
            layouts=self.layouts.take(rows),
            rows=rows,
            curves=self.curves,
            memory=self.memory.take(rows),
            loop=loop,
        )


def price_arrivals(service: Service, layouts: Layouts, memory: MemoryColumns) -> ArrivalPrices:
    """Price some layouts for any rate; each admits as many sequences as its memory holds, at least one."""
    priced = price_batches(service.timer, layouts, service.engine, service.traffic)
    return ArrivalPrices(
        service=service, layouts=layouts, memory=memory, curves=priced.curves(memory_slots(memory, layouts))
    )


def arrivals_at_mean(service: Service, layouts: Layouts, memory: MemoryColumns, requests: Floats) -> ArrivalColumns:
    """A service at the rates at which so many requests are in the instance in the mean `[n]`."""
    return price_arrivals(service, layouts, memory).at_mean(np.arange(len(layouts), dtype=np.int64), requests)


def serve_at_rate(service: Service, layout: Layout, requests_per_s: float) -> ArrivalEstimate:
    """A service in one layout at a rate of arrivals.

    Raises:
        ModelError: The layout does not suit the model or the system, or the rate is no number above 0 or not sustained; it
            says what is.
        InfeasibleError: A chip's memory does not hold it; it has the missing bytes.
    """
    require_service(service, layout, 1)
    if not (requests_per_s > 0 and math.isfinite(requests_per_s)):
        raise ModelError(f"rate {requests_per_s:g} is not a number above 0")
    layouts = layouts_of([layout])
    memory = service.memory(layouts)
    short = memory_shortage(service.model, service.fabric, layout, memory, float(layout.pp), 0)
    if short is not None:
        raise InfeasibleError(short)
    prices = price_arrivals(service, layouts, memory)
    found = prices.at_rate(np.zeros(1, dtype=np.int64), np.array([requests_per_s]))
    if not found.loop.is_stable[0]:
        raise ModelError(
            f"{requests_per_s:g} requests/s at random; an instance of {layout} sustains less than "
            f"{float(prices.capacity_per_s[0]):.3g}: lower the rate, or use more instances"
        )
    return found.estimate_at(0)


def slots_of(layouts: Layouts) -> Floats:
    """Attention groups and pipeline slots of each layout `[n]`."""
    return (layouts.dp * layouts.pp).astype(np.float64)


def memory_slots(memory: MemoryColumns, layouts: Layouts) -> Floats:
    """Sequences of an attention group and pipeline slot for which there is memory `[n]`."""
    return np.minimum(float(MAX_USERS), np.floor(memory.max_sequences / layouts.pp))


def _scaled(name: str, parts: dict[str, float], factor: float) -> Part:
    leaves = [_time(part, factor * amount) for part, amount in parts.items()]
    return sum_of(name, "s", [leaf for leaf in leaves if leaf.amount != 0])


def _time(name: str, amount: float) -> Part:
    return Part(name=name, amount=amount, unit="s")
