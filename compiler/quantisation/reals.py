"""What integers stand for: activations and constants between `dequantize_linear` and `quantize_linear`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from ..interpreters.graph import run_graph_op
from ..ir.attributes import element_of, element_type, shape_of
from ..ir.data import ConstantOp
from ..ir.graph import GraphOp, is_static, made_by, owner_of
from ..ir.store import Array, DataStore

Reals = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MAX_DEPTH = 8
"""Of constant expressions; what is deeper is no weight that someone scaled or transposed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantised:
    """An int8 activation: scale * (value - zero_point).

    Attributes:
        value: The integers.
        scale, zero_point: What they stand for.
    """

    value: SSAValue
    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedConstant:
    """A constant, scale * (integers - zero_point); scale and zero point can be broadcast to the integers.

    Attributes:
        integers, scale, zero_point: See above.
        bits: Width in which the integers are stored.
    """

    integers: Ints
    scale: Reals
    zero_point: Ints
    bits: int

    @property
    def centred(self) -> Ints:
        """The integers without their zero points."""
        return self.integers - self.zero_point


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What `quantize_linear` or `dequantize_linear` says, where it is one scale for the whole tensor."""

    scale: float
    zero_point: int


def is_int8(value: SSAValue) -> bool:
    """Whether a value is an int8 tensor of known shape."""
    return is_static(shape_of(value)) and element_of(value) == element_type("int8")


def elements_of(value: SSAValue | None, store: DataStore) -> Array | None:
    """Elements of a constant; None for anything else."""
    owner = owner_of(value)
    return owner.array(store) if isinstance(owner, ConstantOp) else None


def step_of(op: GraphOp, store: DataStore) -> Step | None:
    """Scale and zero point of a quantising op; None where they are not constants, or several."""
    scale, zero = elements_of(op.input(1), store), elements_of(op.input(2), store)
    if scale is None or scale.size != 1 or (zero is None and op.input(2) is not None):
        return None
    if zero is not None and zero.size != 1:
        return None
    return Step(scale=float(scale.reshape(-1)[0]), zero_point=0 if zero is None else int(zero.reshape(-1)[0]))


def quantised(value: SSAValue | None, store: DataStore) -> Quantised | None:
    """The int8 activation that a float value is the exact meaning of; None where it is none."""
    op = made_by(value, "DequantizeLinear")
    if op is None or not is_int8(op.inputs[0]) or isinstance(owner_of(op.inputs[0]), ConstantOp):
        return None
    step = step_of(op, store)
    return None if step is None else Quantised(value=op.inputs[0], scale=step.scale, zero_point=step.zero_point)


def quantised_constant(value: SSAValue | None, store: DataStore) -> QuantisedConstant | None:
    """The integers that a float constant is the exact meaning of; None where it is no dequantised constant."""
    op = made_by(value, "DequantizeLinear")
    if op is None:
        return None
    integers, scale = elements_of(op.inputs[0], store), elements_of(op.input(1), store)
    zero = np.zeros(1, np.int64) if op.input(2) is None else elements_of(op.input(2), store)
    if integers is None or scale is None or zero is None:
        return None
    return QuantisedConstant(
        integers=integers.astype(np.int64),
        scale=_along_axis(scale.astype(np.float64), op, integers.shape),
        zero_point=_along_axis(zero.astype(np.int64), op, integers.shape),
        bits=4 if element_of(op.inputs[0]) == IntegerType(4) else 8 * integers.itemsize,
    )


def _along_axis(parameter: Array, op: GraphOp, shape: tuple[int, ...]) -> Array:
    """A scale or zero point in a shape that can be broadcast to the tensor."""
    if parameter.size == 1:
        return parameter.reshape((1,) * len(shape))
    axis = op.int_attribute("axis", 1) % len(shape)
    block = op.int_attribute("block_size", 0)
    if block:
        return np.take(np.repeat(parameter, block, axis=axis), np.arange(shape[axis]), axis=axis)
    return parameter.reshape([-1 if idx == axis else 1 for idx in range(len(shape))])


def real_constant(value: SSAValue | None, store: DataStore) -> Reals | None:
    """Elements of a constant float expression, dequantised weights among them; None for anything else."""
    found = constant_of(value, store)
    return None if found is None or found.dtype.kind not in "fiu" else found.astype(np.float64)


def constant_of(value: SSAValue | None, store: DataStore, depth: int = MAX_DEPTH) -> Array | None:
    """Elements of a constant expression of any type; None for anything else.

    Args:
        value: Any value.
        store: Elements of constants.
        depth: How many ops the expression may be deep.
    """
    owner = owner_of(value)
    if isinstance(owner, ConstantOp):
        return owner.array(store)
    if not isinstance(owner, GraphOp) or len(owner.outputs) != 1 or not owner.inputs or depth == 0:
        return None
    operands: list[Array] = []
    for operand in owner.inputs:
        found = constant_of(operand, store, depth - 1)
        if found is None:
            return None
        operands.append(found)
    return run_graph_op(owner, operands)[0]
