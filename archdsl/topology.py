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

from .fields import Count, Flag, Name
from .spec import Fault, Spec

_END = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[0-9]+)?")


def _check_end(text: str) -> str:
    if not _END.fullmatch(text):
        reason = f"'{text}' is not the name of a chip like 'gpu.0', nor of a group, switch or rack"
        raise PydanticCustomError("quantity", "{reason}", {"reason": reason})
    return text


End = Annotated[str, Field(strict=True), AfterValidator(_check_end)]
Edge = tuple[str, str]


class Connection(Spec):
    """What all generators have in common."""

    link: Name = Field(description="Link that every edge of it uses.")
    parallel_links: Count = Field(default=1, description="Links side by side on every edge; bandwidths add.")


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

    def num_edges(self, num_ends: int) -> int:
        """How many edges there are over so many ends."""
        return num_ends


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

    def edges(self, ends: tuple[str, ...], suffix: str) -> Iterator[Edge]:
        stride = len(ends)
        for size in self.shape:
            block, stride = stride, stride // size
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


class Switch(MemberConnection):
    """Every member to a switch, which is an end of its own."""

    kind: Literal["switch"] = Field(description="Marks a switch.")
    name: Name = Field(description="Name of the switch.")

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


AnyConnection = Annotated[Ring | AllToAll | Torus | Switch | Edges, Field(discriminator="kind")]


def _line(ends: tuple[str, ...], is_closed: bool) -> Iterator[Edge]:
    yield from pairwise(ends)
    if is_closed and len(ends) > 2:
        yield ends[-1], ends[0]
