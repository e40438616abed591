"""Compiled networks, their layers and their runs as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from .layers import ACTIVITIES, Layer
from .network_runs import NetworkRun

if TYPE_CHECKING:
    from ..archdsl import ProgramImage
    from ..compiler import NetworkRecord, PassRecord

SCHEMA_VERSION: Final = 1
LEFT_OUT: Final = ("leakage", "clock", "instruction fetch", "wires", "post-processing", "host")
"""Of energies."""


def layer_record(layer: Layer, number: int) -> dict[str, Any]:
    """A layer as JSON."""
    op, tiling = layer.op, layer.tiling
    return {
        "number": number,
        "program": layer.program,
        "name": op.name,
        "nodes": list(op.nodes),
        "kind": op.kind,
        "dims": dict(op.dims),
        "macs": op.macs,
        "bound_cycles": op.bound_cycles,
        "compulsory_bytes": op.compulsory_bytes,
        "predicted_cycles": op.predicted_cycles,
        "replay_cycles": layer.cycles,
        "first_cycle": layer.first_cycle,
        "last_cycle": layer.last_cycle,
        "ratio": layer.ratio,
        "bottleneck": layer.bottleneck,
        "bottleneck_share": layer.bottleneck_share,
        "activity_cycles": dict(layer.activity_cycles),
        "busy_cycles": dict(layer.busy_cycles),
        "utilization": layer.utilization,
        "read_bytes": layer.read_bytes,
        "written_bytes": layer.written_bytes,
        "energy_pj": layer.energy.amount,
        "energy_parts_pj": {part.name: part.amount for part in layer.energy.parts},
        "tiling": {
            "num_walks": tiling.num_walks,
            "most_vectors": tiling.most_vectors,
            "num_stores": tiling.num_stores,
            "weight_bytes": tiling.weight_bytes,
            "weight_passes": tiling.weight_passes,
            "input_bytes": tiling.input_bytes,
            "is_output_local": tiling.is_output_local,
            "is_output_stored": tiling.is_output_stored,
        },
    }


def total_record(layers: Sequence[Layer]) -> dict[str, Any]:
    """Sums over layers as JSON; what one layer does not know is null."""
    cycles = sum(layer.cycles for layer in layers)
    macs = sum(layer.op.macs for layer in layers)
    bound = _sum_known([layer.op.bound_cycles for layer in layers])
    names = [part.name for part in layers[0].energy.parts]
    parts = {
        name: math.fsum(p.amount for layer in layers for p in layer.energy.parts if p.name == name) for name in names
    }
    return {
        "macs": macs,
        "bound_cycles": bound,
        "predicted_cycles": _sum_known([layer.op.predicted_cycles for layer in layers]),
        "replay_cycles": cycles,
        "ratio": cycles / bound if bound else None,
        "activity_cycles": {name: sum(layer.activity_cycles[name] for layer in layers) for name in ACTIVITIES},
        "utilization": macs / (layers[0].num_pes * cycles) if cycles else 0.0,
        "read_bytes": sum(layer.read_bytes for layer in layers),
        "written_bytes": sum(layer.written_bytes for layer in layers),
        "energy_pj": math.fsum(layer.energy.amount for layer in layers),
        "energy_parts_pj": parts,
    }


def memory_record(image: ProgramImage) -> dict[str, Any]:
    """The use of scratchpad and main memory as JSON."""
    memory, pad = image.manifest.memory, image.manifest.scratchpad
    return {
        "main_memory_peak_bytes": memory.peak_bytes,
        "scratchpad_bytes": image.array.scratchpad_bytes,
        "scratchpad_peak_bytes": None if pad is None else pad.peak_bytes,
        "scratchpad_live_bytes": None if pad is None else pad.live_bytes,
        "scratchpad_fragmentation": None if pad is None else pad.fragmentation,
    }


def network_record(record: NetworkRecord) -> dict[str, Any]:
    """What `network.json` says, without checksums."""
    found = record.model_dump(mode="json", exclude={"schema_version", "checksums"})
    for program in found["programs"]:
        del program["manifest"]
    return found


def pass_records(records: Sequence[PassRecord]) -> list[dict[str, Any]]:
    """What each pass took, as JSON."""
    return [
        {
            "name": record.name,
            "time_s": record.time_s,
            "verify_time_s": record.verify_time_s,
            "num_ops": record.num_ops,
            "dump": None if record.dump is None else str(record.dump),
        }
        for record in records
    ]


def compile_record(
    record: NetworkRecord,
    images: Mapping[str, ProgramImage],
    layers: Sequence[Layer],
    *,
    folder: Path,
    time_s: float,
    notices: Sequence[str],
    passes: Sequence[PassRecord] | None,
) -> dict[str, Any]:
    """A compilation as JSON; `passes` is null where it was not asked for."""
    return {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "network": network_record(record),
        "notices": list(notices),
        "compile_time_s": time_s,
        "memory": {name: memory_record(image) for name, image in images.items()},
        "layers": [layer_record(layer, number) for number, layer in enumerate(layers, 1)],
        "total": total_record(layers),
        "passes": None if passes is None else pass_records(passes),
    }


def explain_record(
    record: NetworkRecord,
    images: Mapping[str, ProgramImage],
    layers: Sequence[Layer],
    shown: Sequence[Layer],
    rtl_cycles: Mapping[str, int] | None,
) -> dict[str, Any]:
    """An explanation as JSON.

    Args:
        record: Of the network.
        images: Its programs.
        layers: All layers.
        shown: Those that were asked for.
        rtl_cycles: Of each program; None where the RTL did not run.
    """
    return {
        "schema_version": SCHEMA_VERSION,
        "network": network_record(record),
        "memory": {name: memory_record(image) for name, image in images.items()},
        "rtl_cycles": None if rtl_cycles is None else sum(rtl_cycles.values()),
        "layers": [layer_record(layer, number) for number, layer in enumerate(layers, 1) if layer in shown],
        "total": total_record(layers),
        "left_out": list(LEFT_OUT),
    }


def network_run_record(
    run: NetworkRun, *, inputs: Path | None, seed: int | None, outputs: Path | None, waves: Path | None
) -> dict[str, Any]:
    """A run as JSON: the fields of `tileloom rtl run`, summed over programs, and more."""
    programs = run.programs
    macs = sum(program.macs for program in programs)
    rtl = _sum_known([program.rtl_cycles for program in programs])
    replayed = [program.replay for program in programs if program.replay is not None]
    cycles = sum(replay.cycles for replay in replayed) if replayed else None
    took = rtl or cycles
    return {
        "schema_version": SCHEMA_VERSION,
        "on": run.target.value,
        "inputs": None if inputs is None else str(inputs),
        "seed": seed,
        "outputs": None if outputs is None else str(outputs),
        "waves": None if waves is None else str(waves),
        "rtl_cycles": rtl,
        "replay_cycles": cycles,
        "estimate_cycles": _sum_known([program.estimate_cycles for program in programs]),
        "stall_cycles": {
            queue: {cause: sum(r.stall_cycles[queue][cause] for r in replayed) for cause in causes}
            for queue, causes in replayed[0].stall_cycles.items()
        }
        if replayed
        else None,
        "busy_cycles": {unit: sum(r.busy_cycles[unit] for r in replayed) for unit in replayed[0].busy_cycles}
        if replayed
        else None,
        "macs": macs,
        "utilization": macs / (programs[0].num_pes * took) if took else None,
        "is_agreed": not run.disagreements,
        "disagreements": list(run.disagreements),
        "arrays": {
            name: {"shape": list(values.shape), "dtype": str(values.dtype)} for name, values in run.outputs.items()
        },
        "programs": [
            {
                "name": program.name,
                "macs": program.macs,
                "rtl_cycles": program.rtl_cycles,
                "replay_cycles": None if program.replay is None else program.replay.cycles,
            }
            for program in programs
        ],
        "layers": [
            {
                "name": layer.op,
                "region": layer.region,
                "num_bytes": layer.num_bytes,
                "num_different": layer.num_different,
            }
            for layer in run.layers
        ],
    }


def _sum_known(values: Sequence[float | None]) -> float | None:
    """The sum of values; None where one is not known."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
