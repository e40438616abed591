"""Pass `convert-elementwise-to-qnn`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..quantisation.operands import moved, operand_of
from ..quantisation.reals import Quantised, Reals, quantised
from ..quantisation.requantising import Channels, Ints, Unsuitable, channels_of, requantisation, varying_axes
from ..quantisation.roots import Root, convert_roots
from ..quantisation.scaling import factor_pair
from .base import PassContext

MAX_WEIGHT = 127


@dataclass(frozen=True, slots=True)
class ConvertElementwiseToQnn:
    """Turns sums, products and affine maps of activations between dequantisation and quantisation into ops on integers.

    The ratio of the scales of two terms becomes the ratio of two factors of 16 bits. An affine map of one activation, other
    scales among them, becomes `qnn.rescale`, whose weight makes its steps fine enough for the offset.

    Before:
        %4 = "graph.dequantize_linear"(%0, %first_scale, %first_zero)
        %5 = "graph.dequantize_linear"(%1, %second_scale, %second_zero)
        %6 = "graph.add"(%4, %5)
        %7 = "graph.quantize_linear"(%6, %y_scale, %y_zero)
    After:
        %7 = "qnn.add"(%0, %1, %bias, %multiplier, %shift) {factors = array<i64: 32767, 16384>, ...}
    """

    name: ClassVar[str] = "convert-elementwise-to-qnn"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        conversions = {
            "Add": _convert_add,
            "Sub": _convert_add,
            "Mul": _convert_mul,
            "DequantizeLinear": _convert_affine,
        }
        return convert_roots(module, ctx.store, conversions)


def _convert_add(root: Root) -> SSAValue:
    first, second, channels = _operands(root)
    sign = _common_sign(channels)
    signs = (sign, -sign if root.core.op_type == "Sub" else sign)
    factors = factor_pair(signs[0] * first.scale, signs[1] * second.scale)
    unit = (first.scale + second.scale) / (abs(factors[0]) + abs(factors[1]))
    constant = -float(factors[0] * first.zero_point + factors[1] * second.zero_point)
    how = requantisation(root.maker, _positive(channels), *_everywhere(channels, unit, constant), root.step)
    made = root.maker.insert(qnn.AddOp(first.value, second.value, factors, how, nodes=root.nodes))
    return moved(root.maker, made, channels.axis, back=True)


def _convert_mul(root: Root) -> SSAValue:
    first, second, channels = _operands(root)
    zeros = (first.zero_point, second.zero_point)
    how = requantisation(root.maker, channels, *_everywhere(channels, first.scale * second.scale, 0.0), root.step)
    made = root.maker.insert(qnn.MultiplyOp(first.value, second.value, zeros, how, nodes=root.nodes))
    return moved(root.maker, made, channels.axis, back=True)


def _convert_affine(root: Root) -> SSAValue:
    source = quantised(root.core.outputs[0], root.store)
    if source is None:
        raise Unsuitable("its input is no int8 activation of one scale")
    channels = _channels(root)
    weights = _weights(channels, source)
    size = np.where(weights == 0, 1, np.abs(weights))
    how = requantisation(root.maker, _positive(channels), source.scale / size, -source.zero_point * weights, root.step)
    value = moved(root.maker, source.value, channels.axis)
    constant = root.maker.constant(weights.astype(np.int8))
    made = root.maker.insert(qnn.RescaleOp(value, constant, how, nodes=root.nodes))
    return moved(root.maker, made, channels.axis, back=True)


def _operands(root: Root) -> tuple[Quantised, Quantised, Channels]:
    """Both operands with the axis of channels last, and the epilogue."""
    shape = shape_of(root.core.outputs[0])
    found = [operand_of(value, shape, root.maker) for value in root.core.inputs]
    if found[0] is None or found[1] is None:
        raise Unsuitable("its operands are no int8 behind dequantize_linear of one scale; quantise the network")
    channels = _channels(root)
    first, second = (
        replace(operand, value=moved(root.maker, operand.value, channels.axis)) for operand in (found[0], found[1])
    )
    return first, second, channels


def _channels(root: Root) -> Channels:
    """The epilogue by the axis along which it differs; the last where it does not."""
    shape = shape_of(root.core.outputs[0])
    if not shape:
        raise Unsuitable("it is a scalar; give it an axis")
    axes = varying_axes(root.epilogue, len(shape))
    return channels_of(root.epilogue, shape, axes[0] if axes else -1)


def _common_sign(channels: Channels) -> int:
    if np.all(channels.gain >= 0):
        return 1
    if np.all(channels.gain <= 0):
        return -1
    raise Unsuitable("it is multiplied by constants of both signs")


def _positive(channels: Channels) -> Channels:
    return replace(channels, gain=np.abs(channels.gain))


def _everywhere(channels: Channels, unit: float, constant: float) -> tuple[Reals, Reals]:
    """The same for every channel; sums of channels that are multiplied by 0 cannot be made 0 here."""
    if np.any(channels.gain == 0):
        raise Unsuitable("it is multiplied by 0")
    return np.full(channels.gain.shape, unit), np.full(channels.gain.shape, constant)


def _weights(channels: Channels, source: Quantised) -> Ints:
    """The weight of every channel: its sign, and the size at which the offset is nearest to a whole number of steps."""
    sizes = np.arange(1, MAX_WEIGHT + 1)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = channels.offset / (np.abs(channels.gain) * source.scale) * sizes
    errors = np.abs(np.nan_to_num(steps - np.rint(steps), nan=0.0, posinf=0.0, neginf=0.0)) / sizes
    best = np.argmin(np.round(errors, 9), axis=0) + 1
    return (np.sign(channels.gain) * best).astype(np.int64)
