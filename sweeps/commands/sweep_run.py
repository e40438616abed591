"""`tileloom sweep run`: run a sweep, resume it, or say what a run would do."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..cli import ExitCode
from ..console import Terminal
from ..out_paths import writable_folder

if TYPE_CHECKING:
    from ..dry_run import DryRun
    from ..engine import MakeExecutor, RunSummary
    from ..evaluation import Pricer
    from ..execution import Executor, WorkContext
    from ..loading import Sweep
    from ..store import SweepResults

RESULTS_FOLDER: Final = Path("results")
MAX_SHOWN: Final = 10


class ExecutorName(StrEnum):
    """Where design points run."""

    LOCAL = "local"
    RAY = "ray"


def run(
    context: typer.Context,
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="Sweep specification, a YAML file.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="DIR", callback=writable_folder, help="Output directory; results/NAME by default."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, why, and how long it takes; store nothing.")
    ] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run stored points that failed again.")] = False,
    executor: Annotated[
        ExecutorName, typer.Option(help="Worker processes on this machine, or a Ray cluster.")
    ] = ExecutorName.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="A running Ray cluster; without it one is started on this machine."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of workers; one per CPU by default.")] = None,
    has_plots: Annotated[
        bool, typer.Option("--plots/--no-plots", help="Whether to draw the plots and the report at the end.")
    ] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Run what has no result yet."""
    from ...compiler import load_workload
    from ..loading import load_sweep
    from ..pricers import pricer_of

    terminal = Terminal.of(context)
    if address is not None and executor is not ExecutorName.RAY:
        raise typer.BadParameter("only a Ray cluster has an address; add --executor ray", param_hint="--address")
    sweep = load_sweep(spec, load_workload)
    _say_notices(terminal, sweep)
    directory = RESULTS_FOLDER / sweep.spec.name if output is None else output
    num_workers = jobs or _num_cpus()
    pricer = pricer_of(sweep.pricing)
    if dry_run:
        from ..dry_run import dry_run as find_out

        found = find_out(sweep, directory, pricer, num_workers=num_workers, retry_failed=retry_failed)
        _show_dry_run(terminal, sweep, directory, found, as_json)
        return
    make_executor = _ray_executor(jobs, address) if executor is ExecutorName.RAY else _local_executor(num_workers)
    summary = _run(terminal, sweep, directory, pricer, make_executor, retry_failed)
    code = finish(terminal, directory, summary, has_plots=has_plots, as_json=as_json)
    if code is not ExitCode.DONE:
        raise typer.Exit(code)


def _local_executor(num_workers: int) -> MakeExecutor:
    def make(context: WorkContext) -> Executor:
        from ..execution import LocalExecutor

        return LocalExecutor(context, num_workers)

    return make


def _ray_executor(jobs: int | None, address: str | None) -> MakeExecutor:
    def make(context: WorkContext) -> Executor:
        from ..execution import RayExecutor

        return RayExecutor(context, jobs, address)

    return make


def _num_cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run(
    terminal: Terminal,
    sweep: Sweep,
    directory: Path,
    pricer: Pricer,
    make_executor: MakeExecutor,
    retry_failed: bool,
) -> RunSummary:
    from ..engine import run_sweep
    from ..progress import SilentProgress, StderrProgress

    progress = SilentProgress() if terminal.verbosity < 0 else StderrProgress(sys.stderr.isatty())
    try:
        return run_sweep(sweep, directory, pricer, make_executor, progress, retry_failed=retry_failed)
    finally:
        progress.finish()


def finish(terminal: Terminal, directory: Path, summary: RunSummary, *, has_plots: bool, as_json: bool) -> ExitCode:
    """Say what a run did and draw its plots; returns the exit status."""
    from ..store import PointStatus, SweepResults
    from ..summary import counts_text, points_table, run_json

    if summary.has_changed_spec:
        terminal.note(
            f"the specification changed since the last run: {summary.num_reused} of its {summary.num_points} points "
            "have a result from before, which is kept"
        )
    if summary.is_interrupted:
        done = summary.num_reused + summary.num_run
        terminal.error(
            f"interrupted: {done} points have a result in {directory}; run the same command again for the rest"
        )
        return ExitCode.INTERRUPTED
    results = SweepResults.load(directory)
    files = _draw(results, directory) if has_plots and results.count(PointStatus.OK) else ()
    if as_json:
        terminal.json(run_json(results, summary, directory, files))
    else:
        terminal.line(f"{counts_text(results)} ({summary.num_run} run, {summary.num_reused} stored before)")
        front = [r for r, is_on in zip(results.records, results.on_front(), strict=True) if is_on]
        if front:
            terminal.table(points_table(results, front[:MAX_SHOWN]))
        if len(front) > MAX_SHOWN:
            terminal.line(f"... and {len(front) - MAX_SHOWN} more on the front: tileloom sweep show {directory}")
        for path in files:
            terminal.line(str(path))
    if summary.num_failed:
        terminal.error(
            f"{summary.num_failed} points failed; tileloom sweep show {directory} --select failed lists them, "
            "and run --retry-failed runs them again"
        )
        return ExitCode.FAILED_POINTS
    if results.records and not results.count(PointStatus.OK) and results.count(PointStatus.INFEASIBLE):
        terminal.error("no design point is feasible; tileloom sweep show says what would make one fit")
        return ExitCode.INFEASIBLE
    return ExitCode.DONE


def _draw(results: SweepResults, directory: Path) -> tuple[Path, ...]:
    from .sweep_draw import draw

    return draw(results, directory)


def _say_notices(terminal: Terminal, sweep: Sweep) -> None:
    """Say what the workloads leave out or take for granted."""
    for served in sweep.blueprint.served:
        for notice in served.model.notes:
            terminal.note(f"{served.name}: {notice}")
    for workload in sweep.workloads:
        for notice in workload.notices:
            terminal.note(f"{workload.name}: {notice}")
        if workload.unmodelled:
            kinds = ", ".join(sorted({node.kind for node in workload.unmodelled}))
            terminal.warn(f"{workload.name}: {len(workload.unmodelled)} nodes are not modelled ({kinds})")


def _show_dry_run(terminal: Terminal, sweep: Sweep, directory: Path, found: DryRun, as_json: bool) -> None:
    from ..progress import duration
    from ..summary import dry_run_json, dry_run_table

    if as_json:
        terminal.json(dry_run_json(found, directory))
        return
    most = f" (at most {found.max_points} over all generations)" if found.max_points else ""
    terminal.line(f"{sweep.spec.name}: {found.num_to_run} of {len(found.points)} points would run{most}")
    terminal.table(dry_run_table(found))
    if found.changes:
        terminal.line(f"changed since the last run: {', '.join(found.changes)}")
    if found.time_s is not None:
        terminal.line(f"estimated time: {duration(found.time_s)} (from {found.time_basis})")
    for point, reason in found.points:
        inputs = " ".join(f"{path}={value}" for path, value in point.row.inputs)
        terminal.detail(f"#{point.row.index} {point.row.id} {reason}: {inputs}")
