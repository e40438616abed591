"""`tileloom estimate`: price one workload on one architecture."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..cli import ExitCode
from ..console import Terminal, examples
from ..out_paths import writable_file, writable_folder

if TYPE_CHECKING:
    from ...archdsl import Arch, GpuArch, Infeasible, SpatialArch, Workload
    from ..document import EstimateDocument
    from ..estimation import Estimated, EstimateOptions
    from ..kernel_document import KernelsDocument

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class ConventionName(StrEnum):
    """Counting conventions, as `models.CONVENTIONS` has them; named here so that the help needs no model."""

    TILELOOM = "tileloom"
    ACCELFORGE = "accelforge"
    ZIGZAG = "zigzag"
    TIMELOOP = "timeloop"


class FidelityName(StrEnum):
    """Fidelities of the latency model."""

    THROUGHPUT = "throughput"
    DETAILED = "detailed"


class ModeName(StrEnum):
    """Where constants of GPU models come from."""

    DATASHEET = "datasheet"
    CALIBRATED = "calibrated"


SPATIAL_OPTIONS = (
    "mapping", "objective", "convention", "fidelity", "stationary", "min_utilization", "time_limit_s", "save_mapping", "roofline",
)  # fmt: skip
"""Parameters that only a spatial architecture has a use for: kernels of GPUs are not mapped."""
GPU_OPTIONS = ("mode", "calibration")

WorkloadArgument = Annotated[str, typer.Argument(metavar="WORKLOAD", help="A network or one op.", show_default=False)]
ArchOption = Annotated[str, typer.Option("--arch", metavar="ARCH", help="An architecture file, or a preset's name.")]
MappingOption = Annotated[Path | None, typer.Option("--mapping", metavar="FILE", help="Mappings to use.")]
ObjectiveOption = Annotated[
    str,
    typer.Option(
        "--objective",
        metavar="OBJECTIVE",
        help="What the search minimises: energy, latency, edp, main_memory_bytes, or a weighted set such as "
        "energy=2,latency=1.",
    ),
]
ConventionOption = Annotated[
    ConventionName, typer.Option("--convention", help="How accesses are counted where published tools differ.")
]
FidelityOption = Annotated[
    FidelityName, typer.Option("--fidelity", help="Latency: maximum over components, or with fill and drain.")
]
StationaryOption = Annotated[
    str | None,
    typer.Option("--stationary", metavar="TENSOR", help="Search only mappings that keep this tensor in the PEs."),
]
MinUtilizationOption = Annotated[
    float, typer.Option("--min-utilization", min=0.0, max=1.0, help="Least share of PEs with work, when searching.")
]
TimeLimitOption = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", min=0.0, help="Longest search for one op; ends it with a gap."),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option("--shape", metavar="NAME=VALUE", help="Size of a dim that the network leaves open. Repeatable."),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Stop at nodes that cannot be modelled.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Override a field of the architecture, e.g. hierarchy.scratchpad.capacity='64 KiB'. Repeatable.",
    ),
]
SaveMappingOption = Annotated[
    Path | None,
    typer.Option(
        "--save-mapping", metavar="FILE", callback=writable_file, help="Write the mappings, for use as --mapping."
    ),
]
RooflineOption = Annotated[
    Path | None,
    typer.Option(
        "--roofline",
        metavar="DIR",
        callback=writable_folder,
        help="Print the roofline; draw it and the breakdown into DIR.",
    ),
]
ModeOption = Annotated[
    ModeName, typer.Option("--mode", help="On a GPU: published constants, or those fitted to measurements.")
]
CalibrationOption = Annotated[
    str | None, typer.Option("--calibration", metavar="NAME", help="On a GPU: which fitted constants.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON from which every total follows.")]


@app.command(
    name="estimate",
    help="Price one workload on one architecture: time, energy, area and what limits each op.\n\n"
    "On a spatial architecture ops are mapped, and those without a given mapping are searched. On a GPU each op is a kernel: "
    "products, convolutions, and passes over memory.\n\n"
    "WORKLOAD is an ONNX file, `onnx:resnet50` and others that the onnx package ships, `transformer_block`, "
    "or one op such as `gemm:M=512,N=512,K=512,bits=8`.\n\n"
    "Keys of `gemm:` are M, N, K (the reduction) and B (batch). Keys of `conv:` are B (batch), G (groups), K and C (output and "
    "input channels of one group), OY, OX (output rows, columns), FY, FX (window), stride, dilation, or stride_y and so on for one "
    "axis; Y may be left out, Z added. A depthwise convolution of 64 channels has G=64,K=1,C=1. Both take bits, acc_bits (of the "
    "stored output) and datatype.",
    epilog=examples(
        "tileloom estimate gemm:M=512,N=512,K=512,bits=8 --arch ref16",
        "tileloom estimate gemm:M=4096,N=4096,K=4096,datatype=bf16 --arch h100_sxm --mode calibrated --calibration own_cold",
    ),
)
def estimate(
    context: typer.Context,
    workload: WorkloadArgument,
    arch: ArchOption,
    mapping: MappingOption = None,
    objective: ObjectiveOption = "energy",
    convention: ConventionOption = ConventionName.TILELOOM,
    fidelity: FidelityOption = FidelityName.THROUGHPUT,
    stationary: StationaryOption = None,
    min_utilization: MinUtilizationOption = 0.0,
    time_limit_s: TimeLimitOption = None,
    shapes: ShapeOption = None,
    strict: StrictOption = False,
    overrides: SetOption = None,
    save_mapping: SaveMappingOption = None,
    roofline: RooflineOption = None,
    mode: ModeOption = ModeName.DATASHEET,
    calibration: CalibrationOption = None,
    as_json: JsonOption = False,
) -> None:
    """Load, map, estimate, and print."""
    from ...archdsl import GpuArch, InfeasibleError, load_mapping_file
    from ...compiler import load_workload

    terminal = Terminal.of(context)
    chip, notices = _load_arch(arch, overrides)
    network = load_workload(workload, sizes_of(shapes), strict)
    if isinstance(chip, GpuArch):
        _refuse(context, SPATIAL_OPTIONS, chip)
        _estimate_kernels(terminal, network, chip, mode, calibration, notices, as_json=as_json)
        return
    from ..estimation import EstimateOptions  # only now: the mapper behind it sets up compiled loops

    _refuse(context, GPU_OPTIONS, chip)
    options = EstimateOptions(
        objective=objective,
        convention=convention.value,
        fidelity=fidelity.value,
        mappings=None if mapping is None else load_mapping_file(mapping),
        stationary=stationary,
        min_utilization=min_utilization,
        time_limit_s=time_limit_s,
    )
    try:
        found = _estimate(terminal, network, chip, options)
    except InfeasibleError as error:
        say_infeasible(terminal, error.infeasible, as_json=as_json)
        raise typer.Exit(ExitCode.INFEASIBLE) from error
    _print(terminal, {**found.document, "sources": found.sources}, as_json=as_json)
    if roofline is not None:
        _draw(terminal, found.document, roofline, as_json=as_json)
    if save_mapping is not None:
        _save(terminal, found, save_mapping)


def _load_arch(arch: str, overrides: Sequence[str] | None) -> tuple[Arch, tuple[str, ...]]:
    """The architecture, and what followed from the overrides."""
    from ...archdsl import ModelError, System, description_from_tree, load_tree, variant_from_tree
    from .arch import parse_overrides

    tree, given = load_tree(arch), parse_overrides(overrides)
    found = variant_from_tree(tree, description_from_tree(tree), given) if given else None
    described, notes = (found.description, found.notes) if found else (description_from_tree(tree), ())
    if isinstance(described, System):
        raise ModelError(
            f"{described.name} is of kind {described.kind}; estimate on one of its chips, or serve a language model on it with "
            "`tileloom serve`"
        )
    return described, notes


def _refuse(context: typer.Context, options: Sequence[str], chip: Arch) -> None:
    """Options that were given and that this kind of architecture has no use for."""
    for option in context.command.params:
        source = context.get_parameter_source(option.name or "")
        if option.name in options and source is not None and source.name == "COMMANDLINE":
            raise typer.BadParameter(
                f"{chip.name} is of kind {chip.kind}, which has no use for it", param_hint=option.opts[0]
            )


def _estimate_kernels(
    terminal: Terminal,
    network: Workload,
    arch: GpuArch,
    mode: ModeName,
    calibration: str | None,
    notices: Sequence[str],
    *,
    as_json: bool,
) -> None:
    from ...models import make_chip
    from ..kernel_document import kernels_document

    document = kernels_document(network, make_chip(arch, mode.value, calibration), notices)
    _print_kernels(terminal, document, as_json=as_json)


def _print_kernels(terminal: Terminal, document: KernelsDocument, *, as_json: bool) -> None:
    from ..estimate_views import unmodelled_line
    from ..kernel_document import note_lines
    from ..kernel_views import kernel_total_lines, kernels_table
    from ..serving_views import part_lines

    if as_json:
        terminal.json(document)
    else:
        terminal.table(kernels_table(document))
        terminal.line("")
        for line in kernel_total_lines(document):
            terminal.line(line)
    for line in note_lines(document):
        terminal.note(f"note: {line}")
    for kernel in document["kernels"]:
        for line in part_lines(kernel["latency_parts"]):
            terminal.detail(f"{kernel['name']}: {line}")
    if warning := unmodelled_line(document):
        terminal.warn(warning)
    for node in document["unmodelled"]:
        terminal.detail(f"not modelled: {node['name']} ({node['kind']}): {node['reason']}")


def sizes_of(shapes: Sequence[str] | None) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for text in shapes or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not (value.isascii() and value.isdigit()) or int(value) < 1:
            raise typer.BadParameter(
                f"'{text}' is not NAME=VALUE with a whole number of at least 1, e.g. batch=1", param_hint="'--shape'"
            )
        if name in sizes:
            raise typer.BadParameter(f"'{name}' is given twice", param_hint="'--shape'")
        sizes[name] = int(value)
    return sizes


def _estimate(terminal: Terminal, network: Workload, chip: SpatialArch, options: EstimateOptions) -> Estimated:
    from ..estimation import Estimator

    return Estimator(options).estimate(
        network, chip, on_op=lambda op: terminal.detail(f"mapping {op.name} ({op.kind})")
    )


def say_infeasible(terminal: Terminal, infeasible: Infeasible, *, as_json: bool) -> None:
    """Print why nothing fits, as text or as JSON."""
    from dataclasses import asdict

    from ..document import SCHEMA_VERSION

    if as_json:
        terminal.json({"schema_version": SCHEMA_VERSION, "infeasible": asdict(infeasible)})
    else:
        terminal.line(f"infeasible: {infeasible}")


def _print(terminal: Terminal, document: EstimateDocument, *, as_json: bool) -> None:
    from ..estimate_views import left_out_lines, ops_table, total_lines, unmodelled_line

    if as_json:
        terminal.json(document)
    else:
        terminal.table(ops_table(document))
        terminal.line("")
        for line in total_lines(document):
            terminal.line(line)
    for line in left_out_lines(document):
        terminal.note(f"note: {line}")
    if warning := unmodelled_line(document):
        terminal.warn(warning)
    for quantity, source in document.get("sources", {}).items():
        terminal.detail(f"source: {quantity}: {source}")
    for node in document["unmodelled"]:
        terminal.detail(f"not modelled: {node['name']} ({node['kind']}): {node['reason']}")


def _draw(terminal: Terminal, document: EstimateDocument, folder: Path, *, as_json: bool) -> None:
    from ..estimate_views import roofline_table
    from ..plots import plot_estimate, roofline_of
    from ..version import code_version

    commit = code_version()
    roofline = roofline_of(document, commit=commit)
    if not as_json:
        terminal.line("")
        terminal.table(roofline_table(roofline))
    for files in plot_estimate(document, folder, commit=commit):
        for path in (files.png, files.svg, files.csv):
            terminal.note(f"wrote {path}")


def _save(terminal: Terminal, found: Estimated, path: Path) -> None:
    from ...archdsl import dump_mappings

    path.write_text(dump_mappings(found.mappings), encoding="utf-8")
    terminal.note(f"wrote {path}")
