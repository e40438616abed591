"""If, Loop and Scan: entered when the path is known, set aside when it depends on data.

A loop's body is walked once and its nodes carry the number of runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .dims import Shape
from .faults import workload_fault
from .graph import Array, Attribute, Graph, Value, small_ints
from .inference import OutputType
from .scope import Scope, attributes_of, make_value

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

    from .flattening import Flattener

BOOL, INT64 = 9, 7  # ONNX element types
MAX_TRIPS = 10**9  # exporters write "for ever" as the largest integer


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One control-flow node and where it stands."""

    walk: Flattener
    proto: NodeProto
    inputs: Sequence[Value | None]
    scope: Scope
    name: str

    def new_value(self, name: str, inferred: OutputType, data: Array | None = None) -> Value:
        return make_value(f"{self.name}/{name}", inferred, sizes={}, is_constant=data is not None, data=data)

    def graph(self, name: str) -> GraphProto:
        """The subgraph of that name.

        Raises:
            WorkloadError: The node has none.
        """
        for attribute in self.proto.attribute:
            if attribute.name == name and attribute.HasField("g"):
                return attribute.g
        message = f"the node has no {name}; export the network again"
        raise workload_fault(self.walk.file, message, node=self.name, op_type=self.proto.op_type)

    def bind(self, values: Sequence[Value | None]) -> None:
        """Give the node's outputs these values."""
        for output, value in zip(self.proto.output, values, strict=False):
            if output:
                self.scope.values[output] = value

    def set_aside(self, types: Sequence[OutputType], bodies: tuple[Graph, ...]) -> None:
        """Keep the node as it is: its path is not known."""
        scope = self.scope
        outputs = [
            make_value(scope.prefix + output, inferred, stated=scope.stated.get(output), sizes=self.walk.sizes)
            for output, inferred in zip(self.proto.output, types, strict=False)
        ]
        self.bind(outputs)
        self.walk.add_node(self.proto, self.inputs, outputs, scope, self.name, bodies)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """A loop's body and what it is given.

    Attributes:
        graph: The body.
        given: One value per body input.
        carried: Those that one run hands to the next.
        num_leading: Outputs before the carried ones (a Loop's condition).
        trips: Number of runs; None when it depends on data.
        axes: Axis along which each scanned output is stacked; 0 where none is given.
    """

    graph: GraphProto
    given: Sequence[Value | None]
    carried: Sequence[Value | None]
    num_leading: int
    trips: int | None
    axes: Sequence[int] = ()


def visit_if(call: _Call) -> None:
    """Enter the branch that runs, or set both aside."""
    walk, scope = call.walk, call.scope
    branches = {name: call.graph(name) for name in ("then_branch", "else_branch")}
    condition = small_ints(call.inputs[0] if call.inputs else None)
    if condition:
        taken = "then_branch" if condition[0] else "else_branch"
        call.bind(walk.walk_graph(branches[taken], scope.nested(f"{call.name}/", scope.count)))
        return
    bodies: list[Graph] = []
    for branch in ("then_branch", "else_branch"):
        inner = walk.fresh()
        outputs = inner.walk_graph(branches[branch], scope.nested(f"{call.name}/{branch}/", scope.count))
        bodies.append(inner.as_body(branch, outputs))
    types = [_agreed(a, b) for a, b in zip(bodies[0].outputs, bodies[1].outputs, strict=False)]
    call.set_aside(types, tuple(bodies))


def visit_loop(call: _Call) -> None:
    """Enter a loop whose trip count is known and whose carried tensors keep their shapes."""
    limit = small_ints(call.inputs[0] if call.inputs else None)
    start = call.inputs[1] if len(call.inputs) > 1 else None
    starts = (1,) if start is None else small_ints(start)
    initial = call.inputs[2:]
    if starts == (0,) or (limit and limit[0] <= 0):
        empty = [call.new_value(f"empty{idx}", (0, None)) for idx in range(len(call.proto.output) - len(initial))]
        call.bind([*initial, *empty])
        return
    trips = limit[0] if limit and limit[0] <= MAX_TRIPS and starts == (1,) else None
    carried = _carried(call, initial)
    # the condition stays true unless the body changes it, which its first output then shows
    condition = call.new_value("condition", (BOOL, ()), np.array(True) if starts == (1,) else None)
    given = [call.new_value("iteration", (INT64, ())), condition, *carried]
    _walk_body(call, _Body(graph=call.graph("body"), given=given, carried=carried, num_leading=1, trips=trips))


