"""`tileloom calibrate`: fit a model's constants to measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..console import Terminal, examples
from ..out_paths import writable_file

app = typer.Typer(add_completion=False, rich_markup_mode=None)

DataArgument = Annotated[
    list[Path],
    typer.Argument(
        metavar="DATA.csv...", help="Measurements of one chip; each table counts alike.", show_default=False
    ),
]
ArchOption = Annotated[
    str, typer.Option("--arch", metavar="ARCH", help="A GPU or a system: a file, or a preset's name.")
]
NameOption = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Name of the set; its constants are the start where there is one.")
]
ConstantsOption = Annotated[
    str | None,
    typer.Option(
        "--constants",
        metavar="A,B,...",
        help="Constants to fit, at most twelve with others of the set, which stay; when left out, the set's, or all "
        "that matter.",
    ),
]
ColumnOption = Annotated[
    str | None, typer.Option("--column", metavar="COLUMN", help="Measured column; the format's first when left out.")
]
SourceOption = Annotated[
    str, typer.Option("--source", metavar="TEXT", help="Where the measurements come from, for the description.")
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        callback=writable_file,
        help="Write a description that extends ARCH by the calibration.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON: constants, rows and the error of the fit.")]


@app.command(
    name="calibrate",
    help="Fit named physical constants to measurements, on the 70 % of the shapes that a hash picks; `tileloom validate` "
    "then reports the others.\n\nAt most twelve constants a set. Prints the YAML that keeps them.",
    epilog=examples(
        "tileloom calibrate docs/examples/measurements/h100_gemm.csv --arch h100_sxm --name mine "
        "--constants tensor_efficiency,memory_efficiency,tile_overhead_s",
        "tileloom calibrate docs/examples/measurements/h100_gemm.csv --arch h100_sxm --name mine "
        "--constants memory_efficiency -o results/h100_mine.yaml",
    ),
)
def calibrate(
    context: typer.Context,
    data: DataArgument,
    arch: ArchOption,
    name: NameOption,
    constants: ConstantsOption = None,
    column: ColumnOption = None,
    source: SourceOption = "own measurements",
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read, fit, print, write."""
    from ..validating import SCHEMA_VERSION, calibration_yaml, fitted

    terminal = Terminal.of(context)
    names = [one for part in constants.split(",") if (one := part.strip())] if constants else None
    calibration, fit, described = fitted(data, arch, name=name, constants=names, column=column, source=source)
    folder = Path() if output is None else output.parent
    text = calibration_yaml(described, name, calibration, arch=arch, folder=folder)
    if as_json:
        terminal.json(
            {
                "schema_version": SCHEMA_VERSION,
                "target": described.name,
                "calibration": name,
                "constants": calibration.constants,
                "num_rows": fit.num_rows,
                "mape": fit.mape,
            }
        )
    else:
        terminal.line(text.rstrip("\n"))
        terminal.note(f"mean absolute error over the {fit.num_rows} rows of the fit: {fit.mape:.1f} %")
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(text, encoding="utf-8")
        terminal.note(f"wrote {output}")
