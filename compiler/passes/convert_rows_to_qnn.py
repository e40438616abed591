"""Pass `convert-rows-to-qnn`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import OutputOp
from ..ir.graph import GraphOp
from ..quantisation.operands import moved
from ..quantisation.reals import Quantised, Reals, quantised, real_constant
from ..quantisation.requantising import Channels, Unsuitable, channels_of, requantisation
from ..quantisation.roots import Root, convert_roots
from ..rows.layer_norm import MAX_SPREAD, layer_norm_tables, layer_norm_unit
from ..rows.softmax import MAX_CHANNELS, softmax_tables, softmax_unit
from .base import PassContext

BEHIND = frozenset({"DequantizeLinear", "Reshape", "Flatten", "Squeeze", "Identity", "Cast", "Transpose"})
"""What stands between the last softmax of a network and its output."""
LEAST_GAIN = 2.0**-30
"""Of an offset, or of an output step where that is more, to what one step of the sums stands for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertRowsToQnn:
    """Turns softmax and layer normalisation between dequantisation and quantisation into ops on integers.

    A network's last softmax stays with the host, which takes it in real numbers, unless it is asked for.

    Before:
        %3 = "graph.dequantize_linear"(%0, %scale, %zero)
        %4 = "graph.layer_normalization"(%3, %gain, %bias) {axis = -1 : si64, epsilon = 1e-05 : f32}
        %6 = "graph.quantize_linear"(%4, %y_scale, %y_zero)
    After:
        %6 = "qnn.layer_norm"(%0, %tables, %bias, %multiplier, %shift) {epsilon = 0.025 : f64, ...}

    Attributes:
        takes_last_softmax: Whether the array takes the last softmax, too.
    """

    name: ClassVar[str] = "convert-rows-to-qnn"
    takes_last_softmax: bool = False

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def convert_softmax(root: Root) -> SSAValue:
            if not self.takes_last_softmax and _is_last(root.op.outputs[0]):
                raise Unsuitable("it is the network's last, which the host takes in real numbers")
            return _convert_softmax(root)

        conversions: dict[str, Callable[[Root], SSAValue]] = {
            "Softmax": convert_softmax, "LayerNormalization": _convert_layer_norm
        }  # fmt: skip
        return convert_roots(module, ctx.store, conversions)


def _is_last(value: SSAValue) -> bool:
    """Whether nothing is computed from a value."""
    readers = [use.operation for use in value.uses]
    return all(
        isinstance(reader, OutputOp)
        or (isinstance(reader, GraphOp) and reader.op_type in BEHIND and _is_last(reader.outputs[0]))
        for reader in readers
    )


def _source(root: Root) -> Quantised:
    source = quantised(root.core.inputs[0], root.store)
    if source is None:
        raise Unsuitable("its input is no int8 activation of one scale")
    return source


def _convert_softmax(root: Root) -> SSAValue:
    source, shape = _source(root), shape_of(root.core.outputs[0])
    is_flat = root.core.opset < 13
    axis = root.core.int_attribute("axis", 1 if is_flat else -1) % len(shape)
    if is_flat and axis != len(shape) - 1:
        raise Unsuitable("before operator set 13 it is over several axes; convert the network to a later one")
    size = shape[axis]
    if size > MAX_CHANNELS:
        raise Unsuitable(f"it is over {size} elements; at most {MAX_CHANNELS} are supported")
    channels = channels_of(root.epilogue, shape, axis)
    how = requantisation(root.maker, channels, np.full(size, softmax_unit(size)), np.zeros(size), root.step)
    tables = root.maker.constant(softmax_tables(source.scale, size))
    value = moved(root.maker, source.value, axis)
    made = root.maker.insert(qnn.SoftmaxOp(value, tables, how, nodes=root.nodes))
    return moved(root.maker, made, axis, back=True)


def _convert_layer_norm(root: Root) -> SSAValue:
    source, shape = _source(root), shape_of(root.core.outputs[0])
    axis = root.core.int_attribute("axis", -1) % len(shape)
    if axis != len(shape) - 1:
        raise Unsuitable(f"it is over the last {len(shape) - axis} axes; supported is the last one")
    if any(list(result.uses) for result in root.core.outputs[1:]):
        raise Unsuitable("its mean or deviation is read, too")
    size = shape[-1]
    gain, bias = (_constant(root, position, default, size) for position, default in ((1, 1.0), (2, 0.0)))
    epsilon = root.core.float_attribute("epsilon", 1e-5) / source.scale**2
    if size * (1 + epsilon) > MAX_SPREAD:
        raise Unsuitable(
            f"{size} channels times 1 + epsilon in squares of its input's steps, {epsilon:.3g}, are more than {MAX_SPREAD};"
            " use a larger input scale"
        )
    unit = layer_norm_unit(size, epsilon)
    channels = _significant(channels_of(root.epilogue, shape, -1), gain, bias, unit, root.step.scale)
    how = requantisation(root.maker, channels, np.full(size, unit), np.zeros(size), root.step, is_signed=True)
    tables = root.maker.constant(layer_norm_tables(size, epsilon))
    return root.maker.insert(qnn.LayerNormOp(source.value, tables, epsilon, how, nodes=root.nodes))


def _constant(root: Root, position: int, default: float, size: int) -> Reals:
    """An operand with one element per channel."""
    value = root.core.input(position)
    if value is None:
        return np.full(size, default)
    found = real_constant(value, root.store)
    if found is None:
        raise Unsuitable("its gain or bias is no constant")
    return np.broadcast_to(found.reshape(-1), (size,))


def _significant(channels: Channels, gain: Reals, bias: Reals, unit: float, scale: float) -> Channels:
    """Gain and bias of a normalisation in front of an epilogue; gains so small that a bias has no steps are made larger.

    A bias counts in steps of the sums, and has 31 bits. Sums have 15.
    """
    both = channels.gain * gain
    offset = channels.gain * bias + channels.offset
    least = np.maximum(np.abs(offset), scale) * LEAST_GAIN / unit
    sign = np.where(both < 0, -1.0, 1.0)
    return replace(channels, gain=sign * np.maximum(np.abs(both), least), offset=offset)
