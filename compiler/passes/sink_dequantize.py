"""Pass `sink-dequantize`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import dtype_of, shape_of, typed_like
from ..ir.graph import GraphOp, Plain, is_static, made_by, make_op
from ..ir.store import DataStore
from ..quantisation.reals import Step, real_constant, step_of
from .base import PassContext
from .canonicalise_graph import permutation_of
from .rewriting import OpMaker, maker_for, rewritten

CARRIERS = frozenset({"Concat", "Gather", "GlobalMaxPool", "MaxPool", "Pad", "Reshape", "Slice", "Split", "Transpose"})
"""Operators that give elements of their operands, so that they can be applied to the integers."""


@dataclass(frozen=True, slots=True)
class SinkDequantize:
    """Moves and selects integers instead of the real numbers that they stand for.

    Before:
        %3 = "graph.dequantize_linear"(%0, %scale, %zero) : (tensor<1x8x2x2xi8>, ...) -> tensor<1x8x2x2xf32>
        %4 = "graph.reshape"(%3, %shape) : (...) -> tensor<1x32xf32>
    After:
        %3 = "graph.reshape"(%0, %shape) : (...) -> tensor<1x32xi8>
        %4 = "graph.dequantize_linear"(%3, %scale, %zero)
    """

    name: ClassVar[str] = "sink-dequantize"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def sink(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, GraphOp) or op.op_type not in CARRIERS or op.domain:
                return
            if not all(is_static(shape_of(value)) for value in (*op.inputs, *op.outputs)):
                return
            found = _sunk(op, maker_for(op, rewriter, ctx.store), ctx.store)
            if found is not None:
                rewriter.replace(op, [], found)

        return rewritten(module, sink)


def _sunk(op: GraphOp, maker: OpMaker, store: DataStore) -> list[SSAValue] | None:
    sources = [made_by(value, "DequantizeLinear") for value in (op.inputs if op.op_type == "Concat" else op.inputs[:1])]
    dequantisers = [source for source in sources if source is not None]
    if len(dequantisers) != len(sources):
        return None
    first = dequantisers[0]
    if any(parameters(source, store) != parameters(first, store) for source in dequantisers):
        return None
    step = step_of(first, store)
    attributes: dict[str, Plain] = {}
    if step is None:
        axis = _moved_axis(op, first)
        if axis is None:
            return None
        attributes = {"axis": axis}
    if not is_carried(op, step, store):
        return None
    integers = carried(op, [source.inputs[0] for source in dequantisers], step, maker, store)
    return [
        maker.graph("DequantizeLinear", [value, *first.inputs[1:]], typed_like(result, shape_of(result)), attributes)
        for value, result in zip(integers, op.outputs, strict=True)
    ]


def parameters(op: GraphOp, store: DataStore) -> object:
    """What tells the parameters of one quantising op from those of another."""
    step = step_of(op, store)
    return (tuple(op.inputs[1:]), op.attributes.get("axis")) if step is None else step


def is_carried(op: GraphOp, step: Step | None, store: DataStore) -> bool:
    """Whether the integers that stand for what an op makes can be made from those of its operands."""
    if op.op_type != "Pad":
        return True
    return step is not None and "pads" not in op.attributes and _padding(op, step, store) is not None


def carried(
    op: GraphOp, sources: Sequence[SSAValue], step: Step | None, maker: OpMaker, store: DataStore
) -> Sequence[SSAValue]:
    """Results of an op on integers.

    Args:
        op: The op on real numbers, of which `is_carried` holds.
        sources: Integers that take the place of its operands with data.
        step: What they stand for.
        maker: Makes ops in front of it.
        store: Elements of constants.
    """
    others: list[SSAValue | None] = [op.input(idx) for idx in range(1, max(op.input_positions) + 1)]
    attributes = op.onnx_attributes()
    if op.op_type == "Concat":
        others = []
    if op.op_type == "Pad":
        padding = None if step is None else _padding(op, step, store)
        assert padding is not None
        constant = maker.constant(np.array(padding, dtype=dtype_of(sources[0])))
        others = [others[0], constant, *others[2:]]
    kinds = [typed_like(sources[0], shape_of(result)) for result in op.outputs]
    version = max(op.opset, 13)  # the first in which all of these take int8
    made = make_op(
        op.op_type, [*sources, *others], kinds, version=version, attributes=attributes, nodes=op.node_names
    )  # fmt: skip
    maker.insert(made)
    return made.outputs


def _padding(op: GraphOp, step: Step, store: DataStore) -> int | None:
    """The integer that stands for what a pad op adds; None where none does."""
    if op.text_attribute("mode", "constant") != "constant":
        return None
    value = np.zeros(1) if op.input(2) is None else real_constant(op.input(2), store)
    if value is None:
        return None
    steps = round(float(value.ravel()[0]) / step.scale)
    is_exact = math.isclose(steps * step.scale, float(value.ravel()[0]), rel_tol=1e-6, abs_tol=1e-12)
    padding = steps + step.zero_point
    return padding if is_exact and -128 <= padding <= 127 else None


def _moved_axis(op: GraphOp, source: GraphOp) -> int | None:
    """Where the axis that has one scale per index goes; None where it does not stay one."""
    shape, result = shape_of(source.inputs[0]), shape_of(op.outputs[0])
    if source.int_attribute("block_size", 0):
        return None
    axis = source.int_attribute("axis", 1) % len(shape)
    if op.op_type == "Transpose":
        return permutation_of(op).index(axis)
    if op.op_type != "Reshape":
        return None
    for place, size in enumerate(result):
        if size == shape[axis] and math.prod(result[:place]) == math.prod(shape[:axis]):
            return place
    return None
