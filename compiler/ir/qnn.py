"""Dialect `qnn`: quantised ops on channels-last tensors, with pinned integer semantics. Level 2 of the IR.

Every op computes what the tensor PE array computes, exactly. With exact sums and products,

    requantise(sum)[c] = clip(round((sum + bias[c]) * multiplier[c] / 2^shift[c]) + zero_point, low, high)

where ties round as the module's attribute `qnn.rounding` says (`half_to_even`, `half_away`). `bias`, `multiplier` and
`shift` are constants of 32, 32 and 8 bits with one element per channel of the last axis; whatever does not depend on the
input (zero points, scales, biases of the network) is folded into them. Activations are int8, weights int8 or int4,
[N, H, W, C] or, where an op does not look at neighbours, [..., C].

Attributes of every op that makes an activation:
    scale: Real value of one step of the result, f64; 0 where unknown.
    zero_point: The integer that stands for 0, added by requantisation.
    nodes: Names of the ONNX nodes that it stands for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Dialect, Operation, SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, operand_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .attributes import (
    Float,
    Integer,
    Integers,
    Tensor,
    float_attr,
    int_attr,
    ints_attr,
    names_attr,
    shape_of,
    tensor_type,
)

ROUNDING = "qnn.rounding"
"""Module attribute: how ties round."""
LOW, HIGH = -128, 127
Operation2d = Literal["add", "maximum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requantisation:
    """What every requantising op has besides its inputs.

    Attributes:
        bias, multiplier, shift: Constants, [channels].
        scale, zero_point: What the result's integers stand for.
        low, high: What results are clipped to.
    """

    bias: SSAValue
    multiplier: SSAValue
    shift: SSAValue
    scale: float
    zero_point: int
    low: int = LOW
    high: int = HIGH

    @property
    def operands(self) -> list[SSAValue]:
        """Its constants."""
        return [self.bias, self.multiplier, self.shift]

    @property
    def attributes(self) -> dict[str, Any]:
        """Its attributes."""
        return {
            "scale": float_attr(self.scale), "zero_point": int_attr(self.zero_point), "low": int_attr(self.low),
            "high": int_attr(self.high),
        }  # fmt: skip


def _require(op: Operation, holds: bool, message: str) -> None:
    if not holds:
        raise VerifyException(f"{op.name}: {message}")


def window_outputs(size: int, kernel: int, stride: int, dilation: int, pads: int) -> int:
    """Outputs of a window along one axis; `pads` of both sides together."""
    return (size + pads - dilation * (kernel - 1) - 1) // stride + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window over height and width.

    Attributes:
        strides, dilations: [y, x].
        pads: [top, left, bottom, right].
        padding: What lies outside, as an integer: the input's zero point, or the least value for a maximum.
    """

    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    padding: int = 0

    @property
    def attributes(self) -> dict[str, Any]:
        """As attributes of an op."""
        return {
            "strides": ints_attr(self.strides), "dilations": ints_attr(self.dilations), "pads": ints_attr(self.pads),
            "padding": int_attr(self.padding),
        }  # fmt: skip

    def outputs(self, size: Sequence[int], kernel: Sequence[int]) -> tuple[int, int]:
        """Height and width of the output for those of input and window."""
        height, width = (
            window_outputs(
                size[at], kernel[at], self.strides[at], self.dilations[at], self.pads[at] + self.pads[2 + at]
            )
            for at in (0, 1)
        )
        return height, width


def window_of(op: Conv2dOp | DepthwiseConv2dOp | Pool2dOp) -> Window:
    """The window of an op."""

    def ints(attr: Integers) -> tuple[Any, ...]:
        return tuple(int(value) for value in attr.get_values())

    return Window(
        strides=ints(op.strides), dilations=ints(op.dilations), pads=ints(op.pads), padding=int(op.padding.value.data)
    )


RequantisingOp: TypeAlias = (
    "Conv2dOp | DepthwiseConv2dOp | MatMulOp | Pool2dOp | AddOp | MultiplyOp | RescaleOp | SoftmaxOp | LayerNormOp"
)


def requantisation_of(op: RequantisingOp) -> Requantisation:
    """How an op requantises."""
    return Requantisation(
        bias=op.bias, multiplier=op.multiplier, shift=op.shift, scale=float(op.scale.value.data),
        zero_point=int(op.zero_point.value.data), low=int(op.low.value.data), high=int(op.high.value.data),
    )  # fmt: skip


