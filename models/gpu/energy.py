"""Power, energy and the clock that the power limit leaves.

Power is idle power, plus energy per op times ops per second, plus energy per byte times bytes per second. Energy per op is
stated at the highest clock and falls with the square of the supply voltage, which follows the clock down to a floor:

    power(x) = idle + rate * x * energy_per_op * v(x)^2 + bytes_per_s * energy_per_byte,   v(x) = max(x, VOLTAGE_FLOOR)

with x the clock over the highest clock and `rate` the ops per second at the highest clock. The clock falls until power is
at the limit. A burst of milliseconds is over before the controller acts, so it may draw more (`burst_power_share`).

Limits: random data (zeros cost less); bytes that hit in the cache cost nothing of their own; leakage is part of idle power
and does not change with the clock or the temperature.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from ...archdsl import DATATYPE_BITS, ModelError
from ..components.main_memory import pj_per_byte
from .chip import Chip
from .times import Floats, Kernels, KernelTimes

VOLTAGE_FLOOR: Final = 0.55
"""Lowest supply voltage over that at the highest clock.

Source: Guerreiro et al., Modeling and Decoupling the GPU Power Consumption for Cross-Domain DVFS, TPDS 2019: voltage is
flat at low clocks, then linear in the clock; assumption: 0.55, as from 1.05 V down to 0.6 V.
"""

IDLE_SHARE: Final = 0.15
"""Idle power over the limit where the description has none; assumption, between 50 W of 400 W and 120 W of 700 W."""

PJ = 1e-12
Limit = Literal["sustained", "burst"]


def idle_power_w(chip: Chip) -> float:
    """Power when nothing runs [W]: the description's, else a named share of the limit (see `energy_notes`)."""
    idle = chip.arch.power.idle_w
    return idle if idle is not None else IDLE_SHARE * chip.arch.power.limit_w


def power_limit_w(chip: Chip, limit: Limit) -> float:
    """Power at which the clock falls [W]."""
    share = chip.constants["burst_power_share"] if limit == "burst" else 1.0
    return chip.arch.power.limit_w * share


def energy_notes(chip: Chip) -> tuple[str, ...]:
    """What had to be assumed about a chip's power."""
    if chip.arch.power.idle_w is not None:
        return ()
    return (f"{chip.arch.name}: power.idle is not given; assumed {idle_power_w(chip):.0f} W",)


def op_energy_j(chip: Chip, datatype: str) -> float:
    """Energy of one op at the highest clock [J].

    A cycle of a tensor core costs the same whatever it multiplies, so an op of a type with twice the rate costs half. A type
    that the tensor cores do not multiply is computed on the vector units, in proportion to its width.

    Raises:
        ModelError: The chip computes the datatype nowhere.
    """
    tensor = chip.arch.tensor_cores.datatypes
    if datatype in tensor:
        reference = next((name for name in ("bf16", "fp16") if name in tensor), None)
        if reference is None:
            return chip.constants["tensor_energy_pj_per_op"] * DATATYPE_BITS[datatype] / 16 * PJ
        share = tensor[reference].dense_ops_per_s / tensor[datatype].dense_ops_per_s
        return chip.constants["tensor_energy_pj_per_op"] * share * PJ
    chip.vector_ops_per_s(datatype)
    return chip.constants["vector_energy_pj_per_op"] * DATATYPE_BITS[datatype] / 32 * PJ


def byte_energy_j(chip: Chip) -> float:
    """Energy of one byte between main memory and registers [J]: the memory's own, and the way over the chip.

    Raises:
        ModelError: The description has neither an energy nor a technology of main memory.
    """
    memory = chip.arch.main_memory
    own = memory.energy_pj_per_byte
    if own is None and memory.technology is None:
        raise ModelError(f"{chip.arch.name}: main_memory has neither 'energy' nor 'dram'; give one for energies")
    if own is None:
        own = pj_per_byte(str(memory.technology))
    return (own + chip.constants["transfer_energy_pj_per_byte"]) * PJ


def clock_hz(
    chip: Chip, tensor_ops_per_s: Floats, bytes_per_s: Floats, datatype: str, limit: Limit = "sustained"
) -> Floats:
    """Clock at which power stays within a limit [Hz]; the highest clock where power is below it.

    Args:
        chip: The chip.
        tensor_ops_per_s: Ops per second that the kernels would reach at the highest clock `[n]`; they follow the clock.
        bytes_per_s: Bytes per second to and from main memory `[n]`; they do not.
        datatype: What is multiplied.
        limit: The limit that holds for seconds, or that of a burst of milliseconds.

    Raises:
        ModelError: The chip computes the datatype nowhere, or nothing is known of its main memory's energy.
    """
    left_w = power_limit_w(chip, limit) - idle_power_w(chip) - bytes_per_s * byte_energy_j(chip)
    full_w = np.maximum(tensor_ops_per_s * op_energy_j(chip, datatype), 1e-9)
    share = np.maximum(left_w, 0.0) / full_w
    relative = np.where(share >= VOLTAGE_FLOOR**3, np.cbrt(share), share / VOLTAGE_FLOOR**2)
    return chip.arch.max_clock_hz * np.clip(relative, 0.0, 1.0)


