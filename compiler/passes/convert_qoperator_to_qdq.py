"""Pass `convert-qoperator-to-qdq`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.attributes import Tensor, shape_of, tensor_type, typed_like
from ..ir.graph import GraphOp, made_by
from ..ir.store import DataStore
from ..quantisation.reals import elements_of
from .base import PassContext
from .rewriting import OpMaker, maker_for, rewritten

INT32 = 6  # ONNX element type


@dataclass(frozen=True, slots=True)
class ConvertQoperatorToQdq:
    """Writes operators on integers as operators on real numbers between `dequantize_linear` and `quantize_linear`.

    Before:
        %8 = "graph.qlinear_matmul"(%a, %a_scale, %a_zero, %b, %b_scale, %b_zero, %y_scale, %y_zero)
    After:
        %9 = "graph.dequantize_linear"(%a, %a_scale, %a_zero)
        %10 = "graph.dequantize_linear"(%b, %b_scale, %b_zero)
        %11 = "graph.matmul"(%9, %10)
        %8 = "graph.quantize_linear"(%11, %y_scale, %y_zero)
    """

    name: ClassVar[str] = "convert-qoperator-to-qdq"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def convert(op: Operation, rewriter: PatternRewriter) -> None:
            rule = _RULES.get(op.op_type) if isinstance(op, GraphOp) and op.domain == "" else None
            if rule is not None and isinstance(op, GraphOp):
                found = rule(op, maker_for(op, rewriter, ctx.store), ctx.store)
                if found is not None:
                    rewriter.replace(op, [], [found])

        return rewritten(module, convert)


_Rule: TypeAlias = Callable[[GraphOp, OpMaker, DataStore], SSAValue | None]


def _qlinear_conv(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    image, image_scale, image_zero, weights, weight_scale, weight_zero, scale, zero = op.inputs[:8]
    scales = [elements_of(value, store) for value in (image_scale, weight_scale)]
    if scales[0] is None or scales[1] is None or scales[0].size != 1:
        return None
    operands: list[SSAValue | None] = [
        _dequantised(image, image_scale, image_zero, maker),
        _dequantised(weights, weight_scale, weight_zero, maker, axis=0),
    ]
    bias = op.input(8)
    if bias is not None:
        product = maker.constant((scales[0].reshape(()) * scales[1]).astype(np.float32))
        operands.append(_dequantised(bias, product, None, maker, axis=0))
    made = maker.graph("Conv", operands, _real(op.outputs[0]), op.onnx_attributes())
    return _quantised(made, scale, zero, op, maker)


def _qlinear_matmul(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    del store
    first, first_scale, first_zero, second, second_scale, second_zero, scale, zero = op.inputs
    if _size(first_scale) != 1:
        return None  # one scale per row of the input
    factors = [
        _dequantised(first, first_scale, first_zero, maker),
        _dequantised(second, second_scale, second_zero, maker, axis=len(shape_of(second)) - 1),
    ]
    return _quantised(maker.graph("MatMul", factors, _real(op.outputs[0])), scale, zero, op, maker)


def _matmul_integer(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    del store
    return _integer_product(op, "MatMul", len(shape_of(op.inputs[1])) - 1, maker)


def _conv_integer(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    del store
    return _integer_product(op, "Conv", 0, maker)


def _integer_product(op: GraphOp, op_type: str, weight_axis: int, maker: OpMaker) -> SSAValue | None:
    """A product of integers as one of real numbers that are integers, cast to what follows.

    Where casts to float follow, they become the product itself, so that no integer stands between it and requantisation.
    """
    first, second = op.inputs[:2]
    zeros = [op.input(2), op.input(3)]
    if zeros[0] is not None and _size(zeros[0]) != 1:
        return None
    one = maker.constant(np.array(1.0, dtype=np.float32))
    factors = [
        _dequantised(first, one, zeros[0], maker),
        _dequantised(second, one, zeros[1], maker, axis=weight_axis),
    ]
    made = maker.graph(op_type, factors, _real(op.outputs[0]), op.onnx_attributes())
    return maker.graph("Cast", [made], typed_like(op.outputs[0], shape_of(op.outputs[0])), {"to": INT32})


def _cast(op: GraphOp, maker: OpMaker, store: DataStore) -> SSAValue | None:
    """A cast of integers back to the real numbers that they were made from by this pass."""
    del maker, store
    before = made_by(op.inputs[0], "Cast")
    product = None if before is None else made_by(before.inputs[0], "Conv", "MatMul")
    if before is None or product is None or before.int_attribute("to", 0) != INT32:
        return None
    is_same = op.outputs[0].type == before.inputs[0].type
    return before.inputs[0] if is_same and before.node_names == product.node_names else None


def _dequantised(value: SSAValue, scale: SSAValue, zero: SSAValue | None, maker: OpMaker, axis: int = 0) -> SSAValue:
    size = max(_size(scale), 1 if zero is None else _size(zero))
    if zero is not None and _size(zero) == 1 and size > 1:
        known = elements_of(zero, maker.store)
        zero = zero if known is None else maker.constant(np.broadcast_to(known.ravel(), (size,)))
    if _size(scale) == 1 and size > 1:
        known = elements_of(scale, maker.store)
        scale = scale if known is None else maker.constant(np.broadcast_to(known.ravel(), (size,)))
    attributes = {"axis": axis} if size > 1 else {}
    return maker.graph("DequantizeLinear", [value, scale, zero], _real(value), attributes)


def _quantised(value: SSAValue, scale: SSAValue, zero: SSAValue, op: GraphOp, maker: OpMaker) -> SSAValue:
    result = op.outputs[0]
    return maker.graph("QuantizeLinear", [value, scale, zero], typed_like(result, shape_of(result)))


def _real(value: SSAValue) -> Tensor:
    return tensor_type(shape_of(value), "float32")


def _size(value: SSAValue) -> int:
    return int(np.prod(shape_of(value)))


_RULES: Mapping[str, _Rule] = {
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "MatMulInteger": _matmul_integer,
    "ConvInteger": _conv_integer,
    "Cast": _cast,
}