def _verify_requantisation(op: RequantisingOp) -> None:
    channels = shape_of(op.result)[-1]
    for what, value in (("bias", op.bias), ("multiplier", op.multiplier), ("shift", op.shift)):
        found = shape_of(value)
        _require(op, found == (channels,), f"{what} has the shape {list(found)}; it must be [{channels}]")
    how = requantisation_of(op)
    _require(op, LOW <= how.low <= how.high <= HIGH, f"clips to [{how.low}, {how.high}]; it must be in [{LOW}, {HIGH}]")
    _require(op, LOW <= how.zero_point <= HIGH, f"zero_point is {how.zero_point}; it must be from {LOW} to {HIGH}")


def _verify_window(op: Conv2dOp | DepthwiseConv2dOp | Pool2dOp, kernel: Sequence[int]) -> None:
    found, result = shape_of(op.input), shape_of(op.result)
    _require(op, len(found) == len(result) == 4, "input and result must be [N, H, W, C]")
    expected = window_of(op).outputs(found[1:3], kernel)
    _require(op, result[1:3] == expected, f"the result is {list(result[1:3])}; the window gives {list(expected)}")
    _require(op, result[0] == found[0], f"the result has {result[0]} images for {found[0]}")


def _verify_rows(op: SoftmaxOp | LayerNormOp) -> None:
    tables = shape_of(op.tables)
    _require(op, tables == (5, 256), f"tables are {list(tables)}; they must be [5, 256]")
    _require(op, shape_of(op.input) == shape_of(op.result), "input and result must have the same shape")
    _verify_requantisation(op)


def _verify_same_shape(op: AddOp | MultiplyOp) -> None:
    shapes = [list(shape_of(value)) for value in (op.first, op.second, op.result)]
    _require(op, shapes[0] == shapes[1] == shapes[2], f"shapes differ: {shapes[0]}, {shapes[1]} and {shapes[2]}")


