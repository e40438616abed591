"""From what sums of integers stand for to the constants that requantise them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...archdsl import CompileError
from ..ir.qnn import HIGH, LOW, Requantisation
from ..passes.rewriting import OpMaker
from .epilogues import Epilogue
from .reals import Reals, Step
from .scaling import multipliers_and_shifts

Ints = npt.NDArray[np.int64]
BIAS_LIMIT = (1 << 31) - 1
FINE_BITS = 16
"""Fractions of an output step, in bits, in which a channel that depends on no input is written."""


class Unsuitable(Exception):
    """A node has no exact form in integers; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """An epilogue as one number per channel.

    Attributes:
        gain, offset: [channels].
        low, high: Limits of all channels.
        axis: The axis of channels.
    """

    gain: Reals
    offset: Reals
    low: float
    high: float
    axis: int

    def plus(self, bias: Reals) -> Channels:
        """The map after a bias is added to its source."""
        return Channels(
            gain=self.gain, offset=self.offset + self.gain * bias, low=self.low, high=self.high, axis=self.axis
        )


def varying_axes(epilogue: Epilogue, rank: int) -> tuple[int, ...]:
    """Axes along which an epilogue's gain or offset differ."""
    found: set[int] = set()
    for array in (epilogue.gain, epilogue.offset):
        found |= {rank - array.ndim + axis for axis, size in enumerate(array.shape) if size != 1}
    return tuple(sorted(found))


def channels_of(epilogue: Epilogue, shape: Sequence[int], axis: int) -> Channels:
    """An epilogue as one number per index of an axis.

    Args:
        epilogue: The map.
        shape: Of its value.
        axis: The axis of channels.

    Raises:
        Unsuitable: It differs along another axis, or has limits that differ.
    """
    axis %= len(shape)
    if set(varying_axes(epilogue, len(shape))) - {axis}:
        raise Unsuitable(f"a constant differs along other axes than that of the channels ({axis})")
    limits = [np.unique(limit) for limit in (epilogue.low, epilogue.high)]
    if any(limit.size != 1 for limit in limits):
        raise Unsuitable("the limits of its activation differ from channel to channel")
    size = shape[axis]
    gain, offset = (np.broadcast_to(array.reshape(-1), (size,)) for array in (epilogue.gain, epilogue.offset))
    return Channels(gain=gain, offset=offset, low=float(limits[0][0]), high=float(limits[1][0]), axis=axis)


def requantisation(
    maker: OpMaker, channels: Channels, unit: Reals, constant: Reals | Ints, step: Step, *, is_signed: bool = False
) -> Requantisation:
    """The constants with which sums of integers are requantised.

    The value is gain * unit * (sum + constant) + offset, within the limits, in steps of the result.

    Args:
        maker: Makes the constants.
        channels: Gain, 0 or more, offset and limits. A channel with gain 0 must have sums of 0.
        unit: [channels] What one step of the sums stands for.
        constant: [channels] What is added to the sums, in their steps.
        step: Scale and zero point of the result.
        is_signed: Whether gains may be negative, so that multipliers are.

    Raises:
        Unsuitable: A gain is negative where it must not be, or a bias does not fit 32 bits.
    """
    if np.any(channels.gain < 0) and not is_signed:
        raise Unsuitable("it is multiplied by a negative constant")
    size = channels.gain.shape
    slope = channels.gain * np.broadcast_to(unit, size)
    is_fixed = slope == 0
    slope = np.where(is_fixed, step.scale / (1 << FINE_BITS), slope)
    bias = np.rint(np.where(is_fixed, 0.0, np.broadcast_to(constant, size)) + channels.offset / slope)
    if np.any(np.abs(bias) > BIAS_LIMIT):
        raise Unsuitable(
            "a bias in steps of input_scale * weight_scale does not fit 32 bits; use a larger weight scale"
        )
    try:
        with np.errstate(divide="ignore"):  # a scale of 0 is an error there
            multiplier, shift = multipliers_and_shifts(np.abs(slope) / step.scale)
    except CompileError as error:
        raise Unsuitable(str(error)) from error
    return Requantisation(
        bias=maker.constant(bias.astype(np.int32)),
        multiplier=maker.constant((np.sign(slope) * multiplier).astype(np.int32)),
        shift=maker.constant(shift.astype(np.int8)),
        scale=step.scale,
        zero_point=step.zero_point,
        low=quantise(channels.low, step),
        high=quantise(channels.high, step),
    )


def quantise(value: float, step: Step) -> int:
    """The integer nearest to a real number, as `quantize_linear` has it."""
    if np.isinf(value):
        return HIGH if value > 0 else LOW
    return int(np.clip(np.rint(value / step.scale) + step.zero_point, LOW, HIGH))
