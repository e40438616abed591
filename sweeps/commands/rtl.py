"""`tileloom rtl`: the tensor PE array's RTL: lint, build, run, trace, coverage, area."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ..cli import ExitCode
from ..console import Terminal, examples
from ..out_paths import writable_file, writable_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from ...archdsl import PeArray, ProgramImage
    from ...rtl import BuildKind, FileCoverage
    from ..functional_coverage import FunctionalCoverage
    from ..image_runs import RunOptions

    Ints = npt.NDArray[np.integer]

JSON_VERSION: Final = 1
EXAMPLE: Final = "docs/examples/programs/conv_8x8"
MAX_MISSING: Final = 6
SYNTHESIS_NODE_NM: Final = 45.0

app = typer.Typer(
    name="rtl",
    help="The tensor PE array's RTL: lint, build and run it, trace programs, measure coverage and area.",
    epilog=examples("tileloom rtl lint --arch tpe_8x8", f"tileloom rtl run {EXAMPLE}"),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

ArchOption = Annotated[str, typer.Option("--arch", metavar="ARCH", help="An architecture file, or a preset's name.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Override a field, e.g. parameters.rows=4. Repeatable."),
]
ProgramArgument = Annotated[
    Path, typer.Argument(metavar="PROGRAM_DIR", help="A program image: a folder with manifest.json.")
]
ProgramsArgument = Annotated[
    list[Path], typer.Argument(metavar="PROGRAM_DIR...", help="Program images: folders with manifest.json.")
]
InputOption = Annotated[
    Path | None, typer.Option("--input", metavar="FILE", help="Inputs by symbol (.npz); random ones when left out.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")]
StaticOption = Annotated[
    bool, typer.Option("--static", help="Issue by the cycles of the replay, with tokens as a checker.")
]
LatencyOption = Annotated[
    int | None,
    typer.Option(
        "--latency", metavar="CYCLES", min=1, max=65535, help="Main memory's latency; else the architecture's."
    ),
]
BeatOption = Annotated[
    int | None,
    typer.Option(
        "--cycles-per-beat", metavar="CYCLES", min=1, max=255, help="Of main memory; else the architecture's."
    ),
]
JitterOption = Annotated[
    int, typer.Option("--jitter-seed", metavar="SEED", min=0, max=2**32 - 1, help="Main memory jitters; 0 for not.")
]
WavesOption = Annotated[
    Path | None, typer.Option("--waves", metavar="FILE", callback=writable_file, help="Write the waveform (VCD).")
]
MaxCyclesOption = Annotated[
    int, typer.Option("--max-cycles", metavar="CYCLES", min=1, help="Cycles after which the program counts as hung.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.command(
    short_help="Check the RTL of an architecture with Verilator's lint.",
    help="Check the RTL that an architecture gives with every warning of Verilator's lint; exit with 1 if there is one.",
    epilog=examples(
        "tileloom rtl lint --arch tpe_8x8",
        "tileloom rtl lint --arch tpe_16x16 --set parameters.rows=4 --set parameters.bus_bytes=4",
    ),
)
def lint(context: typer.Context, arch: ArchOption, overrides: SetOption = None, as_json: JsonOption = False) -> None:
    """Print what lint says."""
    from ...rtl import lint as lint_rtl
    from ...rtl import sources

    terminal = Terminal.of(context)
    said = lint_rtl(_pe_array(arch, overrides))
    num_files = len(sources()) + 1
    if as_json:
        terminal.json({"schema_version": JSON_VERSION, "arch": arch, "is_clean": not said, "said": said.splitlines()})
    elif said:
        terminal.line(said)
    else:
        terminal.line(f"{arch}: clean ({num_files} files)")
    if said:
        terminal.error(f"{arch}: the RTL is not clean")
        raise typer.Exit(ExitCode.BUG)


@app.command(
    short_help="Build the simulator of an architecture.",
    help="Build the simulator of an architecture, unless it stands in the cache; print where it stands and what it took.",
    epilog=examples("tileloom rtl build --arch tpe_8x8", "tileloom rtl build --arch tpe_8x8 --json"),
)
def build(context: typer.Context, arch: ArchOption, overrides: SetOption = None, as_json: JsonOption = False) -> None:
    """Build, and say where."""
    import time

    from ...rtl import build as build_simulator

    terminal = Terminal.of(context)
    array = _pe_array(arch, overrides)
    start_s = time.perf_counter()
    made = build_simulator(array)
    time_s = time.perf_counter() - start_s
    if as_json:
        record = {"arch": arch, "folder": str(made.folder), "is_reused": made.is_reused, "time_s": round(time_s, 3)}
        terminal.json({"schema_version": JSON_VERSION, **record})
    else:
        terminal.line(f"{made.folder} ({'built before' if made.is_reused else 'built'}, {time_s:.1f} s)")


@app.command(
    short_help="Run a program on the RTL, and compare it with the simulators.",
    help="Run a program on the RTL, the event replay and the functional simulator. Exit with 1 when they disagree: that "
    "is a bug of ours.",
    epilog=examples(
        f"tileloom rtl run {EXAMPLE}", f"tileloom rtl run {EXAMPLE} --static --latency 20 -o results/conv.npz --json"
    ),
)
def run(
    context: typer.Context,
    program: ProgramArgument,
    inputs: InputOption = None,
    seed: SeedOption = 0,
    static: StaticOption = False,
    latency: LatencyOption = None,
    cycles_per_beat: BeatOption = None,
    jitter_seed: JitterOption = 0,
    waves: WavesOption = None,
    max_cycles: MaxCyclesOption = 10_000_000,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", callback=writable_file, help="Write the outputs by symbol (.npz)."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run, compare, and print."""
    from ...archdsl import load_image
    from ..image_runs import RunOptions, load_inputs, random_inputs, run_image
    from ..rtl_views import run_record, run_table, stalls_table

    if static and jitter_seed:
        raise typer.BadParameter("--static and --jitter-seed exclude each other: jitter breaks a static schedule")
    if output is not None and output.suffix != ".npz":
        raise typer.BadParameter(f"'{output}' must end in .npz", param_hint="'--output'")
    terminal = Terminal.of(context)
    image = load_image(program)
    options = RunOptions(
        is_static=static,
        latency_cycles=latency,
        cycles_per_beat=cycles_per_beat,
        jitter_seed=jitter_seed,
        waves=waves,
        max_cycles=max_cycles,
    )
    given = random_inputs(image, seed) if inputs is None else load_inputs(image, inputs)
    build_first(terminal, image, "plain" if waves is None else "waves")
    found = run_image(image, given, options)
    if output is not None:
        save_arrays(output, found.outputs)
        terminal.note(f"wrote {output}")
    if waves is not None:
        terminal.note(f"wrote {waves}")
    if as_json:
        terminal.json(run_record(found, output, waves))
    else:
        terminal.table(run_table(found))
        if (stalls := stalls_table(found)) is not None:
            terminal.line("")
            terminal.table(stalls)
    if found.disagreements:
        for text in found.disagreements:
            terminal.error(text)
        terminal.error(
            "RTL and simulators disagree: this is a bug in tileloom: please report it with the program image"
        )
        raise typer.Exit(ExitCode.BUG)
    terminal.note(
        "RTL, functional simulator and event replay agree" if found.replay else "RTL and functional simulator agree"
    )


