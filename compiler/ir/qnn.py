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

from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from .attributes import (
    Float,
    Integer,
    Integers,
    Tensor,
    float_attr,
    int_attr,
    ints_attr,
    names_attr,
    require,
    shape_of,
    tensor_type,
)
from .qnn_movement import ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from .qnn_requantising import RequantisingOp, WindowOp, requantisation_of, window_of
from .qnn_rows import LayerNormOp, SoftmaxOp
from .qnn_values import HIGH, LOW, ROUNDING, Operation2d, Requantisation, Window, window_outputs

__all__ = [
    "HIGH", "LOW", "ROUNDING", "AddOp", "ConcatOp", "Conv2dOp", "DepthwiseConv2dOp", "LayerNormOp", "LookupOp", "MatMulOp",
    "MultiplyOp", "Operation2d", "PadOp", "Pool2dOp", "Qnn", "Requantisation", "RequantisingOp", "RescaleOp",
    "ReshapeOp", "SliceOp", "SoftmaxOp", "TransposeOp", "Window", "WindowOp", "requantisation_of", "window_of", "window_outputs",
]  # fmt: skip


def _verify_same_shape(op: AddOp | MultiplyOp) -> None:
    shapes = [list(shape_of(value)) for value in (op.first, op.second, op.result)]
    require(op, shapes[0] == shapes[1] == shapes[2], f"shapes differ: {shapes[0]}, {shapes[1]} and {shapes[2]}")


@irdl_op_definition
class Conv2dOp(WindowOp):
    """A convolution: sum over window and channels of input * weight, requantised.

    Attributes:
        input: [N, H, W, C].
        weights: [FY, FX, C, K], 0 between a group's outputs and other groups' inputs.
        groups: Groups of channels that see only each other.
        result: [N, OY, OX, K].
    """

    name = "qnn.conv2d"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)
    groups = attr_def(Integer)

    def __init__(
        self,
        input_: SSAValue,
        weights: SSAValue,
        window: Window,
        requantisation: Requantisation,
        *,
        groups: int = 1,
        nodes: Iterable[str] = (),
    ) -> None:
        batch, *size, _ = shape_of(input_)
        kernel = shape_of(weights)
        shape = (batch, *window.outputs(size, kernel), kernel[3])
        attributes = {**window.attributes, "groups": int_attr(groups)}
        super().__init__([input_, weights], shape, requantisation, nodes, attributes)

    def verify_(self) -> None:
        kernel = shape_of(self.weights)
        require(self, len(kernel) == 4, "weights must be [FY, FX, C, K]")
        self.verify_window(kernel)
        require(self, kernel[2] == shape_of(self.input)[3], f"weights are for {kernel[2]} channels")
        require(self, kernel[3] == shape_of(self.result)[3], f"weights give {kernel[3]} channels")
        groups = self.groups.value.data
        is_even = groups > 0 and kernel[2] % groups == kernel[3] % groups == 0
        require(self, is_even, f"{kernel[2]} and {kernel[3]} channels do not split into {groups} groups")
        super().verify_()


@irdl_op_definition
class DepthwiseConv2dOp(WindowOp):
    """A convolution of every channel with a window of its own.

    Attributes:
        input: [N, H, W, C].
        weights: [FY, FX, C].
        result: [N, OY, OX, C].
    """

    name = "qnn.depthwise_conv2d"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)

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
        super().__init__([input_, weights], shape, requantisation, nodes, window.attributes)

    def verify_(self) -> None:
        kernel = shape_of(self.weights)
        require(self, len(kernel) == 3, "weights must be [FY, FX, C]")
        self.verify_window(kernel)
        channels = shape_of(self.input)[3]
        require(self, kernel[2] == channels == shape_of(self.result)[3], f"weights are for {kernel[2]} channels")
        super().verify_()


@irdl_op_definition
class MatMulOp(RequantisingOp):
    """A matrix product with constant or computed weights.

    Attributes:
        input: [..., M, K].
        weights: [K, N], or [..., K, N] with the leading axes of the input where they are computed.
        result: [..., M, N].
    """

    name = "qnn.matmul"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)

    def __init__(
        self, input_: SSAValue, weights: SSAValue, requantisation: Requantisation, *, nodes: Iterable[str] = ()
    ) -> None:
        shape = (*shape_of(input_)[:-1], shape_of(weights)[-1])
        super().__init__([input_, weights], shape, requantisation, nodes)

    def verify_(self) -> None:
        found, weights, result = (list(shape_of(value)) for value in (self.input, self.weights, self.result))
        require(self, len(found) >= 2 and len(weights) in (2, len(found)), "input must be [..., M, K], weights [K, N]")
        channels = found[len(found) - 1]
        require(
            self,
            len(weights) == 2 or weights[: len(weights) - 2] == found[: len(found) - 2],
            "leading axes of input and weights differ",
        )
        require(
            self,
            weights[len(weights) - 2] == channels,
            f"weights have {weights[len(weights) - 2]} rows for {channels} input channels",
        )
        expected = [*found[:-1], weights[-1]]
        require(self, result == expected, f"the result must be {expected}")
        super().verify_()


