"""Pass `convert-pools-to-qnn`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.graph import GraphOp
from ..quantisation.reals import quantised
from ..quantisation.requantising import Unsuitable, channels_of, requantisation
from ..quantisation.roots import Root, convert_roots
from ..quantisation.windows import ImageWindow, channels_first, channels_last, image_window
from .base import PassContext


@dataclass(frozen=True, slots=True)
class ConvertPoolsToQnn:
    """Turns average pooling between dequantisation and quantisation into sums whose divisor is in the multiplier.

    Before:
        %3 = "graph.dequantize_linear"(%0, %scale, %zero) : tensor<1x8x4x4xi8>
        %4 = "graph.global_average_pool"(%3)
        %7 = "graph.quantize_linear"(%4, %y_scale, %y_zero)
    After:
        %3 = "qnn.transpose"(%0) {permutation = array<i64: 0, 2, 3, 1>}
        %4 = "qnn.pool2d"(%3, %bias, %multiplier, %shift) {operation = "add", kernel = array<i64: 4, 4>, ...}
        %7 = "qnn.transpose"(%4) {permutation = array<i64: 0, 3, 1, 2>}
    """

    name: ClassVar[str] = "convert-pools-to-qnn"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        return convert_roots(module, ctx.store, {"AveragePool": _convert, "GlobalAveragePool": _convert})


def _convert(root: Root) -> SSAValue:
    pool, maker = root.core, root.maker
    image = quantised(pool.inputs[0], root.store)
    if image is None:
        raise Unsuitable("its input is no int8 behind a dequantize_linear of one scale; quantise the network")
    window = pool_window(pool)
    if any(window.pads) and not (pool.int_attribute("count_include_pad", 0) and window.pads == window.stated_pads):
        raise Unsuitable("its windows at the border hold fewer elements; pad before it, or set count_include_pad")
    elements = math.prod(window.kernel)
    channels = channels_of(root.epilogue, shape_of(pool.outputs[0]), 1)
    unit = np.full(channels.gain.shape, image.scale / elements)
    constant = np.full(channels.gain.shape, -float(elements * image.zero_point))
    how = requantisation(maker, channels, unit, constant, root.step)
    source = channels_last(maker, image.value)
    filled = window.filled(image.zero_point)
    return channels_first(
        maker, maker.insert(qnn.Pool2dOp(source, "add", window.kernel, filled, how, nodes=root.nodes))
    )  # fmt: skip


def pool_window(op: GraphOp) -> ImageWindow:
    """The window of a pooling op, the whole image for a global one.

    Raises:
        Unsuitable: It is not over two axes.
    """
    shape = shape_of(op.inputs[0])
    return image_window(op, op.ints_attribute("kernel_shape") or shape[2:])