@app.command(
    short_help="Draw when the units of the PE array work.",
    help="Replay a program and write its schedule: a chart (PNG, SVG), its numbers (CSV), and a trace for Perfetto or "
    "chrome://tracing (JSON). It needs no RTL simulator: the replay takes the RTL's cycles.",
    epilog=examples(
        f"tileloom rtl trace {EXAMPLE} -o results/trace",
        f"tileloom rtl trace {EXAMPLE} -o results/trace --latency 20 --window 0:400",
    ),
)
def trace(
    context: typer.Context,
    program: ProgramArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", callback=writable_folder, help="Where to write; made if missing."
        ),
    ],
    latency: LatencyOption = None,
    cycles_per_beat: BeatOption = None,
    window: Annotated[
        str | None, typer.Option("--window", metavar="FROM:TO", help="Cycles to draw; all when left out.")
    ] = None,
    max_cycles: MaxCyclesOption = 10_000_000,
) -> None:
    """Replay, draw, and write."""
    from ...archdsl import load_image
    from ..image_runs import RunOptions, replay_image
    from ..plots.gantt import Gantt, plot_gantt
    from ..plots.style import Caption
    from ..rtl_views import schedule_title
    from ..schedules import schedule_of
    from ..trace_events import trace_text
    from ..version import code_version

    first, last = _window(window)
    terminal = Terminal.of(context)
    image = load_image(program)
    options = RunOptions(latency_cycles=latency, cycles_per_beat=cycles_per_beat, max_cycles=max_cycles)
    schedule = schedule_of(image, replay_image(image, options))
    if first >= schedule.replay.cycles:
        raise typer.BadParameter(f"the program ends at cycle {schedule.replay.cycles}", param_hint="'--window'")
    name = program.resolve().name
    ops = ", ".join(op.name for op in image.manifest.ops)
    caption = Caption(
        workload=f"{name} ({ops})" if ops else name,
        commit=code_version(),
        num_points=len(schedule.slices),
        points="instructions",
        extra=(image.arch.name, f"main memory {_memory_text(image.array, options)}", "numbers are instruction indices"),
    )
    gantt = Gantt(
        title=schedule_title(schedule), schedule=schedule, caption=caption, first_cycle=first, last_cycle=last
    )
    files = plot_gantt(gantt, output / "schedule")
    trace_path = output / "trace.json"
    trace_path.write_text(trace_text(schedule, name=name, arch=image.arch.name), encoding="utf-8")
    terminal.line(schedule_title(schedule))
    for path in (files.png, files.svg, files.csv, trace_path):
        terminal.note(f"wrote {path}")


