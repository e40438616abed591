"""Continuous batching at steady state, for many layouts at once.

All sequences of an attention group pass the layers together, one token each a step. A prompt enters the batch as soon as
there is room; its tokens ride on steps of the others (chunked prefill) or have steps of their own (prefill first). At
steady state every request sees the same mixture: `osl - 1` steps that yield its tokens, and in them the prompts of the
others. docs/serving.md defines every quantity.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..gpu.times import Floats
from .parallel import Layouts
from .speculation import NO_SPECULATION, Speculation
from .steps import Steps, StepTimer, StepTimes, make_steps, total_of

Policy = Literal["chunked", "prefill_first"]
POLICIES: tuple[Policy, ...] = ("chunked", "prefill_first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How an engine batches.

    Attributes:
        policy: `chunked`: tokens of prompts ride on decoding steps; `prefill_first`: prompts have steps of their own, in
            which nobody decodes.
        max_step_tokens: Most tokens of one step of one attention group.
        scheduler_s_per_sequence: Time that the host adds to a step per sequence in it (choosing, stop checks,
            detokenising, sending) [s]: the scheduler's overhead per step, the one constant fitted to serving data.
        max_sequences: Most sequences in the batch of an attention group and pipeline slot; None for as many as there are.
        front_end_tokens_per_s: Most output tokens that the way from an instance to its users carries (detokenising, HTTP),
            one after another; None for as many as there are. No description of a chip says it.
        speculation: Drafts that are verified.
    """

    policy: Policy = "chunked"
    max_step_tokens: int = 8192
    max_sequences: int | None = None
    front_end_tokens_per_s: float | None = None
    scheduler_s_per_sequence: float = 0.0
    speculation: Speculation = NO_SPECULATION


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What users ask for.

    Attributes:
        isl: Tokens of a prompt.
        osl: Tokens of an answer.
        prefix_hit: Share of a prompt's tokens whose keys and values are in the cache already.
    """

    isl: int
    osl: int
    prefix_hit: float = 0.0

    @property
    def new_tokens(self) -> float:
        """Tokens of a prompt to work on; at least one, whose logits are needed."""
        return max(1.0, self.isl * (1 - self.prefix_hit))

    @property
    def cached_tokens(self) -> float:
        """Tokens of a prompt that are in the cache."""
        return self.isl - self.new_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """An engine at fixed concurrency, per layout `[n]`.

    Attributes:
        users: Users of one attention group and pipeline slot, waiting or served.
        batch: Of those the sequences that decode or are prefilled.
        decoding: Of those the sequences that decode.
        decode_step_s: A step in which no prompt is worked on [s].
        prompt_s: What one prompt adds to the time of those that decode [s].
        lone_prompt_s: A prompt alone on an idle instance, until its first token [s].
        mixed_prompt_s: A prompt's own steps among those that decode [s].
        prompts_per_step: Prompts that end in a step, as a request that decodes sees the others.
        prompt_wait_s: What a request waits for prompts of others before its own [s].
        prompts_met: Prompts of others that a request meets while it decodes; those that it waited for it does not meet again.
        steps_per_request: Steps in which a request decodes.
        tpot_s: Time per output token after the first [s].
        decode_parts_s: Parts of `decode_step_s`.
        prompt_parts_s: Parts of `prompt_s`.
        dynamic_j_per_step: Energy of one chip above its idle power per step, prompts of others included [J].
        notes: Approximations.
    """

    users: Floats
    batch: Floats
    decoding: Floats
    decode_step_s: Floats
    prompt_s: Floats
    lone_prompt_s: Floats
    mixed_prompt_s: Floats
    prompts_per_step: Floats
    prompt_wait_s: Floats
    prompts_met: Floats
    steps_per_request: Floats
    tpot_s: Floats
    decode_parts_s: Mapping[str, Floats]
    prompt_parts_s: Mapping[str, Floats]
    dynamic_j_per_step: Floats
    notes: tuple[str, ...]

    @property
    def step_s(self) -> Floats:
        """Mean time between two tokens of a step, prompts of others included [s]."""
        return self.decode_step_s + self.prompts_per_step * self.prompt_s


def steady_state(timer: StepTimer, layouts: Layouts, engine: Engine, traffic: Traffic, users: Floats) -> SteadyState:
    """An engine with so many users, each asking again as soon as it is answered.

    Args:
        timer: Prices steps.
        layouts: How instances are laid out.
        engine: How they batch.
        traffic: What users ask for.
        users: Users of one attention group and pipeline slot `[n]`.
    """
    speculation = engine.speculation
    tokens, new = float(traffic.isl), traffic.new_tokens
    steps_per_request = max(1.0, (traffic.osl - 1) / speculation.tokens_per_step)
    batch, chunks = _batch(engine, new, steps_per_request, users)
    decoding = batch * steps_per_request / (steps_per_request + chunks)
    context = tokens + traffic.osl / 2
    rides = decoding if engine.policy == "chunked" else np.zeros_like(decoding)
    # Where more than one prompt ends in a step, they share it.
    others = np.maximum(0.0, batch - 1) / (steps_per_request + chunks)
    together = np.maximum(1.0, others * chunks) if engine.policy == "chunked" else np.ones_like(batch)
    plain = make_steps(layouts, batch=decoding, context_tokens=context, queries=speculation.queries)
    chunk = new / chunks
    past = traffic.cached_tokens + (new - chunk) / 2
    mixed = make_steps(
        layouts,
        prompt_tokens=chunk * together,
        past_tokens=past,
        num_prompts=together,
        batch=rides,
        context_tokens=context,
        queries=speculation.queries,
    )
    lone_chunks = np.ceil(new / engine.max_step_tokens)
    lone = make_steps(
        layouts,
        prompt_tokens=new / lone_chunks,
        past_tokens=traffic.cached_tokens + (new - new / lone_chunks) / 2,
    )
    costs = timer.times(_stacked([plain, mixed, lone]))
    costs_of = [_rows(costs, part, len(layouts)) for part in range(3)]
    decode, added, alone = costs_of
    host_s = engine.scheduler_s_per_sequence
    decode_step_s, decode_parts = _with_host(decode, host_s * decoding, speculation.draft_share)
    is_mixed = engine.policy == "chunked"
    prompt_parts = _prompt_parts(decode, added, chunks / together, is_mixed=is_mixed) | {"scheduler": chunks * host_s}
    prompt_s = total_of(prompt_parts)
    step_s = decode_step_s + others * prompt_s
    wait_s = _prompt_wait_s(batch, others * np.maximum(0.0, prompt_s) / step_s, others * steps_per_request, prompt_s)
    met = others * steps_per_request - np.divide(wait_s, prompt_s, out=np.zeros_like(wait_s), where=wait_s > 0)
    return SteadyState(
        users=users,
        batch=batch,
        decoding=decoding,
        decode_step_s=decode_step_s,
        prompt_s=prompt_s,
        lone_prompt_s=lone_chunks * (alone.time_s + host_s),
        # Beside it stand the prompts of others that fall into its steps, so that nobody's prompt is left out of a round.
        mixed_prompt_s=chunks * decode_step_s * is_mixed + (1 + others * chunks) * prompt_s,
        prompts_per_step=others,
        prompt_wait_s=wait_s,
        prompts_met=met,
        steps_per_request=np.full_like(users, steps_per_request),
        tpot_s=(decode_step_s * steps_per_request + met * prompt_s) / max(1, traffic.osl - 1),
        decode_parts_s=decode_parts,
        prompt_parts_s=prompt_parts,
        dynamic_j_per_step=(1 + speculation.draft_share) * decode.dynamic_j
        + others * chunks * _added(added.dynamic_j, decode.dynamic_j, engine) / together,
        notes=costs.notes,
    )


def _batch(engine: Engine, new: float, steps_per_request: float, users: Floats) -> tuple[Floats, Floats]:
    """Sequences in the batch and steps over which a prompt is spread `[n]`.

    Of `batch` requests, each `steps per request` steps long and some more for its prompt, a step holds the tokens of those
    that decode and the share of a prompt that arrives meanwhile; both must fit. Where a request has more tokens than a step,
    it takes as many steps for them as steps of its own would.
    """
    queries, room = engine.speculation.queries, float(engine.max_step_tokens)
    served = users if engine.max_sequences is None else np.minimum(users, engine.max_sequences)
    if engine.policy == "prefill_first":
        batch = np.minimum(served, room / queries)
        return batch, np.full_like(users, np.ceil(new / room))
    tokens = queries * steps_per_request + new
    batch = np.minimum(served, room * (steps_per_request + max(1.0, tokens / room)) / tokens)
    left = np.maximum(1.0, room - batch * queries)
    return batch, np.ceil(new / left - 1e-9)


def _prompt_wait_s(batch: Floats, busy: Floats, others: Floats, prompt_s: Floats) -> Floats:
    """What a request waits for prompts of others before its own, at fixed concurrency [s].

    It finds prompts of others in service for a share `busy` of time and waits for them as in an M/D/1 queue (prompts of one
    workload take the same time), at most as if all users had asked together: then half of the others' prompts come first.

    Source: Pollaczek-Khinchine mean wait, e.g. Kleinrock, Queueing Systems I, 1975, equation 5.63, without variance.

    Args:
        batch: Sequences of the batch `[n]`.
        busy: Share of time in which prompts are worked on `[n]`.
        others: Prompts of others while a request decodes, were it to wait for none `[n]`.
        prompt_s: What one adds `[n]` [s]; where a larger step is made faster it is below 0, and nobody waits for it.
    """
    one_s, busy = np.maximum(0.0, prompt_s), np.minimum(0.999, busy)
    at_most = np.minimum(np.maximum(0.0, batch - 1) / 2, others) * one_s
    return np.minimum(busy * one_s / (2 * (1 - busy)), at_most)


def _added(mixed: Floats, decode: Floats, engine: Engine) -> Floats:
    return np.maximum(0.0, mixed - decode) if engine.policy == "chunked" else mixed


def _with_host(decode: StepTimes, host_s: Floats, draft_share: float) -> tuple[Floats, dict[str, Floats]]:
    """Decoding steps with drafting and the host's work."""
    parts = dict(decode.parts_s)
    if draft_share:
        parts["drafts"] = decode.time_s * draft_share
    parts["scheduler"] = host_s
    return total_of(parts), parts


