"""What ops of dialect `qnn` have in common whose sums are requantised, and those with a window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, attr_def, operand_def, result_def, traits_def
from xdsl.traits import Pure

from .attributes import Float, Integer, Integers, Tensor, names_attr, require, shape_of, tensor_type
from .qnn_values import HIGH, LOW, Requantisation, Window


class RequantisingOp(IRDLOperation):
    """An op whose sums are requantised. Its own operands stand in front of these.

    Attributes:
        bias, multiplier, shift: One element per channel of the last axis.
        low, high: What results are clipped to.
    """

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
        self,
        operands: Sequence[SSAValue],
        shape: Sequence[int],
        requantisation: Requantisation,
        nodes: Iterable[str],
        attributes: Mapping[str, Attribute] | None = None,
    ) -> None:
        super().__init__(
            operands=[*operands, *requantisation.operands],
            attributes={**requantisation.attributes, **(attributes or {}), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        channels = shape_of(self.result)[-1]
        for what, value in (("bias", self.bias), ("multiplier", self.multiplier), ("shift", self.shift)):
            found = shape_of(value)
            require(self, found == (channels,), f"{what} has the shape {list(found)}; it must be [{channels}]")
        how = requantisation_of(self)
        limits = f"it must be in [{LOW}, {HIGH}]"
        require(self, LOW <= how.low <= how.high <= HIGH, f"clips to [{how.low}, {how.high}]; {limits}")
        require(self, LOW <= how.zero_point <= HIGH, f"zero_point is {how.zero_point}; it must be from {LOW} to {HIGH}")


def requantisation_of(op: RequantisingOp) -> Requantisation:
    """How an op requantises."""
    return Requantisation(
        bias=op.bias, multiplier=op.multiplier, shift=op.shift, scale=float(op.scale.value.data),
        zero_point=int(op.zero_point.value.data), low=int(op.low.value.data), high=int(op.high.value.data),
    )  # fmt: skip


class WindowOp(RequantisingOp):
    """A requantising op with a window over its first operand, [N, H, W, C]; see `Window` for its attributes."""

    strides = attr_def(Integers)
    dilations = attr_def(Integers)
    pads = attr_def(Integers)
    padding = attr_def(Integer)

    def verify_window(self, kernel: Sequence[int]) -> None:
        """Checks that the result has as many outputs as the window gives."""
        found, result = shape_of(self.operands[0]), shape_of(self.result)
        require(self, len(found) == len(result) == 4, "input and result must be [N, H, W, C]")
        expected = window_of(self).outputs(found[1:3], kernel)
        require(self, result[1:3] == expected, f"the result is {list(result[1:3])}; the window gives {list(expected)}")
        require(self, result[0] == found[0], f"the result has {result[0]} images for {found[0]}")


def window_of(op: WindowOp) -> Window:
    """The window of an op."""

    def ints(attr: Integers) -> tuple[Any, ...]:
        return tuple(int(value) for value in attr.get_values())

    return Window(
        strides=ints(op.strides), dilations=ints(op.dilations), pads=ints(op.pads), padding=int(op.padding.value.data)
    )
