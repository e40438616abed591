"""Steps of an engine: work, bytes and times of the kernels that they are made of."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from tileloom.archdsl import list_language_models, load_language_model, load_system, num_active_weights
from tileloom.models.gpu.energy import byte_energy_j, op_energy_j
from tileloom.models.serving import GpuStepTimer, Layout, layouts_of, load_fabric, make_steps, numerics_of
from tileloom.models.serving.exchanges import exchange_times
from tileloom.models.serving.graph import step_ops
from tileloom.models.serving.ops import Attention, Exchange, GroupedProduct, Product
from tileloom.models.systems import Collectives, has_calibration, make_machine

from .conftest import ServiceMaker, with_memory_bandwidth, with_scheduler

ONE = layouts_of([Layout()])


def test_products_of_a_token_meet_every_active_weight_once() -> None:
    # All but norms, biases and sinks take part in products; the output projection runs once a sequence.
    for name in ("llama3.1_8b", "qwen3_32b", "mixtral_8x22b"):
        model = load_language_model(name)
        ops = step_ops(model, numerics_of(model), make_steps(ONE, batch=1.0, context_tokens=100.0))
        weights = 0.0
        for op in ops:
            if isinstance(op, Product):
                weights += float((op.m * op.n * op.k * op.copies)[0])
            elif isinstance(op, GroupedProduct):
                weights += float((op.rows * op.n * op.k * op.copies)[0])
        assert weights == pytest.approx(num_active_weights(model), rel=1e-3)


def test_decoding_reads_the_whole_cache_once() -> None:
    model = load_language_model("llama3.1_8b")
    ops = step_ops(model, numerics_of(model), make_steps(ONE, batch=4.0, context_tokens=1000.0))
    read = sum(float((op.kv_bytes * op.copies)[0]) for op in ops if isinstance(op, Attention))
    assert read == 4 * 1000 * 131_072


def test_windowed_layers_read_their_window_only() -> None:
    model = load_language_model("gpt_oss_120b")
    ops = step_ops(model, numerics_of(model, kv="fp8"), make_steps(ONE, batch=1.0, context_tokens=65_536.0))
    read = sum(float((op.kv_bytes * op.copies)[0]) for op in ops if isinstance(op, Attention))
    assert read == 1_210_318_848


def test_causal_attention_of_a_prompt_in_chunks_is_that_of_the_whole_prompt() -> None:
    model = load_language_model("gpt_oss_120b")  # with and without windows
    numerics = numerics_of(model)

    def pairs(tokens: float, past: float) -> float:
        ops = step_ops(model, numerics, make_steps(ONE, prompt_tokens=tokens, past_tokens=past))
        return sum(float((op.ops * op.copies)[0]) for op in ops if isinstance(op, Attention))

    assert pairs(1000.0, 0.0) == pytest.approx(pairs(300.0, 0.0) + pairs(700.0, 300.0))


def test_hand_worked_causal_pairs() -> None:
    model = load_language_model("llama3.1_8b")
    ops = step_ops(model, numerics_of(model), make_steps(ONE, prompt_tokens=3.0, past_tokens=10.0))
    work = sum(float((op.ops * op.copies)[0]) for op in ops if isinstance(op, Attention))
    assert work == 32 * (11 + 12 + 13) * 32 * 4 * 128  # layers, pairs, heads, 2 products of 128 MACs


def test_experts_touched_grow_from_top_k_to_all() -> None:
    model = load_language_model("mixtral_8x22b")

    def touched(batch: float) -> float:
        ops = step_ops(model, numerics_of(model), make_steps(ONE, batch=batch, context_tokens=1.0))
        return float(next(op for op in ops if isinstance(op, GroupedProduct)).experts[0])

    assert touched(1.0) == pytest.approx(2.0)
    assert touched(2.0) == pytest.approx(8 * (1 - 0.75**2))
    assert touched(1000.0) == pytest.approx(8.0)


def test_experts_over_all_groups_exchange_tokens_and_need_no_sum_without_tp() -> None:
    model = load_language_model("deepseek_v3")
    layouts = layouts_of([Layout(tp=1, dp=8, ep=8)])
    ops = step_ops(model, numerics_of(model), make_steps(layouts, batch=16.0, context_tokens=100.0))
    exchanges = {op.name: op for op in ops if isinstance(op, Exchange)}
    tokens = exchanges["tokens to experts and back"]
    assert float(tokens.payload_bytes[0]) == 16 * 8 * 7168 * 2
    assert float(tokens.copies[0]) == 2 * 58
    assert float(exchanges["after experts"].group[0]) == 1


@pytest.mark.parametrize("name", list_language_models())
def test_more_memory_bandwidth_is_never_slower(name: str, service: ServiceMaker) -> None:
    plain = service(name)
    layouts = layouts_of([Layout(tp=8), Layout(tp=4, pp=2), Layout(pp=8)])
    steps = make_steps(layouts, prompt_tokens=512.0, batch=16.0, context_tokens=2000.0)
    faster = with_memory_bandwidth(plain, 2.0)
    assert np.all(faster.timer.times(steps).time_s <= plain.timer.times(steps).time_s + 1e-12)


def test_time_is_never_below_weights_over_the_bandwidth(service: ServiceMaker) -> None:
    found = service("llama3.1_70b")
    layouts = layouts_of([Layout(tp=tp) for tp in (1, 2, 4, 8)])
    times = found.timer.times(make_steps(layouts, batch=1.0, context_tokens=1.0))
    weights = num_active_weights(found.model) * 2 / layouts.tp
    assert np.all(times.time_s > weights / found.chip.memory_bytes_per_s)
    assert np.all(times.main_memory_bytes > weights * 0.999)


def test_parts_add_up_and_more_work_takes_longer(service: ServiceMaker) -> None:
    timer = service("mixtral_8x22b").timer
    layouts = layouts_of([Layout(tp=4, ep=4)] * 3)
    times = timer.times(make_steps(layouts, batch=np.array([1.0, 8.0, 64.0]), context_tokens=500.0))
    assert np.allclose(sum(times.parts_s.values()), times.time_s)
    assert np.all(np.diff(times.time_s) > 0)


def test_steps_of_a_batch_cost_what_they_cost_alone(service: ServiceMaker) -> None:
    timer = service("deepseek_v3", "16xh200_sxm").timer
    layouts = [Layout(tp=8), Layout(tp=2, dp=4, ep=8), Layout(tp=8, pp=2)]
    together = timer.times(make_steps(layouts_of(layouts), batch=8.0, context_tokens=700.0, prompt_tokens=64.0))
    for idx, layout in enumerate(layouts):
        alone = timer.times(make_steps(layouts_of([layout]), batch=8.0, context_tokens=700.0, prompt_tokens=64.0))
        assert alone.time_s[0] == together.time_s[idx]


def test_narrower_weights_decode_faster() -> None:
    model, fabric = load_language_model("llama3.1_8b"), load_fabric("h100_sxm")
    from tileloom.models.gpu.chip import make_chip

    steps = make_steps(ONE, batch=1.0, context_tokens=100.0)
    times = [
        GpuStepTimer(model=model, numerics=numerics_of(model, name), chip=make_chip(fabric.arch), fabric=fabric)
        .times(steps)
        .time_s[0]
        for name in ("bf16", "int8_weights", "int4_weights")
    ]
    assert times == sorted(times, reverse=True)


def exchange(
    payload_bytes: list[float], group: list[float], kind: Literal["all_reduce", "transfer"] = "all_reduce"
) -> Exchange:
    """An exchange that runs once a step."""
    return Exchange(
        name="sum",
        part="all-reduce",
        kind=kind,
        payload_bytes=np.array(payload_bytes),
        group=np.array(group),
        copies=np.ones(len(group)),
    )


def test_exchanges_are_those_of_the_system() -> None:
    system = load_fabric("8xh100_sxm").system
    found = exchange_times(exchange([1e9, 65536.0, 65536.0], [8.0, 8.0, 1.0]), system)
    sizes = np.array([10**9, 65536])
    alone = Collectives(op="all_reduce", sizes_bytes=sizes, num_chips=8, library="trtllm").times(make_machine(system))
    assert np.array_equal(found.time_s[:2], alone.time_s)
    assert found.time_s[2] == 0 and found.sent_bytes[2] == 0  # a chip by itself sums nothing
    assert found.sent_bytes[0] == 2 * 7 / 8 * 1e9
    assert not any("priced by" in note for note in found.notes)


def test_sums_that_no_kernel_of_the_framework_does_are_nccl_and_say_so() -> None:
    system = load_fabric("16xh100_sxm").system
    found = exchange_times(exchange([65536.0], [16.0]), system)
    alone = Collectives(op="all_reduce", sizes_bytes=np.array([65536]), num_chips=16).times(make_machine(system))
    assert np.array_equal(found.time_s, alone.time_s)
    assert any(
        note == "h100_sxm_x16: trtllm has all-reduce kernels for 2, 4, 8 chips, not for 16; priced by NCCL"
        for note in found.notes
    )


def test_stages_in_different_nodes_pass_on_over_the_links_out_of_them() -> None:
    system = load_fabric("16xh100_sxm").system
    near, far = exchange_times(exchange([1e6, 1e6], [8.0, 16.0], "transfer"), system).time_s
    assert far > near


def test_exchanges_are_calibrated_with_the_chip_and_say_by_what() -> None:
    described, lent = load_fabric("dgx_h100").system, load_fabric("8xh100_sxm").system
    sums = exchange([65536.0], [8.0])
    own, borrowed = (exchange_times(sums, system, "calibrated") for system in (described, lent))
    machine = make_machine(described, "calibrated", "custom_allreduce")
    collectives = Collectives(op="all_reduce", sizes_bytes=np.array([65536]), num_chips=8, library="trtllm")
    assert np.array_equal(own.time_s, collectives.times(machine).time_s)
    assert own.time_s[0] != exchange_times(sums, described).time_s[0]
    assert "h100_sxm_x8 has no measurements: constants of dgx_h100 (custom_allreduce) are borrowed" in borrowed.notes


def test_exchanges_without_a_calibration_keep_published_constants_and_say_so() -> None:
    described = load_system("pcie_box")
    assert not has_calibration(described, "nccl")
    pair = exchange([65536.0], [2.0], "transfer")
    found, published = exchange_times(pair, described, "calibrated"), exchange_times(pair, described)
    assert np.array_equal(found.time_s, published.time_s)
    assert any("pcie_box: no calibration 'nccl' for it or any system like it" in note for note in found.notes)


def test_a_fit_that_tries_constants_of_the_chip_keeps_exchanges_as_published(service: ServiceMaker) -> None:
    made = service()
    tried = with_scheduler(made, 1e-5)
    steps = make_steps(layouts_of([Layout(tp=8)]), batch=8.0, context_tokens=1000.0)
    assert tried.timer.times(steps).parts_s["all-reduce"] == made.timer.times(steps).parts_s["all-reduce"]


def test_notes_say_what_is_priced_by_what(service: ServiceMaker) -> None:
    notes = service().timer.times(make_steps(ONE, batch=1.0, context_tokens=100.0)).notes
    assert any("attention to keys and values by models.gpu.attention" in note for note in notes)


def test_energy_of_a_step_is_that_of_its_kernels(service: ServiceMaker) -> None:
    made = service("llama3.1_8b", "h100_sxm")
    times = made.timer.times(make_steps(layouts_of([Layout()] * 2), batch=np.array([1.0, 64.0]), context_tokens=1000.0))
    # Decoding moves the weights once: their bytes are most of what one sequence costs.
    moved_j = times.main_memory_bytes * byte_energy_j(made.chip)
    ops_j = times.ops * op_energy_j(made.chip, "bf16")
    assert np.all(times.dynamic_j < 1.01 * (moved_j + ops_j))
    assert np.all(times.dynamic_j > 0.8 * (moved_j + ops_j))
    assert np.all(np.diff(times.dynamic_j) > 0)
