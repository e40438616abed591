"""Random element-wise nodes and pooling."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .activations import BY_TABLE, FUSABLE, activate
from .arithmetic import Floats, average_pool2d, max_pool2d
from .builder import FloatTensor, QuantisedTensor
from .quantisation import Scale
from .random_draws import Drawing

_BINARY: tuple[tuple[str, Callable[..., Floats]], ...] = (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply))


def random_binary(drawing: Drawing) -> QuantisedTensor | None:
    """A sum, difference or product of two tensors of one shape, or of a tensor and a constant."""
    tensor = drawing.pick()
    if tensor is None:
        return None
    op_type, function = drawing.choose(_BINARY)
    first = drawing.use_float(tensor)
    if drawing.flip(0.3):
        second = _constant(drawing, tensor)
    else:
        other = drawing.choose([found for found in drawing.tensors if found.shape == tensor.shape])
        second = drawing.use_float(other)
    operands = [second, first] if drawing.flip() else [first, second]
    return drawing.quantise(drawing.builder.apply(op_type, operands, function))


def _constant(drawing: Drawing, tensor: QuantisedTensor) -> FloatTensor:
    """A quantised constant: a scalar, one value per channel, or one per element."""
    builder, shape = drawing.builder, tensor.shape
    channels = (shape[1], *[1] * (len(shape) - 2)) if len(shape) > 2 else shape[-1:]
    drawn = drawing.choose([(), channels, channels, shape])
    scale = Scale(scale=float(np.float32(np.exp(builder.rng.uniform(-5, -3)))), zero_point=0)
    integers = builder.rng.integers(-127, 128, drawn).astype(np.int8)
    name = builder.dequantise_constant(integers, np.asarray(scale.scale, np.float32), 0, "constant")
    return FloatTensor(name=name, samples=(scale.dequantise(integers),) * len(tensor.samples))


def random_activation(drawing: Drawing) -> QuantisedTensor | None:
    """An activation function by itself."""
    tensor = drawing.pick()
    if tensor is None:
        return None
    kind = drawing.choose((*FUSABLE, *BY_TABLE))
    return drawing.builder.quantise(activate(drawing.builder, kind, drawing.use_float(tensor)))


def random_pool(drawing: Drawing) -> QuantisedTensor | None:
    """A maximum or an average over windows, or over everything; in the input's scale or in one of its own."""
    tensor = drawing.pick(lambda found: len(found.shape) == 4)
    if tensor is None:
        return None
    builder, inputs = drawing.builder, [drawing.use_float(tensor)]
    if drawing.flip(0.2):
        mean = partial(average_pool2d, kernel=tensor.shape[2:], strides=(1, 1))
        result = builder.apply("GlobalAveragePool", inputs, mean)
    elif drawing.flip():
        window = _window(drawing, tensor)
        result = builder.apply("MaxPool", inputs, partial(_max_pool, window=window), **_attributes(window))
    else:
        window, counts = _window(drawing, tensor), drawing.flip()
        pool = partial(_average_pool, window=window, counts_padding=counts)
        result = builder.apply("AveragePool", inputs, pool, count_include_pad=int(counts), **_attributes(window))
    return builder.quantise(result, tensor.scale if drawing.flip() else None)


_Window = tuple[tuple[int, ...], tuple[int, ...], tuple[int, int, int, int]]
"""Kernel, strides, padding."""


def _window(drawing: Drawing, tensor: QuantisedTensor) -> _Window:
    kernel = tuple(drawing.draw(1, min(4, length)) for length in tensor.shape[2:])
    top, left, bottom, right = (drawing.draw(0, min(1, k - 1)) for k in (*kernel, *kernel))
    return kernel, (drawing.draw(1, 3), drawing.draw(1, 3)), (top, left, bottom, right)


def _attributes(window: _Window) -> dict[str, Any]:
    return {"kernel_shape": window[0], "strides": window[1], "pads": window[2]}


def _max_pool(array: Floats, window: _Window) -> Floats:
    return max_pool2d(array, window[0], strides=window[1], pads=window[2])


def _average_pool(array: Floats, window: _Window, counts_padding: bool) -> Floats:
    return average_pool2d(array, window[0], strides=window[1], pads=window[2], counts_padding=counts_padding)
