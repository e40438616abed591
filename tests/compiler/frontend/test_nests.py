"""Single-node graphs: the op's loop nest, executed point by point, gives what ONNX's reference gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper
from onnx.reference import ReferenceEvaluator

from tileloom.archdsl import Op

from .nest import Array, check_counts, execute, extents
from .networks import load, model, only_op, tensor

MOST_POINTS = 3000
small = settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


def reference(network: ModelProto, *arrays: Array) -> Array:
    """What ONNX's own evaluator computes."""
    evaluator: Any = ReferenceEvaluator(network)
    names = [value.name for value in network.graph.input]
    feeds = {name: array.astype(np.float32) for name, array in zip(names, arrays, strict=True)}
    return np.asarray(evaluator.run(None, feeds)[0], dtype=np.float64)


def numbers(shape: tuple[int, ...], seed: int) -> Array:
    """Small whole numbers, so that sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float64)


@dataclass(frozen=True)
class ConvCase:
    """Sizes of a convolution; tuples hold one number per axis."""

    batch: int
    groups: int
    outs: int
    ins: int
    size: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def reach(self) -> tuple[int, ...]:
        """Input positions that one window spans."""
        return tuple(d * (f - 1) + 1 for f, d in zip(self.taps, self.dilation, strict=True))

    @property
    def attributes(self) -> dict[str, Any]:
        return {
            "group": self.groups,
            "strides": list(self.stride),
            "dilations": list(self.dilation),
            "pads": [*self.before, *self.after],
        }


@st.composite
def conv_cases(draw: st.DrawFn) -> ConvCase:
    """Convolutions of one to three axes."""
    num_axes = draw(st.integers(1, 3))

    def per_axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(num_axes))

    return ConvCase(
        batch=draw(st.integers(1, 2)),
        groups=draw(st.integers(1, 3)),
        outs=draw(st.integers(1, 3)),
        ins=draw(st.integers(1, 3)),
        size=per_axis(1, 6),
        taps=per_axis(1, 3),
        stride=per_axis(1, 3),
        dilation=per_axis(1, 2),
        before=per_axis(0, 2),
        after=per_axis(0, 2),
    )


@small
@given(conv_cases())
def test_conv_nest_computes_the_convolution(case: ConvCase) -> None:
    padded = [n + b + a for n, b, a in zip(case.size, case.before, case.after, strict=True)]
    assume(all(p >= r for p, r in zip(padded, case.reach, strict=True)))
    x_shape = (case.batch, case.groups * case.ins, *case.size)
    w_shape = (case.groups * case.outs, case.ins, *case.taps)
    node = helper.make_node("Conv", ["x", "w"], ["y"], **case.attributes)
    network = model([node], [tensor("x", x_shape), tensor("w", w_shape)], ["y"])
    op = only_op(load(network))
    assume(op.macs <= MOST_POINTS)
    x, w = numbers(x_shape, 1), numbers(w_shape, 2)
    expected = reference(network, x, w)
    margins = [(0, 0), (0, 0), *zip(case.before, case.after, strict=True)]
    signal = np.pad(x, margins).reshape(case.batch, case.groups, case.ins, *padded)
    output, touched, num_macs = execute(op, {"I": crop(op, "I", signal), "W": w.reshape(extents(op, op.tensor("W")))})
    check_counts(op, touched, num_macs)
    assert np.array_equal(output.reshape(expected.shape), expected)


@small
@given(conv_cases(), st.integers(0, 1))
def test_transposed_conv_nest_computes_the_convolution(case: ConvCase, extra: int) -> None:
    full = [s * (n - 1) + r for n, s, r in zip(case.size, case.stride, case.reach, strict=True)]
    extras = [extra if s > 1 else 0 for s in case.stride]
    sizes = [f + e - b - a for f, e, b, a in zip(full, extras, case.before, case.after, strict=True)]
    assume(all(size >= 1 for size in sizes))
    x_shape = (case.batch, case.groups * case.ins, *case.size)
    w_shape = (case.groups * case.ins, case.outs, *case.taps)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], output_padding=extras, **case.attributes)
    network = model([node], [tensor("x", x_shape), tensor("w", w_shape)], ["y"])
    op = only_op(load(network))
    assume(op.macs <= MOST_POINTS)
    x, w = numbers(x_shape, 1), numbers(w_shape, 2)
    signal = x.reshape(case.batch, case.groups, case.ins, *case.size)
    weight = w.reshape(case.groups, case.ins, case.outs, *case.taps).swapaxes(1, 2)
    output, touched, num_macs = execute(op, {"I": signal, "W": weight})
    check_counts(op, touched, num_macs)
    whole = np.pad(
        output.reshape(case.batch, case.groups * case.outs, *full), [(0, 0), (0, 0), *((0, e) for e in extras)]
    )
    window = tuple(slice(b, b + size) for b, size in zip(case.before, sizes, strict=True))
    expected = direct_transposed_conv(case, x, w, sizes)
    assert np.array_equal(whole[(slice(None), slice(None), *window)], expected)


def direct_transposed_conv(case: ConvCase, x: Array, w: Array, sizes: list[int]) -> Array:
    """Transposed convolution as ONNX defines it: every input element adds its window into the output."""
    result = np.zeros((case.batch, case.groups * case.outs, *sizes))
    for b, channel, *place in np.ndindex(*x.shape):
        group = channel // case.ins
        for k, *tap in np.ndindex(*w.shape[1:]):
            at = tuple(
                p * s + t * d - before
                for p, s, t, d, before in zip(place, case.stride, tap, case.dilation, case.before, strict=True)
            )
            if all(0 <= a < size for a, size in zip(at, sizes, strict=True)):
                result[(b, group * case.outs + k, *at)] += x[(b, channel, *place)] * w[(channel, k, *tap)]
    return result


def crop(op: Op, name: str, array: Array) -> Array:
    """The part of an array that an op's tensor reaches."""
    return array[tuple(slice(0, extent) for extent in extents(op, op.tensor(name)))]


