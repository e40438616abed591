"""`tileloom arch`: check, show, list and compare architecture files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..cli import ExitCode
from ..console import Terminal, examples
from ..out_paths import writable_file, writable_stem

if TYPE_CHECKING:
    from ...archdsl import Arch

JSON_VERSION: Final = 1
FIGURE_FOLDER: Final = Path("results", "arch")

app = typer.Typer(
    name="arch",
    help="Check, show and compare architecture files.",
    epilog=examples("tileloom arch list", "tileloom arch show eyeriss_v1 --no-figure"),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

ArchArgument = Annotated[str, typer.Argument(metavar="ARCH", help="An architecture file, or the name of a preset.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override one field by its dotted path, e.g. hierarchy.scratchpad.capacity='64 KiB'. May be repeated.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command(
    short_help="Check files; print every fault with its place.",
    help="Check architecture and system files; print every fault with its place and exit with 2 if there is one.",
    epilog=examples("tileloom arch check ref16", "tileloom arch check eyeriss_v1 h100_sxm --json"),
)
def check(
    context: typer.Context,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Files, or names of presets.")],
    overrides: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load each file and report its faults."""
    from ...archdsl import ArchError, load_description
    from ..arch_views import fault_records, number_text, summary_text

    terminal = Terminal.of(context)
    values = parse_overrides(overrides)
    records: list[dict[str, object]] = []
    num_faults = 0
    for file in files:
        try:
            description = load_description(file, values)
        except ArchError as err:
            num_faults += max(1, len(err.diagnostics))
            records.append({"file": file, "ok": False, "faults": fault_records(err)})
            if not as_json:
                terminal.text_to_stderr(f"{err}\n")
            continue
        records.append({"file": file, "ok": True, "faults": []})
        if not as_json:
            terminal.line(f"{file}: ok ({summary_text(description)})")
    if as_json:
        terminal.json({"schema_version": JSON_VERSION, "files": records})
    if num_faults:
        num_bad = sum(not record["ok"] for record in records)
        terminal.error(f"{number_text(num_faults, 'fault')} in {num_bad} of {number_text(len(files), 'file')}")
        raise typer.Exit(ExitCode.BAD_INPUT)


