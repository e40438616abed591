"""An estimate as text: the table of ops, the totals, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .plots.roofline import Roofline, roofline_rows
from .plots.style import plain_number, quantity_text, scale_for

if TYPE_CHECKING:
    from rich.table import Table

    from .document import EstimateDocument, OpDocument
    from .kernel_document import KernelsDocument

MAX_NAMED_KINDS = 6


def ops_table(document: EstimateDocument) -> Table:
    """One row per op; amounts are of one run, as in the JSON."""
    from rich.table import Table

    ops = document["ops"]
    energy = scale_for("pJ", [op["energy_pj"] for op in ops])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, is_text in (
        ("op", True),
        ("kind", True),
        ("runs", False),
        ("MACs", False),
        ("cycles", False),
        ("utilization", False),
        ("bottleneck", True),
        (f"energy [{energy.unit}]", False),
        ("optimal", True),
    ):
        table.add_column(name, justify="left" if is_text else "right", overflow="fold" if is_text else "ellipsis")
    for op in ops:
        table.add_row(
            op["name"],
            op["kind"],
            f"{op['count']:,}",
            f"{op['macs']:,}" if op["macs"] else "-",
            _cycles(op["latency_cycles"]),
            f"{op['utilization']:.1%}" if op["macs"] else "-",
            op["bottleneck"],
            _digits(op["energy_pj"] / energy.divisor),
            _optimality(op),
        )
    return table


def total_lines(document: EstimateDocument) -> Iterator[str]:
    """The totals in words, each with its unit."""
    total = document["total"]
    clock = quantity_text(document["clock_hz"], "Hz")
    num_runs = sum(op["count"] for op in document["ops"])
    ops = f": {len(document['ops']):,} distinct ops in {num_runs:,} runs" if num_runs > 1 else ""
    yield f"{document['workload']} on {document['arch']}{ops}"
    yield (
        f"  latency      {_cycles(total['latency_cycles'])} cycles = {_exact(total['latency_s'], 's')} at {clock}"
        f" ({document['fidelity']} fidelity)"
    )
    yield f"  energy       {_exact(total['energy_pj'], 'pJ')}: {_shares(_energy_parts(document))}"
    yield f"  area         {plain_number(round(total['area_mm2'], 4))} mm^2: {_shares(document['area_parts_mm2'])}"
    yield f"  MACs         {total['macs']:,}, utilization {total['utilization']:.1%}"
    yield f"  main memory  {_exact(total['main_memory_bytes'], 'bytes')}"
    yield f"  left out     {'; '.join(document['left_out'])}"


def left_out_lines(document: EstimateDocument) -> Iterator[str]:
    """What the numbers take for granted or leave out; nothing when there is nothing to say."""
    yield from document["notices"]
    notes: dict[str, list[str]] = {}
    for op in document["ops"]:
        for note in op["notes"]:
            notes.setdefault(note, []).append(op["name"])
    for note, names in notes.items():
        yield f"{names[0]}{f' and {len(names) - 1} more ops' if len(names) > 1 else ''}: {note}"


def unmodelled_line(document: EstimateDocument | KernelsDocument) -> str:
    """What of the network is not modelled, with its share; empty when everything is."""
    nodes = document["unmodelled"]
    if not nodes:
        return ""
    kinds = list(dict.fromkeys(node["kind"] for node in nodes))
    named = ", ".join(kinds[:MAX_NAMED_KINDS]) + (", ..." if len(kinds) > MAX_NAMED_KINDS else "")
    share = document["unmodelled_share"]
    return (
        f"{len(nodes)} nodes are not modelled ({named}): {share['macs']:.2%} of the MACs and {share['bytes']:.2%} "
        "of the bytes known; -v lists them, --strict makes them an error"
    )


def roofline_table(roofline: Roofline) -> Table:
    """The roofline as a table."""
    from rich.table import Table

    rows = roofline_rows(roofline)
    rate = scale_for("ops/s", [row.bound_ops_per_s for row in rows])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, is_text in (
        ("op", True),
        ("time", False),
        ("intensity [ops/B]", False),
        (f"attained [{rate.unit}]", False),
        (f"bound [{rate.unit}]", False),
        ("reached", False),
        ("bound by", True),
    ):
        table.add_column(name, justify="left" if is_text else "right", overflow="fold" if is_text else "ellipsis")
    for row in rows:
        table.add_row(
            row.op,
            f"{row.time_share:.1%}",
            _digits(row.intensity_ops_per_byte),
            _digits(row.attained_ops_per_s / rate.divisor),
            _digits(row.bound_ops_per_s / rate.divisor),
            f"{row.reached:.1%}",
            row.limit,
        )
    return table


def _energy_parts(document: EstimateDocument) -> dict[str, float]:
    parts: dict[str, float] = {}
    for op in document["ops"]:
        for part, amount in op["energy_parts_pj"].items():
            parts[part] = parts.get(part, 0.0) + amount * op["count"]
    return parts


def _shares(parts: Mapping[str, float]) -> str:
    whole = sum(parts.values())
    if not whole:
        return "nothing"
    return ", ".join(f"{name} {amount / whole:.1%}" for name, amount in parts.items() if amount)


def _cycles(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _exact(value: float, unit: str) -> str:
    """A number with seven digits, for comparison with other tools."""
    scale = scale_for(unit, [value])
    return f"{value / scale.divisor:,.7g} {scale.unit}"


def _optimality(op: OpDocument) -> str:
    if op["proved_optimal"] is None:
        return "-" if op["mapping"] is None else "given"
    if op["proved_optimal"]:
        return "proved"
    return "no" if op["gap"] is None else f"within {op['gap']:.1%}"
