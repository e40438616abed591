"""Prompts on some instances, decoding on others: the cache of a prompt moves between them.

Prompts never interrupt those that decode, and each pool has the layout that suits it. An instance for prompts works on one
at a time; a request waits for it, then its cache is sent, then it decodes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...archdsl import InfeasibleError, ModelError, kv_bytes
from ..gpu.times import Floats
from ..parts import Part, sum_of
from .memory import memory_shortage
from .parallel import Layout, Layouts, layouts_of
from .service import Service, require_service
from .steps import make_steps, total_of

MOST_USERS = 1 << 20
BISECTIONS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Pools:
    """Instances of both kinds.

    Attributes:
        prefill: Layout of an instance that works on prompts.
        num_prefill: Such instances.
        decode: Layout of an instance that decodes.
        num_decode: Such instances.
    """

    prefill: Layout
    num_prefill: int
    decode: Layout
    num_decode: int

    @property
    def num_chips(self) -> int:
        """Chips of both pools."""
        return self.num_prefill * self.prefill.num_chips + self.num_decode * self.decode.num_chips


@dataclass(frozen=True, slots=True, kw_only=True)
class DisaggregatedEstimate:
    """Both pools at a rate of requests.

    Attributes:
        pools: The instances.
        requests_per_s: Rate of requests, arriving at random.
        ttft: Time to first token: waiting, the prompt [s].
        transfer: Time until the second token can be worked on: the cache's way [s].
        tpot: Time per output token after the first, the transfer spread over them [s].
        users: Sequences that decode on one instance.
        prefill_busy: Share of time in which instances for prompts work.
        decode_busy: Sequences that decode over the most that fit in memory.
        tokens_per_s_per_user: What a user sees after the first token.
        tokens_per_s_per_chip: Output tokens over the chips of both pools.
        notes: Approximations.
    """

    pools: Pools
    requests_per_s: float
    ttft: Part
    transfer: Part
    tpot: Part
    users: float
    prefill_busy: float
    decode_busy: float
    tokens_per_s_per_user: float
    tokens_per_s_per_chip: float
    notes: tuple[str, ...]


def serve_disaggregated(service: Service, pools: Pools, requests_per_s: float) -> DisaggregatedEstimate:
    """Both pools at a rate of requests.

    Args:
        service: What is served; the engine's policy has no meaning here.
        pools: The instances.
        requests_per_s: Requests that arrive at random.

    Raises:
        ModelError: A layout does not suit the model or the system, or the rate is no number above 0 or too
            high for a pool; it says by how much.
        InfeasibleError: Memory does not hold the weights, or not the sequences that decode at this rate.
    """
    if not (requests_per_s > 0 and math.isfinite(requests_per_s)):
        raise ModelError(f"rate {requests_per_s:g} is not a number above 0")
    for layout in (pools.prefill, pools.decode):
        require_service(service, layout, 1)
    if pools.num_chips > service.fabric.num_chips:
        raise ModelError(
            f"both pools need {pools.num_chips} chips; {service.fabric.name} has {service.fabric.num_chips}"
        )
    _require_memory(service, pools.prefill, 1.0)
    prompt_s = float(prompt_times_s(service, layouts_of([pools.prefill]))[0])
    # While one prompt is in a stage of the pipeline, others are in the other stages, and every group has its own.
    slots = pools.prefill.pp * pools.prefill.dp * pools.num_prefill
    busy = requests_per_s * prompt_s / slots
    if busy >= 1:
        most = slots / prompt_s
        raise ModelError(
            f"{requests_per_s:g} requests/s; the instances for prompts manage {most:.3g}: use more of them"
        )
    # M/D/1: prompts of one workload take the same time; every slot gets its share of the arrivals.
    wait_s = busy * prompt_s / (2 * (1 - busy))
    transfer = transfer_part(service, pools)
    users, decode = _decoding(service, pools, requests_per_s)
    osl = service.traffic.osl
    tokens = max(1, osl - 1)
    tpot = sum_of("TPOT", "s", [decode, Part(name="cache transfer", amount=transfer.amount / tokens, unit="s")])
    most_users = _most_users(service, pools.decode, users)
    return DisaggregatedEstimate(
        pools=pools,
        requests_per_s=requests_per_s,
        ttft=sum_of("TTFT", "s", [_time("prompts of others", wait_s), _time("prompt", prompt_s)]),
        transfer=transfer,
        tpot=tpot,
        users=users,
        prefill_busy=busy,
        decode_busy=users / most_users,
        tokens_per_s_per_user=1 / tpot.amount,
        tokens_per_s_per_chip=requests_per_s * osl / pools.num_chips,
        notes=(
            *service.model.notes,
            *service.fabric.notes,
            *_step_notes(service, pools),
            "arrivals are divided evenly over the instances; decoding sequences by Little's law; transfers do not overlap",
        ),
    )


def transfer_part(service: Service, pools: Pools) -> Part:
    """Time of one prompt's cache from an instance for prompts to one that decodes [s].

    Every chip of the smaller side sends or receives its share over its own links; both instances in one domain use the
    fast links, else those out of it.
    """
    fabric, traffic = service.fabric, service.traffic
    moved = kv_bytes(service.model, traffic.isl, service.numerics.kv_bits)
    lanes = min(pools.prefill.tp * pools.prefill.pp, pools.decode.tp * pools.decode.pp)
    is_inner = pools.num_chips <= fabric.domain_chips
    bytes_per_s = fabric.link_bytes_per_s if is_inner else fabric.outer_bytes_per_s
    latency_s = fabric.link_latency_s if is_inner else fabric.outer_latency_s
    return sum_of(
        "cache transfer", "s", [_time("first byte", latency_s), _time("bytes", moved / (bytes_per_s * lanes))]
    )


def prompt_times_s(service: Service, layouts: Layouts) -> Floats:
    """One prompt on an instance of each layout, in as many steps as it needs `[n]` [s]."""
    traffic, engine = service.traffic, service.engine
    new = traffic.new_tokens
    chunks = np.ceil(new / engine.max_step_tokens)
    past = traffic.cached_tokens + (new - new / chunks) / 2
    steps = make_steps(layouts, prompt_tokens=new / chunks, past_tokens=past)
    return chunks * (service.timer.times(steps).time_s + engine.scheduler_s_per_sequence)


def decode_parts_s(service: Service, layouts: Layouts, per_slot: Floats) -> dict[str, Floats]:
    """Parts of the time per token where nothing but decoding is done, per layout `[n]` [s].

    Args:
        service: What is served.
        layouts: Layouts of the instances.
        per_slot: Sequences of an attention group and pipeline slot `[n]`.
    """
    traffic, engine = service.traffic, service.engine
    steps = make_steps(
        layouts,
        batch=per_slot,
        context_tokens=traffic.isl + traffic.osl / 2,
        queries=engine.speculation.queries,
    )
    found = dict(service.timer.times(steps).parts_s)
    found["drafts"] = total_of(found) * engine.speculation.draft_share
    found["scheduler"] = engine.scheduler_s_per_sequence * per_slot
    return {name: column / engine.speculation.tokens_per_step for name, column in found.items()}


def _step_notes(service: Service, pools: Pools) -> tuple[str, ...]:
    """What is to be said of the steps of both pools."""
    layouts = layouts_of([pools.prefill, pools.decode])
    return service.timer.times(make_steps(layouts, prompt_tokens=1.0, batch=1.0, context_tokens=1.0)).notes


def _decoding(service: Service, pools: Pools, requests_per_s: float) -> tuple[float, Part]:
    """Sequences on an instance, and the time per token: as many decode as arrive while one decodes (Little's law)."""
    layout = pools.decode
    layouts = layouts_of([layout])
    tokens = max(1, service.traffic.osl - 1)
    slots = layout.dp * layout.pp
    rate = requests_per_s / pools.num_decode

    def parts_at(users: float) -> Part:
        # Who decodes sees itself beside as many others as decode in the mean: those arrive at random.
        found = decode_parts_s(service, layouts, np.array([1.0 + users / slots]))
        return sum_of("decoding", "s", [_time(name, float(column[0])) for name, column in found.items()])

    low, high = 0.0, 1.0
    while rate * tokens * parts_at(high).amount > high:
        low, high = high, 2 * high
        if high > MOST_USERS:
            raise ModelError(
                f"{requests_per_s:g} requests/s is more than {pools.num_decode} decoding instances can serve"
            )
    for _ in range(BISECTIONS):
        users = (low + high) / 2
        low, high = (users, high) if rate * tokens * parts_at(users).amount > users else (low, users)
    return high, parts_at(high)


def _most_users(service: Service, layout: Layout, users: float) -> float:
    """Sequences that fit on a decoding instance.

    Raises:
        InfeasibleError: Fewer than decode there.
    """
    return _require_memory(service, layout, users / (layout.dp * layout.pp)) * layout.dp


def _require_memory(service: Service, layout: Layout, per_slot: float) -> float:
    """Most sequences of an attention group that fit, after a check that those of all pipeline slots do.

    Raises:
        InfeasibleError: They do not.
    """
    memory = service.memory(layouts_of([layout]))
    in_cache = math.ceil(per_slot * layout.pp - 1e-9)
    short = memory_shortage(service.model, service.fabric, layout, memory, in_cache, 0)
    if short is not None:
        raise InfeasibleError(short)
    return float(memory.max_sequences[0])


def _time(name: str, amount: float) -> Part:
    return Part(name=name, amount=amount, unit="s")
