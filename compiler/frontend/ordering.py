"""Order of a graph's nodes: ONNX asks for sorted nodes, files do not always keep to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...archdsl import Diagnostic, WorkloadError, nearest_hint
from .faults import fault

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto


def node_label(proto: NodeProto) -> str:
    """Name of a node for people: its own, or its operator and first output."""
    if proto.name:
        return proto.name
    outputs = [name for name in proto.output if name]
    return f"{proto.op_type}:{outputs[0]}" if outputs else proto.op_type


def names_used(proto: NodeProto) -> set[str]:
    """Tensors that a node reads, those that its subgraphs take from outside included."""
    names = {name for name in proto.input if name}
    for graph in subgraphs(proto):
        names |= _captured(graph)
    return names


def subgraphs(proto: NodeProto) -> list[GraphProto]:
    """Graphs among a node's attributes."""
    found: list[GraphProto] = []
    for attribute in proto.attribute:
        if attribute.HasField("g"):
            found.append(attribute.g)
        found.extend(attribute.graphs)
    return found


def order_nodes(protos: Sequence[NodeProto], known: Iterable[str], file: str) -> list[NodeProto]:
    """Nodes in an order in which each finds its inputs.

    Args:
        protos: In the file's order, which is kept where it is right.
        known: Tensors that are there before the first node.
        file: Name for messages.

    Raises:
        WorkloadError: A tensor is produced twice or never, or nodes wait for each other.
    """
    available = set(known)
    needs = [names_used(proto) for proto in protos]
    makers = _find_makers(protos, available, file)
    _check_sources(protos, needs, available | makers.keys(), file)
    if _is_ordered(protos, needs, set(available)):
        return list(protos)
    waiting = [{name for name in need if name not in available} for need in needs]
    readers: dict[str, list[int]] = {}
    for idx, need in enumerate(waiting):
        for name in need:
            readers.setdefault(name, []).append(idx)
    ready = deque(idx for idx, need in enumerate(waiting) if not need)
    ordered: list[NodeProto] = []
    while ready:
        proto = protos[ready.popleft()]
        ordered.append(proto)
        for name in proto.output:
            for idx in readers.get(name, ()):
                waiting[idx].discard(name)
                if not waiting[idx]:
                    ready.append(idx)
    if len(ordered) < len(protos):
        raise WorkloadError(diagnostics=[_cycle_fault(protos, waiting, makers, file)])
    return ordered


def _captured(graph: GraphProto) -> set[str]:
    inside = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    used = {value.name for value in graph.output}
    for proto in graph.node:
        inside |= set(proto.output)
        used |= names_used(proto)
    return used - inside


def _find_makers(protos: Sequence[NodeProto], known: set[str], file: str) -> dict[str, int]:
    makers: dict[str, int] = {}
    faults: list[Diagnostic] = []
    for idx, proto in enumerate(protos):
        for name in proto.output:
            if not name:
                continue
            if name in makers or name in known:
                first = f"node {node_label(protos[makers[name]])!r}" if name in makers else "an input or weight"
                message = f"output {name!r} is already produced by {first}; rename one of them"
                faults.append(fault(file, message, node=node_label(proto), op_type=proto.op_type))
            makers.setdefault(name, idx)
    if faults:
        raise WorkloadError(diagnostics=faults)
    return makers


def _check_sources(protos: Sequence[NodeProto], needs: Sequence[set[str]], known: set[str], file: str) -> None:
    faults = [
        fault(
            file,
            f"input {name!r} is produced by no node, input or weight{nearest_hint(name, sorted(known))}",
            node=node_label(proto),
            op_type=proto.op_type,
        )
        for proto, need in zip(protos, needs, strict=True)
        for name in sorted(need - known)
    ]
    if faults:
        raise WorkloadError(diagnostics=faults)


def _is_ordered(protos: Sequence[NodeProto], needs: Sequence[set[str]], available: set[str]) -> bool:
    for proto, need in zip(protos, needs, strict=True):
        if not need <= available:
            return False
        available.update(proto.output)
    return True


def _cycle_fault(
    protos: Sequence[NodeProto], waiting: Sequence[set[str]], makers: dict[str, int], file: str
) -> Diagnostic:
    """Walk back from any waiting node until one repeats: those between are a cycle."""
    idx = next(i for i, need in enumerate(waiting) if need)
    path: list[int] = []
    while idx not in path:
        path.append(idx)
        idx = makers[min(waiting[idx])]
    cycle = [node_label(protos[i]) for i in reversed(path[path.index(idx) :])]
    shown = " -> ".join([*cycle, cycle[0]])
    message = f"nodes wait for each other's outputs: {shown}; an ONNX graph may not hold a cycle"
    return fault(file, message, node=cycle[0], op_type=protos[path[-1]].op_type)
