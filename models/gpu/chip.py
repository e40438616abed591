"""A GPU as numbers: its description together with the constants of one mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...archdsl import GpuArch, ModelError, list_presets, load_arch, nearest_hint
from .calibrations import Calibrated, Calibrations, Mode, constants_of
from .constants import CONSTANTS, Constant


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A GPU that kernels are priced on.

    Attributes:
        arch: Its description.
        mode: Where its constants come from.
        calibration: Name of the calibration; empty in `datasheet` mode.
        constants: Value of every constant.
        notes: What was borrowed or assumed.
    """

    arch: GpuArch
    mode: Mode
    calibration: str
    constants: Mapping[str, float]
    notes: tuple[str, ...] = ()

    def tensor_ops_per_s(self, datatype: str) -> float:
        """Dense rate of the tensor cores at the boost clock [op/s], 2 per multiply-accumulate.

        Raises:
            ModelError: They do not multiply that datatype.
        """
        known = self.arch.tensor_cores.datatypes
        if datatype not in known:
            raise ModelError(
                f"{self.arch.name}: its tensor cores have no datatype '{datatype}'{nearest_hint(datatype, known)}"
            )
        return known[datatype].dense_ops_per_s

    def vector_ops_per_s(self, datatype: str) -> float:
        """Rate of the vector units at the boost clock [op/s], a fused multiply-add counting 2; fp32's for the others.

        Raises:
            ModelError: They have neither that datatype nor fp32.
        """
        known = self.arch.vector_units.ops_per_s
        if datatype not in known and "fp32" not in known:
            raise ModelError(
                f"{self.arch.name}: its vector units have no datatype '{datatype}'{nearest_hint(datatype, known)}"
            )
        return known.get(datatype, known.get("fp32", 0.0))

    @property
    def known_constants(self) -> Mapping[str, Constant]:
        """Constants that may be fitted."""
        return CONSTANTS

    @property
    def launch_s(self) -> float:
        """Time of an empty kernel [s]."""
        return self.arch.launch.floor_s

    def with_constants(self, constants: Mapping[str, float]) -> Chip:
        """The same with other values of some constants, as a fit tries them."""
        return replace(self, mode="calibrated", constants={**self.constants, **constants})

    @property
    def memory_bytes_per_s(self) -> float:
        """Bandwidth of main memory by the data sheet [B/s]."""
        return self.arch.main_memory.bandwidth.bytes_per_s(self.arch.clock_hz)


def make_chip(arch: GpuArch, mode: Mode = "datasheet", calibration: str | None = None) -> Chip:
    """A chip with the constants of one mode.

    Args:
        arch: The GPU.
        mode: `datasheet` uses published figures alone; `calibrated` replaces those that were fitted.
        calibration: Name of the calibration; may be left out when there is one.

    Raises:
        ModelError: No such calibration, for this chip or any of its generation; or it names an unknown constant.
    """
    subject = Calibrated(
        name=arch.name,
        own=arch.calibrations,
        lend=lambda wanted: _lent(arch, wanted),
        kin=f"of generation '{arch.generation}'",
    )
    found = constants_of(subject, CONSTANTS, mode, calibration)
    return Chip(
        arch=arch,
        mode=mode,
        calibration=found.calibration,
        constants=found.values,
        notes=(*_rate_notes(arch), *found.notes),
    )


def _rate_notes(arch: GpuArch) -> tuple[str, ...]:
    """That the file gives no rates of its own."""
    if arch.rates_from is None:
        return ()
    return (
        f"{arch.name}: rates of {arch.rates_from} in proportion to SMs and boost clock; power limit and idle power as given",
    )


def has_calibration(arch: GpuArch, name: str) -> bool:
    """Whether `make_chip` finds that calibration, the chip's own or one that its generation lends."""
    return name in arch.calibrations or bool(_lent(arch, name))


def _lent(arch: GpuArch, wanted: str | None) -> Calibrations:
    """Calibrations of the first preset of the same generation that has the wanted one, or any."""
    if arch.generation is None:
        return {}
    for preset in list_presets():
        other = load_arch(preset)
        if not isinstance(other, GpuArch) or other.generation != arch.generation or other.name == arch.name:
            continue
        if other.calibrations and (wanted is None or wanted in other.calibrations):
            return other.calibrations
    return {}
