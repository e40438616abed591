"""Serving at fixed concurrency: conservation, queueing, memory and refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tileloom.archdsl import InfeasibleError, ModelError, load_language_model
from tileloom.models.parts import Part
from tileloom.models.serving import (
    Layout,
    Speculation,
    fabric_of_chips,
    layout_faults,
    layouts_of,
    load_fabric,
    make_service,
    numerics_of,
    possible_layouts,
    serve,
    serve_columns,
    weight_bytes,
    weights_per_chip,
)

from .conftest import ServiceMaker, with_memory_bandwidth, with_scheduler


def adds_up(part: Part) -> bool:
    below = math.fsum(one.amount for one in part.parts)
    return not part.parts or (math.isclose(part.amount, below, abs_tol=1e-12) and all(map(adds_up, part.parts)))


def test_littles_law_holds_at_fixed_concurrency(service: ServiceMaker) -> None:
    for concurrency in (1, 7, 64):
        found = serve(service(), Layout(tp=2), concurrency)
        assert found.requests_per_s * found.latency_s == pytest.approx(concurrency)
        assert found.latency_s == pytest.approx(found.ttft_queued.amount + 255 * found.tpot.amount)


def test_tokens_are_conserved(service: ServiceMaker) -> None:
    # Every step gains one token per sequence that decodes; every request gains its osl - 1 tokens in such steps.
    made = service(osl=512)
    columns = serve_columns(made, layouts_of([Layout()]), np.array([32.0]))
    state = columns.state
    decoding = state.batch * state.steps_per_request / (state.steps_per_request + 1)  # one chunk a prompt
    steps_per_s = 1 / state.step_s
    per_request = columns.requests_per_s * 511
    assert float((decoding * steps_per_s)[0]) == pytest.approx(float(per_request[0]), rel=0.02)


def test_rates_per_user_and_chip_follow_from_times(service: ServiceMaker) -> None:
    found = serve(service(), Layout(tp=4), 16)
    assert found.tokens_per_s_per_user == pytest.approx(1 / found.tpot.amount)
    assert found.tokens_per_s_per_chip == pytest.approx(found.tokens_per_s / 4)
    assert found.tokens_per_s == pytest.approx(256 * found.requests_per_s)


def test_every_result_is_a_tree_that_adds_up(service: ServiceMaker) -> None:
    made = with_scheduler(service("mixtral_8x22b", "8xh200_sxm"), 20e-6)
    found = serve(made, Layout(tp=8, ep=8), 48)
    for part in (
        found.tpot,
        found.ttft,
        found.ttft_queued,
        found.arrivals.ttft,
        found.arrivals.tpot,
        found.ttft_burst,
        found.memory,
        found.power,
    ):
        assert adds_up(part)
    assert {part.name for part in found.tpot.parts} == {"decoding", "prompts of others"}


def test_one_user_waits_for_nobody(service: ServiceMaker) -> None:
    found = serve(service(), Layout(), 1)
    assert found.tpot.parts[1].amount == 0
    assert found.ttft_queued.amount >= found.ttft.amount
    assert found.ttft_burst.amount == found.ttft.amount


def test_more_users_are_slower_for_each_and_faster_in_all(service: ServiceMaker) -> None:
    columns = serve_columns(service(), layouts_of([Layout()] * 6), np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]))
    assert np.all(np.diff(columns.tpot_s) > 0)
    assert np.all(np.diff(columns.ttft_queued_s) > 0)
    assert np.all(np.diff(columns.tokens_per_s) > 0)


@pytest.mark.parametrize("system", ["8xh100_sxm", "8xb200", "8xa100_sxm"])
@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_on_several_chips_times_fall_with_users_only_where_kernels_change(
    tp: int, system: str, service: ServiceMaker
) -> None:
    made = service("llama3.1_8b", system)
    users = np.arange(1.0, 400.0)
    columns = serve_columns(made, layouts_of([Layout(tp=tp)] * len(users)), users)
    parts = columns.state.decode_parts_s
    sums = parts.get("all-reduce", np.zeros_like(users))
    # The library takes another kernel above some size, by its own table, and that may be the faster one (docs/serving.md).
    falls = np.maximum(0.0, -np.diff(sums))
    assert np.sum(falls > 0.02 * sums[:-1]) <= 2
    steps = columns.state.decode_step_s
    assert np.all(np.diff(steps) + falls >= -0.05 * steps[:-1])  # products and attention, too, change how they are made
    assert np.all(columns.tpot_s >= np.maximum.accumulate(columns.tpot_s) * (1 - 0.06))


def test_more_memory_bandwidth_is_never_slower(service: ServiceMaker) -> None:
    made = service("llama3.1_70b")
    plain, faster = serve(made, Layout(tp=4), 32), serve(with_memory_bandwidth(made, 1.5), Layout(tp=4), 32)
    assert faster.tpot.amount < plain.tpot.amount
    assert faster.ttft.amount <= plain.ttft.amount


@pytest.mark.parametrize("policy", ["chunked", "prefill_first"])
@pytest.mark.parametrize(("isl", "osl"), [(1024, 256), (16384, 64), (128, 1024)])
def test_a_round_has_every_prompt_and_every_step_once(isl: int, osl: int, policy: str, service: ServiceMaker) -> None:
    # From one request of a user to the next, each user's prompt is worked on once, whether one waits for it or meets it.
    users = np.array([1.0, 2.0, 5.0, 16.0])
    columns = serve_columns(service(isl=isl, osl=osl, policy=policy), layouts_of([Layout(tp=2)] * 4), users)
    state = columns.state
    own_steps = np.ceil(isl / (8192 - state.batch)) if policy == "chunked" else 0
    decoding_s = (state.steps_per_request + own_steps) * state.decode_step_s
    assert columns.latency_s == pytest.approx(users * state.prompt_s + decoding_s, rel=1e-9)


def test_long_prompts_of_more_users_never_lower_the_rate(service: ServiceMaker) -> None:
    users = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0])
    columns = serve_columns(service("gpt_oss_120b", isl=16384, osl=64), layouts_of([Layout()] * 6), users)
    assert np.all(np.diff(columns.requests_per_s) > 0)
    assert np.all(columns.requests_per_s * columns.state.prompt_s < 1)


def test_nobody_waits_less_than_no_time_where_larger_steps_are_faster(service: ServiceMaker) -> None:
    made = service("llama3.1_8b", "8xb200", quantisation="fp4", isl=128, osl=1024)
    columns = serve_columns(made, layouts_of([Layout(tp=8)] * 3), np.array([192.0, 256.0, 384.0]))
    assert np.any(columns.state.prompt_s < 0)  # a larger product with a better tile
    assert np.all(columns.waiting.total_s >= 0)
    assert np.all(columns.arrivals.ttft_s >= 0)
    assert np.all(columns.ttft_queued_s > 0)


def test_cached_prefixes_shorten_prompts(service: ServiceMaker) -> None:
    cold, warm = (serve(service(isl=4096, prefix_hit=hit), Layout(), 8) for hit in (0.0, 0.75))
    assert warm.ttft.amount < 0.4 * cold.ttft.amount
    assert warm.tpot.amount < cold.tpot.amount


def test_prompts_first_costs_decoders_more_than_chunks(service: ServiceMaker) -> None:
    chunked, first = (serve(service(policy=policy), Layout(), 32) for policy in ("chunked", "prefill_first"))
    assert first.tpot.amount > chunked.tpot.amount


def test_small_steps_make_users_wait_for_room(service: ServiceMaker) -> None:
    found = serve(service(max_step_tokens=64), Layout(), 64)
    assert found.batch == pytest.approx(1 + 255 / ((255 + 1024) / 64))  # one prompt at a time, over 20 steps
    assert found.ttft_queued.parts[0].name == "room in the batch"
    assert found.ttft_queued.parts[0].amount > 0
    assert found.requests_per_s * found.latency_s == pytest.approx(64)


def test_scheduler_adds_its_time_per_sequence(service: ServiceMaker) -> None:
    made = service(isl=1, osl=1000)
    plain, slow = serve(made, Layout(), 10), serve(with_scheduler(made, 1e-4), Layout(), 10)
    assert slow.tpot.amount - plain.tpot.amount == pytest.approx(10 * 1e-4, rel=0.02)


@pytest.mark.parametrize("system", ["8xh100_sxm", "8xb200", "8xh200_sxm"])
def test_constants_of_frameworks_are_usual(system: str, service: ServiceMaker) -> None:
    assert service(system=system, mode="calibrated").chip.calibration == "frameworks_warm"
    assert service(system=system).chip.calibration == ""


def test_pipeline_divides_users_over_its_slots(service: ServiceMaker) -> None:
    found = serve(service("llama3.1_70b"), Layout(tp=2, pp=4), 64)
    assert found.batch == 16


def test_a_user_alone_has_a_slot_for_itself(service: ServiceMaker) -> None:
    found = serve(service("llama3.1_70b"), Layout(tp=2, pp=4), 1)
    assert found.batch == 1
    assert found.requests_per_s * found.latency_s == pytest.approx(1)


def test_speculation_gains_the_expected_tokens() -> None:
    assert Speculation().tokens_per_step == 1
    assert Speculation(draft_tokens=3, acceptance=0.5).tokens_per_step == 1 + 0.5 + 0.25 + 0.125
    with pytest.raises(ModelError, match="acceptance 1 is not between 0 and 1"):
        Speculation(draft_tokens=2, acceptance=1.0)


def test_accepted_drafts_speed_up_and_rejected_ones_slow_down(service: ServiceMaker) -> None:
    plain = serve(service(), Layout(), 4).tpot.amount
    good = serve(service(speculation=Speculation(draft_tokens=4, acceptance=0.8)), Layout(), 4).tpot.amount
    bad = serve(service(speculation=Speculation(draft_tokens=4, draft_share=0.1)), Layout(), 4).tpot.amount
    assert good < 0.5 * plain < plain < bad


def test_weights_of_four_bits_are_multiplied_in_bf16() -> None:
    published = numerics_of(load_language_model("llama3.1_8b").model_copy(update={"datatype": "int4"}))
    assert (published.datatype, published.weight_bits) == ("bf16", 4)


def test_tensor_parallelism_never_adds_weights_to_a_chip() -> None:
    for name in ("llama3.1_70b", "deepseek_v3", "gpt_oss_120b"):
        model = load_language_model(name)
        layouts = layouts_of([Layout(tp=tp) for tp in (1, 2, 4, 8, 16)])
        held = weights_per_chip(model, numerics_of(model), layouts)
        assert np.all(np.diff(held) < 0)
        assert held[0] == pytest.approx(weight_bytes(model, numerics_of(model)))


def test_experts_are_held_once_by_the_chips_that_share_them() -> None:
    model = load_language_model("deepseek_v3")
    numerics = numerics_of(model)
    alone, shared = weights_per_chip(model, numerics, layouts_of([Layout(dp=8), Layout(dp=8, ep=8)]))
    experts = weight_bytes(model, numerics, frozenset({"experts"}))
    assert alone - shared == pytest.approx(experts * 7 / 8)


def test_model_that_does_not_fit_is_refused_with_the_missing_bytes(service: ServiceMaker) -> None:
    with pytest.raises(InfeasibleError) as error:
        serve(service("llama3.1_405b", "h100_sxm"), Layout(), 1)
    answer = error.value.infeasible
    assert answer.unit == "bytes"
    assert answer.demand == sum(amount for _, amount in answer.terms)
    assert dict(answer.terms)["weights"] == 2 * 405_853_388_800
    assert answer.levers[0] == f"{answer.demand - 80_000_000_000:,} bytes more per chip"
    assert str(answer).startswith("llama3.1_405b: main memory of one h100_sxm (tp=1 pp=1 dp=1 ep=1): needs 8")


def test_cache_that_does_not_fit_names_how_many_sequences_would(service: ServiceMaker) -> None:
    with pytest.raises(InfeasibleError) as error:
        serve(service(isl=8192, osl=1024), Layout(), 200)
    assert "at most 45 sequences in the cache of a chip" in error.value.infeasible.levers[-1]
    assert serve(service(isl=8192, osl=1024), Layout(), 45).free_bytes >= 0


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (Layout(tp=3), "tp=3 neither divides nor is a multiple of the key-value heads; tp may be 1, 2, 4, 8, 16, 32"),
        (Layout(tp=16), "needs 16 chips; 8xh100_sxm has 8"),
        (Layout(pp=33), "pp=33 is above the 32 layers of llama3.1_8b"),
        (Layout(ep=2), "ep=2, and llama3.1_8b has no experts"),
    ],
)
def test_impossible_layout_is_told(layout: Layout, message: str, service: ServiceMaker) -> None:
    with pytest.raises(ModelError, match=message.replace(".", r"\.")):
        serve(service(), layout, 1)


def test_context_beyond_the_model_is_an_error(service: ServiceMaker) -> None:
    with pytest.raises(ModelError, match=r"isl \+ osl = 131,328 tokens; llama3.1_8b was made for 131,072"):
        serve(service(isl=131_072, osl=256), Layout(), 1)


def test_every_possible_layout_is_possible() -> None:
    for name in ("llama3.1_70b", "deepseek_v3"):
        model = load_language_model(name)
        found = possible_layouts(model, 16)
        assert len(set(found)) == len(found)
        assert all(layout.num_chips <= 16 and not layout_faults(model, layout) for layout in found)
    assert Layout(tp=2, dp=8, ep=16) in found


def test_unknown_datatype_generation_and_quantisation_are_errors(service: ServiceMaker) -> None:
    with pytest.raises(ModelError, match="unknown quantisation 'fp7'; did you mean"):
        service(quantisation="fp7")
    with pytest.raises(
        ModelError,
        match="llama3.1_8b in fp8: the tensor cores of a100_sxm have no fp8 .*choose --quantisation bf16, int8, int8_weights, int4",
    ):
        serve(service(system="8xa100_sxm", quantisation="fp8"), Layout(), 1)
    arch = load_fabric("h100_sxm").arch.model_copy(update={"generation": "hoper"})
    with pytest.raises(ModelError, match="links of generation 'hoper' are not known; did you mean 'hopper'"):
        fabric_of_chips(arch, 2)


def test_numbers_out_of_range_are_told(service: ServiceMaker) -> None:
    made = service()
    bad = replace(made.traffic, prefix_hit=1.0)
    with pytest.raises(ModelError, match="prefix hit 1 is not between 0 and 1"):
        make_service(made.model, made.numerics, made.fabric, made.engine, bad)
    with pytest.raises(ModelError, match="osl 1 is below 2"):
        service(osl=1)
    with pytest.raises(ModelError, match="load imbalance 0.5 is below 1"):
        service(load_imbalance=0.5)


def test_power_lies_between_idle_and_the_limit(service: ServiceMaker) -> None:
    for concurrency in (1, 128):
        found = serve(service(), Layout(), concurrency)
        assert 123 < found.power.amount <= 700


def test_power_is_idle_power_and_the_energy_of_kernels_over_their_time(service: ServiceMaker) -> None:
    made = service("llama3.1_70b")
    columns = serve_columns(made, layouts_of([Layout(tp=4)]), np.array([16.0]))
    found = serve(made, Layout(tp=4), 16)
    assert found.power.parts[0].amount == 4 * 123
    per_step = columns.state.dynamic_j_per_step / columns.state.step_s
    assert found.power.parts[1].amount == pytest.approx(4 * float(per_step[0]))
    assert found.tokens_per_j == pytest.approx(found.tokens_per_s / found.power.amount)


def test_kernels_that_would_draw_more_than_the_limit_are_told(service: ServiceMaker) -> None:
    found = serve(service(isl=64, osl=64), Layout(), 512)
    assert found.power.amount == pytest.approx(700)
    assert any("kernels would draw" in note and "of 700 W" in note for note in found.notes)


def test_a_pipeline_with_few_users_draws_less(service: ServiceMaker) -> None:
    made = service("llama3.1_70b")
    few, many = (serve(made, Layout(tp=2, pp=4), users).power.amount for users in (1, 4))
    assert 8 * 123 < few < many


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["llama3.1_8b", "mixtral_8x22b", "gpt_oss_120b"]),
    users=st.integers(1, 1000),
    more=st.integers(1, 1000),
    isl=st.integers(1, 8192),
    longer=st.integers(1, 8192),
)
def test_times_never_fall_with_users_or_prompts(
    name: str, users: int, more: int, isl: int, longer: int, service: ServiceMaker
) -> None:
    short, long = service(name, isl=isl), service(name, isl=isl + longer)
    # On one chip: an all-reduce that changes its algorithm with the batch may gain more than the batch costs.
    layouts = layouts_of([Layout()] * 2)
    few = serve_columns(short, layouts, np.array([float(users), float(users + more)]))
    for times in (few.tpot_s, few.ttft_queued_s, few.arrivals.ttft_s, few.arrivals.tpot_s):
        assert times[1] >= times[0] * (1 - 0.01)  # kernels, too, change how they are made
    far = serve_columns(long, layouts, np.array([float(users), float(users + more)]))
    # A batch that steps bound is smaller with longer prompts, and then each of its steps is shorter.
    assert far.ttft_s[0] >= few.ttft_s[0] * (1 - 0.01)
    assert np.all(far.latency_s >= few.latency_s * (1 - 0.01))
    assert np.all(far.memory.kv_per_sequence >= few.memory.kv_per_sequence)
