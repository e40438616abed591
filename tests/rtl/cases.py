"""Random kernels for the tensor PE array, with references that are written independently of its simulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
import numpy.typing as npt

from tileloom.archdsl import Instruction, PeArray, SpatialArch, load_arch, pe_array
from tileloom.compiler import (
    ConvKernel,
    ConvLayout,
    ConvShape,
    ProgramBuilder,
    gemm_shape,
    layout_of,
    place_input,
    place_parameters,
    place_weights,
    take_output,
)
from tileloom.models import FunctionalSimulator, replay
from tileloom.rtl import Job, RtlResult, run_programs

Bytes = npt.NDArray[np.uint8]
Int8 = npt.NDArray[np.int8]


def array_of(rows: int, cols: int, bus_bytes: int, overrides: Mapping[str, object] | None = None) -> PeArray:
    """A PE array of some size, with a scratchpad of 64 KiB."""
    sizes = {"rows": rows, "cols": cols, "bus_bytes": bus_bytes, "scratchpad": "64 KiB"}
    arch = load_arch(
        "tpe_16x16", {**{f"parameters.{name}": value for name, value in sizes.items()}, **(overrides or {})}
    )
    assert isinstance(arch, SpatialArch)
    return pe_array(arch)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One kernel with its data.

    Attributes:
        shape: What it computes.
        layout: Where its data stand.
        program: The program.
        memory: Main memory before it.
        expected: The output that NumPy and exact fractions give.
        latency_cycles, cycles_per_beat: Main memory's.
    """

    shape: ConvShape
    layout: ConvLayout
    program: tuple[Instruction, ...]
    memory: Bytes
    expected: Int8
    latency_cycles: int
    cycles_per_beat: int

    def job(self, *, jitter_seed: int = 0) -> Job:
        """The case for the RTL."""
        return Job(
            program=self.program,
            memory=self.memory,
            latency_cycles=self.latency_cycles,
            cycles_per_beat=self.cycles_per_beat,
            jitter_seed=jitter_seed,
        )


def random_shape(rng: Random) -> ConvShape:
    """A matrix product or a convolution: primes, single rows and columns, ragged edges, strides, padding, dilation."""
    if rng.random() < 0.5:
        return gemm_shape(
            rng.choice((1, 2, 7, 13, 37, 64)), rng.choice((1, 3, 8, 17, 40, 64)), rng.choice((1, 5, 8, 16, 33))
        )
    while True:
        kernel_height, kernel_width = rng.choice(((1, 1), (3, 3), (3, 1), (1, 5), (2, 2)))
        stride, dilation = rng.choice((1, 1, 2, 3)), rng.choice((1, 1, 2))
        height, width, pad_top, pad_left = rng.randint(1, 14), rng.randint(1, 14), rng.randint(0, 2), rng.randint(0, 2)
        output_height = (height + 2 * pad_top - (kernel_height - 1) * dilation - 1) // stride + 1
        output_width = (width + 2 * pad_left - (kernel_width - 1) * dilation - 1) // stride + 1
        if output_height >= 1 and output_width >= 1:
            break
    return ConvShape(
        height=height,
        width=width,
        channels=rng.choice((1, 3, 4, 8, 19)),
        outputs=rng.choice((1, 4, 9, 20)),
        kernel_height=kernel_height,
        kernel_width=kernel_width,
        stride=stride,
        dilation=dilation,
        pad_top=pad_top,
        pad_left=pad_left,
        output_height=output_height,
        output_width=output_width,
    )


