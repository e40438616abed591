"""Pass `lower-border-pools`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import shape_of, typed_like
from ..ir.graph import GraphOp, is_op, is_static
from ..quantisation.windows import ImageWindow, image_window
from .base import PassContext
from .rewriting import OpMaker, maker_for, rewritten


@dataclass(frozen=True, slots=True)
class LowerBorderPools:
    """Computes means of windows that reach beyond the image apart from the others, as they have another divisor.

    Before:
        %1 = "graph.average_pool"(%0) {kernel_shape = array<i64: 3, 1>, pads = array<i64: 1, 0, 0, 0>}
    After:
        %2 = "graph.slice"(%0, ...), of the rows that the first window reads
        %3 = "graph.average_pool"(%2) {kernel_shape = array<i64: 2, 1>}
        %4 = "graph.slice"(%0, ...), of the rows that the others read
        %5 = "graph.average_pool"(%4) {kernel_shape = array<i64: 3, 1>}
        %1 = "graph.concat"(%3, %5) {axis = 2}
    """

    name: ClassVar[str] = "lower-border-pools"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def lower(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, GraphOp) or not is_op(op, "AveragePool") or len(shape_of(op.inputs[0])) != 4:
                return
            window = image_window(op, op.ints_attribute("kernel_shape") or ()) if _is_known(op) else None
            if window is not None and any(window.pads):
                rewriter.replace(op, [], [_lowered(op, window, maker_for(op, rewriter, ctx.store))])

        return rewritten(module, lower)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Band:
    """Windows side by side along one axis that read the same of their taps.

    Attributes:
        outputs: How many.
        first, end: What they read of the input.
        taps: Taps of each that lie inside.
    """

    outputs: int
    first: int
    end: int
    taps: int


def _is_known(op: GraphOp) -> bool:
    static = is_static(shape_of(op.inputs[0])) and is_static(shape_of(op.outputs[0]))
    return static and not op.int_attribute("count_include_pad", 0)


def _lowered(op: GraphOp, window: ImageWindow, maker: OpMaker) -> SSAValue:
    bands = [_bands(op, window, axis) for axis in (0, 1)]
    rows = [_joined([_part(op, window, (row, col), maker) for col in bands[1]], 3, maker) for row in bands[0]]
    return _joined(rows, 2, maker)


def _bands(op: GraphOp, window: ImageWindow, axis: int) -> list[_Band]:
    size, outputs = shape_of(op.inputs[0])[2 + axis], shape_of(op.outputs[0])[2 + axis]
    apart, stride = window.dilations[axis], window.strides[axis]
    bands: list[_Band] = []
    for output in range(outputs):
        start = output * stride - window.pads[axis]
        inside = [start + tap * apart for tap in range(window.kernel[axis]) if 0 <= start + tap * apart < size]
        last = bands[-1] if bands else None
        is_whole = len(inside) == window.kernel[axis]
        if last is not None and is_whole and last.taps == len(inside):
            bands[-1] = _Band(outputs=last.outputs + 1, first=last.first, end=inside[-1] + 1, taps=last.taps)
        else:
            bands.append(_Band(outputs=1, first=inside[0], end=inside[-1] + 1, taps=len(inside)))
    return bands


def _part(op: GraphOp, window: ImageWindow, bands: tuple[_Band, _Band], maker: OpMaker) -> SSAValue:
    """Means of the windows of a band of rows and one of columns."""
    source = op.inputs[0]
    shape = list(shape_of(source))
    lists = [[band.first for band in bands], [band.end for band in bands], [2, 3]]
    operands = [source, *(maker.constant(np.array(values, np.int64)) for values in lists)]
    part = maker.graph("Slice", operands, typed_like(source, [*shape[:2], *(band.end - band.first for band in bands)]))
    attributes = {
        "kernel_shape": tuple(band.taps for band in bands), "strides": window.strides, "dilations": window.dilations
    }  # fmt: skip
    if window.dilations == (1, 1):
        del attributes["dilations"]
    kind = typed_like(source, [*shape[:2], *(band.outputs for band in bands)])
    return maker.graph("AveragePool", [part], kind, attributes, version=op.opset)


def _joined(parts: list[SSAValue], axis: int, maker: OpMaker) -> SSAValue:
    if len(parts) == 1:
        return parts[0]
    shape = list(shape_of(parts[0]))
    shape[axis] = sum(shape_of(part)[axis] for part in parts)
    return maker.graph("Concat", parts, typed_like(parts[0], shape), {"axis": axis})
