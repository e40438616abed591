"""From an architecture to its numbers: what the architecture gives, and component models for the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from ...archdsl import (
    ArchError,
    Axis,
    Compute,
    ComputeType,
    Fanout,
    Memory,
    ModelError,
    PeArray,
    SpatialArch,
    pe_array,
)
from . import mac, main_memory, register_file, sram, wire
from .anchors import accuracy_note
from .numbers import (
    ArchNumbers,
    AreaPart,
    AxisNumbers,
    ComputeNumbers,
    DatatypeNumbers,
    FanoutNumbers,
    LevelNumbers,
    Origin,
    Provenance,
)
from .pe_array_area import lane_mm2, mean_mac_mm2, mean_pipeline_mm2, store_unit_mm2
from .technology import SMALLEST_PUBLISHED_SCALING_NM, is_extrapolated

BITS_PER_BYTE = 8
ASSUMED_WIDTH_BITS = 64.0
VECTOR_UNIT = "vector_unit"
PE_PIPELINE = "pe_pipeline"
STORE_UNIT = "store_unit"

ALWAYS_LEFT_OUT = (
    "leakage and idle power",
    "clock tree and control logic",
    "on-chip network other than hop energies that the architecture gives",
    "memory controllers, DRAM interfaces and other pads",
)


@dataclass(slots=True)
class _Resolver:
    """Collects provenance while the nodes of one architecture are resolved; `array` is what RTL is made from."""

    arch: SpatialArch
    array: PeArray | None
    provenance: list[Provenance] = field(default_factory=list[Provenance])
    left_out: list[str] = field(default_factory=lambda: list(ALWAYS_LEFT_OUT))

    @property
    def node_nm(self) -> float:
        return self.arch.technology.node_nm

    @property
    def voltage_v(self) -> float | None:
        return self.arch.technology.voltage_v

    def note(self, quantity: str, origin: Origin, detail: str) -> None:
        self.provenance.append(Provenance(quantity=quantity, origin=origin, detail=detail))

    def note_model(self, quantity: str, model: str, *groups: str) -> None:
        beyond = ""
        if is_extrapolated(self.node_nm):
            beyond = f"; extrapolated below {SMALLEST_PUBLISHED_SCALING_NM:g} nm"
        self.note(quantity, "model", f"{model}; {accuracy_note(*groups)}{beyond}")


def resolve(arch: SpatialArch) -> ArchNumbers:
    """Numbers of an architecture, with the provenance of each.

    Explicit values of the architecture win; the rest comes from the component models at the architecture's node and
    supply.

    Args:
        arch: A spatial architecture.

    Returns:
        Energies, bandwidths and areas per memory, fan-out and compute unit.

    Raises:
        ModelError: A number is neither given nor can be modelled; the message names the fields that would do.
    """
    resolver = _Resolver(arch=arch, array=_integer_pe_array(arch))
    levels = tuple(_level(resolver, memory) for memory in arch.memories)
    compute = _compute(resolver, arch.compute)
    areas = _areas(resolver, levels, compute)
    if resolver.array is not None:
        resolver.left_out.append("area of the unit of ALU instructions, load unit, skew and issue")
    if arch.control is not None and resolver.array is None:
        resolver.left_out.append(f"{PE_PIPELINE} and {STORE_UNIT}: modelled for integer arrays whose RTL can be built")
    fanouts = tuple(_fanout(resolver, node, areas) for node in arch.fanouts)
    return ArchNumbers(
        name=arch.name,
        clock_hz=arch.clock_hz,
        node_nm=arch.technology.node_nm,
        levels=levels,
        fanouts=fanouts,
        compute=compute,
        areas=areas,
        provenance=tuple(resolver.provenance),
        left_out=tuple(resolver.left_out),
    )


def _integer_pe_array(arch: SpatialArch) -> PeArray | None:
    """The tensor PE array whose RTL the architecture gives, where it works on integers."""
    if arch.control is None or any(mac.is_float(name) for name in arch.compute.datatypes):
        return None
    try:
        return pe_array(arch)
    except ArchError:  # an architecture without RTL is priced like any other
        return None


def _level(resolver: _Resolver, memory: Memory) -> LevelNumbers:
    return LevelNumbers(
        name=memory.name,
        memory_class=memory.memory_class,
        capacity_bytes=math.inf if memory.capacity_bytes is None else float(memory.capacity_bytes),
        read_pj_per_byte=_access_pj_per_byte(resolver, memory, "read"),
        write_pj_per_byte=_access_pj_per_byte(resolver, memory, "write"),
        read_bytes_per_cycle=_bandwidth(resolver, memory, "read"),
        write_bytes_per_cycle=_bandwidth(resolver, memory, "write"),
        shares_port=memory.ports.read_write > 0,
        double_buffered=memory.double_buffered,
        latency_cycles=memory.latency_cycles,
        min_transfer_bytes=memory.min_transfer_bytes,
        area_mm2=_memory_area_mm2(resolver, memory),
        instances=resolver.arch.instances(memory.name),
    )


def _bandwidth(resolver: _Resolver, memory: Memory, direction: str) -> float:
    """Bytes per cycle of one instance in one direction."""
    reads = direction == "read"
    given = memory.read_bandwidth if reads else memory.write_bandwidth
    quantity = f"{memory.name}.{direction}_bytes_per_cycle"
    if given is not None:
        resolver.note(quantity, "given", memory.source)
        return resolver.arch.bytes_per_cycle(given)
    if memory.width_bits is None:
        raise ModelError(
            f"memory '{memory.name}': give {direction}_bandwidth (it may be 'unbounded'), or the width from which it "
            "follows with banks and ports"
        )
    resolver.note(quantity, "derived", "width x banks x ports")
    return memory.derived_read_bytes_per_cycle if reads else memory.derived_write_bytes_per_cycle


def _access_pj_per_byte(resolver: _Resolver, memory: Memory, direction: str) -> float:
    """Energy per byte of one direction: as given, else by the memory's class."""
    quantity = f"{memory.name}.{direction}_pj_per_byte"
    given = memory.read_energy_pj_per_byte if direction == "read" else memory.write_energy_pj_per_byte
    if given is not None:
        resolver.note(quantity, "given", memory.source)
        return given
    if memory.memory_class == "main_memory":
        return _main_memory_pj_per_byte(resolver, memory, direction)
    if memory.capacity_bytes is None:
        raise ModelError(
            f"memory '{memory.name}': give {direction}_energy, or a capacity from which the {memory.memory_class} "
            "model can take it; the capacity is unbounded"
        )
    if memory.memory_class == "register_file":
        return _register_pj_per_byte(resolver, memory, memory.capacity_bytes, direction)
    return _sram_pj_per_byte(resolver, memory, memory.capacity_bytes, direction)


