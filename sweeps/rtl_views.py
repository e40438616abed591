"""RTL runs and coverage as tables and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .functional_coverage import CoverageGroup
from .image_runs import ImageRun
from .schedules import QUEUES, UNITS, Schedule

if TYPE_CHECKING:
    from rich.table import Table

    from ..models import Part
    from ..rtl import CellArea, FileCoverage

SCHEMA_VERSION: Final = 1
MAX_LINES: Final = 12


def run_record(run: ImageRun, outputs: Path | None, waves: Path | None) -> dict[str, Any]:
    """A run as JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "outputs": None if outputs is None else str(outputs),
        "waves": None if waves is None else str(waves),
        "rtl_cycles": run.rtl_cycles,
        "replay_cycles": None if run.replay is None else run.replay.cycles,
        "estimate_cycles": run.estimate_cycles,
        "stall_cycles": None if run.replay is None else run.replay.stall_cycles,
        "busy_cycles": None if run.replay is None else run.replay.busy_cycles,
        "macs": run.macs,
        "utilization": run.utilization,
        "is_agreed": not run.disagreements,
        "disagreements": list(run.disagreements),
    }


def run_table(run: ImageRun) -> Table:
    """The cycles of a run and what its outputs are."""
    table = plain_table(("quantity", False), ("value", True), ("remark", False))
    cycles = run.rtl_cycles
    table.add_row("RTL", f"{cycles:,}", "cycles")
    if run.replay is None:
        table.add_row("event replay", "-", "jitter is not replayed")
    else:
        table.add_row("event replay", f"{run.replay.cycles:,}", f"cycles, {run.replay.cycles - cycles:+d}")
    if run.estimate_cycles is None:
        table.add_row("estimate", "-", "the manifest names no mapping and no prediction")
    else:
        error = run.estimate_cycles / cycles - 1
        table.add_row("estimate", f"{run.estimate_cycles:,.0f}", f"cycles, {error:+.1%}")
    table.add_row("MACs", f"{run.macs:,}", f"utilization {run.utilization:.1%}")
    for name, values in run.outputs.items():
        shape = " x ".join(map(str, values.shape))
        table.add_row(f"output {name}", shape, f"{values.dtype}, from {values.min()} to {values.max()}")
    return table


def stalls_table(run: ImageRun) -> Table | None:
    """Per queue, what its cycles went into; None without a replay."""
    if run.replay is None:
        return None
    causes = list(run.replay.stall_cycles[QUEUES[0]])
    table = plain_table(("queue", False), ("issues", True), *((cause, True) for cause in causes))
    for queue in QUEUES:
        stalls = run.replay.stall_cycles[queue]
        issues = run.replay.cycles - sum(stalls.values())
        table.add_row(queue, f"{issues:,}", *(f"{stalls[cause]:,}" for cause in causes))
    return table


def schedule_title(schedule: Schedule) -> str:
    """What a schedule shows, as a claim."""
    replay = schedule.replay
    busiest = max(UNITS, key=lambda unit: replay.busy_cycles[unit])
    share = replay.busy_cycles[busiest] / replay.cycles
    return f"The {busiest} unit is busiest: it works in {share:.0%} of {replay.cycles:,} cycles"


def coverage_table(groups: Sequence[CoverageGroup]) -> Table:
    """One row per group of functional coverage."""
    table = plain_table(("functional coverage", False), ("met", True), ("of", True), ("share", True))
    for group in groups:
        num = len(group.hits)
        table.add_row(group.name, f"{group.num_covered:,}", f"{num:,}", f"{group.num_covered / num:.0%}")
    return table


def lines_table(files: Sequence[FileCoverage]) -> Table:
    """One row per source file of line coverage."""
    table = plain_table(
        ("line coverage", False), ("ran", True), ("of", True), ("share", True), ("lines that never ran", False)
    )
    for file in files:
        missed = ", ".join(map(str, file.missed_lines[:MAX_LINES]))
        more = len(file.missed_lines) - MAX_LINES
        table.add_row(
            file.file,
            f"{file.num_covered:,}",
            f"{file.num_points:,}",
            f"{file.num_covered / file.num_points:.0%}",
            f"{missed} and {more} more" if more > 0 else missed,
        )
    return table


def coverage_record(
    groups: Sequence[CoverageGroup], num_combinations: int, files: Sequence[FileCoverage] | None
) -> dict[str, Any]:
    """Coverage as JSON; `lines` is null where the RTL was not run."""
    return {
        "schema_version": SCHEMA_VERSION,
        "functional": [
            {
                "group": group.name,
                "num_bins": len(group.hits),
                "num_covered": group.num_covered,
                "missing": [list(name) for name in group.missing],
            }
            for group in groups
        ],
        "num_combinations": num_combinations,
        "lines": None
        if files is None
        else [
            {
                "file": file.file,
                "num_points": file.num_points,
                "num_covered": file.num_covered,
                "missed_lines": list(file.missed_lines),
            }
            for file in files
        ],
    }


def area_table(modelled: Sequence[Part], synthesised: CellArea | None) -> Table:
    """Cell area by block: array and post-processing; without a synthesis the last columns are empty."""
    table = plain_table(("block", False), ("modelled [um^2]", True), ("Yosys [um^2]", True), ("ratio", True))
    for row in _area_rows(modelled, synthesised):
        found, ratio = row["synthesised_um2"], row["ratio"]
        table.add_row(
            row["block"],
            f"{row['modelled_um2']:,.0f}",
            "-" if found is None else f"{found:,.0f}",
            "-" if ratio is None else f"{ratio:.3f}",
        )
    return table


def area_record(arch: str, modelled: Sequence[Part], synthesised: CellArea | None) -> dict[str, Any]:
    """Cell area as JSON; what is synthesised is null without a synthesis."""
    return {"schema_version": SCHEMA_VERSION, "arch": arch, "blocks": _area_rows(modelled, synthesised)}


def _area_rows(modelled: Sequence[Part], synthesised: CellArea | None) -> list[dict[str, Any]]:
    """A row for the array, post-processing, what the two are made of where Yosys tells it apart, and both."""
    amounts = {part.name: part.amount * 1e6 for tree in modelled for part in (tree, *tree.parts)}
    found: dict[str, float] = {}
    if synthesised is not None:
        found = {
            "pe_array": synthesised.array_um2,
            "post_processing": synthesised.post_processing_um2,
            "lanes": synthesised.num_lanes * synthesised.lane_um2,
            "store_unit": synthesised.store_um2,
        }
    amounts["total"] = sum(tree.amount for tree in modelled) * 1e6
    found["total"] = found.get("pe_array", 0.0) + found.get("post_processing", 0.0)
    return [
        {
            "block": name,
            "modelled_um2": amount,
            "synthesised_um2": found.get(name) or None,
            "ratio": amount / found[name] if found.get(name) else None,
        }
        for name, amount in amounts.items()
    ]


def plain_table(*columns: tuple[str, bool]) -> Table:
    """An empty table without lines.

    Args:
        columns: Heading of each, and whether it holds numbers.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for name, is_number in columns:
        table.add_column(name, justify="right" if is_number else "left")
    return table
