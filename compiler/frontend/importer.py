"""From a flat graph to a `Workload`: every node lowered, left out with its reason, or free."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ...archdsl import Diagnostic, Op, Unmodelled, Workload, WorkloadError, nearest_hint
from .datatypes import Datatype, datatype_named, datatype_names
from .faults import fault
from .flattening import flatten
from .fusion import apply_fusion, find_fusion
from .graph import Graph, Node
from .lowering import BadNode, Context, Lowered, NotModelled, value_bytes
from .reading import read_model
from .registry import BIAS_INPUTS, FREE_OPS, LOWERINGS, NOT_MODELLED
from .storage import find_storage


def import_onnx(
    path: str | os.PathLike[str],
    shapes: Mapping[str, int] | None = None,
    strict: bool = False,
    *,
    datatype: str | None = None,
    acc_bits: int | None = None,
    fuse: bool = False,
) -> Workload:
    """Import a network from an ONNX file, by shape inference alone.

    Values of weights are not needed: files that hold them may be missing.

    Args:
        path: The `.onnx` file.
        shapes: Sizes of open dims by name, or of any input axis by `INPUT[AXIS]`.
        strict: Whether a node that cannot be modelled is an error.
        datatype: Count every float tensor as this type (`int8`, `bf16`, ...); None keeps the file's.
        acc_bits: Width of every product's output, partial sums included; None for the width in
            which the file stores it (after requantisation, in a quantised network).
        fuse: Join element-wise nodes to the product before them, so that the tensors in between are
            not moved. Otherwise every node reads its inputs and writes its outputs.

    Raises:
        WorkloadError: The file is not a usable network, a dim is open, a node contradicts itself, or
            `strict` and something is left out.
    """
    file = os.fspath(path)
    graph = flatten(read_model(file), file, shapes, Path(file).parent)
    return build_workload(graph, file, strict=strict, datatype=datatype, acc_bits=acc_bits, fuse=fuse)


def build_workload(
    graph: Graph,
    source: str,
    *,
    name: str = "",
    strict: bool = False,
    datatype: str | None = None,
    acc_bits: int | None = None,
    fuse: bool = False,
) -> Workload:
    """Lower a flat graph.

    Args:
        graph: The network.
        source: File or text that it came from.
        name: Name of the workload; the file's when left out.
        strict: Whether a node that cannot be modelled is an error.
        datatype: Type that stands in for every float type.
        acc_bits: Width of every product's output.
        fuse: Whether element-wise nodes are joined to the product before them.

    Raises:
        WorkloadError: As `import_onnx`.
    """
    ctx = Context(storage=find_storage(graph), float_type=_stand_in(datatype, source), acc_bits=acc_bits)
    lowered: dict[Node, Lowered] = {}
    left_out: list[Unmodelled] = []
    faults: list[Diagnostic] = []
    for node in graph.nodes:
        try:
            lowered[node] = lower_node(node, ctx)
        except NotModelled as cause:
            left_out.append(_unmodelled(node, cause, ctx))
        except BadNode as cause:
            faults.append(fault(source, str(cause), node=node.name, op_type=node.op_type))
    notices = [*graph.notices, *_bias_notices(graph.nodes, ctx)]
    if fuse:
        lowered = _fuse(graph, lowered, ctx, notices)
    ops = [op for made in lowered.values() for op in made]
    if not faults and strict:
        faults = [_strict_fault(source, missing) for missing in left_out]
    if not faults and not ops and not left_out:
        faults = [fault(source, "nothing is computed at run time: every node is constant or only changes a shape")]
    if faults:
        raise WorkloadError(diagnostics=faults)
    return Workload(
        name=name or Path(source).stem,
        ops=tuple(ops),
        unmodelled=tuple(left_out),
        notices=tuple(notices),
        source=source,
    )


def lower_node(node: Node, ctx: Context) -> Lowered:
    """Ops of one node; none for what is free at run time.

    Args:
        node: The node.
        ctx: Context.

    Raises:
        NotModelled: It must be left out.
        BadNode: It contradicts itself.
    """
    if node.is_constant:
        return []
    if node.domain:
        raise NotModelled(f"operator set {node.domain!r} is not modelled")
    if node.op_type in FREE_OPS:
        return []
    if node.op_type in NOT_MODELLED:
        raise NotModelled(NOT_MODELLED[node.op_type], max((_body_macs(body, ctx) for body in node.bodies), default=0))
    lowering = LOWERINGS.get(node.op_type)
    if lowering is None:
        raise NotModelled(f"no such operator in operator set {node.version}, or none that is modelled")
    return lowering(node, ctx)


def _fuse(graph: Graph, lowered: dict[Node, Lowered], ctx: Context, notices: list[str]) -> dict[Node, Lowered]:
    products = {node for node, made in lowered.items() if len(made) == 1 and isinstance(made[0], Op)}
    fusion = find_fusion(graph, ctx.storage, products)
    if fusion.joined:
        notices.append(f"fusion: {len(fusion.joined)} element-wise nodes are joined to the product before them")
    return {node: apply_fusion(node, made, fusion, ctx) for node, made in lowered.items()}


def _body_macs(body: Graph, ctx: Context) -> int:
    """Multiply-accumulates of a body that is left out: of one pass, where the number of runs is open."""
    inner = replace(ctx, storage=find_storage(body))
    total = 0
    for node in body.nodes:
        try:
            total += sum(op.macs * op.count for op in lower_node(node, inner))
        except NotModelled as cause:
            total += cause.macs
    return total


def _unmodelled(node: Node, cause: NotModelled, ctx: Context) -> Unmodelled:
    values = (value for value in (*node.given_inputs, *node.given_outputs) if value.is_known)
    num_bytes = sum(size for _, size in value_bytes(values, ctx))
    return Unmodelled(
        name=node.name, kind=node.op_type, reason=cause.reason, macs=cause.macs, bytes=num_bytes * node.count
    )


def _strict_fault(source: str, missing: Unmodelled) -> Diagnostic:
    cost = f"{missing.macs:,} MACs and {missing.bytes:,} bytes"
    message = f"not modelled: {missing.reason} ({cost}); leave it out by importing without strict"
    return fault(source, message, node=missing.name, op_type=missing.kind)


def _bias_notices(nodes: Iterable[Node], ctx: Context) -> list[str]:
    biases = [
        (node, bias)
        for node in nodes
        if node.op_type in BIAS_INPUTS and (bias := node.input(BIAS_INPUTS[node.op_type])) and bias.is_known
    ]
    total = sum(ctx.num_bytes(bias) for _, bias in biases)
    if not total:
        return []
    return [f"bias: {total:,} bytes of {len(biases)} nodes are left out: biases are taken to stay at the accumulators"]


def _stand_in(name: str | None, source: str) -> Datatype | None:
    if name is None:
        return None
    try:
        return datatype_named(name)
    except KeyError:
        hint = nearest_hint(name, datatype_names())
        message = f"datatype {name!r} is unknown{hint}"
        raise WorkloadError(diagnostics=[fault(source, message)]) from None
