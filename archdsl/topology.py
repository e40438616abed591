"""How the chips of a system are wired: generators of edges between named ends.

An end is a chip (`gpu.0`), a group of chips (`gpu`: all of them in order), a switch (`nvswitch`, or
`nvswitch.0` where every rack has one), or a rack (`rack.0`: its chips).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from .fields import Count, Flag, Name, NumOrZero, missing_source
from .spec import Fault, Spec
from .units import Time

_END = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[0-9]+)?")


def _check_end(text: str) -> str:
    if not _END.fullmatch(text):
        reason = f"'{text}' is not the name of a chip like 'gpu.0', nor of a group, switch or rack"
        raise PydanticCustomError("quantity", "{reason}", {"reason": reason})
    return text


End = Annotated[str, Field(strict=True), AfterValidator(_check_end)]
Edge = tuple[str, str]
Wire = tuple[str, str, str]
"""Both ends and the name of the link."""


class Connection(Spec):
    """What all generators have in common."""

    link: Name = Field(description="Link that every edge of it uses.")
    parallel_links: Count = Field(default=1, description="Links side by side on every edge; bandwidths add.")

    @property
    def link_fields(self) -> dict[str, str]:
        """Every link that it uses, by the field that names it."""
        return {"link": self.link}


class MemberConnection(Connection):
    """A pattern over a list of members."""

    members: tuple[End, ...] = Field(min_length=1, description="What it connects, in order.")
    per_rack: Flag = Field(
        default=False,
        description="One copy in every rack, over those members that stand in it, instead of one for all.",
    )

    def edges(self, ends: tuple[str, ...], suffix: str) -> Iterator[Edge]:
        """The edges over one copy's ends.

        Args:
            ends: Chips and switches, in order.
            suffix: `.0`, `.1`, ... where every rack has its copy, else empty.
        """
        raise NotImplementedError

    def wires(self, ends: tuple[str, ...], suffix: str) -> Iterator[Wire]:
        """The edges over one copy's ends, each with its link."""
        for left, right in self.edges(ends, suffix):
            yield left, right, self.link

    def num_edges(self, num_ends: int) -> int:
        """How many edges there are over so many ends."""
        return num_ends

    def fault_over(self, num_ends: int) -> Fault | None:
        """Why it cannot be built over so many ends; the fault's path starts at this connection."""
        return None


class Ring(MemberConnection):
    """Every member to the next, and the last to the first."""

    kind: Literal["ring"] = Field(description="Marks a ring.")

    def edges(self, ends: tuple[str, ...], suffix: str) -> Iterator[Edge]:
        yield from _line(ends, is_closed=True)


class AllToAll(MemberConnection):
    """Every member to every other."""

    kind: Literal["all_to_all"] = Field(description="Marks direct links between all members.")

    def edges(self, ends: tuple[str, ...], suffix: str) -> Iterator[Edge]:
        yield from combinations(ends, 2)

    def num_edges(self, num_ends: int) -> int:
        return num_ends * (num_ends - 1) // 2


class Torus(MemberConnection):
    """A grid in which the last member of each line connects to the first; the last direction varies fastest."""

    kind: Literal["torus"] = Field(description="Marks a torus or mesh.")
    shape: tuple[Count, ...] = Field(min_length=1, description="Members in each direction.")
    wrap: Flag = Field(default=True, description="False leaves out the links that close the lines: a mesh.")
    wired: tuple[NumOrZero, ...] | None = Field(
        default=None,
        description="Directions that have links, numbered from 0 in the order of `shape`; all when left out.",
    )

    def faults(self) -> Iterator[Fault]:
        for idx, direction in enumerate(self.wired or ()):
            if direction >= len(self.shape):
                message = f"direction {direction} is not in shape, which has directions 0 to {len(self.shape) - 1}"
                yield Fault(("wired", idx), message)

    def edges(self, ends: tuple[str, ...], suffix: str) -> Iterator[Edge]:
        stride = len(ends)
        for direction, size in enumerate(self.shape):
            block, stride = stride, stride // size
            if self.wired is not None and direction not in self.wired:
                continue
            for start in range(0, len(ends), block):
                for offset in range(stride):
                    line = tuple(ends[start + offset + step * stride] for step in range(size))
                    yield from _line(line, self.wrap)

    def num_edges(self, num_ends: int) -> int:
        return num_ends * len(self.shape)

    @property
    def num_members(self) -> int:
        """Members that the shape has room for."""
        return math.prod(self.shape)

    def fault_over(self, num_ends: int) -> Fault | None:
        if self.num_members == num_ends:
            return None
        return Fault(("shape",), f"shape has room for {self.num_members} members, and members name {num_ends}")


