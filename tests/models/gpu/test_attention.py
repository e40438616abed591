"""Attention: hand-worked cases, bounds, monotonicity, and what cannot be priced."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tileloom.archdsl import ModelError
from tileloom.models.gpu.attention import Attentions, BackendName

from .chips import chip_of, with_memory, with_sms

BACKENDS: tuple[BackendName, ...] = ("flash", "cudnn", "framework")
SHAPES = list(
    itertools.product((1, 8), ((32, 32), (32, 8), (64, 1)), (64, 128), ((1, 300), (1, 9000), (700, 700), (512, 4096)))
)


def attentions(
    batch: list[int],
    query_len: list[int],
    kv_len: list[int],
    heads: tuple[int, int] = (32, 8),
    head_dim: int = 128,
    window: int = 0,
    backend: BackendName = "flash",
    is_causal: bool = True,
) -> Attentions:
    count = len(batch)
    return Attentions(
        batch=np.array(batch),
        query_heads=np.full(count, heads[0]),
        kv_heads=np.full(count, heads[1]),
        head_dim=np.full(count, head_dim),
        query_len=np.array(query_len),
        kv_len=np.array(kv_len),
        window=np.full(count, window),
        datatype="bf16",
        backend=backend,
        is_causal=is_causal,
    )


def all_shapes(backend: BackendName) -> Attentions:
    return Attentions(
        batch=np.array([shape[0] for shape in SHAPES]),
        query_heads=np.array([shape[1][0] for shape in SHAPES]),
        kv_heads=np.array([shape[1][1] for shape in SHAPES]),
        head_dim=np.array([shape[2] for shape in SHAPES]),
        query_len=np.array([shape[3][0] for shape in SHAPES]),
        kv_len=np.array([shape[3][1] for shape in SHAPES]),
        window=np.zeros(len(SHAPES), dtype=np.int64),
        datatype="bf16",
        backend=backend,
    )


def test_a_step_of_a_synchronous_kernel_is_products_then_softmax():
    # One block of 128 queries and 128 keys in steps of 64, at 0.62 x 0.9 of 989.4 x 1.98 / 1.83 TFLOP/s over 132 SMs;
    # 8,192 scores: 512 cycles of exponentials and 1,024 of 16 instructions over 128 lanes.
    rate = 989.4e12 * 1.98 / 1.83 * 0.62 * 0.9 / 132
    step = 4 * 128 * 64 * 128 / rate + (8192 / 16 + 8192 * 16 / 128) / 1.98e9
    times = attentions([1], [128], [128], heads=(1, 1), is_causal=False).times(chip_of())
    assert times.overlapped_s["steps"]["tensor cores and softmax"] == pytest.approx(2 * step, rel=1e-6)
    assert times.serial_s["launch"] == pytest.approx(1.19e-6)


def test_an_ampere_has_no_larger_instructions_so_its_products_run_at_the_full_rate():
    step = 4 * 128 * 64 * 128 / (312e12 * 0.9 / 108) + (8192 / 16 + 8192 * 16 / 128) / 1.41e9
    times = attentions([1], [128], [128], heads=(1, 1), is_causal=False).times(chip_of("a100_sxm"))
    assert times.overlapped_s["steps"]["tensor cores and softmax"] == pytest.approx(2 * step, rel=1e-6)


def test_decode_reads_each_key_and_value_once():
    times = attentions([16], [1], [4096]).times(chip_of())
    keys, queries = 16 * 4096 * 8 * 128 * 2 * 2, 16 * 32 * 128 * 2
    assert times.main_memory_bytes == pytest.approx(keys + 2 * queries)
    assert times.regime[0] == 1


def test_causal_ops_leave_out_what_is_hidden():
    # 4 x 128 x (4 x 4 - 6) pairs; all 16 without a mask.
    assert attentions([1], [4], [4], heads=(1, 1)).times(chip_of()).ops == pytest.approx(4 * 128 * 10)
    assert attentions([1], [4], [4], heads=(1, 1), is_causal=False).times(chip_of()).ops == pytest.approx(4 * 128 * 16)


def test_few_sequences_are_split_and_combined_by_a_second_kernel():
    one, many = attentions([1, 256], [1, 1], [4096, 4096]).times(chip_of()).serial_s["launch"]
    assert one == pytest.approx(2 * many)


def test_grouped_queries_move_fewer_bytes_and_are_never_slower():
    chip = chip_of()
    whole, grouped = (attentions([16], [1], [4096], heads=(32, kv)).times(chip) for kv in (32, 8))
    assert grouped.main_memory_bytes[0] < whole.main_memory_bytes[0] / 3.9
    assert grouped.time_s[0] <= whole.time_s[0]


def test_an_fp8_cache_moves_half_the_keys():
    chip, batch = chip_of(), attentions([64], [1], [8192])
    assert replace(batch, kv_datatype="fp8").times(chip).main_memory_bytes == pytest.approx(
        batch.times(chip).main_memory_bytes / 2, rel=1e-2
    )


def test_a_window_bounds_decode_and_prefill():
    chip = chip_of()
    for query_len in (1, 8192):
        whole, windowed = (attentions([4], [query_len], [8192], window=w).times(chip) for w in (0, 1024))
        assert windowed.time_s[0] < whole.time_s[0]
        assert windowed.ops[0] < whole.ops[0]


def test_tokens_that_are_cached_already_only_cost_their_keys():
    chip = chip_of()
    fresh, chunk, short = attentions([1, 1, 1], [4096, 1024, 1024], [4096, 4096, 1024]).times(chip).time_s
    assert short < chunk < fresh


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_attention_beats_the_roofline(backend: BackendName):
    chip = chip_of().with_constants({"memory_efficiency": 1.0, "attention_efficiency": 1.0})
    times = all_shapes(backend).times(chip)
    peak = chip.tensor_ops_per_s("bf16") * chip.arch.max_clock_hz / chip.arch.clock_hz
    assert (times.time_s >= times.ops / peak).all()
    assert (times.time_s >= times.main_memory_bytes / chip.memory_bytes_per_s).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("is_decode", [False, True])
def test_longer_sequences_are_never_faster(backend: BackendName, is_decode: bool):
    lengths = list(range(64, 3000, 32)) + [4096, 8192, 16384]
    count = len(lengths)
    for batch in (1, 3, 40):
        queries = [1] * count if is_decode else lengths
        times = attentions([batch] * count, queries, lengths, backend=backend).times(chip_of())
        assert (np.diff(times.time_s) >= -1e-9).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_bandwidth_or_sms_are_never_slower(backend: BackendName):
    chip, batch = chip_of(), all_shapes(backend)
    assert (batch.times(with_memory(chip, 2.0)).time_s <= batch.times(chip).time_s + 1e-12).all()
    # More SMs may split decode once more, so only prefill is held to it.
    prefill = batch.query_len > 1
    assert (batch.times(with_sms(chip, 264)).time_s <= batch.times(chip).time_s + 1e-12)[prefill].all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_parts_sum_to_the_time(backend: BackendName):
    times = all_shapes(backend).times(chip_of())
    for idx in range(len(SHAPES)):
        assert times.part(idx).amount == pytest.approx(times.time_s[idx], rel=1e-12)


def test_a_longer_cache_costs_more_energy_and_never_less_than_idle_power():
    chip = chip_of()
    times = attentions([16, 16], [1, 1], [1024, 8192]).times(chip)
    assert times.energy_j is not None
    assert times.energy_j[1] > 4 * times.energy_j[0]
    assert (times.energy_j >= 123 * times.time_s).all()


def test_frameworks_rotate_and_append_before_they_attend():
    framework = attentions([1], [512], [512], backend="framework").times(chip_of())
    assert framework.serial_s["rotary embedding and append"][0] > 0
    assert (attentions([1], [512], [512]).times(chip_of()).serial_s["rotary embedding and append"] == 0).all()


def test_labels_say_backend_batch_lengths_and_heads():
    batch = attentions([4], [1], [8192], window=128)
    assert batch.label(0) == "flash bf16 b4 q1 kv8192 h32/8x128 w128"
    assert replace(batch, kv_datatype="fp8").label(0).startswith("flash bf16/fp8 b4")


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (attentions([1], [128], [128], heads=(30, 8)), "30 query heads are no multiple of 8 KV heads"),
        (attentions([1], [128], [64]), "kv_len counts the query positions too, so it is at least query_len"),
        (replace(attentions([1], [1], [64]), kv_datatype="fp9"), "unknown datatype 'fp9'; did you mean"),
        (replace(attentions([1], [1], [64]), datatype="int16"), "tensor cores have no datatype 'int16'"),
        (
            replace(attentions([1], [1], [64]), backend="flush"),
            "unknown attention backend 'flush'; did you mean 'flash'",
        ),
    ],
)
def test_what_cannot_be_priced_is_refused(batch: Attentions, message: str):
    with pytest.raises(ModelError, match=message):
        batch.times(chip_of())


def test_rotating_costs_a_warp_for_each_query_head_however_long_a_head_is():
    # 32 threads x 350 instructions for each of 64 x 1,000 heads and tokens, over 132 SMs of 128 lanes at 1.98 GHz.
    issue = 64_000 * 350 * 32 / (132 * 128 * 1.98e9)
    for head_dim, kv_heads in ((64, 64), (128, 1)):
        batch = attentions([1], [1000], [1000], heads=(64, kv_heads), head_dim=head_dim, backend="framework")
        append = replace(batch, kv_in_cache=True).times(chip_of()).serial_s["rotary embedding and append"]
        assert append == pytest.approx(issue, rel=0.25)
        assert append >= issue


def test_blackwell_blocks_walk_two_tiles_of_128_queries():
    one, two = (attentions([1], [rows], [rows], heads=(1, 1), backend="framework") for rows in (129, 256))
    assert one.times(chip_of("b200")).choices == two.times(chip_of("b200")).choices == ("1 blocks",)
    assert two.times(chip_of()).choices == ("2 blocks",)
