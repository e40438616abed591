"""The document of a network's kernels on a GPU: what `tileloom estimate --json` prints and what a sweep stores.

    total.latency_s = sum over ops of count * latency_s, and likewise for energy, MACs and main-memory bytes
    total.power_w   = total energy over total latency

Amounts of an op are those of one run; `count` says how often the network runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypedDict

from ..archdsl import GpuArch, Workload, WorkloadError
from ..models import Chip, KernelEstimate, Part, estimate_kernels, join_attention, make_chip
from .document import ShareDocument, UnmodelledDocument
from .documenting import unmodelled_documents, unmodelled_share
from .estimation import merge_equal
from .serving_documents import PartDocument, ServedDocument, part_document
from .spec import ConstantsOptions

SCHEMA_VERSION: Final = 1

LEFT_OUT: Final = (
    "gaps between kernels beyond the launch floor; overlap of kernels; the host",
    "fusion of kernels other than those of attention",
    "area",
)
PJ_PER_J: Final = 1e12


class KernelDocument(TypedDict):
    """One op; amounts are of one run."""

    name: str
    kind: str
    datatype: str
    count: int
    nodes: list[str]
    kernel: str
    choice: str
    latency_s: float
    latency_parts: PartDocument
    regime: str
    energy_pj: float
    macs: int
    main_memory_bytes: float
    utilization: float
    notes: list[str]


class KernelTotalDocument(TypedDict):
    """The network, every op times its count."""

    latency_s: float
    energy_pj: float
    power_w: float
    macs: int
    main_memory_bytes: float
    utilization: float


class KernelsDocument(TypedDict):
    """One workload on one GPU."""

    schema_version: int
    arch: str
    workload: str
    mode: str
    calibration: str | None
    clock_hz: float
    notices: list[str]
    unmodelled: list[UnmodelledDocument]
    unmodelled_share: ShareDocument
    left_out: list[str]
    kernels: list[KernelDocument]
    total: KernelTotalDocument


def chip_of(arch: GpuArch, constants: ConstantsOptions) -> Chip:
    """A GPU with the constants that options name.

    Raises:
        ModelError: No such calibration.
    """
    return make_chip(arch, constants.mode, constants.calibration)


def kernels_document(workload: Workload, chip: Chip, notices: Sequence[str] = ()) -> KernelsDocument:
    """Price a workload's ops as kernels of a GPU and write them down.

    Args:
        workload: The workload.
        chip: The GPU with its constants.
        notices: Remarks beyond the workload's own and the chip's.

    Raises:
        ModelError: The chip cannot run an op.
        WorkloadError: The workload has no ops.
    """
    ops = merge_equal(join_attention(workload.ops))
    if not ops:
        raise WorkloadError(f"{workload.name}: nothing in it can be modelled, so there is nothing to estimate")
    kernels = [_kernel_document(estimate, chip) for estimate in estimate_kernels(ops, chip)]
    return {
        "schema_version": SCHEMA_VERSION,
        "arch": chip.arch.name,
        "workload": workload.name,
        "mode": chip.mode,
        "calibration": chip.calibration or None,
        "clock_hz": chip.arch.max_clock_hz,
        "notices": [*workload.notices, *chip.notes, *notices],
        "unmodelled": unmodelled_documents(workload),
        "unmodelled_share": unmodelled_share(workload),
        "left_out": list(LEFT_OUT),
        "kernels": kernels,
        "total": _total_document(kernels),
    }


def parts_of(document: KernelsDocument) -> ServedDocument:
    """A document as trees of latency and energy by op, for reports."""
    trees: list[PartDocument] = []
    for name, key, unit in (("latency", "latency_s", "s"), ("energy", "energy_pj", "pJ")):
        parts: list[PartDocument] = [
            {"name": _runs(kernel), "amount": kernel[key] * kernel["count"], "unit": unit}
            for kernel in document["kernels"]
        ]
        trees.append({"name": name, "amount": document["total"][key], "unit": unit, "rule": "sum", "parts": parts})
    return {"workload": document["workload"], "parts": trees, "notes": list(note_lines(document))}


def note_lines(document: KernelsDocument) -> Iterator[str]:
    """What the numbers take for granted or approximate; one line for all ops that share a note."""
    yield from document["notices"]
    notes: dict[str, list[str]] = {}
    for kernel in document["kernels"]:
        for note in kernel["notes"]:
            notes.setdefault(note, []).append(kernel["name"])
    for note, names in notes.items():
        yield f"{names[0]}{f' and {len(names) - 1} more ops' if len(names) > 1 else ''}: {note}"


def _runs(kernel: KernelDocument) -> str:
    return f"{kernel['name']} x{kernel['count']}" if kernel["count"] > 1 else kernel["name"]


def _kernel_document(estimate: KernelEstimate, chip: Chip) -> KernelDocument:
    op = estimate.op
    return {
        "name": op.name,
        "kind": op.kind,
        "datatype": op.datatype,
        "count": op.count,
        "nodes": list(op.nodes),
        "kernel": estimate.kernel,
        "choice": estimate.choice,
        "latency_s": estimate.time.amount,
        "latency_parts": part_document(_without_zeros(estimate.time)),
        "regime": estimate.regime,
        "energy_pj": estimate.energy_j * PJ_PER_J,
        "macs": op.macs,
        "main_memory_bytes": estimate.main_memory_bytes,
        "utilization": _utilization(estimate, chip),
        "notes": list(estimate.notes),
    }


def _without_zeros(part: Part) -> Part:
    kept = tuple(_without_zeros(below) for below in part.parts if below.amount)
    return Part(name=part.name, amount=part.amount, unit=part.unit, rule=part.rule, parts=kept)


def _utilization(estimate: KernelEstimate, chip: Chip) -> float:
    """Useful MACs over those of the tensor cores, or of the vector units where these multiply, at the highest clock."""
    if not estimate.op.macs:
        return 0.0
    arch, datatype = chip.arch, estimate.op.datatype
    if datatype in arch.tensor_cores.datatypes:
        peak = chip.tensor_ops_per_s(datatype) * arch.max_clock_hz / arch.clock_hz
    else:
        peak = chip.vector_ops_per_s(datatype)
    return min(1.0, estimate.ops / estimate.time.amount / peak)


def _total_document(kernels: Sequence[KernelDocument]) -> KernelTotalDocument:
    latency_s = sum(kernel["latency_s"] * kernel["count"] for kernel in kernels)
    energy_pj = sum(kernel["energy_pj"] * kernel["count"] for kernel in kernels)
    busy_s = sum(kernel["utilization"] * kernel["latency_s"] * kernel["count"] for kernel in kernels)
    return {
        "latency_s": latency_s,
        "energy_pj": energy_pj,
        "power_w": energy_pj / PJ_PER_J / latency_s,
        "macs": sum(kernel["macs"] * kernel["count"] for kernel in kernels),
        "main_memory_bytes": sum(kernel["main_memory_bytes"] * kernel["count"] for kernel in kernels),
        "utilization": busy_s / latency_s,
    }