def visit_scan(call: _Call) -> None:
    """Enter a scan: its trip count is the length of the scanned inputs."""
    attributes = attributes_of(call.proto)
    num_scanned = _ints(attributes, "num_scan_inputs", (1,))[0]
    # before operator set 9 a Scan had a leading input of sequence lengths and a batch axis
    is_old = call.scope.opsets.get("", 0) < 9
    inputs = call.inputs[1:] if is_old else call.inputs
    states, scanned = inputs[: len(inputs) - num_scanned], inputs[len(inputs) - num_scanned :]
    axes = _ints(attributes, "scan_input_axes", (0,) * num_scanned)
    lengths = {_axis_size(value, axis) for value, axis in zip(scanned, axes, strict=False)}
    trips = lengths.pop() if len(lengths) == 1 and not is_old else None
    carried = _carried(call, states)
    slices = [
        call.new_value(f"slice{idx}", _without_axis(value, axis))
        for idx, (value, axis) in enumerate(zip(scanned, axes, strict=False))
    ]
    body = _Body(
        graph=call.graph("body"),
        given=[*carried, *slices],
        carried=carried,
        num_leading=0,
        trips=trips or None,
        axes=_ints(attributes, "scan_output_axes", ()),
    )
    _walk_body(call, body)


def enter_control_flow(
    walk: Flattener, proto: NodeProto, inputs: Sequence[Value | None], scope: Scope, name: str
) -> None:
    """Walk into a control-flow node.

    Args:
        walk: The walk that met it.
        proto: The node.
        inputs: Its inputs, in order.
        scope: Names in force around it.
        name: Its name in the flat graph.
    """
    _VISITORS[proto.op_type](_Call(walk=walk, proto=proto, inputs=inputs, scope=scope, name=name))


def _walk_body(call: _Call, body: _Body) -> None:
    scope, inner = call.scope, call.walk.fresh()
    inner_scope = scope.nested(f"{call.name}/", scope.count * (body.trips or 1))
    for info, value in zip(body.graph.input, body.given, strict=False):
        inner_scope.values[info.name] = value
    outputs = inner.walk_graph(body.graph, inner_scope)
    last = body.num_leading + len(body.carried)
    results, scanned = outputs[body.num_leading : last], outputs[last:]
    goes_on = body.num_leading == 0 or small_ints(outputs[0]) == (1,)
    keeps = all(a is not None and a.shape == b.shape for a, b in zip(body.carried, results, strict=False))
    trips = body.trips if goes_on and keeps else None
    axes = [*body.axes, *[0] * (len(scanned) - len(body.axes))]
    types = [_agreed(a, b) for a, b in zip(body.carried, results, strict=False)]
    types += [_stacked(value, trips, axis) for value, axis in zip(scanned, axes, strict=False)]
    if trips is None:
        call.set_aside(types, (inner.as_body("body", outputs),))
        return
    call.walk.adopt(inner)
    call.walk.boundary.extend(outputs)
    names = [f"result{idx}" for idx in range(len(types))]
    call.bind([call.new_value(name, inferred) for name, inferred in zip(names, types, strict=True)])


def _carried(call: _Call, initial: Sequence[Value | None]) -> list[Value | None]:
    return [
        None if value is None else call.new_value(f"carried{idx}", (value.element_type, value.shape))
        for idx, value in enumerate(initial)
    ]


def _agreed(a: Value | None, b: Value | None) -> OutputType:
    """What two alternatives for one value have in common."""
    if a is None or b is None or a.element_type != b.element_type:
        return (0, None)
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return (a.element_type, None)
    return (a.element_type, tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True)))


def _stacked(value: Value, trips: int | None, axis: int) -> OutputType:
    if value.shape is None:
        return (value.element_type, None)
    place = axis if axis >= 0 else axis + len(value.shape) + 1
    return (value.element_type, (*value.shape[:place], trips, *value.shape[place:]))


def _without_axis(value: Value | None, axis: int) -> OutputType:
    if value is None or not value.shape:
        return (0, None)
    place = axis % len(value.shape)
    return (value.element_type, _drop(value.shape, place))


def _drop(shape: Shape, place: int) -> Shape:
    return shape[:place] + shape[place + 1 :]


def _axis_size(value: Value | None, axis: int) -> int | None:
    return value.shape[axis % len(value.shape)] if value is not None and value.shape else None


def _ints(attributes: Mapping[str, Attribute], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    value = attributes.get(name, default)
    if isinstance(value, int):
        return (value,)
    return tuple(int(x) for x in value) if isinstance(value, tuple) else default


_VISITORS: Mapping[str, Callable[[_Call], None]] = {"If": visit_if, "Loop": visit_loop, "Scan": visit_scan}
CONTROL_FLOW = frozenset(_VISITORS)
