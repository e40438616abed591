"""Reading a sweep's result store: `SweepResults` and its design records.

The store is one SQLite file, `sweep.sqlite`, in the sweep's output directory. `writer.py` is the only
module that writes it; everything here opens it read-only, also while a sweep is running.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..archdsl import Infeasible, SweepError
from .constraints import Constraint, parse_constraint
from .objectives import METRICS_OF, Metric, Objective, Pricing
from .pareto import knee_index, pareto_mask

STORE_NAME = "sweep.sqlite"
APPLICATION_ID = 0x746C6F6D
FORMAT_VERSION = 2

JsonScalar = None | bool | int | float | str
InputValue = JsonScalar | tuple[JsonScalar, ...]


class PointStatus(StrEnum):
    """What is known about a design point.

    `ok` has metrics; `infeasible` has a typed reason; `failed` has an error; `excluded` violates a
    constraint of the sweep (with metrics when only the result showed it); `pending` has not run.
    """

    OK = "ok"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    EXCLUDED = "excluded"
    PENDING = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAxis:
    """One swept field of the architecture.

    Attributes:
        path: Dotted path, e.g. `hierarchy.scratchpad.capacity`.
        values: The values in sweep order, as the specification spells them (`64 KiB`, 16).
        unit: Unit of `DesignRecord.values` for this path: `bytes`, `Hz`, ... or empty.
    """

    path: str
    values: tuple[InputValue, ...]
    unit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadInfo:
    """What a report says about one workload.

    Attributes:
        name: Name in the sweep, unique.
        spec: Path, notation or preset as the specification gives it.
        size: Multiply-accumulates and ops of one run, or how a language model is served, in words.
        unmodelled: Names and kinds of nodes that the model leaves out, `name (kind): reason`.
        notices: Choices made for the user on import.
    """

    name: str
    spec: str
    size: str
    unmodelled: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignRecord:
    """One design point of a sweep with what came out.

    Attributes:
        index: Position in the sweep's deterministic order, from 0.
        id: Hash of the resolved inputs and the model version.
        status: What is known about it.
        inputs: Dotted path to value as the specification spells it.
        values: Dotted path to value as a number in its canonical unit (bytes, Hz, pJ, mm^2, ...);
            paths with non-numeric values are left out.
        metrics: Metric name to value over all workloads (see `objectives.METRICS_OF`); empty without a result.
        workload_metrics: Workload name to its own metrics.
        violated: Constraints of the sweep that this point violates, as written.
        infeasible: Why nothing fits, for status `infeasible`.
        error: One-line error, for status `failed`.
        traceback: Traceback text, for status `failed`.
    """

    index: int
    id: str
    status: PointStatus
    inputs: Mapping[str, InputValue]
    values: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    workload_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    violated: tuple[str, ...] = ()
    infeasible: Infeasible | None = None
    error: str = ""
    traceback: str = ""

    def cost(self, objective: Objective) -> float:
        """What is minimised of an objective (`Objective.cost`); NaN unless the status is `ok`."""
        return objective.cost(self.metrics) if self.status is PointStatus.OK else float("nan")


@dataclass(frozen=True, kw_only=True)  # no slots: cached_property needs a dict
class SweepResults:
    """Everything that a report needs of a sweep, read from its store.

    Attributes:
        directory: Output directory of the sweep.
        name: Name of the sweep.
        base: Base architecture as the specification gives it.
        arch_name: Name of the resolved base architecture.
        spec_text: The specification file's text.
        axes: Swept fields in the specification's order.
        workloads: The workloads.
        objectives: What the front trades off.
        constraints: Constraint expressions as written.
        pricing: What prices the designs.
        mapping: Mapping options: objective, fidelity, convention, time limit.
        constants: Which constants models of GPUs have: mode, calibration.
        sampler: Sampler options: kind, seed, ...
        model_version: Version of the model that the ids were made with.
        records: One per design point, by index.
    """

    directory: Path
    name: str
    base: str
    arch_name: str
    spec_text: str
    axes: tuple[SweepAxis, ...]
    workloads: tuple[WorkloadInfo, ...]
    objectives: tuple[Objective, ...]
    constraints: tuple[str, ...]
    pricing: Pricing
    mapping: Mapping[str, JsonScalar]
    constants: Mapping[str, JsonScalar]
    sampler: Mapping[str, JsonScalar]
    model_version: str
    records: tuple[DesignRecord, ...]

    @staticmethod
    def load(directory: Path) -> SweepResults:
        """Read the store in a sweep's output directory.

        Raises:
            SweepError: There is no store, or it is not one of ours, or it is damaged.
        """
        with open_for_reading(directory) as connection:
            return _load(connection, directory)

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Metrics that its designs have."""
        return METRICS_OF[self.pricing]

    @property
    def settings(self) -> Mapping[str, JsonScalar]:
        """Options of what prices the designs."""
        return self.mapping if self.pricing is Pricing.MAPPING else self.constants

    @cached_property
    def objective_matrix(self) -> NDArray[np.float64]:
        """What is minimised of all records, shape [N, K], NaN in rows whose status is not `ok`."""
        rows = [[record.cost(objective) for objective in self.objectives] for record in self.records]
        return np.array(rows, dtype=np.float64).reshape(len(self.records), len(self.objectives))

    def on_front(self, objectives: Sequence[Objective] | None = None) -> NDArray[np.bool_]:
        """Which records are on the Pareto front, shape [N].

        Args:
            objectives: A selection of this sweep's objectives; all of them when left out.
        """
        return pareto_mask(self._columns(objectives))

    def knee(self, objectives: Sequence[Objective] | None = None) -> DesignRecord | None:
        """The front's knee, or None when no record is `ok`."""
        index = knee_index(self._columns(objectives))
        return None if index is None else self.records[index]

    def count(self, status: PointStatus) -> int:
        """Number of records with that status."""
        return sum(record.status is status for record in self.records)

    def record(self, key: str) -> DesignRecord:
        """The record with that id, a unique prefix of it, or that index (`#12`).

        Raises:
            SweepError: No record, or more than one, fits.
        """
        if key.startswith("#"):
            found = [r for r in self.records if str(r.index) == key[1:]]
        else:
            found = [r for r in self.records if key and r.id.startswith(key)]
        if len({r.id for r in found}) > 1:
            raise SweepError(f"{key!r} fits {len(found)} design points of {self.name}; give more of the id")
        if not found:
            raise SweepError(f"no design point {key!r} in {self.name}; `tileloom sweep show` lists them")
        return found[0]

    def breakdown(self, point_id: str) -> tuple[Mapping[str, object], ...]:
        """The estimate documents of one design point, one per workload in the sweep's order.

        Each is what `tileloom estimate --json`, or for served models `tileloom serve estimate --json`, prints. Read from the store on each call, so that a large sweep stays small.

        Raises:
            SweepError: The point has no result.
        """
        with open_for_reading(self.directory) as connection:
            row = connection.execute("SELECT breakdown FROM results WHERE id = ?", (point_id,)).fetchone()
        if row is None or row[0] is None:
            raise SweepError(f"design point {point_id} has no breakdown: it has no result yet, or none that is ok")
        return tuple(cast("list[Mapping[str, object]]", json.loads(zlib.decompress(row[0]))))

    def _columns(self, objectives: Sequence[Objective] | None) -> NDArray[np.float64]:
        if objectives is None:
            return self.objective_matrix
        return self.objective_matrix[:, [self.objectives.index(objective) for objective in objectives]]


