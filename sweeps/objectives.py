"""What a sweep minimises, and the metrics that every evaluated design point has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Objective(StrEnum):
    """A quantity to minimise over whole workloads."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    AREA = "area"
    MAIN_MEMORY_BYTES = "main_memory_bytes"

    @property
    def metric(self) -> str:
        """Name of the metric that this objective minimises."""
        return OBJECTIVE_METRICS[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of an evaluated design point.

    Attributes:
        name: Name in the store, the exports and constraints; carries the unit.
        label: Words for an axis title.
        unit: Unit for an axis title.
        is_per_workload: Whether each workload has its own value; the point's value is then a sum,
            except for `edp_pj_s`, which is the product of the summed energy and summed latency.
    """

    name: str
    label: str
    unit: str
    is_per_workload: bool = True


METRICS: tuple[Metric, ...] = (
    Metric(name="latency_cycles", label="Latency", unit="cycles"),
    Metric(name="latency_s", label="Latency", unit="s"),
    Metric(name="energy_pj", label="Energy", unit="pJ"),
    Metric(name="edp_pj_s", label="Energy-delay product", unit="pJ s"),
    Metric(name="main_memory_bytes", label="Main memory traffic", unit="bytes"),
    Metric(name="macs", label="MACs", unit="MACs"),
    Metric(name="utilization", label="Utilization", unit="1"),
    Metric(name="area_mm2", label="Area", unit="mm^2", is_per_workload=False),
)

METRIC_NAMES: tuple[str, ...] = tuple(metric.name for metric in METRICS)

OBJECTIVE_METRICS: dict[Objective, str] = {
    Objective.ENERGY: "energy_pj",
    Objective.LATENCY: "latency_s",
    Objective.EDP: "edp_pj_s",
    Objective.AREA: "area_mm2",
    Objective.MAIN_MEMORY_BYTES: "main_memory_bytes",
}


def metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        KeyError: No metric has that name.
    """
    for candidate in METRICS:
        if candidate.name == name:
            return candidate
    raise KeyError(f"no metric {name!r}; there are {', '.join(METRIC_NAMES)}")
