"""`tileloom validate`: a model against measurements."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..console import Terminal, examples
from ..out_paths import writable_folder

if TYPE_CHECKING:
    from ..validating import Compared

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class ModeName(StrEnum):
    """Where a model's constants come from."""

    DATASHEET = "datasheet"
    CALIBRATED = "calibrated"


class RowsName(StrEnum):
    """Which rows of a table count."""

    AUTO = "auto"
    ALL = "all"
    HELD_BACK = "held_back"
    FITTED = "fitted"


DataArgument = Annotated[
    Path, typer.Argument(metavar="DATA.csv", help="Measurements; the columns tell the format.", show_default=False)
]
ArchOption = Annotated[
    str, typer.Option("--arch", metavar="ARCH", help="A GPU or a system: a file, or a preset's name.")
]
ModeOption = Annotated[
    ModeName | None,
    typer.Option(
        "--mode",
        help="Published figures alone, or fitted constants; calibrated where the chip has the table's calibration.",
        show_default=False,
    ),
]
CalibrationOption = Annotated[
    str | None,
    typer.Option(
        "--calibration", metavar="NAME", help="Set of fitted constants; the one for such tables when left out."
    ),
]
ColumnOption = Annotated[
    str | None, typer.Option("--column", metavar="COLUMN", help="Measured column; the format's first when left out.")
]
RowsOption = Annotated[
    RowsName,
    typer.Option("--rows", help="Rows to compare; auto leaves out those that the constants were fitted to."),
]
WorstOption = Annotated[int, typer.Option("--worst", metavar="N", min=0, help="Rows with the largest errors to show.")]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", metavar="DIR", callback=writable_folder, help="Draw predicted against measured into DIR."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: errors in percent, whole and by regime.")]


@app.command(
    name="validate",
    help="Compare a model with measurements: mean, median and p90 of the absolute error, signed bias, by regime and "
    "size, and the worst rows with the model's reasoning; of shapes that were made in several ways, how well these are ranked."
    "\n\n"
    "Tables of kernels, collectives, energy, layers and serving are told apart by their columns.",
    epilog=examples(
        "tileloom validate docs/examples/measurements/h100_gemm.csv --arch h100_sxm",
        "tileloom validate docs/examples/measurements/h100_gemm.csv --arch h100_sxm --mode datasheet --json",
    ),
)
def validate(
    context: typer.Context,
    data: DataArgument,
    arch: ArchOption,
    mode: ModeOption = None,
    calibration: CalibrationOption = None,
    column: ColumnOption = None,
    rows: RowsOption = RowsName.AUTO,
    worst: WorstOption = 10,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read, compare, print, draw."""
    from ..validating import compare, document_of

    terminal = Terminal.of(context)
    compared = compare(
        data,
        arch,
        mode=None if mode is None else mode.value,
        calibration=calibration,
        column=column,
        rows=rows.value,
    )
    if as_json:
        terminal.json(document_of(compared, worst))
    else:
        _print(terminal, compared, worst)
    for note in compared.notes:
        terminal.note(f"note: {note}")
    if output is not None:
        _draw(terminal, compared, output)


def _print(terminal: Terminal, compared: Compared, num_worst: int) -> None:
    from ..validation_views import head_lines, ranking_table, summary_table, worst_table

    for line in head_lines(compared):
        terminal.line(line)
    terminal.line("")
    terminal.table(summary_table(compared))
    if compared.validation.rankings():
        terminal.line("")
        terminal.table(ranking_table(compared))
    if num_worst:
        terminal.line("")
        terminal.table(worst_table(compared, num_worst))


def _draw(terminal: Terminal, compared: Compared, folder: Path) -> None:
    from ..plots.predicted import plot_predicted, predicted_of
    from ..version import code_version

    files = plot_predicted(predicted_of(compared, commit=code_version()), folder / compared.stem)
    for path in (files.png, files.svg, files.csv):
        terminal.note(f"wrote {path}")
