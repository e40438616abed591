"""What `tileloom serve --json` prints: estimates and plans as documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict

import numpy as np

from .pareto import knee_index, pareto_mask

if TYPE_CHECKING:
    from ..archdsl import Infeasible
    from ..models import Part, serving

SCHEMA_VERSION: Final = 1

Json = dict[str, object]


class PartDocument(TypedDict):
    """A tree of named parts; `rule` says how `parts` make the amount."""

    name: str
    amount: float
    unit: str
    rule: NotRequired[str]
    parts: NotRequired[list[PartDocument]]


class ServedDocument(TypedDict):
    """One layout at fixed concurrency: what reports read of `estimate_document`."""

    workload: str
    parts: list[PartDocument]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontRow:
    """One point of the trade-off between what a user sees and what a chip yields.

    Attributes:
        layout: Chips of one instance.
        requests: Requests in one instance, in the mean.
        tokens_per_s_per_user: Output tokens per second that a user sees after the first.
        tokens_per_s_per_chip: Output tokens per second over all chips of the instance.
        ttft_s: Time to first token when requests arrive at random [s].
        tpot_s: Time per output token after the first, the same [s].
        holds: Whether it is within the limits.
        is_knee: Whether it is the front's knee.
    """

    layout: serving.Layout
    requests: float
    tokens_per_s_per_user: float
    tokens_per_s_per_chip: float
    ttft_s: float
    tpot_s: float
    holds: bool
    is_knee: bool


def front_rows(points: serving.PlanPoints) -> tuple[FrontRow, ...]:
    """The Pareto front of tokens per second and user against tokens per second and chip, fastest for a user first."""
    columns = points.columns
    rows = np.flatnonzero(points.fits)
    users, chips = columns.tokens_per_s_per_user[rows], columns.tokens_per_s_per_chip[rows]
    # Both span orders of magnitude and are drawn on logarithmic scales, on which the knee is where shares are traded evenly.
    objectives = -np.log(np.column_stack([users, chips]))
    knee = knee_index(objectives)
    on_front = [int(idx) for idx in np.flatnonzero(pareto_mask(objectives))]
    found = [
        FrontRow(
            layout=columns.layouts.at(int(rows[idx])),
            requests=float(columns.requests[rows[idx]]),
            tokens_per_s_per_user=float(users[idx]),
            tokens_per_s_per_chip=float(chips[idx]),
            ttft_s=float(columns.ttft_s[rows[idx]]),
            tpot_s=float(columns.tpot_s[rows[idx]]),
            holds=bool(points.holds[rows[idx]]),
            is_knee=idx == knee,
        )
        for idx in on_front
    ]
    return tuple(sorted(found, key=lambda row: (-row.tokens_per_s_per_user, row.requests)))


def part_document(part: Part) -> PartDocument:
    """A tree of named parts."""
    found: PartDocument = {"name": part.name, "amount": part.amount, "unit": part.unit}
    if part.parts:
        found["rule"] = part.rule
        found["parts"] = [part_document(below) for below in part.parts]
    return found


def service_document(service: serving.Service) -> Json:
    """What is served, on what, and how."""
    engine, traffic = service.engine, service.traffic
    return {
        "model": service.model.name,
        "system": service.fabric.name,
        "chip": service.fabric.arch.name,
        "num_chips": service.fabric.num_chips,
        "quantisation": service.numerics.name,
        "kv_bits": service.numerics.kv_bits,
        "mode": service.chip.mode,
        "calibration": service.chip.calibration or None,
        "isl": traffic.isl,
        "osl": traffic.osl,
        "prefix_hit": traffic.prefix_hit,
        "policy": engine.policy,
        "max_step_tokens": engine.max_step_tokens,
        "max_sequences": engine.max_sequences,
        "front_end_tokens_per_s": engine.front_end_tokens_per_s,
        "draft_tokens": engine.speculation.draft_tokens,
        "acceptance": engine.speculation.acceptance,
        "feed_forward": None if service.feed_forward is None else _pool(service.feed_forward),
    }


def _pool(pool: serving.FeedForwardPool) -> Json:
    return {
        "chip": pool.name,
        "num_chips": pool.num_chips,
        "chips_per_layer": pool.chips_per_layer,
        "micro_batches": pool.micro_batches,
    }


def layout_document(layout: serving.Layout) -> Json:
    """Chips of one instance."""
    return {"tp": layout.tp, "pp": layout.pp, "dp": layout.dp, "ep": layout.ep, "num_chips": layout.num_chips}


def estimate_document(
    service: serving.Service, estimate: serving.ServeEstimate, tested: serving.LoadTest | None = None
) -> Json:
    """One layout at fixed concurrency, and what a load test of it reports where one was run."""
    return {
        "schema_version": SCHEMA_VERSION,
        "service": service_document(service),
        **_estimate(estimate),
        "load_test": None if tested is None else _load_test(tested),
        "notes": list(estimate.notes),
    }


def _load_test(tested: serving.LoadTest) -> Json:
    return {
        "ttft_s": tested.ttft_s,
        "waiting_s": tested.waiting_s,
        "tpot_s": tested.tpot_s,
        "makespan_s": tested.makespan_s,
    }


def _estimate(estimate: serving.ServeEstimate) -> Json:
    return {
        "layout": layout_document(estimate.layout),
        "concurrency": estimate.concurrency,
        "batch": estimate.batch,
        "ttft_s": estimate.ttft.amount,
        "ttft_queued_s": estimate.ttft_queued.amount,
        "ttft_open_s": estimate.arrivals.ttft.amount,
        "ttft_burst_s": estimate.ttft_burst.amount,
        "tpot_s": estimate.tpot.amount,
        "tpot_open_s": estimate.arrivals.tpot.amount,
        "arrivals": _arrivals(estimate.arrivals),
        "latency_s": estimate.latency_s,
        "requests_per_s": estimate.requests_per_s,
        "tokens_per_s": estimate.tokens_per_s,
        "tokens_per_s_per_chip": estimate.tokens_per_s_per_chip,
        "tokens_per_s_per_user": estimate.tokens_per_s_per_user,
        "power_w": estimate.power.amount,
        "joules_per_token": 1 / estimate.tokens_per_j,
        "tokens_per_joule": estimate.tokens_per_j,
        "free_bytes": estimate.free_bytes,
        "parts": [
            part_document(part)
            for part in (
                estimate.ttft,
                estimate.ttft_queued,
                estimate.tpot,
                estimate.arrivals.ttft,
                estimate.arrivals.tpot,
                estimate.power,
                estimate.memory,
            )
        ],
    }


def arrivals_document(service: serving.Service, found: serving.ArrivalEstimate) -> Json:
    """One layout at a rate of arrivals."""
    return {
        "schema_version": SCHEMA_VERSION,
        "service": service_document(service),
        "layout": layout_document(found.layout),
        **_arrivals(found),
        "ttft_open_s": found.ttft.amount,
        "tpot_open_s": found.tpot.amount,
        "parts": [part_document(part) for part in (found.ttft, found.tpot, found.power, found.memory)],
        "notes": list(found.notes),
    }


def _arrivals(found: serving.ArrivalEstimate) -> Json:
    """The rate of random arrivals, and what it leads to."""
    return {
        "requests_per_s": found.requests_per_s,
        "capacity_per_s": found.capacity_per_s,
        "requests": found.requests,
        "power_w": found.power.amount,
    }


def pools_document(service: serving.Service, found: serving.DisaggregatedEstimate) -> Json:
    """Prompts and decoding on instances of their own."""
    return {
        "schema_version": SCHEMA_VERSION,
        "service": service_document(service),
        **_pools(found),
        "num_chips": found.pools.num_chips,
        "parts": [part_document(part) for part in (found.ttft, found.transfer, found.tpot)],
        "notes": list(found.notes),
    }


def _pools(found: serving.DisaggregatedEstimate) -> Json:
    pools = found.pools
    return {
        "prefill": {
            "instances": pools.num_prefill,
            "layout": layout_document(pools.prefill),
            "busy": found.prefill_busy,
        },
        "decode": {"instances": pools.num_decode, "layout": layout_document(pools.decode), "users": found.users},
        "requests_per_s": found.requests_per_s,
        "ttft_s": found.ttft.amount,
        "transfer_s": found.transfer.amount,
        "tpot_s": found.tpot.amount,
        "tokens_per_s_per_user": found.tokens_per_s_per_user,
        "tokens_per_s_per_chip": found.tokens_per_s_per_chip,
    }


def plan_document(service: serving.Service, limits: serving.Limits, plans: serving.Plans) -> Json:
    """The cheapest plan of each way to serve, and the front that the first was chosen from; None where there is no plan."""
    from ..models import serving

    plan = plans.together if isinstance(plans.together, serving.Plan) else None
    apart = plans.apart if isinstance(plans.apart, serving.PoolsPlan) else None
    split = plans.split if isinstance(plans.split, serving.SplitPlan) else None
    return {
        "schema_version": SCHEMA_VERSION,
        "service": service_document(service),
        "limits": _limits(limits),
        "cheapest": plans.cheapest,
        "plan": None if plan is None else _plan(plan),
        "apart": None if apart is None else _apart(apart),
        "split": None if split is None else _split(split),
        "num_points": 0 if plan is None else len(plan.points.fits),
        "front": [] if plan is None else [_front_row(row) for row in front_rows(plan.points)],
        "notes": list(plans_notes(plans)),
    }


def plans_notes(plans: serving.Plans) -> tuple[str, ...]:
    """What is to be said of all plans, each note once."""
    from ..archdsl import Infeasible

    found = (plans.together, plans.apart, plans.split)
    held = [plan for plan in found if plan is not None and not isinstance(plan, Infeasible)]
    return tuple(dict.fromkeys(note for plan in held for note in plan.estimate.notes))


def _plan(plan: serving.Plan) -> Json:
    return {
        "replicas": plan.replicas,
        "num_chips": plan.num_chips,
        "power_w": plan.replicas * plan.estimate.arrivals.power.amount,
        "binding": list(plan.binding),
        "instance": _estimate(plan.estimate),
    }


def _apart(plan: serving.PoolsPlan) -> Json:
    return {"num_chips": plan.num_chips, "binding": list(plan.binding), **_pools(plan.estimate)}


def _split(plan: serving.SplitPlan) -> Json:
    return {
        "replicas": plan.replicas,
        "num_chips": plan.num_chips,
        "num_gpus": plan.num_gpus,
        "binding": list(plan.binding),
        "feed_forward": _pool(plan.pool),
        "instance": _estimate(plan.estimate),
    }


def infeasible_document(infeasible: Infeasible) -> Json:
    """Why nothing fits, with what is missing."""
    from dataclasses import asdict

    return {
        "schema_version": SCHEMA_VERSION,
        "infeasible": {**asdict(infeasible), "missing": infeasible.demand - infeasible.limit},
    }


def _limits(limits: serving.Limits) -> Json:
    return {"requests_per_s": limits.requests_per_s, "ttft_s": limits.ttft_s, "tpot_s": limits.tpot_s}


def _front_row(row: FrontRow) -> Json:
    return {
        "layout": layout_document(row.layout),
        "requests": row.requests,
        "tokens_per_s_per_user": row.tokens_per_s_per_user,
        "tokens_per_s_per_chip": row.tokens_per_s_per_chip,
        "ttft_s": row.ttft_s,
        "tpot_s": row.tpot_s,
        "holds": row.holds,
        "is_knee": row.is_knee,
    }