def _main_memory_pj_per_byte(resolver: _Resolver, memory: Memory, direction: str) -> float:
    if memory.technology is None:
        there = ", ".join(main_memory.main_memory_technologies())
        raise ModelError(f"memory '{memory.name}': give {direction}_energy, or dram (one of {there})")
    quantity = f"{memory.name}.{direction}_pj_per_byte"
    accuracy = accuracy_note("main_memory.pj_per_bit", "ratio.main_memory")
    resolver.note(quantity, "model", f"published figure for {memory.technology}; {accuracy}")
    return main_memory.pj_per_byte(memory.technology)


def _register_pj_per_byte(resolver: _Resolver, memory: Memory, capacity_bytes: int, direction: str) -> float:
    ports = register_file.further_ports(memory.ports.read, memory.ports.write, memory.ports.read_write)
    access = register_file.read_pj if direction == "read" else register_file.write_pj
    energy = access(
        float(capacity_bytes),
        float(BITS_PER_BYTE),
        node_nm=resolver.node_nm,
        further_ports=ports,
        voltage_v=resolver.voltage_v,
    )
    model = f"register file of {capacity_bytes} B at {resolver.node_nm:g} nm"
    if capacity_bytes > register_file.LARGEST_ANCHOR_BYTES:
        model += f", beyond its largest anchor of {register_file.LARGEST_ANCHOR_BYTES} B"
    resolver.note_model(f"{memory.name}.{direction}_pj_per_byte", model, "register_file.read_pj", "ratio.register_file")
    return float(energy)


def _sram_pj_per_byte(resolver: _Resolver, memory: Memory, capacity_bytes: int, direction: str) -> float:
    width_bits, width_note = _access_width(resolver, memory, direction)
    access = sram.read_pj if direction == "read" else sram.write_pj
    energy = access(
        float(capacity_bytes),
        width_bits,
        node_nm=resolver.node_nm,
        banks=float(memory.banks),
        further_ports=_sram_ports(memory),
        voltage_v=resolver.voltage_v,
    )
    model = f"SRAM of {capacity_bytes} B, {width_note}, {memory.banks} banks, {resolver.node_nm:g} nm"
    resolver.note_model(f"{memory.name}.{direction}_pj_per_byte", model, "sram.read_pj")
    return float(energy) * BITS_PER_BYTE / width_bits


