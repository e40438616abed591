"""Sums, functions, pools and movement lowered to integers, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto

from .qdq import Network, check_against_onnxruntime

Build = Callable[[Network, str], str]
SHAPE = (1, 4, 5, 6)


def of_two(
    op_type: str,
    second: Sequence[int] = SHAPE,
    *,
    scales: tuple[float, float, float] = (0.0497, 0.0311, 0.0893),
    zeros: tuple[int, int, int] = (3, -7, 2),
    dtype: str = "int8",
    after: str = "",
    first: Sequence[int] = SHAPE,
) -> ModelProto:
    """An op of two activations."""
    net = Network()
    operands = [net.real_input(first, scales[0], zeros[0], dtype), net.real_input(second, scales[1], zeros[1], dtype)]
    result = net.node(op_type, operands)
    if after:
        result = net.node(after, [result])
    return net.model(net.quantize(result, scales[2], zeros[2], dtype))


def with_constant(
    op_type: str, constant: Any, *, shape: Sequence[int] = SHAPE, is_quantised: bool = False
) -> ModelProto:
    """An op of an activation and a constant."""
    net = Network()
    source, other = net.real_input(shape, 0.0497), net.constant(constant)
    if is_quantised:
        other = net.requantize(other, 0.01)
    return net.model(net.quantize(net.node(op_type, [source, other]), 0.0893, 2))


def of_one(build: Build, shape: Sequence[int] = (3, 40), *, dtype: str = "int8", opset: int = 20) -> ModelProto:
    """Anything of one activation, quantised otherwise."""
    net = Network(opset)
    zeros = (3, -9) if dtype == "int8" else (131, 119)
    return net.model(net.quantize(build(net, net.real_input(shape, 0.0497, zeros[0], dtype)), 0.0411, zeros[1], dtype))


def moved(build: Build, shape: Sequence[int] = (1, 6, 4, 4), dtype: str = "int8", zero: int = 3) -> ModelProto:
    """Anything that moves elements, quantised as before."""
    net = Network()
    return net.model(net.quantize(build(net, net.real_input(shape, 0.05, zero, dtype)), 0.05, zero, dtype))


def pool(op_type: str, shape: Sequence[int] = (1, 5, 9, 8), **attributes: Any) -> ModelProto:
    return of_one(lambda net, value: net.node(op_type, [value], **attributes), shape, opset=17)


def ints(net: Network, *values: int) -> str:
    return net.constant(values, "int64")


def gelu(net: Network, value: str) -> str:
    """As exporters write it out."""
    erf = net.node("Erf", [net.node("Div", [value, net.constant(1.41421)])])
    half = net.node("Mul", [net.constant(0.5), net.node("Add", [net.constant(1), erf])])
    return net.node("Mul", [value, half])


def between(net: Network, value: str) -> str:
    return net.node("Min", [net.node("Max", [value, net.constant(-1)]), net.constant(2)])


SUMS: dict[str, Callable[[], ModelProto]] = {
    "add": lambda: of_two("Add"),
    "add of unsigned": lambda: of_two("Add", dtype="uint8", zeros=(130, 100, 140)),
    "add and relu": lambda: of_two("Add", after="Relu"),
    "add and negation": lambda: of_two("Add", after="Neg"),
    "add of far scales": lambda: of_two("Add", scales=(3.71, 0.0011, 4.03)),
    "add of one per channel": lambda: of_two("Add", (1, 4, 1, 1)),
    "add of a vector": lambda: of_two("Add", (10,), first=(3, 10)),
    "sub": lambda: of_two("Sub"),
    "mul": lambda: of_two("Mul"),
    "mul of one per channel": lambda: of_two("Mul", (1, 4, 1, 1)),
    "add of constants": lambda: with_constant("Add", np.arange(4).reshape(4, 1, 1) * 0.33),
    "sub of a constant": lambda: with_constant("Sub", 0.123),
    "mul by constants": lambda: with_constant("Mul", np.array([1, -2, 0.5, 0]).reshape(4, 1, 1)),
    "div by a constant": lambda: with_constant("Div", 1.7),
    "add of a quantised table": lambda: with_constant(
        "Add", np.linspace(-1, 1, 56).reshape(7, 8), shape=(2, 7, 8), is_quantised=True
    ),
}
FUNCTIONS: dict[str, Build] = {
    **{
        name: lambda net, value, name=name: net.node(name, [value])
        for name in (
            "Abs", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Mish", "Neg", "Relu",
            "Selu", "Sigmoid", "Softplus", "Tanh",
        )
    },
    "written gelu": gelu,
    "square": lambda net, value: net.node("Pow", [value, net.constant(2)]),
    "one slope": lambda net, value: net.node("PRelu", [value, net.constant(0.2)]),
    "between": between,
}  # fmt: skip
POOLS: dict[str, Callable[[], ModelProto]] = {
    "average": lambda: pool("AveragePool", kernel_shape=[3, 3], strides=[2, 2]),
    "average with padding": lambda: pool("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
    "average at borders": lambda: pool("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "average rounded up": lambda: pool("AveragePool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "average of one dimension": lambda: pool("AveragePool", (2, 4, 17), kernel_shape=[3], strides=[2]),
    "global average": lambda: pool("GlobalAveragePool"),
    "max": lambda: pool("MaxPool", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    "max rounded up": lambda: pool("MaxPool", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
    "max with dilations": lambda: pool("MaxPool", kernel_shape=[3, 2], dilations=[2, 2]),
    "max of one dimension": lambda: pool("MaxPool", (2, 4, 17), kernel_shape=[3], strides=[2]),
    "global max": lambda: pool("GlobalMaxPool"),
    "mean of an image": lambda: pool("ReduceMean", axes=[2, 3], keepdims=0),
    "mean of a sequence": lambda: pool("ReduceMean", (2, 12, 16), axes=[1]),
    "mean of channels": lambda: pool("ReduceMean", (2, 12, 16), axes=[-1], keepdims=0),
}
MOVEMENT: dict[str, Build] = {
    "transpose": lambda net, value: net.node("Transpose", [value], perm=[0, 2, 3, 1]),
    "pad": lambda net, value: net.node("Pad", [value, ints(net, 0, 0, 1, 2, 0, 1, 0, 1)]),
    "slice": lambda net, value: net.node(
        "Slice", [value, ints(net, 1, -3), ints(net, 5, 99), ints(net, 1, 3), ints(net, 2, 1)]
    ),
    "split": lambda net, value: net.node("Split", [value, ints(net, 2, 4)], outputs=2, axis=1),
    "gather of one": lambda net, value: net.node("Gather", [value, net.constant(2, "int64")], axis=1),
    "gather of several": lambda net, value: net.node("Gather", [value, ints(net, 3, 1, 2)], axis=1),
    "flatten": lambda net, value: net.node("Flatten", [value]),
    "squeeze": lambda net, value: net.node("Unsqueeze", [net.node("Squeeze", [value, ints(net, 0)]), ints(net, 1, 4)]),
}


@pytest.mark.parametrize("name", SUMS)
def test_sum_equals_onnxruntime(name: str) -> None:
    check_against_onnxruntime(SUMS[name]())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_equals_onnxruntime(name: str) -> None:
    check_against_onnxruntime(of_one(FUNCTIONS[name]))


def test_function_of_unsigned_equals_onnxruntime() -> None:
    check_against_onnxruntime(of_one(FUNCTIONS["Tanh"], dtype="uint8"))


@pytest.mark.parametrize("name", POOLS)
def test_pool_equals_onnxruntime(name: str) -> None:
    check_against_onnxruntime(POOLS[name]())


@pytest.mark.parametrize("name", MOVEMENT)
def test_movement_equals_onnxruntime(name: str) -> None:
    check_against_onnxruntime(moved(MOVEMENT[name]), equal=1.0)


def test_movement_of_unsigned_equals_onnxruntime() -> None:
    check_against_onnxruntime(moved(MOVEMENT["flatten"], dtype="uint8", zero=128), equal=1.0)


def test_concat_of_other_scales_is_rescaled() -> None:
    net = Network()
    parts = [net.real_input((1, 3, 4, 4), 0.05, 3), net.real_input((1, 2, 4, 4), 0.0213, -3)]
    module = check_against_onnxruntime(net.model(net.quantize(net.node("Concat", parts, axis=1), 0.05, 3)))
    assert [op.name for op in module.body.block.ops if op.dialect_name() == "qnn"] == ["qnn.rescale", "qnn.concat"]


def test_squeeze_and_excitation_equals_onnxruntime() -> None:
    net = Network()
    image = net.real_input((1, 8, 6, 6), 0.0497)
    gate = net.requantize(net.node("GlobalAveragePool", [image]), 0.0103)
    gate = net.requantize(net.node("Conv", [gate, net.kernel((8, 8, 1, 1), axis=0)]), 0.0207)
    gate = net.requantize(net.node("Sigmoid", [gate]), 1 / 256, -128)
    check_against_onnxruntime(net.model(net.quantize(net.node("Mul", [image, gate]), 0.0493)))


# On processors without VNNI onnxruntime adds pairs of products of uint8 and int8 in 16 saturating bits (VPMADDUBSW), so
# that full-range weights give other sums there than elsewhere; products of weights below 64 always fit:
# https://onnxruntime.ai/docs/performance/model-optimizations/quantization.html#when-and-why-do-i-need-to-try-u8u8
UNSATURATED = (-64, 64)


def qlinear_conv(dtype: str = "uint8", weight_dtype: str = "int8", weight_zero: int = 0, opset: int = 17) -> ModelProto:
    net = Network(opset)
    limits = np.iinfo(weight_dtype)
    low, high = UNSATURATED if (dtype, weight_dtype) == ("uint8", "int8") else (limits.min, limits.max + 1)
    weights = net.constant(net.rng.integers(low, high, (5, 4, 3, 3)), weight_dtype)
    zeros = (120, 100) if dtype == "uint8" else (3, 5)
    inputs = [
        net.input((1, 4, 7, 7), dtype), net.constant(0.05), net.constant(zeros[0], dtype), weights,
        net.constant(net.rng.uniform(0.002, 0.02, 5)), net.constant([weight_zero] * 5, weight_dtype),
        net.constant(0.07), net.constant(zeros[1], dtype), net.constant(net.rng.integers(-3000, 3000, 5), "int32"),
    ]  # fmt: skip
    return net.model(net.node("QLinearConv", inputs, pads=[1, 1, 1, 1]))


@pytest.mark.parametrize(
    "model",
    [qlinear_conv(), qlinear_conv("int8"), qlinear_conv("uint8", "uint8", 128), qlinear_conv(opset=10)],
    ids=["unsigned", "signed", "unsigned weights", "operator set 10"],
)
def test_qlinear_conv_equals_onnxruntime(model: ModelProto) -> None:
    check_against_onnxruntime(model)


def test_qlinear_matmul_equals_onnxruntime() -> None:
    net = Network()
    weights = net.constant(net.rng.integers(1, 255, (8, 5)), "uint8")
    inputs = [
        net.input((3, 8), "uint8"),
        net.constant(0.0497),
        net.constant(120, "uint8"),
        weights,
        net.constant(0.0103),
    ]
    inputs += [net.constant(128, "uint8"), net.constant(0.1013), net.constant(111, "uint8")]
    check_against_onnxruntime(net.model(net.node("QLinearMatMul", inputs)))


def test_matmul_integer_and_its_scaling_become_one_product() -> None:
    net = Network()
    weights = net.constant(net.rng.integers(*UNSATURATED, (8, 5)), "int8")
    result = net.node("MatMulInteger", [net.input((3, 8), "uint8"), weights, net.constant(100, "uint8")])
    result = net.node("Mul", [net.node("Cast", [result], to=1), net.constant(0.000497)])
    result = net.node("Add", [result, net.constant(np.arange(5) * 0.1)])
    module = check_against_onnxruntime(net.model(net.quantize(result, 0.05, 1)))
    assert [op.name for op in module.body.block.ops if op.dialect_name() == "qnn"] == ["qnn.matmul"]


def test_conv_integer_and_its_scaling_become_one_convolution() -> None:
    net = Network()
    weights = net.constant(net.rng.integers(*UNSATURATED, (5, 3, 3, 3)), "int8")
    result = net.node("ConvInteger", [net.input((1, 3, 8, 8), "uint8"), weights, net.constant(100, "uint8")])
    result = net.node("Mul", [net.node("Cast", [result], to=1), net.constant(0.000497)])
    check_against_onnxruntime(net.model(net.quantize(result, 0.05, 1)))
