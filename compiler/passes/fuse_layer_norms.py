"""Pass `fuse-layer-norms`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import dtype_of, shape_of, typed_like
from ..ir.graph import GraphOp, is_op, is_static, made_by
from ..ir.store import DataStore
from ..quantisation.reals import real_constant
from .base import PassContext
from .lower_means import reduced_axes
from .rewriting import OpMaker, merged_names, rewritten

OPSET = 17
"""The operator set that has layer normalisation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Normalised:
    """What is normalised over its last axis.

    Attributes:
        source: The value.
        epsilon: What is added to the variance.
        ops: What it is made of.
    """

    source: SSAValue
    epsilon: float
    ops: tuple[GraphOp, ...]


@dataclass(frozen=True, slots=True)
class FuseLayerNorms:
    """Turns layer normalisation that is written out into one op; gain and bias stay behind it.

    Before:
        %1 = "graph.reduce_mean"(%0) {axes = array<i64: -1>}
        %2 = "graph.sub"(%0, %1)
        %3 = "graph.pow"(%2, %two)
        %4 = "graph.reduce_mean"(%3) {axes = array<i64: -1>}
        %5 = "graph.add"(%4, %epsilon)
        %6 = "graph.sqrt"(%5)
        %7 = "graph.div"(%2, %6)
    After:
        %7 = "graph.layer_normalization"(%0, %ones) {axis = -1 : si64, epsilon = 1e-05 : f32}
    """

    name: ClassVar[str] = "fuse-layer-norms"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def fuse(op: Operation, rewriter: PatternRewriter) -> None:
            if not isinstance(op, GraphOp) or not is_op(op, "Div"):
                return
            found = _normalised(op, ctx.store)
            if found is not None:
                maker = OpMaker(rewriter, ctx.store, merged_names(*(each.node_names for each in found.ops)))
                rewriter.replace(op, [], [_fused(found, maker)])

        return rewritten(module, fuse)


def _fused(found: _Normalised, maker: OpMaker) -> SSAValue:
    shape = shape_of(found.source)
    gain = maker.constant(np.ones(shape[-1], dtype_of(found.source)))
    return maker.graph(
        "LayerNormalization", [found.source, gain], typed_like(found.source, shape),
        {"axis": -1, "epsilon": found.epsilon}, version=OPSET,
    )  # fmt: skip


def _normalised(op: GraphOp, store: DataStore) -> _Normalised | None:
    """What a division normalises; None where it divides by anything else than the deviation of its dividend."""
    centred, root = made_by(op.inputs[0], "Sub"), made_by(op.inputs[1], "Sqrt")
    total = None if root is None else made_by(root.inputs[0], "Add")
    mean = None if centred is None else _mean_of(centred.inputs[1], store)
    if centred is None or root is None or total is None or mean is None or mean.inputs[0] != centred.inputs[0]:
        return None
    for at in (0, 1):
        variance, epsilon = _mean_of(total.inputs[at], store), real_constant(total.inputs[1 - at], store)
        square = None if variance is None else _square_of(variance.inputs[0], centred.outputs[0], store)
        if variance is not None and square is not None and epsilon is not None and epsilon.size == 1:
            return _Normalised(
                source=centred.inputs[0], epsilon=float(epsilon.reshape(())),
                ops=(mean, centred, square, variance, total, root, op),
            )  # fmt: skip
    return None


def _mean_of(value: SSAValue, store: DataStore) -> GraphOp | None:
    """What makes a value as the mean over the last axis, which stays."""
    op = made_by(value, "ReduceMean")
    if op is None or not is_static(shape_of(op.inputs[0])) or not op.int_attribute("keepdims", 1):
        return None
    return op if reduced_axes(op, store) == (len(shape_of(op.inputs[0])) - 1,) else None


def _square_of(value: SSAValue, base: SSAValue, store: DataStore) -> GraphOp | None:
    """What makes a value as the square of another."""
    product, power = made_by(value, "Mul"), made_by(value, "Pow")
    if product is not None and all(operand == base for operand in product.inputs):
        return product
    exponent = None if power is None else real_constant(power.inputs[1], store)
    is_square = exponent is not None and exponent.size == 1 and float(exponent.reshape(())) == 2.0
    return power if power is not None and is_square and power.inputs[0] == base else None