def _access_width(resolver: _Resolver, memory: Memory, direction: str) -> tuple[float, str]:
    """Bits that one bank moves per access, and how they were found."""
    if memory.width_bits is not None:
        return float(memory.width_bits), f"width {memory.width_bits} bit"
    reads = direction == "read"
    bandwidth = resolver.arch.read_bytes_per_cycle(memory) if reads else resolver.arch.write_bytes_per_cycle(memory)
    num_ports = memory.ports.read_write + (memory.ports.read if reads else memory.ports.write)
    if math.isinf(bandwidth):
        return ASSUMED_WIDTH_BITS, f"width of {ASSUMED_WIDTH_BITS:g} bit assumed, as bandwidth is unbounded"
    width_bits = bandwidth * BITS_PER_BYTE / (memory.banks * num_ports)
    return width_bits, f"width {width_bits:g} bit by bandwidth, banks and ports"


def _sram_ports(memory: Memory) -> float:
    return float(sram.extra_ports(memory.ports.read, memory.ports.write, memory.ports.read_write))


def _memory_area_mm2(resolver: _Resolver, memory: Memory) -> float:
    """Area of one instance: as given, 0 off chip, else by the memory's class."""
    quantity = f"{memory.name}.area_mm2"
    if memory.area_mm2 is not None:
        resolver.note(quantity, "given", memory.source)
        return memory.area_mm2
    if memory.memory_class == "main_memory":
        resolver.note(quantity, "left out", "main memory is off chip")
        return 0.0
    if memory.capacity_bytes is None:
        resolver.note(quantity, "left out", "the capacity is unbounded; give area or a capacity")
        resolver.left_out.append(f"area of memory '{memory.name}', whose capacity is unbounded")
        return 0.0
    if memory.memory_class == "register_file":
        ports = register_file.further_ports(memory.ports.read, memory.ports.write, memory.ports.read_write)
        area = register_file.area_mm2(float(memory.capacity_bytes), node_nm=resolver.node_nm, further_ports=ports)
        resolver.note_model(quantity, f"register file of {memory.capacity_bytes} B", "pe.um2")
        return float(area)
    width_bits, width_note = _access_width(resolver, memory, "read")
    if memory.memory_class == "cache":
        resolver.left_out.append(f"tags of cache '{memory.name}'")
    area = sram.area_mm2(
        float(memory.capacity_bytes),
        width_bits,
        node_nm=resolver.node_nm,
        banks=float(memory.banks),
        further_ports=_sram_ports(memory),
    )
    resolver.note_model(quantity, f"SRAM block of {memory.capacity_bytes} B, {width_note}", "sram.block_mm2")
    return float(area)


def _compute(resolver: _Resolver, compute: Compute) -> ComputeNumbers:
    datatypes = tuple(_datatype(resolver, compute, name, kind) for name, kind in compute.datatypes.items())
    node_nm, voltage_v = resolver.node_nm, resolver.voltage_v
    resolver.note(f"{compute.name}.vector_pj", "assumed", "one 32-bit addition per element-wise operation")
    return ComputeNumbers(
        name=compute.name,
        datatypes=datatypes,
        macs_per_step=compute.intrinsic.macs,
        area_mm2=_compute_area_mm2(resolver, compute, datatypes),
        instances=resolver.arch.num_pes,
        vector_lanes=compute.vector_lanes,
        vector_int_pj=float(mac.vector_pj(is_floating=False, node_nm=node_nm, voltage_v=voltage_v)),
        vector_float_pj=float(mac.vector_pj(is_floating=True, node_nm=node_nm, voltage_v=voltage_v)),
    )


def _datatype(resolver: _Resolver, compute: Compute, name: str, kind: ComputeType) -> DatatypeNumbers:
    accumulator_bits = kind.accumulator_bits or mac.default_accumulator_bits(name)
    quantity = f"{compute.name}.{name}.mac_pj"
    if kind.energy_pj_per_mac is not None:
        resolver.note(quantity, "given", compute.source)
        energy = kind.energy_pj_per_mac
    else:
        energy = float(
            mac.mac_pj(
                name,
                node_nm=resolver.node_nm,
                accumulator_bits=accumulator_bits,
                fixed_point_sum=kind.fixed_point_sum,
                voltage_v=resolver.voltage_v,
            )
        )
        model = f"{name} product and {accumulator_bits}-bit addition at {resolver.node_nm:g} nm"
        resolver.note_model(quantity, model, "arithmetic energy")
    return DatatypeNumbers(
        name=name,
        mac_pj=energy,
        macs_per_cycle=float(compute.macs_per_cycle(name)),
        accumulator_bits=accumulator_bits,
        fixed_point_sum=kind.fixed_point_sum,
    )


