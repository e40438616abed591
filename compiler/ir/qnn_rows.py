"""Ops of dialect `qnn` on rows of channels: softmax and normalisation."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from .attributes import Float, Integer, Tensor, float_attr, names_attr, require, shape_of, tensor_type
from .qnn_values import HIGH, LOW, Requantisation


def _verify_rows(op: SoftmaxOp | LayerNormOp) -> None:
    shape, tables = shape_of(op.input), shape_of(op.tables)
    require(op, tables == (5, 256), f"tables are {list(tables)}; they must be [5, 256]")
    require(op, shape == shape_of(op.result), "input and result must have the same shape")
    for what, value in (("bias", op.bias), ("multiplier", op.multiplier), ("shift", op.shift)):
        found = shape_of(value)
        require(op, found == shape[-1:], f"{what} has the shape {list(found)}; it must be [{shape[-1]}]")
    low, high = int(op.low.value.data), int(op.high.value.data)
    require(op, LOW <= low <= high <= HIGH, f"clips to [{low}, {high}]; it must be in [{LOW}, {HIGH}]")


@irdl_op_definition
class SoftmaxOp(IRDLOperation):
    """Softmax over the last axis: the stages of `rows.softmax`, of which the last sums are requantised.

    Attributes:
        input, result: [..., C].
        tables: [5, 256] int8: exponents' upper and lower bytes, the coarse and fine factor of the reciprocal, its correction.
    """

    name = "qnn.softmax"
    input = operand_def(Tensor)
    tables = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, tables: SSAValue, requantisation: Requantisation, *, nodes: Iterable[str] = ()
    ) -> None:
        super().__init__(
            operands=[input_, tables, *requantisation.operands],
            attributes={**requantisation.attributes, "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape_of(input_), "int8")],
        )

    def verify_(self) -> None:
        _verify_rows(self)


@irdl_op_definition
class LayerNormOp(IRDLOperation):
    """Normalisation over the last axis: the stages of `rows.layer_norm`, of which the last sums are requantised.

    Gain and bias of the network are in multiplier and bias.

    Attributes:
        input, result: [..., C].
        tables: [5, 256] int8: factors by which rows grow, the coarse factor of the root and its square, the fine factor, its
            correction.
        epsilon: What is added to the variance, in squares of input steps.
    """

    name = "qnn.layer_norm"
    input = operand_def(Tensor)
    tables = operand_def(Tensor)
    bias = operand_def(Tensor)
    multiplier = operand_def(Tensor)
    shift = operand_def(Tensor)
    epsilon = attr_def(Float)
    scale = attr_def(Float)
    zero_point = attr_def(Integer)
    low = attr_def(Integer)
    high = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, tables: SSAValue, epsilon: float, requantisation: Requantisation,
        *, nodes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(
            operands=[input_, tables, *requantisation.operands],
            attributes={**requantisation.attributes, "epsilon": float_attr(epsilon), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape_of(input_), "int8")],
        )

    def verify_(self) -> None:
        _verify_rows(self)
        epsilon = float(self.epsilon.value.data)
        require(self, math.isfinite(epsilon) and epsilon >= 0, f"epsilon is {epsilon}; it must be 0 or more")
