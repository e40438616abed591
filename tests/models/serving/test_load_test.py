"""Load tests step by step: worked by hand, users always in the system, and the burst at the beginning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.models.serving import (
    Engine,
    Layout,
    LoadTest,
    StepCosts,
    Traffic,
    layouts_of,
    run_load_test,
    serve_columns,
)

from .conftest import ServiceMaker

COSTS = StepCosts(first_s=1.0, sequence_s=0.0, token_s=0.1, lone_s=0.0, lone_token_s=0.1, prompt_s=0.0)
TRAFFIC = Traffic(isl=10, osl=3)


def means(found: LoadTest) -> tuple[float, float, float, float]:
    return found.waiting_s, found.own_s, found.tpot_s, found.makespan_s


@pytest.mark.parametrize(
    ("engine", "waiting_s", "own_s", "tpot_s", "makespan_s"),
    [
        # A: 1 s of prompt, then two steps with 9 and 1 tokens of B beside it; B: 1 s late, three steps, then alone for 2 s.
        (Engine(max_step_tokens=10), 0.5, 2.0, 1.25, 6.0),
        # Both prompts, then two steps together.
        (Engine(max_step_tokens=10, policy="prefill_first"), 0.5, 1.0, 1.25, 4.0),
        # Both prompts in one step.
        (Engine(max_step_tokens=20), 0.0, 2.0, 1.0, 4.0),
        # Each token takes a second on its way, two of a step 1.5 in the mean: asked for at 2, they come until 4, 6 and 8.
        (Engine(max_step_tokens=20, front_end_tokens_per_s=1), 0.0, 3.0, 2.0, 8.0),
        # B waits until A is answered.
        (Engine(max_step_tokens=20, max_sequences=1), 1.5, 1.0, 1.0, 6.0),
    ],
)
def test_two_users_as_worked_by_hand(
    engine: Engine, waiting_s: float, own_s: float, tpot_s: float, makespan_s: float
) -> None:
    found = run_load_test(COSTS, engine, TRAFFIC, users=2, requests_per_user=1)
    assert means(found) == pytest.approx((waiting_s, own_s, tpot_s, makespan_s))


@settings(max_examples=40, deadline=None)
@given(
    users=st.integers(1, 12),
    osl=st.integers(2, 40),
    room=st.integers(8, 64),
    slots=st.integers(1, 12),
    policy=st.sampled_from(["chunked", "prefill_first"]),
)
def test_users_are_in_the_system_until_their_last_answer(
    users: int, osl: int, room: int, slots: int, policy: str
) -> None:
    engine = Engine(
        max_step_tokens=room, max_sequences=slots, policy="chunked" if policy == "chunked" else "prefill_first"
    )
    found = run_load_test(COSTS, engine, Traffic(isl=10, osl=osl), users, requests_per_user=8)
    latency_s = found.ttft_s + (osl - 1) * found.tpot_s
    # Little's law: a user is idle only after its last answer, at most one round of eight.
    in_system = 8 * users * latency_s / found.makespan_s
    assert 7 / 8 * users - 1 <= in_system <= users * (1 + 1e-9)


def test_fewer_slots_make_users_wait() -> None:
    waits = [
        run_load_test(COSTS, Engine(max_sequences=slots), Traffic(isl=10, osl=50), users=8).waiting_s
        for slots in (8, 7, 4, 1)
    ]
    assert waits == sorted(waits)
    # One of eight too many: each waits for one of seven to end, by Little's law.
    assert waits[1] == pytest.approx(49 / 7, rel=0.15)


def test_load_test_of_one_user_is_the_idle_instance(service: ServiceMaker) -> None:
    columns = serve_columns(service(), layouts_of([Layout(), Layout(tp=4)]), np.array([1.0, 1.0]))
    for idx in range(2):
        found = columns.load_test(idx)
        assert found.waiting_s == 0
        assert found.ttft_s == pytest.approx(float(columns.ttft_s[idx]))
        assert found.tpot_s == pytest.approx(float(columns.tpot_s[idx]), rel=1e-4)


def test_a_burst_makes_users_wait_longer_than_a_steady_state(service: ServiceMaker) -> None:
    columns = serve_columns(service(), layouts_of([Layout()]), np.array([64.0]))
    found = columns.load_test(0)
    assert found.ttft_s > float(columns.ttft_queued_s[0])
    latency_s = found.ttft_s + 255 * found.tpot_s
    assert latency_s == pytest.approx(float(columns.latency_s[0]), rel=0.1)  # the same work, shared out otherwise


def test_a_front_end_carries_no_more_than_its_rate(service: ServiceMaker) -> None:
    made = service(front_end_tokens_per_s=2000.0)
    columns = serve_columns(made, layouts_of([Layout()]), np.array([64.0]))
    found = columns.load_test(0)
    assert (
        1600 < 64 * 10 * 256 / found.makespan_s <= 2000
    )  # users keep together, so it idles while prompts are worked on
    assert float(columns.tokens_per_s[0]) == pytest.approx(2000)
    free = serve_columns(service(), layouts_of([Layout()]), np.array([64.0]))
    assert found.ttft_s > 2 * free.load_test(0).ttft_s
    assert found.tpot_s == pytest.approx(64 / 2000, rel=0.1)
    wide = serve_columns(service(front_end_tokens_per_s=1e9), layouts_of([Layout()]), np.array([64.0]))
    assert wide.load_test(0).ttft_s == pytest.approx(free.load_test(0).ttft_s, rel=0.02)
