"""Random arrivals: against runs step by step, in the limits that have exact answers, and as rates rise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.archdsl import InfeasibleError, ModelError
from tileloom.models.serving import (
    ArrivalModel,
    BatchCurves,
    Engine,
    Layout,
    LoadTest,
    OpenLoop,
    Policy,
    StepCosts,
    Traffic,
    layouts_of,
    price_arrivals,
    run_arrivals,
    serve,
    serve_at_rate,
    serve_columns,
    step_costs,
)

from .conftest import ServiceMaker

COSTS = StepCosts(first_s=10e-3, sequence_s=1e-4, token_s=30e-6, lone_s=10e-3, lone_token_s=30e-6, prompt_s=0.0)
ONE = np.zeros(1, dtype=np.int64)
MANY_SLOTS = 4096


def arrival_model(isl: int, osl: int, policy: Policy = "chunked", slots: int = MANY_SLOTS) -> ArrivalModel:
    """The model with the steps of `COSTS`."""
    engine = Engine(policy=policy, max_sequences=slots)
    batch = np.exp(np.linspace(0, math.log(slots), 64))[None]
    steps = math.ceil(isl / engine.max_step_tokens)
    lone_s = steps * COSTS.lone_s + isl * COSTS.lone_token_s
    prompt_s = isl * COSTS.token_s if policy == "chunked" else lone_s
    curves = BatchCurves(
        decoding=batch,
        decode_step_s=COSTS.first_s + (batch - 1) * COSTS.sequence_s,
        prompt_s=np.full_like(batch, prompt_s),
        request_j=np.zeros_like(batch),
        lone_prompt_s=np.array([lone_s]),
        slots=np.array([float(slots)]),
        decode_parts_s={},
        prompt_parts_s={},
        notes=(),
    )
    return ArrivalModel(curves=curves, engine=engine, traffic=Traffic(isl=isl, osl=osl))


def both(model: ArrivalModel, load: float, total: int = 6000) -> tuple[OpenLoop, LoadTest]:
    """Model and run at a share of the capacity."""
    rate = load * float(model.capacity_per_s[0])
    arrivals_s = np.cumsum(np.random.default_rng(7).exponential(1 / rate, total)).tolist()
    run = run_arrivals(COSTS, model.engine, model.traffic, arrivals_s, warm_up=total // 3)
    return model.at_rate(ONE, np.array([rate])), run


@pytest.mark.parametrize("policy", ["chunked", "prefill_first"])
@pytest.mark.parametrize(("isl", "osl"), [(128, 256), (1024, 256), (1024, 64), (4096, 128), (8192, 256), (16384, 64)])
def test_times_are_those_of_a_run_step_by_step(isl: int, osl: int, policy: Policy) -> None:
    model = arrival_model(isl, osl, policy)
    for load, within in ((0.1, 0.03), (0.3, 0.04), (0.5, 0.08), (0.7, 0.16)):  # runs themselves differ by 5 % at 0.7
        found, run = both(model, load)
        assert float(found.decode_s[0]) / (osl - 1) == pytest.approx(run.tpot_s, rel=within)
        assert float(found.ttft_s[0]) == pytest.approx(run.ttft_s, rel=max(0.1, within))


@pytest.mark.parametrize("policy", ["chunked", "prefill_first"])
@pytest.mark.parametrize("slots", [1, 16, MANY_SLOTS])
@pytest.mark.parametrize(("isl", "osl"), [(128, 256), (32768, 32), (8192, 8), (2048, 2)])
def test_plans_are_on_the_safe_side_where_answers_are_short_or_slots_few(
    isl: int, osl: int, slots: int, policy: Policy
) -> None:
    model = arrival_model(isl, osl, policy, slots)
    for load in (0.1, 0.4, 0.7):
        found, run = both(model, load)
        assert float(found.decode_s[0]) / (osl - 1) >= 0.8 * run.tpot_s
        assert float(found.ttft_s[0]) >= 0.8 * run.ttft_s


def test_one_slot_is_a_queue_with_one_server_of_fixed_time() -> None:
    model = arrival_model(1024, 64, slots=1)
    service_s = 0.010 + 1024 * 30e-6 + 63 * 0.010
    rate = 0.6 / service_s
    found = model.at_rate(ONE, np.array([rate]))
    assert float(found.slot_s[0]) == pytest.approx(
        0.6 * service_s / (2 * 0.4), rel=0.06
    )  # a step of its own is counted, too
    assert float(found.decode_s[0]) == pytest.approx(63 * 0.010)


def test_without_prompts_the_batch_is_that_of_processor_sharing() -> None:
    # Steps of d + (b - 1) e: others are negative binomial, (rs)(d - e + e (1 + N)) = N; Cohen, Acta Informatica 12, 1979.
    model = arrival_model(1, 501)
    rate = 0.8 / (500 * 1e-4)
    found = model.at_rate(ONE, np.array([rate]))
    others = rate * 500 * 0.010 / (1 - rate * 500 * 1e-4)
    assert float(found.decoding[0]) == pytest.approx(1 + others, rel=0.02)


def test_littles_law_holds_at_random_arrivals() -> None:
    model = arrival_model(2048, 128)
    found = model.at_mean(ONE, np.array([20.0]))
    assert float(found.requests[0]) == pytest.approx(20, rel=1e-4)
    again = model.at_rate(ONE, found.requests_per_s)
    assert float(again.requests_per_s[0] * (again.ttft_s + again.decode_s)[0]) == pytest.approx(20, rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(
    isl=st.integers(1, 60_000),
    osl=st.integers(2, 2000),
    slots=st.sampled_from([1, 2, 7, 64, 4096]),
    policy=st.sampled_from(["chunked", "prefill_first"]),
)
def test_a_higher_rate_never_shortens_a_time(isl: int, osl: int, slots: int, policy: Policy) -> None:
    model = arrival_model(isl, osl, policy, slots)
    loads = np.array([1e-9, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1.0])
    found = model.at_rate(np.zeros(len(loads), dtype=np.int64), loads * model.capacity_per_s)
    for times in (found.decode_s[:-1], found.ttft_s[:-1], found.requests[:-1]):
        assert np.all(np.diff(times) >= -1e-6 * times[:-1])
    assert np.all(found.is_stable[:-1]) and not found.is_stable[-1]


def test_arrivals_interrupt_a_user_whom_nobody_disturbs_at_fixed_concurrency(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "8xh100_sxm", isl=16384, osl=64)
    closed = serve(made, Layout(tp=4), 1)
    assert closed.tpot.parts[1].amount == 0
    opened = serve_at_rate(made, Layout(tp=4), 0.5 * closed.requests_per_s)
    assert opened.requests < 1
    assert opened.tpot.amount > 1.2 * closed.tpot.amount


@pytest.mark.parametrize(("isl", "osl", "requests"), [(1024, 256, 24.0), (8192, 256, 4.0), (16384, 128, 1.0)])
def test_priced_steps_agree_with_a_run_step_by_step(isl: int, osl: int, requests: float, service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "8xh100_sxm", isl=isl, osl=osl)
    layouts = layouts_of([Layout(tp=4)])
    found = price_arrivals(made, layouts, made.memory(layouts)).at_mean(ONE, np.array([requests]))
    rate = float(found.requests_per_s[0])
    users = np.array([max(2.0, float(found.loop.decoding[0]))])
    state = serve_columns(made, layouts, users).state
    costs = step_costs(made.timer, layouts, made.engine, made.traffic, state, 0)
    arrivals_s = np.cumsum(np.random.default_rng(3).exponential(1 / rate, 6000)).tolist()
    run = run_arrivals(costs, made.engine, made.traffic, arrivals_s, warm_up=2000)
    assert float(found.tpot_s[0]) == pytest.approx(run.tpot_s, rel=0.07)
    assert float(found.ttft_s[0]) == pytest.approx(run.ttft_s, rel=0.12)


def test_idle_instances_have_the_times_of_one_user(service: ServiceMaker) -> None:
    made = service("llama3.1_70b")
    found, alone = serve_at_rate(made, Layout(tp=4), 1e-6), serve(made, Layout(tp=4), 1)
    assert found.tpot.amount == pytest.approx(alone.tpot.amount, rel=1e-3)
    assert found.ttft.amount == pytest.approx(alone.ttft.amount, rel=1e-3)
    assert found.power.amount == pytest.approx(alone.power.parts[0].amount, rel=1e-3)


def test_a_rate_above_the_capacity_is_refused_with_the_capacity(service: ServiceMaker) -> None:
    made = service("llama3.1_70b")
    capacity = serve_at_rate(made, Layout(tp=4), 1.0).capacity_per_s
    with pytest.raises(
        ModelError, match=f"100 requests/s at random; .* sustains less than {capacity:.3g}: lower the rate"
    ):
        serve_at_rate(made, Layout(tp=4), 100.0)
    assert serve_at_rate(made, Layout(tp=4), 0.95 * capacity).requests < 10_000
    with pytest.raises(ModelError, match="rate nan is not a number above 0"):
        serve_at_rate(made, Layout(tp=4), math.nan)
    with pytest.raises(InfeasibleError):
        serve_at_rate(made, Layout(), 1.0)


def test_a_front_end_bounds_the_capacity(service: ServiceMaker) -> None:
    made = service(front_end_tokens_per_s=1000.0)
    found = serve_at_rate(made, Layout(), 3.0)
    assert found.capacity_per_s == pytest.approx(1000 / 256)
    assert next(part.amount for part in found.ttft.parts if part.name == "front end") > 0
