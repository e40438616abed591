"""Layers of quantised networks in QDQ form: from quantised activation to quantised activation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from .arithmetic import Floats, Pads, average_pool2d, conv2d, max_pool2d, softmax
from .builder import FloatTensor, GraphBuilder, QuantisedTensor
from .quantisation import Scale, draw_weights

SOFTMAX_SCALE = Scale(scale=1 / 256, zero_point=-128)


def same_pads(size: Sequence[int], kernel: Sequence[int], stride: int) -> Pads:
    """Padding by which ceil(size / stride) outputs come out; what is odd goes to the end, as in TensorFlow."""
    totals = [max(0, (-(-length // stride) - 1) * stride + k - length) for length, k in zip(size, kernel, strict=True)]
    top, left = (total // 2 for total in totals)
    return top, left, totals[0] - top, totals[1] - left


def relu(builder: GraphBuilder, tensor: FloatTensor) -> FloatTensor:
    """Negative values become 0."""
    return builder.apply("Relu", [tensor], partial(np.maximum, np.float32(0)))


def conv(
    builder: GraphBuilder,
    tensor: QuantisedTensor,
    filters: int,
    kernel: tuple[int, int],
    *,
    stride: int = 1,
    pads: Pads | None = None,
    groups: int = 1,
    has_relu: bool = True,
) -> QuantisedTensor:
    """A convolution with weights of one scale per channel, and bias.

    Args:
        pads: What `same_pads` says unless given.
        groups: Of channels that see only each other: as many as channels, and `filters`, in a depthwise convolution.
    """
    channels, *size = tensor.shape[1:]
    pads = same_pads(size, kernel, stride) if pads is None else pads
    weights = draw_weights(
        builder.rng, (filters, channels // groups, *kernel), tensor.samples, tensor.scale.scale,
        partial(conv2d, strides=(stride, stride), pads=pads, groups=groups), weight_axis=0, output_axis=1,
    )  # fmt: skip
    assert weights.bias is not None
    inputs = [
        builder.dequantise(tensor).name,
        builder.dequantise_constant(weights.integers, weights.scales, 0, "weights"),
        builder.dequantise_constant(weights.bias, weights.bias_scales(tensor.scale.scale), 0, "bias"),
    ]
    name = builder.add_node(
        "Conv", inputs, kernel_shape=kernel, strides=(stride, stride), dilations=(1, 1), pads=pads, group=groups
    )
    result = FloatTensor(name=name, samples=weights.outputs)
    return builder.quantise(relu(builder, result) if has_relu else result)


def dense(
    builder: GraphBuilder,
    tensor: QuantisedTensor,
    units: int,
    *,
    has_relu: bool = False,
    is_gemm: bool = False,
) -> QuantisedTensor:
    """A matrix product and a bias: `MatMul` and `Add` with one scale for all weights, or a `Gemm` with one per unit.

    Args:
        has_relu: Whether it is a hidden layer, which is normalised, or the last one.
    """
    features = tensor.shape[1]
    weights = draw_weights(
        builder.rng, (units, features) if is_gemm else (features, units), tensor.samples, tensor.scale.scale,
        (lambda array, matrix: array @ matrix.T) if is_gemm else np.matmul,
        weight_axis=0 if is_gemm else 1, output_axis=1, is_per_channel=is_gemm,
        is_normalised=has_relu,
    )  # fmt: skip
    assert weights.bias is not None
    inputs = [
        builder.dequantise(tensor).name,
        builder.dequantise_constant(weights.integers, weights.scales, 0, "weights"),
    ]
    bias = builder.dequantise_constant(weights.bias, weights.bias_scales(tensor.scale.scale), 0, "bias")
    if is_gemm:
        name = builder.add_node("Gemm", [*inputs, bias], transB=1)
    else:
        name = builder.add_node("Add", [builder.add_node("MatMul", inputs), bias])
    result = FloatTensor(name=name, samples=weights.outputs)
    return builder.quantise(relu(builder, result) if has_relu else result)


def add(
    builder: GraphBuilder, first: QuantisedTensor, second: QuantisedTensor, *, has_relu: bool = True
) -> QuantisedTensor:
    """A residual connection."""
    total = builder.apply("Add", [builder.dequantise(first), builder.dequantise(second)], np.add)
    return builder.quantise(relu(builder, total) if has_relu else total)


def max_pool(
    builder: GraphBuilder, tensor: QuantisedTensor, kernel: tuple[int, int], *, stride: int, pads: Pads
) -> QuantisedTensor:
    """Maxima, in the input's scale."""
    strides = (stride, stride)
    result = builder.apply(
        "MaxPool", [builder.dequantise(tensor)], partial(max_pool2d, kernel=kernel, strides=strides, pads=pads),
        kernel_shape=kernel, strides=strides, pads=pads,
    )  # fmt: skip
    return builder.quantise(result, tensor.scale)


def average_all(builder: GraphBuilder, tensor: QuantisedTensor, *, is_global: bool = False) -> QuantisedTensor:
    """The mean of every channel in the input's scale: `AveragePool` over everything, or `GlobalAveragePool`."""
    kernel = tensor.shape[2:]
    mean = partial(average_pool2d, kernel=kernel, strides=kernel)
    inputs = [builder.dequantise(tensor)]
    if is_global:
        result = builder.apply("GlobalAveragePool", inputs, mean)
    else:
        result = builder.apply("AveragePool", inputs, mean, kernel_shape=kernel, strides=kernel)
    return builder.quantise(result, tensor.scale)


def flatten(builder: GraphBuilder, tensor: QuantisedTensor) -> QuantisedTensor:
    """[N, C, 1, 1] becomes [N, C]."""
    shape = builder.add_constant(np.asarray([-1, tensor.shape[1]], np.int64), "shape")
    return builder.move("Reshape", tensor, lambda array: array.reshape(len(array), -1), [shape])


def channels_first(builder: GraphBuilder, tensor: QuantisedTensor) -> QuantisedTensor:
    """[N, H, W, C] becomes [N, C, H, W]."""
    return builder.move("Transpose", tensor, _channels_first, perm=(0, 3, 1, 2))


def _channels_first(array: Floats) -> Floats:
    return array.transpose(0, 3, 1, 2)


def classify(builder: GraphBuilder, tensor: QuantisedTensor, classes: int) -> QuantisedTensor:
    """The end of a classifier: mean, product, softmax."""
    logits = dense(builder, flatten(builder, average_all(builder, tensor)), classes)
    likely = builder.apply("Softmax", [builder.dequantise(logits)], softmax, axis=-1)
    return builder.quantise(likely, SOFTMAX_SCALE)
