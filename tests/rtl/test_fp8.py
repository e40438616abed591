"""Floating point of 8 bits on the RTL: exact sums, rounded once, against exact fractions and `ml_dtypes`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from random import Random

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileloom.archdsl import PeArray, check_program
from tileloom.compiler import (
    ConvKernel,
    ConvShape,
    ProgramBuilder,
    gemm_shape,
    layout_of,
    place_input,
    place_parameters,
    place_weights,
    take_output,
)
from tileloom.rtl import Job, run_programs

from .cases import array_of, assert_same
from .programs import RandomProgram

pytestmark = pytest.mark.rtl

Codes = npt.NDArray[np.uint8]
Sizes = tuple[int, int, int]
DTYPES: dict[str, np.dtype[np.generic]] = {
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
WIDTHS = {"e4m3": 53, "e5m2": 77}
"""Bits of an accumulator; with the flags 7 and 10 bytes."""
ROUNDINGS = ("half_to_even", "half_away")


def fp8_array(name: str, sizes: Sizes, rounding: str = "half_to_even") -> PeArray:
    """A PE array of floating-point elements."""
    sum_bytes = (WIDTHS[name] + 3) // 8
    array = array_of(
        *sizes,
        {
            "hierarchy.mac.datatypes.int8": None,
            "hierarchy.mac.datatypes.fp8": {"accumulator_bits": WIDTHS[name], "fixed_point_sum": True},
            "hierarchy.accumulator.capacity": f"{512 * sizes[1] * sum_bytes} B",
            "control.fp8_format": name,
            "control.rounding": rounding,
        },
    )
    assert (array.format.name, array.accumulator_vectors) == (name, 512)
    return array


def values_of(name: str) -> list[float]:
    """The value of every code, as ml_dtypes reads it."""
    return np.arange(256, dtype=np.uint8).view(DTYPES[name]).astype(np.float64).tolist()


def rounded(name: str, exact: Fraction, rounding: str) -> int:
    """The code of the finite element nearest to a number, by looking at all of them."""
    values = values_of(name)
    positive = [(Fraction(values[code]), code) for code in range(128) if math.isfinite(values[code])]
    distances = [(abs(abs(exact) - value), code) for value, code in positive]
    least = min(distances)[0]
    nearest = [code for distance, code in distances if distance == least]
    if abs(exact) > positive[-1][0]:
        nearest = [positive[-1][1]]
    code = nearest[0]
    if len(nearest) == 2:
        code = max(nearest) if rounding == "half_away" else next(code for code in nearest if code % 2 == 0)
    return code | (0x80 if exact < 0 else 0)


def post_processed(
    name: str, total: Fraction | float, bias: int, multiplier: int, shift: int, clip: tuple[int, int], rounding: str
) -> int:
    """A stored element: a sum, or the NaN or infinity that takes its place."""
    values = values_of(name)
    low, high = clip
    nan = next(code for code in range(128) if math.isnan(values[code])) if name == "e4m3" else 0x7E
    if isinstance(total, float):
        with np.errstate(invalid="ignore"):
            special = float(np.float64(total) * multiplier)
        if math.isnan(special):
            return nan
        code = values.index(special)
    else:
        code = rounded(name, (total + Fraction(bias, 1 << 16)) * Fraction(multiplier, 1 << shift), rounding)

    def place(code: int) -> tuple[float, int]:
        return values[code], -(code >> 7)

    return low if place(code) < place(low) else high if place(code) > place(high) else code


def exact_sum(pairs: Sequence[tuple[float, float]]) -> Fraction | float:
    """A sum of products: exact, or what IEEE 754 says of NaN and infinity."""
    special = [one * other for one, other in pairs if not (math.isfinite(one) and math.isfinite(other))]
    if special:
        with np.errstate(invalid="ignore"):
            return float(np.sum(special))
    return sum((Fraction(one) * Fraction(other) for one, other in pairs), Fraction(0))


def codes(name: str, rng: np.random.Generator, shape: Sequence[int], special: float = 0.0) -> Codes:
    """Random codes, with NaN and infinity in a part of places."""
    made = rng.integers(0, 256, shape).astype(np.uint8)
    keep = rng.random(shape) < special
    is_special = ~np.isfinite(made.view(DTYPES[name]).astype(np.float64))
    return np.where(is_special & ~keep, np.uint8(0x30), made).astype(np.uint8)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("sizes", [(8, 8, 8)], ids=str)
def test_kernels_are_exact(name: str, sizes: Sizes, rounding: str) -> None:
    array = fp8_array(name, sizes, rounding)
    rng, numbers = Random(f"{name} {sizes} {rounding}"), np.random.default_rng(len(rounding))
    shapes = [
        gemm_shape(7, 19, 5),
        gemm_shape(13, 40, 17),
        ConvShape(
            height=5, width=6, channels=3, outputs=4, kernel_height=3, kernel_width=3, pad_top=1, pad_left=1,
            output_height=5, output_width=6,
        ),
    ]  # fmt: skip
    jobs: list[Job] = []
    expected: list[Codes] = []
    for idx, shape in enumerate(shapes):
        layout = layout_of(array, shape)
        clip = rng.choice(((array.format.low & 255, array.format.high), (0x00, array.format.high), (0xB8, 0x38)))
        builder = ProgramBuilder(array)
        low, high = (code - 256 if code > 127 else code for code in clip)
        ConvKernel(builder, shape, layout, low=low, high=high).emit()
        # In the last one infinity times the padding's zero is NaN, too.
        inputs = codes(name, numbers, (shape.height, shape.width, shape.channels), 0.3 * idx)
        window = (shape.kernel_height, shape.kernel_width, shape.channels, shape.outputs)
        weights = codes(name, numbers, window, 0.3 * idx)
        bias = numbers.integers(-(1 << 20), 1 << 20, shape.outputs)
        multiplier = numbers.integers(-(1 << 31), 1 << 31, shape.outputs)
        # Results all over the format: subnormal ones, ordinary ones, and those that saturate.
        shift = numbers.integers(*((28, 52) if name == "e4m3" else (24, 63)), shape.outputs)
        memory = np.zeros(-(-layout.end // array.bus_bytes) * array.bus_bytes, dtype=np.uint8)
        place_input(memory, shape, layout, inputs.view(np.int8))
        place_weights(memory, array, shape, layout, weights.view(np.int8))
        place_parameters(memory, array, shape, layout, bias, multiplier, shift)
        jobs.append(Job(program=builder.finish(), memory=memory))
        assert not check_program(jobs[-1].program, array, len(memory))
        values = values_of(name)
        output = np.empty((shape.output_height, shape.output_width, shape.outputs), dtype=np.uint8)
        for y, x, column in np.ndindex(*output.shape):
            pairs: list[tuple[float, float]] = []
            for row, step, channel in np.ndindex(*window[:3]):
                at_y, at_x = y - shape.pad_top + row, x - shape.pad_left + step
                is_inside = 0 <= at_y < shape.height and 0 <= at_x < shape.width
                value = values[inputs[at_y, at_x, channel]] if is_inside else 0.0
                pairs.append((value, values[weights[row, step, channel, column]]))
            output[y, x, column] = post_processed(
                name, exact_sum(pairs), int(bias[column]), int(multiplier[column]), int(shift[column]), clip, rounding
            )
        expected.append(output)
    assert len(np.unique(np.concatenate([output.reshape(-1) for output in expected]))) > 20
    for shape, output, result in zip(shapes, expected, assert_same(array, jobs), strict=True):
        found = take_output(result.memory, shape, layout_of(array, shape)).view(np.uint8)
        wrong = np.argwhere(found != output)
        assert not len(wrong), f"{shape}: {wrong[:5]} {found[tuple(wrong[0])]} instead of {output[tuple(wrong[0])]}"


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 4, 4)], ids=str)
def test_random_programs_agree(name: str, sizes: Sizes) -> None:
    """NaN and infinity, maxima, stores of 32 bits, vectors in odd places."""
    array = fp8_array(name, sizes, "half_away" if sizes[0] == 16 else "half_to_even")
    rng = Random(f"programs {name} {sizes}")
    assert_same(array, [RandomProgram(array, rng).job() for _ in range(8)])


def narrowed(name: str, numbers: npt.NDArray[np.float64]) -> Codes:
    """The codes to which ml_dtypes rounds numbers."""
    return numbers.astype(DTYPES[name]).view(np.uint8)


@pytest.mark.parametrize("name", DTYPES)
def test_elements_and_products_are_those_of_ml_dtypes(name: str) -> None:
    """All 65,536 products, rounded to 32 and 8 bits: by the vector unit, whose second operand is each code in turn."""
    array = fp8_array(name, (8, 8, 8))
    cols, per_job = array.cols, 16
    jobs: list[Job] = []
    for first in range(0, 256, per_job):
        memory = np.zeros(256 + 128 + per_job * 256 * 5, dtype=np.uint8)
        memory[:256] = np.arange(256)
        memory[256 + 4 * cols : 256 + 8 * cols] = np.ones(cols, dtype="<i4").view(np.uint8)
        builder = ProgramBuilder(array)
        builder.load({"memory_address": 256, "rows": 1, "row_beats": array.slot_beats, "space": 1}, gives=False)
        builder.load({"memory_address": 0, "rows": 1, "row_beats": 256 // 8}, gives=False)
        builder.fence()
        builder.configure("CFG_TILE", {"address": 0, "row_bytes": 256, "rows": 1, "width_bytes": 256})
        builder.configure("CFG_WALK", {"x_step_bytes": cols})
        low, high = array.format.low, array.format.high
        past = int(array.format.has_infinity)
        builder.configure("CFG_ST", {"x_bytes": cols, "low": low + past, "high": high + past})
        for idx in range(per_job):
            builder.configure("CFG_ALU", {"scalar": first + idx})
            _, computed = builder.vector(
                {"x_count": 256 // cols, "y_count": 1, "columns": cols, "destination": idx % 4 * 32}, after=0, ends=True
            )
            address = 384 + idx * 1280
            store = {"source": idx % 4 * 32, "x_count": 256 // cols, "y_count": 1, "columns": cols}
            builder.configure("CFG_ST", {"x_bytes": cols, "low": low + past, "high": high + past})
            builder.store({**store, "address": address}, after=computed)
            builder.configure("CFG_ST", {"x_bytes": 4 * cols, "low": low + past, "high": high + past})
            builder.store({**store, "address": address + 256, "format": 2}, after=computed)
            builder.fence()
        jobs.append(Job(program=builder.finish(), memory=memory))
        assert not check_program(jobs[-1].program, array, len(memory))
    values: npt.NDArray[np.float64] = np.array(values_of(name), dtype=np.float64)
    for job_idx, result in enumerate(run_programs(array, jobs)):
        for idx in range(per_job):
            at = 384 + idx * 1280
            with np.errstate(invalid="ignore"):
                products = values * float(values[job_idx * per_job + idx]) + 0.0  # zeros are positive
            wide = result.memory[at + 256 : at + 1280].view("<f4")
            assert (
                wide.view("<u4") == np.where(np.isnan(products), 0x7FC00000, products.astype("<f4").view("<u4"))
            ).all()
            stored = result.memory[at : at + 256]
            largest = float(values[array.format.high])
            limited = np.where(np.isinf(products), products, np.clip(products, -largest, largest))
            narrow = narrowed(name, limited)
            nan = 0x7E if name == "e5m2" else 0x7F
            assert (stored == np.where(np.isnan(products), nan, narrow)).all()
