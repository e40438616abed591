"""The estimate document: what `tileloom estimate --json` prints and what a sweep stores for every design point.

It holds everything that a total is made of, so that anyone can recompute it:

    energy of an op = sum over levels and tensors of actions[level][tensor][read|write] * energy_table.levels[level]
                      + macs * energy_table.pj_per_mac[datatype]
                      + vector_operations * energy_table.pj_per_vector_operation[datatype]
    total.energy_pj = sum over ops of count * energy_pj, and likewise for cycles, MACs and main-memory bytes
    total.latency_s = total.latency_cycles / clock_hz, and total.area_mm2 = sum of area_parts_mm2

Amounts of an op are those of one run; `count` says how often the network runs it. Actions are in bytes.
"""

from __future__ import annotations

from typing import Final, NotRequired, TypedDict

SCHEMA_VERSION: Final = 1

MappingJson = list[dict[str, str | int | list[str]]]


class ActionDocument(TypedDict):
    """Bytes that a level moves for a tensor in one run."""

    read: float
    write: float


class OpDocument(TypedDict):
    """One op; amounts are of one run."""

    name: str
    kind: str
    datatype: str
    count: int
    nodes: list[str]
    latency_cycles: float
    energy_pj: float
    macs: int
    vector_operations: int
    utilization: float
    bottleneck: str
    proved_optimal: bool | None
    gap: float | None
    space_size: int | None
    mapping: MappingJson | None
    actions: dict[str, dict[str, ActionDocument]]
    energy_parts_pj: dict[str, float]
    latency_parts_cycles: dict[str, float]
    notes: list[str]


class UnmodelledDocument(TypedDict):
    """One node that the model leaves out."""

    name: str
    kind: str
    reason: str
    macs: int
    bytes: int


class ShareDocument(TypedDict):
    """What part of the network is left out, 0 to 1."""

    macs: float
    bytes: float


class LevelPrice(TypedDict):
    """Energy per byte of one level."""

    read_pj_per_byte: float
    write_pj_per_byte: float


class EnergyTable(TypedDict):
    """What actions cost."""

    levels: dict[str, LevelPrice]
    pj_per_mac: dict[str, float]
    pj_per_vector_operation: dict[str, float]


class RoofDocument(TypedDict):
    """Limits of the chip; null where it is unbounded."""

    peak_ops_per_s: dict[str, float]
    main_memory: str
    read_bytes_per_s: float | None
    write_bytes_per_s: float | None
    shares_port: bool


class TotalDocument(TypedDict):
    """The network, every op times its count."""

    latency_cycles: float
    latency_s: float
    energy_pj: float
    area_mm2: float
    macs: int
    main_memory_bytes: float
    utilization: float


class EstimateDocument(TypedDict):
    """One workload on one architecture.

    `left_out` is what no number includes; `sources` says where each number of the architecture comes from
    (printed by the command line, not stored for every point of a sweep).
    """

    schema_version: int
    arch: str
    workload: str
    convention: str
    fidelity: str
    objective: str | None
    clock_hz: float
    notices: list[str]
    unmodelled: list[UnmodelledDocument]
    unmodelled_share: ShareDocument
    left_out: list[str]
    ops: list[OpDocument]
    energy_table: EnergyTable
    area_parts_mm2: dict[str, float]
    roofline: RoofDocument
    total: TotalDocument
    sources: NotRequired[dict[str, str]]


def shown_name(op: OpDocument) -> str:
    """An op's name for a figure: with its kind where the name alone does not say it."""
    return op["name"] if op["kind"] in op["name"].lower() else f"{op['name']} {op['kind']}"


def part_names(document: EstimateDocument) -> tuple[str, ...]:
    """Where energy is spent: the memory levels outermost first, then compute, then the vector unit."""
    spent = [op["energy_parts_pj"] for op in sorted(document["ops"], key=lambda op: op["macs"] == 0)]
    mentioned = dict.fromkeys(part for parts in spent for part in parts)
    levels = [level for level in document["energy_table"]["levels"] if level in mentioned]
    return tuple(dict.fromkeys([*levels, *mentioned]))
