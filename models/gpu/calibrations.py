"""Which constants a chip or a system has in a mode: published values, its own fitted ones, or borrowed ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from ...archdsl import Calibration, ModelError, nearest_hint
from .constants import Constant

Mode = Literal["datasheet", "calibrated"]
Calibrations = Mapping[str, Calibration]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """Something that calibrations are kept with.

    Attributes:
        name: Its name.
        own: Its calibrations.
        lend: Those of the first preset like it that has a wanted one, or any; empty where none has.
        kin: What a preset like it has in common with it, for messages.
    """

    name: str
    own: Calibrations
    lend: Callable[[str | None], Calibrations]
    kin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Values of all constants, the calibration that they come from (empty: none), and what has to be said of it."""

    values: Mapping[str, float]
    calibration: str = ""
    notes: tuple[str, ...] = ()


def constants_of(subject: Calibrated, known: Mapping[str, Constant], mode: Mode, wanted: str | None) -> Constants:
    """The constants of one mode.

    Args:
        subject: The chip or system.
        known: Every constant.
        mode: `datasheet` uses published figures alone; `calibrated` replaces those that were fitted.
        wanted: Name of the calibration; may be left out when there is one.

    Raises:
        ModelError: No such calibration, neither its own nor lent; or it names an unknown constant.
    """
    values = {name: constant.value for name, constant in known.items()}
    if mode == "datasheet":
        if wanted is not None:
            raise ModelError(f"calibration '{wanted}' needs mode calibrated; datasheet mode fits nothing")
        return Constants(values=values)
    name, found = _chosen(subject, wanted)
    for constant in found.constants:
        if constant not in known:
            raise ModelError(
                f"{subject.name}: calibrations.{name}: unknown constant '{constant}'{nearest_hint(constant, known)}"
            )
    borrowed = f"{subject.name} has no measurements: constants of {found.chip} ({name}) are borrowed"
    notes = () if found.chip == subject.name else (borrowed,)
    return Constants(values=values | found.constants, calibration=name, notes=notes)


def _chosen(subject: Calibrated, wanted: str | None) -> tuple[str, Calibration]:
    """Name and calibration: its own where it has it, else a lent one."""
    found = subject.own
    if not found or (wanted is not None and wanted not in found):
        found = subject.lend(wanted)
    if not found:
        raise ModelError(
            f"{subject.name}: no calibration{f' {wanted!r}' if wanted else ''}{nearest_hint(wanted or '', subject.own)}, and "
            f"no preset {subject.kin} has one; use mode datasheet, or fit one with `tileloom calibrate`"
        )
    if wanted is None and len(found) > 1:
        raise ModelError(f"{subject.name}: which calibration? There are {', '.join(sorted(found))}; name one")
    name = wanted if wanted is not None else next(iter(found))
    return name, found[name]
