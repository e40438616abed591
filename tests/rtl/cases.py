"""Random kernels for the tensor PE array, with references that are written independently of its simulators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random
from typing import Literal

import numpy as np
import numpy.typing as npt

from tileloom.archdsl import Instruction, PeArray, SpatialArch, load_arch, pe_array
from tileloom.compiler import (
    ConvKernel,
    ConvLayout,
    ConvShape,
    ProgramBuilder,
    VectorKernel,
    addition_taps,
    gemm_shape,
    layout_of,
    place_channel_weights,
    place_input,
    place_parameters,
    place_weights,
    take_output,
    vector_layout,
    window_taps,
)
from tileloom.models import FunctionalSimulator, replay
from tileloom.rtl import Job, RtlResult, run_programs

Bytes = npt.NDArray[np.uint8]
Int8 = npt.NDArray[np.int8]


PLAIN: dict[str, object] = {}
TIGHT: dict[str, object] = {
    "hierarchy.scratchpad.banks": 1,
    "hierarchy.scratchpad.ports": {"read": 0, "write": 0, "read_write": 1},
    "hierarchy.accumulator.banks": 1,
    "hierarchy.mac.vector_lanes": 2,
    "control.queue_depth": 3,
    "control.loads_in_flight": 2,
    "control.requests_in_flight": 3,
    "control.rounding": "half_away",
}
"""One bank with one port, few lanes, short queues: everything waits for everything."""
ONE_PORT: dict[str, object] = {
    "hierarchy.scratchpad.banks": 2,
    "hierarchy.scratchpad.ports": {"read": 0, "write": 0, "read_write": 1},
    "hierarchy.mac.datatypes.int8.accumulator_bits": 24,
}
"""Two banks with one port: a load may hold up inputs, and let weights pass. Sums are narrower than biases."""


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


SMALL_MEMORIES: tuple[Mapping[str, object], ...] = (
    {"parameters.scratchpad": "4 KiB"},
    {"parameters.scratchpad": "4 KiB", "parameters.accumulator_vectors": 32, "control.parameter_slots": 3},
    {"parameters.scratchpad": "8 KiB", "parameters.accumulator_vectors": 64, "control.parameter_slots": 8},
    {"parameters.scratchpad": "8 KiB", "hierarchy.scratchpad.banks": 2, "hierarchy.mac.vector_lanes": 2},
    {"parameters.scratchpad": "8 KiB", "hierarchy.scratchpad.banks": 8, "control.queue_depth": 4},
)
"""Memories in which kernels need chunks of the channels, tiles of columns, and weights that stream."""


def large_shape(rng: Random, most_macs: int) -> ConvShape:
    """A shape with many channels, wide rows or many rows, for small memories; with at most so many MACs."""
    while True:
        size, stride, dilation, pad = (
            rng.choice((1, 1, 2, 3)),
            rng.choice((1, 1, 2)),
            rng.choice((1, 1, 2)),
            rng.randint(0, 2),
        )
        shape = gemm_shape(
            rng.choice((1, 5, 40, 130, 300)), rng.choice((64, 257, 509, 1024)), rng.choice((4, 16, 33, 70))
        )
        if rng.random() < 0.6:
            height, width = rng.randint(1, 9), rng.choice((1, 9, 40, 200))
            reach = (size - 1) * dilation + 1
            shape = ConvShape(
                height=height, width=width, channels=rng.choice((3, 16, 40, 64, 104, 256)), outputs=rng.choice((4, 20, 70)),
                kernel_height=size, kernel_width=size, stride=stride, dilation=dilation, pad_top=pad, pad_left=pad,
                output_height=(height + 2 * pad - reach) // stride + 1, output_width=(width + 2 * pad - reach) // stride + 1,
            )  # fmt: skip
        if min(shape.output_height, shape.output_width) >= 1 and shape.macs <= most_macs:
            return shape


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


def random_vector_case(rng: Random, array: PeArray) -> Case:
    """A depthwise convolution, a pooling or a residual addition with random data."""
    kind = rng.choice(("depthwise", "maximum", "average", "addition"))
    shape = _random_window(rng, is_pixelwise=kind == "addition")
    numbers = np.random.default_rng(rng.randrange(2**32))
    if kind == "addition":
        taps = addition_taps(rng.randint(-2000, 20000), rng.randint(1, 9000))
    else:
        taps = window_taps(shape, has_weights=kind == "depthwise")
    padding = {"depthwise": rng.choice((0, 5)), "maximum": -128}.get(kind, 0)
    layout = vector_layout(array, shape, taps)
    builder = ProgramBuilder(array)
    operation: Literal["add", "maximum"] = "maximum" if kind == "maximum" else "add"
    VectorKernel(builder, shape, layout, taps, operation, padding=padding).emit()
    memory = np.zeros(-(-layout.end // array.bus_bytes) * array.bus_bytes, dtype=np.uint8)
    size = (shape.height, shape.width, shape.channels)
    inputs = [numbers.integers(-128, 128, size).astype(np.int8) for _ in range(1 + max(tap.source for tap in taps))]
    for source, values in enumerate(inputs):
        place_input(memory, shape, layout, values, source)
    weights = numbers.integers(-128, 128, (len(taps), shape.channels)).astype(np.int8)
    if kind == "depthwise":
        place_channel_weights(memory, array, shape, layout, weights)
    is_exact = kind == "maximum"
    bias = np.zeros(shape.outputs, np.int64) if is_exact else numbers.integers(-5000, 5000, shape.outputs)
    multiplier = np.ones(shape.outputs, np.int64) if is_exact else numbers.integers(1 << 29, 1 << 31, shape.outputs)
    shift = np.zeros(shape.outputs, np.int64) if is_exact else numbers.integers(36, 43, shape.outputs)
    place_parameters(memory, array, shape, layout, bias, multiplier, shift)
    expected = np.zeros((shape.output_height, shape.output_width, shape.outputs), dtype=np.int8)
    for y, x, channel in np.ndindex(*expected.shape):
        products: list[int] = []
        for idx, tap in enumerate(taps):
            at_y = y * shape.stride - shape.pad_top + tap.y
            at_x = x * shape.stride - shape.pad_left + tap.x
            is_inside = 0 <= at_y < shape.height and 0 <= at_x < shape.width
            value = int(inputs[tap.source][at_y, at_x, channel]) if is_inside else padding
            products.append(value * (int(weights[idx, channel]) if tap.scalar is None else tap.scalar))
        total = max(products) if kind == "maximum" else sum(products)
        scaled = exactly(total + int(bias[channel]), int(multiplier[channel]), int(shift[channel]), array.rounding)
        expected[y, x, channel] = min(127, max(-128, scaled))
    return Case(
        shape=shape,
        layout=layout,
        program=builder.finish(),
        memory=memory,
        expected=expected,
        latency_cycles=rng.choice((1, 20, 100)),
        cycles_per_beat=rng.choice((1, 4)),
    )


def _random_window(rng: Random, *, is_pixelwise: bool) -> ConvShape:
    while True:
        size, stride = (1, 1) if is_pixelwise else (rng.choice((1, 2, 3)), rng.choice((1, 2)))
        height, width, pad = rng.randint(1, 15), rng.randint(1, 15), 0 if is_pixelwise else rng.randint(0, size // 2)
        output_height, output_width = (height + 2 * pad - size) // stride + 1, (width + 2 * pad - size) // stride + 1
        if output_height >= 1 and output_width >= 1:
            break
    channels = rng.choice((1, 4, 8, 19, 33))
    return ConvShape(
        height=height,
        width=width,
        channels=channels,
        outputs=channels,
        kernel_height=size,
        kernel_width=size,
        stride=stride,
        pad_top=pad,
        pad_left=pad,
        output_height=output_height,
        output_width=output_width,
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
    results = assert_same(array, [case.job() for case in cases])
    for case, result in zip(cases, results, strict=True):
        output = take_output(result.memory, case.shape, case.layout)
        assert (output == case.expected).all(), f"RTL against the reference: {case.shape}"
    return results


def assert_same(array: PeArray, jobs: Sequence[Job]) -> list[RtlResult]:
    """RTL and functional simulator agree on main memory, RTL and event replay on every cycle."""
    results = run_programs(array, jobs)
    for idx, (job, result) in enumerate(zip(jobs, results, strict=True)):
        memory = FunctionalSimulator(array).run(job.program, job.memory)
        assert (result.memory == memory).all(), f"job {idx}: RTL against the functional simulator"
        found = replay(array, job.program, latency_cycles=job.latency_cycles, cycles_per_beat=job.cycles_per_beat)
        assert found.cycles == result.cycles, f"job {idx}: replay {found.cycles}, RTL {result.cycles} cycles"
        is_wrong = (found.issue_cycles != result.issue_cycles) | (found.end_cycles != result.end_cycles)
        wrong = np.flatnonzero(is_wrong).tolist()
        assert not wrong, f"job {idx}: cycles of instructions {wrong}"
    return results
