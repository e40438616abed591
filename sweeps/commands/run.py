"""`tileloom run`: a compiled network on the functional simulator, the event replay, or the RTL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..cli import ExitCode
from ..console import Terminal, examples
from ..network_targets import Target
from ..out_paths import writable_file
from .compile import JsonOption
from .rtl import BeatOption, LatencyOption, MaxCyclesOption, build_first, save_arrays

if TYPE_CHECKING:
    from ...compiler import SavedNetwork
    from ..network_runs import NetworkRun

app = typer.Typer(add_completion=False, rich_markup_mode=None)

NetworkArgument = Annotated[
    Path,
    typer.Argument(metavar="FOLDER", help="A compiled network: a folder with network.json.", show_default=False),
]
InputOption = Annotated[
    Path | None, typer.Option("--input", metavar="FILE", help="Inputs by name (.npz); random ones when left out.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of the random inputs.")]


@app.command(
    name="run",
    help="Run a compiled network; the host's part runs on this machine.\n\n"
    "`functional` gives its outputs, `replay` cycles and stalls (which do not depend on values), `rtl` runs RTL, "
    "functional simulator and replay. Exit with 1 when they disagree: that is a bug of ours.",
    epilog=examples(
        "tileloom run results/tiny --on functional -o results/outputs.npz",
        "tileloom run results/tiny --on replay --json",
        "tileloom run results/tiny --on rtl --seed 7",
    ),
)
def run(
    context: typer.Context,
    folder: NetworkArgument,
    target: Annotated[Target, typer.Option("--on", help="What runs the programs.", show_default=False)],
    inputs: InputOption = None,
    seed: SeedOption = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", callback=writable_file, help="Write the outputs by name (.npz)."
        ),
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers", help="Compare what every layer has stored; needs compile --keep-layers.")
    ] = False,
    latency: LatencyOption = None,
    cycles_per_beat: BeatOption = None,
    max_cycles: MaxCyclesOption = 100_000_000,
    as_json: JsonOption = False,
) -> None:
    """Run, compare, and print."""
    from ...compiler import load_network
    from ..image_runs import RunOptions
    from ..network_records import network_run_record
    from ..network_runs import load_network_inputs, random_network_inputs, run_network

    if output is not None and output.suffix != ".npz":
        raise typer.BadParameter(f"'{output}' must end in .npz", param_hint="'--output'")
    if output is not None and target is Target.REPLAY:
        raise typer.BadParameter("a replay knows no values; use --on functional", param_hint="'--output'")
    if target is Target.FUNCTIONAL and (latency is not None or cycles_per_beat is not None):
        raise typer.BadParameter("the functional simulator knows no cycles; use --on replay or --on rtl")
    if layers and target is not Target.RTL:
        raise typer.BadParameter("layers are compared between RTL and functional simulator: use --on rtl")
    terminal = Terminal.of(context)
    saved = load_network(folder)
    if layers and not saved.record.options.keeps_layers:
        raise typer.BadParameter(f"{folder} was compiled without --keep-layers, so that layers are not stored")
    given = random_network_inputs(saved, seed) if inputs is None else load_network_inputs(saved, inputs)
    if inputs is None and target is not Target.REPLAY:
        terminal.note(f"random inputs of seed {seed}")
    if target is Target.RTL:
        build_first(terminal, next(iter(saved.network.images.values())), "plain")
    options = RunOptions(latency_cycles=latency, cycles_per_beat=cycles_per_beat, max_cycles=max_cycles)
    found = run_network(saved, given, target, options, compares_layers=layers)
    if output is not None:
        save_arrays(output, found.outputs)
        terminal.note(f"wrote {output}")
    if as_json:
        used = seed if inputs is None and target is not Target.REPLAY else None
        terminal.json(network_run_record(found, inputs=inputs, seed=used, outputs=output, waves=None))
    else:
        _print(terminal, saved, found)
    _judge(terminal, found)


def _print(terminal: Terminal, saved: SavedNetwork, found: NetworkRun) -> None:
    from ..network_views import run_lines, runs_table, stored_table

    for line in run_lines(found):
        terminal.line(line)
    if found.target is not Target.FUNCTIONAL:
        if found.outputs:
            terminal.line("")
        terminal.table(runs_table(found))
    if found.layers:
        terminal.line("")
        terminal.table(stored_table(found))
    if found.target is Target.FUNCTIONAL and len(saved.network.images) > 1:
        terminal.line(f"{len(found.programs)} programs ran")


def _judge(terminal: Terminal, found: NetworkRun) -> None:
    for text in found.disagreements:
        terminal.error(text)
    if found.disagreements:
        terminal.error("RTL and simulators disagree: this is a bug in tileloom: please report it with the folder")
        raise typer.Exit(ExitCode.BUG)
    if found.target is Target.RTL:
        terminal.note("RTL, functional simulator and event replay agree")