@small
@given(st.tuples(*[st.integers(1, 6)] * 3), st.booleans(), st.booleans())
def test_gemm_nest_computes_the_product(sizes: tuple[int, int, int], trans_a: bool, trans_b: bool) -> None:
    m, n, k = sizes
    a_shape = (k, m) if trans_a else (m, k)
    b_shape = (n, k) if trans_b else (k, n)
    node = helper.make_node("Gemm", ["a", "b"], ["z"], transA=int(trans_a), transB=int(trans_b))
    network = model([node], [tensor("a", a_shape), tensor("b", b_shape)], ["z"])
    op = only_op(load(network))
    a, b = numbers(a_shape, 1), numbers(b_shape, 2)
    left, right = (a.T if trans_a else a), (b.T if trans_b else b)
    output, touched, num_macs = execute(op, {"A": left, "W": right})
    check_counts(op, touched, num_macs)
    assert np.array_equal(output, reference(network, a, b))


@st.composite
def matmul_shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that multiply, with batch axes that broadcast."""
    batch = draw(st.lists(st.integers(1, 3), max_size=3))
    m, k, n = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 4))

    def one_side() -> list[int]:
        kept = batch[draw(st.integers(0, len(batch))) :]
        return [1 if draw(st.booleans()) else size for size in kept]

    left, right = one_side(), one_side()
    a = (k,) if not left and draw(st.booleans()) else (*left, m, k)
    b = (k,) if not right and draw(st.booleans()) else (*right, k, n)
    return a, b


@small
@given(matmul_shapes())
def test_matmul_nest_does_the_work_of_the_product(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a_shape, b_shape = shapes
    node = helper.make_node("MatMul", ["a", "b"], ["z"])
    network = model([node], [tensor("a", a_shape), tensor("b", b_shape)], ["z"])
    op = only_op(load(network))
    a, b = numbers(a_shape, 1), numbers(b_shape, 2)
    expected = reference(network, a, b)
    # every output element sums over K, and every element of both factors is read
    assert op.macs == expected.size * a_shape[-1]
    assert op.elements(op.tensor("A")) == a.size
    assert op.elements(op.tensor("W")) == b.size
    assert op.elements(op.output) == expected.size
    inputs = {"A": merged(op, "A", a, b_shape), "W": merged(op, "W", b, a_shape)}
    output, touched, num_macs = execute(op, inputs)
    check_counts(op, touched, num_macs)
    assert sorted(output.ravel()) == sorted(expected.ravel())


def merged(op: Op, name: str, array: Array, other: tuple[int, ...]) -> Array:
    """A factor with its batch axes sorted into those that both have (`B`) and its own (`M` or `N`)."""
    is_left = name == "A"
    matrix = array if array.ndim > 1 else (array[None, :] if is_left else array[:, None])
    batch = matrix.shape[:-2]
    theirs = other[:-2] if len(other) > 1 else ()
    padded = (1,) * (len(batch) - len(theirs)) + tuple(theirs)[max(0, len(theirs) - len(batch)) :]
    shared = [i for i, (x, y) in enumerate(zip(batch, padded, strict=True)) if x == y]
    own = [i for i in range(len(batch)) if i not in shared]
    last = [len(batch), len(batch) + 1]
    order = [*shared, *own, *last] if is_left else [*shared, last[0], *own, last[1]]
    return np.transpose(matrix, order).reshape(extents(op, op.tensor(name)))


@st.composite
def einsum_cases(draw: st.DrawFn) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Two-operand equations: any labels in any order, repeated labels included."""
    labels = "abcde"
    sizes = {label: draw(st.integers(1, 3)) for label in labels}
    terms = [draw(st.lists(st.sampled_from(labels), min_size=1, max_size=4)) for _ in range(2)]
    there = sorted({label for term in terms for label in term})
    result = draw(st.permutations(there).flatmap(lambda p: st.integers(0, len(p)).map(lambda n: p[:n])))
    equation = f"{''.join(terms[0])},{''.join(terms[1])}->{''.join(result)}"
    first, second = (tuple(sizes[label] for label in term) for term in terms)
    return equation, first, second


