"""Float operators in NumPy, by which generated networks are calibrated: no runtime is needed to generate one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float32]
Pads: TypeAlias = tuple[int, int, int, int]
"""Top, left, bottom, right: as ONNX orders them."""


def _windows(array: Floats, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Floats:
    """All windows of [N, C, H, W], as a view [N, C, OY, OX, FY, FX]."""
    height, width = (dilation * (size - 1) + 1 for size, dilation in zip(kernel, dilations, strict=True))
    views = np.lib.stride_tricks.sliding_window_view(array, (height, width), axis=(2, 3))
    return views[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def _padded(array: Floats, pads: Pads, value: float) -> Floats:
    top, left, bottom, right = pads
    return np.pad(array, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=value)


def conv2d(
    array: Floats,
    weights: Floats,
    *,
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
    groups: int = 1,
) -> Floats:
    """A convolution of [N, C, H, W] with weights [K, C / groups, FY, FX]."""
    views = _windows(_padded(array, pads, 0), weights.shape[2:], strides, dilations)
    num_images, _, height, width = views.shape[:4]
    results: list[Floats] = []
    for inputs, filters in zip(np.split(views, groups, axis=1), np.split(weights, groups), strict=True):
        rows = inputs.transpose(0, 2, 3, 1, 4, 5).reshape(num_images * height * width, -1)
        results.append(rows @ filters.reshape(len(filters), -1).T)
    joined = np.concatenate(results, axis=1).reshape(num_images, height, width, -1)
    return np.ascontiguousarray(joined.transpose(0, 3, 1, 2))


def max_pool2d(
    array: Floats,
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    dilations: Sequence[int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
) -> Floats:
    """Maxima of the windows of [N, C, H, W]; padding never wins."""
    return _windows(_padded(array, pads, -np.inf), kernel, strides, dilations).max(axis=(4, 5))


def average_pool2d(
    array: Floats,
    kernel: Sequence[int],
    *,
    strides: Sequence[int],
    pads: Pads = (0, 0, 0, 0),
    counts_padding: bool = False,
) -> Floats:
    """Means of the windows of [N, C, H, W].

    Args:
        counts_padding: Whether padding is part of a window's mean, as zeros, or left out of it.
    """

    def sums(values: Floats, outside: float) -> Floats:
        return _windows(_padded(values, pads, outside), kernel, strides, (1, 1)).sum(axis=(4, 5))

    return sums(array, 0) / sums(np.ones_like(array), float(counts_padding))


def softmax(array: Floats) -> Floats:
    """Softmax over the last axis."""
    raised = np.exp(array - array.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def channels_first(arrays: Sequence[npt.NDArray[Any]], axis: int) -> Floats:
    """Elements of all arrays by channel: [channels, elements]."""
    rows = [np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1) for array in arrays]
    return np.concatenate(rows, axis=1).astype(np.float32)
