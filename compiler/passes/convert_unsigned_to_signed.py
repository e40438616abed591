"""Pass `convert-unsigned-to-signed`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..ir.attributes import Tensor, element_of, element_type, shape_of, tensor_type
from ..ir.data import ConstantOp
from ..ir.graph import GraphOp, Plain, make_op
from ..ir.store import Array, DataStore
from ..quantisation.reals import elements_of
from .base import PassContext
from .rewriting import OPSET

SHIFT = 128
CARRIERS = frozenset({"MaxPool", "GlobalMaxPool", "Pad"})
"""Operators besides those that move elements, whose results are elements of their first operand, or a constant."""


@dataclass(frozen=True, slots=True)
class ConvertUnsignedToSigned:
    """Makes uint8 activations and weights int8: 128 less, zero points too, so that they mean the same real numbers.

    What enters, leaves or runs on the host as uint8 is converted there by a pair of `dequantize_linear` and
    `quantize_linear` of scale 1.

    Before:
        %3 = "graph.quantize_linear"(%0, %scale, %zero) : (..., tensor<ui8>) -> tensor<1x8xui8>
        %4 = "graph.dequantize_linear"(%3, %scale, %zero)
    After:
        %3 = "graph.quantize_linear"(%0, %scale, %zero_less_128) : (..., tensor<i8>) -> tensor<1x8xi8>
        %4 = "graph.dequantize_linear"(%3, %scale, %zero_less_128)
    """

    name: ClassVar[str] = "convert-unsigned-to-signed"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        copy = module.clone()
        conversion = _Conversion(store=ctx.store)
        for op in list(copy.body.block.ops):
            conversion.visit(op)
        return copy


@dataclass(slots=True, kw_only=True)
class _Conversion:
    """What was converted by now.

    Attributes:
        store: Where elements of constants are.
        signed: The int8 counterpart of uint8 values.
        replaced: Values that only their counterpart is computed for.
        unsigned: Such values converted back.
    """

    store: DataStore
    signed: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    replaced: set[SSAValue] = field(default_factory=set[SSAValue])
    unsigned: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def visit(self, op: Operation) -> None:
        """Converts one op, or gives it the uint8 operands that it needs."""
        if isinstance(op, GraphOp) and op.domain == "":
            if op.op_type == "QuantizeLinear" and _is_unsigned(op.outputs[0]):
                return self.quantize(op)
            if op.op_type == "DequantizeLinear" and _is_unsigned(op.inputs[0]):
                return self.dequantize(op)
            if _carries(op) and _is_unsigned(op.inputs[0]):
                return self.carry(op)
        for idx, value in enumerate(op.operands):
            if value in self.replaced:
                op.operands[idx] = self.back(value, op)
        return None

    def quantize(self, op: GraphOp) -> None:
        """A quantisation to int8 in place of one to uint8."""
        zero = self.shifted_zero(op)
        if zero is None:
            return
        attributes = {name: value for name, value in op.onnx_attributes().items() if name != "output_dtype"}
        self.replace(op, [op.inputs[0], op.inputs[1], zero], [tensor_type(shape_of(op.outputs[0]), "int8")], attributes)

    def dequantize(self, op: GraphOp) -> None:
        """A dequantisation of the int8 counterpart."""
        zero = self.shifted_zero(op)
        if zero is not None:
            op.operands = [self.counterpart(op.inputs[0], op), op.inputs[1], zero]

    def carry(self, op: GraphOp) -> None:
        """The same op on int8."""
        is_concat = op.op_type == "Concat"
        inputs = [
            None if value is None else self.counterpart(value, op) if idx == 0 or is_concat else value
            for idx, value in ((idx, op.input(idx)) for idx in range(max(op.input_positions) + 1))
        ]
        if op.op_type == "Pad":
            given = op.input(2)
            fill = self.constant(np.array(-SHIFT, np.int8), op) if given is None else self.counterpart(given, op)
            inputs[2:3] = [fill]
        kinds = [
            tensor_type(shape_of(value), "int8") if _is_unsigned(value) else tensor_type(shape_of(value), "int64")
            for value in op.outputs
        ]
        self.replace(op, inputs, kinds, op.onnx_attributes())

    def shifted_zero(self, op: GraphOp) -> SSAValue | None:
        """The zero point as a constant of the int8 counterpart; None where it is no constant."""
        given = op.input(2)
        zero = np.zeros(shape_of(op.inputs[1]), np.uint8) if given is None else elements_of(given, self.store)
        if zero is None:
            return None
        return self.constant((zero.astype(np.int16) - SHIFT).astype(np.int8), op)

    def counterpart(self, value: SSAValue, user: Operation) -> SSAValue:
        """The int8 counterpart of a uint8 value, made in front of its user where there is none."""
        if value in self.signed:
            return self.signed[value]
        array = elements_of(value, self.store)
        if array is not None:
            made = self.constant((array.astype(np.int16) - SHIFT).astype(np.int8), user)
        else:
            made = self.converted(value, (0, np.dtype(np.uint8)), (-SHIFT, np.dtype(np.int8)), user)
        self.signed[value] = made
        return made

    def back(self, value: SSAValue, user: Operation) -> SSAValue:
        """A uint8 value of which only the int8 counterpart is computed, for a user that needs it."""
        if value not in self.unsigned:
            ends = (-SHIFT, np.dtype(np.int8)), (0, np.dtype(np.uint8))
            self.unsigned[value] = self.converted(self.signed[value], *ends, user)
        return self.unsigned[value]

    def converted(
        self, value: SSAValue, source: tuple[int, np.dtype[np.generic]], target: tuple[int, np.dtype[np.generic]],
        user: Operation,
    ) -> SSAValue:  # fmt: skip
        """The same integers, one zero point further."""
        one = self.constant(np.array(1.0, dtype=np.float32), user)
        zeros = [self.constant(np.array(zero, dtype=dtype), user) for zero, dtype in (source, target)]
        real = make_op("DequantizeLinear", [value, one, zeros[0]], [tensor_type(shape_of(value), "float32")],
                       version=OPSET)  # fmt: skip
        made = make_op("QuantizeLinear", [real.outputs[0], one, zeros[1]], [tensor_type(shape_of(value), target[1])],
                       version=OPSET)  # fmt: skip
        Rewriter.insert_op([real, made], InsertPoint.before(user))
        return made.outputs[0]

    def replace(
        self, op: GraphOp, inputs: Sequence[SSAValue | None], kinds: Sequence[Tensor], attributes: Mapping[str, Plain]
    ) -> None:
        """The same operator on int8; the old op stays for `eliminate-dead-code`."""
        made = make_op(op.op_type, inputs, kinds, version=op.opset, attributes=attributes, nodes=op.node_names)
        Rewriter.insert_op(made, InsertPoint.before(op))
        self.signed.update(zip(op.outputs, made.outputs, strict=True))
        self.replaced.update(value for value in op.outputs if _is_unsigned(value))

    def constant(self, array: Array, user: Operation) -> SSAValue:
        """A constant in front of its user."""
        made = ConstantOp.of(array, self.store)
        Rewriter.insert_op(made, InsertPoint.before(user))
        return made.result


def _is_unsigned(value: SSAValue) -> bool:
    return element_of(value) == element_type("uint8")


def _carries(op: GraphOp) -> bool:
    return op.op_type in CARRIERS or (op.operator is not None and op.operator.is_movement)
