"""TensorRT-LLM's decode before Blackwell: kernel, parts, rounds, and values that are read from the keys' memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tileloom.models.gpu.attention import Attentions
from tileloom.models.gpu.decode import DecodePlan, plan_decode

from .chips import chip_of


def plan(
    batch: int, query_heads: int, kv_heads: int, seen: int, head_dim: int = 128, name: str = "a100_sxm"
) -> DecodePlan:
    columns = (np.array([value]) for value in (batch, query_heads, kv_heads, head_dim, seen))
    return plan_decode(chip_of(name), *columns)


def decode(batch: int, query_heads: int, kv_heads: int, kv_len: int) -> Attentions:
    return Attentions(
        batch=np.array([batch]),
        query_heads=np.array([query_heads]),
        kv_heads=np.array([kv_heads]),
        head_dim=np.array([128]),
        query_len=np.array([1]),
        kv_len=np.array([kv_len]),
        window=np.array([0]),
        datatype="bf16",
        backend="framework",
        kv_in_cache=True,
    )


def test_heads_share_a_block_from_a_quarter_of_the_sms_on():
    # 108 SMs: 26 blocks are too few, 28 are enough; heads that share no keys never do.
    assert not plan(26, 8, 1, 64).is_grouped[0]
    assert plan(28, 8, 1, 64).is_grouped[0]
    assert not plan(512, 8, 8, 64).is_grouped[0]


def test_grouped_sequences_are_cut_by_length_up_to_eight_waves():
    # 16 parts of 128 tokens, at most the root of 8 x 16; 256 sequences would make 26 waves of 11 parts.
    assert plan(8, 8, 1, 2048).splits[0] == 11
    assert plan(256, 8, 1, 2048).splits[0] == 3
    assert plan(512, 8, 1, 2048).splits[0] == 1


def test_single_heads_are_cut_into_slightly_more_parts_than_fill_the_sms():
    # 8 sequences x heads on 108 SMs: 14 parts, so that 4 of 112 blocks are left over for a second round.
    found = plan(1, 8, 8, 131072)
    assert (found.splits[0], found.blocks[0], found.rounds[0]) == (14, 112, 2)


def test_single_heads_take_larger_blocks_where_they_are_few():
    warps = [plan(batch, 48, 48, 64).warps[0] for batch in (1, 2, 4, 8, 16)]
    assert warps == [32, 32, 16, 16, 8]


def test_logits_of_long_sequences_leave_room_for_fewer_blocks():
    slots = [plan(512, 8, 8, seen).slots[0] / 108 for seen in (1024, 8192, 16384)]
    assert slots == [4, 3, 1]


def test_blocks_left_over_ask_for_less_than_main_memory_gives():
    chip, found = chip_of("a100_sxm"), plan(1, 8, 8, 131072)
    moved = np.array([536.9e6])
    saturated = moved / 1.75e12
    alone = moved / found.blocks * 4 / (4 * 26.0 * chip.arch.max_clock_hz)
    assert found.stream_s(chip, saturated, moved) == pytest.approx(saturated * 108 / 112 + alone)


def test_values_in_the_memory_of_keys_cost_grouped_heads_half():
    chip, whole = chip_of("a100_sxm"), decode(64, 32, 8, 4096)
    shared = replace(whole, values_are_keys=True).times(chip)
    queries = 64 * 32 * 128 * 2
    keys = whole.times(chip).main_memory_bytes - 2 * queries
    assert shared.main_memory_bytes == pytest.approx(keys / 2 + 2 * queries)
    assert any("keys' memory" in note for note in shared.notes)
    assert not any("keys' memory" in note for note in whole.times(chip).notes)


def test_values_in_the_memory_of_keys_are_read_again_where_the_keys_under_way_exceed_the_cache():
    chip = chip_of("a100_sxm")
    shares: list[float] = []
    for kv_len in (128, 256, 1024):
        whole = decode(1024, 8, 8, kv_len)
        shared = replace(whole, values_are_keys=True).times(chip).main_memory_bytes
        shares.append(float(shared[0] / whole.times(chip).main_memory_bytes[0]))
    # 4 blocks an SM: 14, 28 and 113 MB of keys under way, beside 40 MiB of cache.
    assert shares[0] == pytest.approx(0.5, abs=0.02)
    assert shares[0] < shares[1] < shares[2]
    assert shares[2] == pytest.approx(1.0)
