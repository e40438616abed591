"""An engine whose users arrive at random at a given rate: how many it serves at once, and what each of them sees.

The batch is not given, it follows: as many decode as arrive while one decodes (Little's law), and the time to decode depends
on how many do. Beside its own steps a request sees the prompts of those that come while it decodes, and the prompts
of those that came while it waited for its own. docs/serving.md derives every quantity; the tests hold them against a run step
by step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..gpu.times import Floats, Ints
from .batch_curves import BatchCurves, Place
from .engine import Engine, Traffic

Flags = npt.NDArray[np.bool_]
SHARE_BITS = 16
"""Binary digits of where a batch lies between two of a curve."""
SEARCHES = ((4, 8), (256, 4), (math.inf, 1))
"""Digits that are found at once, by the most rates that are searched together."""
RATES = 128
ROUNDS = 3
"""A mean number of requests is searched over so many rates at once, so many times."""


@dataclass(frozen=True)  # no slots: cached properties need a dictionary
class OpenLoop:
    """An engine at random arrivals, per layout and rate `[p]`; times are infinite where the rate is above the capacity.

    Attributes:
        requests_per_s: Arrivals per attention group and pipeline slot.
        capacity_per_s: The rate from which on queues grow for ever.
        decoding: Sequences that decode, as one of them sees them, itself included.
        decode_step_s: A step in which no prompt is worked on [s].
        prompt_s: What one prompt adds to the time of those that decode [s].
        slot_s: Wait for room in the batch [s].
        running_s: Wait for the end of the step that runs [s].
        prompts_s: Wait for prompts that came before, and for those in the same step [s].
        own_s: The steps of one's own prompt [s].
        steps_per_request: Steps in which a request decodes.
        prompts_met: Prompts of others that a request meets while it decodes.
        place: Where the batches lie on the curves.
    """

    requests_per_s: Floats
    capacity_per_s: Floats
    decoding: Floats
    decode_step_s: Floats
    prompt_s: Floats
    slot_s: Floats
    running_s: Floats
    prompts_s: Floats
    own_s: Floats
    steps_per_request: float
    prompts_met: Floats
    place: Place

    @property
    def is_stable(self) -> Flags:
        """Whether queues stay finite."""
        return np.isfinite(self.decode_s) & np.isfinite(self.ttft_s)

    @cached_property
    def ttft_s(self) -> Floats:
        """Time to first token [s]."""
        return self.slot_s + self.running_s + self.prompts_s + self.own_s

    @cached_property
    def decode_s(self) -> Floats:
        """From the first token to the last [s]."""
        return self.steps_per_request * self.decode_step_s + self.prompts_met * self.prompt_s

    @cached_property
    def requests(self) -> Floats:
        """Mean number of requests in the group and slot, waiting or served (Little's law)."""
        return self.requests_per_s * (self.ttft_s + self.decode_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """Times at some batches, whether or not these are those of the rate."""

    running_s: Floats
    prompts_s: Floats
    own_s: Floats
    prompts_met: Floats
    decode_s: Floats


@dataclass(frozen=True, kw_only=True)  # no slots: cached properties need a dictionary
class ArrivalModel:
    """Solves for what random arrivals bring.

    Attributes:
        curves: Costs of steps.
        engine: How requests are batched.
        traffic: What users ask for.
        most_requests_per_s: What the way to the users carries, per attention group and pipeline slot `[n]`.
    """

    curves: BatchCurves
    engine: Engine
    traffic: Traffic
    most_requests_per_s: Floats | float = np.inf

    @property
    def steps(self) -> float:
        """Steps in which a request decodes."""
        return max(1.0, (self.traffic.osl - 1) / self.engine.speculation.tokens_per_step)

    @cached_property
    def capacity_per_s(self) -> Floats:
        """The rate per attention group and pipeline slot that is not sustained any more, per layout `[n]`."""
        return np.minimum(self._sustained_per_s, self.most_requests_per_s)

    @cached_property
    def _sustained_per_s(self) -> Floats:
        """What the engine sustains: the rate per attention group and pipeline slot from which on queues grow, per layout `[n]`.

        A batch of `b` makes `b / ((s + k) d + b E)` requests per second and takes in no more prompts than `1 / (E + share of a
        step x d)`; with the batch the first grows and the second falls.
        """
        curves = self.curves
        batch, step_s, prompt_s = curves.decoding, curves.decode_step_s, curves.prompt_s
        share, chunks = self._chunks(batch)
        made = batch / ((self.steps + chunks) * step_s + batch * prompt_s)
        taken = 1 / np.maximum(1e-30, prompt_s + share * step_s)
        return np.minimum(made, taken).max(axis=1)

    def at_rate(self, rows: Ints, requests_per_s: Floats) -> OpenLoop:
        """What arrivals at some rates bring.

        Args:
            rows: Layout of each `[p]`.
            requests_per_s: Arrivals per attention group and pipeline slot `[p]`.
        """
        curves = self.curves
        at = self._batch(rows, requests_per_s)
        batch, step_s, prompt_s = at.of(curves.decoding), at.of(curves.decode_step_s), at.of(curves.prompt_s)
        slots = curves.slots[rows]
        found = self._point(requests_per_s, batch, step_s, prompt_s, slots, curves.lone_prompt_s[rows])
        capacity = self.capacity_per_s[rows]
        served_s = found.running_s + found.prompts_s + found.own_s + found.decode_s
        is_stable = (requests_per_s < capacity) & np.isfinite(served_s)
        sustained = self._sustained_per_s[rows]
        slot_s = _slot_wait_s(np.where(is_stable, requests_per_s / sustained, 0.0), slots / sustained, slots)
        return OpenLoop(
            requests_per_s=requests_per_s,
            capacity_per_s=capacity,
            decoding=batch,
            decode_step_s=step_s,
            prompt_s=prompt_s,
            slot_s=np.where(is_stable, slot_s, np.inf),
            running_s=found.running_s,
            prompts_s=found.prompts_s,
            own_s=found.own_s,
            steps_per_request=self.steps,
            prompts_met=found.prompts_met,
            place=at,
        )

    def at_mean(self, rows: Ints, requests: Floats) -> OpenLoop:
        """What arrivals bring at the rate at which so many requests are there in the mean.

        Args:
            rows: Layout of each `[p]`.
            requests: Requests of an attention group and pipeline slot, waiting or served, above 0 `[p]`.
        """
        low, width = np.zeros_like(requests), self.capacity_per_s[rows]
        shares = np.arange(1, RATES) / RATES
        many = np.repeat(rows, len(shares))
        for _ in range(ROUNDS):
            rates = low[:, None] + shares * width[:, None]
            found = self.at_rate(many, rates.reshape(-1)).requests.reshape(rates.shape)
            width = width / RATES
            low = low + np.sum(found <= requests[:, None], axis=1) * width
        return self.at_rate(rows, low + width / 2)

    def _chunks(self, batch: Floats) -> tuple[Floats, Floats]:
        """Steps that a prompt fills beside so many others, and steps in which it is worked on, decoding beside it."""
        if self.engine.policy == "prefill_first":
            return np.zeros_like(batch), np.zeros_like(batch)
        left = np.maximum(1.0, self.engine.max_step_tokens - batch * self.engine.speculation.queries)
        share = self.traffic.new_tokens / left
        return share, np.ceil(share - 1e-9)

    def _batch(self, rows: Ints, requests_per_s: Floats) -> Place:
        """The batch that a rate leads to: the least that is one more than those that arrive while one decodes."""
        curves = self.curves
        grid = curves.decoding[rows]

        def excess(batch: Floats, step_s: Floats, prompt_s: Floats, rate: Floats, at: Ints) -> Floats:
            shape = (len(at),) + (1,) * (batch.ndim - 1)
            slots, lone_s = curves.slots[at].reshape(shape), curves.lone_prompt_s[at].reshape(shape)
            found = self._point(rate.reshape(shape), batch, step_s, prompt_s, slots, lone_s)
            return 1 + rate.reshape(shape) * found.decode_s - batch

        over = excess(grid, curves.decode_step_s[rows], curves.prompt_s[rows], requests_per_s, rows) > 0
        # The last batch where all of them are too small: there is no room for more.
        last = grid.shape[1] - 1
        first: Ints = np.argmin(over, axis=1).astype(np.int64)
        first[over.all(axis=1)] = last
        left: Ints = np.clip(first - 1, 0, last - 1)
        is_full = over.all(axis=1)

        def between(curve: Floats, shares: Floats) -> Floats:
            low, high = curve[rows, left][:, None], curve[rows, left + 1][:, None]
            return low + shares * (high - low)

        # Calls cost more than numbers where there are few rates: then many shares of the way are tried at once.
        bits = next(bits for most, bits in SEARCHES if len(rows) <= most)
        steps: Floats = np.arange(1, 1 + (1 << bits)) / float(1 << bits)
        low, width = np.zeros_like(requests_per_s), 1.0
        for _ in range(0, SHARE_BITS, bits):
            shares = low[:, None] + steps * width
            found = excess(
                between(curves.decoding, shares),
                between(curves.decode_step_s, shares),
                between(curves.prompt_s, shares),
                requests_per_s,
                rows,
            )
            width /= 1 << bits
            low = low + np.sum(np.logical_and.accumulate(found > 0, axis=1), axis=1) * width
        return Place(rows=rows, left=left, share=np.where(is_full, 1.0, np.minimum(low + width, 1.0)))

    def _point(
        self, rate: Floats, batch: Floats, step_s: Floats, prompt_s: Floats, slots: Floats, lone_s: Floats
    ) -> _Point:
        """Times of a request that decodes in a batch, at a rate of arrivals."""
        share, chunks = self._chunks(batch)
        is_chunked = self.engine.policy == "chunked"
        busy = rate * prompt_s
        is_there = -np.expm1(-(batch - 1))  # that somebody decodes: others are Poisson, batch - 1 in the mean
        service_s = prompt_s + share * step_s
        taken = rate * service_s
        with np.errstate(divide="ignore", invalid="ignore"):
            # One slot is one's own while one decodes; with more, prompts of others come in beside it.
            others = np.where(slots > 1, 1.0, 0.0)
            wait_s = taken * service_s / (2 * np.maximum(0.0, 1 - taken))
            before_s = np.where(taken < 1, others * wait_s, np.inf)
            running_s = is_there * np.maximum(0.0, 1 - busy) * step_s / 2
            own_s = is_there * (chunks * step_s + prompt_s) + (1 - is_there) * lone_s if is_chunked else prompt_s
            behind = rate * (before_s + running_s + own_s)
            shared = np.zeros_like(behind)
            if is_chunked:
                room = np.maximum(1e-9, chunks - share) / share  # prompts that the last step of one's own has room for
                beside = rate * (before_s + running_s + own_s * (chunks - 1) / chunks)
                shared = is_there * room * -np.expm1(-beside / room)
                gate_s = step_s / (1 - busy) + busy * prompt_s / (1 - busy**2)
                gated_s = gate_s / 2 + step_s + prompt_s * (1 + rate * gate_s) - (before_s + running_s + own_s)
                more = np.where((chunks == 1) & (busy < 1), is_there * gated_s, 0.0)
                is_gated = more > shared * prompt_s
                behind = np.where(
                    is_gated, rate * (step_s + prompt_s * (1 + rate * gate_s)), behind + shared * busy - shared
                )
                shared_s = np.where(is_gated, more, shared * prompt_s)
            else:
                shared_s = np.zeros_like(behind)
            usual = np.where(busy < 1, rate * step_s / np.maximum(1e-30, 1 - busy * others), np.inf)
            more_met = np.maximum(0.0, behind - usual) / np.maximum(1e-30, 1 - busy * others)
            if is_chunked:
                free = np.maximum(1e-30, self.steps / share * np.maximum(0.0, 1 - usual * share))
                more_met = free * -np.expm1(-more_met / free)
            met = others * (self.steps * usual + more_met)
            decode_s = np.where((taken < 1) & (busy < 1), self.steps * step_s + met * prompt_s, np.inf)
        return _Point(
            running_s=running_s,
            prompts_s=np.where(np.isfinite(decode_s), before_s + shared_s, np.inf),
            own_s=np.broadcast_to(own_s, running_s.shape),
            prompts_met=met,
            decode_s=decode_s,
        )


def _slot_wait_s(busy: Floats, served_s: Floats, slots: Floats) -> Floats:
    """Mean wait for one of so many slots, each of which takes the same time for a request [s].

    Source: Sakasegawa, An approximation formula for Lq = alpha rho^beta / (1 - rho), Annals of the Institute of Statistical
    Mathematics 29, 1977, equation 2.4, halved for service times without variance; exact for one slot.
    """
    power = np.sqrt(2 * (slots + 1)) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        wait_s = busy**power / (slots * np.maximum(0.0, 1 - busy)) * served_s / 2
    return np.where(busy < 1, wait_s, np.inf)
