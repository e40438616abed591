"""GPU architectures: derived rates."""

from __future__ import annotations

import math

import pytest

from tileloom.archdsl import GpuArch, load_arch


def test_rate_per_sm_and_cycle_follows_from_the_dense_rate() -> None:
    arch = load_arch("h100_sxm")
    assert isinstance(arch, GpuArch)
    rate = arch.tensor_cores.datatypes["bf16"].dense_ops_per_s
    assert math.isclose(arch.macs_per_cycle("bf16") * 2 * arch.num_sms * arch.clock_hz, rate, rel_tol=1e-12)
    with pytest.raises(KeyError):
        arch.macs_per_cycle("int4")


def test_power_limit_can_be_overridden() -> None:
    arch = load_arch("h100_sxm", {"power.limit": "500 W"})
    assert isinstance(arch, GpuArch)
    assert arch.power.limit_w == 500
