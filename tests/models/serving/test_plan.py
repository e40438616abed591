"""Plans: the same as trying every layout and batch one by one, what binds, and why there is none."""

from __future__ import annotations

import time

import pytest

from tileloom.archdsl import Infeasible, InfeasibleError, ModelError
from tileloom.models.serving import Layout, Limits, Plan, Service, make_plan, search_rates, serve_at_rate

from .conftest import ServiceMaker

LIMITS = Limits(requests_per_s=3.0, ttft_s=1.0, tpot_s=0.04)


def brute_force(service: Service, limits: Limits, layouts: list[Layout]) -> tuple[int, float] | None:
    """Fewest chips, and the least TPOT among those, by one estimate at a time."""
    found: list[tuple[int, float]] = []
    for layout in layouts:
        for replicas in range(1, service.fabric.num_chips // layout.num_chips + 1):
            try:
                one = serve_at_rate(service, layout, limits.requests_per_s / replicas)
            except (InfeasibleError, ModelError):
                continue
            if (limits.ttft_s is None or one.ttft.amount <= limits.ttft_s) and (
                limits.tpot_s is None or one.tpot.amount <= limits.tpot_s
            ):
                found.append((replicas * layout.num_chips, one.tpot.amount))
                break
    return min(found, default=None)


@pytest.mark.parametrize(
    "limits",
    [
        LIMITS,
        Limits(requests_per_s=0.5),
        Limits(requests_per_s=8.0, tpot_s=0.03),
        Limits(requests_per_s=1.0, ttft_s=0.1),
    ],
)
def test_plan_is_that_of_brute_force(limits: Limits, service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "16xh100_sxm", isl=2048)
    layouts = [Layout(tp=tp, pp=pp) for tp in (2, 4, 8) for pp in (1, 2)]
    plan = make_plan(made, limits, layouts)
    expected = brute_force(made, limits, layouts)
    if expected is None:
        assert isinstance(plan, Infeasible)
    else:
        assert isinstance(plan, Plan)
        assert (plan.num_chips, plan.estimate.arrivals.tpot.amount) == expected


def test_plan_with_experts_is_that_of_brute_force(service: ServiceMaker) -> None:
    made = service("gpt_oss_120b", "4xh200_sxm")
    layouts = [Layout(tp=4, ep=4), Layout(tp=1, dp=4, ep=4), Layout(tp=2, dp=2, ep=4), Layout(tp=2)]
    limits = Limits(requests_per_s=10.0, tpot_s=0.02)
    plan = make_plan(made, limits, layouts)
    assert isinstance(plan, Plan)
    assert (plan.num_chips, plan.estimate.arrivals.tpot.amount) == brute_force(made, limits, layouts)


def test_plan_holds_its_limits(service: ServiceMaker) -> None:
    plan = make_plan(service("llama3.1_70b", "64xh100_sxm"), Limits(requests_per_s=20, ttft_s=0.5, tpot_s=0.025))
    assert isinstance(plan, Plan)
    assert plan.estimate.arrivals.ttft.amount <= 0.5
    assert plan.estimate.arrivals.tpot.amount <= 0.025
    assert plan.replicas * plan.estimate.arrivals.requests_per_s == pytest.approx(20)
    assert plan.num_chips == plan.replicas * plan.estimate.layout.num_chips <= 64


def test_binding_limit_is_the_one_whose_absence_saves_chips(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "64xh100_sxm")
    strict = make_plan(made, Limits(requests_per_s=20, tpot_s=0.025))
    loose = make_plan(made, Limits(requests_per_s=20))
    assert isinstance(strict, Plan) and isinstance(loose, Plan)
    assert loose.num_chips < strict.num_chips
    assert "tpot" in strict.binding
    assert "tpot" not in loose.binding


def test_limits_that_cost_chips_only_together_are_both_named(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "16xh100_sxm", isl=2048)
    limits = Limits(requests_per_s=0.1, ttft_s=1.0, tpot_s=0.02)
    both, none = make_plan(made, limits), make_plan(made, Limits(requests_per_s=0.1))
    assert isinstance(both, Plan) and isinstance(none, Plan)
    assert none.num_chips < both.num_chips
    assert both.binding == ("ttft", "tpot")


def test_tighter_limits_never_need_fewer_chips(service: ServiceMaker) -> None:
    made = service("llama3.1_8b", "64xh200_sxm")
    chips: list[int] = []
    for tpot_s in (0.05, 0.02, 0.01, 0.006):
        plan = make_plan(made, Limits(requests_per_s=40, tpot_s=tpot_s))
        assert isinstance(plan, Plan)
        chips.append(plan.num_chips)
    assert chips == sorted(chips)


@pytest.mark.parametrize(
    ("model", "system", "limits", "resource", "unit"),
    [
        ("llama3.1_405b", "h100_sxm", Limits(requests_per_s=1), "main memory of one h100_sxm", "bytes"),
        ("llama3.1_70b", "8xh100_sxm", Limits(requests_per_s=1, tpot_s=1e-3), "TPOT, least of all layouts", "us"),
        ("llama3.1_70b", "8xh100_sxm", Limits(requests_per_s=1, ttft_s=1e-3), "TTFT, least of all layouts", "us"),
        ("llama3.1_70b", "8xh100_sxm", Limits(requests_per_s=500), "chips of 8xh100_sxm", "chips"),
    ],
)
def test_why_there_is_no_plan(
    model: str, system: str, limits: Limits, resource: str, unit: str, service: ServiceMaker
) -> None:
    answer = make_plan(service(model, system), limits)
    assert isinstance(answer, Infeasible)
    assert answer.resource.startswith(resource)
    assert answer.unit == unit
    assert answer.demand > answer.limit
    assert answer.levers


def test_points_of_a_plan_are_the_estimates_of_each(service: ServiceMaker) -> None:
    made = service("llama3.1_8b", "2xh100_sxm")
    points = search_rates(made, LIMITS, [Layout(), Layout(tp=2)]).points(best=1, replicas=2)
    assert float(points.columns.requests_per_s[-1]) == LIMITS.requests_per_s / 2
    for idx in range(0, len(points.fits), 7):
        rate = float(points.columns.requests_per_s[idx])
        one = serve_at_rate(made, points.columns.layouts.at(idx), rate)
        assert one.tpot.amount == pytest.approx(float(points.columns.tpot_s[idx]), rel=1e-9)
        assert one.ttft.amount == pytest.approx(float(points.columns.ttft_s[idx]), rel=1e-9)


def test_rate_must_be_above_zero() -> None:
    with pytest.raises(ModelError, match="rate 0 is not a number above 0"):
        Limits(requests_per_s=0.0)


def test_plan_of_a_70b_model_takes_at_most_two_seconds(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "64xh100_sxm")
    start = time.process_time()
    make_plan(made, LIMITS)
    assert time.process_time() - start < 2.0
