"""Spatial architectures: memories, fan-outs and one compute unit, outermost first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from .fields import ArchName, Count, SourceText, Technology, name_faults
from .nodes import ALL_ROLES, Compute, Fanout, Memory, Node
from .spec import Fault, Spec, nearest_hint
from .units import Bandwidth, Clock

__all__ = ["Compute", "Fanout", "Memory", "Node", "SpatialArch"]


class Control(Spec):
    """How the tensor PE array is controlled; an architecture that has this can be built as RTL."""

    queue_depth: Count = Field(default=8, description="Instructions that wait in each of the three queues.")
    loads_in_flight: Count = Field(default=4, description="Loads whose data may be outstanding.")
    requests_in_flight: Count = Field(default=16, description="Rows that main memory may be asked for ahead.")
    parameter_slots: Annotated[Count, Field(le=16)] = Field(
        default=4, description="Sets of channel parameters (bias, multiplier, shift) of post-processing."
    )
    table_slots: Annotated[Count, Field(le=7)] = Field(
        default=2, description="Tables of 256 elements in which post-processing looks results up."
    )
    rounding: Literal["half_to_even", "half_away"] = Field(
        default="half_to_even", description="How requantisation rounds ties."
    )
    fp8_format: Literal["e4m3", "e5m2"] = Field(
        default="e4m3", description="Which of the formats of 8 bits an array of datatype fp8 multiplies."
    )


class SpatialArch(Spec):
    """A spatial architecture: a chain of memories and fan-outs down to one kind of compute unit."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    kind: Literal["spatial"] = Field(description="Marks a spatial architecture.")
    name: ArchName = Field(description="Name, for reports.")
    description: str = Field(default="", strict=True, description="One sentence for listings.")
    clock_hz: Clock = Field(
        validation_alias="clock", serialization_alias="clock", description="Clock of the chip [Hz]."
    )
    technology: Technology = Field(description="Process that the component models use.")
    hierarchy: tuple[Node, ...] = Field(min_length=2, description="Memories, fan-outs and compute, outermost first.")
    control: Control | None = Field(default=None, description="Control of the tensor PE array; left out for others.")
    source: SourceText = Field(description="Where the clock and the structure come from.")
    notes: str = Field(default="", strict=True, description="What a reader should know.")

    def checks(self) -> tuple[Iterator[Fault], ...]:
        return self._name_faults(), self._first_faults(), self._compute_faults()

    def _name_faults(self) -> Iterator[Fault]:
        yield from name_faults([node.name for node in self.hierarchy], ("hierarchy",), "node")

    def _first_faults(self) -> Iterator[Fault]:
        first = self.hierarchy[0]
        if not isinstance(first, Memory):
            yield Fault(("hierarchy", 0, "kind"), f"the first node must be a memory, not {first.kind}")
        elif set(first.keeps) != set(ALL_ROLES):
            lacking = ", ".join(role for role in ALL_ROLES if role not in first.keeps)
            yield Fault(("hierarchy", 0, "keeps"), f"the first memory must keep all roles; it leaves out {lacking}")

    def _compute_faults(self) -> Iterator[Fault]:
        last_idx = len(self.hierarchy) - 1
        for node_idx, node in enumerate(self.hierarchy):
            if node_idx == last_idx and not isinstance(node, Compute):
                yield Fault(("hierarchy", last_idx, "kind"), f"the last node must be the compute unit, not {node.kind}")
            elif 0 < node_idx < last_idx and isinstance(node, Compute):
                yield Fault(("hierarchy", node_idx, "kind"), "only the last node may be a compute unit")

    @property
    def memories(self) -> tuple[Memory, ...]:
        """The memories, outermost first."""
        return tuple(node for node in self.hierarchy if isinstance(node, Memory))

    @property
    def fanouts(self) -> tuple[Fanout, ...]:
        """The fan-outs, outermost first."""
        return tuple(node for node in self.hierarchy if isinstance(node, Fanout))

    @property
    def compute(self) -> Compute:
        """The compute unit."""
        last = self.hierarchy[-1]
        assert isinstance(last, Compute)
        return last

    def node(self, name: str) -> Memory | Fanout | Compute:
        """The node of that name.

        Raises:
            KeyError: No node has that name.
        """
        for node in self.hierarchy:
            if node.name == name:
                return node
        raise KeyError(f"{self.name} has no node '{name}'{nearest_hint(name, [n.name for n in self.hierarchy])}")

    def instances(self, name: str) -> int:
        """How many instances of a node the chip has: the product of all fan-outs above it.

        Raises:
            KeyError: No node has that name.
        """
        self.node(name)
        count = 1
        for node in self.hierarchy:
            if node.name == name:
                break
            if isinstance(node, Fanout):
                count *= node.num_instances
        return count

    @property
    def num_pes(self) -> int:
        """Number of compute units."""
        return self.instances(self.compute.name)

    def bytes_per_cycle(self, bandwidth: Bandwidth) -> float:
        """A bandwidth in bytes per cycle of this chip's clock; infinite when unbounded."""
        return bandwidth.bytes_per_cycle(self.clock_hz)

    def read_bytes_per_cycle(self, memory: Memory) -> float:
        """Bytes that one instance reads per cycle: as given, else by width, banks and ports."""
        given = memory.read_bandwidth
        return memory.derived_read_bytes_per_cycle if given is None else self.bytes_per_cycle(given)

    def write_bytes_per_cycle(self, memory: Memory) -> float:
        """Bytes that one instance writes per cycle: as given, else by width, banks and ports."""
        given = memory.write_bandwidth
        return memory.derived_write_bytes_per_cycle if given is None else self.bytes_per_cycle(given)
