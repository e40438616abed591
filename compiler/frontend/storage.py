"""How tensors are held in memory: the widths of quantised graphs.

A quantised graph computes in float between `DequantizeLinear` and `QuantizeLinear`, but an integer
machine never stores those floats. A float tensor counts with the quantised width when

* it comes out of `DequantizeLinear`, directly or through nodes that only move or select elements;
* or every reader quantises it at once, directly or after element-wise nodes with constants (bias,
  activation): the rest of the chain belongs to the product that computes it.

`QuantizeLinear` and `DequantizeLinear` themselves are then free; where a float tensor really is in
memory they are vector work.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from .datatypes import Datatype
from .graph import Graph, Node, Value

# Nodes whose output holds elements of their first input, so that it keeps its quantisation.
CARRIERS = frozenset(
    [
        "Clip",
        "DepthToSpace",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "GatherElements",
        "GatherND",
        "GlobalMaxPool",
        "Identity",
        "MaxPool",
        "Relu",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    ]
)
# Element-wise nodes that a product's post-processing can do before it quantises.
EPILOGUES = CARRIERS | frozenset(
    [
        "Add",
        "BatchNormalization",
        "Div",
        "Elu",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Mish",
        "Mul",
        "PRelu",
        "Sigmoid",
        "Softplus",
        "Sub",
        "Swish",
        "Tanh",
    ]
)
# Carriers that do no work of their own, so that nothing can requantise on the way.
VIEWS = frozenset(["Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """How a tensor is quantised: its stored type, and what tells one scale from another."""

    datatype: Datatype
    scale: str


@dataclass(slots=True)
class Storage:
    """Stored types of a graph's values.

    Attributes:
        quantised: Float values that are held quantised.
        free: `QuantizeLinear` and `DequantizeLinear` nodes that move nothing by themselves.
        returned: Values that are read outside the graph.
    """

    quantised: dict[Value, Quantisation] = field(default_factory=dict[Value, Quantisation])
    free: set[Node] = field(default_factory=set[Node])
    returned: frozenset[Value] = frozenset()

    def datatype(self, value: Value) -> Datatype:
        """Type in which the value is held in memory."""
        found = self.quantised.get(value)
        return value.datatype if found is None else found.datatype


def find_storage(graph: Graph) -> Storage:
    """Find how every value of a graph is held in memory."""
    storage = Storage(returned=_find_returned(graph))
    readers: dict[Value, list[Node]] = defaultdict(list)
    makers: dict[Value, Node] = {}
    for node in graph.nodes:
        for value in node.given_inputs:
            readers[value].append(node)
        for value in node.given_outputs:
            makers[value] = node
    for node in graph.nodes:
        _carry_forward(node, storage)
    from_dequantize = set(storage.quantised)
    for node in reversed(graph.nodes):
        for value in node.given_outputs:
            if value.datatype.is_float and value not in storage.quantised and value not in storage.returned:
                _quantise_early(value, readers[value], storage)
    for node in graph.nodes:
        if _is_free(node, storage, from_dequantize, makers):
            storage.free.add(node)
    return storage


def _find_returned(graph: Graph) -> frozenset[Value]:
    """Values that are read outside, seen through views."""
    returned = {*graph.outputs, *graph.boundary}
    for node in reversed(graph.nodes):
        source, result = node.input(0), node.output(0)
        if node.op_type in VIEWS and source is not None and result in returned:
            returned.add(source)
    return frozenset(returned)


def _carry_forward(node: Node, storage: Storage) -> None:
    source = node.input(0)
    if source is None:
        return
    if node.op_type == "DequantizeLinear":
        found = Quantisation(datatype=source.datatype, scale=_scale_key(node))
    elif node.op_type == "Concat":
        kinds = {storage.quantised.get(value) for value in node.given_inputs}
        one = kinds.pop() if len(kinds) == 1 else None
        if one is None:
            return
        found = one
    elif node.op_type in CARRIERS and source in storage.quantised:
        found = storage.quantised[source]
    else:
        return
    is_written = node.op_type in CARRIERS and node.op_type not in VIEWS
    for value in node.given_outputs:
        # a copy that leaves the graph is written as the float that its reader expects
        if value.datatype.is_float and not (is_written and value in storage.returned):
            storage.quantised[value] = found


def _quantise_early(value: Value, readers: list[Node], storage: Storage) -> None:
    kinds = {_reader_kind(value, reader, storage) for reader in readers}
    one = kinds.pop() if len(kinds) == 1 else None
    if one is not None:
        storage.quantised[value] = one


def _reader_kind(value: Value, reader: Node, storage: Storage) -> Quantisation | None:
    """What a reader quantises the value to; None when it needs the float."""
    result = reader.output(0)
    if result is None or reader.input(0) is not value and reader.op_type in CARRIERS:
        return None
    if reader.op_type == "QuantizeLinear":
        if reader.input(0) is not value:
            return None  # it is the scale
        return Quantisation(datatype=result.datatype, scale=_scale_key(reader))
    others = [other for other in reader.given_inputs if other is not value]
    if reader.op_type not in EPILOGUES or not all(other.is_constant for other in others):
        return None
    if len(reader.given_outputs) > 1 or result.datatype != value.datatype:
        return None
    return storage.quantised.get(result)


def _is_free(node: Node, storage: Storage, from_dequantize: set[Value], makers: dict[Value, Node]) -> bool:
    source, result = node.input(0), node.output(0)
    if source is None or result is None:
        return False
    if node.op_type == "DequantizeLinear":
        return result not in storage.returned
    if node.op_type != "QuantizeLinear":
        return False
    kind = storage.quantised.get(source)
    if kind is None:
        return False
    if source not in from_dequantize or not _is_view_of_dequantized(source, makers):
        return True  # whoever computes the tensor writes it quantised
    return kind.scale == _scale_key(node)


def _is_view_of_dequantized(value: Value, makers: dict[Value, Node]) -> bool:
    """Whether nothing but views stands between the value and its `DequantizeLinear`."""
    maker = makers.get(value)
    while maker is not None and maker.op_type in VIEWS:
        source = maker.input(0)
        maker = None if source is None else makers.get(source)
    return maker is not None and maker.op_type == "DequantizeLinear"


def _scale_key(node: Node) -> str:
    """Text that is equal for equal quantisation parameters."""
    parts: list[str] = []
    for value in node.inputs[1:]:
        if value is not None:
            parts.append(value.name if value.data is None else str(value.data.tolist()))
    return "|".join(parts)
