"""What the interactive report shows, and its compact form for the page's script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ..document import EstimateDocument, OpDocument, part_names, shown_name
from ..plots.front import Standing, short_names
from ..plots.style import LOG_FROM_RATIO, ORDERED, UNIT_STEPS, Caption
from ..serving_documents import PartDocument, ServedDocument

SIGNIFICANT_DIGITS: Final = 5

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportMetric:
    """A number that every priced design has.

    Attributes:
        name: Name with unit, e.g. `energy_pj`.
        label: For people.
        unit: Internal unit.
        is_objective: Whether the front is over it.
        is_per_workload: Whether each workload has its own value.
        is_larger_better: Whether more of it is better.
    """

    name: str
    label: str
    unit: str
    is_objective: bool
    is_per_workload: bool = True
    is_larger_better: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDesign:
    """One design point.

    Attributes:
        id: Its id in the store.
        standing: On the front, dominated, or without a usable answer.
        parameters: Values as the user wrote them, one per parameter of the report.
        sort_keys: The same as numbers where they are numbers, for sorting.
        metrics: One per metric of the report, over all workloads; None where there is none.
        workload_metrics: Per workload, likewise.
        reason: Why it is infeasible, excluded or failed.
        documents: Per workload the document of its estimate; None when left out for size.
    """

    id: str
    standing: Standing
    parameters: tuple[str, ...]
    sort_keys: tuple[float | str, ...]
    metrics: tuple[float | None, ...]
    workload_metrics: tuple[tuple[float | None, ...], ...] = ()
    reason: str = ""
    documents: tuple[EstimateDocument | ServedDocument, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One line of the report's last section; code keeps its line breaks and spacing."""

    heading: str
    text: str
    is_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """An interactive report.

    Attributes:
        title: Claim or question.
        caption: Workloads, commit and number of points.
        workloads: Their names.
        parameters: Dotted paths of what was swept.
        metrics: The objectives first.
        designs: All design points in a fixed order.
        knee: Index of the front's knee.
        notes: How the numbers came about, and what they leave out.
    """

    title: str
    caption: Caption
    workloads: tuple[str, ...]
    parameters: tuple[str, ...]
    metrics: tuple[ReportMetric, ...]
    designs: tuple[ReportDesign, ...]
    knee: int | None
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        if not self.workloads:
            raise ValueError("a report needs at least one workload")
        if len(self.metrics) < 2:
            raise ValueError(f"a report needs at least two metrics to plot, got {len(self.metrics)}")


def page_data(report: Report) -> dict[str, Json]:
    """Everything that the page's script reads; equal reports give equal data."""
    details = _Details()
    objectives = [metric for metric in report.metrics if metric.is_objective]
    front = [i for i, design in enumerate(report.designs) if design.standing is Standing.FRONT]
    return {
        "caption": str(report.caption),
        "objectives": ", ".join(metric.label.lower() for metric in objectives),
        "workloads": [{"name": name} for name in report.workloads],
        "parameters": [
            {"name": name, "short": short}
            for name, short in zip(report.parameters, short_names(report.parameters), strict=True)
        ],
        "metrics": [
            {
                "name": metric.name,
                "label": metric.label,
                "unit": metric.unit,
                "isObjective": metric.is_objective,
                "perWorkload": metric.is_per_workload,
                "largerIsBetter": metric.is_larger_better,
            }
            for metric in report.metrics
        ],
        "axes": [0, 1],
        "designs": [_design(design, details) for design in report.designs],
        "knee": report.knee,
        "chosen": report.knee if report.knee is not None else front[0] if front else 0,
        "noDetail": "The report keeps no breakdown of this design; `tileloom sweep show` prints it.",
        "notes": [[note.heading, note.text, note.is_code] for note in report.notes],
        "units": {unit: [list(step) for step in steps] for unit, steps in UNIT_STEPS.items()},
        "logFromRatio": LOG_FROM_RATIO,
        "partColors": list(ORDERED),
        "details": details.rows,
        "parts": list(details.parts),
        "bottlenecks": list(details.bottlenecks),
        "ops": [list(key) for key in details.ops],
        "partNames": list(details.part_names),
        "noteTexts": list(details.notes),
    }


class _Details:
    """Collects breakdowns; what recurs in many designs is stored once and named by its index."""

    def __init__(self) -> None:
        self.rows: list[Json] = []
        self.parts: dict[str, int] = {}
        self.bottlenecks: dict[str, int] = {}
        self.ops: dict[tuple[str, int, int, str], int] = {}
        self.part_names: dict[str, int] = {}
        self.notes: dict[str, int] = {}

    def add(self, documents: Sequence[EstimateDocument | ServedDocument]) -> int:
        """Index of the breakdown of one design over its workloads."""
        for document in documents:
            if "ops" in document:
                for part in part_names(document):
                    self.parts.setdefault(part, len(self.parts))
        self.rows.append([self._ops(d) if "ops" in d else self._served(d) for d in documents])
        return len(self.rows) - 1

    def _served(self, document: ServedDocument) -> Json:
        """Trees of parts as rows of depth, name, amount and unit, and remarks."""
        return {
            "parts": [row for part in document["parts"] for row in self._part(part, 0)],
            "notes": [self.notes.setdefault(note, len(self.notes)) for note in document["notes"]],
        }

    def _part(self, part: PartDocument, depth: int) -> Iterator[Json]:
        name = self.part_names.setdefault(part["name"], len(self.part_names))
        yield [depth, name, _short(part["amount"]), part["unit"]]
        for below in part.get("parts", ()):
            yield from self._part(below, depth + 1)

    def _ops(self, document: EstimateDocument) -> Json:
        roof = document["roofline"]
        return {
            "clockHz": document["clock_hz"],
            "roof": {
                "peaks": {datatype: _short(peak) for datatype, peak in roof["peak_ops_per_s"].items()},
                "readBytesPerS": _short(roof["read_bytes_per_s"]),
                "writeBytesPerS": _short(roof["write_bytes_per_s"]),
                "sharesPort": roof["shares_port"],
            },
            "ops": [self._op(op, roof["main_memory"]) for op in document["ops"]],
        }

    def _op(self, op: OpDocument, main_memory: str) -> Json:
        """Op, cycles, bottleneck, main-memory bytes read and written, then energy per part of one run."""
        key = (shown_name(op), op["count"], op["macs"], op["datatype"])
        moved = op["actions"].get(main_memory, {}).values()
        parts = op["energy_parts_pj"]
        amounts = [parts.get(part, 0.0) for part in self.parts]
        while amounts and not amounts[-1]:  # parts that later designs brought in are zeros at the end
            amounts.pop()
        return [
            self.ops.setdefault(key, len(self.ops)),
            _short(op["latency_cycles"]),
            self.bottlenecks.setdefault(op["bottleneck"], len(self.bottlenecks)),
            _short(sum(action["read"] for action in moved)),
            _short(sum(action["write"] for action in moved)),
            *(_short(amount) for amount in amounts),
        ]


def _design(design: ReportDesign, details: _Details) -> dict[str, Json]:
    return {
        "id": design.id,
        "standing": design.standing.value,
        "parameters": list(design.parameters),
        "order": list(design.sort_keys),
        "metrics": [_short(value, 9) for value in design.metrics],
        "workloadMetrics": [[_short(value, 9) for value in values] for values in design.workload_metrics],
        "reason": design.reason,
        "detail": None if design.documents is None else details.add(design.documents),
    }


def _short(value: float | None, digits: int = SIGNIFICANT_DIGITS) -> float | None:
    """A number without digits that nobody can see, so that the page stays small."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