@contextmanager
def open_for_reading(directory: Path) -> Generator[sqlite3.Connection]:
    """A read-only connection to the store in a sweep's output directory.

    Raises:
        SweepError: There is no store, it is not one of ours, it is damaged, or it stays locked.
    """
    path = directory / STORE_NAME
    if not path.is_file():
        raise SweepError(f"{path}: there is no sweep store; `tileloom sweep run SPEC -o {directory}` makes one")
    # A directory that cannot be written has no place for SQLite's shared memory: nobody writes there, so
    # the file can be read as it is.
    mode = "mode=ro" if os.access(directory, os.W_OK) else "immutable=1"
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?{mode}", uri=True, timeout=30.0)
    try:
        check_format(connection, path)
        yield connection
    except sqlite3.Error as err:
        raise store_error(path, err) from err
    finally:
        connection.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """What a store holds, as far as a run needs it.

    Attributes:
        metadata: What the last run said about its sweep; empty in a new store.
        statuses: Status of every stored result, by id; also of results that the last run did not list.
        listed_ids: Id by the inputs (as text) of every point that the last run listed.
        mean_elapsed_s: Mean time of a result that did not fail; None without any.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    statuses: dict[str, PointStatus] = field(default_factory=dict[str, PointStatus])
    listed_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    mean_elapsed_s: float | None = None


def read_state(connection: sqlite3.Connection) -> StoredState:
    """Read what a run needs to know of a store."""
    mean = connection.execute("SELECT avg(elapsed_s) FROM results WHERE status != 'failed'").fetchone()[0]
    return StoredState(
        metadata={key: json.loads(value) for key, value in connection.execute("SELECT key, value FROM meta")},
        statuses={i: PointStatus(status) for i, status in connection.execute("SELECT id, status FROM results")},
        listed_ids=dict(connection.execute("SELECT inputs, id FROM points")),
        mean_elapsed_s=mean,
    )


def check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Make sure that a database is a sweep store of this format.

    Raises:
        SweepError: It is another program's database or of another version.
    """
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    if application_id != APPLICATION_ID:
        raise SweepError(f"{path}: this is not a sweep store; give an output directory of `tileloom sweep run`")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT_VERSION:
        raise SweepError(
            f"{path}: the store has format {version} and this version of tileloom reads {FORMAT_VERSION}; "
            "run the sweep into a new directory"
        )


