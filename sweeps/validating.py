"""Models against tables of measurements: what is compared, how constants are fitted, and both as documents."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, Literal, TypedDict

from ..archdsl import (
    MAX_CONSTANTS,
    Arch,
    Calibration,
    Description,
    GpuArch,
    ModelError,
    System,
    dump_spec,
    list_systems,
    load_description,
    load_system,
    nearest_hint,
)
from ..models import (
    Fit,
    MeasuredTable,
    Mode,
    Part,
    Quantity,
    ValidatedRow,
    Validation,
    fit_constants,
    make_chip,
    make_machine,
    read_measurements,
    validate,
)

SCHEMA_VERSION = 1
UNITS: dict[Quantity, str] = {"time_s": "s", "energy_j": "J"}
Rows = Literal["auto", "all", "held_back", "fitted"]


class RowDocument(TypedDict):
    """One measurement beside what the model says."""

    name: str
    line: int
    shape: str
    measured: float
    predicted: float
    error_percent: float
    regime: str
    choice: str
    parts: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A table compared with a model.

    Attributes:
        table: The table.
        target: Name of the chip or system.
        mode: Where its constants came from.
        calibration: Name of the calibration; empty in `datasheet` mode.
        rows: Which rows were compared.
        validation: The comparison.
        notes: What was chosen, borrowed or approximated.
    """

    table: MeasuredTable
    target: str
    mode: Mode
    calibration: str
    rows: Rows
    validation: Validation
    notes: tuple[str, ...]

    @property
    def quantity(self) -> str:
        """What was measured."""
        return self.table.measurements[0].quantity

    @property
    def unit(self) -> str:
        """Unit of what was measured."""
        return UNITS[self.table.measurements[0].quantity]

    @property
    def stem(self) -> str:
        """Name for files about it."""
        return f"{Path(self.table.table.file).stem}_{self.target}_{self.calibration or self.mode}"


def compare(
    data: Path, arch: str, *, mode: Mode | None, calibration: str | None, column: str | None, rows: Rows
) -> Compared:
    """Compare a table of measurements with the model of a chip or a system.

    Args:
        data: The table.
        arch: A GPU or a system: a file, or a preset's name.
        mode: Where constants come from; when left out, `calibrated` if the chip has the table's calibration.
        calibration: Name of the calibration; when left out, the one that is fitted to such tables.
        column: Measured column; the format's first when left out.
        rows: Which rows count; `auto` leaves out those that the calibration was fitted to.

    Raises:
        ModelError: Unknown table, column or calibration, or kernels that the chip cannot run.
        ArchError: A bad description.
    """
    table = read_measurements(data, column)
    described, notes = _described(table, arch)
    wanted = calibration or _default_calibration(table, described)
    chosen = mode or ("calibrated" if wanted is not None else "datasheet")
    target = _target(described, chosen, wanted if chosen == "calibrated" else calibration)
    counted = _counted(table, described, chosen, wanted, rows)
    validation = validate(table.measurements, target, "all" if counted == "auto" else counted)
    return Compared(
        table=table,
        target=described.name,
        mode=chosen,
        calibration=target.calibration,
        rows=counted,
        validation=validation,
        notes=(*notes, *validation.notes),
    )


