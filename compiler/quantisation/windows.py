"""Windows of ONNX convolutions and pooling, with every default and automatic padding filled in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.graph import GraphOp
from ..passes.rewriting import OpMaker
from .requantising import Unsuitable

CHANNELS_LAST, CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageWindow:
    """A window over height and width; see `qnn.Window`.

    Attributes:
        kernel, strides, dilations: [y, x].
        pads: [top, left, bottom, right], as far as the op's result needs them.
        stated_pads: The same without what rounding up the number of windows adds.
    """

    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]
    stated_pads: tuple[int, int, int, int]

    def filled(self, padding: int) -> qnn.Window:
        """The window with what lies outside the image."""
        return qnn.Window(strides=self.strides, dilations=self.dilations, pads=self.pads, padding=padding)


def image_window(op: GraphOp, kernel: Sequence[int]) -> ImageWindow:
    """The window of a convolution or pooling op.

    Args:
        op: The op; it must have two spatial axes.
        kernel: Height and width of the window.

    Raises:
        Unsuitable: It has another number of axes.
    """
    source, result = shape_of(op.inputs[0]), shape_of(op.outputs[0])
    if len(source) != 4 or len(result) != 4 or min(source) < 0:
        raise Unsuitable(f"its input has {len(source)} axes; supported are images [N, C, H, W] of known size")
    strides, dilations = _pair(op, "strides"), _pair(op, "dilations")
    auto = op.text_attribute("auto_pad", "NOTSET")
    stated: list[int] = []
    added: list[int] = []
    given = op.ints_attribute("pads") or (0, 0, 0, 0)
    for axis in (0, 1):
        size, outputs = source[2 + axis], result[2 + axis]
        span = dilations[axis] * (kernel[axis] - 1) + 1
        needed = max((outputs - 1) * strides[axis] + span - size, 0)
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            before = needed // 2 if auto == "SAME_UPPER" else needed - needed // 2
            sides = (before, needed - before)
        else:
            sides = (0, 0) if auto == "VALID" else (given[axis], given[2 + axis])
        stated += sides
        added.append(max(needed - sum(sides), 0))
    pads = (stated[0], stated[2], stated[1], stated[3])
    return ImageWindow(
        kernel=(kernel[0], kernel[1]), strides=strides, dilations=dilations, stated_pads=pads,
        pads=(pads[0], pads[1], pads[2] + added[0], pads[3] + added[1]),
    )  # fmt: skip


def _pair(op: GraphOp, name: str) -> tuple[int, int]:
    values = op.ints_attribute(name)
    return (1, 1) if values is None else (values[0], values[1])


def channels_last(maker: OpMaker, value: SSAValue) -> SSAValue:
    """An image [N, C, H, W] as [N, H, W, C]."""
    return maker.insert(qnn.TransposeOp(value, CHANNELS_LAST, nodes=maker.nodes))


def channels_first(maker: OpMaker, value: SSAValue) -> SSAValue:
    """An image [N, H, W, C] as [N, C, H, W]."""
    return maker.insert(qnn.TransposeOp(value, CHANNELS_FIRST, nodes=maker.nodes))
