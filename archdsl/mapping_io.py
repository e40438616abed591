"""Mapping files: read, check their form, write.

A file holds `mapping:` (a list of nodes, for whichever op it is used with) or `mappings:` (one list per op name).
Whether a mapping is legal for an op and an architecture is a separate question.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from .errors import Diagnostic, MappingError
from .fields import Count
from .legality import check_mapping
from .mapping import Keep, Mapping, MappingNode, Spatial, Temporal
from .spatial import SpatialArch
from .spec import Fault, Spec, nearest_hint
from .workload import Op
from .yamlio import FlowMap, dump_yaml, parse_yaml, read_yaml, validate_document
from .yamltree import Document, Path, locate

ANY_OP = ""
"""Key of the one mapping of a file that names no op."""

Text = Annotated[str, Field(strict=True, min_length=1)]


def _check_axis(text: str) -> str:
    if len(text.split(".")) != 2 or not all(text.split(".")):
        reason = f"'{text}' is not an axis; write it as fanout.axis, e.g. 'pe_array.rows'"
        raise PydanticCustomError("quantity", "{reason}", {"reason": reason})
    return text


AxisPath = Annotated[str, Field(strict=True), AfterValidator(_check_axis)]

_LOOP_KINDS = ("keep", "for", "spatial")
_ALLOWED = {"keep": ("keep", "level"), "for": ("for", "tile"), "spatial": ("spatial", "axis", "tile")}


class NodeSpec(Spec):
    """One node of a mapping as it is written: it keeps tensors, or loops in time, or loops in space."""

    keep: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None, description="Tensors that `level` holds from here inward."
    )
    level: Text | None = Field(default=None, description="Memory that keeps them.")
    for_dim: Text | None = Field(
        default=None, validation_alias="for", serialization_alias="for", description="Dim of a temporal loop."
    )
    spatial: Text | None = Field(default=None, description="Dim of a spatial loop.")
    axis: AxisPath | None = Field(default=None, description="Axis of a spatial loop as `fanout.axis`.")
    tile: Count | None = Field(default=None, description="Extent of the dim after the loop.")

    def _given(self) -> dict[str, object]:
        values = {
            "keep": self.keep,
            "for": self.for_dim,
            "spatial": self.spatial,
            "level": self.level,
            "axis": self.axis,
            "tile": self.tile,
        }
        return {name: value for name, value in values.items() if value is not None}

    def faults(self) -> Iterator[Fault]:
        given = self._given()
        kinds = [name for name in _LOOP_KINDS if name in given]
        if len(kinds) != 1:
            seen = " and ".join(kinds) if kinds else "none of them"
            yield Fault((), f"a node has one of keep, for and spatial; this one has {seen}")
            return
        allowed = _ALLOWED[kinds[0]]
        for name in given:
            if name not in allowed:
                yield Fault((name,), f"'{name}' has no meaning in a '{kinds[0]}' node; it takes {', '.join(allowed)}")
        for name in allowed:
            if name not in given:
                yield Fault((name,), f"missing field '{name}' of a '{kinds[0]}' node")

    def node(self) -> MappingNode:
        """The mapping node that this stands for."""
        if self.keep is not None and self.level is not None:
            return Keep(level=self.level, tensors=self.keep)
        assert self.tile is not None
        if self.for_dim is not None:
            return Temporal(dim=self.for_dim, tile=self.tile)
        assert self.spatial is not None and self.axis is not None
        fanout, axis = self.axis.split(".")
        return Spatial(dim=self.spatial, tile=self.tile, fanout=fanout, axis=axis)


NodeSpecs = Annotated[tuple[NodeSpec, ...], Field(min_length=1)]


class MappingSpec(Spec):
    """A mapping file."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    mapping: NodeSpecs | None = Field(default=None, description="Nodes of one mapping, outermost first.")
    mappings: Annotated[dict[str, NodeSpecs], Field(min_length=1)] | None = Field(
        default=None, description="Nodes of the mapping of each op, by op name."
    )

    def faults(self) -> Iterator[Fault]:
        if self.mapping is not None and self.mappings is not None:
            yield Fault(("mappings",), "a file has either mapping or mappings; this one has both")
        if self.mapping is None and self.mappings is None:
            yield Fault(("mapping",), "a file needs mapping (one op) or mappings (by op name)")


