"""Pass `convert-convolutions-to-qnn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.graph import GraphOp
from ..quantisation.reals import Quantised, quantised, quantised_constant, real_constant
from ..quantisation.requantising import Channels, Ints, Reals, Unsuitable, channels_of, requantisation
from ..quantisation.roots import Root, convert_roots
from ..quantisation.weights import Weights, int8_parts, output_weights, repeated, weight_constant
from ..quantisation.windows import channels_first, channels_last, image_window
from .base import PassContext


@dataclass(frozen=True, slots=True)
class ConvertConvolutionsToQnn:
    """Turns convolutions between dequantisation and quantisation into ops on integers, with channels last.

    Bias, batch normalisation, rectifiers and clips on the way are part of the requantisation. A convolution in groups of one
    channel becomes `qnn.depthwise_conv2d`, one in other groups a `qnn.conv2d` with zeros between the groups. Weights that
    are beyond 8 bits without their zero points are split in two, and the channels of each group repeated.

    Before:
        %3 = "graph.dequantize_linear"(%0, %scale, %zero) : tensor<1x3x8x8xi8>
        %4 = "graph.dequantize_linear"(%w, %w_scale, %w_zero) : tensor<8x3x3x3xi8>
        %5 = "graph.conv"(%3, %4) {pads = array<i64: 1, 1, 1, 1>}
        %6 = "graph.relu"(%5)
        %7 = "graph.quantize_linear"(%6, %y_scale, %y_zero)
    After:
        %3 = "qnn.transpose"(%0) {permutation = array<i64: 0, 2, 3, 1>}
        %4 = "qnn.conv2d"(%3, %kernel, %bias, %multiplier, %shift) {low = -128, ...} : tensor<1x8x8x8xi8>
        %7 = "qnn.transpose"(%4) {permutation = array<i64: 0, 3, 1, 2>}
    """

    name: ClassVar[str] = "convert-convolutions-to-qnn"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        return convert_roots(module, ctx.store, {"Conv": _convert})


def _convert(root: Root) -> SSAValue:
    conv, maker = root.core, root.maker
    image, weights, bias = _operands(root)
    channels = channels_of(root.epilogue, shape_of(conv.outputs[0]), 1).plus(bias)
    window = image_window(conv, shape_of(conv.inputs[1])[2:]).filled(image.zero_point)
    groups, signed = conv.int_attribute("group", 1), weights.signed(channels.gain)
    channels = Channels(
        gain=np.abs(channels.gain), offset=channels.offset, low=channels.low, high=channels.high, axis=1
    )
    integers, unit = signed.integers, image.scale * signed.scale
    constant = -image.zero_point * integers.reshape(len(unit), -1).sum(axis=1)
    how = requantisation(maker, channels, unit, constant, root.step)
    source = channels_last(maker, image.value)
    outputs, inputs = integers.shape[0], shape_of(image.value)[1]
    if groups == inputs == outputs and len(int8_parts(integers)) == 1:
        kernel = weight_constant(maker, integers[:, 0].transpose(1, 2, 0), signed.bits)
        made = maker.insert(qnn.DepthwiseConv2dOp(source, kernel, window, how, nodes=root.nodes))
    else:
        parts = int8_parts(integers)
        dense = _dense(np.concatenate(parts, axis=1), groups)
        kernel = weight_constant(maker, dense.transpose(2, 3, 1, 0), signed.bits)
        source = repeated(maker, source, len(parts), groups)
        made = maker.insert(qnn.Conv2dOp(source, kernel, window, how, groups=groups, nodes=root.nodes))
    return channels_first(maker, made)


def _operands(root: Root) -> tuple[Quantised, Weights, Reals]:
    conv: GraphOp = root.core
    image = quantised(conv.inputs[0], root.store)
    weights = quantised_constant(conv.inputs[1], root.store)
    if image is None or weights is None:
        which, quantiser = ("input", "quantize_linear") if image is None else ("weights", "dequantize_linear")
        raise Unsuitable(f"its {which} are no int8 behind a {quantiser} of one scale; quantise the network")
    inputs, groups = shape_of(conv.inputs[0])[1], conv.int_attribute("group", 1)
    if inputs != groups * weights.integers.shape[1] or weights.integers.shape[0] % groups:
        found = f"{list(weights.integers.shape)} in {groups} groups"
        raise Unsuitable(f"its weights {found} do not fit an input of {inputs} channels; check the export")
    found = output_weights(weights, 0)
    given = conv.input(2)
    bias = np.zeros(len(found.scale)) if given is None else real_constant(given, root.store)
    if bias is None:
        raise Unsuitable("its bias is computed; supported are constants")
    return image, found, bias


def _dense(integers: Ints, groups: int) -> Ints:
    """Weights [K, C / groups, FY, FX] of a grouped convolution as those of an ordinary one, [K, C, FY, FX]."""
    if groups == 1:
        return integers
    outputs, inputs, *window = integers.shape
    dense = np.zeros((outputs, groups * inputs, *window), dtype=np.int64)
    per_group = outputs // groups
    for group in range(groups):
        rows, cols = slice(group * per_group, (group + 1) * per_group), slice(group * inputs, (group + 1) * inputs)
        dense[rows, cols] = integers[rows]
    return dense
