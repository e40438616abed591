"""The seam between the sweep engine and what prices a design point.

The engine hands an evaluator a *group*: design points whose architectures differ only in fields that do
not change counts, so that an op is mapped once for all of them. What comes out for a point must not
depend on the other points of its group, on their order or on the number of workers.
"""

from __future__ import annotations

import json
import math
import time
import traceback
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from ..archdsl import (
    Description,
    Infeasible,
    Workload,
)
from .designs import ServedModel
from .spec import ConstantsOptions, MappingOptions
from .store import InputValue, PointStatus

MAX_TRACEBACK = 20_000
SUMMED_METRICS = ("latency_cycles", "latency_s", "energy_pj", "main_memory_bytes", "macs")


@dataclass(frozen=True, slots=True, kw_only=True)
class DesignPoint:
    """One design to price.

    Attributes:
        id: Hash of its resolved inputs and the model version.
        inputs: Dotted path and value of every swept field.
        arch: The resolved architecture or system.
        served: Language models that it serves.
        constants: Which constants models of GPUs have.
        notes: What followed from the inputs.
    """

    id: str
    inputs: tuple[tuple[str, InputValue], ...]
    arch: Description
    served: tuple[ServedModel, ...] = ()
    constants: ConstantsOptions = field(default_factory=ConstantsOptions)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PointResult:
    """What came out for one design point; `store.DesignRecord` explains the fields.

    Attributes:
        id: Id of the design point.
        status: `ok`, `infeasible` or `failed`.
        metrics: Over all workloads, by metric name.
        workload_metrics: Per workload.
        breakdown: JSON text of the estimate documents, one per workload.
        infeasible: Why nothing fits.
        error: One line.
        traceback: Traceback text of the error.
        elapsed_s: Time spent on it, for predicting how long the rest takes; never exported.
    """

    id: str
    status: PointStatus
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    workload_metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    breakdown: str = ""
    infeasible: Infeasible | None = None
    error: str = ""
    traceback: str = ""
    elapsed_s: float = 0.0


Evaluator = Callable[[Sequence[DesignPoint], Sequence[Workload], MappingOptions], Iterable[PointResult]]
"""Prices a group: one result per point, in any order, as soon as each is known.

A generator lets the engine store every point when it is done; a list stores the group at once. Workers
import the evaluator by name, so it is a function of a module.
"""


GroupKey = Callable[[Description], Hashable]
"""Maps an architecture to a key that is equal for architectures that are better priced together, such as those on which
every mapping has the same counts."""


def _no_metrics(arch: Description) -> Mapping[str, float]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pricer:
    """Everything that the engine needs to know about a model.

    Attributes:
        evaluate: Prices a group of points.
        group_key: Key of an architecture's group. Only speed depends on it, never a result.
        early_metrics: Metrics that an architecture has whatever is mapped onto it, so that constraints on
            them are decided before a point runs. Equal to what `evaluate` returns for them.
    """

    evaluate: Evaluator
    group_key: GroupKey
    early_metrics: Callable[[Description], Mapping[str, float]] = _no_metrics


def ok_result(point_id: str, documents: Mapping[str, Mapping[str, object]]) -> PointResult:
    """A priced point.

    Args:
        point_id: Id of the design point.
        documents: Per workload name, what `tileloom estimate --json` prints (`document.EstimateDocument`).
    """
    totals = {name: cast("Mapping[str, float]", document["total"]) for name, document in documents.items()}
    per_workload = {
        name: {metric: total[metric] for metric in (*SUMMED_METRICS, "utilization")}
        | {"edp_pj_s": total["energy_pj"] * total["latency_s"]}
        for name, total in totals.items()
    }
    metrics: dict[str, float] = {name: sum(total[name] for total in totals.values()) for name in SUMMED_METRICS}
    metrics["edp_pj_s"] = metrics["energy_pj"] * metrics["latency_s"]
    busy_cycles = sum(total["utilization"] * total["latency_cycles"] for total in totals.values())
    metrics["utilization"] = busy_cycles / metrics["latency_cycles"] if metrics["latency_cycles"] else 0.0
    metrics["area_mm2"] = max(total["area_mm2"] for total in totals.values())
    return PointResult(
        id=point_id,
        status=PointStatus.OK,
        metrics=metrics,
        workload_metrics=per_workload,
        breakdown=json.dumps(list(documents.values()), separators=(",", ":"), allow_nan=False),
    )


def infeasible_result(point_id: str, infeasible: Infeasible) -> PointResult:
    """A point on which some op has no legal mapping."""
    return PointResult(id=point_id, status=PointStatus.INFEASIBLE, infeasible=infeasible)


def failed_result(point_id: str, error: BaseException) -> PointResult:
    """A point whose evaluation raised."""
    first_line = str(error).strip().partition("\n")[0]
    text = "".join(traceback.format_exception(error))
    return PointResult(
        id=point_id,
        status=PointStatus.FAILED,
        error=f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__,
        traceback=text[-MAX_TRACEBACK:],
    )


def evaluate_isolated(
    points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions, evaluator: Evaluator
) -> Iterator[PointResult]:
    """Price a group so that a point that raises spoils no other point.

    Yields:
        One result per point as soon as it is known. When the group raises, its remaining points run
        one by one, so that an error and its traceback are the same however points were grouped.
    """
    remaining = {point.id: point for point in points}
    started_s = time.perf_counter()
    failure: Exception | None = None
    try:
        for result in evaluator(points, workloads, mapping):
            if remaining.pop(result.id, None) is None:
                raise RuntimeError(f"the evaluator returned {result.id!r}, which it was not asked for or gave twice")
            now_s = time.perf_counter()
            yield replace(_checked(result), elapsed_s=now_s - started_s)
            started_s = now_s
        if remaining:
            raise RuntimeError(f"the evaluator gave no result for {len(remaining)} of {len(points)} points")
    except Exception as err:  # noqa: BLE001 (the edge of a design point: whatever it raises is its result)
        failure = err
    if failure is None:
        return
    if len(points) == 1:
        yield replace(failed_result(points[0].id, failure), elapsed_s=time.perf_counter() - started_s)
        return
    for point in remaining.values():
        yield from evaluate_isolated([point], workloads, mapping, evaluator)


def _checked(result: PointResult) -> PointResult:
    """A result whose numbers are all finite, or a failed one that says which are not."""
    if result.status is not PointStatus.OK:
        return result
    bad = [name for name, value in result.metrics.items() if not math.isfinite(value)]
    if not bad:
        return result
    seen = ", ".join(f"{name} is {result.metrics[name]}" for name in bad)
    return PointResult(id=result.id, status=PointStatus.FAILED, error=f"ModelError: {seen}; metrics must be finite")
