"""Ops of dialect `qnn` on rows of channels: softmax and normalisation."""

from __future__ import annotations

import math
from collections.abc import Iterable

from xdsl.ir import SSAValue
from xdsl.irdl import attr_def, irdl_op_definition, operand_def

from .attributes import Float, Tensor, float_attr, require, shape_of
from .qnn_requantising import RequantisingOp
from .qnn_values import Requantisation


def _verify_rows(op: SoftmaxOp | LayerNormOp) -> None:
    shape, tables = shape_of(op.input), shape_of(op.tables)
    require(op, tables == (5, 256), f"tables are {list(tables)}; they must be [5, 256]")
    require(op, shape == shape_of(op.result), "input and result must have the same shape")


@irdl_op_definition
class SoftmaxOp(RequantisingOp):
    """Softmax over the last axis: the stages of `rows.softmax`, of which the last sums are requantised.

    Attributes:
        input, result: [..., C].
        tables: [5, 256] int8: exponents' upper and lower bytes, the coarse and fine factor of the reciprocal, its correction.
    """

    name = "qnn.softmax"
    input = operand_def(Tensor)
    tables = operand_def(Tensor)

    def __init__(
        self, input_: SSAValue, tables: SSAValue, requantisation: Requantisation, *, nodes: Iterable[str] = ()
    ) -> None:
        super().__init__([input_, tables], shape_of(input_), requantisation, nodes)

    def verify_(self) -> None:
        super().verify_()
        _verify_rows(self)


@irdl_op_definition
class LayerNormOp(RequantisingOp):
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
    epsilon = attr_def(Float)

    def __init__(
        self, input_: SSAValue, tables: SSAValue, epsilon: float, requantisation: Requantisation,
        *, nodes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        super().__init__([input_, tables], shape_of(input_), requantisation, nodes, {"epsilon": float_attr(epsilon)})

    def verify_(self) -> None:
        super().verify_()
        _verify_rows(self)
        epsilon = float(self.epsilon.value.data)
        require(self, math.isfinite(epsilon) and epsilon >= 0, f"epsilon is {epsilon}; it must be 0 or more")
