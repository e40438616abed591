"""Quantised networks in the shapes of MLPerf Tiny, ResNet-50 and ResNeXt, with random weights.

They stand in for trained ones where only shapes, scales and integers matter: in tests and in measurements of speed.
Each is a function of its seed alone. Activations are int8 and asymmetric, convolutions have a scale per channel, and
scales are calibrated on inputs that are drawn evenly from all integers.

Source: Banbury et al., MLPerf Tiny Benchmark, NeurIPS Datasets and Benchmarks 2021; He et al., Deep Residual Learning
for Image Recognition, CVPR 2016, figure 5 and table 1, with the stride in the 3x3 convolution; Xie et al., Aggregated
Residual Transformations for Deep Neural Networks, CVPR 2017, table 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .builder import GraphBuilder, QuantisedTensor
from .layers import add, average_all, channels_first, classify, conv, dense, max_pool
from .quantisation import Scale

if TYPE_CHECKING:
    from onnx import ModelProto

IMAGE_SCALE = Scale(scale=1.0, zero_point=-128)
"""Of pixels from 0 to 255."""


def quantised_resnet8(seed: int) -> ModelProto:
    """ResNet-8 for 10 classes of [1, 32, 32, 3] images: three residual stacks of 16, 32 and 64 channels, softmax."""
    builder = GraphBuilder(seed, name="resnet8")
    image = builder.add_input((1, 32, 32, 3), IMAGE_SCALE)
    tensor = conv(builder, channels_first(builder, image), 16, (3, 3))
    for filters, stride in ((16, 1), (32, 2), (64, 2)):
        inner = conv(builder, tensor, filters, (3, 3), stride=stride)
        inner = conv(builder, inner, filters, (3, 3), has_relu=False)
        if stride > 1:
            tensor = conv(builder, tensor, filters, (1, 1), stride=stride, has_relu=False)
        tensor = add(builder, tensor, inner)
    return builder.finish([classify(builder, tensor, 10)])


def quantised_dscnn(seed: int) -> ModelProto:
    """DS-CNN for 12 keywords in [1, 49, 10, 1] spectra: four depthwise separable convolutions of 64 channels, softmax."""
    builder = GraphBuilder(seed, name="dscnn")
    spectrum = builder.add_input((1, 49, 10, 1), Scale(scale=float(np.float32(0.585)), zero_point=83))
    shape = builder.add_constant(np.asarray([-1, 1, 49, 10], np.int64), "shape")
    image = builder.move("Reshape", spectrum, lambda array: array.reshape(-1, 1, 49, 10), [shape])
    tensor = conv(builder, image, 64, (10, 4), stride=2)
    for _ in range(4):
        tensor = conv(builder, _depthwise(builder, tensor), 64, (1, 1))
    return builder.finish([classify(builder, tensor, 12)])


def quantised_mobilenet(seed: int, size: int = 96, width: float = 0.25) -> ModelProto:
    """MobileNet v1 for 2 classes of [1, size, size, 3] images: 13 depthwise separable convolutions, softmax.

    Args:
        seed: Of the weights.
        size: Height and width of the image; a multiple of 32.
        width: Share of the full network's channels.

    Raises:
        ValueError: `size` or `width` are out of range.
    """
    if size < 32 or size % 32 or not 0 < width <= 1:
        raise ValueError(f"size {size} must be a multiple of 32, width {width} above 0 and at most 1")
    builder = GraphBuilder(seed, name="mobilenet")
    image = builder.add_input((1, size, size, 3), Scale(scale=float(np.float32(1 / 255)), zero_point=-128))
    tensor = conv(builder, channels_first(builder, image), _scaled(32, width), (3, 3), stride=2)
    for filters, stride in (
        (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)
    ):  # fmt: skip
        tensor = conv(builder, _depthwise(builder, tensor, stride), _scaled(filters, width), (1, 1))
    return builder.finish([classify(builder, tensor, 2)])


def quantised_autoencoder(seed: int) -> ModelProto:
    """The autoencoder for anomalies in sound: [1, 640] through layers of 128 units and a waist of 8 back to 640."""
    builder = GraphBuilder(seed, num_samples=32, name="autoencoder")
    tensor = builder.add_input((1, 640), Scale(scale=float(np.float32(0.391)), zero_point=89))
    for units in (128, 128, 128, 128, 8, 128, 128, 128, 128):
        tensor = dense(builder, tensor, units, has_relu=True)
    return builder.finish([dense(builder, tensor, 640)])


def quantised_tiny(seed: int) -> ModelProto:
    """A residual network for 4 classes of [1, 8, 8, 4] images: three convolutions, softmax; for examples and tests."""
    builder = GraphBuilder(seed, name="tiny")
    image = builder.add_input((1, 8, 8, 4), IMAGE_SCALE)
    tensor = conv(builder, channels_first(builder, image), 8, (3, 3))
    inner = conv(builder, tensor, 8, (3, 3))
    inner = conv(builder, inner, 8, (1, 1), has_relu=False)
    return builder.finish([classify(builder, add(builder, tensor, inner), 4)])


def quantised_resnet50(seed: int, size: int = 224) -> ModelProto:
    """ResNet-50 for 1000 classes of [1, 3, size, size] images; returns logits.

    Args:
        seed: Of the weights.
        size: Height and width of the image; a multiple of 32.

    Raises:
        ValueError: `size` is out of range.
    """
    if size < 32 or size % 32:
        raise ValueError(f"size {size} must be a multiple of 32")
    builder = GraphBuilder(seed, num_samples=2, name="resnet50")
    image = builder.add_input((1, 3, size, size), Scale(scale=float(np.float32(0.0187)), zero_point=-14))
    tensor = conv(builder, image, 64, (7, 7), stride=2, pads=(3, 3, 3, 3))
    tensor = max_pool(builder, tensor, (3, 3), stride=2, pads=(1, 1, 1, 1))
    for filters, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            tensor = _bottleneck(builder, tensor, filters, stride if block == 0 else 1, has_projection=block == 0)
    mean = average_all(builder, tensor, is_global=True)
    flat = builder.move("Flatten", mean, lambda array: array.reshape(len(array), -1))
    return builder.finish([dense(builder, flat, 1000, is_gemm=True)])


def quantised_resnext(seed: int, size: int = 28, filters: int = 32, groups: int = 8) -> ModelProto:
    """A small ResNeXt for 10 classes of [1, 3, size, size] images: four bottlenecks in two stages, with groups; returns logits.

    Args:
        seed: Of the weights.
        size: Height and width of the image; a multiple of 4.
        filters: Channels of the first stage's convolutions in groups; the second one has twice as many.
        groups: Their groups, in both stages.

    Raises:
        ValueError: `size` is out of range, or `groups` do not divide `filters`.
    """
    if size < 4 or size % 4 or groups < 1 or filters % groups:
        raise ValueError(f"size {size} must be a multiple of 4, and filters {filters} one of groups {groups}")
    builder = GraphBuilder(seed, num_samples=2, name="resnext")
    image = builder.add_input((1, 3, size, size), Scale(scale=float(np.float32(0.0187)), zero_point=-14))
    tensor = conv(builder, image, 32, (3, 3), stride=2)
    for width, stride in ((filters, 1), (filters, 1), (2 * filters, 2), (2 * filters, 1)):
        has_projection = tensor.shape[1] != 2 * width
        tensor = _bottleneck(
            builder, tensor, width, stride, has_projection=has_projection, groups=groups, expansion=2
        )  # fmt: skip
    mean = average_all(builder, tensor, is_global=True)
    flat = builder.move("Flatten", mean, lambda array: array.reshape(len(array), -1))
    return builder.finish([dense(builder, flat, 10, is_gemm=True)])


def _scaled(filters: int, width: float) -> int:
    return max(1, int(filters * width))


def _depthwise(builder: GraphBuilder, tensor: QuantisedTensor, stride: int = 1) -> QuantisedTensor:
    return conv(builder, tensor, tensor.shape[1], (3, 3), stride=stride, groups=tensor.shape[1])


def _bottleneck(
    builder: GraphBuilder, tensor: QuantisedTensor, filters: int, stride: int, *, has_projection: bool, groups: int = 1,
    expansion: int = 4,
) -> QuantisedTensor:  # fmt: skip
    inner = conv(builder, tensor, filters, (1, 1))
    inner = conv(builder, inner, filters, (3, 3), stride=stride, pads=(1, 1, 1, 1), groups=groups)
    inner = conv(builder, inner, expansion * filters, (1, 1), has_relu=False)
    if has_projection:
        tensor = conv(builder, tensor, expansion * filters, (1, 1), stride=stride, has_relu=False)
    return add(builder, tensor, inner)