@app.command(
    short_help="Print an architecture and draw its hierarchy.",
    help="Show one architecture as a table and draw its hierarchy as PNG and SVG, with the numbers as CSV.",
    epilog=examples(
        "tileloom arch show ref16 --output results/ref16",
        "tileloom arch show gemmini_16x16 --set parameters.rows=32 --no-figure",
    ),
)
def show(
    context: typer.Context,
    arch: ArchArgument,
    overrides: SetOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="STEM",
            callback=writable_stem,
            help="Path of the figure's files without suffix; results/arch/NAME when left out.",
        ),
    ] = None,
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Do not draw.")] = False,
    as_yaml: Annotated[
        bool, typer.Option("--yaml", help="Print the resolved architecture as YAML instead of a table.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print an architecture and draw it."""
    from ...archdsl import load_arch

    if as_yaml and as_json:
        raise typer.BadParameter("--yaml and --json exclude each other")
    if no_figure and output is not None:
        raise typer.BadParameter("--no-figure and --output exclude each other")
    terminal = Terminal.of(context)
    loaded = load_arch(arch, parse_overrides(overrides))
    _print_arch(terminal, loaded, as_yaml=as_yaml, as_json=as_json)
    if not no_figure:
        _draw(terminal, loaded, FIGURE_FOLDER / loaded.name if output is None else output)


@app.command(
    name="list",
    short_help="List the presets.",
    help="List the presets of chips and systems that come with the package.",
    epilog=examples("tileloom arch list", "tileloom arch list --json"),
)
def list_(context: typer.Context, as_json: JsonOption = False) -> None:
    """Print every preset with the figures by which chips and systems are compared."""
    from ...archdsl import list_presets, list_systems, load_arch, load_system
    from ..arch_views import preset_table, system_record, system_table, totals_record

    terminal = Terminal.of(context)
    archs = [load_arch(name) for name in list_presets()]
    systems = [load_system(name) for name in list_systems()]
    if as_json:
        presets = [totals_record(arch) for arch in archs]
        records = [system_record(system) for system in systems]
        terminal.json({"schema_version": JSON_VERSION, "presets": presets, "systems": records})
    else:
        terminal.table(preset_table(archs))
        terminal.table(system_table(systems))


@app.command(
    short_help="Print the JSON Schema of architecture files.",
    help="Print the JSON Schema of architecture files, for editors that complete and check while one types.",
    epilog=examples("tileloom arch schema", "tileloom arch schema --output results/arch.schema.json"),
)
def schema(
    context: typer.Context,
    is_system: Annotated[bool, typer.Option("--system", help="The schema of system files instead.")] = False,
    is_markdown: Annotated[
        bool, typer.Option("--markdown", help="The reference of all description files, for reading, instead.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", callback=writable_file, help="Write to a file instead of stdout."
        ),
    ] = None,
) -> None:
    """Print or write the JSON Schema, or the same in words."""
    import json

    from ...archdsl import arch_json_schema, reference_markdown, system_json_schema

    if is_system and is_markdown:
        raise typer.BadParameter("--system and --markdown exclude each other: the reference has both")
    terminal = Terminal.of(context)
    if is_markdown:
        text = reference_markdown()
    else:
        text = json.dumps(system_json_schema() if is_system else arch_json_schema(), indent=2) + "\n"
    if output is None:
        terminal.line(text.rstrip("\n"))
        return
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text, encoding="utf-8")
    terminal.note(f"wrote {output}")


@app.command(
    short_help="Print the fields in which two architectures differ.",
    help="Print the fields in which two architectures differ, by dotted path, with both values.",
    epilog=examples("tileloom arch diff h100_sxm h200_sxm", "tileloom arch diff tpe_8x8 tpe_16x16 --json"),
)
def diff(
    context: typer.Context,
    left: Annotated[str, typer.Argument(metavar="A", help="An architecture file, or the name of a preset.")],
    right: Annotated[str, typer.Argument(metavar="B", help="The one to compare it with.")],
    show_all: Annotated[
        bool, typer.Option("--all", help="Sources, notes and descriptions too, which no model reads.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two architectures field by field."""
    from ...archdsl import load_arch
    from ..arch_views import difference_table, number_text
    from ..differences import arch_differences

    terminal = Terminal.of(context)
    found = arch_differences(load_arch(left), load_arch(right))
    shown = [d for d in found if show_all or not d.is_prose]
    if as_json:
        records = [{"path": d.path, "left": d.left, "right": d.right} for d in shown]
        terminal.json({"schema_version": JSON_VERSION, "left": left, "right": right, "differences": records})
    elif shown:
        terminal.table(difference_table(left, right, shown))
    else:
        terminal.line(f"{left} and {right} do not differ{' in anything that a model reads' if found else ''}")
    if num_hidden := len(found) - len(shown):
        terminal.note(
            f"{number_text(num_hidden, 'difference')} in sources, notes and descriptions not shown; see --all"
        )


def parse_overrides(options: Sequence[str] | None) -> dict[str, object]:
    """Overrides from `PATH=VALUE` options; the value is read as YAML (`8`, `64 KiB`, `[input, output]`).

    Raises:
        typer.BadParameter: An option without `=`, or the same path twice.
        ArchError: A value that is no YAML.
    """
    from ...archdsl import parse_yaml, to_plain

    values: dict[str, object] = {}
    for option in options or ():
        path, sign, text = option.partition("=")
        path = path.strip()
        if not sign or not path:
            raise typer.BadParameter(f"'{option}' is not PATH=VALUE, e.g. parameters.rows=8", param_hint="'--set'")
        if path in values:
            raise typer.BadParameter(f"'{path}' is set twice", param_hint="'--set'")
        values[path] = to_plain(parse_yaml(text.strip(), f"--set {path}").root)
    return values


def _print_arch(terminal: Terminal, arch: Arch, *, as_yaml: bool, as_json: bool) -> None:
    from ...archdsl import dump_arch
    from ..arch_views import block_records, block_table, footer_lines, heading_lines, totals_record

    if as_yaml:
        terminal.line(dump_arch(arch).rstrip("\n"))
        return
    if as_json:
        written = arch.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        record = {"schema_version": JSON_VERSION, "totals": totals_record(arch), "blocks": block_records(arch)}
        terminal.json({**record, "arch": written})
        return
    for line in heading_lines(arch):
        terminal.line(line)
    terminal.table(block_table(arch))
    for line in footer_lines(arch):
        terminal.line(line)


def _draw(terminal: Terminal, arch: Arch, stem: Path) -> None:
    from importlib.metadata import version

    from ..plots.hierarchy import plot_hierarchy

    files = plot_hierarchy(arch, stem, version=version("tileloom"))
    terminal.note(f"wrote {files.png}, {files.svg}, {files.csv}")