class Dragonfly(MemberConnection):
    """Groups of members that are all connected to one another, and every two groups by at least one global link.

    Members are grouped in order. Each has so many global ports; a group's ports go round the other groups evenly, so that
    two groups are connected by as many global links as all others, and ports that are left over stay unused.

    Source: Kim et al., "Technology-driven, highly-scalable dragonfly topology", ISCA 2008; Abts et al., "A
    software-defined tensor streaming multiprocessor for large-scale machine learning", ISCA 2022 (groups of 8 with 4
    global ports each; recalled).
    """

    kind: Literal["dragonfly"] = Field(description="Marks a dragonfly.")
    group_size: Count = Field(description="Members of one group.")
    global_ports: Count = Field(description="Global links of one member.")
    global_link: Name | None = Field(default=None, description="Link between groups; `link` when left out.")

    @property
    def link_fields(self) -> dict[str, str]:
        return {"link": self.link} | ({} if self.global_link is None else {"global_link": self.global_link})

    def edges(self, ends: tuple[str, ...], suffix: str) -> Iterator[Edge]:
        for left, right, _ in self.wires(ends, suffix):
            yield left, right

    def wires(self, ends: tuple[str, ...], suffix: str) -> Iterator[Wire]:
        groups = [ends[start : start + self.group_size] for start in range(0, len(ends), self.group_size)]
        for group in groups:
            for left, right in combinations(group, 2):
                yield left, right, self.link
        for left, right in combinations(range(len(groups)), 2):
            for left_idx, right_idx in self._port_pairs(left, right, len(ends)):
                yield groups[left][left_idx], groups[right][right_idx], self.global_link or self.link

    def _port_pairs(self, left: int, right: int, num_ends: int) -> Iterator[tuple[int, int]]:
        """Members of two groups that a global link joins: each group goes round its members, no two twice."""
        per_pair, size = self.links_per_pair(num_ends), self.group_size
        whole = per_pair // size * size
        for idx in range(per_pair):
            # Of the other groups, the left one sees `right` as number right - 1, and the right one `left` as number left.
            turn = idx // size + 1 if idx < whole else 0
            yield ((right - 1) * per_pair + idx) % size, (left * per_pair + idx + turn) % size

    def links_per_pair(self, num_ends: int) -> int:
        """Global links between any two groups."""
        num_groups = num_ends // self.group_size
        return self.group_size * self.global_ports // (num_groups - 1) if num_groups > 1 else 0

    def num_edges(self, num_ends: int) -> int:
        num_groups = max(num_ends // self.group_size, 1)
        local = num_groups * self.group_size * (self.group_size - 1) // 2
        return local + self.links_per_pair(num_ends) * num_groups * (num_groups - 1) // 2

    def fault_over(self, num_ends: int) -> Fault | None:
        if num_ends % self.group_size:
            return Fault(("group_size",), f"{num_ends} members are no whole number of groups of {self.group_size}")
        num_groups = num_ends // self.group_size
        if num_groups > 1 and not self.links_per_pair(num_ends):
            ports = self.group_size * self.global_ports
            message = f"{num_groups} groups need {num_groups - 1} global ports each; a group has {ports}"
            return Fault(("global_ports",), message)
        return None


class Switch(MemberConnection):
    """Every member to a switch, which is an end of its own."""

    kind: Literal["switch"] = Field(description="Marks a switch.")
    name: Name = Field(description="Name of the switch.")
    latency_s: Time = Field(
        default=0.0,
        validation_alias="latency",
        serialization_alias="latency",
        description="Time from one port to another, beside that of the links [s].",
    )
    reduces: Flag = Field(
        default=False, description="It adds up what its members send and copies results to them (in-network reduction)."
    )
    source: Annotated[str, Field(strict=True)] = Field(default="", description="Where latency and reduction come from.")

    def faults(self) -> Iterator[Fault]:
        given = ["latency"] if self.latency_s else []
        yield from missing_source([*given, *(["reduces"] if self.reduces else [])], self.source)

    def edges(self, ends: tuple[str, ...], suffix: str) -> Iterator[Edge]:
        for end in ends:
            yield end, self.name + suffix


class Edges(Connection):
    """Edges one by one."""

    kind: Literal["edges"] = Field(description="Marks a list of edges.")
    pairs: tuple[Annotated[tuple[End, ...], Field(min_length=2, max_length=2)], ...] = Field(
        min_length=1, description="Both ends of every edge."
    )

    def faults(self) -> Iterator[Fault]:
        for pair_idx, (left, right) in enumerate(self.pairs):
            if left == right:
                yield Fault(("pairs", pair_idx), f"'{left}' is connected to itself")


AnyConnection = Annotated[Ring | AllToAll | Torus | Dragonfly | Switch | Edges, Field(discriminator="kind")]


def _line(ends: tuple[str, ...], is_closed: bool) -> Iterator[Edge]:
    yield from pairwise(ends)
    if is_closed and len(ends) > 2:
        yield ends[-1], ends[0]