def _prompt_parts(decode: StepTimes, mixed: StepTimes, times: Floats, *, is_mixed: bool) -> dict[str, Floats]:
    """Parts of what a prompt adds to the steps of those that decode; a part may be below 0 where a larger kernel is made
    more efficiently."""
    names = dict.fromkeys([*mixed.parts_s, *decode.parts_s])
    zero = np.zeros(len(times))
    return {
        name: times * (mixed.parts_s.get(name, zero) - (decode.parts_s.get(name, zero) if is_mixed else zero))
        for name in names
    }


def _stacked(batches: list[Steps]) -> Steps:
    layouts = batches[0].layouts
    rows = np.tile(np.arange(len(layouts)), len(batches))

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(one, name) for one in batches])

    return Steps(
        layouts=layouts.take(rows),
        prompt_tokens=joined("prompt_tokens"),
        past_tokens=joined("past_tokens"),
        num_prompts=joined("num_prompts"),
        batch=joined("batch"),
        context_tokens=joined("context_tokens"),
        queries=joined("queries"),
    )


def _rows(times: StepTimes, idx: int, num_rows: int) -> StepTimes:
    rows = slice(idx * num_rows, (idx + 1) * num_rows)
    return StepTimes(
        parts_s={name: column[rows] for name, column in times.parts_s.items()},
        ops=times.ops[rows],
        main_memory_bytes=times.main_memory_bytes[rows],
        dynamic_j=times.dynamic_j[rows],
        link_bytes=times.link_bytes[rows],
        notes=times.notes,
    )
