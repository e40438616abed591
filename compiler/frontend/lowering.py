"""What every lowering shares: the context, and builders of ops and vector ops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ...archdsl import Op, Tensor, TensorAxis, TensorRole, VectorOp, ceil_div
from .datatypes import Datatype, product_datatype
from .graph import Node, Value
from .storage import Storage

Lowered = list[Op | VectorOp]
# An axis is one dim, or the dims and coefficients of a sliding window.
Axis = str | tuple[tuple[str, int], tuple[str, int]]


class NotModelled(Exception):
    """A node that the model leaves out.

    Attributes:
        reason: Why.
        macs: Multiply-accumulates known to be in it, all its runs together.
    """

    def __init__(self, reason: str, macs: int = 0) -> None:
        self.reason = reason
        self.macs = macs
        super().__init__(reason)


class BadNode(Exception):
    """A node that contradicts itself; the message says how and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What lowerings know besides the node.

    Attributes:
        storage: How values are held in memory.
        float_type: Type that stands in for every float type; None to keep the network's own.
        acc_bits: Width of every product's output; None for the width in which it is stored.
    """

    storage: Storage
    float_type: Datatype | None = None
    acc_bits: int | None = None

    def datatype(self, value: Value) -> Datatype:
        """Type in which a value is held in memory."""
        return self.replaced(self.storage.datatype(value))

    def replaced(self, datatype: Datatype) -> Datatype:
        """The type, or what stands in for it."""
        return self.float_type if self.float_type is not None and datatype.is_float else datatype

    def num_bytes(self, value: Value, elements: int | None = None) -> int:
        """Bytes of a value in memory, or of some of its elements."""
        count = value.elements if elements is None else elements
        return ceil_div(count * self.datatype(value).bits, 8)


Lowering = Callable[[Node, Context], Lowered]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operand:
    """One tensor of a product: its name in the op, type and axes."""

    name: str
    datatype: Datatype
    axes: Sequence[Axis]


def build_product(
    node: Node,
    ctx: Context,
    *,
    kind: str,
    dims: Sequence[tuple[str, int]],
    input: Operand,
    weight: Operand,
    output: Operand,
    part: str = "",
    runs: int = 1,
) -> Lowered:
    """One op of multiply-accumulates.

    Args:
        node: Node that it comes from.
        ctx: Context.
        kind: For reports.
        dims: Dim names and sizes.
        input: The input.
        weight: The weight, or the second factor of a product of activations.
        output: The output.
        part: Which part of the node this is, when it takes several ops.
        runs: How often one run of the node runs it.

    Returns:
        The op; nothing when a dim is empty.
    """
    if any(size == 0 for _, size in dims):
        return []
    roles = ((input, TensorRole.INPUT), (weight, TensorRole.WEIGHT), (output, TensorRole.OUTPUT))
    tensors = tuple(
        Tensor(
            name=operand.name,
            role=role,
            bits=ctx.acc_bits or operand.datatype.bits if role is TensorRole.OUTPUT else operand.datatype.bits,
            axes=tuple(_tensor_axis(axis) for axis in operand.axes),
        )
        for operand, role in roles
    )
    op = Op(
        name=_part_name(node, part),
        kind=kind,
        dims=tuple(dims),
        tensors=tensors,
        datatype=product_datatype(input.datatype, weight.datatype).name,
        count=node.count * runs,
        nodes=(node.name,),
    )
    return [op]


def build_vector(
    node: Node,
    ctx: Context,
    *,
    passes: int,
    kind: str = "",
    reads: Iterable[tuple[str, int]] | None = None,
    writes: Iterable[tuple[str, int]] | None = None,
    elements: int | None = None,
    part: str = "",
    runs: int = 1,
) -> Lowered:
    """One vector op.

    Args:
        node: Node that it comes from.
        ctx: Context.
        passes: Vector operations per element; 0 for work that only moves data.
        kind: For reports; the operator's name in lower case when left out.
        reads: Bytes read by tensor name; every input in full when left out.
        writes: Bytes written by tensor name; every output in full when left out.
        elements: Elements computed; those of the largest input or output when left out.
        part: Which part of the node this is, when it takes several ops.
        runs: How often one run of the node runs it.

    Returns:
        The op; nothing when there are no elements.
    """
    inputs = [value for value in node.given_inputs if value.is_known]
    outputs = [value for value in node.given_outputs if value.is_known]
    size = max((value.elements for value in (*inputs, *outputs)), default=0) if elements is None else elements
    if size == 0:
        return []
    main = node.output(0) or (inputs[0] if inputs else None)
    op = VectorOp(
        name=_part_name(node, part),
        kind=kind or node.op_type.lower(),
        elements=size,
        passes=passes,
        read_bytes=tuple(value_bytes(inputs, ctx) if reads is None else reads),
        write_bytes=tuple(value_bytes(outputs, ctx) if writes is None else writes),
        datatype="int8" if main is None else ctx.datatype(main).name,
        count=node.count * runs,
        nodes=(node.name,),
    )
    return [op]


def value_bytes(values: Iterable[Value], ctx: Context) -> list[tuple[str, int]]:
    """Bytes of values by name; one that is read twice moves once."""
    return list({value.name: ctx.num_bytes(value) for value in values}.items())


def needed(node: Node, idx: int) -> Value:
    """An input that the operator cannot do without.

    Raises:
        BadNode: It is left out.
    """
    value = node.input(idx)
    if value is None:
        raise BadNode(f"input {idx} is missing; export the network again")
    return value


def known(value: Value, rank: int | None = None) -> tuple[int, ...]:
    """A value's shape.

    Args:
        value: The value.
        rank: Number of axes that it must have; None for any.

    Raises:
        NotModelled: It depends on data.
        BadNode: It has another number of axes.
    """
    if not value.is_known:
        raise NotModelled(f"the shape of {value} is not known: it depends on data or on a node without shape inference")
    if rank is not None and len(value.dims) != rank:
        raise BadNode(f"{value} has {len(value.dims)} axes, {rank} are needed; check the export")
    return value.dims


def main_output(node: Node) -> Value:
    """The first output.

    Raises:
        BadNode: There is none.
    """
    value = node.output(0)
    if value is None:
        raise BadNode("it has no output; export the network again")
    return value


def _tensor_axis(axis: Axis) -> TensorAxis:
    return TensorAxis(terms=((axis, 1),) if isinstance(axis, str) else axis)


def _part_name(node: Node, part: str) -> str:
    return f"{node.name}/{part}" if part else node.name
