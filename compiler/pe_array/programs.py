"""One convolution or matrix product as a program image: scales become channel parameters, weights go into memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from ...archdsl import (
    BIAS_SHIFT,
    CompileError,
    Mapping,
    NumberFormat,
    OpRecord,
    PeArray,
    ProgramImage,
    Region,
    Scaling,
    SpatialArch,
    Symbol,
    ceil_div,
    make_image,
    pe_array,
    written_mapping,
)
from ..quantisation.scaling import MULTIPLIER_BITS, multipliers_and_shifts
from .builder import ProgramBuilder
from .convolution import ConvLayout, ConvShape, gemm_shape, layout_of
from .images import place_parameters, place_weights
from .kernel import ConvKernel

Elements = npt.NDArray[Any]
"""int8, or a floating-point type of `ml_dtypes`."""
Ints = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]
FLOAT_DTYPES = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """How the elements of an op stand for real numbers; weights are symmetric.

    Attributes:
        input_scale, input_zero_point: Of the input.
        weight_scales: One for all output channels, or one for each.
        output_scale, output_zero_point: Of the output.
        low, high: What outputs are clipped to, as bytes; the least and greatest finite element when left out, and
            `low = output_zero_point` is a rectifier.
    """

    input_scale: float = 1.0
    input_zero_point: int = 0
    weight_scales: tuple[float, ...] = (1.0,)
    output_scale: float = 1.0
    output_zero_point: int = 0
    low: int | None = None
    high: int | None = None


def channel_scaling(quantisation: Quantisation, outputs: int) -> tuple[Ints, Ints]:
    """Multiplier and shift of every output channel: input_scale * weight_scale / output_scale = multiplier / 2^shift.

    Raises:
        CompileError: The number of scales is neither 1 nor `outputs`, or a ratio is out of the hardware's range.
    """
    scales = quantisation.weight_scales
    if len(scales) not in (1, outputs):
        raise CompileError(
            f"there are {len(scales)} weight scales; there must be 1 or one per output channel ({outputs})"
        )
    ratios = np.broadcast_to(np.array(scales) * quantisation.input_scale / quantisation.output_scale, (outputs,))
    for ratio in ratios:
        if not 0 < ratio < math.inf:
            raise CompileError(f"input_scale * weight_scale / output_scale is {ratio}; it must be positive and finite")
        if ratio >= 2**MULTIPLIER_BITS:
            raise CompileError(f"input_scale * weight_scale / output_scale is {ratio}; it must be below {2**31}")
    return multipliers_and_shifts(ratios)


def conv_image(
    arch: SpatialArch,
    shape: ConvShape,
    weights: Elements,
    quantisation: Quantisation | None = None,
    *,
    bias: Numbers | None = None,
    name: str = "conv",
    mapping: Mapping | None = None,
    predicted_cycles: float | None = None,
) -> ProgramImage:
    """One convolution as a program image with the symbols `input`, `weights`, `parameters` and `output`.

    Args:
        arch: The architecture; it must describe a tensor PE array.
        shape: The convolution.
        weights: [kernel_height, kernel_width, channels, outputs]; int8, or of the array's floating-point format as
            `ml_dtypes` has it.
        quantisation: Scales and zero points; all 1 and 0 when left out.
        bias: [outputs], integers or real numbers that are added to sums of products of elements, that is, in units of
            input_scale * weight_scale; 0 when left out.
        name: Of the op.
        mapping: The mapping that the models priced, to be kept in the manifest.
        predicted_cycles: What a model predicted, to be kept in the manifest.

    Returns:
        The image; its input is all zero points until an array is placed there.

    Raises:
        ArchError: The architecture describes no tensor PE array.
        CompileError: Weights or bias have another shape or range than the convolution, or it does not fit.
    """
    dims = {"K": shape.outputs, "C": shape.channels, "OY": shape.output_height, "OX": shape.output_width}
    dims |= {"FY": shape.kernel_height, "FX": shape.kernel_width, "stride": shape.stride, "dilation": shape.dilation}
    record = _Record(name=name, kind="conv", dims=dims, mapping=mapping, predicted_cycles=predicted_cycles)
    input_shape = (shape.height, shape.width, shape.channels)
    output_shape = (shape.output_height, shape.output_width, shape.outputs)
    return _image(arch, shape, weights, quantisation or Quantisation(), bias, record, input_shape, output_shape)


def gemm_image(
    arch: SpatialArch,
    m: int,
    weights: Elements,
    quantisation: Quantisation | None = None,
    *,
    bias: Numbers | None = None,
    name: str = "gemm",
    mapping: Mapping | None = None,
    predicted_cycles: float | None = None,
) -> ProgramImage:
    """One matrix product [m, k] x [k, n] as a program image; see `conv_image`.

    Args:
        arch: The architecture; it must describe a tensor PE array.
        m: Rows of the input.
        weights: [k, n].
        quantisation: Scales and zero points; all 1 and 0 when left out.
        bias: [n], in steps of input_scale * weight_scale; 0 when left out.
        name: Of the op.
        mapping: The mapping that the models priced, to be kept in the manifest.
        predicted_cycles: What a model predicted, to be kept in the manifest.

    Raises:
        ArchError: The architecture describes no tensor PE array.
        CompileError: Weights or bias have another shape or range than the product, or it does not fit.
    """
    if weights.ndim != 2:
        raise CompileError(f"weights have the shape {list(weights.shape)}; a matrix product takes [k, n]")
    k, n = weights.shape
    record = _Record(
        name=name, kind="gemm", dims={"M": m, "N": n, "K": k}, mapping=mapping, predicted_cycles=predicted_cycles
    )
    shape = gemm_shape(m, k, n)
    return _image(
        arch, shape, weights.reshape(1, 1, k, n), quantisation or Quantisation(), bias, record, (m, k), (m, n)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What the manifest says about the op."""

    name: str
    kind: str
    dims: dict[str, int]
    mapping: Mapping | None
    predicted_cycles: float | None


