"""Kernels on memories that are too small for them: any size computes what NumPy says, in the cycles that are predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from tileloom.archdsl import CompileError, Instruction, PeArray, SpatialArch, check_program, load_arch, pe_array
from tileloom.compiler import ConvKernel, ConvShape, ProgramBuilder, gemm_shape, kernel_timing, layout_of, take_output
from tileloom.compiler.pe_array.schedule import plan_kernel
from tileloom.compiler.pe_array.tiling import ConvTiling
from tileloom.models import FunctionalSimulator, replay, time_kernel

from ..rtl.cases import SMALL_MEMORIES, Case, array_of, large_shape, random_case

SIZES = ((4, 4, 4), (8, 8, 8), (16, 16, 16), (4, 16, 4), (16, 4, 4), (8, 8, 4))
MOST_MACS = 600_000


def preset(name: str) -> PeArray:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    return pe_array(arch)


def assert_right(array: PeArray, case: Case) -> None:
    """The program is valid, computes what NumPy says, and takes the cycles of the closed form."""
    assert check_program(case.program, array, len(case.memory)) == ()
    output = take_output(FunctionalSimulator(array).run(case.program, case.memory), case.shape, case.layout)
    assert (output == case.expected).all()
    kernel = kernel_timing(array, case.shape, case.layout)
    latency, beat = case.latency_cycles, case.cycles_per_beat
    tree = time_kernel(kernel, array, latency_cycles=latency, cycles_per_beat=beat)
    assert tree.amount == replay(array, case.program, latency_cycles=latency, cycles_per_beat=beat).cycles
    assert all(part.amount >= 0 for part in tree.walk())


def tiling_of(array: PeArray, shape: ConvShape) -> ConvTiling:
    return plan_kernel(array, shape, layout_of(array, shape)).tiling


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("memories", SMALL_MEMORIES, ids=range(len(SMALL_MEMORIES)))
def test_random_kernels_on_small_memories(sizes: tuple[int, int, int], memories: Mapping[str, object]) -> None:
    array, rng = array_of(*sizes, memories), Random(f"{sizes} {memories}")
    for _ in range(2):
        # Tilings are chosen for the array's own memory, and are right on any.
        chosen = replace(array, latency_cycles=rng.choice((1, 20, 100)), cycles_per_beat=rng.choice((1, 4)))
        assert_right(chosen, random_case(rng, chosen, large_shape(rng, MOST_MACS)))


def test_shapes_force_every_kind_of_tiling() -> None:
    rng = Random(1)
    found: list[ConvTiling] = []
    widths: list[int] = []
    for _ in range(150):
        array, shape = array_of(*rng.choice(SIZES), rng.choice(SMALL_MEMORIES)), large_shape(rng, MOST_MACS)
        plan = plan_kernel(array, shape, layout_of(array, shape))
        found.append(plan.tiling)
        widths.append(plan.problem.shape.output_width)
    assert sum(tiling.num_x < width for tiling, width in zip(found, widths, strict=True)) > 10
    for name, least in (("num_chunks", 1), ("group", 1), ("panel", 0), ("unit_taps", 1)):
        assert sum(getattr(tiling, name) > least for tiling in found) > 10, name


@pytest.mark.parametrize(("m", "k"), [(24, 40_000), (3, 40_009)])
def test_sums_of_many_terms(m: int, k: int) -> None:
    array = preset("tpe_16x16")
    case = random_case(Random(k), array, gemm_shape(m, k, 17))
    assert plan_kernel(array, case.shape, case.layout).tiling.num_chunks > 1
    assert_right(array, case)


def test_rows_of_any_width() -> None:
    shape = ConvShape(
        height=2, width=3000, channels=7, outputs=9, kernel_height=3, kernel_width=3, pad_top=1, pad_left=1, output_height=2,
        output_width=3000,
    )  # fmt: skip
    array = array_of(8, 8, 8, {"parameters.scratchpad": "4 KiB"})
    assert_right(array, random_case(Random(3000), array, shape))


@pytest.mark.parametrize("pad_left", [0, 2])
def test_padding_comes_from_the_edges_of_the_image_alone(pad_left: int) -> None:
    array = array_of(8, 8, 8, {"parameters.scratchpad": "4 KiB", "parameters.accumulator_vectors": 32})
    shape = ConvShape(
        height=4, width=60, channels=24, outputs=5, kernel_height=3, kernel_width=5, pad_top=1, pad_left=pad_left,
        output_height=4, output_width=60,
    )  # fmt: skip
    assert tiling_of(array, shape).num_x < 60
    assert_right(array, random_case(Random(pad_left), array, shape))


def test_one_pixel_at_a_time_where_nothing_else_fits() -> None:
    array = array_of(4, 4, 4, {"parameters.scratchpad": "1 KiB"})
    shape = ConvShape(
        height=9, width=9, channels=64, outputs=5, kernel_height=9, kernel_width=9, output_height=1, output_width=1
    )
    assert tiling_of(array, shape).num_chunks > 1
    assert_right(array, random_case(Random(9), array, shape))


def test_a_pixelwise_convolution_is_a_matrix_product() -> None:
    array = preset("tpe_8x8")
    shape = ConvShape(height=7, width=7, channels=2048, outputs=64, output_height=7, output_width=7)
    assert tiling_of(array, shape) == tiling_of(array, gemm_shape(49, 2048, 64))


LARGE = (
    ("tpe_8x8", gemm_shape(4096, 512, 64), 0.99),
    ("tpe_16x16", gemm_shape(4096, 512, 64), 0.98),
    ("tpe_8x8", gemm_shape(256, 256, 256), 0.98),
    ("tpe_16x16", gemm_shape(256, 256, 256), 0.94),
    ("tpe_16x16", gemm_shape(1024, 1024, 1024), 0.99),
    ("tpe_8x8", gemm_shape(1, 1024, 1000), 0.88),
    (
        "tpe_8x8",
        ConvShape(
            height=28, width=28, channels=256, outputs=256, kernel_height=3, kernel_width=3, stride=2, pad_top=1, pad_left=1,
            output_height=14, output_width=14,
        ),
        0.98,
    ),
    ("tpe_8x8", ConvShape(height=7, width=7, channels=2048, outputs=512, output_height=7, output_width=7), 0.98),
)  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "least"), LARGE, ids=str)
def test_large_kernels_come_close_to_the_roofline(name: str, shape: ConvShape, least: float) -> None:
    array = preset(name)
    inputs, outputs = (
        shape.height * shape.width * shape.channels,
        shape.output_height * shape.output_width * shape.outputs,
    )
    weights = shape.kernel_height * shape.kernel_width * shape.channels * shape.outputs
    bus_cycles = (inputs + weights + outputs) / array.bus_bytes * array.cycles_per_beat
    bound = max(shape.macs / (array.rows * array.cols), bus_cycles)
    assert bound / time_kernel(kernel_timing(array, shape, layout_of(array, shape)), array).amount >= least


def test_the_program_counter_reaches_the_end_where_a_longer_tiling_would_not_let_it() -> None:
    array = preset("tpe_8x8")
    tiling = tiling_of(array, gemm_shape(1024, 1024, 1024))
    assert 1024 // tiling.num_y * 128 * 128 * 2 < 1 << 20


def test_what_cannot_be_is_said_with_cause_and_remedy() -> None:
    def emit(array: PeArray, shape: ConvShape) -> None:
        ConvKernel(ProgramBuilder(array), shape, layout_of(array, shape))

    array = preset("tpe_8x8")
    assert array.exact_terms == 131_071
    assert replace(array, accumulator_bits=24).exact_terms == 511
    with pytest.raises(
        CompileError, match=r"a sum of 131072 products, and accumulators of 32 bits hold 131071 of them exactly"
    ):
        emit(array, gemm_shape(1, 131_072, 1))
    small = array_of(16, 16, 16, {"parameters.scratchpad": "4 KiB"})
    wide = ConvShape(
        height=9, width=9, channels=1000, outputs=4, kernel_height=3, kernel_width=3, output_height=7, output_width=7
    )
    with pytest.raises(CompileError, match=r"needs 9072 B of the input .* pad the 1000 channels to a multiple of 16"):
        emit(small, wide)
    with pytest.raises(CompileError, match=r"and 768 B of weights \(3 tiles\) at once.*use a larger scratchpad$"):
        emit(replace(small, scratchpad_bytes=512), gemm_shape(1, 160, 16))
    with pytest.raises(CompileError, match="has 2 parameter slots; kernels need 3 or more"):
        emit(replace(array, parameter_slots=2), gemm_shape(1, 8, 8))


def test_equal_shapes_give_equal_programs() -> None:
    array, shape = preset("tpe_8x8"), gemm_shape(70, 900, 40)

    def program() -> tuple[Instruction, ...]:
        builder = ProgramBuilder(array)
        ConvKernel(builder, shape, layout_of(array, shape)).emit()
        return builder.finish()

    assert program() == program()
