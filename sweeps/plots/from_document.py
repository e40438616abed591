"""From an estimate document to its roofline and breakdown figures."""

from __future__ import annotations

import math
from pathlib import Path

from ..document import EstimateDocument, OpDocument, part_names, shown_name
from .breakdown import Breakdown, OpCost, plot_breakdown
from .roofline import MainMemory, Roofline, RooflineOp, plot_roofline, roofline_rows
from .style import Caption, FigureFiles


def roofline_of(document: EstimateDocument, *, commit: str, design: str = "") -> Roofline:
    """The roofline of an estimate.

    Args:
        document: The estimate.
        commit: Version of the code, for the caption.
        design: Which design it is, for the caption, where that is not the architecture as its file has it.
    """
    roof = document["roofline"]
    memory = MainMemory(
        read_bytes_per_s=_or_infinite(roof["read_bytes_per_s"]),
        write_bytes_per_s=_or_infinite(roof["write_bytes_per_s"]),
        is_shared=roof["shares_port"],
    )
    ops = tuple(_roofline_op(op, document) for op in document["ops"])
    hidden = [op["name"] for op in document["ops"] if not op["macs"]]
    remark = (f"{len(hidden)} ops without MACs are not drawn",) if hidden else ()
    caption = _caption(document, commit, design, remark)
    untitled = Roofline(title="", ops=ops, memory=memory, caption=caption)
    return Roofline(title=_roofline_claim(untitled, document), ops=ops, memory=memory, caption=caption)


def breakdown_of(document: EstimateDocument, *, commit: str, design: str = "") -> Breakdown:
    """The energy and time of every op of an estimate; arguments as `roofline_of`."""
    names = part_names(document)
    ops = tuple(
        OpCost(
            name=shown_name(op),
            count=op["count"],
            energy_pj=tuple((part, op["energy_parts_pj"].get(part, 0.0) * op["count"]) for part in names),
            latency_s=op["latency_cycles"] * op["count"] / document["clock_hz"],
            bottleneck=op["bottleneck"],
            group="" if op["macs"] else op["kind"],
        )
        for op in document["ops"]
    )
    untitled = Breakdown(title="", ops=ops, caption=_caption(document, commit, design))
    return Breakdown(title=_breakdown_claim(untitled, document), ops=ops, caption=untitled.caption)


def plot_estimate(
    document: EstimateDocument, folder: Path, *, commit: str, design: str = "", prefix: str = ""
) -> tuple[FigureFiles, ...]:
    """Draw the breakdown of an estimate and, where an op has MACs and traffic, its roofline.

    Args:
        document: The estimate.
        folder: Where to put the files.
        commit: Version of the code, for the captions.
        design: Which design it is, for the captions.
        prefix: Start of the files' names.

    Returns:
        PNG, SVG and CSV per figure.
    """
    found = [plot_breakdown(breakdown_of(document, commit=commit, design=design), folder / f"{prefix}breakdown")]
    roofline = roofline_of(document, commit=commit, design=design)
    if roofline.drawn:
        found.append(plot_roofline(roofline, folder / f"{prefix}roofline"))
    return tuple(found)


def _roofline_op(op: OpDocument, document: EstimateDocument) -> RooflineOp:
    roof = document["roofline"]
    moved = op["actions"].get(roof["main_memory"], {}).values()
    return RooflineOp(
        name=shown_name(op),
        count=op["count"],
        num_ops=2 * op["macs"],
        read_bytes=math.fsum(action["read"] for action in moved),
        write_bytes=math.fsum(action["write"] for action in moved),
        latency_s=op["latency_cycles"] / document["clock_hz"],
        peak_ops_per_s=roof["peak_ops_per_s"].get(op["datatype"], 0.0),
        bottleneck=op["bottleneck"],
    )


def _caption(document: EstimateDocument, commit: str, design: str, remarks: tuple[str, ...] = ()) -> Caption:
    extra = [f"{document['arch']}{f' with {design}' if design else ''}"]
    if document["objective"]:
        extra.append(f"mapped for {document['objective']}")
    extra += [f"fidelity {document['fidelity']}", f"convention {document['convention']}"]
    return Caption(
        workload=document["workload"],
        commit=commit,
        num_points=len(document["ops"]),
        points="ops",
        extra=(*extra, *remarks),
    )


def _roofline_claim(roofline: Roofline, document: EstimateDocument) -> str:
    """How near the ops are to their bounds, each weighed by its time."""
    rows = roofline_rows(roofline)
    whole = math.fsum(row.time_share for row in rows)
    reached = math.fsum(row.time_share * row.reached for row in rows) / whole if whole else 0.0
    return f"{document['workload']} on {document['arch']}: its products reach {reached:.0%} of their bounds"


def _breakdown_claim(breakdown: Breakdown, document: EstimateDocument) -> str:
    totals = {part: math.fsum(dict(op.energy_pj).get(part, 0.0) for op in breakdown.ops) for part in breakdown.parts}
    whole = math.fsum(totals.values())
    largest = max(totals, key=lambda part: totals[part], default="")
    share = totals[largest] / whole if whole else 0.0
    return f"{document['workload']} on {document['arch']}: {largest} takes {share:.0%} of the energy"


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value
