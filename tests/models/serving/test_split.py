"""Prompts and decoding on instances of their own; attention and feed-forward networks on chips of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import GpuArch, InfeasibleError, ModelError, kv_bytes, load_arch, num_weights
from tileloom.models.serving import (
    FeedForwardPool,
    Layout,
    Pools,
    layouts_of,
    make_steps,
    pool_of,
    serve,
    serve_disaggregated,
    weights_per_chip,
)
from tileloom.models.serving.heterogeneous import FEED_FORWARD_ROLES

from .conftest import ServiceMaker

LPU = Path(__file__).parent / "lpu.yaml"
POOLS = Pools(prefill=Layout(tp=2), num_prefill=1, decode=Layout(tp=2), num_decode=1)


def pool(num_chips: int = 256, chips_per_layer: int = 256, micro_batches: int = 2) -> FeedForwardPool:
    """LPUs behind a link."""
    return pool_of(
        load_arch(LPU),
        num_chips,
        chips_per_layer=chips_per_layer,
        link_bytes_per_s=400e9,
        link_latency_s=2e-6,
        micro_batches=micro_batches,
    )


def test_decoding_apart_is_faster_than_with_prompts_in_between(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", "16xh100_sxm", isl=4096)
    pools = Pools(prefill=Layout(tp=8), num_prefill=1, decode=Layout(tp=8), num_decode=1)
    apart = serve_disaggregated(made, pools, 4.0)
    together = serve(made, Layout(tp=8), max(1, round(apart.users)))
    assert apart.tpot.amount < together.tpot.amount


def test_users_that_decode_follow_from_littles_law(service: ServiceMaker) -> None:
    found = serve_disaggregated(service(), POOLS, 10.0)
    assert found.users == pytest.approx(10.0 * 255 * found.tpot.parts[0].amount, rel=1e-6)
    assert found.tokens_per_s_per_chip == pytest.approx(10.0 * 256 / 4)


def test_transfer_takes_the_cache_over_the_links_of_the_smaller_side(service: ServiceMaker) -> None:
    made = service()
    moved = kv_bytes(made.model, 1024, 16)
    found = serve_disaggregated(made, POOLS, 1.0)
    assert found.transfer.amount == pytest.approx(1e-6 + moved / (2 * 450e9))
    narrow = replace(POOLS, decode=Layout(tp=1))
    assert serve_disaggregated(made, narrow, 1.0).transfer.amount == pytest.approx(1e-6 + moved / 450e9)


def test_more_instances_for_prompts_wait_less(service: ServiceMaker) -> None:
    few, many = (serve_disaggregated(service(), replace(POOLS, num_prefill=n), 30.0) for n in (1, 3))
    assert many.ttft.amount < few.ttft.amount
    assert many.prefill_busy == pytest.approx(few.prefill_busy / 3)


def test_pools_that_cannot_keep_up_say_what_they_manage(service: ServiceMaker) -> None:
    with pytest.raises(ModelError, match=r"the instances for prompts manage [0-9.]+: use more of them"):
        serve_disaggregated(service(), POOLS, 1000.0)
    with pytest.raises(ModelError, match="both pools need 16 chips; 8xh100_sxm has 8"):
        serve_disaggregated(service(), replace(POOLS, num_prefill=7), 1.0)


def test_prompts_need_the_weights_as_well(service: ServiceMaker) -> None:
    pools = Pools(prefill=Layout(), num_prefill=1, decode=Layout(tp=4), num_decode=1)
    with pytest.raises(InfeasibleError, match=r"llama3\.1_70b: main memory of one h100_sxm \(tp=1"):
        serve_disaggregated(service("llama3.1_70b"), pools, 0.1)


def test_pool_is_what_its_chip_holds_and_multiplies() -> None:
    made = pool()
    assert made.rate("fp8") == 1.2e15
    assert made.rate("bf16") == 0.6e15
    assert made.weight_bytes_per_s == 150e12
    assert made.weight_capacity_bytes == 500_000_000
    h200 = load_arch("h200_sxm")
    assert isinstance(h200, GpuArch)
    gpus = pool_of(h200, 8, chips_per_layer=8, link_bytes_per_s=1e9, link_latency_s=0.0)
    assert gpus.weight_bytes_per_s == 4.8e12
    with pytest.raises(ModelError, match="test_lpu: no datatype 'fp4'"):
        made.rate("fp4")


def test_split_step_is_its_parts_and_no_side_is_overbooked(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", quantisation="fp8", feed_forward=pool())
    steps = make_steps(layouts_of([Layout(tp=4)] * 3), batch=np.array([1.0, 16.0, 128.0]), context_tokens=2000.0)
    found = made.timer.times(steps)
    parts = found.parts_s
    busiest = 2 * np.maximum(parts["attention side"], parts["feed-forward on test_lpu"])
    assert np.all(found.time_s >= busiest)
    assert np.all(parts["waiting for the busier side"] >= 0)
    links = 2 * 80 * (2e-6 + np.array([0.5, 8.0, 64.0]) * 8192 * 2 / 400e9)
    assert np.allclose(parts["between the chips"], links)


def test_feed_forward_at_batch_one_reads_its_weights_once(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", quantisation="fp8", feed_forward=pool(micro_batches=1))
    found = made.timer.times(make_steps(layouts_of([Layout(tp=4)]), batch=1.0, context_tokens=100.0))
    weights = num_weights(made.model, "feed_forward")
    assert found.parts_s["feed-forward on test_lpu"][0] == pytest.approx(weights / (256 * 150e12))


def test_fast_feed_forward_chips_shorten_decoding(service: ServiceMaker) -> None:
    plain = service("llama3.1_70b", quantisation="fp8")
    split = service("llama3.1_70b", quantisation="fp8", feed_forward=pool())
    alone, helped = serve(plain, Layout(tp=4), 8), serve(split, Layout(tp=4), 8)
    assert helped.tpot.amount < alone.tpot.amount
    assert helped.memory.parts[0].amount < 0.3 * alone.memory.parts[0].amount


def test_gpus_hold_no_weights_of_feed_forward_networks(service: ServiceMaker) -> None:
    made = service("deepseek_v3", quantisation="fp8", feed_forward=pool(2048, 256))
    held = weights_per_chip(made.model, made.numerics, layouts_of([Layout()]), FEED_FORWARD_ROLES)[0]
    others = num_weights(made.model) - sum(num_weights(made.model, role) for role in FEED_FORWARD_ROLES)
    assert held < 2 * others


def test_weights_beyond_the_pool_are_refused_with_the_missing_bytes(service: ServiceMaker) -> None:
    made = service("llama3.1_70b", quantisation="fp8", feed_forward=pool(64, 64))
    with pytest.raises(InfeasibleError) as error:
        serve(made, Layout(tp=4), 8)
    answer = error.value.infeasible
    assert answer.demand == num_weights(made.model, "feed_forward")
    assert answer.limit == 64 * 500_000_000
    assert answer.levers[0] == "128 chips for feed-forward networks"


def test_chips_of_a_layer_divide_those_of_the_pool() -> None:
    with pytest.raises(ModelError, match="100 chips are no multiple of the 64 chips of a layer"):
        pool(100, 64)
