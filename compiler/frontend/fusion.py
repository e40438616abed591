"""Joining element-wise nodes to the product before them.

A machine that applies bias, activation or a residual addition to results on their way out of the
accumulators never moves the tensors in between. A node joins the product whose result it alone reads,
if it keeps the number of elements; what it reads besides that result is still read, and the product
writes the chain's last tensor in its place. Views and free quantisation do not break a chain. Where
two products meet in an addition, the later one is joined and the earlier one's result is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from ...archdsl import Op, VectorOp
from .graph import Graph, Node, Value
from .lowering import Context, Lowered
from .storage import VIEWS, Storage

JOINED_OPS = frozenset(
    ["Abs", "Add", "BatchNormalization", "Cast", "Celu", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid"]
    + ["HardSwish", "LeakyRelu", "Max", "Mean", "Min", "Mish", "Mul", "Neg", "PRelu", "Pow", "QuantizeLinear"]
    + ["Reciprocal", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish", "Tanh"]
    + ["ThresholdedRelu", "Where"]
)


@dataclass(slots=True)
class Fusion:
    """Which nodes are joined to which product.

    Attributes:
        heads: Product per tensor that ends its chain so far.
        joined: Tensor of the product's chain per joined node.
        last: Last tensor of its chain per product.
    """

    heads: dict[Value, Node] = field(default_factory=dict[Value, Node])
    joined: dict[Node, Value] = field(default_factory=dict[Node, Value])
    last: dict[Node, Value] = field(default_factory=dict[Node, Value])


def find_fusion(graph: Graph, storage: Storage, products: AbstractSet[Node]) -> Fusion:
    """Find the chains of a graph.

    Args:
        graph: The network.
        storage: How its values are held in memory.
        products: Nodes that are one op of multiply-accumulates.
    """
    fusion = Fusion()
    order = {node: idx for idx, node in enumerate(graph.nodes)}
    readers = Counter(value for node in graph.nodes for value in set(node.given_inputs))
    for node in graph.nodes:
        result = node.output(0)
        if result is None or not result.is_known or node.is_constant:
            continue
        if node in products:
            fusion.heads[result] = node
            continue
        chains = [
            value
            for value in node.given_inputs
            if value in fusion.heads
            and readers[value] == 1
            and value not in storage.returned
            and value.elements == result.elements
        ]
        if not chains:
            continue
        source = max(chains, key=lambda value: order[fusion.heads[value]])
        product = fusion.heads[source]
        if node.op_type in VIEWS or node in storage.free:
            fusion.heads[result] = product
        elif node.op_type in JOINED_OPS and not node.domain and node.count == product.count:
            fusion.heads[result] = product
            fusion.joined[node] = source
            fusion.last[product] = result
    return fusion


def apply_fusion(node: Node, ops: Lowered, fusion: Fusion, ctx: Context) -> Lowered:
    """A node's ops with the traffic inside its chain taken out.

    Args:
        node: The node.
        ops: What it was lowered to.
        fusion: The chains.
        ctx: Context.
    """
    if node in fusion.joined:
        inside = fusion.joined[node].name
        return [_without_traffic(op, inside) if isinstance(op, VectorOp) else op for op in ops]
    if node in fusion.last and ctx.acc_bits is None:
        bits = ctx.datatype(fusion.last[node]).bits
        return [_with_output_bits(op, bits) if isinstance(op, Op) else op for op in ops]
    return ops


def _without_traffic(op: VectorOp, inside: str) -> VectorOp:
    return replace(op, read_bytes=tuple(entry for entry in op.read_bytes if entry[0] != inside), write_bytes=())


def _with_output_bits(op: Op, bits: int) -> Op:
    return replace(op, tensors=(*op.tensors[:-1], replace(op.output, bits=bits)))
