"""An architecture as rows of blocks, outermost first: what its drawing and its tables show.

Blocks that stand side by side in a row serve different tensors (or different work) at the same depth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ...archdsl import Arch, Axis, Bandwidth, Compute, DimClass, Fanout, GpuArch, Memory, SpatialArch, TensorRole
from .style import CsvTable, quantity_text
from .totals import totals_of

BlockKind = Literal["memory", "fanout", "compute"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One memory, fan-out or compute unit.

    Attributes:
        name: Its name in the architecture file.
        kind: What it is.
        what: The same for people, e.g. `scratchpad`.
        instances: How many the chip has.
        facts: One line each, for people.
        keeps: Roles that it may hold; empty when it is no memory of a spatial architecture.
        must_keep: Roles that may not bypass it.
        capacity_bytes: Of one instance; None when unbounded or no memory.
        read_bytes_per_cycle: Of one instance; None when unbounded, unknown or no memory.
        write_bytes_per_cycle: Of one instance; None when unbounded, unknown or no memory.
        read_energy_pj_per_byte: None when the component model prices it.
        write_energy_pj_per_byte: None when the component model prices it.
        axes: Axis names and sizes of a fan-out.
    """

    name: str
    kind: BlockKind
    what: str
    instances: int
    facts: tuple[str, ...]
    keeps: tuple[TensorRole, ...] = ()
    must_keep: tuple[TensorRole, ...] = ()
    capacity_bytes: int | None = None
    read_bytes_per_cycle: float | None = None
    write_bytes_per_cycle: float | None = None
    read_energy_pj_per_byte: float | None = None
    write_energy_pj_per_byte: float | None = None
    axes: tuple[tuple[str, int], ...] = ()


Row = tuple[Block, ...]


def rows_of(arch: Arch) -> tuple[Row, ...]:
    """The blocks of an architecture, outermost first."""
    return _gpu_rows(arch) if isinstance(arch, GpuArch) else _spatial_rows(arch)


def blocks_table(rows: Sequence[Row]) -> CsvTable:
    """The blocks' numbers in internal units; an unbounded or derived one is left empty."""
    columns = (
        "row", "name", "kind", "what", "instances", "capacity_bytes", "read_bytes_per_cycle", "write_bytes_per_cycle",
        "read_energy_pj_per_byte", "write_energy_pj_per_byte", "keeps", "must_keep", "axes", "facts",
    )  # fmt: skip
    return CsvTable(
        columns=columns,
        rows=tuple(
            (
                row_idx, b.name, b.kind, b.what, b.instances, b.capacity_bytes, b.read_bytes_per_cycle,
                b.write_bytes_per_cycle, b.read_energy_pj_per_byte, b.write_energy_pj_per_byte, " ".join(b.keeps),
                " ".join(b.must_keep), " ".join(f"{name}={size}" for name, size in b.axes), "; ".join(b.facts),
            )
            for row_idx, row in enumerate(rows)
            for b in row
        ),
    )  # fmt: skip


def bandwidth_text(bytes_per_cycle: float, clock_hz: float) -> str:
    """Both per cycle and per second, e.g. `64 B/cycle (64 GB/s)`."""
    if math.isinf(bytes_per_cycle):
        return "unbounded"
    return f"{bytes_per_cycle:.4g} B/cycle ({quantity_text(bytes_per_cycle * clock_hz, 'bytes/s')})"


def _spatial_rows(arch: SpatialArch) -> tuple[Row, ...]:
    rows: list[list[Block]] = []
    for node in arch.hierarchy:
        match node:
            case Memory():
                block = _memory_block(arch, node)
                if rows and _stands_beside(block, rows[-1]):
                    rows[-1].append(block)
                else:
                    rows.append([block])
            case Fanout():
                rows.append([_fanout_block(arch, node)])
            case Compute():
                rows.append([_compute_block(arch, node)])
    return tuple(map(tuple, rows))


