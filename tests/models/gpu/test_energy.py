"""Power and energy of GPU kernels: hand-worked cases, monotonicity, and what has to be said."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tileloom.archdsl import GpuArch, ModelError, load_arch
from tileloom.models.gpu.chip import Chip, make_chip
from tileloom.models.gpu.energy import (
    Powered,
    burst_clock_hz,
    byte_energy_j,
    op_energy_j,
    sustained_clock_hz,
    with_energy,
)
from tileloom.models.gpu.times import Floats, KernelTimes


def chip_of(name: str = "h100_sxm") -> Chip:
    arch = load_arch(name)
    assert isinstance(arch, GpuArch)
    return make_chip(arch)


def batch(time_s: float, ops: float, moved_bytes: float) -> KernelTimes:
    return KernelTimes(
        serial_s={"kernel": np.array([time_s])},
        regime=np.array([0]),
        ops=np.array([ops]),
        main_memory_bytes=np.array([moved_bytes]),
    )


def floats(*values: float) -> Floats:
    return np.array(values, dtype=np.float64)


@dataclass(frozen=True)
class OneKernel:
    fixed: KernelTimes

    def __len__(self) -> int:
        return 1

    def label(self, idx: int) -> str:
        return f"kernel {idx}"

    def times(self, chip: Chip) -> KernelTimes:
        return self.fixed


def test_clock_follows_the_cube_root_of_the_power_that_is_left():
    # 700 W - 123 W idle = 577 W; 1e15 op/s at 1.154 pJ are 1,154 W: half is left, so the clock falls to 0.5 ** (1/3).
    chip = chip_of().with_constants({"tensor_energy_pj_per_op": 1.154})
    clock = sustained_clock_hz(chip, floats(1e15), floats(0.0), "bf16")
    assert clock == pytest.approx(1.98e9 * 0.5 ** (1 / 3), rel=1e-9)


def test_below_the_lowest_voltage_power_falls_only_with_the_clock():
    # 5,770 W wanted, a tenth is left: below 0.55 ** 3, so x * 0.55 ** 2 = 0.1.
    chip = chip_of().with_constants({"tensor_energy_pj_per_op": 5.77})
    clock = sustained_clock_hz(chip, floats(1e15), floats(0.0), "bf16")
    assert clock == pytest.approx(1.98e9 * 0.1 / 0.55**2, rel=1e-9)


def test_small_rates_run_at_the_highest_clock():
    assert sustained_clock_hz(chip_of(), floats(1e13), floats(0.0), "bf16") == pytest.approx(1.98e9)


def test_more_ops_or_bytes_never_raise_the_clock_and_bursts_are_never_slower():
    chip, rates = chip_of(), np.linspace(0, 2e15, 50)
    clock = sustained_clock_hz(chip, rates, np.zeros(50), "bf16")
    assert (np.diff(clock) <= 0).all()
    assert (sustained_clock_hz(chip, rates, np.full(50, 2e12), "bf16") <= clock).all()
    assert (burst_clock_hz(chip, rates, np.zeros(50), "bf16") >= clock).all()


def test_op_energy_goes_with_the_time_that_a_tensor_core_takes():
    chip = chip_of()
    assert op_energy_j(chip, "fp8") == pytest.approx(op_energy_j(chip, "bf16") / 2, rel=1e-3)
    assert op_energy_j(chip, "tf32") == pytest.approx(op_energy_j(chip, "bf16") * 2, rel=1e-3)
    assert op_energy_j(chip, "fp32") == pytest.approx(17e-12)


def test_a_copy_costs_idle_power_and_its_bytes():
    chip = chip_of()
    times = with_energy(batch(1e-3, 0.0, 2e9), chip, "fp32")
    assert times.energy_j == pytest.approx(1e-3 * 123 + 2e9 * byte_energy_j(chip))


def test_sustained_power_is_at_the_limit_when_a_burst_is_above_it():
    chip = chip_of().with_constants({"tensor_energy_pj_per_op": 1.8})
    burst = batch(180e-6, 2.0 * 4096**3, 1e8)
    times = with_energy(burst, chip, "bf16", "sustained")
    assert times.energy_j is not None
    assert times.energy_j / times.time_s == pytest.approx(700, rel=1e-4)
    assert times.time_s > burst.time_s
    assert times.part(0).amount == pytest.approx(times.time_s[0])


def test_what_is_below_the_limit_is_not_slowed():
    burst = batch(1e-3, 1e10, 1e8)
    assert with_energy(burst, chip_of(), "bf16", "sustained").time_s == pytest.approx(burst.time_s, rel=1e-12)


def test_powered_kernels_keep_their_labels_and_gain_energy():
    powered = Powered(kernels=OneKernel(batch(1e-3, 1e10, 1e8)), datatype="bf16")
    assert (len(powered), powered.label(0)) == (1, "kernel 0")
    assert powered.times(chip_of()).energy_j is not None


def test_an_assumed_idle_power_is_noted():
    assert with_energy(batch(1e-3, 0.0, 1e9), chip_of("b200"), "fp32").notes == (
        "b200: power.idle is not given; assumed 150 W",
    )


def test_unknown_energy_of_main_memory_says_what_to_give():
    chip = chip_of()
    memory = chip.arch.main_memory.model_copy(update={"technology": None})
    nameless = replace(chip, arch=chip.arch.model_copy(update={"main_memory": memory}))
    with pytest.raises(ModelError, match="main_memory has neither 'energy' nor 'dram'; give one for energies"):
        byte_energy_j(nameless)
