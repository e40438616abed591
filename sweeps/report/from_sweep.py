"""From a sweep's results to its interactive report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ..kernel_document import parts_of
from ..objectives import Metric, Objective, Pricing
from ..plots.from_sweep import caption_of, front_plot, input_text, reason_of, standing_of
from ..plots.front import Standing
from ..store import DesignRecord, PointStatus, SweepResults
from ..version import code_version
from .data import Note, Report, ReportDesign, ReportMetric
from .page import write_report

if TYPE_CHECKING:
    from ..document import EstimateDocument
    from ..kernel_document import KernelsDocument
    from ..serving_documents import ServedDocument

MAX_BREAKDOWNS: Final = 3000
LEFT_OUT_METRICS: Final = ("latency_cycles", "macs")


def make_report(
    results: SweepResults, *, commit: str, title: str | None = None, max_breakdowns: int = MAX_BREAKDOWNS
) -> Report:
    """The report of a sweep; points that have not run are left out and counted in the caption.

    Args:
        results: The sweep.
        commit: Version of the code, for the caption.
        title: Claim or question; one is made from the numbers when left out.
        max_breakdowns: How many designs keep their ops; the front comes first.
    """
    metrics = _metrics(results)
    known = [record for record in results.records if record.status is not PointStatus.PENDING]
    on_front = results.on_front()
    standings = {r.index: standing_of(r, is_on_front=bool(on_front[r.index])) for r in known}
    kept = _kept_breakdowns(known, standings, max_breakdowns)
    designs = tuple(
        ReportDesign(
            id=record.id,
            standing=standings[record.index],
            parameters=tuple(input_text(value) for value in record.inputs.values()),
            sort_keys=tuple(record.values.get(path, input_text(v)) for path, v in record.inputs.items()),
            metrics=_values(record.metrics, metrics),
            workload_metrics=tuple(
                _values(record.workload_metrics.get(workload.name, {}), metrics) for workload in results.workloads
            ),
            reason=reason_of(record),
            documents=_documents(results, record) if record.index in kept else None,
        )
        for record in known
    )
    knee = results.knee()
    return Report(
        title=title or front_plot(results, commit=commit).title,
        caption=caption_of(results, commit),
        workloads=tuple(workload.name for workload in results.workloads),
        parameters=tuple(axis.path for axis in results.axes),
        metrics=metrics,
        designs=designs,
        knee=None if knee is None else next(i for i, record in enumerate(known) if record.index == knee.index),
        notes=tuple(_notes(results)),
    )


def report_sweep(results: SweepResults, folder: Path) -> Path:
    """Write the report of a sweep as `report.html` into a folder, which is made when it is missing."""
    return write_report(make_report(results, commit=code_version()), folder / "report.html")


def _metrics(results: SweepResults) -> tuple[ReportMetric, ...]:
    """The sweep's objectives in their order, then everything else that designs have."""
    objectives: dict[str, Objective] = {objective.metric: objective for objective in results.objectives}
    by_name: dict[str, Metric] = {metric.name: metric for metric in results.metrics}
    names = [*objectives, *(name for name in by_name if name not in objectives and name not in LEFT_OUT_METRICS)]
    return tuple(
        ReportMetric(
            name=name,
            label=by_name[name].label,
            unit="" if by_name[name].unit == "1" else by_name[name].unit,
            is_objective=name in objectives,
            is_per_workload=by_name[name].is_per_workload,
            is_larger_better=by_name[name].is_larger_better,
        )
        for name in names
    )


def _kept_breakdowns(
    known: list[DesignRecord], standings: Mapping[int, Standing], max_breakdowns: int
) -> frozenset[int]:
    front = [r.index for r in known if standings[r.index] is Standing.FRONT]
    dominated = [r.index for r in known if standings[r.index] is Standing.DOMINATED]
    return frozenset([*front, *dominated][:max_breakdowns])


def _documents(results: SweepResults, record: DesignRecord) -> tuple[EstimateDocument | ServedDocument, ...]:
    found = results.breakdown(record.id)
    if results.pricing is Pricing.KERNELS:
        return tuple(parts_of(cast("KernelsDocument", document)) for document in found)
    return cast("tuple[EstimateDocument | ServedDocument, ...]", found)


def _values(metrics: Mapping[str, float], wanted: tuple[ReportMetric, ...]) -> tuple[float | None, ...]:
    found = (metrics.get(metric.name) for metric in wanted)
    return tuple(value if value is not None and math.isfinite(value) else None for value in found)


def _notes(results: SweepResults) -> list[Note]:
    settings = ", ".join(f"{key} {value}" for key, value in results.settings.items() if value is not None)
    sampler = ", ".join(f"{key} {value}" for key, value in results.sampler.items() if value is not None)
    notes = [
        Note(heading="base architecture", text=f"{results.base} ({results.arch_name})"),
        Note(heading="mapping" if results.pricing is Pricing.MAPPING else "constants", text=settings),
        Note(heading="sampler", text=sampler),
    ]
    if results.constraints:
        notes.append(Note(heading="constraints", text="\n".join(results.constraints)))
    for workload in results.workloads:
        lines = [f"{workload.spec}: {workload.size}", *workload.notices]
        lines += [f"not modelled: {text}" for text in workload.unmodelled]
        notes.append(Note(heading=workload.name, text="\n".join(lines)))
    notes.append(Note(heading="model version", text=results.model_version))
    notes.append(Note(heading="specification", text=results.spec_text, is_code=True))
    return notes
