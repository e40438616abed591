"""Estimates of ops and networks: the counting core's numbers with names, units and reasons."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..archdsl import Mapping, ModelError, Op, SpatialArch, VectorOp, require_legal
from .amounts import as_float
from .batches import count_one
from .components import ArchNumbers, resolve
from .conventions import CONVENTIONS, Convention
from .counts import Counts, as_arrays
from .detailed import bottleneck_of, detailed_cycles
from .detailed_timing import timing_of
from .hierarchy import hierarchy_of
from .nest import FloatArray, nest_of
from .parts import Part, max_of, sum_of
from .pricing import PriceAmounts, Prices, port_cycles, price_amounts_of, total

Fidelity = Literal["throughput", "detailed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """Bytes that one level moves for one tensor."""

    read: float
    write: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OpEstimate:
    """What one run of one op costs.

    Attributes:
        op: The op.
        mapping: Its mapping; None for vector work.
        convention: Counting convention.
        fidelity: Latency fidelity.
        energy: Energy as a tree: levels and compute, below them reads and writes per tensor [pJ].
        latency: Latency as a tree [cycles].
        bottleneck: Name of the part that sets the latency.
        utilization: Useful MACs over (PEs x cycles), 0 to 1.
        actions: Bytes read and written per level and tensor.
        tile_bytes: Bytes held per level and tensor in one instance.
        notes: What the estimate leaves out for this op.
    """

    op: Op | VectorOp
    mapping: Mapping | None
    convention: str
    fidelity: Fidelity
    energy: Part
    latency: Part
    bottleneck: str
    utilization: float
    actions: MappingOf[str, MappingOf[str, Action]]
    tile_bytes: MappingOf[str, MappingOf[str, float]] = field(default_factory=dict[str, MappingOf[str, float]])
    notes: tuple[str, ...] = ()

    @property
    def energy_pj(self) -> float:
        """Energy of one run [pJ]."""
        return self.energy.amount

    @property
    def latency_cycles(self) -> float:
        """Cycles of one run."""
        return self.latency.amount

    @property
    def main_memory_bytes(self) -> float:
        """Bytes read from and written to the outermost memory."""
        outermost = next(iter(self.actions.values()))
        return sum(action.read + action.write for action in outermost.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkEstimate:
    """Estimates of a network's ops, run one after the other.

    Attributes:
        name: Name of the workload.
        ops: Estimates with how often each op runs.
        latency_cycles: Sum over ops, repeats counted.
        energy_pj: Likewise.
        main_memory_bytes: Likewise.
        macs: Likewise.
        latency_s: `latency_cycles` over the clock.
        area: Area of the chip as a tree [mm^2].
    """

    name: str
    ops: tuple[tuple[OpEstimate, int], ...]
    latency_cycles: float
    energy_pj: float
    main_memory_bytes: float
    macs: int
    latency_s: float
    area: Part


def prices_of(numbers: ArchNumbers, datatype: str) -> Prices:
    """Prices of one architecture for ops of one datatype, arrays of shape [levels, 1].

    Raises:
        ModelError: The compute unit lacks the datatype.
    """
    levels = numbers.levels

    def column(values: Sequence[float]) -> FloatArray:
        return np.array(values, dtype=np.float64).reshape(-1, 1)

    return Prices(
        read_pj=column([x.read_pj_per_byte for x in levels]),
        write_pj=column([x.write_pj_per_byte for x in levels]),
        read_bytes_per_cycle=column([x.read_bytes_per_cycle for x in levels]),
        write_bytes_per_cycle=column([x.write_bytes_per_cycle for x in levels]),
        shares_port=column([float(x.shares_port) for x in levels]),
        capacity_bytes=column([x.capacity_bytes / (2 if x.double_buffered else 1) for x in levels]),
        mac_pj=np.array([numbers.mac_pj(datatype)]),
        cycles_per_step=np.array([numbers.cycles_per_step(datatype)]),
    )


def estimate_op(
    op: Op,
    mapping: Mapping,
    arch: SpatialArch,
    *,
    convention: str | Convention = "tileloom",
    fidelity: Fidelity = "throughput",
    numbers: ArchNumbers | None = None,
) -> OpEstimate:
    """Estimates one op under one mapping.

    Args:
        op: The op.
        mapping: Its mapping.
        arch: The architecture.
        convention: Counting convention, by name or as switches.
        fidelity: `throughput` (maximum over components) or `detailed`.
        numbers: Resolved numbers of `arch`, when the caller has them already.

    Raises:
        MappingError: The mapping is illegal for this op and architecture.
        ModelError: The architecture cannot run the op's datatype.
    """
    rules = CONVENTIONS[convention] if isinstance(convention, str) else convention
    require_legal(mapping, op, arch, has_wide_sums=rules.partial_sums == "accumulator")
    resolved = resolve(arch) if numbers is None else numbers
    hierarchy = hierarchy_of(arch)
    nest, tiles = nest_of(op, mapping, hierarchy)
    # Plain floats are much quicker than arrays of one, and give the same bits.
    counts = count_one(nest, tiles[:, 0].tolist(), rules).converted(as_float)
    prices = price_amounts_of(prices_of(resolved, op.datatype))
    names = [level.name for level in hierarchy.levels]
    if fidelity == "detailed":
        latency = detailed_cycles(as_arrays(counts, 1), tiles, timing_of(arch)).at(0)
    else:
        latency = _throughput_part(counts, prices, names, hierarchy.compute)
    peak = op.macs / (resolved.peak_macs_per_cycle(op.datatype) * latency.amount)
    return OpEstimate(
        op=op,
        mapping=mapping,
        convention=rules.name,
        fidelity=fidelity,
        energy=_energy_part(counts, prices, names, hierarchy.compute),
        latency=latency,
        bottleneck=bottleneck_of(latency),
        utilization=peak,
        actions=_actions(counts, names),
        tile_bytes={
            name: {t.name: counts.tile_bytes[i][j] for j, t in enumerate(op.tensors)}
            for i, name in enumerate(names)
            if i > 0
        },
    )


def _throughput_part(counts: Counts[float], prices: PriceAmounts, names: list[str], compute: str) -> Part:
    parts: list[Part] = []
    for i, name in enumerate(names):
        cycles = port_cycles(total(counts.read_bytes[i]), total(counts.write_bytes[i]), prices, i)
        parts.append(Part(name=name, amount=as_float(cycles / counts.instances[i]), unit="cycles"))
    cycles = as_float(counts.steps * prices.cycles_per_step[0])
    # Compute first: of equals the first is named the bottleneck.
    return max_of("latency", "cycles", [Part(name=compute, amount=cycles, unit="cycles"), *parts])


def _energy_part(counts: Counts[float], prices: PriceAmounts, names: list[str], compute: str) -> Part:
    levels: list[Part] = []
    for i, name in enumerate(names):
        parts: list[Part] = []
        for j, tensor in enumerate(counts.nest.op.tensors):
            for verb, table, cost in (
                ("read", counts.read_bytes, prices.read_pj),
                ("write", counts.write_bytes, prices.write_pj),
            ):
                amount = as_float(table[i][j] * cost[i])
                if amount:
                    parts.append(Part(name=f"{verb} {tensor.name}", amount=amount, unit="pJ"))
        levels.append(sum_of(name, "pJ", parts))
    macs = Part(name=compute, amount=as_float(counts.macs * prices.mac_pj[0]), unit="pJ")
    return sum_of("energy", "pJ", [*levels, macs])


def _actions(counts: Counts[float], names: list[str]) -> dict[str, dict[str, Action]]:
    tensors = counts.nest.op.tensors
    return {
        name: {
            tensor.name: Action(read=counts.read_bytes[i][j], write=counts.write_bytes[i][j])
            for j, tensor in enumerate(tensors)
        }
        for i, name in enumerate(names)
    }


def estimate_vector_op(op: VectorOp, arch: SpatialArch, *, numbers: ArchNumbers | None = None) -> OpEstimate:
    """Estimates vector work: its compulsory main-memory traffic and the vector unit's time.

    An architecture without a vector unit is charged the traffic alone, and the estimate says so.
    """
    resolved = resolve(arch) if numbers is None else numbers
    level = resolved.levels[0]
    reads, writes = dict(op.read_bytes), dict(op.write_bytes)
    read = sum(reads.values()) / level.read_bytes_per_cycle
    write = sum(writes.values()) / level.write_bytes_per_cycle
    traffic = read + write if level.shares_port else max(read, write)
    parts = [Part(name=level.name, amount=float(traffic), unit="cycles")]
    energy = [
        Part(name=f"read {name}", amount=amount * level.read_pj_per_byte, unit="pJ") for name, amount in reads.items()
    ] + [
        Part(name=f"write {name}", amount=amount * level.write_pj_per_byte, unit="pJ")
        for name, amount in writes.items()
    ]
    trees = [sum_of(level.name, "pJ", energy)]
    notes: tuple[str, ...] = ()
    if resolved.vector_lanes:
        work = op.elements * op.passes
        parts.append(Part(name="vector unit", amount=work / resolved.vector_lanes, unit="cycles"))
        trees.append(Part(name="vector unit", amount=work * resolved.vector_pj(op.datatype), unit="pJ"))
    else:
        notes = ("the architecture has no vector unit: only the main-memory traffic is counted",)
    latency = max_of("latency", "cycles", parts)
    return OpEstimate(
        op=op,
        mapping=None,
        convention="",
        fidelity="throughput",
        energy=sum_of("energy", "pJ", trees),
        latency=latency,
        bottleneck=latency.largest.name,
        utilization=0.0,
        actions={
            level.name: {
                name: Action(read=float(reads.get(name, 0)), write=float(writes.get(name, 0)))
                for name in dict.fromkeys([*reads, *writes])
            }
        },
        notes=notes,
    )


def estimate_network(
    name: str, ops: Sequence[tuple[OpEstimate, int]], arch: SpatialArch, *, numbers: ArchNumbers | None = None
) -> NetworkEstimate:
    """Adds up the estimates of a network's ops.

    Args:
        name: Name of the workload.
        ops: Estimates with how often each runs.
        arch: The architecture.
        numbers: Resolved numbers of `arch`, when the caller has them already.

    Raises:
        ModelError: There is nothing to add up.
    """
    if not ops:
        raise ModelError(f"{name}: no op could be estimated")
    resolved = resolve(arch) if numbers is None else numbers
    cycles = sum(estimate.latency_cycles * times for estimate, times in ops)
    return NetworkEstimate(
        name=name,
        ops=tuple(ops),
        latency_cycles=cycles,
        energy_pj=sum(estimate.energy_pj * times for estimate, times in ops),
        main_memory_bytes=sum(estimate.main_memory_bytes * times for estimate, times in ops),
        macs=sum(estimate.op.macs * times for estimate, times in ops),
        latency_s=cycles / resolved.clock_hz,
        area=resolved.area,
    )
