"""Sweep results as tables and plain values, for `tileloom sweep status|show|diff`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from .comparison import SweepComparison
from .dry_run import REASON_TEXTS, DryRun
from .objectives import METRICS
from .store import DesignRecord, InputValue, PointStatus, SweepResults

if TYPE_CHECKING:
    from pathlib import Path

    from rich.table import Table

    from .engine import RunSummary

SCHEMA_VERSION: Final = 1
DIGITS: Final = 6


def record_json(record: DesignRecord, is_on_front: bool) -> dict[str, object]:
    """One design point as JSON."""
    return {
        "index": record.index,
        "id": record.id,
        "status": record.status.value,
        "on_front": is_on_front,
        "inputs": dict(record.inputs),
        "metrics": dict(record.metrics),
        "workload_metrics": {name: dict(values) for name, values in record.workload_metrics.items()},
        "violated": list(record.violated),
        "infeasible": str(record.infeasible) if record.infeasible else None,
        "error": record.error or None,
    }


def status_json(results: SweepResults, running: str | None) -> dict[str, object]:
    """How far a sweep is, as JSON."""
    knee = results.knee()
    return {
        "schema_version": SCHEMA_VERSION,
        "name": results.name,
        "points": len(results.records),
        **{status.value: results.count(status) for status in PointStatus},
        "on_front": int(results.on_front().sum()),
        "knee": knee.id if knee else None,
        "model_version": results.model_version,
        "running": running,
    }


def run_json(results: SweepResults, run: RunSummary, directory: Path, files: Sequence[Path]) -> dict[str, object]:
    """What a run did, as JSON."""
    return status_json(results, None) | {
        "directory": str(directory),
        "run": run.num_run,
        "reused": run.num_reused,
        "files": [str(path) for path in files],
    }


def dry_run_json(run: DryRun, directory: Path) -> dict[str, object]:
    """What a run would do, as JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "directory": str(directory),
        "to_run": run.num_to_run,
        "counts": {reason.value: count for reason, count in run.counts.items()},
        "changes": list(run.changes),
        "max_points": run.max_points,
        "estimated_s": run.time_s,
        "estimated_from": run.time_basis,
        "points": [
            {"index": p.row.index, "id": p.row.id, "reason": reason.value, "inputs": dict(p.row.inputs)}
            for p, reason in run.points
        ],
    }