@irdl_op_definition
class Conv2dOp(IRDLOperation):
    """A convolution: sum over window and channels of input * weight, requantised.

    Attributes:
        input: [N, H, W, C].
        weights: [FY, FX, C, K].
        result: [N, OY, OX, K].
    """

    name = "qnn.conv2d"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    strides = attr_def(Integers)
    dilations = attr_def(Integers)
    pads = attr_def(Integers)
    padding = attr_def(Integer)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self,
        input_: SSAValue,
        weights: SSAValue,
        window: Window,
        requantisation: Requantisation,
        *,
        nodes: Iterable[str] = (),
    ) -> None:
        batch, *size, _ = shape_of(input_)
        kernel = shape_of(weights)
        shape = (batch, *window.outputs(size, kernel), kernel[3])
        super().__init__(
            operands=[input_, weights, *requantisation.operands],
            attributes={**requantisation.attributes, **window.attributes, "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        kernel = shape_of(self.weights)
        _require(self, len(kernel) == 4, "weights must be [FY, FX, C, K]")
        _verify_window(self, kernel)
        _require(self, kernel[2] == shape_of(self.input)[3], f"weights are for {kernel[2]} channels")
        _require(self, kernel[3] == shape_of(self.result)[3], f"weights give {kernel[3]} channels")
        _verify_requantisation(self)


@irdl_op_definition
class DepthwiseConv2dOp(IRDLOperation):
    """A convolution of every channel with a window of its own.

    Attributes:
        input: [N, H, W, C].
        weights: [FY, FX, C].
        result: [N, OY, OX, C].
    """

    name = "qnn.depthwise_conv2d"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    strides = attr_def(Integers)
    dilations = attr_def(Integers)
    pads = attr_def(Integers)
    padding = attr_def(Integer)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self,
        input_: SSAValue,
        weights: SSAValue,
        window: Window,
        requantisation: Requantisation,
        *,
        nodes: Iterable[str] = (),
    ) -> None:
        batch, *size, channels = shape_of(input_)
        shape = (batch, *window.outputs(size, shape_of(weights)), channels)
        super().__init__(
            operands=[input_, weights, *requantisation.operands],
            attributes={**requantisation.attributes, **window.attributes, "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        kernel = shape_of(self.weights)
        _require(self, len(kernel) == 3, "weights must be [FY, FX, C]")
        _verify_window(self, kernel)
        channels = shape_of(self.input)[3]
        _require(self, kernel[2] == channels == shape_of(self.result)[3], f"weights are for {kernel[2]} channels")
        _verify_requantisation(self)


@irdl_op_definition
class MatMulOp(IRDLOperation):
    """A matrix product with constant or computed weights.

    Attributes:
        input: [..., M, K].
        weights: [K, N], or [..., K, N] with the leading axes of the input where they are computed.
        result: [..., M, N].
    """

    name = "qnn.matmul"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, weights: SSAValue, requantisation: Requantisation, *, nodes: Iterable[str] = ()
    ) -> None:
        shape = (*shape_of(input_)[:-1], shape_of(weights)[-1])
        super().__init__(
            operands=[input_, weights, *requantisation.operands],
            attributes={**requantisation.attributes, "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        found, weights, result = (list(shape_of(value)) for value in (self.input, self.weights, self.result))
        _require(self, len(found) >= 2 and len(weights) in (2, len(found)), "input must be [..., M, K], weights [K, N]")
        channels = found[len(found) - 1]
        _require(
            self,
            len(weights) == 2 or weights[: len(weights) - 2] == found[: len(found) - 2],
            "leading axes of input and weights differ",
        )
        _require(
            self,
            weights[len(weights) - 2] == channels,
            f"weights have {weights[len(weights) - 2]} rows for {channels} input channels",
        )
        expected = [*found[:-1], weights[-1]]
        _require(self, result == expected, f"the result must be {expected}")
        _verify_requantisation(self)


@irdl_op_definition
class Pool2dOp(IRDLOperation):
    """Sum or maximum over a window of every channel, requantised: an average has its divisor in the multiplier.

    Attributes:
        input: [N, H, W, C].
        operation: `add` or `maximum`.
        kernel: [FY, FX].
        result: [N, OY, OX, C].
    """

    name = "qnn.pool2d"
    input = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    operation = attr_def(StringAttr)
    kernel = attr_def(Integers)
    strides = attr_def(Integers)
    dilations = attr_def(Integers)
    pads = attr_def(Integers)
    padding = attr_def(Integer)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self,
        input_: SSAValue,
        operation: Operation2d,
        kernel: tuple[int, int],
        window: Window,
        requantisation: Requantisation,
        *,
        nodes: Iterable[str] = (),
    ) -> None:
        batch, *size, channels = shape_of(input_)
        shape = (batch, *window.outputs(size, kernel), channels)
        super().__init__(
            operands=[input_, *requantisation.operands],
            attributes={
                **requantisation.attributes,
                "operation": StringAttr(operation),
                "kernel": ints_attr(kernel),
                **window.attributes,
                "nodes": names_attr(nodes),
            },
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        _verify_window(self, tuple(self.kernel.get_values()))
        _require(self, self.operation.data in ("add", "maximum"), f"operation is {self.operation.data}")
        _verify_requantisation(self)


@irdl_op_definition
class AddOp(IRDLOperation):
    """factors[0] * first + factors[1] * second, requantised. The ratio of their scales stands in the factors.

    Attributes:
        first, second, result: [..., C].
        factors: Two integers of 16 bits.
    """

    name = "qnn.add"
    first = operand_def(Tensor)
    second = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    factors = attr_def(Integers)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self,
        first: SSAValue,
        second: SSAValue,
        factors: tuple[int, int],
        requantisation: Requantisation,
        *,
        nodes: Iterable[str] = (),
    ) -> None:
        shape = shape_of(first)
        super().__init__(
            operands=[first, second, *requantisation.operands],
            attributes={**requantisation.attributes, "factors": ints_attr(factors), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        _verify_same_shape(self)
        factors = tuple(self.factors.get_values())
        _require(self, len(factors) == 2 and all(-(1 << 15) <= f < 1 << 15 for f in factors), f"factors are {factors}")
        _verify_requantisation(self)


@irdl_op_definition
class MultiplyOp(IRDLOperation):
    """(first - zero_points[0]) * (second - zero_points[1]), requantised.

    Attributes:
        first, second, result: [..., C].
        zero_points: Those of first and second.
    """

    name = "qnn.multiply"
    first = operand_def(Tensor)
    second = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    zero_points = attr_def(Integers)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self,
        first: SSAValue,
        second: SSAValue,
        zero_points: tuple[int, int],
        requantisation: Requantisation,
        *,
        nodes: Iterable[str] = (),
    ) -> None:
        shape = shape_of(first)
        super().__init__(
            operands=[first, second, *requantisation.operands],
            attributes={**requantisation.attributes, "zero_points": ints_attr(zero_points), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        _verify_same_shape(self)
        zeros = tuple(self.zero_points.get_values())
        _require(self, len(zeros) == 2 and all(LOW <= zero <= HIGH for zero in zeros), f"zero_points are {zeros}")
        _verify_requantisation(self)


@irdl_op_definition
class RescaleOp(IRDLOperation):
    """input * weights, channel by channel, requantised: other scales, a stand-alone batch normalisation, a copy.

    Attributes:
        input, result: [..., C].
        weights: [C], int8.
    """

    name = "qnn.rescale"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, weights: SSAValue, requantisation: Requantisation, *, nodes: Iterable[str] = ()
    ) -> None:
        shape = shape_of(input_)
        super().__init__(
            operands=[input_, weights, *requantisation.operands],
            attributes={**requantisation.attributes, "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        _require(self, shape_of(self.input) == shape_of(self.result), "input and result must have the same shape")
        _require(self, shape_of(self.weights) == (shape_of(self.input)[-1],), "weights must be one per channel")
        _verify_requantisation(self)


@irdl_op_definition
class LookupOp(IRDLOperation):
    """Every element looked up by its byte: any function of one element.

    Attributes:
        input, result: Any shape.
        table: [256] int8; the element of value v is at v & 255.
    """

    name = "qnn.lookup"
    input = operand_def(Tensor)
    table = operand_def(Tensor)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, table: SSAValue, *, scale: float, zero_point: int, nodes: Iterable[str] = ()
    ) -> None:
        super().__init__(
            operands=[input_, table],
            attributes={"scale": float_attr(scale), "zero_point": int_attr(zero_point), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape_of(input_), "int8")],
        )

    def verify_(self) -> None:
        _require(self, shape_of(self.table) == (256,), f"the table is {list(shape_of(self.table))}; it must be [256]")
        _require(self, shape_of(self.input) == shape_of(self.result), "input and result must have the same shape")


@irdl_op_definition
class SoftmaxOp(IRDLOperation):
    """Softmax over the last axis: the stages of `rows.softmax`, of which the last sums are requantised.

    Attributes:
        input, result: [..., C].
        tables: [5, 256] int8: exponents' upper and lower bytes, the coarse and fine factor of the reciprocal, its correction.
    """

    name = "qnn.softmax"
    input = operand_def(Tensor)
    tables = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, tables: SSAValue, requantisation: Requantisation, *, nodes: Iterable[str] = ()
    ) -> None:
        super().__init__(
            operands=[input_, tables, *requantisation.operands],
            attributes={**requantisation.attributes, "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape_of(input_), "int8")],
        )

    def verify_(self) -> None:
        _verify_rows(self)


@irdl_op_definition
class LayerNormOp(IRDLOperation):
    """Normalisation over the last axis: the stages of `rows.layer_norm`, of which the last sums are requantised.

    Gain and bias of the network are in multiplier and bias.

    Attributes:
        input, result: [..., C].
        tables: [5, 256] int8: factors by which rows grow, the coarse factor of the root and its square, the fine factor, its
            correction.
        epsilon: What is added to the variance, in squares of input steps.
    """

    name = "qnn.layer_norm"
    input = operand_def(Tensor)
    tables = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    epsilon = attr_def(Float)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, tables: SSAValue, epsilon: float, requantisation: Requantisation,
        *, nodes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(
            operands=[input_, tables, *requantisation.operands],
            attributes={**requantisation.attributes, "epsilon": float_attr(epsilon), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape_of(input_), "int8")],
        )

    def verify_(self) -> None:
        _verify_rows(self)
        epsilon = float(self.epsilon.value.data)
        _require(self, math.isfinite(epsilon) and epsilon >= 0, f"epsilon is {epsilon}; it must be 0 or more")


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same elements in the same order under another shape."""

    name = "qnn.reshape"
    input = operand_def(Tensor)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, input_: SSAValue, shape: Sequence[int], *, nodes: Iterable[str] = ()) -> None:
        super().__init__(
            operands=[input_], attributes={"nodes": names_attr(nodes)}, result_types=[tensor_type(shape, "int8")]
        )

    def verify_(self) -> None:
        sizes = [math.prod(shape_of(value)) for value in (self.input, self.result)]
        _require(self, sizes[0] == sizes[1], f"{sizes[0]} elements become {sizes[1]}")


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """Axes in another order: axis i of the result is axis permutation[i] of the input."""

    name = "qnn.transpose"
    input = operand_def(Tensor)
    permutation = attr_def(Integers)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, input_: SSAValue, permutation: Sequence[int], *, nodes: Iterable[str] = ()) -> None:
        shape = shape_of(input_)
        super().__init__(
            operands=[input_],
            attributes={"permutation": ints_attr(permutation), "nodes": names_attr(nodes)},
            result_types=[tensor_type([shape[axis] for axis in permutation], "int8")],
        )

    def verify_(self) -> None:
        permutation, shape = tuple(self.permutation.get_values()), shape_of(self.input)
        _require(self, sorted(permutation) == list(range(len(shape))), f"permutation is {permutation}")
        expected = tuple(shape[axis] for axis in permutation)
        _require(self, shape_of(self.result) == expected, f"the result must be {list(expected)}")


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """Tensors of equal scale and zero point one behind the other along an axis."""

    name = "qnn.concat"
    inputs = var_operand_def(Tensor)
    axis = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue], axis: int, *, nodes: Iterable[str] = ()) -> None:
        shape = list(shape_of(inputs[0]))
        shape[axis] = sum(shape_of(value)[axis] for value in inputs)
        super().__init__(
            operands=[list(inputs)],
            attributes={"axis": int_attr(axis), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        axis = int(self.axis.value.data)
        shapes = [shape_of(value) for value in self.inputs]
        _require(self, bool(shapes), "it needs an input")
        rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in (*shapes, shape_of(self.result))}
        _require(self, len(rests) == 1, "shapes differ beyond the axis")
        total = sum(shape[axis] for shape in shapes)
        _require(self, shape_of(self.result)[axis] == total, f"the result must have {total} elements along axis {axis}")


@irdl_op_definition
class SliceOp(IRDLOperation):
    """A box of a tensor: `begin` of every axis, as many elements as the result has, `steps` apart."""

    name = "qnn.slice"
    input = operand_def(Tensor)
    begin = attr_def(Integers)
    steps = attr_def(Integers)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, begin: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None,
        *, nodes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(
            operands=[input_],
            attributes={
                "begin": ints_attr(begin), "steps": ints_attr(steps or [1] * len(begin)), "nodes": names_attr(nodes)
            },
            result_types=[tensor_type(sizes, "int8")],
        )  # fmt: skip

    def verify_(self) -> None:
        shape, sizes = shape_of(self.input), shape_of(self.result)
        begin, steps = tuple(self.begin.get_values()), tuple(self.steps.get_values())
        _require(self, len(shape) == len(sizes) == len(begin) == len(steps), "ranks differ")
        for axis, size in enumerate(shape):
            end = begin[axis] + (sizes[axis] - 1) * steps[axis]
            _require(self, 0 <= begin[axis] <= end < size, f"axis {axis} goes from {begin[axis]} to {end} of {size}")


@irdl_op_definition
class PadOp(IRDLOperation):
    """A tensor with a border: `before` and `after` elements of a value along every axis."""

    name = "qnn.pad"
    input = operand_def(Tensor)
    before = attr_def(Integers)
    after = attr_def(Integers)
    value = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, before: Sequence[int], after: Sequence[int], value: int, *, nodes: Iterable[str] = ()
    ) -> None:
        shape = [sum(sizes) for sizes in zip(before, shape_of(input_), after, strict=True)]
        super().__init__(
            operands=[input_],
            attributes={
                "before": ints_attr(before), "after": ints_attr(after), "value": int_attr(value),
                "nodes": names_attr(nodes),
            },
            result_types=[tensor_type(shape, "int8")],
        )  # fmt: skip

    def verify_(self) -> None:
        parts = zip(self.before.get_values(), shape_of(self.input), self.after.get_values(), strict=True)
        expected = tuple(sum(sizes) for sizes in parts)
        _require(self, shape_of(self.result) == expected, f"the result must be {list(expected)}")


Qnn = Dialect(
    "qnn",
    [
        Conv2dOp, DepthwiseConv2dOp, MatMulOp, Pool2dOp, AddOp, MultiplyOp, RescaleOp, LookupOp, SoftmaxOp, LayerNormOp,
        ReshapeOp, TransposeOp, ConcatOp, SliceOp, PadOp,
    ],
    [],
)  # fmt: skip
