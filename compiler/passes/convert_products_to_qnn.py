"""Pass `convert-products-to-qnn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..quantisation.reals import Quantised, quantised, quantised_constant
from ..quantisation.requantising import Channels, Unsuitable, channels_of, requantisation
from ..quantisation.roots import Root, convert_roots
from ..quantisation.weights import Weights, int8_parts, output_weights, repeated, weight_constant
from .base import PassContext
from .rewriting import OpMaker


@dataclass(frozen=True, slots=True)
class ConvertProductsToQnn:
    """Turns matrix products between dequantisation and quantisation into `qnn.matmul`.

    Weights may be computed. Zero points of two activations depend on the sums of both, so that they become further columns
    of one and rows of the other: sum (a - p)(b - q) = sum a b + sum (-p) b + sum a (-q) + constant.

    Before:
        %3 = "graph.dequantize_linear"(%0, %scale, %zero) : tensor<1x64xi8>
        %4 = "graph.dequantize_linear"(%w, %w_scale, %w_zero) : tensor<64x10xi8>
        %5 = "graph.matmul"(%3, %4)
        %6 = "graph.add"(%5, %b)
        %7 = "graph.quantize_linear"(%6, %y_scale, %y_zero)
    After:
        %7 = "qnn.matmul"(%0, %w, %bias, %multiplier, %shift) {scale = ..., zero_point = ...} : tensor<1x10xi8>
    """

    name: ClassVar[str] = "convert-products-to-qnn"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        return convert_roots(module, ctx.store, {"MatMul": _convert})


def _convert(root: Root) -> SSAValue:
    matmul = root.core
    shapes = [shape_of(value) for value in matmul.inputs]
    if len(shapes[0]) < 2 or len(shapes[1]) < 2:
        raise Unsuitable("one of its operands has a single axis; give it a second one of size 1")
    first, second = (quantised(value, root.store) for value in matmul.inputs)
    constants = [quantised_constant(value, root.store) for value in matmul.inputs]
    if second is not None and constants[0] is not None and len(shapes[0]) == 2:
        return _with_weights_first(root, output_weights(constants[0], 0), second)
    channels = channels_of(root.epilogue, shape_of(matmul.outputs[0]), -1)
    if first is not None and constants[1] is not None and len(shapes[1]) == 2:
        return _with_weights(root, first, output_weights(constants[1], 1), channels)
    if first is not None and second is not None:
        return _of_activations(root, first, second, channels)
    raise Unsuitable("its operands are no int8 behind dequantize_linear of one scale; quantise the network")


def _with_weights(root: Root, source: Quantised, weights: Weights, channels: Channels) -> SSAValue:
    """Product of an activation [..., M, K] and weights, [N, K] here."""
    signed = weights.signed(channels.gain)
    positive = Channels(
        gain=np.abs(channels.gain), offset=channels.offset, low=channels.low, high=channels.high, axis=channels.axis
    )
    constant = -source.zero_point * signed.integers.sum(axis=1)
    how = requantisation(root.maker, positive, source.scale * signed.scale, constant, root.step)
    parts = int8_parts(signed.integers.T)
    matrix = weight_constant(root.maker, np.concatenate(parts), signed.bits)
    value = repeated(root.maker, source.value, len(parts))
    return root.maker.insert(qnn.MatMulOp(value, matrix, how, nodes=root.nodes))


def _with_weights_first(root: Root, weights: Weights, source: Quantised) -> SSAValue:
    """Product of weights [M, K] and an activation [..., K, N]: (activation^T weights^T)^T."""
    maker, shape = root.maker, shape_of(source.value)
    flipped = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    turned = maker.insert(qnn.TransposeOp(source.value, flipped, nodes=root.nodes))
    channels = channels_of(root.epilogue, shape_of(root.core.outputs[0]), -2)
    turned_source = Quantised(value=turned, scale=source.scale, zero_point=source.zero_point)
    made = _with_weights(root, turned_source, weights, channels)
    return maker.insert(qnn.TransposeOp(made, flipped, nodes=root.nodes))


def _of_activations(root: Root, first: Quantised, second: Quantised, channels: Channels) -> SSAValue:
    """Product of two activations [..., M, K] and [..., K, N]."""
    maker, shapes = root.maker, (shape_of(first.value), shape_of(second.value))
    if shapes[0][:-2] != shapes[1][:-2]:
        raise Unsuitable(f"its operands {list(shapes[0])} and {list(shapes[1])} differ in their leading axes")
    depth = shapes[0][-1]
    left, right = [first.value], [second.value]
    for zero in _int8_parts(-first.zero_point):
        left.append(_filled(maker, shapes[0], zero))
        right.append(second.value)
    for zero in _int8_parts(-second.zero_point):
        left.append(first.value)
        right.append(_filled(maker, shapes[1], zero))
    constant = np.full(channels.gain.shape, depth * first.zero_point * second.zero_point, dtype=np.float64)
    unit = np.full(channels.gain.shape, first.scale * second.scale)
    how = requantisation(maker, channels, unit, constant, root.step)
    operands = [
        _joined(maker, parts, axis) for parts, axis in ((left, len(shapes[0]) - 1), (right, len(shapes[1]) - 2))
    ]
    return maker.insert(qnn.MatMulOp(operands[0], operands[1], how, nodes=root.nodes))


def _int8_parts(value: int) -> list[int]:
    """A number as a sum of numbers of 8 bits; none for 0. Only 128 needs two."""
    if value == 0:
        return []
    return [value] if value <= qnn.HIGH else [value // 2, value - value // 2]


def _filled(maker: OpMaker, shape: tuple[int, ...], value: int) -> SSAValue:
    return maker.constant(np.full(shape, value, dtype=np.int8))


def _joined(maker: OpMaker, parts: list[SSAValue], axis: int) -> SSAValue:
    return parts[0] if len(parts) == 1 else maker.insert(qnn.ConcatOp(parts, axis, nodes=maker.nodes))