def comparison_json(comparison: SweepComparison) -> dict[str, object]:
    """Two sweeps compared, as JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "equal": comparison.num_equal,
        "settings": {name: list(values) for name, values in comparison.settings.items()},
        "only_first": [dict(record.inputs) for record in comparison.only_first],
        "only_second": [dict(record.inputs) for record in comparison.only_second],
        "changed": [
            {
                "first": record_json(point.first, point.first_on_front),
                "second": record_json(point.second, point.second_on_front),
            }
            for point in comparison.changed
        ],
    }


def comparison_lines(comparison: SweepComparison) -> list[str]:
    """Two sweeps compared, in words."""
    lines = [f"{name}: {before} -> {after}" for name, (before, after) in comparison.settings.items()]
    lines.append(
        f"{comparison.num_equal} points equal, {len(comparison.changed)} changed, "
        f"{len(comparison.only_first)} only in the first, {len(comparison.only_second)} only in the second"
    )
    for metric in METRICS:
        largest = comparison.largest_change(metric.name)
        if largest is not None:
            lines.append(f"{metric.name}: changed by up to {largest:.2%}")
    return lines


def counts_text(results: SweepResults) -> str:
    """One line: `1000 points: 950 ok, 50 infeasible; 12 on the front`."""
    counts = [f"{results.count(status)} {status}" for status in PointStatus if results.count(status)]
    front = int(results.on_front().sum())
    return f"{results.name}: {len(results.records)} points: {', '.join(counts)}; {front} on the front"


def points_table(results: SweepResults, records: Sequence[DesignRecord]) -> Table:
    """Design points as rows: swept values, objectives and what is to be said about them."""
    knee = results.knee()
    objectives = [objective.metric for objective in results.objectives]
    has_note = any(record.status is not PointStatus.OK for record in records) or knee in records
    table = _table("#", "id", "status", *(_short(axis.path) for axis in results.axes), *objectives)
    if has_note:
        table.add_column("note")
    for record in records:
        cells = [str(record.index), record.id, record.status.value]
        cells += [shown(record.inputs[axis.path]) for axis in results.axes]
        cells += [number(record.metrics.get(metric)) for metric in objectives]
        table.add_row(*cells, *([_note(record, record is knee)] if has_note else []))
    return table


def record_table(results: SweepResults, record: DesignRecord) -> Table:
    """Everything about one design point but its ops."""
    table = _table("field", "value", *(workload.name for workload in _several(results)))
    several = _several(results)
    for path, value in record.inputs.items():
        table.add_row(path, shown(value), *("" for _ in several))
    for metric in results.metrics:
        if metric.name in record.metrics:
            each = [number(record.workload_metrics.get(w.name, {}).get(metric.name)) for w in several]
            table.add_row(metric.name, number(record.metrics[metric.name]), *each)
    return table


def ops_table(document: Mapping[str, object]) -> Table:
    """The ops of one workload on one design, dearest first."""
    ops = cast("list[Mapping[str, Any]]", document["ops"])
    table = _table("op", "count", "latency_cycles", "energy_pj", "energy share", "utilization", "bottleneck", "proved")
    total = sum(op["energy_pj"] * op["count"] for op in ops) or 1.0
    for op in sorted(ops, key=lambda op: -op["energy_pj"] * op["count"]):
        proved = {True: "yes", False: "no", None: ""}[op["proved_optimal"]]
        share = f"{op['energy_pj'] * op['count'] / total:.1%}"
        cells = [op["name"], str(op["count"]), number(op["latency_cycles"]), number(op["energy_pj"]), share]
        table.add_row(*cells, f"{op['utilization']:.3f}", op["bottleneck"], proved)
    return table


def comparison_table(comparison: SweepComparison, metrics: Sequence[str], limit: int) -> Table:
    """Changed design points as rows, each metric as `before -> after (change)`."""
    table = _table("first #", "second #", "inputs", "status", "front", *metrics)
    for point in comparison.changed[:limit]:
        statuses = list(dict.fromkeys([point.first.status.value, point.second.status.value]))
        front = {(False, True): "joins", (True, False): "leaves", (True, True): "on"}.get(
            (point.first_on_front, point.second_on_front), ""
        )
        inputs = " ".join(f"{_short(path)}={shown(value)}" for path, value in point.first.inputs.items())
        cells = [_change(*point.metrics[metric]) if metric in point.metrics else "" for metric in metrics]
        table.add_row(str(point.first.index), str(point.second.index), inputs, " -> ".join(statuses), front, *cells)
    return table


def dry_run_table(run: DryRun) -> Table:
    """Number of points per reason."""
    table = _table("points", "reason", "meaning")
    for reason, count in run.counts.items():
        if count:
            table.add_row(str(count), reason.value, REASON_TEXTS[reason])
    return table


def shown(value: InputValue) -> str:
    """An input value as text."""
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def number(value: float | None) -> str:
    """A metric's value as text."""
    if value is None:
        return ""
    return str(int(value)) if float(value).is_integer() and abs(value) < 10**DIGITS else f"{value:.{DIGITS}g}"


def _several(results: SweepResults) -> Sequence[Any]:
    return results.workloads if len(results.workloads) > 1 else ()


def _note(record: DesignRecord, is_knee: bool) -> str:
    if record.infeasible:
        return str(record.infeasible).partition("\n")[0]
    if record.error:
        return record.error
    return f"violates {'; '.join(record.violated)}" if record.violated else "knee" * is_knee


def _change(before: float, after: float) -> str:
    relative = f" ({after / before - 1:+.2%})" if before else ""
    return f"{number(before)} -> {number(after)}{relative}"


def _short(path: str) -> str:
    return path.removeprefix("hierarchy.").removeprefix("parameters.")


def _table(*columns: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table