def sustained_clock_hz(chip: Chip, tensor_ops_per_s: Floats, bytes_per_s: Floats, datatype: str) -> Floats:
    """Clock that the power limit leaves to a kernel that is repeated for seconds [Hz]; see `clock_hz`."""
    return clock_hz(chip, tensor_ops_per_s, bytes_per_s, datatype, "sustained")


def burst_clock_hz(chip: Chip, tensor_ops_per_s: Floats, bytes_per_s: Floats, datatype: str) -> Floats:
    """Clock of a burst of milliseconds [Hz]; see `clock_hz`."""
    return clock_hz(chip, tensor_ops_per_s, bytes_per_s, datatype, "burst")


@dataclass(frozen=True, slots=True, kw_only=True)
class Powered:
    """Kernels with their energy, run once in a burst or repeated for seconds.

    Attributes:
        kernels: The kernels; their own times are those of a burst.
        datatype: What they compute with; `fp32` for kernels without tensor ops.
        limit: Which power limit holds. `sustained` adds the time by which the limit slows them.
    """

    kernels: Kernels
    datatype: str
    limit: Limit = "sustained"

    def __len__(self) -> int:
        return len(self.kernels)

    def label(self, idx: int) -> str:
        """The kernel's own label."""
        return self.kernels.label(idx)

    def times(self, chip: Chip) -> KernelTimes:
        """What each kernel costs, with its energy.

        Raises:
            ModelError: As the kernels' own, or nothing is known of the main memory's energy.
        """
        return with_energy(self.kernels.times(chip), chip, self.datatype, self.limit)


def with_energy(times: KernelTimes, chip: Chip, datatype: str, limit: Limit = "burst") -> KernelTimes:
    """Times of bursts with the energy of each run; with `sustained`, slowed to the limit that holds for seconds.

    Args:
        times: Times of bursts.
        chip: The chip.
        datatype: What the ops are done in; see `op_energy_j`.
        limit: Which power limit holds.

    Raises:
        ModelError: As `op_energy_j` and `byte_energy_j`.
    """
    idle_w, burst_s = idle_power_w(chip), times.time_s
    op_w = times.ops * op_energy_j(chip, datatype) / burst_s
    byte_w = times.main_memory_bytes * byte_energy_j(chip) / burst_s
    # The clock of the burst, from its power: the rate is that at this clock, not at the highest.
    left_w = np.maximum(power_limit_w(chip, "burst") - idle_w - byte_w, 0.0)
    burst_clock = np.clip(np.sqrt(left_w / np.maximum(op_w, 1e-9)), VOLTAGE_FLOOR, 1.0)
    serial, clock, time_s = dict(times.serial_s), burst_clock, burst_s
    if limit == "sustained":
        left_w = np.maximum(power_limit_w(chip, "sustained") - idle_w, 0.0)
        clock = _clock_within(left_w, op_w / burst_clock, byte_w / burst_clock, burst_clock)
        time_s = burst_s * burst_clock / clock
        serial["slower by the power limit"] = time_s - burst_s
    slowed = burst_s / time_s
    dynamic_w = op_w * slowed * np.maximum(clock, VOLTAGE_FLOOR) ** 2 + byte_w * slowed
    return replace(
        times,
        serial_s=serial,
        energy_j=time_s * (idle_w + dynamic_w),
        notes=tuple(dict.fromkeys((*times.notes, *energy_notes(chip)))),
    )


def _clock_within(left_w: Floats, op_w: Floats, byte_w: Floats, highest: Floats) -> Floats:
    """Relative clock at which `op_w x v(x)^2 + byte_w x` is `left_w`, at most `highest`, by bisection.

    Here bytes follow the clock too: a kernel that is repeated moves the same bytes per run, however long that takes.
    """
    low, high = np.full_like(highest, 1e-3), highest.copy()
    for _ in range(40):
        middle = (low + high) / 2
        within = op_w * middle * np.maximum(middle, VOLTAGE_FLOOR) ** 2 + byte_w * middle <= left_w
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    # What is within the limit at the highest clock is not slowed by the last step of the bisection.
    return np.where(op_w * highest * np.maximum(highest, VOLTAGE_FLOOR) ** 2 + byte_w * highest <= left_w, highest, low)