def _compute_area_mm2(resolver: _Resolver, compute: Compute, datatypes: tuple[DatatypeNumbers, ...]) -> float:
    """Area of one unit: as given, else that of the datatype that needs most, which the others are taken to share."""
    quantity = f"{compute.name}.area_mm2"
    if compute.area_mm2 is not None:
        resolver.note(quantity, "given", compute.source)
        return compute.area_mm2

    if resolver.array is not None:
        resolver.note_model(quantity, "mean over the tensor PE array, whose first rows add less", "pe.um2")
        return mean_mac_mm2(resolver.array, resolver.node_nm)

    def datatype_mm2(numbers: DatatypeNumbers) -> float:
        unit = mac.mac_mm2(
            numbers.name,
            node_nm=resolver.node_nm,
            accumulator_bits=numbers.accumulator_bits,
            fixed_point_sum=numbers.fixed_point_sum,
        )
        return float(unit) * numbers.macs_per_cycle

    largest = max(datatypes, key=datatype_mm2)
    model = f"{largest.macs_per_cycle:g} MACs of {largest.name}, shared by the other datatypes"
    resolver.note_model(quantity, model, "pe.um2")
    return datatype_mm2(largest)


def _areas(resolver: _Resolver, levels: tuple[LevelNumbers, ...], compute: ComputeNumbers) -> tuple[AreaPart, ...]:
    parts = [AreaPart(name=level.name, instances=level.instances, each_mm2=level.area_mm2) for level in levels]
    parts.append(AreaPart(name=compute.name, instances=compute.instances, each_mm2=compute.area_mm2))
    if resolver.array is not None:
        parts += _pe_array_parts(resolver, resolver.array)
    elif compute.vector_lanes:
        is_floating = any(mac.is_float(numbers.name) for numbers in compute.datatypes)
        lane = mac.vector_lane_mm2(is_floating=is_floating, node_nm=resolver.node_nm)
        parts.append(AreaPart(name=VECTOR_UNIT, instances=compute.vector_lanes, each_mm2=float(lane)))
        word = "float" if is_floating else "integer"
        resolver.note(f"{VECTOR_UNIT}.area_mm2", "assumed", f"a 32-bit {word} multiplier and adder per lane")
    return tuple(parts)


def _pe_array_parts(resolver: _Resolver, array: PeArray) -> list[AreaPart]:
    """What the RTL of the tensor PE array has beside the nodes of the hierarchy."""
    parts: list[AreaPart] = []
    if resolver.arch.compute.area_mm2 is None:  # else the unit's given area has them
        each_mm2 = mean_pipeline_mm2(array, resolver.node_nm)
        parts.append(AreaPart(name=PE_PIPELINE, instances=array.rows * array.cols, each_mm2=each_mm2))
        resolver.note_model(f"{PE_PIPELINE}.area_mm2", "registers between PEs: input, swap, partial sum", "pe.um2")
    lane = lane_mm2(array, resolver.node_nm)
    parts.append(AreaPart(name=VECTOR_UNIT, instances=array.post_lanes, each_mm2=lane))
    resolver.note_model(f"{VECTOR_UNIT}.area_mm2", "a lane: bias, product, shift, rounding, clip", "pe.um2")
    parts.append(AreaPart(name=STORE_UNIT, instances=1, each_mm2=store_unit_mm2(array, resolver.node_nm)))
    resolver.note_model(f"{STORE_UNIT}.area_mm2", "channel parameters, vectors under way, alignment", "pe.um2")
    return parts


def _fanout(resolver: _Resolver, fanout: Fanout, areas: tuple[AreaPart, ...]) -> FanoutNumbers:
    instances = resolver.arch.instances(fanout.name)
    below = {node.name for node in resolver.arch.hierarchy[resolver.arch.hierarchy.index(fanout) :]} | {PE_PIPELINE}
    below_mm2 = math.fsum(part.area_mm2 for part in areas if part.name in below)
    pitch_mm = math.sqrt(below_mm2 / (instances * fanout.num_instances))
    wire_pj = float(wire.wire_pj_per_bit_mm(resolver.node_nm, resolver.voltage_v)) * BITS_PER_BYTE * pitch_mm
    axes = tuple(_axis(resolver, fanout, axis, wire_pj) for axis in fanout.axes)
    return FanoutNumbers(name=fanout.name, axes=axes, instances=instances)


def _axis(resolver: _Resolver, fanout: Fanout, axis: Axis, wire_pj: float) -> AxisNumbers:
    quantity = f"{fanout.name}.{axis.name}.hop_pj_per_byte"
    given = axis.hop_energy_pj_per_byte
    if given is not None:
        resolver.note(quantity, "given", fanout.source)
    else:
        resolver.note(quantity, "left out", f"no hop_energy is given; the wire model has {wire_pj:.3g} pJ/B for a hop")
    return AxisNumbers(name=axis.name, size=axis.size, hop_pj_per_byte=given or 0.0, wire_pj_per_byte=wire_pj)
