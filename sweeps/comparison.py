"""Compare two sweeps point by point: which designs are in only one, and what changed for the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from .objectives import METRIC_NAMES
from .store import DesignRecord, SweepResults


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPoint:
    """One design point with another outcome in each sweep.

    Attributes:
        first: Its record in the first sweep.
        second: Its record in the second sweep.
        metrics: Values in the first and the second sweep of each metric that differs.
        first_on_front: Whether it is on the first sweep's front.
        second_on_front: Whether it is on the second sweep's front.
    """

    first: DesignRecord
    second: DesignRecord
    metrics: Mapping[str, tuple[float, float]]
    first_on_front: bool
    second_on_front: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepComparison:
    """Two sweeps compared.

    Attributes:
        only_first: Points whose inputs are in the first sweep only.
        only_second: Points whose inputs are in the second sweep only.
        changed: Points in both whose status, metrics or place on the front differ.
        num_equal: Points in both with the same outcome.
        settings: Settings that differ, with both values: `model version`, `mapping`, ...
    """

    only_first: tuple[DesignRecord, ...]
    only_second: tuple[DesignRecord, ...]
    changed: tuple[ChangedPoint, ...]
    num_equal: int
    settings: Mapping[str, tuple[str, str]]

    def largest_change(self, metric: str) -> float | None:
        """Largest relative change of a metric from the first to the second sweep; None without any."""
        found = [abs(b / a - 1) for point in self.changed for a, b in [point.metrics.get(metric, (0.0, 0.0))] if a]
        return max(found, default=None)


def compare(first: SweepResults, second: SweepResults) -> SweepComparison:
    """Compare two sweeps; points are matched by their inputs."""
    firsts = {_key(record): record for record in first.records}
    seconds = {_key(record): record for record in second.records}
    first_front, second_front = first.on_front(), second.on_front()
    changed: list[ChangedPoint] = []
    for key, record in firsts.items():
        other = seconds.get(key)
        if other is None:
            continue
        point = ChangedPoint(
            first=record,
            second=other,
            metrics=_changed_metrics(record, other),
            first_on_front=bool(first_front[record.index]),
            second_on_front=bool(second_front[other.index]),
        )
        if point.metrics or record.status is not other.status or point.first_on_front != point.second_on_front:
            changed.append(point)
    return SweepComparison(
        only_first=tuple(record for key, record in firsts.items() if key not in seconds),
        only_second=tuple(record for key, record in seconds.items() if key not in firsts),
        changed=tuple(changed),
        num_equal=len(firsts.keys() & seconds.keys()) - len(changed),
        settings=_changed_settings(first, second),
    )


def _key(record: DesignRecord) -> str:
    return json.dumps(sorted(record.inputs.items()))


def _changed_metrics(first: DesignRecord, second: DesignRecord) -> dict[str, tuple[float, float]]:
    shared = [name for name in METRIC_NAMES if name in first.metrics and name in second.metrics]
    pairs = {name: (first.metrics[name], second.metrics[name]) for name in shared}
    return {name: (a, b) for name, (a, b) in pairs.items() if a != b}


def _changed_settings(first: SweepResults, second: SweepResults) -> dict[str, tuple[str, str]]:
    def settings(results: SweepResults) -> dict[str, str]:
        return {
            "name": results.name,
            "base": results.base,
            "workloads": ", ".join(workload.name for workload in results.workloads),
            "objectives": ", ".join(results.objectives),
            "constraints": "; ".join(results.constraints),
            "mapping": json.dumps(dict(results.mapping)),
            "constants": json.dumps(dict(results.constants)),
            "sampler": json.dumps(dict(results.sampler)),
            "model version": results.model_version,
        }

    ours, theirs = settings(first), settings(second)
    return {name: (ours[name], theirs[name]) for name in ours if ours[name] != theirs[name]}
