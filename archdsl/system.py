"""Systems: chips, the links between them, their topology and the racks that they stand in."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from .calibration import Calibration
from .fields import ArchName, Count, Flag, Name, SourceText, name_faults
from .gpu import GpuArch
from .spatial import SpatialArch
from .spec import Fault, Spec, nearest_hint
from .topology import AnyConnection, Edges, MemberConnection, Switch
from .units import BandwidthField, Clock, EnergyPerByte, Power, Time

if TYPE_CHECKING:
    import networkx as nx

MAX_CHIPS = 100_000
"""Most chips of a group, and most racks."""

LinkTechnology = Literal["nvlink", "pcie", "infiniband", "ethernet", "ici", "c2c"]
"""What a link is made of; software chooses its protocols by it."""

MAX_EDGES = 1_000_000
"""Most edges of one generator; more is surely a slip."""


class ChipGroup(Spec):
    """Equal chips; they are called `name.0`, `name.1`, ..."""

    name: Name = Field(description="Name of the group.")
    count: Count = Field(default=1, le=MAX_CHIPS, description="Number of chips.")
    arch: Annotated[SpatialArch | GpuArch, Field(discriminator="kind")] = Field(
        description="Architecture: a preset's name, a file relative to this one, or written out here."
    )


class Link(Spec):
    """One kind of link; full duplex, numbers per direction."""

    name: Name = Field(description="Name of the link.")
    bandwidth: BandwidthField = Field(description="Bytes per second and direction.")
    latency_s: Time = Field(
        validation_alias="latency", serialization_alias="latency", description="Time of the first byte [s]."
    )
    energy_pj_per_byte: EnergyPerByte | None = Field(
        default=None,
        validation_alias="energy",
        serialization_alias="energy",
        description="Energy of moving a byte [pJ/B].",
    )
    technology: LinkTechnology | None = Field(default=None, description="What it is made of.")
    is_static: Flag = Field(
        default=False,
        validation_alias="static",
        serialization_alias="static",
        description="Both ends share a clock: no flow control, and the latency never varies, so that a schedule can rely "
        "on the cycle in which a transfer arrives.",
    )
    clock_hz: Clock | None = Field(
        default=None,
        validation_alias="clock",
        serialization_alias="clock",
        description="Clock in whose cycles a static link is scheduled [Hz].",
    )
    source: SourceText = Field(description="Where the constants come from.")

    @property
    def latency_cycles(self) -> int:
        """Cycles of a static link's clock until the first byte arrives, rounded up.

        Raises:
            ValueError: The link is not static.
        """
        if self.clock_hz is None:
            raise ValueError(f"link '{self.name}' is not static, so its latency is no number of cycles")
        return whole_cycles(self.latency_s, self.clock_hz)

    def faults(self) -> Iterator[Fault]:
        if self.bandwidth.per == "cycle" and not self.bandwidth.is_unbounded:
            message = f"{self.bandwidth} depends on a clock, and a link has none; write it like '450 GB/s'"
            yield Fault(("bandwidth",), message)
        if self.is_static and self.clock_hz is None:
            yield Fault(("clock",), "missing field 'clock'; a static link is scheduled in cycles of its clock")
        if self.clock_hz is not None and not self.is_static:
            yield Fault(("clock",), "clock is given, and the link is not static; add 'static: true' or leave it out")


def whole_cycles(time_s: float, clock_hz: float) -> int:
    """Cycles that cover a time; a ten-millionth of a cycle is rounding of the units, not time."""
    return math.ceil(time_s * clock_hz - 1e-7)


class Rack(Spec):
    """Equal racks; they are called `name.0`, `name.1`, ... and take chips from the groups in order."""

    name: Name = Field(description="Name of the racks.")
    count: Count = Field(default=1, le=MAX_CHIPS, description="Number of racks.")
    chips: dict[str, Count] = Field(min_length=1, description="Chips of each group in one rack.")
    power_limit_w: Power | None = Field(
        default=None,
        validation_alias="power_limit",
        serialization_alias="power_limit",
        description="Power that one rack may draw [W].",
    )
    source: str = Field(default="", strict=True, description="Where the power limit comes from.")

    def __hash__(self) -> int:
        return hash((self.name, self.count, tuple(sorted(self.chips.items())), self.power_limit_w))

    def faults(self) -> Iterator[Fault]:
        if self.power_limit_w is not None and not self.source.strip():
            yield Fault(("source",), "missing field 'source' for power_limit; name a data sheet, or 'assumption: ...'")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemEdge:
    """One edge of the topology, without its numbers."""

    left: str
    right: str
    link: str
    num_links: int
    connection_idx: int


class System(Spec):
    """Chips and how they are connected."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    kind: Literal["system"] = Field(description="Marks a system.")
    name: ArchName = Field(description="Name, for reports.")
    description: str = Field(default="", strict=True, description="One sentence for listings.")
    chips: tuple[ChipGroup, ...] = Field(min_length=1, description="Groups of equal chips.")
    links: tuple[Link, ...] = Field(default=(), description="Kinds of links.")
    topology: tuple[AnyConnection, ...] = Field(default=(), description="What is connected to what.")
    racks: tuple[Rack, ...] = Field(default=(), description="Racks, in the order in which they are filled.")
    calibrations: dict[Name, Calibration] = Field(
        default_factory=dict[str, Calibration],
        description="Fitted constants of the models of collectives, by the name of the set.",
    )
    notes: str = Field(default="", strict=True, description="What a reader should know.")

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.chips, self.links, self.topology, self.racks, tuple(sorted(self.calibrations))))

    @cached_property
    def chip_names(self) -> tuple[str, ...]:
        """Every chip, group by group."""
        return tuple(f"{group.name}.{i}" for group in self.chips for i in range(group.count))

    @cached_property
    def rack_chips(self) -> dict[str, tuple[str, ...]]:
        """Chips of every rack."""
        taken: Counter[str] = Counter()
        found: dict[str, tuple[str, ...]] = {}
        for rack in self.racks:
            for rack_idx in range(rack.count):
                inside: list[str] = []
                for group, count in rack.chips.items():
                    inside += [f"{group}.{taken[group] + i}" for i in range(count)]
                    taken[group] += count
                found[f"{rack.name}.{rack_idx}"] = tuple(inside)
        return found

    @cached_property
    def switches(self) -> dict[str, Switch]:
        """Every switch by its name, and the entry that describes it."""
        found: dict[str, Switch] = {}
        for entry in self.topology:
            if isinstance(entry, Switch):
                num_copies = len(self.rack_chips) if entry.per_rack else 0
                names = [f"{entry.name}.{i}" for i in range(num_copies)] if entry.per_rack else [entry.name]
                found |= dict.fromkeys(names, entry)
        return found

    @cached_property
    def switch_names(self) -> tuple[str, ...]:
        """Every switch."""
        return tuple(self.switches)

    def arch_of(self, chip: str) -> SpatialArch | GpuArch:
        """Architecture of a chip.

        Raises:
            KeyError: No chip has that name.
        """
        for group in self.chips:
            if chip.rpartition(".")[0] == group.name and chip in self.chip_names:
                return group.arch
        raise KeyError(f"{self.name} has no chip '{chip}'{nearest_hint(chip, self.chip_names)}")

    def edges(self) -> Iterator[SystemEdge]:
        """Every edge of the topology, in the order of the description."""
        for connection_idx, entry in enumerate(self.topology):
            for left, right, link in self._wires(entry):
                yield SystemEdge(
                    left=left,
                    right=right,
                    link=link,
                    num_links=entry.parallel_links,
                    connection_idx=connection_idx,
                )

    def graph(self) -> nx.MultiGraph[str]:
        """The topology as a graph.

        Returns:
            Nodes: chips (`kind="chip"`, `group`, `arch` (name), `rack` or None) and switches (`kind="switch"`,
            `latency_s`, `reduces`).
            Edges, keyed by link name: `link`, `num_links`, `bandwidth_bytes_per_s` (per direction, of all
            parallel links together), `latency_s`, `energy_pj_per_byte` (None when not given).
        """
        import networkx as nx

        graph: nx.MultiGraph[str] = nx.MultiGraph(name=self.name)
        rack_of = {chip: rack for rack, chips in self.rack_chips.items() for chip in chips}
        for group in self.chips:
            for i in range(group.count):
                chip = f"{group.name}.{i}"
                graph.add_node(chip, kind="chip", group=group.name, arch=group.arch.name, rack=rack_of.get(chip))
        for switch, entry in self.switches.items():
            graph.add_node(switch, kind="switch", latency_s=entry.latency_s, reduces=entry.reduces)
        links = {link.name: link for link in self.links}
        for edge in self.edges():
            link = links[edge.link]
            graph.add_edge(
                edge.left,
                edge.right,
                key=edge.link,
                link=edge.link,
                num_links=edge.num_links,
                bandwidth_bytes_per_s=link.bandwidth.amount * edge.num_links,
                latency_s=link.latency_s,
                energy_pj_per_byte=link.energy_pj_per_byte,
            )
        return graph

    def copies_of(self, entry: MemberConnection) -> tuple[tuple[str, ...], ...]:
        """Ends of every copy of a generator, in order: one copy for all, or one per rack."""
        return tuple(ends for ends, _ in self._copies(entry))

    def _wires(self, entry: AnyConnection) -> Iterator[tuple[str, str, str]]:
        if isinstance(entry, Edges):
            yield from ((left, right, entry.link) for left, right in entry.pairs)
            return
        for ends, suffix in self._copies(entry):
            yield from entry.wires(ends, suffix)

    def _copies(self, entry: MemberConnection) -> list[tuple[tuple[str, ...], str]]:
        """Ends of every copy of a generator, with the copy's suffix."""
        ends = tuple(end for member in entry.members for end in self._expand(member))
        if not entry.per_rack:
            return [(ends, "")]
        rack_of = {chip: idx for idx, chips in enumerate(self.rack_chips.values()) for chip in chips}
        # A switch that every rack has stands in the rack of its number.
        rack_of |= {name: int(name.rpartition(".")[2]) for name in self.switch_names if "." in name}
        inside: list[list[str]] = [[] for _ in self.rack_chips]
        for end in ends:
            if end in rack_of:
                inside[rack_of[end]].append(end)
        return [(tuple(copy), f".{rack_idx}") for rack_idx, copy in enumerate(inside)]

    def _expand(self, member: str) -> tuple[str, ...]:
        """Chips and switches that a member stands for."""
        for group in self.chips:
            if member == group.name:
                return tuple(f"{group.name}.{i}" for i in range(group.count))
        if member in self.rack_chips:
            return self.rack_chips[member]
        copies = tuple(name for name in self.switch_names if name.rpartition(".")[0] == member)
        return copies or (member,)

    def checks(self) -> tuple[Iterator[Fault], ...]:
        return (
            self._name_faults(),
            self._rack_faults(),
            self._link_faults(),
            self._topology_faults(),
        )

    def _name_faults(self) -> Iterator[Fault]:
        yield from name_faults([link.name for link in self.links], ("links",), "link")
        named = [("chips", idx, group.name) for idx, group in enumerate(self.chips)]
        named += [("racks", idx, rack.name) for idx, rack in enumerate(self.racks)]
        named += [("topology", idx, entry.name) for idx, entry in enumerate(self.topology) if isinstance(entry, Switch)]
        taken: dict[str, str] = {}
        for field, idx, name in named:
            if name in taken:
                message = (
                    f"name '{name}' is taken by {taken[name]}; names of chip groups, racks and switches must differ"
                )
                yield Fault((field, idx, "name"), message)
            taken.setdefault(name, f"{field}.{idx}")

    def _rack_faults(self) -> Iterator[Fault]:
        counts = {group.name: group.count for group in self.chips}
        needed: Counter[str] = Counter()
        for rack_idx, rack in enumerate(self.racks):
            for group, count in rack.chips.items():
                at = ("racks", rack_idx, "chips", group)
                if group not in counts:
                    yield Fault(at, f"unknown chip group '{group}'{nearest_hint(group, counts)}")
                    continue
                needed[group] += count * rack.count
                if needed[group] > counts[group]:
                    message = (
                        f"the racks need {needed[group]} chips of group '{group}', which has count {counts[group]}"
                    )
                    yield Fault(at, message)
        for entry_idx, entry in enumerate(self.topology):
            if not isinstance(entry, Edges) and entry.per_rack and not self.racks:
                yield Fault(("topology", entry_idx, "per_rack"), "per_rack is true, and the system has no racks")

    def _link_faults(self) -> Iterator[Fault]:
        names = [link.name for link in self.links]
        for entry_idx, entry in enumerate(self.topology):
            for field, link in entry.link_fields.items():
                if link not in names:
                    yield Fault(("topology", entry_idx, field), f"unknown link '{link}'{nearest_hint(link, names)}")

    def _topology_faults(self) -> Iterator[Fault]:
        """Unknown ends and impossible shapes; where there are none, doubled edges and chips left over."""
        found = False
        for entry_idx, entry in enumerate(self.topology):
            for fault in [*self._end_faults(entry, entry_idx), *self._shape_faults(entry, entry_idx)]:
                found = True
                yield fault
        if not found:
            yield from self._graph_faults()

    def _end_faults(self, entry: AnyConnection, entry_idx: int) -> Iterator[Fault]:
        ends = {*self.chip_names, *self.switch_names}
        if isinstance(entry, Edges):
            places = [(("pairs", i, j), end) for i, pair in enumerate(entry.pairs) for j, end in enumerate(pair)]
        else:
            places = [(("members", i), end) for i, end in enumerate(entry.members)]
            copied = {name.rpartition(".")[0] for name in self.switch_names}
            ends |= {group.name for group in self.chips} | set(self.rack_chips) | (copied - {""})
        for path, end in places:
            if end not in ends:
                yield Fault(("topology", entry_idx, *path), f"unknown end '{end}'{nearest_hint(end, sorted(ends))}")

    def _shape_faults(self, entry: AnyConnection, entry_idx: int) -> Iterator[Fault]:
        if isinstance(entry, Edges) or any(self._end_faults(entry, entry_idx)):
            return
        for ends, _ in self._copies(entry):
            at = ("topology", entry_idx, "members")
            if len(set(ends)) != len(ends):
                twice = next(end for end in ends if ends.count(end) > 1)
                yield Fault(at, f"'{twice}' is a member twice")
            elif entry.num_edges(len(ends)) > MAX_EDGES:
                yield Fault(at, f"{len(ends)} members make more than {MAX_EDGES:,} edges")
            elif fault := entry.fault_over(len(ends)):
                yield Fault(("topology", entry_idx, *fault.path), fault.message)
            else:
                continue
            return

    def _graph_faults(self) -> Iterator[Fault]:
        seen: set[tuple[str, str, str]] = set()
        connected: set[str] = set()
        for edge in self.edges():
            left, right = sorted((edge.left, edge.right))
            connected |= {left, right}
            if (left, right, edge.link) in seen:
                message = f"{left} and {right} are connected by '{edge.link}' twice; use parallel_links for more links"
                yield Fault(("topology", edge.connection_idx), message)
                return
            seen.add((left, right, edge.link))
        alone = [chip for chip in self.chip_names if chip not in connected]
        if self.topology and alone:
            yield Fault(("topology",), f"{alone[0]} is connected to nothing ({len(alone)} such chips)")