def store_error(path: Path, err: sqlite3.Error) -> SweepError:
    """What a database error means to the user."""
    text = " ".join(str(err).split())
    if "not a database" in text or "malformed" in text or "disk image" in text:
        return SweepError(
            f"{path}: the store is damaged ({text}); move it away and run the sweep again, "
            "or restore the file from a copy"
        )
    if "locked" in text or "busy" in text:
        return SweepError(f"{path}: another program holds the store locked; close it and run again")
    if "disk is full" in text or "full" in text:
        return SweepError(
            f"{path}: the disk is full; finished design points are kept, so free some space and run the same command again"
        )
    if "readonly" in text or "unable to open" in text:
        return SweepError(f"{path}: the store cannot be opened for writing ({text}); check the directory's permissions")
    return SweepError(f"{path}: {text}")


def _load(connection: sqlite3.Connection, directory: Path) -> SweepResults:
    meta = {str(key): json.loads(value) for key, value in connection.execute("SELECT key, value FROM meta")}
    if not meta:
        raise SweepError(f"{directory / STORE_NAME}: no run has begun here yet; run the sweep again")
    pricing = Pricing(meta["pricing"])
    constraints = tuple(parse_constraint(text, pricing.bandwidth_unit) for text in meta["constraints"])
    rows = connection.execute(
        "SELECT idx, points.id, inputs, terms, status, metrics, workload_metrics, infeasible, error, traceback "
        "FROM points LEFT JOIN results ON results.id = points.id ORDER BY idx"
    )
    axes = tuple(
        SweepAxis(path=a["path"], values=tuple(map(_value, a["values"])), unit=a["unit"]) for a in meta["axes"]
    )
    return SweepResults(
        directory=directory,
        name=meta["name"],
        base=meta["base"],
        arch_name=meta["arch_name"],
        spec_text=meta["spec_text"],
        axes=axes,
        workloads=tuple(_workload(info) for info in meta["workloads"]),
        objectives=tuple(Objective(name) for name in meta["objectives"]),
        constraints=tuple(constraint.text for constraint in constraints),
        pricing=pricing,
        mapping=meta["mapping"],
        constants=meta["constants"],
        sampler=meta["sampler"],
        model_version=meta["model_version"],
        records=tuple(_record(row, axes, constraints) for row in rows),
    )


def _value(value: object) -> InputValue:
    """An input value as read from JSON; a list becomes a tuple."""
    return tuple(cast("list[JsonScalar]", value)) if isinstance(value, list) else cast("JsonScalar", value)


def _workload(info: Mapping[str, Any]) -> WorkloadInfo:
    return WorkloadInfo(
        name=info["name"],
        spec=info["spec"],
        size=info["size"],
        unmodelled=tuple(info["unmodelled"]),
        notices=tuple(info["notices"]),
    )


def _record(row: Sequence[Any], axes: Sequence[SweepAxis], constraints: Sequence[Constraint]) -> DesignRecord:
    idx, point_id, inputs_text, terms_text, status_text, metrics_text, workloads_text, reason_text, error, trace = row
    terms: dict[str, float] = json.loads(terms_text)
    metrics: dict[str, float] = json.loads(metrics_text) if metrics_text else {}
    environment = {**terms, **metrics}
    violated = tuple(c.text for c in constraints if c.is_decided_by(environment) and not c.holds(environment))
    status = PointStatus(status_text) if status_text else PointStatus.PENDING
    if violated and status in (PointStatus.OK, PointStatus.PENDING):
        status = PointStatus.EXCLUDED
    return DesignRecord(
        index=idx,
        id=point_id,
        status=status,
        inputs={path: _value(value) for path, value in json.loads(inputs_text).items()},
        values={axis.path: terms[axis.path] for axis in axes if axis.path in terms},
        metrics=metrics,
        workload_metrics=json.loads(workloads_text) if workloads_text else {},
        violated=violated,
        infeasible=_infeasible(reason_text),
        error=error or "",
        traceback=trace or "",
    )


def _infeasible(text: str | None) -> Infeasible | None:
    if not text:
        return None
    parts = json.loads(text)
    return Infeasible(
        resource=parts["resource"],
        demand=parts["demand"],
        limit=parts["limit"],
        unit=parts["unit"],
        terms=tuple((name, amount) for name, amount in parts["terms"]),
        levers=tuple(parts["levers"]),
        op=parts["op"],
    )
