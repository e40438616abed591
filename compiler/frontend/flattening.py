"""From an ONNX model to a flat, shape-inferred `Graph`: one forward walk over the nodes.

Each node's output shapes come from ONNX's own inference for that operator, given the shapes and the
small constants of its inputs; constants are evaluated on the way, so that shapes computed in the
graph are known where they are used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from .contrib import contrib_function
from .control_flow import CONTROL_FLOW, enter_control_flow
from .dims import InputShapes, graph_inputs, is_tensor, resolve_inputs
from .faults import workload_fault
from .graph import Array, Graph, Node, Value
from .inference import RANDOM_OPS, InferenceFailure, fold, infer_outputs, stored_array, tensor_array
from .ordering import node_label, order_nodes
from .scope import Scope, attributes_of, make_value

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

FunctionKey = tuple[str, str, str]


def flatten(
    model: ModelProto,
    file: str,
    shapes: Mapping[str, int] | None = None,
    folder: str | os.PathLike[str] | None = None,
    *,
    keeps_weights: bool = False,
) -> Graph:
    """Flatten a model and infer every shape that does not depend on data.

    Args:
        model: A model that `check_model` accepted.
        file: Its name for messages.
        shapes: Sizes of open dims.
        folder: Where tensors stored outside the file are looked for.
        keeps_weights: Whether values hold the elements of weights of any size.

    Raises:
        WorkloadError: Open dims without a size, or nodes that contradict each other.
    """
    inputs = resolve_inputs(model, shapes or {}, file)
    place = None if folder is None else Path(folder)
    flattener = Flattener(model=model, file=file, sizes=inputs.sizes, folder=place, keeps_weights=keeps_weights)
    return flattener.run(inputs)


@dataclass(slots=True, kw_only=True)
class Flattener:
    """The walk's state: nodes so far, and names that are taken.

    Attributes:
        model: The model.
        file: Its name for messages.
        sizes: Sizes of named dims.
        folder: Where tensors stored outside the file are looked for.
        keeps_weights: Whether values hold the elements of weights of any size.
        nodes: Nodes so far.
        boundary: Values that leave a loop's body.
        notices: Choices made so far.
    """

    model: ModelProto
    file: str
    sizes: Mapping[str, int]
    folder: Path | None
    keeps_weights: bool = False
    nodes: list[Node] = field(default_factory=list[Node])
    boundary: list[Value] = field(default_factory=list[Value])
    notices: list[str] = field(default_factory=list[str])
    _functions: dict[FunctionKey, FunctionProto] = field(default_factory=dict[FunctionKey, "FunctionProto"])
    _calls: list[FunctionKey] = field(default_factory=list[FunctionKey])
    _taken: dict[str, int] = field(default_factory=dict[str, int])

    def run(self, inputs: InputShapes) -> Graph:
        """Walk the whole model."""
        self.notices.extend(inputs.notices)
        self._functions = {(f.domain, f.name, f.overload): f for f in self.model.functions}
        scope = Scope(prefix="", opsets=_opsets(self.model.opset_import))
        fed: list[Value] = []
        for info in graph_inputs(self.model):
            element_type = info.type.tensor_type.elem_type if is_tensor(info.type) else 0
            value = make_value(info.name, (element_type, inputs.shapes.get(info.name)), sizes=self.sizes)
            scope.values[info.name] = value
            fed.append(value)
        outputs = self.walk_graph(self.model.graph, scope)
        return Graph(
            name=self.model.graph.name,
            nodes=tuple(self.nodes),
            inputs=tuple(fed),
            outputs=tuple(outputs),
            boundary=tuple(self.boundary),
            notices=tuple(self.notices),
            file=self.file,
        )

    def walk_graph(self, graph: GraphProto, scope: Scope) -> list[Value]:
        """Walk a graph whose inputs are in `scope` and return its outputs."""
        scope.state(graph.value_info)
        scope.state(graph.output)
        for tensor in graph.initializer:
            scope.values[tensor.name] = make_value(
                scope.prefix + tensor.name,
                (tensor.data_type, tuple(tensor.dims)),
                sizes=self.sizes,
                is_constant=True,
                data=tensor_array(tensor, self.folder),
                stored=stored_array(tensor, self.folder) if self.keeps_weights else None,
            )
        for sparse in graph.sparse_initializer:
            stored = (sparse.values.data_type, tuple(sparse.dims))
            name = sparse.values.name
            scope.values[name] = make_value(scope.prefix + name, stored, sizes=self.sizes, is_constant=True)
        self._walk(graph.node, scope)
        return [self._graph_output(info.name, scope) for info in graph.output]

    def fresh(self) -> Flattener:
        """A walk with its own node list, for a body that may be set aside."""
        return Flattener(
            model=self.model,
            file=self.file,
            sizes=self.sizes,
            folder=self.folder,
            keeps_weights=self.keeps_weights,
            _functions=self._functions,
            _calls=self._calls,
            _taken=self._taken,
        )

    def adopt(self, other: Flattener) -> None:
        """Take over the nodes of a body that does run."""
        self.nodes.extend(other.nodes)
        self.boundary.extend(other.boundary)
        self.notices.extend(other.notices)

    def as_body(self, name: str, outputs: Sequence[Value]) -> Graph:
        """What this walk found, as a graph that may or may not run."""
        return Graph(
            name=name, nodes=tuple(self.nodes), inputs=(), outputs=tuple(outputs), boundary=tuple(self.boundary)
        )

    def node_name(self, proto: NodeProto, scope: Scope) -> str:
        """A name for a node that no other node has."""
        name = scope.prefix + node_label(proto)
        self._taken[name] = self._taken.get(name, 0) + 1
        return name if self._taken[name] == 1 else f"{name}#{self._taken[name]}"

    def _walk(self, protos: Sequence[NodeProto], scope: Scope) -> None:
        for proto in order_nodes(protos, scope.all_names(), self.file):
            self._visit(scope.bind_attributes(proto), scope)

    def _visit(self, proto: NodeProto, scope: Scope) -> None:
        inputs = [scope.find(name) if name else None for name in proto.input]
        proto = _without_absent(proto, inputs)
        name = self.node_name(proto, scope)
        function = self._functions.get((proto.domain, proto.op_type, proto.overload)) or contrib_function(proto)
        if function is not None:
            self._inline(proto, function, inputs, scope, name)
        elif proto.domain in ("", "ai.onnx") and proto.op_type in CONTROL_FLOW:
            enter_control_flow(self, proto, inputs, scope, name)
        else:
            self._visit_plain(proto, inputs, scope, name)

    def _visit_plain(self, proto: NodeProto, inputs: Sequence[Value | None], scope: Scope, name: str) -> None:
        try:
            types = infer_outputs(proto, inputs, scope.opsets, self.model.ir_version)
        except InferenceFailure as error:
            shown = ", ".join(str(value) for value in inputs if value is not None) or "no inputs"
            message = f"does not fit its inputs {shown}: {error}; check the export and --shape"
            raise workload_fault(self.file, message, node=name, op_type=proto.op_type) from error
        arrays = fold(proto, inputs, types, scope.opsets)
        is_constant = proto.op_type not in RANDOM_OPS and all(v is None or v.is_constant for v in inputs)
        outputs: list[Value | None] = []
        for output, inferred, data in zip(proto.output, types, arrays, strict=True):
            value = make_value(
                scope.prefix + output,
                inferred,
                stated=scope.stated.get(output),
                sizes=self.sizes,
                is_constant=is_constant or data is not None,
                data=data,
                stored=self._stored_constant(proto) if self.keeps_weights else None,
            )
            if value.shape is not None and any(size is not None and size < 0 for size in value.shape):
                message = f"output {value} has a negative size: the input is too small; check the export and --shape"
                raise workload_fault(self.file, message, node=name, op_type=proto.op_type)
            outputs.append(value if output else None)
            scope.values[output] = value
        self.add_node(proto, inputs, outputs, scope, name)

    def _stored_constant(self, proto: NodeProto) -> Array | None:
        """Elements of a `Constant` node that holds a tensor."""
        tensors = [a.t for a in proto.attribute if proto.op_type == "Constant" and a.name == "value"]
        return stored_array(tensors[0], self.folder) if tensors else None

    def add_node(
        self,
        proto: NodeProto,
        inputs: Sequence[Value | None],
        outputs: Sequence[Value | None],
        scope: Scope,
        name: str,
        bodies: tuple[Graph, ...] = (),
    ) -> None:
        """Append a node."""
        domain = "" if proto.domain == "ai.onnx" else proto.domain
        node = Node(
            name=name,
            op_type=proto.op_type,
            domain=domain,
            version=scope.opsets.get(domain, 0),
            inputs=tuple(inputs),
            outputs=tuple(outputs),
            attributes=attributes_of(proto),
            count=scope.count,
            bodies=bodies,
        )
        self.nodes.append(node)

    def _inline(
        self, proto: NodeProto, function: FunctionProto, inputs: Sequence[Value | None], scope: Scope, name: str
    ) -> None:
        key = (function.domain, function.name, function.overload)
        if key in self._calls:
            message = f"function {function.name} calls itself; a function may not be recursive"
            raise workload_fault(self.file, message, node=name, op_type=proto.op_type)
        given = {attribute.name: attribute for attribute in proto.attribute}
        defaults = {attribute.name: attribute for attribute in function.attribute_proto}
        inner = Scope(
            prefix=f"{name}/", opsets=_opsets(function.opset_import), count=scope.count, attributes=defaults | given
        )
        padded = [*inputs, *[None] * (len(function.input) - len(inputs))]
        inner.values.update(zip(function.input, padded, strict=False))
        inner.state(function.value_info)
        self._calls.append(key)
        self._walk(function.node, inner)
        self._calls.pop()
        for outer_name, inner_name in zip(proto.output, function.output, strict=False):
            if outer_name:
                scope.values[outer_name] = inner.find(inner_name)

    def _graph_output(self, name: str, scope: Scope) -> Value:
        value = scope.find(name)
        if value is None:
            message = f"output {name!r} is produced by no node, input or weight; export the network again"
            raise workload_fault(self.file, message, node=scope.prefix.rstrip("/"))
        return value


def _without_absent(proto: NodeProto, inputs: Sequence[Value | None]) -> NodeProto:
    """The node with inputs left out that its function was not given."""
    if not any(name and value is None for name, value in zip(proto.input, inputs, strict=True)):
        return proto
    copy = type(proto)()
    copy.CopyFrom(proto)
    copy.input[:] = [name if value is not None else "" for name, value in zip(proto.input, inputs, strict=True)]
    return copy


def _opsets(imports: Sequence[object]) -> dict[str, int]:
    """Versions by domain; a model older than IR version 3 names none and means the first."""
    from onnx import OperatorSetIdProto

    versions = {o.domain: o.version for o in imports if isinstance(o, OperatorSetIdProto)}
    merged = {("" if domain == "ai.onnx" else domain): version for domain, version in versions.items()}
    return merged or {"": 1}
