"""Pass `fold-batch-norm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import Tensor, dtype_of, shape_of, typed_like
from ..ir.graph import GraphOp, is_op, made_by
from ..ir.store import DataStore
from ..quantisation.reals import Reals, elements_of, quantised_constant, real_constant
from .base import PassContext
from .rewriting import OpMaker, maker_for, merged_names, rewritten


@dataclass(frozen=True, slots=True)
class FoldBatchNorm:
    """Folds batch normalisation into the convolution before it; elsewhere it becomes a product and a sum.

    Quantised weights keep their integers where every factor is positive: only their scales change, so that nothing is lost.

    Before:
        %2 = "graph.conv"(%0, %w)
        %3 = "graph.batch_normalization"(%2, %scale, %bias, %mean, %variance)
    After:
        %3 = "graph.conv"(%0, %scaled_w, %shifted_bias)
    """

    name: ClassVar[str] = "fold-batch-norm"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def fold(op: Operation, rewriter: PatternRewriter) -> None:
            if isinstance(op, GraphOp) and is_op(op, "BatchNormalization") and len(op.outputs) == 1:
                found = _folded(op, rewriter, ctx.store)
                if found is not None:
                    rewriter.replace(op, [], [found])

        return rewritten(module, fold)


def _folded(op: GraphOp, rewriter: PatternRewriter, store: DataStore) -> SSAValue | None:
    constants = [real_constant(value, store) for value in op.inputs[1:]]
    scale, bias, mean, variance = (np.empty(0) if array is None else array for array in constants)
    if not scale.size or op.int_attribute("training_mode", 0):
        return None
    factor = scale / np.sqrt(variance + op.float_attribute("epsilon", 1e-5))
    offset = bias - mean * factor
    conv = made_by(op.inputs[0], "Conv")
    if conv is not None and conv.outputs[0].has_one_use():
        maker = OpMaker(rewriter, store, merged_names(conv.node_names, op.node_names))
        found = _into_conv(conv, factor, offset, maker)
        if found is not None:
            return found
    maker = maker_for(op, rewriter, store)
    channels = (-1, *(1,) * (len(shape_of(op.inputs[0])) - 2))
    dtype, kind = dtype_of(op.outputs[0]), typed_like(op.outputs[0], shape_of(op.outputs[0]))
    product = maker.graph("Mul", [op.inputs[0], maker.constant(factor.reshape(channels).astype(dtype))], kind)
    return maker.graph("Add", [product, maker.constant(offset.reshape(channels).astype(dtype))], kind)


def _into_conv(conv: GraphOp, factor: Reals, offset: Reals, maker: OpMaker) -> SSAValue | None:
    weights = _scaled_weights(conv.inputs[1], factor, maker)
    before = np.zeros_like(offset) if conv.input(2) is None else real_constant(conv.input(2), maker.store)
    if weights is None or before is None:
        return None
    result = conv.outputs[0]
    bias = maker.constant((before * factor + offset).astype(dtype_of(result)))
    kind: Tensor = typed_like(result, shape_of(result))
    return maker.graph("Conv", [conv.inputs[0], weights, bias], kind, conv.onnx_attributes(), version=conv.opset)


def _scaled_weights(weights: SSAValue, factor: Reals, maker: OpMaker) -> SSAValue | None:
    """Weights [K, ...] with every output channel multiplied by its factor; None where that would round integers."""
    plain = elements_of(weights, maker.store)
    outputs = (-1, *(1,) * (len(shape_of(weights)) - 1))
    if plain is not None:
        return maker.constant((plain * factor.reshape(outputs)).astype(plain.dtype))
    op, found = made_by(weights, "DequantizeLinear"), quantised_constant(weights, maker.store)
    if op is None or found is None or not np.all(factor > 0) or any(size != 1 for size in found.scale.shape[1:]):
        return None
    scale = maker.constant((found.scale.ravel() * factor).astype(np.float32))
    zero = np.broadcast_to(found.zero_point.ravel(), factor.shape).astype(dtype_of(op.inputs[0]))
    kind = typed_like(weights, shape_of(weights))
    return maker.graph("DequantizeLinear", [op.inputs[0], scale, maker.constant(zero)], kind, {"axis": 0})
