"""Matrix products and Einsum.

Dims: `M` rows of the input, `N` columns of the weight, `K` what is summed over, and `B` for axes that
both factors and the output have (only there when it is larger than 1). Axes of one class are merged
into one dim: which elements a tile touches does not depend on how they lie in memory. The constant
factor, if only one is constant, is the weight; otherwise the second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .datatypes import Datatype
from .graph import Node, Value, shape_text
from .lowering import (
    BadNode,
    Context,
    Lowered,
    Lowering,
    NotModelled,
    Operand,
    build_product,
    build_vector,
    known,
    main_output,
    needed,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """Sizes of a product's dims.

    Attributes:
        batch: Axes of both factors and the output.
        rows: Axes of the input and the output.
        cols: Axes of the weight and the output.
        summed: Axes of both factors alone.
        input_summed: Axes of the input alone (in an Einsum).
        weight_summed: Axes of the weight alone (in an Einsum).
    """

    batch: int = 1
    rows: int = 1
    cols: int = 1
    summed: int = 1
    input_summed: int = 1
    weight_summed: int = 1

    @property
    def macs(self) -> int:
        """Points of the nest."""
        both = self.batch * self.rows * self.cols * self.summed
        return both * self.input_summed * self.weight_summed

    def swapped(self) -> Nest:
        """The nest of the transposed product."""
        return Nest(
            batch=self.batch,
            rows=self.cols,
            cols=self.rows,
            summed=self.summed,
            input_summed=self.weight_summed,
            weight_summed=self.input_summed,
        )


def lower_matmul(node: Node, ctx: Context) -> Lowered:
    """`MatMul` and `MatMulInteger`."""
    return _lower_matmul(node, ctx, needed(node, 0), needed(node, 1))


def lower_qlinear_matmul(node: Node, ctx: Context) -> Lowered:
    """`QLinearMatMul`: scales and zero points stand between its factors."""
    return _lower_matmul(node, ctx, needed(node, 0), needed(node, 3))


def lower_gemm(node: Node, ctx: Context) -> Lowered:
    """`Gemm`; adding a whole matrix, not a bias, is vector work of its own."""
    a, b, addend = needed(node, 0), needed(node, 1), node.input(2)
    rows, summed = _flipped(known(a), node.int_attribute("transA", 0))
    summed_b, cols = _flipped(known(b), node.int_attribute("transB", 0))
    if summed != summed_b:
        raise BadNode(f"{a} and {b} do not multiply: {summed} against {summed_b}; check transA and transB")
    ops = lower_nest(node, ctx, a, b, Nest(rows=rows, cols=cols, summed=summed), kind="gemm")
    if addend is not None and addend.is_known and addend.elements > cols:
        result = main_output(node)
        ops += build_vector(
            node,
            ctx,
            passes=1,
            kind="add",
            reads=[(addend.name, ctx.num_bytes(addend)), (result.name, ctx.num_bytes(result))],
            writes=[(result.name, ctx.num_bytes(result))],
            elements=result.elements,
            part="add",
        )
    return ops


def lower_einsum(node: Node, ctx: Context) -> Lowered:
    """`Einsum` of two tensors; of one it is vector work, of more it is left out."""
    values = list(node.given_inputs)
    shapes = [known(value) for value in values]
    terms, result = parse_equation(node.text_attribute("equation", ""), [len(shape) for shape in shapes])
    sizes = _label_sizes(terms, shapes)
    if len(values) == 1:
        return build_vector(node, ctx, passes=int(set(terms[0]) != set(result)), kind="einsum")
    if len(values) > 2:
        macs = math.prod(sizes.values()) * (len(values) - 1) * node.count
        raise NotModelled("an Einsum of more than two tensors: the order of its products is open", macs)
    # an axis of size 1 that the other factor repeats over does not index this one
    first, second = (
        {label for label, size in zip(term, shape, strict=True) if size == sizes[label]}
        for term, shape in zip(terms, shapes, strict=True)
    )
    out = set(result)

    def size_of(labels: set[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    nest = Nest(
        batch=size_of(first & second & out),
        rows=size_of((first - second) & out),
        cols=size_of((second - first) & out),
        summed=size_of((first & second) - out),
        input_summed=size_of(first - second - out),
        weight_summed=size_of(second - first - out),
    )
    return lower_nest(node, ctx, values[0], values[1], nest, kind="einsum")


def lower_nest(node: Node, ctx: Context, a: Value, b: Value, nest: Nest, *, kind: str) -> Lowered:
    """A product of two values; the constant one is the weight."""
    if a.is_constant and not b.is_constant:
        a, b, nest = b, a, nest.swapped()
    output = ctx.datatype(main_output(node))
    return build_nest(node, ctx, (ctx.datatype(a), ctx.datatype(b), output), nest, kind=kind)


def build_nest(
    node: Node,
    ctx: Context,
    datatypes: tuple[Datatype, Datatype, Datatype],
    nest: Nest,
    *,
    kind: str,
    part: str = "",
    runs: int = 1,
) -> Lowered:
    """The op of a nest.

    Args:
        node: Node that it comes from.
        ctx: Context.
        datatypes: Stored types of input, weight and output.
        nest: Sizes of its dims.
        kind: For reports.
        part: Which part of the node this is.
        runs: How often one run of the node runs it.
    """
    batch = ["B"] if nest.batch != 1 else []
    alone_a = ["KA"] if nest.input_summed != 1 else []
    alone_w = ["KW"] if nest.weight_summed != 1 else []
    sizes = {"B": nest.batch, "M": nest.rows, "N": nest.cols, "K": nest.summed}
    sizes |= {"KA": nest.input_summed, "KW": nest.weight_summed}
    return build_product(
        node,
        ctx,
        kind=kind,
        dims=[(dim, sizes[dim]) for dim in (*batch, "M", "N", "K", *alone_a, *alone_w)],
        input=Operand(name="A", datatype=datatypes[0], axes=[*batch, "M", "K", *alone_a]),
        weight=Operand(name="W", datatype=datatypes[1], axes=[*batch, "K", "N", *alone_w]),
        output=Operand(name="Z", datatype=datatypes[2], axes=[*batch, "M", "N"]),
        part=part,
        runs=runs,
    )


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """Labels of an Einsum's tensors and of its result; an ellipsis becomes labels `.0`, `.1`, ...

    Args:
        equation: As in NumPy: `bij,bjk->bik`, with or without the right side.
        ranks: Number of axes of every tensor.

    Raises:
        BadNode: The equation is malformed or does not fit the tensors.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        raise BadNode(f"equation {equation!r} names {len(parts)} tensors, the node has {len(ranks)}")
    num_dots = max((rank - len(p) + 3 for p, rank in zip(parts, ranks, strict=True) if "..." in p), default=0)
    terms = [_labels(part, rank, equation) for part, rank in zip(parts, ranks, strict=True)]
    every = [label for term in terms for label in term]
    if arrow:
        result = _labels(right, len(right) - 3 + num_dots if "..." in right else len(right), equation)
    else:
        dots = [f".{idx}" for idx in range(num_dots)]
        result = dots + sorted({label for label in every if label.isalpha() and every.count(label) == 1})
    if unknown := sorted(set(result) - set(every)):
        raise BadNode(f"equation {equation!r}: {unknown} in the result is in no tensor")
    return terms, result


