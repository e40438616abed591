"""A system as numbers: its description together with the constants of one mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...archdsl import GpuArch, System, list_systems, load_system
from ..gpu.calibrations import Calibrated, Calibrations, Mode, constants_of
from ..gpu.constants import Constant
from .constants import CONSTANTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A system that collectives are priced on.

    Attributes:
        system: Its description.
        mode: Where its constants come from.
        calibration: Name of the calibration; empty in `datasheet` mode.
        constants: Value of every constant.
        notes: What was borrowed or assumed.
    """

    system: System
    mode: Mode
    calibration: str
    constants: Mapping[str, float]
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The system's name."""
        return self.system.name

    @property
    def known_constants(self) -> Mapping[str, Constant]:
        """Constants that may be fitted."""
        return CONSTANTS

    @property
    def launch_s(self) -> float:
        """What the least collective costs, by which small ones are told from large ones [s]."""
        return self.constants["collective_start_s"]

    def with_constants(self, constants: Mapping[str, float]) -> Machine:
        """The same with other values of some constants, as a fit tries them."""
        return replace(self, mode="calibrated", constants={**self.constants, **constants})


def make_machine(system: System, mode: Mode = "datasheet", calibration: str | None = None) -> Machine:
    """A system with the constants of one mode.

    Args:
        system: The system.
        mode: `datasheet` uses published figures alone; `calibrated` replaces those that were fitted.
        calibration: Name of the calibration; may be left out when there is one.

    Raises:
        ModelError: No such calibration, for this system or any like it; or it names an unknown constant.
    """
    subject = Calibrated(
        name=system.name,
        own=system.calibrations,
        lend=lambda wanted: _lent(system, wanted),
        kin=f"whose chips are of {_shape_text(system)}",
    )
    found = constants_of(subject, CONSTANTS, mode, calibration)
    return Machine(system=system, mode=mode, calibration=found.calibration, constants=found.values, notes=found.notes)


def has_calibration(system: System, name: str) -> bool:
    """Whether `make_machine` finds that calibration, the system's own or one that a system like it lends."""
    return name in system.calibrations or bool(_lent(system, name))


def _lent(system: System, wanted: str | None) -> Calibrations:
    """Calibrations of the first preset with such chips and links that has the wanted one, or any."""
    for preset in list_systems():
        if preset == system.name:
            continue
        other = load_system(preset)
        if _shape_of(other) != _shape_of(system) or None in _shape_of(system):
            continue
        if other.calibrations and (wanted is None or wanted in other.calibrations):
            return other.calibrations
    return {}


def _shape_of(system: System) -> tuple[str | None, str | None]:
    """Generation of its chips and technology of their first link: what a calibration may be lent by."""
    arch = system.chips[0].arch
    generation = arch.generation if isinstance(arch, GpuArch) else None
    return generation, system.links[0].technology if system.links else None


def _shape_text(system: System) -> str:
    generation, technology = _shape_of(system)
    return f"generation '{generation}' behind '{technology}' links"
