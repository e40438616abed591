"""An architecture as plain numbers: energies, bandwidths and areas, each with where it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...archdsl import ModelError
from ..parts import Part, sum_of
from .mac import is_float

Origin = Literal["given", "derived", "model", "assumed", "left out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where one number comes from.

    Attributes:
        quantity: Dotted name of the number, e.g. `scratchpad.read_pj_per_byte`.
        origin: Given in the architecture, derived from other fields, from a component model, assumed, or left out.
        detail: The architecture's own source; or the model, its inputs and its error at the published points.
    """

    quantity: str
    origin: Origin
    detail: str

    def __str__(self) -> str:
        return f"{self.quantity}: {self.origin}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelNumbers:
    """One memory of an architecture; everything is per instance.

    Attributes:
        name: Name of the memory.
        memory_class: main_memory, scratchpad, cache or register_file.
        capacity_bytes: Capacity; infinite when unbounded.
        read_pj_per_byte: Energy of reading [pJ/B].
        write_pj_per_byte: Energy of writing [pJ/B].
        read_bytes_per_cycle: Bytes read per cycle; infinite when unbounded.
        write_bytes_per_cycle: Bytes written per cycle; infinite when unbounded.
        shares_port: Whether reads and writes take turns, so that their times add.
        double_buffered: Whether a tile must fit twice and its transfer overlaps the computation.
        latency_cycles: Cycles from request to first data.
        min_transfer_bytes: Least bytes of one access.
        area_mm2: Area of one instance; 0 off chip.
        instances: Instances on the chip.
    """

    name: str
    memory_class: str
    capacity_bytes: float
    read_pj_per_byte: float
    write_pj_per_byte: float
    read_bytes_per_cycle: float
    write_bytes_per_cycle: float
    shares_port: bool
    double_buffered: bool
    latency_cycles: int
    min_transfer_bytes: int
    area_mm2: float
    instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisNumbers:
    """One axis of a fan-out.

    Attributes:
        name: Name of the axis.
        size: Instances along it.
        hop_pj_per_byte: Energy of moving a byte to the next instance [pJ/B]; 0 when the architecture gives none.
        wire_pj_per_byte: What the wire model gives for that hop [pJ/B]; information only, never charged.
    """

    name: str
    size: int
    hop_pj_per_byte: float
    wire_pj_per_byte: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FanoutNumbers:
    """One fan-out.

    Attributes:
        name: Name of the fan-out.
        axes: Its axes.
        instances: Instances of the fan-out itself on the chip.
    """

    name: str
    axes: tuple[AxisNumbers, ...]
    instances: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DatatypeNumbers:
    """What one compute unit does with one datatype.

    Attributes:
        name: Datatype, e.g. `int8`.
        mac_pj: Energy of one multiply-accumulate [pJ].
        macs_per_cycle: Multiply-accumulates per cycle of one instance.
        accumulator_bits: Width of the sum that the energy was taken for.
        fixed_point_sum: Whether floating-point products are summed as fixed-point numbers.
    """

    name: str
    mac_pj: float
    macs_per_cycle: float
    accumulator_bits: int
    fixed_point_sum: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeNumbers:
    """The compute unit.

    Attributes:
        name: Name of the unit.
        datatypes: Its datatypes, in the architecture's order.
        macs_per_step: Multiply-accumulates of the intrinsic's matrix product.
        area_mm2: Area of one instance.
        instances: Instances on the chip.
        vector_lanes: Element-wise operations per cycle of the whole chip.
        vector_int_pj: Energy of one element-wise operation on integers [pJ].
        vector_float_pj: Energy of one element-wise operation on floating-point numbers [pJ].
    """

    name: str
    datatypes: tuple[DatatypeNumbers, ...]
    macs_per_step: int
    area_mm2: float
    instances: int
    vector_lanes: int
    vector_int_pj: float
    vector_float_pj: float

    def datatype(self, name: str) -> DatatypeNumbers:
        """The numbers of one datatype.

        Raises:
            ModelError: The unit does not multiply that datatype.
        """
        for numbers in self.datatypes:
            if numbers.name == name:
                return numbers
        there = ", ".join(numbers.name for numbers in self.datatypes)
        raise ModelError(f"compute '{self.name}' does not multiply {name}; its datatypes are {there}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaPart:
    """One part of the chip's area.

    Attributes:
        name: Name of the node, or `vector_unit`.
        instances: Instances on the chip.
        each_mm2: Area of one instance.
    """

    name: str
    instances: int
    each_mm2: float

    @property
    def area_mm2(self) -> float:
        """Area of all instances."""
        return self.instances * self.each_mm2


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchNumbers:
    """An architecture as numbers.

    Attributes:
        name: Name of the architecture.
        clock_hz: Clock.
        node_nm: Technology node.
        levels: Memories, outermost first.
        fanouts: Fan-outs, outermost first.
        compute: The compute unit.
        areas: Parts of the chip's area.
        provenance: Where each number comes from.
        left_out: What the numbers do not include, one sentence each.
    """

    name: str
    clock_hz: float
    node_nm: float
    levels: tuple[LevelNumbers, ...]
    fanouts: tuple[FanoutNumbers, ...]
    compute: ComputeNumbers
    areas: tuple[AreaPart, ...]
    provenance: tuple[Provenance, ...]
    left_out: tuple[str, ...]

    @property
    def area(self) -> Part:
        """Area of the chip as a tree: the sum of its parts, each the area of all instances [mm^2]."""
        return sum_of("area", "mm^2", [Part(name=a.name, amount=a.area_mm2, unit="mm^2") for a in self.areas])

    @property
    def area_mm2(self) -> float:
        """Area of the chip."""
        return self.area.amount

    @property
    def vector_lanes(self) -> int:
        """Element-wise operations per cycle of the whole chip."""
        return self.compute.vector_lanes

    def level(self, name: str) -> LevelNumbers:
        """The numbers of one memory.

        Raises:
            KeyError: No memory has that name.
        """
        for level in self.levels:
            if level.name == name:
                return level
        raise KeyError(f"{self.name} has no memory '{name}'; it has {', '.join(level.name for level in self.levels)}")

    def mac_pj(self, datatype: str) -> float:
        """Energy of one multiply-accumulate [pJ].

        Raises:
            ModelError: The compute unit does not multiply that datatype.
        """
        return self.compute.datatype(datatype).mac_pj

    def macs_per_cycle(self, datatype: str) -> float:
        """Multiply-accumulates per cycle of one compute unit.

        Raises:
            ModelError: The compute unit does not multiply that datatype.
        """
        return self.compute.datatype(datatype).macs_per_cycle

    def cycles_per_step(self, datatype: str) -> float:
        """Cycles that one compute unit takes for one matrix product of its intrinsic's shape.

        Raises:
            ModelError: The compute unit does not multiply that datatype.
        """
        return self.compute.macs_per_step / self.macs_per_cycle(datatype)

    def peak_macs_per_cycle(self, datatype: str) -> float:
        """Multiply-accumulates per cycle of the whole chip.

        Raises:
            ModelError: The compute unit does not multiply that datatype.
        """
        return self.macs_per_cycle(datatype) * self.compute.instances

    def vector_pj(self, datatype: str) -> float:
        """Energy of one element-wise operation [pJ].

        Raises:
            ModelError: The arithmetic model does not know the datatype.
        """
        return self.compute.vector_float_pj if is_float(datatype) else self.compute.vector_int_pj

    def source_of(self, quantity: str) -> Provenance:
        """Where one number comes from.

        Raises:
            KeyError: No number has that name.
        """
        for entry in self.provenance:
            if entry.quantity == quantity:
                return entry
        raise KeyError(f"{self.name} has no number '{quantity}'")