def random_case(rng: Random, array: PeArray, shape: ConvShape | None = None) -> Case:
    """A kernel with random data on a memory with random timing."""
    shape = random_shape(rng) if shape is None else shape
    numbers = np.random.default_rng(rng.randrange(2**32))
    layout = layout_of(array, shape)
    padding, zero_point = rng.choice((0, 0, -7)), rng.choice((0, 3))
    low = rng.choice((-128, zero_point))
    builder = ProgramBuilder(array)
    ConvKernel(builder, shape, layout, padding=padding, zero_point=zero_point, low=low).emit()
    inputs = numbers.integers(-128, 128, (shape.height, shape.width, shape.channels)).astype(np.int8)
    window = (shape.kernel_height, shape.kernel_width, shape.channels, shape.outputs)
    weights = numbers.integers(-128, 128, window).astype(np.int8)
    bias = numbers.integers(-5000, 5000, shape.outputs)
    multiplier = numbers.integers(1 << 29, 1 << 31, shape.outputs)
    shift = numbers.integers(36, 43, shape.outputs)
    memory = np.zeros(-(-layout.end // array.bus_bytes) * array.bus_bytes, dtype=np.uint8)
    place_input(memory, shape, layout, inputs)
    place_weights(memory, array, shape, layout, weights)
    place_parameters(memory, array, shape, layout, bias, multiplier, shift)
    sums = convolved(shape, inputs, weights, padding)
    scaled = [
        [[exactly(int(s) + int(b), int(m), int(k), array.rounding) for s, b, m, k in zip(pixel, bias, multiplier, shift, strict=True)]
         for pixel in row]
        for row in sums
    ]  # fmt: skip
    expected = np.clip(np.array(scaled, dtype=object) + zero_point, low, 127).astype(np.int8)
    return Case(
        shape=shape,
        layout=layout,
        program=builder.finish(),
        memory=memory,
        expected=expected,
        latency_cycles=rng.choice((1, 5, 20, 200)),
        cycles_per_beat=rng.choice((1, 2, 8)),
    )


def convolved(shape: ConvShape, inputs: Int8, weights: Int8, padding: int) -> npt.NDArray[np.int64]:
    """The sums of a convolution, [output_height, output_width, outputs]."""
    sums = np.zeros((shape.output_height, shape.output_width, shape.outputs), dtype=np.int64)
    for y in range(shape.output_height):
        for x in range(shape.output_width):
            for row in range(shape.kernel_height):
                for column in range(shape.kernel_width):
                    at_y = y * shape.stride - shape.pad_top + row * shape.dilation
                    at_x = x * shape.stride - shape.pad_left + column * shape.dilation
                    if 0 <= at_y < shape.height and 0 <= at_x < shape.width:
                        pixel = inputs[at_y, at_x].astype(np.int64)
                    else:
                        pixel = np.full(shape.channels, padding, dtype=np.int64)
                    sums[y, x] += pixel @ weights[row, column].astype(np.int64)
    return sums


def exactly(value: int, multiplier: int, shift: int, rounding: str) -> int:
    """value * multiplier / 2^shift, rounded as Python rounds exact fractions."""
    exact = Fraction(value * multiplier, 2**shift)
    if rounding == "half_to_even":
        return round(exact)
    magnitude = int(abs(exact) + Fraction(1, 2))
    return magnitude if exact >= 0 else -magnitude


def assert_agree(array: PeArray, cases: Sequence[Case]) -> list[RtlResult]:
    """RTL, functional simulator, event replay and reference agree on every byte and every cycle."""
    results = run_programs(array, [case.job() for case in cases])
    for case, result in zip(cases, results, strict=True):
        memory = FunctionalSimulator(array).run(case.program, case.memory)
        output = take_output(memory, case.shape, case.layout)
        assert (output == case.expected).all(), f"functional simulator against the reference: {case.shape}"
        assert (result.memory == memory).all(), f"RTL against the functional simulator: {case.shape}"
        found = replay(array, case.program, latency_cycles=case.latency_cycles, cycles_per_beat=case.cycles_per_beat)
        assert found.cycles == result.cycles, f"replay {found.cycles}, RTL {result.cycles} cycles: {case.shape}"
        assert (found.issue_cycles == result.issue_cycles).all(), f"issue cycles: {case.shape}"
        assert (found.end_cycles == result.end_cycles).all(), f"end cycles: {case.shape}"
    return results
