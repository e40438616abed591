"""What the manifest of a program image says: symbols, memory map, ops, checksums."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from ..mapping import Mapping
from ..mapping_io import NodeSpec
from ..spec import Fault, Spec

SymbolRole = Literal["input", "output", "weight", "parameter"]
Count = Annotated[int, Field(ge=1, strict=True)]
Amount = Annotated[int, Field(ge=0, strict=True)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Scaling(Spec):
    """How integers stand for real numbers: real = scale * (integer - zero_point)."""

    scale: Annotated[float, Field(gt=0, description="Real value of one step.")]
    zero_point: int = Field(default=0, description="The integer that stands for 0.")


class Symbol(Spec):
    """An array in main memory."""

    name: str = Field(min_length=1, description="Name, unique in the image.")
    role: SymbolRole = Field(description="What it is to the program.")
    address: Amount = Field(description="Byte of its first element.")
    shape: Annotated[tuple[Count, ...], Field(min_length=1)] = Field(description="Elements along each axis.")
    strides_bytes: tuple[Amount, ...] = Field(
        description="Bytes from one element to the next along each axis; with 4-bit elements the last axis is packed "
        "two in a byte, the low half first, and its stride is that of bytes."
    )
    element_bits: Literal[4, 8, 32] = Field(description="Width of an element; 32 is little endian.")
    format: Literal["integer", "e4m3", "e5m2"] = Field(
        default="integer",
        description="What elements of 8 bits stand for; floating-point ones are given as their codes.",
    )
    signed: bool = Field(default=True, description="Whether elements are in two's complement.")
    scaling: Scaling | None = Field(default=None, description="What its integers stand for, where that is known.")

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Its shape in stored elements: with 4 bits, in bytes along the last axis."""
        return (*self.shape[:-1], -(-self.shape[-1] // 2)) if self.element_bits == 4 else self.shape

    @property
    def stored_bytes(self) -> int:
        """Bytes of one stored element."""
        return max(1, self.element_bits // 8)

    @property
    def end(self) -> int:
        """First byte behind it."""
        reach = sum((num - 1) * step for num, step in zip(self.stored_shape, self.strides_bytes, strict=True))
        return self.address + reach + self.stored_bytes

    def faults(self) -> Iterator[Fault]:
        if len(self.shape) != len(self.strides_bytes):
            yield Fault(
                ("strides_bytes",),
                f"{self.name}: has {len(self.strides_bytes)} strides for {len(self.shape)} axes of its shape",
            )
        elif self._overlaps():
            yield Fault(("strides_bytes",), f"{self.name}: with strides_bytes and this shape, elements overlap")

    def _overlaps(self) -> bool:
        """Whether two elements share a byte, as far as axes that lie within each other can tell."""
        reach = self.stored_bytes
        axes = sorted((step, num) for step, num in zip(self.strides_bytes, self.stored_shape, strict=True) if num > 1)
        for step, num in axes:
            if step < reach:
                return True
            reach += (num - 1) * step
        return False


class Region(Spec):
    """A part of main memory."""

    name: str = Field(min_length=1, description="What it holds.")
    address: Amount = Field(description="Its first byte.")
    size_bytes: Count = Field(description="Its size.")


class MemoryMap(Spec):
    """How main memory is used."""

    size_bytes: Count = Field(description="Bytes of data.bin; what the program may touch.")
    peak_bytes: Amount = Field(description="First byte behind all regions.")
    regions: tuple[Region, ...] = Field(description="Its parts, by address.")

    def faults(self) -> Iterator[Fault]:
        peak = max((region.address + region.size_bytes for region in self.regions), default=0)
        if peak != self.peak_bytes:
            yield Fault(("peak_bytes",), f"peak_bytes is {self.peak_bytes}, and the regions end at {peak}")
        if peak > self.size_bytes:
            yield Fault(("size_bytes",), f"size_bytes is {self.size_bytes}, and the regions end at {peak}")


class Placement(Spec):
    """An activation that stands in the scratchpad while some ops run."""

    name: str = Field(min_length=1, description="The tensor.")
    address: Amount = Field(description="Its first byte in the scratchpad.")
    size_bytes: Count = Field(description="Its size.")
    first_op: Amount = Field(description="Index of the first op that touches it.")
    last_op: Amount = Field(description="Index of the last one.")


class ScratchpadMap(Spec):
    """What stands in the scratchpad beyond one op."""

    size_bytes: Count = Field(description="Its size.")
    live_bytes: Amount = Field(description="The most bytes of activations at the same time; no plan needs less.")
    placements: tuple[Placement, ...] = Field(default=(), description="Activations, by first op and address.")

    @property
    def peak_bytes(self) -> int:
        """First byte behind all activations."""
        return max((place.address + place.size_bytes for place in self.placements), default=0)

    @property
    def fragmentation(self) -> float:
        """Share of the peak that is lost between activations, 0 to 1."""
        return 1 - self.live_bytes / self.peak_bytes if self.peak_bytes else 0.0

    def faults(self) -> Iterator[Fault]:
        for idx, place in enumerate(self.placements):
            if place.address + place.size_bytes > self.size_bytes:
                yield Fault(
                    ("placements", idx, "address"),
                    f"'{place.name}' ends at byte {place.address + place.size_bytes}, and the scratchpad has {self.size_bytes}",
                )


class LoadRange(Spec):
    """Instructions of the load queue that stand side by side."""

    first: Amount = Field(description="Index of the first one.")
    num: Count = Field(description="How many.")


class OpRecord(Spec):
    """One op of the network, and the instructions that compute it."""

    name: str = Field(min_length=1, description="Name, unique in the image.")
    kind: str = Field(min_length=1, description="What it is, e.g. gemm or conv.")
    dims: dict[str, int] = Field(description="Sizes of its dims, and strides and dilation, as in the short notation.")
    first_instruction: Amount = Field(description="Index of its first instruction.")
    num_instructions: Count = Field(description="How many follow, the first one included.")
    macs: Amount = Field(default=0, description="Multiply-accumulates that it needs.")
    nodes: tuple[str, ...] = Field(default=(), description="Nodes of the network's file that it stands for.")
    bound_cycles: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="The busier of array and bus when neither ever waits and everything moves once."
    )
    compulsory_bytes: Amount | None = Field(
        default=None, description="Inputs, outputs, weights and channel parameters, each once."
    )
    mapping: tuple[NodeSpec, ...] | None = Field(default=None, description="Its mapping, outermost node first.")
    predicted_cycles: Annotated[float, Field(ge=0)] | None = Field(
        default=None, description="Cycles that a model predicted."
    )
    loads: tuple[LoadRange, ...] = Field(
        default=(), description="Its instructions of the load queue, which may stand among those of other ops."
    )
    staging: tuple[Amount, Amount] | None = Field(
        default=None, description="First byte of the scratchpad for what is staged, and first byte behind."
    )

    @property
    def mapping_nodes(self) -> Mapping | None:
        """The mapping as the models take it."""
        return None if self.mapping is None else Mapping(nodes=tuple(node.node() for node in self.mapping))


class Checksums(Spec):
    """SHA-256 of the files beside the manifest, and of what the architecture resolves to."""

    arch: Sha256 = Field(description="Of the resolved architecture in canonical form.")
    program: Sha256 = Field(description="Of program.bin.")
    data: Sha256 = Field(description="Of data.bin.")


class Manifest(Spec):
    """The manifest of a program image."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    arch: str = Field(min_length=1, description="Name of the architecture that the program is for.")
    num_instructions: Count = Field(description="Instructions of program.bin.")
    memory: MemoryMap = Field(description="How main memory is used.")
    symbols: tuple[Symbol, ...] = Field(description="Arrays in main memory.")
    ops: tuple[OpRecord, ...] = Field(default=(), description="Ops in the order of their instructions.")
    scratchpad: ScratchpadMap | None = Field(default=None, description="Activations on chip, where that is known.")
    checksums: Checksums = Field(description="Of the binaries.")

    def faults(self) -> Iterator[Fault]:
        for what, names in (("symbols", [s.name for s in self.symbols]), ("ops", [op.name for op in self.ops])):
            for idx, name in enumerate(names):
                if name in names[:idx]:
                    yield Fault((what, idx, "name"), f"'{name}' is there twice")
        for idx, symbol in enumerate(self.symbols):
            if symbol.end > self.memory.size_bytes:
                yield Fault(
                    ("symbols", idx, "address"),
                    f"symbol '{symbol.name}' ends at byte {symbol.end}, and memory has {self.memory.size_bytes};"
                    " place it lower or enlarge memory.size_bytes",
                )
        for idx, op in enumerate(self.ops):
            if op.first_instruction + op.num_instructions > self.num_instructions:
                yield Fault(
                    ("ops", idx, "num_instructions"),
                    f"op '{op.name}' ends at instruction {op.first_instruction + op.num_instructions}, and the program"
                    f" has {self.num_instructions}",
                )
