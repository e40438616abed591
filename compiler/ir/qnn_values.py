"""What ops of dialect `qnn` are made with: requantisation and windows; `qnn` has the semantics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from xdsl.ir import SSAValue

from .attributes import float_attr, int_attr, ints_attr

ROUNDING = "qnn.rounding"
"""Module attribute: how ties round."""
LOW, HIGH = -128, 127
Operation2d = Literal["add", "maximum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requantisation:
    """What every requantising op has besides its inputs.

    Attributes:
        bias, multiplier, shift: Constants, [channels].
        scale, zero_point: What the result's integers stand for.
        low, high: What results are clipped to.
    """

    bias: SSAValue
    multiplier: SSAValue
    shift: SSAValue
    scale: float
    zero_point: int
    low: int = LOW
    high: int = HIGH

    @property
    def operands(self) -> list[SSAValue]:
        """Its constants."""
        return [self.bias, self.multiplier, self.shift]

    @property
    def attributes(self) -> dict[str, Any]:
        """Its attributes."""
        return {
            "scale": float_attr(self.scale), "zero_point": int_attr(self.zero_point), "low": int_attr(self.low),
            "high": int_attr(self.high),
        }  # fmt: skip


def window_outputs(size: int, kernel: int, stride: int, dilation: int, pads: int) -> int:
    """Outputs of a window along one axis; `pads` of both sides together."""
    return (size + pads - dilation * (kernel - 1) - 1) // stride + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A window over height and width.

    Attributes:
        strides, dilations: [y, x].
        pads: [top, left, bottom, right].
        padding: What lies outside, as an integer: the input's zero point, or the least value for a maximum.
    """

    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    padding: int = 0

    @property
    def attributes(self) -> dict[str, Any]:
        """As attributes of an op."""
        return {
            "strides": ints_attr(self.strides), "dilations": ints_attr(self.dilations), "pads": ints_attr(self.pads),
            "padding": int_attr(self.padding),
        }  # fmt: skip

    def outputs(self, size: Sequence[int], kernel: Sequence[int]) -> tuple[int, int]:
        """Height and width of the output for those of input and window."""
        height, width = (
            window_outputs(
                size[at], kernel[at], self.strides[at], self.dilations[at], self.pads[at] + self.pads[2 + at]
            )
            for at in (0, 1)
        )
        return height, width