def _image(
    arch: SpatialArch,
    shape: ConvShape,
    weights: Elements,
    quantisation: Quantisation,
    bias: Numbers | None,
    record: _Record,
    input_shape: tuple[int, ...],
    output_shape: tuple[int, ...],
) -> ProgramImage:
    array = pe_array(arch)
    layout = layout_of(array, shape)
    memory = np.zeros(ceil_div(layout.end, array.bus_bytes) * array.bus_bytes, dtype=np.uint8)
    _check_arguments(array, shape, weights, bias, quantisation)
    multiplier, shift = channel_scaling(quantisation, shape.outputs)
    place_weights(memory, array, shape, layout, weights.view(np.int8))
    added = _fixed_point_bias(shape, bias) if array.format.is_float else _folded_bias(weights, bias, quantisation)
    place_parameters(memory, array, shape, layout, added, multiplier, shift)
    memory[layout.input : layout.weights] = quantisation.input_zero_point & 255
    builder = ProgramBuilder(array)
    ConvKernel(
        builder, shape, layout, padding=quantisation.input_zero_point, zero_point=quantisation.output_zero_point,
        low=quantisation.low, high=quantisation.high,
    ).emit()  # fmt: skip
    program = builder.finish()
    op = OpRecord(
        name=record.name,
        kind=record.kind,
        dims=record.dims,
        first_instruction=0,
        num_instructions=len(program) - 1,  # without HALT
        macs=shape.macs,
        mapping=None if record.mapping is None else written_mapping(record.mapping),
        predicted_cycles=record.predicted_cycles,
    )
    symbols = _symbols(array.format, layout, quantisation, input_shape, output_shape)
    return make_image(arch, program, memory.tobytes(), symbols, regions=_regions(layout), ops=[op])


