"""Compiled networks, their layers and their runs as tables and lines; `network_records` has them as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from .layers import Activity, Layer
from .network_records import total_record
from .network_runs import NetworkRun
from .plots.style import quantity_text, without_common_start
from .rtl_views import plain_table

if TYPE_CHECKING:
    from rich.table import Table

    from ..archdsl import OpRecord, ProgramImage
    from ..compiler import HostRecord, PassRecord

NAME_CHARACTERS: Final = 32


def short_names(names: Sequence[str]) -> tuple[str, ...]:
    """Names for tables: converters join those of fused nodes by `;`, so the first of them, without what all begin with."""
    firsts = [name.split(";")[0] for name in names]
    shorter = without_common_start(firsts)
    if not any(name.isdecimal() for name in shorter):  # numbers alone say less than the kind in front of them
        firsts = list(shorter)
    return tuple(
        name if len(name) <= NAME_CHARACTERS else f"...{name[3 - NAME_CHARACTERS :]}" for name in map(str.strip, firsts)
    )


def dims_text(op: OpRecord) -> str:
    """Dims in the short notation."""
    return ",".join(f"{name}={size}" for name, size in op.dims.items())


def layers_table(layers: Sequence[Layer]) -> Table:
    """One row per layer: its bound, its cycles, and the total."""
    table = plain_table(
        ("#", True), ("layer", False), ("kind", False), ("dims", False), ("MACs", True), ("bound [cycles]", True),
        ("replay [cycles]", True), ("ratio", True),
    )  # fmt: skip
    names = short_names([layer.op.name for layer in layers])
    for number, (layer, name) in enumerate(zip(layers, names, strict=True), 1):
        table.add_row(
            str(number), name, layer.op.kind, dims_text(layer.op), _count(layer.op.macs), _cycles(layer.op.bound_cycles),
            f"{layer.cycles:,}", _ratio(layer.ratio),
        )  # fmt: skip
    total = total_record(layers)
    table.add_row(
        "", "total", "", "", _count(total["macs"]), _cycles(total["bound_cycles"]), f"{total['replay_cycles']:,}",
        _ratio(total["ratio"]),
    )  # fmt: skip
    return table


def explain_table(layers: Sequence[Layer]) -> Table:
    """One row per layer: where its cycles went, bytes and energy."""
    predicts = any(layer.op.predicted_cycles is not None for layer in layers)
    predicted = [("predicted [cycles]", True)] if predicts else []
    table = plain_table(
        ("#", True), ("layer", False), ("kind", False), *predicted, ("replay [cycles]", True), ("bound [cycles]", True),
        ("ratio", True), ("bottleneck", False), ("utilization", True), ("read [B]", True), ("written [B]", True),
        ("energy [nJ]", True),
    )  # fmt: skip
    names = short_names([layer.op.name for layer in layers])
    for number, (layer, name) in enumerate(zip(layers, names, strict=True), 1):
        table.add_row(
            str(number), name, layer.op.kind, *([_cycles(layer.op.predicted_cycles)] if predicts else []),
            f"{layer.cycles:,}", _cycles(layer.op.bound_cycles), _ratio(layer.ratio), _bottleneck(layer),
            f"{layer.utilization:.1%}" if layer.op.macs else "-", f"{layer.read_bytes:,}", f"{layer.written_bytes:,}",
            f"{layer.energy.amount / 1000:,.0f}",
        )  # fmt: skip
    total = total_record(layers)
    table.add_row(
        "", "total", "", *([_cycles(total["predicted_cycles"])] if predicts else []), f"{total['replay_cycles']:,}",
        _cycles(total["bound_cycles"]), _ratio(total["ratio"]), "", f"{total['utilization']:.1%}",
        f"{total['read_bytes']:,}", f"{total['written_bytes']:,}", f"{total['energy_pj'] / 1000:,.0f}",
    )  # fmt: skip
    return table


def layer_lines(layer: Layer) -> Iterator[str]:
    """All that is known of one layer."""
    op = layer.op
    yield f"{op.name} ({op.kind}: {dims_text(op)})"
    yield f"  nodes        {', '.join(op.nodes) or '-'}"
    yield f"  tiling       {layer.tiling}"
    yield f"  cycles       {layer.cycles:,}, from {layer.first_cycle:,} to {layer.last_cycle:,}: {_shares(layer.activity_cycles)}"
    if op.predicted_cycles is not None:
        yield f"  predicted    {op.predicted_cycles:,.0f} cycles, {op.predicted_cycles / max(1, layer.cycles) - 1:+.1%}"
    if op.bound_cycles is not None:
        yield f"  bound        {op.bound_cycles:,.0f} cycles, ratio {_ratio(layer.ratio)}"
    yield f"  MACs         {op.macs:,}, utilization {layer.utilization:.1%}"
    compulsory = "" if op.compulsory_bytes is None else f"; all of it once: {op.compulsory_bytes:,}"
    yield f"  main memory  {layer.read_bytes:,} B read, {layer.written_bytes:,} B written{compulsory}"
    energy = {part.name: part.amount for part in layer.energy.parts}
    yield f"  energy       {quantity_text(layer.energy.amount, 'pJ')}: {_shares(energy)}"


def where_lines(layers: Sequence[Layer]) -> Iterator[str]:
    """Where cycles and energy of all layers go."""
    total = total_record(layers)
    yield f"cycles  {total['replay_cycles']:,}: {_shares(total['activity_cycles'])}"
    yield f"energy  {quantity_text(total['energy_pj'], 'pJ')}: {_shares(total['energy_parts_pj'])}"


def memory_lines(image: ProgramImage) -> Iterator[str]:
    """The use of scratchpad and main memory."""
    memory, pad = image.manifest.memory, image.manifest.scratchpad
    if pad is not None:
        staged = max((op.staging[1] - op.staging[0] for op in image.manifest.ops if op.staging), default=0)
        yield (
            f"scratchpad   {pad.peak_bytes:,} B of activations at the peak, of {pad.size_bytes:,} B; fragmentation"
            f" {pad.fragmentation:.1%}; up to {staged:,} B left for staging"
        )
    yield f"main memory  {memory.peak_bytes:,} B"


def host_lines(host: Sequence[HostRecord]) -> Iterator[str]:
    """What runs on the host, by place."""
    for place in ("before", "between", "after", "apart"):
        some = [op for op in host if op.place == place]
        if some:
            moved = sum(op.read_bytes + op.written_bytes for op in some)
            yield f"host, {place}  {', '.join(op.kind for op in some)} ({moved:,} B)"
    if not host:
        yield "host         nothing"


def passes_table(records: Sequence[PassRecord]) -> Table:
    """What each pass took."""
    table = plain_table(("pass", False), ("time [ms]", True), ("verification [ms]", True), ("ops", True))
    for record in records:
        table.add_row(
            record.name, f"{record.time_s * 1e3:.1f}", f"{record.verify_time_s * 1e3:.1f}", f"{record.num_ops:,}"
        )
    return table


def run_lines(run: NetworkRun) -> Iterator[str]:
    """What the outputs of a run are."""
    for name, values in run.outputs.items():
        shape = " x ".join(map(str, values.shape)) or "scalar"
        ends = f", from {values.min()} to {values.max()}" if values.size else ""
        yield f"output {name}: {shape}, {values.dtype}{ends}"


def runs_table(run: NetworkRun) -> Table:
    """One row per program and queue: cycles and what they went into."""
    causes = list(next(iter(run.programs[0].replay.stall_cycles.values()))) if run.programs[0].replay else []
    table = plain_table(
        ("program", False), ("RTL [cycles]", True), ("replay [cycles]", True), ("queue", False), ("issues", True),
        *((cause, True) for cause in causes),
    )  # fmt: skip
    for program in run.programs:
        if program.replay is None:
            continue
        cycles = program.replay.cycles
        head = (program.name, _cycles(program.rtl_cycles), f"{cycles:,}")
        for queue, stalls in program.replay.stall_cycles.items():
            issues = cycles - sum(stalls.values())
            table.add_row(*head, queue, f"{issues:,}", *(f"{stalls[cause]:,}" for cause in causes))
            head = ("", "", "")
    return table


def stored_table(run: NetworkRun) -> Table:
    """One row per stored result: whether RTL and functional simulator agree on it."""
    table = plain_table(("layer", False), ("stored in", False), ("bytes", True), ("different", True))
    ops, regions = (short_names(names) for names in zip(*((x.op, x.region) for x in run.layers), strict=True))
    for layer, op, region in zip(run.layers, ops, regions, strict=True):
        table.add_row(op, region, f"{layer.num_bytes:,}", f"{layer.num_different:,}")
    return table


def _bottleneck(layer: Layer) -> str:
    return f"{layer.bottleneck} {layer.bottleneck_share:.0%}"


def _shares(amounts: Mapping[Activity, int] | Mapping[str, float]) -> str:
    """Largest first, without what is nothing."""
    total = sum(amounts.values())
    some = sorted(((amount, name) for name, amount in amounts.items() if amount), key=lambda item: -item[0])
    return ", ".join(f"{name} {amount / total:.1%}" for amount, name in some) or "nothing"


def _count(value: int) -> str:
    return f"{value:,}" if value else "-"


def _cycles(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