@app.command(
    short_help="Measure what programs exercise of the RTL.",
    help="Functional coverage (instructions, lengths, waits, queues, saturation) from the replay of each program, and line "
    "coverage of the RTL from running them.",
    epilog=examples(f"tileloom rtl coverage {EXAMPLE} --no-lines", f"tileloom rtl coverage {EXAMPLE} --json"),
)
def coverage(
    context: typer.Context,
    programs: ProgramsArgument,
    seed: SeedOption = 0,
    no_lines: Annotated[bool, typer.Option("--no-lines", help="Functional coverage only; runs no RTL.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Replay, run, and add up."""
    from ...archdsl import load_image
    from ..functional_coverage import missing_lines
    from ..rtl_views import coverage_record, coverage_table, lines_table

    terminal = Terminal.of(context)
    images = [load_image(program) for program in programs]
    found = _functional(images, seed)
    files = None if no_lines else _lines(terminal, images, seed)
    groups = found.groups()
    if as_json:
        terminal.json(coverage_record(groups, found.num_combinations, files))
        return
    terminal.table(coverage_table(groups))
    terminal.line(f"{found.num_instructions:,} instructions in {found.num_combinations:,} distinct situations")
    for line in missing_lines(groups, 1 << 30 if terminal.verbosity > 0 else MAX_MISSING):
        terminal.line(f"not met: {line}")
    if files is not None:
        terminal.line("")
        terminal.table(lines_table(files))


@app.command(
    short_help="Compare the modelled area with what Yosys makes of the RTL.",
    help="Cell area of the PE array and of post-processing at 45 nm before placement: what the model gives, and what Yosys "
    "makes of the RTL. A synthesis takes half a minute or more.",
    epilog=examples(
        "tileloom rtl area --arch tpe_16x16 --no-synthesis",
        "tileloom rtl area --arch tpe_8x8 --set parameters.rows=2 --set parameters.cols=2 --set parameters.bus_bytes=2",
    ),
)
def area(
    context: typer.Context,
    arch: ArchOption,
    overrides: SetOption = None,
    no_synthesis: Annotated[bool, typer.Option("--no-synthesis", help="The model only; runs no Yosys.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Model, synthesise, and print."""
    from ...models import pe_array_area, post_processing_area
    from ...rtl import cell_area
    from ..rtl_views import area_record, area_table

    terminal = Terminal.of(context)
    array = _pe_array(arch, overrides)
    modelled = [model(array, node_nm=SYNTHESIS_NODE_NM) for model in (pe_array_area, post_processing_area)]
    found = None if no_synthesis else cell_area(array)
    if as_json:
        terminal.json(area_record(arch, modelled, found))
    else:
        terminal.table(area_table(modelled, found))


def _functional(images: Sequence[ProgramImage], seed: int) -> FunctionalCoverage:
    from ...models import FunctionalSimulator
    from ..functional_coverage import FunctionalCoverage
    from ..image_runs import RunOptions, memory_with, random_inputs, replay_image
    from ..schedules import schedule_of

    found = FunctionalCoverage()
    for image in images:
        memory = memory_with(image, random_inputs(image, seed))
        after = FunctionalSimulator(image.array).run(image.program, memory)
        found.add(image, schedule_of(image, replay_image(image, RunOptions())), after)
    return found


def _lines(terminal: Terminal, images: Sequence[ProgramImage], seed: int) -> tuple[FileCoverage, ...]:
    """Line coverage of all programs, one simulator per PE array."""
    import tempfile

    from ...rtl import Job, line_coverage, run_programs
    from ..image_runs import memory_with, random_inputs

    groups: dict[PeArray, list[ProgramImage]] = {}
    for image in images:
        groups.setdefault(image.array, []).append(image)
    with tempfile.TemporaryDirectory() as made:
        paths: list[Path] = []
        for array, some in groups.items():
            build_first(terminal, some[0], "coverage")
            jobs = [
                Job(
                    program=image.program,
                    memory=memory_with(image, random_inputs(image, seed)),
                    latency_cycles=array.latency_cycles,
                    cycles_per_beat=array.cycles_per_beat,
                )
                for image in some
            ]
            paths.append(Path(made) / f"{len(paths)}.dat")
            run_programs(array, jobs, coverage=paths[-1])
        return line_coverage(paths)


def _pe_array(arch: str, overrides: Sequence[str] | None) -> PeArray:
    from ...archdsl import ArchError, SpatialArch, load_arch, pe_array
    from .arch import parse_overrides

    found = load_arch(arch, parse_overrides(overrides))
    if not isinstance(found, SpatialArch):
        raise ArchError(f"{found.name} is of kind {found.kind}; the RTL is of kind spatial: start from tpe_16x16")
    return pe_array(found)


def build_first(terminal: Terminal, image: ProgramImage, kind: BuildKind) -> None:
    """Build before the run, and say so: a first build takes half a minute."""
    from ...rtl import build as build_simulator

    terminal.detail(f"building the simulator of {image.arch.name} ({kind})")
    made = build_simulator(image.array, kind)
    terminal.detail(f"{'found' if made.is_reused else 'built'} {made.folder}")


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays by name; the folder is made."""
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, allow_pickle=False, **arrays)


def _window(text: str | None) -> tuple[int, int | None]:
    if text is None:
        return 0, None
    first, colon, last = text.partition(":")
    if not colon or not first.isdecimal() or not last.isdecimal() or int(first) >= int(last):
        raise typer.BadParameter(f"'{text}' is not FROM:TO with FROM below TO, e.g. 0:1000", param_hint="'--window'")
    return int(first), int(last)


def _memory_text(array: PeArray, options: RunOptions) -> str:
    latency = array.latency_cycles if options.latency_cycles is None else options.latency_cycles
    beat = array.cycles_per_beat if options.cycles_per_beat is None else options.cycles_per_beat
    return f"{latency} cycles latency, {array.bus_bytes / beat:g} B/cycle"
