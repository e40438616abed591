"""Write an estimate down as the document that `document` defines."""

from __future__ import annotations

import math
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass

from ..archdsl import Keep, Mapping, MappingNode, Op, Temporal, VectorOp, Workload
from ..compiler import summarize_workload
from ..models import ArchNumbers, NetworkEstimate, OpEstimate, Part
from .document import (
    SCHEMA_VERSION,
    EnergyTable,
    EstimateDocument,
    MappingJson,
    OpDocument,
    RoofDocument,
    ShareDocument,
    TotalDocument,
    UnmodelledDocument,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How sure the mapper is of an op's mapping.

    Attributes:
        proved_optimal: Whether nothing in the searched space is better; None when nothing was searched.
        gap: How much better a mapping could still be, as a fraction; None when that is not known.
        space_size: Mappings that the answer covers, those ruled out by bounds included.
    """

    proved_optimal: bool | None = None
    gap: float | None = None
    space_size: int | None = None


def estimate_document(
    network: NetworkEstimate,
    workload: Workload,
    arch_name: str,
    numbers: ArchNumbers,
    *,
    convention: str,
    fidelity: str,
    objective: str | None = None,
    proofs: MappingOf[str, Proof] | None = None,
    notices: Sequence[str] = (),
) -> EstimateDocument:
    """Write down an estimate with everything that it follows from.

    Args:
        network: The estimate.
        workload: What was estimated.
        arch_name: Name of the architecture.
        numbers: Its resolved numbers.
        convention: Name of the counting convention.
        fidelity: Latency fidelity.
        objective: What the mapper minimised; None for given mappings.
        proofs: By op name; ops that are not named were not searched.
        notices: Remarks beyond the workload's own and the ops' notes.
    """
    known = proofs or {}
    estimates = [estimate for estimate, _ in network.ops]
    return {
        "schema_version": SCHEMA_VERSION,
        "arch": arch_name,
        "workload": network.name,
        "convention": convention,
        "fidelity": fidelity,
        "objective": objective,
        "clock_hz": numbers.clock_hz,
        "notices": [*workload.notices, *notices],
        "unmodelled": unmodelled_documents(workload),
        "unmodelled_share": unmodelled_share(workload),
        "left_out": list(numbers.left_out),
        "ops": [_op_document(e, count, known.get(e.op.name, Proof())) for e, count in network.ops],
        "energy_table": _energy_table(numbers, estimates),
        "area_parts_mm2": {part.name: part.amount for part in network.area.parts},
        "roofline": _roof_document(numbers, estimates),
        "total": _total_document(network),
    }


def unmodelled_documents(workload: Workload) -> list[UnmodelledDocument]:
    """The nodes that the model leaves out."""
    return [
        {"name": node.name, "kind": node.kind, "reason": node.reason, "macs": node.macs, "bytes": node.bytes}
        for node in workload.unmodelled
    ]


def unmodelled_share(workload: Workload) -> ShareDocument:
    """Share of a network's known MACs and compulsory bytes that the model leaves out."""
    if not workload.unmodelled:
        return {"macs": 0.0, "bytes": 0.0}
    summary = summarize_workload(workload)
    return {"macs": summary.unmodelled_macs_share, "bytes": summary.unmodelled_bytes_share}


def mapping_json(mapping: Mapping) -> MappingJson:
    """A mapping in the fields of the mapping file, outermost node first."""
    return [_node_json(node) for node in mapping.nodes]


def _op_document(estimate: OpEstimate, count: int, proof: Proof) -> OpDocument:
    op = estimate.op
    return {
        "name": op.name,
        "kind": op.kind,
        "datatype": op.datatype,
        "count": count,
        "nodes": list(op.nodes),
        "latency_cycles": _whole(estimate.latency_cycles),
        "energy_pj": estimate.energy_pj,
        "macs": op.macs,
        "vector_operations": op.elements * op.passes if isinstance(op, VectorOp) else 0,
        "utilization": estimate.utilization,
        "bottleneck": estimate.bottleneck,
        "proved_optimal": proof.proved_optimal,
        "gap": proof.gap,
        "space_size": proof.space_size,
        "mapping": None if estimate.mapping is None else mapping_json(estimate.mapping),
        "actions": {
            level: {tensor: {"read": _whole(a.read), "write": _whole(a.write)} for tensor, a in tensors.items()}
            for level, tensors in estimate.actions.items()
        },
        "energy_parts_pj": _amounts(estimate.energy),
        "latency_parts_cycles": _amounts(estimate.latency),
        "notes": list(estimate.notes),
    }


def _amounts(part: Part) -> dict[str, float]:
    return {child.name: child.amount for child in part.parts}


def _energy_table(numbers: ArchNumbers, estimates: Sequence[OpEstimate]) -> EnergyTable:
    mac_types = dict.fromkeys(e.op.datatype for e in estimates if isinstance(e.op, Op))
    vector_types = dict.fromkeys(e.op.datatype for e in estimates if isinstance(e.op, VectorOp))
    return {
        "levels": {
            level.name: {"read_pj_per_byte": level.read_pj_per_byte, "write_pj_per_byte": level.write_pj_per_byte}
            for level in numbers.levels
        },
        "pj_per_mac": {datatype: numbers.mac_pj(datatype) for datatype in mac_types},
        "pj_per_vector_operation": {
            datatype: numbers.vector_pj(datatype) for datatype in vector_types if numbers.vector_lanes
        },
    }


def _roof_document(numbers: ArchNumbers, estimates: Sequence[OpEstimate]) -> RoofDocument:
    memory = numbers.levels[0]
    datatypes = dict.fromkeys(e.op.datatype for e in estimates if isinstance(e.op, Op))
    return {
        "peak_ops_per_s": {d: 2 * numbers.peak_macs_per_cycle(d) * numbers.clock_hz for d in datatypes},
        "main_memory": memory.name,
        "read_bytes_per_s": _finite(memory.read_bytes_per_cycle * numbers.clock_hz),
        "write_bytes_per_s": _finite(memory.write_bytes_per_cycle * numbers.clock_hz),
        "shares_port": bool(memory.shares_port),
    }


def _total_document(network: NetworkEstimate) -> TotalDocument:
    busy = math.fsum(e.utilization * e.latency_cycles * count for e, count in network.ops)
    return {
        "latency_cycles": _whole(network.latency_cycles),
        "latency_s": network.latency_s,
        "energy_pj": network.energy_pj,
        "area_mm2": network.area.amount,
        "macs": network.macs,
        "main_memory_bytes": _whole(network.main_memory_bytes),
        "utilization": busy / network.latency_cycles if network.latency_cycles else 0.0,
    }


def _node_json(node: MappingNode) -> dict[str, str | int | list[str]]:
    if isinstance(node, Keep):
        return {"keep": list(node.tensors), "level": node.level}
    if isinstance(node, Temporal):
        return {"for": node.dim, "tile": node.tile}
    return {"spatial": node.dim, "axis": f"{node.fanout}.{node.axis}", "tile": node.tile}


def _whole(value: float) -> float:
    """Counts that are whole are written without a fraction."""
    return int(value) if float(value).is_integer() else value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