@small
@given(einsum_cases())
def test_einsum_nest_does_the_work_of_the_equation(case: tuple[str, tuple[int, ...], tuple[int, ...]]) -> None:
    equation, a_shape, b_shape = case
    node = helper.make_node("Einsum", ["a", "b"], ["z"], equation=equation)
    network = model([node], [tensor("a", a_shape), tensor("b", b_shape)], [tensor("z", None)])
    op = only_op(load(network))
    left, _, result = equation.partition("->")
    first, _, second = left.partition(",")
    sizes = dict(zip(first + second, (*a_shape, *b_shape), strict=True))
    labels = sorted(sizes)
    places: dict[str, set[tuple[int, ...]]] = {"A": set(), "W": set(), "Z": set()}
    num_macs = 0
    for point in np.ndindex(*(sizes[label] for label in labels)):
        at = dict(zip(labels, point, strict=True))
        for name, term in (("A", first), ("W", second), ("Z", result)):
            places[name].add(tuple(at[label] for label in term))
        num_macs += 1
    check_counts(op, {name: len(found) for name, found in places.items()}, num_macs)


def test_einsum_with_ellipsis_broadcasts() -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["z"], equation="...ij,...jk->...ik")
    op = only_op(load(model([node], [tensor("a", (2, 5, 3, 4)), tensor("b", (1, 5, 4, 6))], ["z"])))
    assert op.sizes == {"B": 5, "M": 2 * 3, "N": 6, "K": 4}


def test_einsum_without_a_result_sums_repeated_labels() -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["z"], equation="ij,jk")
    op = only_op(load(model([node], [tensor("a", (3, 4)), tensor("b", (4, 6))], ["z"])))
    assert op.sizes == {"M": 3, "N": 6, "K": 4}