def _stands_beside(block: Block, row: Sequence[Block]) -> bool:
    """Whether the row holds memories for other tensors only, so that this one is parallel to them."""
    return all(other.kind == "memory" and not set(other.keeps) & set(block.keeps) for other in row)


def _memory_block(arch: SpatialArch, memory: Memory) -> Block:
    instances = arch.instances(memory.name)
    read, write = arch.read_bytes_per_cycle(memory), arch.write_bytes_per_cycle(memory)
    facts = [_capacity_text(memory.capacity_bytes, instances)]
    if read == write:
        facts.append(f"read, write {bandwidth_text(read, arch.clock_hz)}")
    else:
        facts += [f"read {bandwidth_text(read, arch.clock_hz)}", f"write {bandwidth_text(write, arch.clock_hz)}"]
    facts += _organisation(memory)
    facts.append(_energy_text(memory.read_energy_pj_per_byte, memory.write_energy_pj_per_byte))
    return Block(
        name=memory.name,
        kind="memory",
        what=memory.memory_class.replace("_", " ") + (f", {memory.technology}" if memory.technology else ""),
        instances=instances,
        facts=tuple(facts),
        keeps=memory.keeps,
        must_keep=memory.must_keep,
        capacity_bytes=memory.capacity_bytes,
        read_bytes_per_cycle=_finite(read),
        write_bytes_per_cycle=_finite(write),
        read_energy_pj_per_byte=memory.read_energy_pj_per_byte,
        write_energy_pj_per_byte=memory.write_energy_pj_per_byte,
    )


def _organisation(memory: Memory) -> list[str]:
    """Banks, width, ports and double buffering, as far as the file gives them."""
    parts: list[str] = []
    if memory.width_bits is not None:
        parts.append(f"{memory.banks} x {memory.width_bits} bit" if memory.banks > 1 else f"{memory.width_bits} bit")
        ports = (("read", memory.ports.read), ("write", memory.ports.write), ("shared", memory.ports.read_write))
        parts.append(" + ".join(f"{number} {name}" for name, number in ports if number) + " port")
    if memory.double_buffered:
        parts.append("double-buffered")
    return [", ".join(parts)] if parts else []


def _fanout_block(arch: SpatialArch, fanout: Fanout) -> Block:
    return Block(
        name=fanout.name,
        kind="fanout",
        what="fan-out",
        instances=arch.instances(fanout.name),
        facts=tuple(map(_axis_text, fanout.axes)),
        axes=tuple((axis.name, axis.size) for axis in fanout.axes),
    )


def _axis_text(axis: Axis) -> str:
    traits = [
        "multicast" if axis.multicast else "no multicast",
        "reduction" if axis.reduction else "no reduction",
        *(["systolic"] if axis.network == "systolic" else []),
        *([f"{axis.hop_energy_pj_per_byte:.4g} pJ/B per hop"] if axis.hop_energy_pj_per_byte is not None else []),
    ]
    carried = [dim_class.replace("_", " ") for dim_class in axis.dim_classes]
    carries = "any dim" if len(carried) == len(DimClass) else ", ".join(carried)
    return f"{axis.name} x {axis.size}: {', '.join(traits)}; carries {carries}"


def _compute_block(arch: SpatialArch, compute: Compute) -> Block:
    facts: list[str] = []
    peak = totals_of(arch).peak_ops_per_s
    for name, kind in compute.datatypes.items():
        energy = "" if kind.energy_pj_per_mac is None else f", {kind.energy_pj_per_mac:.4g} pJ/MAC"
        rate = compute.macs_per_cycle(name)
        facts.append(f"{name}: {rate:.4g} MAC/cycle, {quantity_text(peak[name], 'ops/s')} in all{energy}")
    if compute.intrinsic.macs > 1:
        shape = compute.intrinsic
        facts.append(f"{shape.m} x {shape.n} x {shape.k} product (m, n, k) at once")
    if compute.stationary != "none":
        facts.append(f"{compute.stationary}-stationary, preload {compute.preload}")
    if compute.vector_lanes:
        facts.append(f"vector unit: {compute.vector_lanes} lanes for the chip")
    return Block(
        name=compute.name, kind="compute", what="compute", instances=arch.instances(compute.name), facts=tuple(facts)
    )


