"""`tileloom explain`: where a compiled network's cycles, bytes and energy go, layer by layer."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..cli import ExitCode
from ..console import Terminal, examples
from ..out_paths import writable_folder
from .compile import MAX_CYCLES, JsonOption
from .rtl import BeatOption, LatencyOption, build_first
from .run import NetworkArgument, SeedOption

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...compiler import SavedNetwork
    from ...models import Replay
    from ..image_runs import RunOptions
    from ..layers import Layer

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class Source(StrEnum):
    """Where cycles come from."""

    REPLAY = "replay"
    RTL = "rtl"


LayerOption = Annotated[
    str | None, typer.Option("--layer", metavar="LAYER", help="Only this layer: its number, name or node.")
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FOLDER", callback=writable_folder, help="Draw schedule and memory map into it."
    ),
]


@app.command(
    name="explain",
    help="Explain where the cycles, bytes and energy of a compiled network go, layer by layer.\n\n"
    "Cycles are those of the event replay; with `--on rtl` the RTL runs too and must take the same. Left out of the "
    "energy: leakage, clock, instruction fetch, wires, post-processing and the host.",
    epilog=examples(
        "tileloom explain results/tiny -o results/tiny/figures",
        "tileloom explain results/tiny --layer 2",
        "tileloom explain results/tiny --on rtl --json",
    ),
)
def explain(
    context: typer.Context,
    folder: NetworkArgument,
    source: Annotated[Source, typer.Option("--on", help="Where cycles come from.")] = Source.REPLAY,
    layer: LayerOption = None,
    output: FolderOption = None,
    seed: SeedOption = 0,
    latency: LatencyOption = None,
    cycles_per_beat: BeatOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay, attribute, draw, and print."""
    from ...compiler import load_network
    from ..image_runs import RunOptions
    from ..layers import find_layer, network_layers
    from ..network_records import explain_record
    from ..network_runs import replay_programs
    from ..network_views import explain_table, layer_lines, where_lines

    terminal = Terminal.of(context)
    saved = load_network(folder)
    options = RunOptions(latency_cycles=latency, cycles_per_beat=cycles_per_beat, max_cycles=MAX_CYCLES)
    replays = replay_programs(saved.network.images, options)
    layers = network_layers(saved.network.images, replays)
    shown = layers if layer is None else [find_layer(layers, layer)]
    rtl_cycles = _rtl_cycles(terminal, saved, options, seed) if source is Source.RTL else None
    if output is not None:
        _draw(terminal, saved, layers, replays, output)
    if as_json:
        terminal.json(explain_record(saved.record, saved.network.images, layers, shown, rtl_cycles))
        return
    if layer is None:
        terminal.table(explain_table(shown))
        terminal.line("")
        for line in where_lines(shown):
            terminal.line(line)
    else:
        for line in layer_lines(shown[0]):
            terminal.line(line)
    for name, cycles in (rtl_cycles or {}).items():
        terminal.line(f"RTL     {cycles:,} cycles{f' ({name})' if len(rtl_cycles or {}) > 1 else ''}, as the replay")


def _rtl_cycles(terminal: Terminal, saved: SavedNetwork, options: RunOptions, seed: int) -> Mapping[str, int]:
    """Cycles of each program on the RTL, once all agree."""
    from ..network_runs import random_network_inputs, run_network
    from ..network_targets import Target

    build_first(terminal, next(iter(saved.network.images.values())), "plain")
    found = run_network(saved, random_network_inputs(saved, seed), Target.RTL, options)
    if found.disagreements:
        for text in found.disagreements:
            terminal.error(text)
        terminal.error("RTL and simulators disagree: this is a bug in tileloom: please report it with the folder")
        raise typer.Exit(ExitCode.BUG)
    return {run.name: run.rtl_cycles for run in found.programs if run.rtl_cycles is not None}


def _draw(
    terminal: Terminal, saved: SavedNetwork, layers: list[Layer], replays: Mapping[str, Replay], output: Path
) -> None:
    from ..layers import working_spans
    from ..network_views import short_names
    from ..plots.layer_gantt import LayerGantt, plot_layer_gantt
    from ..plots.memory_map import MemoryPlot, plot_memory_map
    from ..plots.style import Caption
    from ..version import code_version

    for program, image in saved.network.images.items():
        own = [layer for layer in layers if layer.program == program]
        names = short_names([layer.op.name for layer in own])
        caption = Caption(
            workload=saved.record.name, commit=code_version(), num_points=len(own), points="layers",
            extra=(image.arch.name, "numbers are those of layers"),
        )  # fmt: skip
        stem = "" if len(saved.network.images) == 1 else f"{program}_"
        spans = working_spans(image, replays[program])
        drawn = [
            plot_layer_gantt(
                LayerGantt(layers=own, names=names, spans=spans, caption=caption), output / f"{stem}layers"
            )
        ]
        if image.manifest.scratchpad is not None:
            memory = MemoryPlot(ops=image.manifest.ops, names=names, pad=image.manifest.scratchpad, caption=caption)
            drawn.append(plot_memory_map(memory, output / f"{stem}memory"))
        for files in drawn:
            for path in (files.png, files.svg, files.csv):
                terminal.note(f"wrote {path}")
