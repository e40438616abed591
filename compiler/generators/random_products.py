"""Random convolutions and matrix products, in QDQ or QOperator form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from .arithmetic import Floats, conv2d
from .builder import FloatTensor, QuantisedTensor
from .quantisation import Weights, calibrate, draw_weights
from .random_draws import Drawing

PER_CHANNEL_OPSET = 13
"""From here on `DequantizeLinear` has an axis."""


def random_conv(drawing: Drawing) -> QuantisedTensor | None:
    """Kernels of 1 to 5, unequal strides, dilations, groups, asymmetric padding."""
    tensor = drawing.pick(lambda found: len(found.shape) == 4)
    if tensor is None:
        return None
    channels = tensor.shape[1]
    axes = [_draw_axis(drawing, length) for length in tensor.shape[2:]]
    groups = drawing.choose([1, 1, channels, *(g for g in range(2, channels) if channels % g == 0)])
    return _conv(drawing, tensor, axes, groups, groups * drawing.draw(1, max(1, 8 // groups)))


def random_grouped_conv(drawing: Drawing) -> QuantisedTensor:
    """The latest tensor in any number of groups but one, of 1 to 20 outputs each."""
    tensor = drawing.tensors[-1]
    channels = tensor.shape[1]
    axes = [_draw_axis(drawing, length) for length in tensor.shape[2:]]
    groups = drawing.choose([g for g in range(2, channels + 1) if channels % g == 0])
    return _conv(drawing, drawing.use(tensor), axes, groups, groups * drawing.draw(1, max(2, min(20, 96 // groups))))


def _conv(
    drawing: Drawing, tensor: QuantisedTensor, axes: Sequence[tuple[int, int, int, int, int]], groups: int, filters: int
) -> QuantisedTensor:
    channels = tensor.shape[1]
    kernel, strides, dilations, before, after = (tuple(axis[at] for axis in axes) for at in range(5))
    pads = (before[0], before[1], after[0], after[1])
    window: dict[str, Any] = {"strides": strides, "dilations": dilations, "pads": pads}
    weights = _draw(
        drawing, tensor, (filters, channels // groups, *kernel), partial(conv2d, groups=groups, **window), 0, 1
    )
    window.update(kernel_shape=kernel, group=groups)
    if drawing.is_qoperator:
        return _qlinear(drawing, tensor, weights, "QLinearConv", **window)
    names = _dequantised(drawing, tensor, weights, 0)
    result = drawing.builder.add_node("Conv", names, **window)
    return drawing.quantise(FloatTensor(name=result, samples=weights.outputs))


def random_matmul(drawing: Drawing) -> QuantisedTensor | None:
    """A product of the last axis with constant weights: `MatMul`, perhaps with an `Add`, or `Gemm`."""
    tensor = drawing.pick(lambda found: len(found.shape) >= 2)
    if tensor is None:
        return None
    features, units = tensor.shape[-1], drawing.draw(1, 12)
    is_gemm = len(tensor.shape) == 2 and not drawing.is_qoperator and drawing.flip()
    is_transposed = is_gemm and drawing.flip()
    weights = _draw(
        drawing, tensor, (units, features) if is_transposed else (features, units),
        (lambda array, matrix: array @ matrix.T) if is_transposed else np.matmul,
        0 if is_transposed else 1, len(tensor.shape) - 1, may_have_bias=not drawing.is_qoperator,
    )  # fmt: skip
    if drawing.is_qoperator:
        return _qlinear(drawing, tensor, weights, "QLinearMatMul")
    builder, names = drawing.builder, _dequantised(drawing, tensor, weights, 0 if is_transposed else 1)
    if is_gemm:
        result = builder.add_node("Gemm", names, transB=int(is_transposed))
    else:
        result = builder.add_node("MatMul", names[:2])
        result = builder.add_node("Add", [result, names[2]]) if len(names) > 2 else result
    return drawing.quantise(FloatTensor(name=result, samples=weights.outputs))


def random_self_product(drawing: Drawing) -> QuantisedTensor | None:
    """A tensor times its transpose, as in attention: both sides are computed."""
    tensor = drawing.pick(lambda found: len(found.shape) in (2, 3) and found.shape[-2] <= 16)
    if tensor is None:
        return None
    order = (*range(len(tensor.shape) - 2), len(tensor.shape) - 1, len(tensor.shape) - 2)
    other = drawing.builder.move("Transpose", drawing.use(tensor), lambda array: array.transpose(order), perm=order)
    inputs = [drawing.use_float(tensor), drawing.builder.dequantise(other)]
    return drawing.builder.quantise(drawing.builder.apply("MatMul", inputs, np.matmul))


def _draw_axis(drawing: Drawing, length: int) -> tuple[int, int, int, int, int]:
    """Kernel, stride, dilation, and padding before and after, with at least one output."""
    while True:
        kernel, dilation = drawing.draw(1, 5), drawing.choose([1, 1, 2])
        extent = dilation * (kernel - 1) + 1
        before, after = (drawing.draw(0, min(2, extent - 1)) for _ in range(2))
        if extent <= length + before + after:
            return kernel, drawing.draw(1, 3), dilation, before, after


def _draw(
    drawing: Drawing,
    tensor: QuantisedTensor,
    shape: Sequence[int],
    product: Callable[[Floats, Floats], Floats],
    weight_axis: int,
    output_axis: int,
    *,
    may_have_bias: bool = True,
) -> Weights:
    can_be_per_channel = drawing.is_qoperator or drawing.builder.opset >= PER_CHANNEL_OPSET
    return draw_weights(
        drawing.builder.rng, shape, tensor.samples, tensor.scale.scale, product, weight_axis=weight_axis,
        output_axis=output_axis, is_per_channel=can_be_per_channel and drawing.flip(0.6),
        has_bias=may_have_bias and drawing.flip(0.8), is_normalised=drawing.flip(0.7),
    )  # fmt: skip


def _dequantised(drawing: Drawing, tensor: QuantisedTensor, weights: Weights, axis: int) -> list[str]:
    """Names of input, weights and, if there is one, bias as floats."""
    builder = drawing.builder
    names = [
        drawing.use_float(tensor).name,
        builder.dequantise_constant(weights.integers, weights.scales, axis, "weights"),
    ]
    if weights.bias is None:
        return names
    scales = weights.bias_scales(tensor.scale.scale)
    return [*names, builder.dequantise_constant(weights.bias, scales, 0, "bias")]


def _qlinear(
    drawing: Drawing, tensor: QuantisedTensor, weights: Weights, op_type: str, **attributes: Any
) -> QuantisedTensor:
    """A product in QOperator form."""
    builder = drawing.builder
    scale = calibrate(weights.outputs, builder.dtype)
    inputs = [
        drawing.use(tensor).name,
        *builder.scale_inputs(tensor.scale),
        builder.add_constant(weights.integers, "weights"),
        builder.add_constant(weights.scales, "scale"),
        builder.add_constant(np.zeros(weights.scales.shape, np.int8), "zero_point"),
        *builder.scale_inputs(scale),
        *([] if weights.bias is None else [builder.add_constant(weights.bias, "bias")]),
    ]
    name = builder.add_node(op_type, inputs, **attributes)
    return QuantisedTensor(name=name, scale=scale, samples=builder.rounded(weights.outputs, scale))