def _check_arguments(
    array: PeArray, shape: ConvShape, weights: Elements, bias: Numbers | None, quantisation: Quantisation
) -> None:
    window = (shape.kernel_height, shape.kernel_width, shape.channels, shape.outputs)
    expected = np.dtype(FLOAT_DTYPES[array.format.name] if array.format.is_float else np.int8)
    if weights.shape != window or weights.dtype != expected:
        raise CompileError(
            f"weights are {weights.dtype} of shape {list(weights.shape)}; they must be {expected} of shape {list(window)}"
        )
    zero_points = (quantisation.input_zero_point, quantisation.output_zero_point)
    if array.format.is_float and any(zero_points):
        raise CompileError(f"zero points are {zero_points}; elements of {array.format.name} have none: leave them 0")
    if bias is not None and bias.shape != (shape.outputs,):
        raise CompileError(f"the bias has the shape {list(bias.shape)}; it must be [{shape.outputs}]")


def _folded_bias(weights: Elements, bias: Numbers | None, quantisation: Quantisation) -> Ints:
    """The bias with the input's zero point in it: sum of (x - zero) w = sum of x w - zero * sum of w."""
    sums = weights.astype(np.int64).sum(axis=(0, 1, 2))
    folded = (0 if bias is None else bias.astype(np.int64)) - quantisation.input_zero_point * sums
    if np.abs(folded).max() >= 1 << 31:
        raise CompileError("the bias with the input's zero point folded in does not fit 32 bits; use a larger scale")
    return folded


def _fixed_point_bias(shape: ConvShape, bias: Numbers | None) -> Ints:
    """The bias of floating-point sums, in the steps in which post-processing adds it."""
    if bias is None:
        return np.zeros(shape.outputs, dtype=np.int64)
    steps = np.rint(bias.astype(np.float64) * (1 << BIAS_SHIFT))
    if not (np.abs(steps) < 1 << 31).all():
        raise CompileError(
            f"the bias goes up to {np.abs(bias).max()}; it must be below {1 << 31 - BIAS_SHIFT}: use scales"
        )
    return steps.astype(np.int64)


def _symbols(
    number_format: NumberFormat,
    layout: ConvLayout,
    quantisation: Quantisation,
    input_shape: tuple[int, ...],
    output_shape: tuple[int, ...],
) -> Sequence[Symbol]:
    # A matrix product has width 1, and its symbols leave that axis out.
    input_strides = (layout.input_row_bytes, layout.pixel_bytes, 1)
    output_strides = (layout.output_row_bytes, layout.output_pixel_bytes, 1)
    is_flat = len(input_shape) == 2
    element: dict[str, Any] = {"element_bits": 8}
    if number_format.is_float:
        element |= {"format": number_format.name, "signed": False}
    num_weights = layout.parameters - layout.weights
    num_tiles = (layout.output - layout.parameters) // layout.parameter_bytes
    return (
        Symbol(
            name="input", role="input", address=layout.input, shape=input_shape, **element,
            strides_bytes=input_strides[0::2] if is_flat else input_strides,
            scaling=Scaling(scale=quantisation.input_scale, zero_point=quantisation.input_zero_point),
        ),
        Symbol(
            name="weights", role="weight", address=layout.weights, shape=(num_weights,), strides_bytes=(1,),
            **element,
        ),
        Symbol(
            name="parameters", role="parameter", address=layout.parameters, shape=(num_tiles, layout.parameter_bytes),
            strides_bytes=(layout.parameter_bytes, 1), element_bits=8, signed=False,
        ),
        Symbol(
            name="output", role="output", address=layout.output, shape=output_shape, **element,
            strides_bytes=output_strides[0::2] if is_flat else output_strides,
            scaling=Scaling(scale=quantisation.output_scale, zero_point=quantisation.output_zero_point),
        ),
    )  # fmt: skip


def _regions(layout: ConvLayout) -> Sequence[Region]:
    bounds = {
        "input": (layout.input, layout.weights),
        "weights": (layout.weights, layout.parameters),
        "parameters": (layout.parameters, layout.output),
        "output": (layout.output, layout.end),
    }
    return [Region(name=name, address=low, size_bytes=high - low) for name, (low, high) in bounds.items()]
