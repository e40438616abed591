"""From a sweep's results to its figures."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ..objectives import COMPANIONS, Objective, Pricing, metric
from ..pareto import knee_index, pareto_mask
from ..store import DesignRecord, InputValue, PointStatus, SweepResults
from ..version import code_version
from .from_document import plot_estimate
from .front import DesignPoint, FrontPlot, PlotAxis, Standing, short_names, varying_parameters
from .pareto import plot_pareto
from .style import Caption

if TYPE_CHECKING:
    from ..document import EstimateDocument


MAX_NAME_ON_AXIS: Final = 20


def front_plot(
    results: SweepResults, *, commit: str, objectives: Sequence[Objective] | None = None, title: str | None = None
) -> FrontPlot:
    """The trade-off of a sweep; points that have not run are left out and counted in the caption.

    Args:
        results: The sweep.
        commit: Version of the code, for the caption.
        objectives: Which objectives to trade off, also others than the sweep's; its own when left out. A
            single one is shown against the first of `COMPANIONS` that it is not itself.
        title: Claim or question; one is made from the numbers when left out.
    """
    chosen = results.objectives if objectives is None else tuple(objectives)
    if len(chosen) == 1:
        chosen = (*chosen, next(other for other in COMPANIONS[results.pricing] if other is not chosen[0]))
    known = [record for record in results.records if record.status is not PointStatus.PENDING]
    matrix = np.array([[record.cost(o) for o in chosen] for record in known], dtype=np.float64)
    matrix = matrix.reshape(len(known), len(chosen))
    untitled = FrontPlot(
        title="",
        axes=tuple(_axis(objective, results) for objective in chosen),
        points=tuple(
            DesignPoint(
                id=record.id,
                standing=standing_of(record, is_on_front=bool(is_on_front)),
                values=tuple(_number(record.metrics, objective.metric) for objective in chosen),
                parameters=tuple((path, input_text(value)) for path, value in record.inputs.items()),
                reason=reason_of(record),
            )
            for record, is_on_front in zip(known, pareto_mask(matrix), strict=True)
        ),
        knee=knee_index(matrix),
        caption=caption_of(results, commit),
    )
    return replace(untitled, title=title or claim_of(untitled))


def plot_sweep(results: SweepResults, folder: Path) -> tuple[Path, ...]:
    """Draw a sweep: its trade-off, and for mapped networks the breakdown and roofline of the knee.

    Args:
        results: The sweep.
        folder: Where to put the files; made when it is missing.

    Returns:
        The files.
    """
    commit = code_version()
    plot = front_plot(results, commit=commit)
    found = [plot_pareto(plot, folder / "pareto")]
    if plot.knee is not None and results.pricing is Pricing.MAPPING:
        point = plot.points[plot.knee]
        names = varying_parameters(plot.points)
        shown = zip(short_names(names), (dict(point.parameters)[name] for name in names), strict=True)
        design = "knee design, " + ", ".join(f"{name} {value}" for name, value in shown)
        for document in results.breakdown(point.id):
            estimate = cast("EstimateDocument", document)
            prefix = f"knee_{_file_name(estimate['workload'])}_"
            found += plot_estimate(estimate, folder, commit=commit, design=design, prefix=prefix)
    return tuple(path for files in found for path in (files.png, files.svg, files.csv))


def standing_of(record: DesignRecord, *, is_on_front: bool) -> Standing:
    """Where a record that has run stands."""
    match record.status:
        case PointStatus.OK:
            return Standing.FRONT if is_on_front else Standing.DOMINATED
        case PointStatus.FAILED:
            return Standing.FAILED
        case PointStatus.EXCLUDED:
            return Standing.EXCLUDED
        case _:
            return Standing.INFEASIBLE


def reason_of(record: DesignRecord) -> str:
    """Why a record has no usable answer, in one line; empty when it has one."""
    if record.infeasible is not None:
        return str(record.infeasible).partition("\n")[0]
    if record.violated:
        return f"violates {'; '.join(record.violated)}"
    return record.error


def input_text(value: InputValue) -> str:
    """A swept value as the specification spells it."""
    if isinstance(value, tuple):
        return ", ".join(map(input_text, value))
    return "none" if value is None else str(value)


def caption_of(results: SweepResults, commit: str) -> Caption:
    """Workloads, points and the choices that the numbers depend on."""
    pending = results.count(PointStatus.PENDING)
    extra = [f"{results.arch_name}"]
    if results.pricing is Pricing.MAPPING:
        extra += [f"{key} {value}" for key, value in results.mapping.items() if key in ("fidelity", "convention")]
        if "objective" in results.mapping:
            extra.insert(1, f"mapped for {results.mapping['objective']}")
    else:
        extra.append("constants: " + " ".join(str(value) for value in results.constants.values() if value is not None))
    if results.pricing is Pricing.SERVING:
        extra += [f"{workload.name}: {workload.size}" for workload in results.workloads]
    if pending:
        extra.append(f"{pending:,} more not run yet")
    return Caption(
        workload=", ".join(workload.name for workload in results.workloads),
        commit=commit,
        num_points=len(results.records) - pending,
        extra=tuple(extra),
    )


def claim_of(plot: FrontPlot) -> str:
    """What the front says in one sentence, from its numbers alone."""
    front = plot.indices(Standing.FRONT)
    names = [axis.word for axis in plot.axes]
    if not front:
        return f"None of {len(plot.points):,} designs is feasible"
    if len(front) == 1:
        return f"One of {len(plot.points):,} designs is best in {_listed(names)}"
    spans: list[str] = []
    for axis, name in enumerate(names):
        values = plot.column(axis, front)
        if min(values) > 0:
            spans.append(f"{name} {max(values) / min(values):.3g}x")
    claim = f"{len(front):,} of {len(plot.points):,} designs are Pareto-optimal"
    return f"{claim}; they span {_listed(spans)}" if spans else claim


def _file_name(text: str) -> str:
    """A workload's name as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._") or "workload"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _axis(objective: Objective, results: SweepResults) -> PlotAxis:
    found = metric(objective.metric)
    whose = results.workloads[0].name if len(results.workloads) == 1 else "all workloads"
    is_told = found.is_per_workload and len(whose) <= MAX_NAME_ON_AXIS
    quantity = f"{found.label} of {whose}" if is_told else found.label  # the caption names it in any case
    return PlotAxis(
        name=found.name,
        quantity=quantity,
        unit=found.unit,
        word=found.word,
        is_larger_better=found.is_larger_better,
    )


def _number(metrics: Mapping[str, float], name: str) -> float | None:
    value = metrics.get(name)
    return value if value is not None and math.isfinite(value) else None
