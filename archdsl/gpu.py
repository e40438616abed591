"""GPU architectures: streaming multiprocessors, tensor cores, caches, main memory, launch and power."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from .calibration import Calibration
from .fields import (
    ArchName,
    Count,
    DatatypeName,
    DramTechnology,
    Intrinsic,
    Name,
    SourceText,
    Technology,
    in_order,
)
from .spec import Fault, Spec
from .units import Area, BandwidthField, Bytes, Clock, Cycles, EnergyPerByte, Power, Rate, Time


class GpuClocks(Spec):
    """Clocks of the SMs."""

    base_hz: Clock | None = Field(
        default=None, validation_alias="base", serialization_alias="base", description="Guaranteed clock [Hz]."
    )
    boost_hz: Clock = Field(
        validation_alias="boost",
        serialization_alias="boost",
        description="Clock at which the rates of the data sheet hold [Hz].",
    )
    max_hz: Clock | None = Field(
        default=None,
        validation_alias="max",
        serialization_alias="max",
        description="Clock of a kernel that power does not limit [Hz]; the boost clock when left out.",
    )
    source: SourceText = Field(description="Where the clocks come from.")

    def faults(self) -> Iterator[Fault]:
        if self.base_hz is not None and self.base_hz > self.boost_hz:
            yield Fault(("base",), f"base {self.base_hz / 1e9:g} GHz is above boost {self.boost_hz / 1e9:g} GHz")
        if self.max_hz is not None and self.max_hz < self.boost_hz:
            yield Fault(("max",), f"max {self.max_hz / 1e9:g} GHz is below boost {self.boost_hz / 1e9:g} GHz")


class StreamingMultiprocessor(Spec):
    """One SM (of AMD: one compute unit): what limits how many thread blocks run on it."""

    register_file_bytes: Bytes = Field(
        validation_alias="register_file",
        serialization_alias="register_file",
        description="Registers of one SM [bytes].",
    )
    max_registers_per_thread: Count = Field(default=255, description="Most 32-bit registers of one thread.")
    shared_memory_bytes: Bytes = Field(
        validation_alias="shared_memory",
        serialization_alias="shared_memory",
        description="Most shared memory of one SM [bytes].",
    )
    shared_memory_per_block_bytes: Bytes = Field(
        validation_alias="shared_memory_per_block",
        serialization_alias="shared_memory_per_block",
        description="Most shared memory of one thread block [bytes].",
    )
    max_threads: Count = Field(description="Most threads resident on one SM.")
    max_threads_per_block: Count = Field(default=1024, description="Most threads of one block.")
    max_blocks: Count = Field(default=32, description="Most thread blocks resident on one SM.")
    warp_threads: Count = Field(default=32, description="Threads that issue together.")
    cluster_blocks: Count = Field(
        default=1, description="Thread blocks that share what they load; 1 where there are no clusters."
    )
    source: SourceText = Field(description="Where the limits come from.")

    def faults(self) -> Iterator[Fault]:
        if self.shared_memory_per_block_bytes > self.shared_memory_bytes:
            message = "shared_memory_per_block is above shared_memory, so such a block could never run"
            yield Fault(("shared_memory_per_block",), message)
        if self.max_threads_per_block > self.max_threads:
            yield Fault(("max_threads_per_block",), "max_threads_per_block is above max_threads")


class TensorCoreType(Spec):
    """What the tensor cores do with one datatype."""

    shape: Intrinsic = Field(description="Matrix product of one instruction: its m, n and k.")
    dense_ops_per_s: Rate = Field(
        validation_alias="dense",
        serialization_alias="dense",
        description="Dense rate of the whole chip at the boost clock [op/s], 2 per multiply-accumulate.",
    )
    accumulator_bits: Count = Field(default=32, description="Width of the accumulator [bit].")


class TensorCores(Spec):
    """Matrix units."""

    per_sm: Count = Field(description="Tensor cores of one SM.")
    accumulator_memory_bytes: Bytes | None = Field(
        default=None,
        validation_alias="accumulator_memory",
        serialization_alias="accumulator_memory",
        description="Memory of one SM for accumulators [bytes]; half of the registers when left out.",
    )
    datatypes: Annotated[dict[DatatypeName, TensorCoreType], AfterValidator(in_order)] = Field(
        min_length=1, description="Datatypes that they multiply."
    )
    source: SourceText = Field(description="Where shapes and rates come from.")

    def __hash__(self) -> int:
        return hash((self.per_sm, self.source, tuple(sorted(self.datatypes))))


class VectorUnits(Spec):
    """Units for everything but matrix products."""

    ops_per_s: Annotated[dict[DatatypeName, Rate], AfterValidator(in_order)] = Field(
        min_length=1,
        validation_alias="dense",
        serialization_alias="dense",
        description="Rate of the whole chip at the boost clock per datatype [op/s], a fused multiply-add counting 2.",
    )
    source: SourceText = Field(description="Where the rates come from.")

    def __hash__(self) -> int:
        return hash((self.source, tuple(sorted(self.ops_per_s))))


class GpuCache(Spec):
    """The cache that all SMs share."""

    capacity_bytes: Bytes = Field(
        validation_alias="capacity", serialization_alias="capacity", description="Bytes held."
    )
    read_bandwidth: BandwidthField | None = Field(default=None, description="Bytes read per time, of the whole chip.")
    latency_cycles: Cycles | None = Field(
        default=None, validation_alias="latency", serialization_alias="latency", description="Cycles of a hit."
    )
    line_bytes: Bytes | None = Field(
        default=None, validation_alias="line", serialization_alias="line", description="Bytes of one line."
    )
    partitions: Count = Field(
        default=1, description="Parts that each keep what their own SMs read, so that shared data is held as often."
    )
    source: SourceText = Field(description="Where the constants come from.")


class GpuMainMemory(Spec):
    """Memory outside the die."""

    capacity_bytes: Bytes = Field(
        validation_alias="capacity", serialization_alias="capacity", description="Bytes held."
    )
    bandwidth: BandwidthField = Field(description="Peak bytes per time, reads and writes together.")
    technology: DramTechnology | None = Field(
        default=None, validation_alias="dram", serialization_alias="dram", description="Technology."
    )
    latency_cycles: Cycles | None = Field(
        default=None, validation_alias="latency", serialization_alias="latency", description="Cycles of a cache miss."
    )
    energy_pj_per_byte: EnergyPerByte | None = Field(
        default=None,
        validation_alias="energy",
        serialization_alias="energy",
        description="Energy of moving a byte [pJ/B]; from the component model when left out.",
    )
    source: SourceText = Field(description="Where the constants come from.")


class GpuLaunch(Spec):
    """Cost of starting a kernel."""

    floor_s: Time = Field(
        validation_alias="floor", serialization_alias="floor", description="Time of an empty kernel in a graph [s]."
    )
    source: SourceText = Field(description="Where it comes from.")


class GpuPower(Spec):
    """Power of the whole board or module."""

    limit_w: Power = Field(
        validation_alias="limit", serialization_alias="limit", description="Power at which the clock is throttled [W]."
    )
    idle_w: Power | None = Field(
        default=None, validation_alias="idle", serialization_alias="idle", description="Power when nothing runs [W]."
    )
    source: SourceText = Field(description="Where the powers come from.")

    def faults(self) -> Iterator[Fault]:
        if self.idle_w is not None and self.idle_w >= self.limit_w:
            yield Fault(("idle",), f"idle {self.idle_w:g} W is not below limit {self.limit_w:g} W")


class GpuArch(Spec):
    """A GPU; validated here, modelled by the kernel models."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    kind: Literal["gpu"] = Field(description="Marks a GPU.")
    name: ArchName = Field(description="Name, for reports.")
    description: Annotated[str, Field(strict=True)] = Field(default="", description="One sentence for listings.")
    technology: Technology | None = Field(default=None, description="Process of the die.")
    die_area_mm2: Area | None = Field(
        default=None,
        validation_alias="die_area",
        serialization_alias="die_area",
        description="Area of all dies together [mm^2].",
    )
    clocks: GpuClocks = Field(description="Base and boost clock.")
    num_sms: Count = Field(validation_alias="sms", serialization_alias="sms", description="Number of enabled SMs.")
    sm: StreamingMultiprocessor = Field(description="One SM.")
    tensor_cores: TensorCores = Field(description="Matrix units.")
    vector_units: VectorUnits = Field(description="Units for everything but matrix products.")
    l2: GpuCache = Field(description="Cache shared by all SMs.")
    main_memory: GpuMainMemory = Field(description="Memory outside the die.")
    launch: GpuLaunch = Field(description="Cost of starting a kernel.")
    power: GpuPower = Field(description="Power of the module.")
    generation: Name | None = Field(
        default=None,
        description="Architecture generation, e.g. hopper; chips without measurements borrow constants within one.",
    )
    calibrations: dict[Name, Calibration] = Field(
        default_factory=dict[str, Calibration],
        description="Fitted constants of the kernel models, by the name of the set: conditions of measurement differ.",
    )
    source: SourceText = Field(description="Where the structure comes from.")
    rates_from: Name | None = Field(
        default=None,
        description="Chip whose rates these are, in proportion to SMs and boost clock; filled in where a file extends that chip, "
        "changes these, and gives no rates.",
    )
    notes: Annotated[str, Field(strict=True)] = Field(default="", description="What a reader should know.")

    def __hash__(self) -> int:
        return hash((self.name, self.num_sms, self.clocks, self.main_memory, self.l2, tuple(sorted(self.calibrations))))

    @property
    def clock_hz(self) -> float:
        """The boost clock [Hz], at which the rates of the data sheet hold."""
        return self.clocks.boost_hz

    @property
    def max_clock_hz(self) -> float:
        """The clock of kernels that power does not limit [Hz]."""
        return self.clocks.max_hz if self.clocks.max_hz is not None else self.clocks.boost_hz

    def macs_per_cycle(self, datatype: str) -> float:
        """Dense multiply-accumulates per cycle of one SM's tensor cores.

        Raises:
            KeyError: The tensor cores do not multiply that datatype.
        """
        rate = self.tensor_cores.datatypes[datatype].dense_ops_per_s
        return rate / 2 / self.clocks.boost_hz / self.num_sms
