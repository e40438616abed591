"""Architectures as tables and JSON records for the command line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from ..archdsl import (
    Arch,
    ArchError,
    Description,
    System,
)
from .plots.blocks import Block, rows_of
from .plots.style import quantity_text
from .plots.totals import ArchTotals, totals_of

if TYPE_CHECKING:
    from rich.table import Table

    from .differences import Difference

ABSENT: Final = "-"


def summary_text(description: Description) -> str:
    """What a checked file describes, e.g. `spatial, 168 PEs`."""
    if isinstance(description, System):
        return f"system, {number_text(len(description.chip_names), 'chip')}"
    return f"{description.kind}, {totals_of(description).units_text}"


def preset_table(archs: Sequence[Arch]) -> Table:
    """One row per architecture, with the figures by which chips are compared."""
    table = _table("preset", "kind", "PEs or SMs", "peak", "on chip", "main memory", "node")
    for arch in archs:
        totals = totals_of(arch)
        datatype, rate = totals.fastest
        table.add_row(
            arch.name, arch.kind, totals.units_text, f"{quantity_text(rate, 'ops/s')} {datatype}", totals.onchip_text,
            totals.main_memory_text, _node_text(totals),
        )  # fmt: skip
    return table


def system_table(systems: Sequence[System]) -> Table:
    """One row per system: its chips, what connects them, and what is calibrated."""
    table = _table("system", "chips", "links", "topology", "calibrations")
    for system in systems:
        chips = ", ".join(f"{group.count} x {group.arch.name}" for group in system.chips)
        links = ", ".join(f"{link.name} {link.bandwidth}" for link in system.links)
        shapes = ", ".join(dict.fromkeys(entry.kind for entry in system.topology))
        table.add_row(system.name, chips, links or ABSENT, shapes or ABSENT, ", ".join(system.calibrations) or ABSENT)
    return table


def system_record(system: System) -> dict[str, object]:
    """What a system is made of, for JSON."""
    return {
        "name": system.name,
        "kind": system.kind,
        "description": system.description,
        "chips": {group.name: {"arch": group.arch.name, "count": group.count} for group in system.chips},
        "links": [
            {"name": link.name, "bytes_per_s": link.bandwidth.amount, "latency_s": link.latency_s}
            for link in system.links
        ],
        "topology": [entry.kind for entry in system.topology],
        "calibrations": list(system.calibrations),
    }


def heading_lines(arch: Arch) -> Iterator[str]:
    """What stands above an architecture's table."""
    totals = totals_of(arch)
    yield f"{arch.name} ({arch.kind}): {arch.description}".rstrip(": ")
    yield (
        f"  {totals.units_text} at {quantity_text(arch.clock_hz, 'Hz')}, node {_node_text(totals)}, "
        f"{totals.onchip_text} on chip, main memory {totals.main_memory_text}"
    )
    peaks = (f"{quantity_text(rate, 'ops/s')} {name}" for name, rate in totals.peak_ops_per_s.items())
    yield f"  peak {', '.join(peaks)}"


def block_table(arch: Arch) -> Table:
    """One row per memory, fan-out and compute unit, outermost first."""
    table = _table("level", "what", "instances", "keeps", "facts")
    for row in rows_of(arch):
        for block in row:
            table.add_row(block.name, block.what, f"{block.instances:,}", _keeps_text(block), "; ".join(block.facts))
    return table


def footer_lines(arch: Arch) -> Iterator[str]:
    """What stands below an architecture's table."""
    if any(block.must_keep for row in rows_of(arch) for block in row):
        yield "! = a mapping may not bypass this level"
    if arch.notes:
        yield f"notes: {arch.notes}"


def difference_table(left: str, right: str, differences: Sequence[Difference]) -> Table:
    """One row per field, with both values."""
    table = _table("field", left, right)
    for item in differences:
        table.add_row(item.path, *(ABSENT if value is None else value for value in (item.left, item.right)))
    return table


def totals_record(arch: Arch) -> dict[str, object]:
    """The figures by which chips are compared, for JSON."""
    totals = totals_of(arch)
    bandwidth = totals.main_memory_bytes_per_s
    return {
        "name": arch.name,
        "kind": arch.kind,
        "description": arch.description,
        "clock_hz": arch.clock_hz,
        "node_nm": totals.node_nm,
        "num_units": totals.num_units,
        "unit": totals.unit,
        "onchip_bytes": totals.onchip_bytes,
        "main_memory_bytes_per_s": None if math.isinf(bandwidth) else bandwidth,
        "peak_ops_per_s": totals.peak_ops_per_s,
    }


def block_records(arch: Arch) -> list[dict[str, object]]:
    """The blocks of an architecture, for JSON; blocks with the same `row` stand side by side."""
    return [
        {
            "row": row_idx,
            "name": block.name,
            "kind": block.kind,
            "what": block.what,
            "instances": block.instances,
            "keeps": list(block.keeps),
            "must_keep": list(block.must_keep),
            "capacity_bytes": block.capacity_bytes,
            "read_bytes_per_cycle": block.read_bytes_per_cycle,
            "write_bytes_per_cycle": block.write_bytes_per_cycle,
            "read_energy_pj_per_byte": block.read_energy_pj_per_byte,
            "write_energy_pj_per_byte": block.write_energy_pj_per_byte,
            "axes": dict(block.axes),
        }
        for row_idx, row in enumerate(rows_of(arch))
        for block in row
    ]


def fault_records(err: ArchError) -> list[dict[str, object]]:
    """The faults of a file, for JSON; line and column 0 where a fault has no place."""
    if not err.diagnostics:
        return [{"file": "", "line": 0, "column": 0, "path": "", "message": str(err)}]
    return [
        {"file": d.file, "line": d.line, "column": d.column, "path": d.path, "message": d.message}
        for d in err.diagnostics
    ]


def number_text(amount: int, noun: str) -> str:
    """E.g. `1 fault`, `2 faults`."""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def _keeps_text(block: Block) -> str:
    """Roles that a memory keeps; `!` marks those that it must keep."""
    return " ".join(f"{role}!" if role in block.must_keep else role for role in block.keeps)


def _node_text(totals: ArchTotals) -> str:
    return ABSENT if totals.node_nm is None else f"{totals.node_nm:g} nm"


def _table(*headings: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