def fitted(
    data: Sequence[Path], arch: str, *, name: str, constants: Sequence[str] | None, column: str | None, source: str
) -> tuple[Calibration, Fit, Description]:
    """Fit constants to tables of measurements of one chip or system.

    Args:
        data: The tables; each counts alike.
        arch: The chip or system.
        name: Name of the calibration, whose constants are the start where there is one.
        constants: Constants to fit, beside which others of the calibration stay as they are; when left out, those of the
            calibration, else every constant that matters.
        column: Measured column of all tables; each format's first when left out.
        source: Where the measurements come from.

    Raises:
        ModelError: As `compare`, a bad name, more than twelve constants, or one that changes nothing.
        ArchError: A bad description.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ModelError(f"'{name}' is no name of a calibration; write letters, digits and _, such as own_cold")
    tables = [read_measurements(path, column) for path in data]
    if len({one.table.digest for one in tables}) < len(tables):
        raise ModelError("the same table is given twice, and would count twice; leave one out")
    described, _ = _described(tables[0], arch)
    start = _target(described, "datasheet", None)
    known = described.calibrations.get(name)
    if constants:
        names = list(dict.fromkeys(constants))
        _require_effect(tables, start, names)
    else:
        names = list(known.constants) if known else _that_matter(tables, start)
    before: dict[str, float] = {} if known is None else dict(known.constants)
    kept = {key: value for key, value in before.items() if key not in names}
    if len(kept) + len(names) > MAX_CONSTANTS:
        raise ModelError(
            f"calibration '{name}' would have {len(kept) + len(names)} constants, at most {MAX_CONSTANTS} may be fitted; "
            f"fit fewer, take some of {', '.join(kept)} out of the description, or give another --name"
        )
    fit = fit_constants([table.measurements for table in tables], start.with_constants(before), names)
    fitted_values = {key: float(f"{value:.4g}") for key, value in fit.constants.items()}
    files = {Path(table.table.file).name: table.table.digest for table in tables}
    origin = (
        f"{', '.join(f'{Path(t.table.file).name} ({t.column})' for t in tables)}; 70 % of the shapes by hash, "
        f"{fit.num_rows} rows; mean absolute error there {fit.mape:.1f} %"
    )
    if known is not None and kept:
        # What an earlier fit has seen stays seen.
        files = {**known.files, **files}
        origin = f"{', '.join(fitted_values)}: {origin}; {', '.join(kept)}: {known.data.strip()}"
    calibration = Calibration(
        chip=described.name,
        constants={**before, **fitted_values},
        files=files,
        data=origin,
        date=date.today().isoformat(),
        source=source,
    )
    return calibration, fit, described


def calibration_yaml(
    described: Description, name: str, calibration: Calibration, *, arch: str, folder: Path = Path()
) -> str:
    """A description that adds a calibration to the one that was fitted.

    Args:
        described: What was fitted.
        name: Name of the calibration.
        calibration: Its constants.
        arch: How the user named what was fitted, or the chip of the preset system that was.
        folder: Where the description will be; a file that it extends is named from there.
    """
    inner = dump_spec(calibration).rstrip("\n").replace("\n", "\n    ")
    base = described.name
    if Path(arch).is_file() and load_description(arch) == described:
        base = json.dumps(os.path.relpath(arch, folder), ensure_ascii=False)
    return f"extends: {base}\ncalibrations:\n  {name}:\n    {inner}\n"


def document_of(compared: Compared, num_worst: int = 10) -> dict[str, object]:
    """The comparison as JSON: errors in percent, measured and predicted values in seconds or joules."""
    validation = compared.validation
    return {
        "schema_version": SCHEMA_VERSION,
        "data": compared.table.table.file,
        "format": compared.table.format.name,
        "column": compared.table.column,
        "target": compared.target,
        "mode": compared.mode,
        "calibration": compared.calibration,
        "rows": compared.rows,
        "quantity": compared.quantity,
        **asdict(validation.overall),
        "by_regime": {name: asdict(summary) for name, summary in validation.by_regime().items()},
        "by_name": {name: asdict(summary) for name, summary in validation.by_name().items()},
        "rankings": [asdict(ranking) for ranking in validation.rankings()],
        "worst": [row_document(row) for row in validation.worst(num_worst)],
        "notes": list(compared.notes),
    }


def row_document(row: ValidatedRow) -> RowDocument:
    """One measurement with the parts of the predicted time [s]."""
    return {
        "name": row.name,
        "line": row.line,
        "shape": row.label,
        "measured": row.measured,
        "predicted": row.predicted,
        "error_percent": row.error_percent,
        "regime": row.regime,
        "choice": row.choice,
        "parts": _parts_of(row.reasoning),
    }


def _parts_of(tree: Part | None) -> dict[str, float]:
    """Parts of a time, and what overlaps in each: `main loop/tensor cores`."""
    found: dict[str, float] = {}
    for part in tree.parts if tree is not None else ():
        found[part.name] = part.amount
        found |= {f"{part.name}/{inner.name}": inner.amount for inner in part.parts}
    return found


def _described(table: MeasuredTable, arch: str) -> tuple[Any, tuple[str, ...]]:
    """The chip or system that a table is compared with; of a chip, the preset system for tables of systems."""
    described = load_description(arch)
    if table.format.target == "chip":
        if isinstance(described, GpuArch):
            return described, ()
        kind = "system" if isinstance(described, System) else described.kind
        raise ModelError(
            f"{described.name} is of kind {kind}; {table.format.name} are compared with a chip of kind gpu"
        )
    if isinstance(described, System):
        return described, ()
    fitting = [name for name in list_systems() if _is_box_of(name, described)]
    if not fitting:
        raise ModelError(f"{described.name} is a chip; {table.format.name} are compared with a system: name one")
    system = load_system(fitting[0])
    return system, (f"{table.format.name} are compared with system {system.name}, whose chips are {described.name}",)


def _is_box_of(preset: str, arch: Arch) -> bool:
    """Whether a preset system is one node of such chips alone."""
    system = load_system(preset)
    is_uniform = len(system.chips) == 1 and system.chips[0].arch.name == arch.name
    return is_uniform and len(system.chip_names) <= 8 and "calibrations" in system.model_fields_set


def _default_calibration(table: MeasuredTable, described: Any) -> str | None:
    """The set that suits a table best of those that the chip or one of its generation has."""
    for name in table.calibrations:
        try:
            _target(described, "calibrated", name)
        except ModelError:
            continue
        return name
    return None


def _target(described: Any, mode: Mode, calibration: str | None) -> Any:
    if isinstance(described, System):
        return make_machine(described, mode, calibration)
    return make_chip(described, mode, calibration)


def _counted(table: MeasuredTable, described: Any, mode: Mode, calibration: str | None, rows: Rows) -> Rows:
    """Rows to count: of a file that constants were fitted to, those held back."""
    if rows != "auto":
        return rows
    sets: Mapping[str, Calibration] = described.calibrations
    is_known = any(table.table.digest in one.files.values() for one in sets.values())
    return "held_back" if mode == "calibrated" and is_known else "all"


def _that_matter(tables: Sequence[MeasuredTable], start: Any) -> list[str]:
    """Constants that change what is predicted for the tables."""
    plain = _predicted(tables, start)
    return [name for name in start.known_constants if _matters(tables, start, plain, name)]


def _require_effect(tables: Sequence[MeasuredTable], start: Any, names: Sequence[str]) -> None:
    """Check that every constant to fit is known and changes what is predicted.

    Raises:
        ModelError: One is not, or does not, so that what a search ends with would mean nothing.
    """
    known = start.known_constants
    for name in names:
        if name not in known:
            raise ModelError(f"unknown constant '{name}'{nearest_hint(name, known)}")
    plain = _predicted(tables, start)
    idle = [name for name in names if not _matters(tables, start, plain, name)]
    if idle:
        fitting = ", ".join(_that_matter(tables, start))
        raise ModelError(f"{', '.join(idle)}: changes no row of these tables; fit those that do: {fitting}")


def _matters(tables: Sequence[MeasuredTable], start: Any, plain: Sequence[Any], name: str) -> bool:
    """Whether a constant at an end of its range changes what is predicted for the tables."""
    constant = start.known_constants[name]
    for value in (constant.high, constant.low):
        changed = _predicted(tables, start.with_constants({name: value}))
        if any((before != after).any() for before, after in zip(plain, changed, strict=True)):
            return True
    return False


def _predicted(tables: Sequence[MeasuredTable], target: Any) -> list[Any]:
    """What is predicted of every batch of the tables, in what was measured of it."""
    found: list[Any] = []
    for one in (one for table in tables for one in table.measurements):
        times = one.kernels.times(target)
        found.append(times.time_s if one.quantity == "time_s" or times.energy_j is None else times.energy_j)
    return found
