"""Chips with more of something are never slower: overrides as `--set` and sweeps give them."""

from __future__ import annotations

import numpy as np
import pytest

from tileloom.archdsl import GpuArch, load_arch, load_tree, variant_from_tree
from tileloom.models.gpu.chip import make_chip
from tileloom.models.gpu.gemm import Gemms
from tileloom.models.gpu.times import Floats

NUM_SHAPES = 1500


def times_s(arch: GpuArch, datatype: str, *, is_batched: bool) -> Floats:
    """Times of products of all sizes, few of them whole multiples of tiles and waves."""
    rng = np.random.default_rng(11)
    m, n, k, batch = (
        np.exp(rng.uniform(np.log(low), np.log(high), NUM_SHAPES)).astype(np.int64)
        for low, high in ((1, 32768), (64, 16384), (64, 16384), (1, 64))
    )
    never = np.zeros(NUM_SHAPES, dtype=np.bool_)
    products = Gemms(
        m=m,
        n=n,
        k=k,
        batch=batch if is_batched else None,
        datatype=datatype,
        weights_in_cache=never,
        inputs_in_cache=never,
    )
    return np.sum(list(products.times(make_chip(arch)).serial_s.values()), axis=0)


@pytest.mark.parametrize(("preset", "datatype"), [("h100_sxm", "bf16"), ("a100_sxm", "int8"), ("b200", "fp8")])
@pytest.mark.parametrize("is_batched", [False, True])
def test_more_of_anything_never_slows_a_product_down(preset: str, datatype: str, is_batched: bool) -> None:
    base, tree = load_arch(preset), load_tree(preset)
    assert isinstance(base, GpuArch)
    bandwidth, clocks = base.main_memory.bandwidth.amount, base.clocks
    before = times_s(base, datatype, is_batched=is_batched)
    more: list[dict[str, object]] = [
        {"sms": base.num_sms + 1},
        {"sms": base.num_sms * 3 // 2},
        {"main_memory.bandwidth": f"{bandwidth * 1.3 / 1e9} GB/s"},
        {"sms": base.num_sms * 6 // 5, "main_memory.bandwidth": f"{bandwidth * 1.1 / 1e9} GB/s"},
        {"clocks.boost": f"{clocks.boost_hz * 1.05 / 1e9} GHz", "clocks.max": f"{base.max_clock_hz * 1.05 / 1e9} GHz"},
        {"power.limit": f"{base.power.limit_w * 1.2} W"},
        {"l2.capacity": f"{base.l2.capacity_bytes * 2} B"},
    ]
    for overrides in more:
        variant = variant_from_tree(tree, base, overrides).description
        assert isinstance(variant, GpuArch)
        after = times_s(variant, datatype, is_batched=is_batched)
        assert np.all(after <= before * (1 + 1e-9)), overrides
        assert np.any(after < before * 0.99) or "l2.capacity" in overrides or "power.limit" in overrides