def _labels(term: str, rank: int, equation: str) -> list[str]:
    head, dots, tail = term.partition("...")
    if not (head + tail).isalpha() and head + tail:
        raise BadNode(f"equation {equation!r}: {term!r} is not made of letters")
    num_dots = rank - len(head) - len(tail)
    if num_dots < 0 or (num_dots and not dots):
        raise BadNode(f"equation {equation!r}: {term!r} does not fit a tensor with {rank} axes")
    # an ellipsis aligns from the right, so that its last axis is always the same label
    return [*head, *(f".{idx}" for idx in reversed(range(num_dots))), *tail]


def _label_sizes(terms: Sequence[Sequence[str]], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for label, size in zip(term, shape, strict=True):
            before = sizes.get(label, 1)
            if before != size and 1 not in (before, size):
                raise BadNode(f"label {label!r} has size {before} and {size}; check the equation and --shape")
            sizes[label] = size if before == 1 else before
    return sizes


def matmul_nest(a: Sequence[int], b: Sequence[int]) -> Nest:
    """Nest of a NumPy-style matrix product.

    Args:
        a: Shape of the first factor, `[..., M, K]` or `[K]`.
        b: Shape of the second, `[..., K, N]` or `[K]`.

    Raises:
        BadNode: The shapes do not multiply.
    """
    left = [1, *a] if len(a) == 1 else [*a]
    right = [*b, 1] if len(b) == 1 else [*b]
    if not a or not b or left[-1] != right[-2]:
        raise BadNode(f"shapes {shape_text(tuple(a))} and {shape_text(tuple(b))} do not multiply; check --shape")
    num_batch = max(len(left), len(right)) - 2
    batch_a = [1] * (num_batch + 2 - len(left)) + left[:-2]
    batch_b = [1] * (num_batch + 2 - len(right)) + right[:-2]
    pairs = list(zip(batch_a, batch_b, strict=True))
    if any(x != y and 1 not in (x, y) for x, y in pairs):
        raise BadNode(f"shapes {shape_text(tuple(a))} and {shape_text(tuple(b))} do not broadcast; check --shape")
    return Nest(
        batch=math.prod(x for x, y in pairs if x == y),
        rows=left[-2] * math.prod(x for x, y in pairs if x != y and y == 1),
        cols=right[-1] * math.prod(y for x, y in pairs if x != y and x == 1),
        summed=left[-1],
    )


def _lower_matmul(node: Node, ctx: Context, a: Value, b: Value) -> Lowered:
    return lower_nest(node, ctx, a, b, matmul_nest(known(a), known(b)), kind="matmul")


def _flipped(shape: tuple[int, ...], is_transposed: int) -> tuple[int, int]:
    if len(shape) != 2:
        raise BadNode(f"a factor has shape {shape_text(shape)}; Gemm takes matrices")
    return (shape[1], shape[0]) if is_transposed else (shape[0], shape[1])


PRODUCTS: Mapping[str, Lowering] = {
    "Einsum": lower_einsum,
    "Gemm": lower_gemm,
    "MatMul": lower_matmul,
    "MatMulInteger": lower_matmul,
    "QLinearMatMul": lower_qlinear_matmul,
}
