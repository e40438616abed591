"""Names in force while a graph is flattened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .datatypes import UNKNOWN, datatype_of
from .dims import Shape, declared_shape, is_tensor
from .graph import Array, Attribute, Value
from .inference import OutputType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onnx import AttributeProto, NodeProto, TypeProto, ValueInfoProto


@dataclass(slots=True, kw_only=True)
class Scope:
    """Tensors, attributes and operator sets that a node list sees.

    Attributes:
        prefix: Put before the names of values and nodes made here.
        opsets: Version of every operator set.
        values: Tensors by their name in the file; None for an optional one that was left out.
        stated: Types that the file states, by name.
        attributes: What references to a function's attributes stand for.
        count: How many times the nodes run.
        outer: Scope whose tensors are seen too; None for a network or a function.
    """

    prefix: str
    opsets: Mapping[str, int]
    count: int = 1
    values: dict[str, Value | None] = field(default_factory=dict[str, Value | None])
    stated: dict[str, TypeProto] = field(default_factory=dict[str, "TypeProto"])
    attributes: Mapping[str, AttributeProto] = field(default_factory=dict[str, "AttributeProto"])
    outer: Scope | None = None

    def nested(self, prefix: str, count: int) -> Scope:
        """A scope for a subgraph, which sees this one's tensors."""
        return Scope(prefix=prefix, opsets=self.opsets, count=count, attributes=self.attributes, outer=self)

    def find(self, name: str) -> Value | None:
        """The tensor of that name; None for an optional input that was left out."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.outer
        return None

    def all_names(self) -> set[str]:
        """Every tensor that can be seen from here."""
        return set(self.values) | (self.outer.all_names() if self.outer else set())

    def state(self, infos: Iterable[ValueInfoProto]) -> None:
        """Remember types that the file states."""
        for info in infos:
            self.stated[info.name] = info.type

    def bind_attributes(self, proto: NodeProto) -> NodeProto:
        """The node with references to its function's attributes replaced by what they stand for."""
        if not any(attribute.ref_attr_name for attribute in proto.attribute):
            return proto
        from onnx import NodeProto

        bound = NodeProto()
        bound.CopyFrom(proto)
        del bound.attribute[:]
        for attribute in proto.attribute:
            if not attribute.ref_attr_name:
                bound.attribute.append(attribute)
                continue
            target = self.attributes.get(attribute.ref_attr_name)
            if target is not None:  # an attribute that the caller left out has the operator's default
                copy = bound.attribute.add()
                copy.CopyFrom(target)
                copy.name = attribute.name
        return bound


def make_value(
    name: str,
    inferred: OutputType,
    *,
    stated: TypeProto | None = None,
    sizes: Mapping[str, int],
    is_constant: bool = False,
    data: Array | None = None,
    stored: Array | None = None,
) -> Value:
    """A value from what inference found, filled up with what the file states.

    Args:
        name: Unique name.
        inferred: Element type and shape from inference.
        stated: Type in the file, if any.
        sizes: Sizes of named dims, for the stated type.
        is_constant: Whether it depends on no network input.
        data: Its elements, when known.
        stored: Its elements whatever their number, when they are to be kept.
    """
    element_type, shape = inferred
    if data is not None:
        shape = tuple(int(size) for size in data.shape)
    if stated is not None and is_tensor(stated):
        element_type = element_type or stated.tensor_type.elem_type
        shape = merge_shapes(shape, declared_shape(stated, sizes))
    datatype = datatype_of(element_type) if element_type else UNKNOWN
    return Value(
        name=name, element_type=element_type, datatype=datatype, shape=shape, is_constant=is_constant, data=data,
        stored=stored,
    )  # fmt: skip


def merge_shapes(inferred: Shape | None, stated: Shape | None) -> Shape | None:
    """The inferred shape with axes that it leaves unknown taken from the stated one."""
    if inferred is None or stated is None or len(inferred) != len(stated):
        return stated if inferred is None else inferred
    return tuple(b if a is None else a for a, b in zip(inferred, stated, strict=True))


def attributes_of(proto: NodeProto) -> dict[str, Attribute]:
    """A node's plain attributes; graphs, tensors and types are left out."""
    from onnx import AttributeProto

    result: dict[str, Attribute] = {}
    for attribute in proto.attribute:
        match attribute.type:
            case AttributeProto.INT:
                result[attribute.name] = attribute.i
            case AttributeProto.FLOAT:
                result[attribute.name] = attribute.f
            case AttributeProto.STRING:
                result[attribute.name] = attribute.s.decode(errors="replace")
            case AttributeProto.INTS:
                result[attribute.name] = tuple(attribute.ints)
            case AttributeProto.FLOATS:
                result[attribute.name] = tuple(attribute.floats)
            case AttributeProto.STRINGS:
                result[attribute.name] = tuple(text.decode(errors="replace") for text in attribute.strings)
            case _:
                continue
    return result