@dataclass(frozen=True, slots=True)
class MappingFile:
    """The mappings of a file, with what is needed to point into it.

    Attributes:
        mappings: Mapping per op name; a lone one has the key `ANY_OP`.
    """

    mappings: AbstractMapping[str, Mapping]
    _document: Document

    def diagnostic(self, op: str, node_idx: int, message: str) -> Diagnostic:
        """A fault at one node of one mapping, for whoever checks its legality."""
        path: Path = ("mapping", node_idx) if op == ANY_OP else ("mappings", op, node_idx)
        return locate(self._document.root, path).diagnostic(path, message)

    def mapping_for(self, op: Op, arch: SpatialArch) -> Mapping:
        """The mapping of an op: the file's only one, or the one under the op's name.

        Raises:
            MappingError: The file has none, or it is illegal; each fault is at its node's line.
        """
        key = ANY_OP if ANY_OP in self.mappings else op.name
        if key not in self.mappings:
            place = locate(self._document.root, ("mappings",), key=True)
            message = f"no mapping of op '{op.name}'{nearest_hint(op.name, self.mappings)}"
            raise MappingError("", [place.diagnostic(("mappings",), message)])
        mapping = self.mappings[key]
        faults = check_mapping(mapping, op, arch)
        if faults:
            raise MappingError("", [self.diagnostic(key, fault.node_idx, fault.message) for fault in faults])
        return mapping


def load_mapping(path: FilePath | str) -> dict[str, Mapping]:
    """Read a mapping file.

    Returns:
        Mapping per op name; a file with a lone `mapping:` gives the key `ANY_OP`.

    Raises:
        MappingError: With every fault of the file in its diagnostics.
    """
    return dict(load_mapping_file(path).mappings)


def load_mapping_file(path: FilePath | str) -> MappingFile:
    """Read a mapping file and keep the places of its nodes.

    Raises:
        MappingError: With every fault of the file in its diagnostics.
    """
    return _mapping_file(read_yaml(path, MappingError))


def parse_mapping(text: str, name: str = "<string>") -> dict[str, Mapping]:
    """Read a mapping file's text; see `load_mapping`.

    Raises:
        MappingError: With every fault of the text in its diagnostics.
    """
    return dict(_mapping_file(parse_yaml(text, name, MappingError)).mappings)


def dump_mapping(mapping: Mapping) -> str:
    """A mapping as the text of a file for one op; reads back equal."""
    return dump_yaml({"schema_version": 1, "mapping": _written(mapping)})


def dump_mappings(mappings: AbstractMapping[str, Mapping]) -> str:
    """Mappings by op name as the text of a file; reads back equal."""
    return dump_yaml({"schema_version": 1, "mappings": {op: _written(mapping) for op, mapping in mappings.items()}})


def written_mapping(mapping: Mapping) -> tuple[NodeSpec, ...]:
    """A mapping's nodes as they are written."""
    return tuple(NodeSpec.model_validate(dict(node)) for node in _written(mapping))


def _mapping_file(document: Document) -> MappingFile:
    spec = validate_document(document, MappingSpec, MappingError)
    by_op = {ANY_OP: spec.mapping} if spec.mapping is not None else dict(spec.mappings or {})
    mappings = {op: Mapping(nodes=tuple(node.node() for node in nodes)) for op, nodes in by_op.items()}
    return MappingFile(mappings, document)


def _written(mapping: Mapping) -> list[FlowMap]:
    return [_node(node) for node in mapping.nodes]


def _node(node: MappingNode) -> FlowMap:
    match node:
        case Keep():
            return FlowMap({"keep": list(node.tensors), "level": node.level})
        case Temporal():
            return FlowMap({"for": node.dim, "tile": node.tile})
        case Spatial():
            return FlowMap({"spatial": node.dim, "axis": f"{node.fanout}.{node.axis}", "tile": node.tile})
