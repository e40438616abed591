"""`tileloom sweep`: run sweeps and look at their results."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from ..console import Terminal, examples
from ..out_paths import writable_file, writable_folder
from .sweep_run import run

if TYPE_CHECKING:
    from ..kernel_document import KernelsDocument
    from ..serving_documents import ServedDocument
    from ..store import DesignRecord, SweepResults

MAX_LISTED: Final = 50
EXAMPLE_SPEC: Final = "docs/examples/pe_array_sizes.yaml"
EXAMPLE_RESULTS: Final = "results/pe_array_sizes"

app = typer.Typer(
    name="sweep",
    help="Sweep architectures over workloads: run, resume, show, plot, compare, export.",
    epilog=examples(f"tileloom sweep run {EXAMPLE_SPEC}", f"tileloom sweep show {EXAMPLE_RESULTS}"),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

DirectoryArgument = Annotated[Path, typer.Argument(metavar="DIR", help="Output directory of a sweep.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

app.command(
    name="run",
    help="Run a sweep. Running it again resumes it: design points that have a result never run again.",
    epilog=examples(
        f"tileloom sweep run {EXAMPLE_SPEC} --jobs 2", f"tileloom sweep run {EXAMPLE_SPEC} -o results/sizes --dry-run"
    ),
)(run)


class FileFormat(StrEnum):
    """Formats of `sweep export`."""

    CSV = "csv"
    PARQUET = "parquet"


class Selection(StrEnum):
    """Which design points `sweep show` lists."""

    FRONT = "front"
    ALL = "all"
    OK = "ok"
    INFEASIBLE = "infeasible"
    FAILED = "failed"
    EXCLUDED = "excluded"
    PENDING = "pending"


@app.command(
    name="status",
    help="Say how far a sweep is; also while it runs.",
    epilog=examples(f"tileloom sweep status {EXAMPLE_RESULTS}", f"tileloom sweep status {EXAMPLE_RESULTS} --json"),
)
def status(context: typer.Context, directory: DirectoryArgument, as_json: JsonOption = False) -> None:
    """Count design points by status."""
    from ..points import model_version
    from ..store import SweepResults
    from ..summary import counts_text, status_json
    from ..writer import running_process

    terminal = Terminal.of(context)
    results = SweepResults.load(directory)
    running = running_process(directory)
    if as_json:
        terminal.json(status_json(results, running))
        return
    terminal.line(counts_text(results))
    if running:
        terminal.line(f"{running} is running it")
    if results.model_version != model_version():
        terminal.warn("these results come from another version of the model; sweep run computes them again")


@app.command(
    name="show",
    help="List design points (the front when nothing else is asked for), or show one with its ops.",
    epilog=examples(
        f"tileloom sweep show {EXAMPLE_RESULTS} --select failed", f"tileloom sweep show {EXAMPLE_RESULTS} '#12'"
    ),
)
def show(
    context: typer.Context,
    directory: DirectoryArgument,
    point: Annotated[
        str | None, typer.Argument(metavar="[POINT]", help="Id of a design point, its beginning, or #INDEX.")
    ] = None,
    select: Annotated[Selection, typer.Option(help="Which design points to list.")] = Selection.FRONT,
    limit: Annotated[int, typer.Option(min=1, help="Most design points to list.")] = MAX_LISTED,
    as_json: JsonOption = False,
) -> None:
    """Show design points."""
    from ..store import SweepResults
    from ..summary import SCHEMA_VERSION, counts_text, points_table, record_json

    terminal = Terminal.of(context)
    results = SweepResults.load(directory)
    if point is not None:
        _show_one(terminal, results, results.record(point), as_json)
        return
    on_front = results.on_front()
    records = _selected(results, select)
    if as_json:
        listed = [record_json(record, bool(on_front[record.index])) for record in records[:limit]]
        terminal.json({"schema_version": SCHEMA_VERSION, "name": results.name, "points": listed})
        return
    terminal.line(counts_text(results))
    if records:
        terminal.table(points_table(results, records[:limit]))
    if len(records) > limit:
        terminal.line(f"... and {len(records) - limit} more; --limit {len(records)} lists them")


@app.command(
    name="plot",
    help="Draw the Pareto figures (PNG, SVG and their CSV) and the HTML report of a sweep.",
    epilog=examples(
        f"tileloom sweep plot {EXAMPLE_RESULTS}", f"tileloom sweep plot {EXAMPLE_RESULTS} -o results/figures"
    ),
)
def plot(
    context: typer.Context,
    directory: DirectoryArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            callback=writable_folder,
            help="Where to put them; the sweep's own directory by default.",
        ),
    ] = None,
) -> None:
    """Draw a sweep."""
    from ..store import SweepResults
    from .sweep_draw import draw

    terminal = Terminal.of(context)
    for path in draw(SweepResults.load(directory), output or directory):
        terminal.line(str(path))


@app.command(
    name="diff",
    help="Compare two sweeps point by point; points are matched by their swept values.",
    epilog=examples(
        "tileloom sweep diff results/before results/after", "tileloom sweep diff results/a results/b --json"
    ),
)
def diff(
    context: typer.Context,
    first: Annotated[Path, typer.Argument(metavar="FIRST", help="Output directory of the first sweep.")],
    second: Annotated[Path, typer.Argument(metavar="SECOND", help="Output directory of the second sweep.")],
    limit: Annotated[int, typer.Option(min=1, help="Most changed points to list.")] = MAX_LISTED,
    as_json: JsonOption = False,
) -> None:
    """Compare two sweeps."""
    from ..comparison import compare
    from ..store import SweepResults
    from ..summary import comparison_json, comparison_lines, comparison_table

    terminal = Terminal.of(context)
    results = SweepResults.load(first), SweepResults.load(second)
    comparison = compare(*results)
    if as_json:
        terminal.json(comparison_json(comparison))
        return
    for line in comparison_lines(comparison):
        terminal.line(line)
    if comparison.changed:
        terminal.table(comparison_table(comparison, [o.metric for o in results[0].objectives], limit))
    if len(comparison.changed) > limit:
        terminal.line(f"... and {len(comparison.changed) - limit} more; --limit {len(comparison.changed)} lists them")


@app.command(
    name="export",
    help="Write all design points as one table; the same results give the same bytes.",
    epilog=examples(
        f"tileloom sweep export {EXAMPLE_RESULTS} -o results/sizes.csv",
        f"tileloom sweep export {EXAMPLE_RESULTS} --format parquet -o results/sizes.parquet",
    ),
)
def export(
    context: typer.Context,
    directory: DirectoryArgument,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            callback=writable_file,
            help="File to write; DIR/points.FORMAT by default.",
        ),
    ] = None,
    file_format: Annotated[
        FileFormat | None, typer.Option("--format", help="By the file's suffix when left out, else csv.")
    ] = None,
) -> None:
    """Export a sweep."""
    from ..export import export_results
    from ..store import SweepResults

    suffix = "" if output is None else output.suffix.removeprefix(".")
    chosen = file_format or (FileFormat.PARQUET if suffix == FileFormat.PARQUET else FileFormat.CSV)
    path = output or directory / f"points.{chosen}"
    export_results(SweepResults.load(directory), path, chosen.value)
    Terminal.of(context).line(str(path))


def _show_one(terminal: Terminal, results: SweepResults, record: DesignRecord, as_json: bool) -> None:
    from ..kernel_views import kernels_table
    from ..objectives import Pricing
    from ..store import PointStatus
    from ..summary import SCHEMA_VERSION, ops_table, record_json, record_table

    has_ops = record.status in (PointStatus.OK, PointStatus.EXCLUDED) and bool(record.metrics)
    documents = results.breakdown(record.id) if has_ops else ()
    if as_json:
        values = record_json(record, bool(results.on_front()[record.index]))
        values |= {
            "schema_version": SCHEMA_VERSION,
            "traceback": record.traceback or None,
            "workloads": list(documents),
        }
        terminal.json(values)
        return
    terminal.line(f"{results.name} #{record.index} {record.id}: {record.status}")
    terminal.table(record_table(results, record))
    for line in record.violated:
        terminal.line(f"violates {line}")
    if record.infeasible:
        terminal.line(str(record.infeasible))
    if record.error:
        terminal.line(record.traceback.rstrip() or record.error)
    for info, document in zip(results.workloads, documents, strict=False):
        terminal.line(info.name)
        if results.pricing is Pricing.SERVING:
            _show_parts(terminal, cast("ServedDocument", document))
        elif results.pricing is Pricing.KERNELS:
            terminal.table(kernels_table(cast("KernelsDocument", document)))
        else:
            terminal.table(ops_table(document))


def _show_parts(terminal: Terminal, document: ServedDocument) -> None:
    from ..serving_views import part_lines

    for part in document["parts"]:
        for line in part_lines(part):
            terminal.line(line)
    for note in document["notes"]:
        terminal.note(f"note: {note}")


def _selected(results: SweepResults, select: Selection) -> list[DesignRecord]:
    """The records to list; the front by its first objective, others in the sweep's order."""
    if select is Selection.ALL:
        return list(results.records)
    if select is not Selection.FRONT:
        return [record for record in results.records if record.status == select.value]
    front = [record for record, is_on in zip(results.records, results.on_front(), strict=True) if is_on]
    return sorted(front, key=lambda record: [record.cost(objective) for objective in results.objectives])
