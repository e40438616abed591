"""Convolutions and matrix products lowered to integers, against onnxruntime."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from .qdq import Network, check_against_onnxruntime

Activation = Callable[[Network, str], str]


def conv(
    shape: Sequence[int] = (2, 5, 9, 7),
    outputs: int = 6,
    window: Sequence[int] = (3, 3),
    *,
    group: int = 1,
    dtype: str = "int8",
    zeros: tuple[int, int] = (3, -5),
    weight_dtype: str = "int8",
    weight_zero: int = 0,
    axis: int | None = 0,
    opset: int = 17,
    after: Activation | None = None,
    has_bias: bool = True,
    **attributes: Any,
) -> ModelProto:
    """One convolution between quantised tensors."""
    net = Network(opset)
    image = net.real_input(shape, 0.0497, zeros[0], dtype)
    kernel_shape = (outputs, shape[1] // group, *window)
    kernel = net.kernel(kernel_shape, axis=axis, zero=weight_zero, dtype=weight_dtype)
    inputs = [image, kernel, *([net.bias(outputs)] if has_bias else [])]
    result = net.node("Conv", inputs, group=group, kernel_shape=list(window), **attributes)
    if after is not None:
        result = after(net, result)
    return net.model(net.quantize(result, 0.07, zeros[1], dtype))


def product(
    shape: Sequence[int] = (5, 16), outputs: int = 7, *, after: Activation | None = None, opset: int = 17
) -> ModelProto:
    """An activation times weights, with a bias."""
    net = Network(opset)
    source = net.real_input(shape)
    weights = net.kernel((shape[-1], outputs), axis=1)
    result = net.node("Add", [net.node("MatMul", [source, weights]), net.bias(outputs)])
    if after is not None:
        result = after(net, result)
    return net.model(net.quantize(result, 0.1013, 4))


def gemm(**attributes: Any) -> ModelProto:
    net = Network()
    turned = bool(attributes.get("transB"))
    weights = net.kernel((7, 16) if turned else (16, 7), axis=0 if turned else 1)
    source = net.real_input((16, 5) if attributes.get("transA") else (5, 16))
    return net.model(net.quantize(net.node("Gemm", [source, weights, net.bias(7)], **attributes), 0.1013, 4))


def activations(zeros: tuple[int, int]) -> ModelProto:
    """A product of two activations."""
    net = Network()
    factors = [net.real_input((2, 3, 5, 8), 0.05, zeros[0]), net.real_input((2, 3, 8, 4), 0.04, zeros[1])]
    return net.model(net.quantize(net.node("MatMul", factors), 0.23, 1))


def batch_norm(scale: Sequence[float]) -> Activation:
    def after(net: Network, value: str) -> str:
        others = [[0.1, -0.5, 2, 0.3, 1, 0], [1.1, -0.5, 2, 0.3, 1, 0], [1.1, 0.5, 2, 0.3, 1, 2]]
        return net.node("BatchNormalization", [value, *(net.constant(array) for array in (scale, *others))])

    return after


def clip(net: Network, value: str) -> str:
    return net.node("Clip", [value, net.constant(0), net.constant(6)])


def swish(net: Network, value: str) -> str:
    return net.node("Mul", [value, net.node("Sigmoid", [value])])


def scaled_bias(net: Network, value: str) -> str:
    return net.node("Relu", [net.node("Add", [value, net.constant(np.arange(6).reshape(1, 6, 1, 1) * 0.1)])])


def op(op_type: str, **attributes: Any) -> Activation:
    return lambda net, value: net.node(op_type, [value], **attributes)


EXACT: dict[str, Callable[[], ModelProto]] = {
    "plain": conv,
    "uneven pads": lambda: conv(pads=[1, 0, 2, 1]),
    "stride of 1 by 2": lambda: conv(strides=[1, 2], pads=[1, 1, 1, 1]),
    "dilations": lambda: conv(dilations=[2, 1], pads=[1, 1, 1, 1]),
    "same upper": lambda: conv(auto_pad="SAME_UPPER", strides=[2, 2]),
    "same lower": lambda: conv(window=(2, 4), auto_pad="SAME_LOWER", strides=[2, 2]),
    "valid": lambda: conv(auto_pad="VALID"),
    "depthwise": lambda: conv((1, 6, 8, 8), group=6, pads=[1, 1, 1, 1]),
    "depthwise with multiplier": lambda: conv((1, 6, 8, 8), 12, group=6),
    "groups": lambda: conv((1, 6, 8, 8), 9, group=3),
    "one dimension": lambda: conv((2, 4, 15), 8, (5,), pads=[2, 1], strides=[2]),
    "unsigned": lambda: conv(dtype="uint8", zeros=(120, 110)),
    "unsigned weights": lambda: conv(weight_dtype="uint8", weight_zero=128, axis=None),
    "weights beyond 8 bits": lambda: conv(weight_dtype="uint8", weight_zero=40),
    "weights of groups beyond 8 bits": lambda: conv((1, 6, 7, 7), group=2, weight_dtype="uint8", weight_zero=40),
    "depthwise weights beyond 8 bits": lambda: conv((1, 6, 8, 8), group=6, weight_zero=-9),
    "no bias": lambda: conv(has_bias=False),
    "relu": lambda: conv(after=op("Relu")),
    "clip": lambda: conv(after=clip),
    "hard sigmoid": lambda: conv(after=op("HardSigmoid")),
    "leaky relu": lambda: conv(after=op("LeakyRelu", alpha=0.1)),
    "bias as a sum": lambda: conv(after=scaled_bias, has_bias=False),
    "batch norm": lambda: conv(after=batch_norm([1.1, 0.5, 2, 0.3, 1, 1])),
    "batch norm of both signs": lambda: conv(after=batch_norm([1.1, -0.5, 2, 0.3, 1, 0])),
    "product": product,
    "product of three axes": lambda: product((2, 3, 16)),
    "gemm": lambda: gemm(transB=1, alpha=0.5, beta=2.0),
    "gemm of a transpose": lambda: gemm(transA=1),
    "activations": lambda: activations((0, 0)),
    "activations with a zero point of -128": lambda: activations((-128, 7)),
    "activations with the other zero point of -128": lambda: activations((9, -128)),
}


@pytest.mark.parametrize("name", EXACT)
def test_product_equals_onnxruntime(name: str) -> None:
    check_against_onnxruntime(EXACT[name]())


@pytest.mark.parametrize("opset", [10, 11, 13, 15, 18, 19, 21, 22, 23])
def test_every_operator_set_is_read(opset: int) -> None:
    check_against_onnxruntime(conv(opset=opset, axis=None if opset < 13 else 0, after=op("Relu")))


@pytest.mark.parametrize("name", ["HardSwish", "Swish", "Gelu"])
def test_function_behind_product_is_within_one_step_and_noted(name: str) -> None:
    after = swish if name == "Swish" else op(name)
    module = check_against_onnxruntime(conv(opset=20, after=after), equal=0.95)
    assert "the network states no scale" in str(module.attributes["graph.notices"])


def test_product_in_front_of_sum_is_within_one_step() -> None:
    net = Network()
    image = net.real_input((1, 8, 6, 6))
    result = net.node("Conv", [image, net.kernel((8, 8, 3, 3), axis=0), net.bias(8)], pads=[1, 1, 1, 1])
    result = net.node("Relu", [net.node("Add", [result, image])])
    check_against_onnxruntime(net.model(net.quantize(result, 0.1, -128)), equal=0.8)


def test_weights_times_activation_are_transposed() -> None:
    net = Network()
    factors = [net.kernel((6, 8), axis=0), net.real_input((2, 8, 5))]
    check_against_onnxruntime(net.model(net.quantize(net.node("MatMul", factors), 0.2, 1)))


def names(module: ModuleOp) -> list[str]:
    return [op.name for op in module.body.block.ops if op.dialect_name() == "qnn"]


def test_flattening_in_front_of_product_moves_nothing() -> None:
    net = Network()
    result = net.node("Conv", [net.real_input((2, 8, 6, 6)), net.kernel((4, 8, 3, 3), axis=0), net.bias(4)])
    result = net.node("Flatten", [net.requantize(result, 0.1, -128)])
    result = net.node("MatMul", [result, net.kernel((64, 5), axis=1)])
    module = check_against_onnxruntime(net.model(net.quantize(result, 0.5, -1)))
    # the first transpose turns the network's own input
    assert names(module) == ["qnn.transpose", "qnn.conv2d", "qnn.reshape", "qnn.matmul"]