def _gpu_rows(arch: GpuArch) -> tuple[Row, ...]:
    main, l2, sm = arch.main_memory, arch.l2, arch.sm
    return (
        (
            _gpu_memory(arch, "main_memory", f"main memory{f', {main.technology}' if main.technology else ''}", 1,
                        main.capacity_bytes, main.bandwidth),
        ),
        (_gpu_memory(arch, "l2", "cache", 1, l2.capacity_bytes, l2.read_bandwidth),),
        (
            Block(name="sms", kind="fanout", what="fan-out", instances=1, axes=(("sm", arch.num_sms),),
                  facts=(f"SMs x {arch.num_sms} at up to {quantity_text(arch.clock_hz, 'Hz')}",)),
        ),
        (
            _gpu_memory(arch, "sm.shared_memory", "scratchpad", arch.num_sms, sm.shared_memory_bytes, None,
                        (f"{quantity_text(sm.shared_memory_per_block_bytes, 'bytes')} for one thread block",)),
            _gpu_memory(arch, "sm.register_file", "register file", arch.num_sms, sm.register_file_bytes, None,
                        (f"{sm.max_threads:,} threads, {sm.max_blocks} blocks",)),
        ),
        _gpu_compute(arch),
    )  # fmt: skip


def _gpu_memory(
    arch: GpuArch,
    name: str,
    what: str,
    instances: int,
    capacity_bytes: int,
    bandwidth: Bandwidth | None,
    more: tuple[str, ...] = (),
) -> Block:
    per_cycle = None if bandwidth is None else bandwidth.bytes_per_cycle(arch.clock_hz)
    rate = () if per_cycle is None else (f"read {bandwidth_text(per_cycle, arch.clock_hz)}",)
    return Block(
        name=name,
        kind="memory",
        what=what,
        instances=instances,
        facts=(_capacity_text(capacity_bytes, instances), *rate, *more),
        capacity_bytes=capacity_bytes,
        read_bytes_per_cycle=None if per_cycle is None else _finite(per_cycle),
    )


def _gpu_compute(arch: GpuArch) -> Row:
    cores = arch.tensor_cores
    tensor = [
        f"{name}: {quantity_text(kind.dense_ops_per_s, 'ops/s')}, {kind.shape.m} x {kind.shape.n} x {kind.shape.k}"
        for name, kind in cores.datatypes.items()
    ]
    vector = [f"{name}: {quantity_text(rate, 'ops/s')}" for name, rate in arch.vector_units.ops_per_s.items()]
    return (
        Block(name="tensor_cores", kind="compute", what="compute, dense", instances=arch.num_sms * cores.per_sm,
              facts=tuple(tensor)),
        Block(name="vector_units", kind="compute", what="compute", instances=arch.num_sms, facts=tuple(vector)),
    )  # fmt: skip


def _capacity_text(capacity_bytes: int | None, instances: int) -> str:
    if capacity_bytes is None:
        return "unbounded"
    if capacity_bytes % 10**9 == 0:
        return f"{capacity_bytes // 10**9} GB"  # as data sheets count main memory
    each = quantity_text(capacity_bytes, "bytes")
    return each if instances == 1 else f"{each} each, {quantity_text(capacity_bytes * instances, 'bytes')} in all"


def _energy_text(read: float | None, write: float | None) -> str:
    if read is None and write is None:
        return "energy from the component model"
    if read == write:
        return f"read, write {read:.4g} pJ/B"
    texts = ["component model" if value is None else f"{value:.4g} pJ/B" for value in (read, write)]
    return f"read {texts[0]}, write {texts[1]}"


def _finite(value: float) -> float | None:
    return None if math.isinf(value) else value
