"""A system as numbers: its description together with the constants of one mode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...archdsl import Calibration, GpuArch, ModelError, System, list_systems, load_system, nearest_hint
from ..gpu.chip import Mode
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
    values = {name: constant.value for name, constant in CONSTANTS.items()}
    if mode == "datasheet":
        if calibration is not None:
            raise ModelError(f"calibration '{calibration}' needs mode calibrated; datasheet mode fits nothing")
        return Machine(system=system, mode=mode, calibration="", constants=values)
    name, found, notes = _calibration_of(system, calibration)
    for constant in found.constants:
        if constant not in CONSTANTS:
            raise ModelError(
                f"{system.name}: calibrations.{name}: unknown constant '{constant}'{nearest_hint(constant, CONSTANTS)}"
            )
    return Machine(system=system, mode=mode, calibration=name, constants=values | found.constants, notes=notes)


def _calibration_of(system: System, wanted: str | None) -> tuple[str, Calibration, tuple[str, ...]]:
    """Name and calibration of the system, else of one with chips of the same generation; with what has to be said."""
    lender = system
    if not system.calibrations or (wanted is not None and wanted not in system.calibrations):
        lender = _lender(system, wanted) or system
    known = lender.calibrations
    if not known or (wanted is not None and wanted not in known):
        raise ModelError(
            f"{system.name}: no calibration{f' {wanted!r}' if wanted else ''}{nearest_hint(wanted or '', known)}, and no "
            f"preset whose chips are of {_shape_text(system)} has one; use mode datasheet, or fit one with "
            "`tileloom calibrate`"
        )
    if wanted is None and len(known) > 1:
        raise ModelError(f"{system.name}: which calibration? There are {', '.join(sorted(known))}; name one")
    name = wanted if wanted is not None else next(iter(known))
    found = known[name]
    if found.chip == system.name:
        return name, found, ()
    return name, found, (f"{system.name} has no measurements: constants of {found.chip} ({name}) are borrowed",)


def _lender(system: System, wanted: str | None) -> System | None:
    """A preset with chips of the same generation behind links of the same kind that has the calibration, or any."""
    for preset in list_systems():
        if preset == system.name:
            continue
        other = load_system(preset)
        if _shape_of(other) != _shape_of(system) or None in _shape_of(system):
            continue
        if other.calibrations and (wanted is None or wanted in other.calibrations):
            return other
    return None


def _shape_of(system: System) -> tuple[str | None, str | None]:
    """Generation of its chips and technology of their first link: what a calibration may be lent by."""
    arch = system.chips[0].arch
    generation = arch.generation if isinstance(arch, GpuArch) else None
    return generation, system.links[0].technology if system.links else None


def _shape_text(system: System) -> str:
    generation, technology = _shape_of(system)
    return f"generation '{generation}' behind '{technology}' links"
