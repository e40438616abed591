"""Chips for the tests of kernels: presets, and presets with one number changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tileloom.archdsl import GpuArch, load_arch
from tileloom.archdsl.units import Bandwidth
from tileloom.models.gpu.chip import Chip, make_chip


def chip_of(name: str = "h100_sxm") -> Chip:
    """A preset in datasheet mode."""
    arch = load_arch(name)
    assert isinstance(arch, GpuArch)
    return make_chip(arch)


def with_memory(chip: Chip, factor: float) -> Chip:
    """The chip with a multiple of its main-memory bandwidth."""
    bandwidth = Bandwidth(chip.memory_bytes_per_s * factor, "second")
    return _with_arch(chip, {"main_memory": chip.arch.main_memory.model_copy(update={"bandwidth": bandwidth})})


def with_sms(chip: Chip, num_sms: int) -> Chip:
    """The chip with another number of SMs, each as fast as before."""
    scale = num_sms / chip.arch.num_sms
    types = {
        name: one.model_copy(update={"dense_ops_per_s": one.dense_ops_per_s * scale})
        for name, one in chip.arch.tensor_cores.datatypes.items()
    }
    cores = chip.arch.tensor_cores.model_copy(update={"datatypes": types})
    return _with_arch(chip, {"num_sms": num_sms, "tensor_cores": cores})


def _with_arch(chip: Chip, update: Mapping[str, object]) -> Chip:
    return replace(chip, arch=chip.arch.model_copy(update=update))
