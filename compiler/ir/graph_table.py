"""The operators of dialect `graph`, as one table: ONNX operators that passes know something about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

AttributeKind = Literal["int", "ints", "float", "floats", "text", "texts"]
ShapeRule = Literal["same", "broadcast", "size", "rank", "product", "window", "free"]
"""What ties the shape of the first result to those of the operands: it is that of the first; that of all of them broadcast;
as many elements as the first; as many axes as the first; a matrix product; a window over the first; nothing that is checked.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One row of the table.

    Attributes:
        name: Of the op, behind `graph.`.
        op_type: ONNX operator of the standard operator set.
        operands: Least and greatest number of operands, with those that are left out.
        results: Greatest number of results.
        shape: What is checked of the result's shape.
        is_elementwise: Whether an element of the result depends on one element of every operand alone.
        is_movement: Whether the result holds elements of the first operand, or of all of them, unchanged.
        attributes: Kinds of the attributes, by their ONNX names.
    """

    name: str
    op_type: str
    operands: tuple[int, int] = (1, 1)
    results: int = 1
    shape: ShapeRule = "free"
    is_elementwise: bool = False
    is_movement: bool = False
    attributes: Mapping[str, AttributeKind] = field(default_factory=dict[str, AttributeKind])


MANY = 1 << 20
WINDOW: Mapping[str, AttributeKind] = {
    "auto_pad": "text", "dilations": "ints", "kernel_shape": "ints", "pads": "ints", "strides": "ints"
}  # fmt: skip
POOL: Mapping[str, AttributeKind] = {**WINDOW, "ceil_mode": "int"}


def _unary(name: str, op_type: str, **attributes: AttributeKind) -> Operator:
    return Operator(name=name, op_type=op_type, shape="same", is_elementwise=True, attributes=attributes)


def _binary(name: str, op_type: str) -> Operator:
    return Operator(name=name, op_type=op_type, operands=(2, 2), shape="broadcast", is_elementwise=True)


OPERATORS: tuple[Operator, ...] = (
    Operator(
        name="conv", op_type="Conv", operands=(2, 3), shape="window", attributes={**WINDOW, "group": "int"}
    ),
    Operator(name="matmul", op_type="MatMul", operands=(2, 2), shape="product"),
    Operator(
        name="gemm", op_type="Gemm", operands=(2, 3),
        attributes={"alpha": "float", "beta": "float", "broadcast": "int", "transA": "int", "transB": "int"},
    ),
    _binary("add", "Add"),
    _binary("sub", "Sub"),
    _binary("mul", "Mul"),
    _binary("div", "Div"),
    _binary("pow", "Pow"),
    _unary("relu", "Relu"),
    Operator(
        name="clip", op_type="Clip", operands=(1, 3), shape="same", is_elementwise=True,
        attributes={"min": "float", "max": "float"},
    ),
    _unary("leaky_relu", "LeakyRelu", alpha="float"),
    _unary("elu", "Elu", alpha="float"),
    _unary("selu", "Selu", alpha="float", gamma="float"),
    _unary("sigmoid", "Sigmoid"),
    _unary("tanh", "Tanh"),
    _unary("softplus", "Softplus"),
    _unary("softsign", "Softsign"),
    _unary("mish", "Mish"),
    _unary("hard_swish", "HardSwish"),
    _unary("hard_sigmoid", "HardSigmoid", alpha="float", beta="float"),
    _unary("erf", "Erf"),
    _unary("gelu", "Gelu", approximate="text"),
    _unary("sqrt", "Sqrt"),
    _unary("reciprocal", "Reciprocal"),
    _unary("exp", "Exp"),
    _unary("log", "Log"),
    _unary("neg", "Neg"),
    _unary("sign", "Sign"),
    _unary("floor", "Floor"),
    _unary("ceil", "Ceil"),
    _unary("round", "Round"),
    _unary("sin", "Sin"),
    _unary("cos", "Cos"),
    _unary("atan", "Atan"),
    _unary("celu", "Celu", alpha="float"),
    _unary("thresholded_relu", "ThresholdedRelu", alpha="float"),
    _unary("shrink", "Shrink", bias="float", lambd="float"),
    _unary("swish", "Swish", alpha="float"),
    _binary("prelu", "PRelu"),
    Operator(name="max", op_type="Max", operands=(1, MANY), shape="broadcast", is_elementwise=True),
    Operator(name="min", op_type="Min", operands=(1, MANY), shape="broadcast", is_elementwise=True),
    _unary("abs", "Abs"),
    _unary("identity", "Identity"),
    _unary("cast", "Cast", to="int", saturate="int", round_mode="text"),
    Operator(
        name="dropout", op_type="Dropout", operands=(1, 3), results=2, shape="same",
        attributes={"is_test": "int", "ratio": "float", "seed": "int"},
    ),
    Operator(
        name="average_pool", op_type="AveragePool", shape="window", attributes={**POOL, "count_include_pad": "int"}
    ),
    Operator(
        name="max_pool", op_type="MaxPool", results=2, shape="window", attributes={**POOL, "storage_order": "int"}
    ),
    Operator(name="global_average_pool", op_type="GlobalAveragePool", shape="window"),
    Operator(name="global_max_pool", op_type="GlobalMaxPool", shape="window"),
    Operator(
        name="reduce_mean", op_type="ReduceMean", operands=(1, 2),
        attributes={"axes": "ints", "keepdims": "int", "noop_with_empty_axes": "int"},
    ),
    Operator(
        name="batch_normalization", op_type="BatchNormalization", operands=(5, 5), results=5, shape="same",
        attributes={
            "consumed_inputs": "ints", "epsilon": "float", "is_test": "int", "momentum": "float", "spatial": "int",
            "training_mode": "int",
        },
    ),
    Operator(name="softmax", op_type="Softmax", shape="same", attributes={"axis": "int"}),
    Operator(
        name="layer_normalization", op_type="LayerNormalization", operands=(2, 3), results=3, shape="same",
        attributes={"axis": "int", "epsilon": "float", "stash_type": "int"},
    ),
    Operator(
        name="reshape", op_type="Reshape", operands=(1, 2), shape="size", is_movement=True,
        attributes={"allowzero": "int", "shape": "ints", "consumed_inputs": "ints"},
    ),
    Operator(
        name="transpose", op_type="Transpose", shape="rank", is_movement=True, attributes={"perm": "ints"}
    ),
    Operator(name="flatten", op_type="Flatten", shape="size", is_movement=True, attributes={"axis": "int"}),
    Operator(
        name="squeeze", op_type="Squeeze", operands=(1, 2), shape="size", is_movement=True, attributes={"axes": "ints"}
    ),
    Operator(
        name="unsqueeze", op_type="Unsqueeze", operands=(1, 2), shape="size", is_movement=True,
        attributes={"axes": "ints"},
    ),
    Operator(
        name="concat", op_type="Concat", operands=(1, MANY), shape="rank", is_movement=True, attributes={"axis": "int"}
    ),
    Operator(
        name="slice", op_type="Slice", operands=(1, 5), shape="rank", is_movement=True,
        attributes={"axes": "ints", "ends": "ints", "starts": "ints"},
    ),
    Operator(
        name="split", op_type="Split", operands=(1, 2), results=MANY, shape="rank", is_movement=True,
        attributes={"axis": "int", "num_outputs": "int", "split": "ints"},
    ),
    Operator(
        name="pad", op_type="Pad", operands=(1, 4), shape="rank",
        attributes={"mode": "text", "pads": "ints", "paddings": "ints", "value": "float"},
    ),
    Operator(name="gather", op_type="Gather", operands=(2, 2), is_movement=True, attributes={"axis": "int"}),
    Operator(
        name="quantize_linear", op_type="QuantizeLinear", operands=(2, 3), shape="same",
        attributes={
            "axis": "int", "block_size": "int", "output_dtype": "int", "precision": "int", "saturate": "int"
        },
    ),
    Operator(
        name="dequantize_linear", op_type="DequantizeLinear", operands=(2, 3), shape="same",
        attributes={"axis": "int", "block_size": "int", "output_dtype": "int"},
    ),
    Operator(
        name="qlinear_conv", op_type="QLinearConv", operands=(8, 9), shape="window",
        attributes={**WINDOW, "group": "int"},
    ),
    Operator(name="qlinear_matmul", op_type="QLinearMatMul", operands=(8, 8)),
    Operator(name="matmul_integer", op_type="MatMulInteger", operands=(2, 4), shape="product"),
    Operator(
        name="conv_integer", op_type="ConvInteger", operands=(2, 4), shape="window",
        attributes={**WINDOW, "group": "int"},
    ),
)  # fmt: skip
