"""Ops of the `qnn` dialect, in exact integers.

Sums of products are taken in float64, whose 53 bits hold them exactly, so that NumPy's matrix product can be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from xdsl.ir import Operation

from ...archdsl import Rounding
from ...models import requantised
from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.store import Array
from ..rows.programs import stages_of
from .rows import run_stages

Int64 = npt.NDArray[np.int64]
Operands: TypeAlias = Sequence[Array]
_Run: TypeAlias = Callable[[Any, Operands, Rounding], Array]


def run_qnn_op(op: Operation, operands: Operands, rounding: Rounding = "half_to_even") -> Array:
    """Result of an op.

    Args:
        op: An op of the `qnn` dialect.
        operands: One array an operand.
        rounding: What happens to ties in requantisation.
    """
    return _RUNS[type(op)](op, operands, rounding)


def _conv2d(op: qnn.Conv2dOp, operands: Operands, rounding: Rounding) -> Array:
    weights = operands[1]
    if weights.shape[:2] == (1, 1) and not any(qnn.window_of(op).pads):
        strides = qnn.window_of(op).strides
        pixels = operands[0][:, :: strides[0], :: strides[1]]
        return _requantise(op, _product(pixels, weights[0, 0]), operands[2:], rounding)
    windows = _windows(op, operands[0], weights.shape[:2])  # [N, OY, OX, C, FY, FX]
    rows = windows.reshape(-1, int(np.prod(windows.shape[3:])))
    matrix = weights.transpose(2, 0, 1, 3).reshape(rows.shape[1], -1)
    sums = _product(rows, matrix).reshape(*windows.shape[:3], -1)
    return _requantise(op, sums, operands[2:], rounding)


def _depthwise(op: qnn.DepthwiseConv2dOp, operands: Operands, rounding: Rounding) -> Array:
    windows = _windows(op, operands[0], operands[1].shape[:2])
    sums = np.einsum("nyxcij,ijc->nyxc", windows, operands[1], dtype=np.int32, casting="unsafe")
    return _requantise(op, sums.astype(np.int64), operands[2:], rounding)


def _matmul(op: qnn.MatMulOp, operands: Operands, rounding: Rounding) -> Array:
    return _requantise(op, _product(operands[0], operands[1]), operands[2:], rounding)


def _pool2d(op: qnn.Pool2dOp, operands: Operands, rounding: Rounding) -> Array:
    height, width = (int(size) for size in op.kernel.get_values())
    windows = _windows(op, operands[0], (height, width))
    if op.operation.data == "add":
        pooled = windows.sum(axis=(4, 5), dtype=np.int64)
    else:
        pooled = windows.max(axis=(4, 5)).astype(np.int64)
    return _requantise(op, pooled, operands[1:], rounding)


def _add(op: qnn.AddOp, operands: Operands, rounding: Rounding) -> Array:
    first, second = (int(factor) for factor in op.factors.get_values())
    sums = first * operands[0].astype(np.int64) + second * operands[1].astype(np.int64)
    return _requantise(op, sums, operands[2:], rounding)


def _multiply(op: qnn.MultiplyOp, operands: Operands, rounding: Rounding) -> Array:
    zeros = [int(zero) for zero in op.zero_points.get_values()]
    products = (operands[0].astype(np.int64) - zeros[0]) * (operands[1].astype(np.int64) - zeros[1])
    return _requantise(op, products, operands[2:], rounding)


def _rescale(op: qnn.RescaleOp, operands: Operands, rounding: Rounding) -> Array:
    products = operands[0].astype(np.int64) * operands[1].astype(np.int64)
    return _requantise(op, products, operands[2:], rounding)


def _lookup(op: qnn.LookupOp, operands: Operands, rounding: Rounding) -> Array:
    del op, rounding
    return operands[1][operands[0].view(np.uint8)]


def _rows(op: qnn.SoftmaxOp | qnn.LayerNormOp, operands: Operands, rounding: Rounding) -> Array:
    source, tables, *constants = operands
    how, shape = qnn.requantisation_of(op), shape_of(op.result)
    limits = (how.zero_point, how.low, how.high)
    found = run_stages(stages_of(op), source.reshape(-1, shape[-1]), tables, constants, limits, rounding)
    return found.reshape(shape)


def _reshape(op: qnn.ReshapeOp, operands: Operands, rounding: Rounding) -> Array:
    del rounding
    return operands[0].reshape(shape_of(op.result))


def _transpose(op: qnn.TransposeOp, operands: Operands, rounding: Rounding) -> Array:
    del rounding
    return operands[0].transpose([int(axis) for axis in op.permutation.get_values()])


def _concat(op: qnn.ConcatOp, operands: Operands, rounding: Rounding) -> Array:
    del rounding
    return np.concatenate(operands, axis=int(op.axis.value.data))


def _slice(op: qnn.SliceOp, operands: Operands, rounding: Rounding) -> Array:
    del rounding
    parts = zip(op.begin.get_values(), op.steps.get_values(), shape_of(op.result), strict=True)
    return operands[0][tuple(slice(begin, begin + step * size, step) for begin, step, size in parts)]


def _pad(op: qnn.PadOp, operands: Operands, rounding: Rounding) -> Array:
    del rounding
    width = list(zip(op.before.get_values(), op.after.get_values(), strict=True))
    return np.pad(operands[0], width, constant_values=int(op.value.value.data))


def _windows(
    op: qnn.Conv2dOp | qnn.DepthwiseConv2dOp | qnn.Pool2dOp, image: Array, kernel: Sequence[int]
) -> npt.NDArray[np.int8]:
    """Every window of an image: [N, OY, OX, C, FY, FX]."""
    window = qnn.window_of(op)
    top, left, bottom, right = window.pads
    padded = np.pad(image, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=window.padding)
    (step_y, step_x), (apart_y, apart_x) = window.strides, window.dilations
    spans = (apart_y * (kernel[0] - 1) + 1, apart_x * (kernel[1] - 1) + 1)
    found = sliding_window_view(padded, spans, axis=(1, 2))  # pyright: ignore[reportArgumentType, reportCallIssue]
    return cast("npt.NDArray[np.int8]", found[:, ::step_y, ::step_x, :, ::apart_y, ::apart_x])


def _product(first: Array, second: Array) -> Int64:
    product = first.astype(np.float64) @ second.astype(np.float64)
    return product.astype(np.int64)


def _requantise(op: qnn.RequantisingOp, sums: Int64, constants: Operands, rounding: Rounding) -> Array:
    how = qnn.requantisation_of(op)
    bias, multiplier, shift = (constant.astype(np.int64) for constant in constants)
    result = requantised(sums, bias, multiplier, shift, how.zero_point, how.low, how.high, rounding)
    return result.astype(np.int8)


_RUNS: Mapping[type[Operation], _Run] = {
    qnn.Conv2dOp: _conv2d,
    qnn.DepthwiseConv2dOp: _depthwise,
    qnn.MatMulOp: _matmul,
    qnn.Pool2dOp: _pool2d,
    qnn.AddOp: _add,
    qnn.MultiplyOp: _multiply,
    qnn.RescaleOp: _rescale,
    qnn.LookupOp: _lookup,
    qnn.SoftmaxOp: _rows,
    qnn.LayerNormOp: _rows,
    qnn.ReshapeOp: _reshape,
    qnn.TransposeOp: _transpose,
    qnn.ConcatOp: _concat,
    qnn.SliceOp: _slice,
    qnn.PadOp: _pad,
}
