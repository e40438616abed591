"""Mappings: how one op's loop nest is tiled, ordered and spread over an architecture.

A mapping lists nodes from the outermost to the innermost. Every dim starts at its full size; a loop
cuts the current extent of its dim into consecutive tiles of `tile` (the last one may be smaller).
A `Keep` node says that its level holds tiles of the named tensors from there inward.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """From here inward `level` holds the current tile of `tensors`."""

    level: str
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporal:
    """Iterate over tiles of `dim` in time; `tile` is the dim's extent after the loop."""

    dim: str
    tile: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spatial:
    """Give tiles of `dim` to the instances along one axis of a fan-out."""

    dim: str
    tile: int
    fanout: str
    axis: str


MappingNode = Keep | Temporal | Spatial
Loop = Temporal | Spatial


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapping:
    """Loop order, tiling, placement and spatial assignment of one op.

    Attributes:
        nodes: Outermost first. The first is a `Keep` of every tensor at the outermost memory.
    """

    nodes: tuple[MappingNode, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops, outermost first."""
        return tuple(node for node in self.nodes if not isinstance(node, Keep))

    def __str__(self) -> str:
        return " ".join(map(_node_text, self.nodes))


def _node_text(node: MappingNode) -> str:
    match node:
        case Keep():
            return f"{node.level}[{','.join(node.tensors)}]"
        case Temporal():
            return f"{node.dim}/{node.tile}"
        case Spatial():
            return f"{node.axis}:{node.dim}/{node.tile}"