@irdl_op_definition
class Pool2dOp(WindowOp):
    """Sum or maximum over a window of every channel, requantised: an average has its divisor in the multiplier.

    Attributes:
        input: [N, H, W, C].
        operation: `add` or `maximum`.
        kernel: [FY, FX].
        result: [N, OY, OX, C].
    """

    name = "qnn.pool2d"
    input = operand_def(Tensor)
    operation = attr_def(StringAttr)
    kernel = attr_def(Integers)

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
            [input_],
            shape,
            requantisation,
            nodes,
            {"operation": StringAttr(operation), "kernel": ints_attr(kernel), **window.attributes},
        )

    def verify_(self) -> None:
        self.verify_window(tuple(self.kernel.get_values()))
        require(self, self.operation.data in ("add", "maximum"), f"operation is {self.operation.data}")
        super().verify_()


@irdl_op_definition
class AddOp(RequantisingOp):
    """factors[0] * first + factors[1] * second, requantised. The ratio of their scales stands in the factors.

    Attributes:
        first, second, result: [..., C].
        factors: Two integers of 16 bits.
    """

    name = "qnn.add"
    first = operand_def(Tensor)
    second = operand_def(Tensor)
    factors = attr_def(Integers)

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
        super().__init__([first, second], shape, requantisation, nodes, {"factors": ints_attr(factors)})

    def verify_(self) -> None:
        _verify_same_shape(self)
        factors = tuple(self.factors.get_values())
        require(self, len(factors) == 2 and all(-(1 << 15) <= f < 1 << 15 for f in factors), f"factors are {factors}")
        super().verify_()


@irdl_op_definition
class MultiplyOp(RequantisingOp):
    """(first - zero_points[0]) * (second - zero_points[1]), requantised.

    Attributes:
        first, second, result: [..., C].
        zero_points: Those of first and second.
    """

    name = "qnn.multiply"
    first = operand_def(Tensor)
    second = operand_def(Tensor)
    zero_points = attr_def(Integers)

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
        super().__init__([first, second], shape, requantisation, nodes, {"zero_points": ints_attr(zero_points)})

    def verify_(self) -> None:
        _verify_same_shape(self)
        zeros = tuple(self.zero_points.get_values())
        require(self, len(zeros) == 2 and all(LOW <= zero <= HIGH for zero in zeros), f"zero_points are {zeros}")
        super().verify_()


@irdl_op_definition
class RescaleOp(RequantisingOp):
    """input * weights, channel by channel, requantised: other scales, a stand-alone batch normalisation, a copy.

    Attributes:
        input, result: [..., C].
        weights: [C], int8.
    """

    name = "qnn.rescale"
    input = operand_def(Tensor)
    weights = operand_def(Tensor)

    def __init__(
        self, input_: SSAValue, weights: SSAValue, requantisation: Requantisation, *, nodes: Iterable[str] = ()
    ) -> None:
        shape = shape_of(input_)
        super().__init__([input_, weights], shape, requantisation, nodes)

    def verify_(self) -> None:
        require(self, shape_of(self.input) == shape_of(self.result), "input and result must have the same shape")
        require(self, shape_of(self.weights) == (shape_of(self.input)[-1],), "weights must be one per channel")
        super().verify_()


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
        require(self, shape_of(self.table) == (256,), f"the table is {list(shape_of(self.table))}; it must be [256]")
        require(self, shape_of(self.input) == shape_of(self.result), "input and result must have the same shape")


Qnn = Dialect(
    "qnn",
    [
        Conv2dOp, DepthwiseConv2dOp, MatMulOp, Pool2dOp, AddOp, MultiplyOp, RescaleOp, LookupOp, SoftmaxOp, LayerNormOp, ReshapeOp, TransposeOp,
        ConcatOp, SliceOp, PadOp,
    ],
    [],
)  # fmt: skip
