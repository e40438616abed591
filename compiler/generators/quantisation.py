"""Scales, zero points and weights that a calibrated network would have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .arithmetic import Floats, channels_first

ActivationType: TypeAlias = Literal["int8", "uint8"]
Samples: TypeAlias = tuple[Floats, ...]
"""What a tensor holds for each of the calibration inputs."""

MEAN_IN_SPREAD = 0.3
"""Share of a channel's mean that counts as its spread; without it a nearly constant channel would be all noise."""
OFFSET_MEAN, OFFSET_SPREAD, GAIN_SPREAD = 1.0, 0.7, 0.3
"""Of the channels' means and, as a logarithm, of their spreads after normalisation.

Means above 0 keep most of a channel in the linear part of its ReLU. With means around 0 a difference of one step grows
from layer to layer, so that outputs of deep networks would say more about rounding than about the input.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """What the integers of an activation stand for: (integer - zero_point) * scale.

    Attributes:
        scale: A value that float32 holds exactly.
        zero_point: Within the limits of the integers' type.
    """

    scale: float
    zero_point: int

    def quantise(self, array: Floats, dtype: ActivationType) -> npt.NDArray[Any]:
        """The nearest integers; ties go to the even one, as in ONNX."""
        limits = np.iinfo(dtype)
        steps = np.rint(array / np.float32(self.scale)) + self.zero_point
        return np.clip(steps, limits.min, limits.max).astype(dtype)

    def dequantise(self, integers: npt.NDArray[Any]) -> Floats:
        """The values that integers stand for."""
        return (integers.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


def calibrate(samples: Samples, dtype: ActivationType) -> Scale:
    """The finest scale that holds 0 and all samples."""
    low = min(0.0, *(float(array.min()) for array in samples))
    high = max(0.0, *(float(array.max()) for array in samples))
    limits = np.iinfo(dtype)
    step = float(np.float32((high - low) / 255 or 1 / 255))
    return Scale(scale=step, zero_point=int(np.clip(round(limits.min - low / step), limits.min, limits.max)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Weights and bias of a layer, and what they make of the calibration inputs.

    Attributes:
        integers: int8.
        scales: float32, one per output channel or a scalar.
        bias: int32, one per output channel, in steps of the input's scale times `scales`; None for none.
        outputs: Float results before any activation function.
    """

    integers: npt.NDArray[np.int8]
    scales: Floats
    bias: npt.NDArray[np.int32] | None
    outputs: Samples

    def bias_scales(self, input_scale: float) -> Floats:
        """What one step of the bias stands for."""
        return np.asarray(self.scales * np.float32(input_scale), np.float32)


def draw_weights(
    rng: np.random.Generator,
    shape: Sequence[int],
    inputs: Samples,
    input_scale: float,
    product: Callable[[Floats, Floats], Floats],
    *,
    weight_axis: int,
    output_axis: int,
    is_per_channel: bool = True,
    has_bias: bool = True,
    is_normalised: bool = True,
) -> Weights:
    """Random weights whose results have a spread near 1, however deep in a network they stand.

    Integers are drawn first and use all of int8; the scales then follow from what they make of the inputs.

    Args:
        shape: Of the weights.
        inputs: Real values of the input.
        input_scale: Of one step of the input.
        product: The layer without bias, linear in its second argument, the weights.
        weight_axis, output_axis: The output channels' axis in weights and results.
        is_per_channel: Whether every output channel has a scale of its own.
        has_bias: Whether there is a bias.
        is_normalised: Whether every channel has a mean and a spread of its own, as after a batch normalisation that was
            folded; otherwise means stay as they come, and channels share one spread.
    """
    drawn = np.moveaxis(rng.standard_normal(tuple(shape), dtype=np.float32), weight_axis, 0)
    peaks = np.abs(drawn).reshape(len(drawn), -1).max(axis=1)
    peaks = peaks if is_per_channel else np.full_like(peaks, peaks.max())
    whole = np.rint(drawn * (127 / peaks).reshape(-1, *[1] * (drawn.ndim - 1))).astype(np.int8)
    integers = np.ascontiguousarray(np.moveaxis(whole, 0, weight_axis))
    results = [product(array, integers.astype(np.float32)) for array in inputs]
    by_channel = channels_first(results, output_axis)
    means = by_channel.mean(axis=1, dtype=np.float64)
    spreads = np.hypot(by_channel.std(axis=1, dtype=np.float64), MEAN_IN_SPREAD * means)
    if not is_normalised:
        spreads = np.full_like(means, np.sqrt(np.square(by_channel, dtype=np.float64).mean()))
        means = np.zeros_like(means)
    spreads = np.where(spreads > 0, spreads, 1.0) if is_per_channel else np.asarray(spreads.mean() or 1.0)
    gains = np.exp(GAIN_SPREAD * rng.standard_normal(spreads.shape))
    offsets = OFFSET_MEAN * is_normalised + OFFSET_SPREAD * rng.standard_normal(len(means))
    scales = np.asarray(gains / spreads, np.float32)
    bias = None
    if has_bias:
        steps = np.rint((offsets / scales - means) / input_scale)
        bias = np.clip(steps, -(1 << 30), 1 << 30).astype(np.int32)
    added = np.zeros(len(means), np.float32) if bias is None else bias * scales * np.float32(input_scale)
    aligned = [1] * results[0].ndim
    aligned[output_axis] = -1
    factors = np.broadcast_to(scales, means.shape).reshape(aligned)
    outputs = tuple((array * factors + added.reshape(aligned)).astype(np.float32) for array in results)
    return Weights(integers=integers, scales=scales, bias=bias, outputs=outputs)
