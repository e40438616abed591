"""The nodes of a spatial architecture: memories, fan-outs, and the compute unit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .fields import (
    Count,
    DatatypeName,
    DramTechnology,
    Flag,
    Intrinsic,
    Name,
    NumOrZero,
    in_order,
    missing_source,
    name_faults,
    repeat_faults,
)
from .spec import Fault, Spec, nearest_hint
from .units import (
    Area,
    BandwidthField,
    Bits,
    Bytes,
    Capacity,
    Cycles,
    Energy,
    EnergyPerByte,
)
from .workload import DimClass, TensorRole

ALL_ROLES = (TensorRole.INPUT, TensorRole.WEIGHT, TensorRole.OUTPUT)
ALL_DIM_CLASSES = (DimClass.REDUCTION, DimClass.OUTPUT_CHANNEL, DimClass.PIXEL, DimClass.GROUP)
MemoryClass = Literal["main_memory", "scratchpad", "cache", "register_file"]


class Ports(Spec):
    """Access points of one bank; reads and writes on `read_write` ports take turns."""

    read: NumOrZero = Field(default=0, description="Ports that only read.")
    write: NumOrZero = Field(default=0, description="Ports that only write.")
    read_write: NumOrZero = Field(default=0, description="Ports that read or write.")

    def faults(self) -> Iterator[Fault]:
        if self.read + self.read_write == 0:
            yield Fault(("read",), "read and read_write are both 0, so nothing can be read")
        if self.write + self.read_write == 0:
            yield Fault(("write",), "write and read_write are both 0, so nothing can be written")


MEMORY_CONSTANTS = (
    "read_bandwidth",
    "write_bandwidth",
    "read_energy_pj_per_byte",
    "write_energy_pj_per_byte",
    "area_mm2",
    "latency_cycles",
)
"""Fields of a memory that need a source."""

_FAULTY = object()


class Memory(Spec):
    """One level of memory. Capacity, bandwidth and area are per instance."""

    kind: Literal["memory"] = Field(description="Marks a memory.")
    name: Name = Field(description="Unique name, used in mappings and overrides.")
    memory_class: MemoryClass = Field(
        validation_alias="class", serialization_alias="class", description="What sort of memory it is."
    )
    capacity_bytes: Capacity = Field(
        validation_alias="capacity", serialization_alias="capacity", description="Bytes that one instance holds."
    )
    keeps: tuple[TensorRole, ...] = Field(default=ALL_ROLES, min_length=1, description="Tensor roles it may hold.")
    must_keep: tuple[TensorRole, ...] = Field(default=(), description="Roles that a mapping may not bypass here.")
    width_bits: Bits | None = Field(
        default=None,
        validation_alias="width",
        serialization_alias="width",
        description="Bits that one bank moves per port and cycle.",
    )
    banks: Count = Field(default=1, description="Independently addressed parts of one instance.")
    ports: Ports = Field(default=Ports(read_write=1), description="Ports of one bank.")
    read_bandwidth: BandwidthField | None = Field(
        default=None, description="Bytes read per time; follows from width, banks and ports when left out."
    )
    write_bandwidth: BandwidthField | None = Field(
        default=None, description="Bytes written per time; follows from width, banks and ports when left out."
    )
    read_energy_pj_per_byte: EnergyPerByte | None = Field(
        default=None,
        validation_alias="read_energy",
        serialization_alias="read_energy",
        description="Energy of reading [pJ/B]; from the component model when left out.",
    )
    write_energy_pj_per_byte: EnergyPerByte | None = Field(
        default=None,
        validation_alias="write_energy",
        serialization_alias="write_energy",
        description="Energy of writing [pJ/B]; from the component model when left out.",
    )
    area_mm2: Area | None = Field(
        default=None,
        validation_alias="area",
        serialization_alias="area",
        description="Area of one instance [mm^2]; from the component model when left out.",
    )
    latency_cycles: Cycles = Field(
        default=1,
        validation_alias="latency",
        serialization_alias="latency",
        description="Cycles from request to first data.",
    )
    double_buffered: Flag = Field(
        default=False, description="A tile must fit twice, and its transfer overlaps the computation."
    )
    min_transfer_bytes: Bytes = Field(
        default=1,
        validation_alias="min_transfer",
        serialization_alias="min_transfer",
        description="Least bytes of one access; shorter ones are rounded up.",
    )
    keeps_tiles: Flag = Field(
        default=True,
        description=(
            "A tile that the next step needs again stays; false when every step of the loops above moves its tiles anew. "
            "Only the detailed latency looks at it."
        ),
    )
    skips_holes: Flag = Field(
        default=True,
        description=(
            "Moving a tile leaves out what a strided window jumps over; false when whole boxes are moved. "
            "Only the detailed latency looks at it."
        ),
    )
    channels_last: Flag = Field(
        default=False,
        description=(
            "Activations stand with their channels side by side, every row of pixels from a `min_transfer` on; false when "
            "they stand as the network gives them. Only the detailed latency looks at it, of a memory that serves others."
        ),
    )
    packs_weights: Flag = Field(
        default=False,
        description=(
            "Weights stand in the order in which tiles are read, so that a tile is one row; false when they stand as the "
            "network gives them. Only the detailed latency looks at it, of a memory that serves others."
        ),
    )
    technology: DramTechnology | None = Field(
        default=None,
        validation_alias="dram",
        serialization_alias="dram",
        description="Main memory's technology; selects the component model.",
    )
    source: str = Field(default="", strict=True, description="Where the physical constants come from.")

    def checks(self) -> tuple[Iterator[Fault], ...]:
        return (
            repeat_faults(self, "keeps"),
            repeat_faults(self, "must_keep"),
            self._must_keep_faults(),
            self._dram_faults(),
            self._bandwidth_faults(),
            self._source_faults(),
        )

    def _source_faults(self) -> Iterator[Fault]:
        fields = type(self).model_fields
        # A constant that is faulty is missing here, and needs a source all the same.
        given = [
            str(fields[name].validation_alias or name)
            for name in MEMORY_CONSTANTS
            if getattr(self, name, _FAULTY) != fields[name].default
        ]
        yield from missing_source(given, self.source)

    def _must_keep_faults(self) -> Iterator[Fault]:
        for role_idx, role in enumerate(self.must_keep):
            if role not in self.keeps:
                kept = ", ".join(self.keeps)
                yield Fault(("must_keep", role_idx), f"must_keep names {role}, which keeps ({kept}) leaves out")

    def _dram_faults(self) -> Iterator[Fault]:
        if self.technology is not None and self.memory_class != "main_memory":
            yield Fault(("dram",), f"dram is for class main_memory, and class is {self.memory_class}")

    def _bandwidth_faults(self) -> Iterator[Fault]:
        if self.width_bits is None and None in (self.read_bandwidth, self.write_bandwidth):
            lacking = "read_bandwidth" if self.read_bandwidth is None else "write_bandwidth"
            yield Fault((lacking,), f"give {lacking} (it may be 'unbounded'), or the width from which it follows")

    @property
    def derived_read_bytes_per_cycle(self) -> float:
        """Bytes read per cycle by width, banks and ports; infinite without a width."""
        return self._derived(self.ports.read + self.ports.read_write)

    @property
    def derived_write_bytes_per_cycle(self) -> float:
        """Bytes written per cycle by width, banks and ports; infinite without a width."""
        return self._derived(self.ports.write + self.ports.read_write)

    def _derived(self, num_ports: int) -> float:
        return math.inf if self.width_bits is None else self.width_bits * self.banks * num_ports / 8


class Axis(Spec):
    """One direction in which a fan-out repeats what lies below it."""

    name: Name = Field(description="Name, unique in its fan-out.")
    size: Count = Field(description="Number of instances along it.")
    multicast: Flag = Field(default=True, description="One read from above serves all instances that need the value.")
    reduction: Flag = Field(default=True, description="Partial sums are added on their way up.")
    network: Literal["broadcast", "systolic"] = Field(
        default="broadcast", description="Values reach all instances at once, or pass from neighbour to neighbour."
    )
    dim_classes: tuple[DimClass, ...] = Field(
        default=ALL_DIM_CLASSES,
        min_length=1,
        validation_alias="carries",
        serialization_alias="carries",
        description="Classes of dims that a mapping may spread over it.",
    )
    alone_classes: tuple[DimClass, ...] = Field(
        default=(),
        validation_alias="carries_alone",
        serialization_alias="carries_alone",
        description=(
            "Classes, of those it carries, that a mapping may spread over it only while the fan-out's other axes carry nothing, "
            "and that pass the array by: a vector unit with one lane per place, which loads no stationary tiles. Only `group` can be: "
            "a lane has inputs, weights and outputs of its own."
        ),
    )
    hop_energy_pj_per_byte: EnergyPerByte | None = Field(
        default=None,
        validation_alias="hop_energy",
        serialization_alias="hop_energy",
        description="Energy of moving a byte to the next instance [pJ/B].",
    )

    def faults(self) -> Iterator[Fault]:
        yield from repeat_faults(self, "dim_classes")
        yield from repeat_faults(self, "alone_classes")
        for idx, dim_class in enumerate(self.alone_classes):
            if dim_class is not DimClass.GROUP:
                yield Fault(
                    ("carries_alone", idx),
                    f"carries_alone names {dim_class}, which no lane computes: each has inputs, weights and outputs of its own, as"
                    " only group dims do; take it out here",
                )
            elif dim_class not in self.dim_classes:
                carried = ", ".join(self.dim_classes)
                yield Fault(
                    ("carries_alone", idx),
                    f"carries_alone names {dim_class}, which carries ({carried}) leaves out; add it there, or take it out here",
                )


class Fanout(Spec):
    """Repeats everything below it along its axes."""

    kind: Literal["fanout"] = Field(description="Marks a fan-out.")
    name: Name = Field(description="Unique name, used in mappings and overrides.")
    axes: tuple[Axis, ...] = Field(min_length=1, description="Its axes.")
    source: str = Field(default="", strict=True, description="Where the physical constants come from.")

    def checks(self) -> tuple[Iterator[Fault], ...]:
        return self._axis_faults(), self._alone_faults(), self._source_faults()

    def _alone_faults(self) -> Iterator[Fault]:
        for idx, axis in enumerate(self.axes):
            for class_idx, dim_class in enumerate(axis.alone_classes):
                others = [other.name for other in self.axes if other is not axis and dim_class in other.dim_classes]
                if others:
                    message = f"carries_alone names {dim_class}, which axis {others[0]} carries too; take it out there"
                    yield Fault(("axes", idx, "carries_alone", class_idx), message)

    def _axis_faults(self) -> Iterator[Fault]:
        yield from name_faults([axis.name for axis in self.axes], ("axes",), "axis")

    def _source_faults(self) -> Iterator[Fault]:
        given = [f"axes.{axis.name}.hop_energy" for axis in self.axes if axis.hop_energy_pj_per_byte is not None]
        yield from missing_source(given, self.source)

    @property
    def num_instances(self) -> int:
        """Instances of what lies below, per instance of the fan-out."""
        return math.prod(axis.size for axis in self.axes)

    def axis(self, name: str) -> Axis:
        """The axis of that name.

        Raises:
            KeyError: No axis has that name.
        """
        for axis in self.axes:
            if axis.name == name:
                return axis
        raise KeyError(f"fan-out {self.name} has no axis '{name}'{nearest_hint(name, [a.name for a in self.axes])}")


class ComputeType(Spec):
    """What one compute unit does with one datatype."""

    macs_per_cycle: Annotated[float, Field(strict=True, gt=0)] | None = Field(
        default=None, description="Multiply-accumulates per cycle; m*n*k of the intrinsic when left out."
    )
    energy_pj_per_mac: Energy | None = Field(
        default=None,
        validation_alias="energy",
        serialization_alias="energy",
        description="Energy of one multiply-accumulate [pJ]; from the component model when left out.",
    )
    accumulator_bits: Count | None = Field(
        default=None, description="Width of the accumulator [bit]; the op decides when left out."
    )
    fixed_point_sum: Flag = Field(
        default=False,
        description="Sums of floating-point products are kept exactly, as fixed-point numbers of `accumulator_bits`.",
    )


class Compute(Spec):
    """The compute unit at the bottom: what one PE has beside its registers."""

    kind: Literal["compute"] = Field(description="Marks the compute unit.")
    name: Name = Field(description="Unique name, used in overrides.")
    intrinsic: Intrinsic = Field(default=Intrinsic(), description="Matrix product done at once.")
    datatypes: Annotated[dict[DatatypeName, ComputeType], AfterValidator(in_order)] = Field(
        min_length=1, description="Datatypes that it multiplies, with rate and energy."
    )
    area_mm2: Area | None = Field(
        default=None,
        validation_alias="area",
        serialization_alias="area",
        description="Area of one instance [mm^2]; from the component model when left out.",
    )
    stationary: Literal["none", "weight", "input", "output"] = Field(
        default="none", description="What the PE array holds; a systolic array's fill and drain follow from it."
    )
    preload: Literal["exposed", "shadowed"] = Field(
        default="exposed", description="Loading the stationary tensor stops the array, or hides in shadow registers."
    )
    instruction_steps: Count | None = Field(
        default=None,
        description="Most steps that one instruction to the PE array covers; a whole pass when left out.",
    )
    min_instruction_cycles: Cycles = Field(
        default=1,
        validation_alias="min_instruction",
        serialization_alias="min_instruction",
        description="Least cycles between the starts of two instructions.",
    )
    max_in_flight: Count | None = Field(
        default=None, description="Instructions that may be in the PE array at once; no limit when left out."
    )
    vector_lanes: NumOrZero = Field(
        default=0, description="Element-wise operations per cycle of the whole chip; 0 when it has no vector unit."
    )
    source: str = Field(default="", strict=True, description="Where the physical constants come from.")

    def __hash__(self) -> int:
        return hash((self.name, self.intrinsic, tuple(sorted(self.datatypes)), self.area_mm2))

    def checks(self) -> tuple[Iterator[Fault], ...]:
        return self._preload_faults(), self._source_faults()

    def _preload_faults(self) -> Iterator[Fault]:
        if self.preload == "shadowed" and self.stationary == "none":
            yield Fault(
                ("preload",), "preload is shadowed, and stationary is none: nothing is there to be loaded ahead"
            )

    def _source_faults(self) -> Iterator[Fault]:
        given = [
            f"datatypes.{name}.energy" for name, kind in self.datatypes.items() if kind.energy_pj_per_mac is not None
        ]
        yield from missing_source([*given, "area"] if self.area_mm2 is not None else given, self.source)

    def macs_per_cycle(self, datatype: str) -> float:
        """Multiply-accumulates per cycle of one instance.

        Raises:
            KeyError: The unit does not multiply that datatype.
        """
        rate = self.datatypes[datatype].macs_per_cycle
        return self.intrinsic.macs if rate is None else rate


Node = Annotated[Memory | Fanout | Compute, Field(discriminator="kind")]
