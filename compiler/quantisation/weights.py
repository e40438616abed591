"""Constant weights of products: one scale per output, no zero point, the sign of what they are multiplied by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import SSAValue

from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp
from ..ir.qnn import HIGH, LOW
from ..passes.rewriting import OpMaker
from .reals import Ints, QuantisedConstant, Reals
from .requantising import Unsuitable

INT4 = (-8, 7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Integers without zero points, and what one step stands for.

    Attributes:
        integers: The axis of outputs first.
        scale: [outputs].
        bits: 4 or 8, what the integers were stored in.
    """

    integers: Ints
    scale: Reals
    bits: int

    def signed(self, gain: Reals) -> Weights:
        """The weights with the sign of what each output is multiplied by; those of outputs times 0 are 0."""
        sign = np.sign(gain * self.scale).astype(np.int64)
        integers = self.integers * sign.reshape(-1, *(1,) * (self.integers.ndim - 1))
        bits = self.bits if not integers.size or (integers.min() >= INT4[0] and integers.max() <= INT4[1]) else 8
        return Weights(integers=integers, scale=self.scale, bits=bits)


def output_weights(constant: QuantisedConstant, axis: int) -> Weights:
    """Weights with one scale per output.

    Args:
        constant: The quantised constant.
        axis: Its axis of outputs.

    Raises:
        Unsuitable: Scales differ along another axis.
    """
    axis %= constant.integers.ndim
    outputs = constant.integers.shape[axis]
    scale = np.moveaxis(constant.scale, axis, 0)
    if any(size != 1 for size in scale.shape[1:]):
        raise Unsuitable("its weights have scales along another axis than that of the outputs")
    integers = np.moveaxis(constant.centred, axis, 0)
    return Weights(integers=integers, scale=np.broadcast_to(scale.reshape(-1), (outputs,)), bits=constant.bits)


def int8_parts(integers: Ints) -> list[Ints]:
    """Arrays of 8 bits whose sum is an array: one, unless zero points or signs took its elements beyond 8 bits.

    A product with such weights is one of the input, repeated, with the parts behind each other.
    """
    parts: list[Ints] = []
    rest = integers
    while not parts or rest.any():
        part = np.clip(rest, LOW, HIGH)
        parts.append(part)
        rest = rest - part
    return parts


def repeated(maker: OpMaker, value: SSAValue, count: int, groups: int = 1) -> SSAValue:
    """A tensor with its last axis repeated, for weights in several parts: of groups of channels each one by itself."""
    if count == 1:
        return value
    shape = shape_of(value)
    axis = len(shape) - 1
    size = shape[axis] // groups
    parts = [value]
    if groups > 1:
        begins = [(*(0,) * axis, group * size) for group in range(groups)]
        parts = [maker.insert(qnn.SliceOp(value, at, (*shape[:axis], size), nodes=maker.nodes)) for at in begins]
    return maker.insert(qnn.ConcatOp([part for part in parts for _ in range(count)], axis, nodes=maker.nodes))


def weight_constant(maker: OpMaker, integers: Ints, bits: int) -> SSAValue:
    """Weights as a constant of 8 bits, or 4."""
    array = np.ascontiguousarray(integers).astype(np.int8)
    if bits == 8:
        return maker.constant(array)
    kind = TensorType(IntegerType(4), array.shape)
    return maker.insert(ConstantOp(maker.store.add(array), kind, maker.nodes))
