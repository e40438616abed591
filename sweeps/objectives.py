"""What a sweep trades off, and the metrics that every evaluated design point has.

Which metrics there are depends on what prices the designs: mappings of ops onto PE arrays, kernels of GPUs, or the serving
of language models.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .quantities import BandwidthUnit


class Pricing(StrEnum):
    """What prices the designs of a sweep."""

    MAPPING = "mapping"
    KERNELS = "kernels"
    SERVING = "serving"

    @property
    def bandwidth_unit(self) -> BandwidthUnit:
        """In what constraints and results see bandwidths: a spatial architecture has one clock; chips and links of others
        have none in common."""
        return "bytes/cycle" if self is Pricing.MAPPING else "bytes/s"


class Objective(StrEnum):
    """A quantity over whole workloads for which designs are traded off."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    AREA = "area"
    MAIN_MEMORY_BYTES = "main_memory_bytes"
    POWER_W = "power_w"
    TTFT_S = "ttft_s"
    TTFT_QUEUED_S = "ttft_queued_s"
    TTFT_OPEN_S = "ttft_open_s"
    TPOT_S = "tpot_s"
    TPOT_OPEN_S = "tpot_open_s"
    TOKENS_PER_S = "tokens_per_s"
    TOKENS_PER_S_PER_USER = "tokens_per_s_per_user"
    TOKENS_PER_S_PER_CHIP = "tokens_per_s_per_chip"
    JOULES_PER_TOKEN = "joules_per_token"
    FREE_BYTES = "free_bytes"
    NUM_CHIPS = "num_chips"

    @property
    def metric(self) -> str:
        """Name of its metric."""
        return OBJECTIVE_METRICS.get(self, self.value)

    def cost(self, metrics: Mapping[str, float]) -> float:
        """What is minimised; see `Metric.cost`."""
        return metric(self.metric).cost(float(metrics[self.metric]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of an evaluated design point.

    Attributes:
        name: Name in the store, the exports and constraints; carries the unit.
        label: Words for an axis title.
        unit: Unit for an axis title.
        word: Word within a sentence.
        is_per_workload: Whether each workload has its own value. The point's value is then a sum, except for `edp_pj_s`,
            which is the product of the summed energy and summed latency, for `utilization`, a mean over time, and for all
            metrics of served models, of which the worst counts.
        is_larger_better: Whether more of it is better.
    """

    name: str
    label: str
    unit: str
    word: str
    is_per_workload: bool = True
    is_larger_better: bool = False

    def cost(self, value: float) -> float:
        """What is minimised: the value; of a rate its reciprocal, the time per unit; of what else should be large its
        negative. The front is the same by either, and a front's knee trades times, not rates."""
        if not self.is_larger_better:
            return value
        if self.unit.endswith("/s"):
            return 1 / value if value else math.inf
        return -value


_LATENCY_CYCLES = Metric(name="latency_cycles", label="Latency", unit="cycles", word="latency")
_LATENCY = Metric(name="latency_s", label="Latency", unit="s", word="latency")
_ENERGY = Metric(name="energy_pj", label="Energy", unit="pJ", word="energy")
_EDP = Metric(name="edp_pj_s", label="Energy-delay product", unit="pJ s", word="EDP")
_TRAFFIC = Metric(name="main_memory_bytes", label="Main memory traffic", unit="bytes", word="main memory")
_MACS = Metric(name="macs", label="MACs", unit="MACs", word="MACs")
_UTILIZATION = Metric(name="utilization", label="Utilization", unit="1", word="utilization")
_AREA = Metric(name="area_mm2", label="Area", unit="mm^2", word="area", is_per_workload=False)
_POWER = Metric(name="power_w", label="Power", unit="W", word="power")

METRICS_OF: dict[Pricing, tuple[Metric, ...]] = {
    Pricing.MAPPING: (_LATENCY_CYCLES, _LATENCY, _ENERGY, _EDP, _TRAFFIC, _MACS, _UTILIZATION, _AREA),
    Pricing.KERNELS: (_LATENCY, _ENERGY, _EDP, _POWER, _TRAFFIC, _MACS, _UTILIZATION),
    Pricing.SERVING: (
        Metric(name="ttft_s", label="TTFT, idle", unit="s", word="TTFT"),
        Metric(name="ttft_queued_s", label="TTFT, fixed concurrency", unit="s", word="TTFT with waiting"),
        Metric(name="ttft_open_s", label="TTFT, random arrivals", unit="s", word="TTFT with random arrivals"),
        Metric(name="tpot_s", label="TPOT", unit="s", word="TPOT"),
        Metric(name="tpot_open_s", label="TPOT, random arrivals", unit="s", word="TPOT with random arrivals"),
        _LATENCY,
        Metric(
            name="tokens_per_s_per_user",
            label="Tokens/s per user",
            unit="tokens/s",
            word="tokens/s per user",
            is_larger_better=True,
        ),
        Metric(
            name="tokens_per_s_per_chip",
            label="Tokens/s per chip",
            unit="tokens/s",
            word="tokens/s per chip",
            is_larger_better=True,
        ),
        Metric(name="tokens_per_s", label="Tokens/s", unit="tokens/s", word="tokens/s", is_larger_better=True),
        Metric(name="requests_per_s", label="Requests/s", unit="requests/s", word="requests/s", is_larger_better=True),
        _POWER,
        Metric(name="joules_per_token", label="Energy per token", unit="J", word="energy per token"),
        Metric(name="free_bytes", label="Memory left", unit="bytes", word="memory left", is_larger_better=True),
        Metric(name="num_chips", label="Chips", unit="chips", word="chips"),
    ),
}
"""Metrics of a design, by what prices it, in the order of tables and exports."""

METRICS: tuple[Metric, ...] = tuple(dict.fromkeys(metric for metrics in METRICS_OF.values() for metric in metrics))
METRIC_NAMES: tuple[str, ...] = tuple(metric.name for metric in METRICS)
_BY_NAME: dict[str, Metric] = {metric.name: metric for metric in METRICS}

OBJECTIVE_METRICS: dict[Objective, str] = {
    Objective.ENERGY: "energy_pj",
    Objective.LATENCY: "latency_s",
    Objective.EDP: "edp_pj_s",
    Objective.AREA: "area_mm2",
}
"""Metrics of the objectives that are not named like their metric."""

DEFAULT_OBJECTIVES: dict[Pricing, tuple[Objective, ...]] = {
    Pricing.MAPPING: (Objective.ENERGY, Objective.LATENCY),
    Pricing.KERNELS: (Objective.ENERGY, Objective.LATENCY),
    Pricing.SERVING: (Objective.TOKENS_PER_S_PER_USER, Objective.TOKENS_PER_S_PER_CHIP),
}

COMPANIONS: dict[Pricing, tuple[Objective, Objective]] = {
    Pricing.MAPPING: (Objective.AREA, Objective.LATENCY),
    Pricing.KERNELS: (Objective.ENERGY, Objective.LATENCY),
    Pricing.SERVING: (Objective.POWER_W, Objective.TOKENS_PER_S_PER_CHIP),
}
"""What a single objective is drawn against: the first that it is not itself."""


def metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        KeyError: No metric has that name.
    """
    if name not in _BY_NAME:
        raise KeyError(f"no metric {name!r}; there are {', '.join(METRIC_NAMES)}")
    return _BY_NAME[name]


def objectives_of(pricing: Pricing) -> tuple[Objective, ...]:
    """Objectives whose metric designs so priced have."""
    names = {metric.name for metric in METRICS_OF[pricing]}
    return tuple(objective for objective in Objective if objective.metric in names)
