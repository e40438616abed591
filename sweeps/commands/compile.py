"""`tileloom compile`: from an ONNX file to a folder of programs for the tensor PE array."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..cli import ExitCode
from ..console import Terminal, examples
from ..out_paths import writable_folder
from .estimate import ArchOption, SetOption, ShapeOption, say_infeasible, sizes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...archdsl import SpatialArch
    from ...compiler import Compilation, NetworkRecord

EXAMPLE: Final = "docs/examples/networks/tiny_int8.onnx"
MAX_CYCLES: Final = 10_000_000_000

app = typer.Typer(add_completion=False, rich_markup_mode=None)

ModelArgument = Annotated[
    Path, typer.Argument(metavar="MODEL", help="An ONNX file; not read with --resume-from.", show_default=False)
]
OutputOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        callback=writable_folder,
        help="Where to write; made if missing.",
        show_default=False,
    ),
]
FallbackOption = Annotated[
    bool, typer.Option("--fallback", help="Run on the host what the array cannot do, also between programs.")
]
KeepLayersOption = Annotated[
    bool, typer.Option("--keep-layers", help="Store the result of every op in main memory too, to compare them.")
]
DepthFirstOption = Annotated[
    bool,
    typer.Option("--no-depth-first", help="Cut every op by itself, also where bands of several at a time are faster."),
]
PrintAfterOption = Annotated[
    str | None,
    typer.Option("--print-after", metavar="PASSES", help="Dump the module after these passes (a,b), or after all."),
]
StopAfterOption = Annotated[
    str | None, typer.Option("--stop-after", metavar="PASS", help="Dump the module after this pass, and stop.")
]
ResumeOption = Annotated[
    Path | None, typer.Option("--resume-from", metavar="DUMP", help="Go on from a dump instead of the model.")
]
ReportOption = Annotated[bool, typer.Option("--report", help="Also print what each pass took.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.command(
    name="compile",
    help="Compile a quantised network for a tensor PE array.\n\n"
    "Writes program images, network.json and what the host does around them into a folder, which `tileloom run` and "
    "`tileloom explain` take. Replays the programs and prints each layer's cycles beside its bound: the busier of array "
    "and bus when neither ever waits and everything moves once.",
    epilog=examples(
        f"tileloom compile {EXAMPLE} --arch tpe_8x8 -o results/tiny",
        f"tileloom compile {EXAMPLE} --arch tpe_8x8 --set parameters.scratchpad='32 KiB' -o results/small --report",
    ),
)
def compile_(
    context: typer.Context,
    model: ModelArgument,
    arch: ArchOption,
    output: OutputOption,
    shapes: ShapeOption = None,
    overrides: SetOption = None,
    fallback: FallbackOption = False,
    keep_layers: KeepLayersOption = False,
    no_depth_first: DepthFirstOption = False,
    print_after: PrintAfterOption = None,
    stop_after: StopAfterOption = None,
    resume_from: ResumeOption = None,
    report: ReportOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compile, write, replay, and print."""
    from ...archdsl import InfeasibleError
    from ...compiler import CompileOptions, DumpOptions, compile_network, save_network, split_names

    terminal = Terminal.of(context)
    chip = _spatial(arch, overrides)
    stops = () if stop_after is None else (stop_after,)
    dumps = DumpOptions(
        print_after=(*split_names(print_after), *stops),
        stop_after=stop_after,
        folder=output / "dumps",
        resume_from=resume_from,
    )
    options = CompileOptions(fallback=fallback, keeps_layers=keep_layers, is_depth_first=not no_depth_first)
    start_s = time.perf_counter()
    try:
        found = compile_network(model, chip, options, shapes=sizes_of(shapes), dumps=dumps)
    except InfeasibleError as error:
        say_infeasible(terminal, error.infeasible, as_json=as_json)
        raise typer.Exit(ExitCode.INFEASIBLE) from None
    time_s = time.perf_counter() - start_s
    for notice in found.notices:
        terminal.note(notice)
    _say_dumps(terminal, found)
    if found.network is None:
        _print_stopped(terminal, found, as_json=as_json, report=report)
        return
    record = save_network(found.network, output, name=model.stem, options=options)
    terminal.note(f"compiled in {time_s:.2f} s; wrote {output}")
    _print(terminal, found, record, output, time_s=time_s, as_json=as_json, report=report)


def _spatial(arch: str, overrides: Sequence[str] | None) -> SpatialArch:
    from ...archdsl import ArchError, SpatialArch, load_arch
    from .arch import parse_overrides

    found = load_arch(arch, parse_overrides(overrides))
    if not isinstance(found, SpatialArch):
        raise ArchError(f"{found.name} is of kind {found.kind}; networks are compiled for kind spatial: try tpe_16x16")
    return found


def _say_dumps(terminal: Terminal, found: Compilation) -> None:
    for record in found.records:
        if record.dump is not None:
            terminal.note(f"wrote {record.dump}")


def _print_stopped(terminal: Terminal, found: Compilation, *, as_json: bool, report: bool) -> None:
    from ..network_records import SCHEMA_VERSION, pass_records
    from ..network_views import passes_table

    last = found.records[-1] if found.records else None
    if as_json:
        stopped = None if last is None else last.name
        terminal.json(
            {"schema_version": SCHEMA_VERSION, "stopped_after": stopped, "passes": pass_records(found.records)}
        )
        return
    if report:
        terminal.table(passes_table(found.records))
    dump = None if last is None else last.dump
    terminal.line("no pass was left to run" if last is None else f"stopped after {last.name}: {dump}")


def _print(
    terminal: Terminal,
    found: Compilation,
    record: NetworkRecord,
    output: Path,
    *,
    time_s: float,
    as_json: bool,
    report: bool,
) -> None:
    from ..image_runs import RunOptions
    from ..layers import network_layers
    from ..network_records import compile_record
    from ..network_runs import replay_programs
    from ..network_views import host_lines, layers_table, memory_lines, passes_table

    assert found.network is not None  # the caller has looked
    images = found.network.images
    layers = network_layers(images, replay_programs(images, RunOptions(max_cycles=MAX_CYCLES)))
    if as_json:
        passes = found.records if report else None
        terminal.json(
            compile_record(record, images, layers, folder=output, time_s=time_s, notices=found.notices, passes=passes)
        )
        return
    terminal.table(layers_table(layers))
    terminal.line("")
    if report:
        terminal.table(passes_table(found.records))
        terminal.line("")
    terminal.line(f"{record.name} for {record.arch}")
    for name, image in images.items():
        if len(images) > 1:
            terminal.line(f"{name}:")
        for line in memory_lines(image):
            terminal.line(line)
    for line in host_lines(record.host):
        terminal.line(line)
