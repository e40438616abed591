"""Convolutions and matrix products as program images: they compute what real numbers say, and the shipped one is current."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tileloom.archdsl import CompileError, ProgramImage, SpatialArch, load_arch, load_image, place_array, take_array
from tileloom.compiler import ConvShape, Quantisation, channel_scaling, conv_image, gemm_image
from tileloom.models import FunctionalSimulator

FLOATS: dict[str, np.dtype[Any]] = {
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2),
}
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "programs" / "conv_8x8"
SHAPE = ConvShape(
    height=10, width=10, channels=4, outputs=12, kernel_height=3, kernel_width=3, pad_top=1, pad_left=1, output_height=10,
    output_width=10,
)  # fmt: skip
SCALES = Quantisation(
    input_scale=0.02,
    input_zero_point=-3,
    weight_scales=(0.005,),
    output_scale=0.04,
    output_zero_point=-20,
    low=-100,
    high=127,
)


def spatial() -> SpatialArch:
    arch = load_arch("tpe_8x8")
    assert isinstance(arch, SpatialArch)
    return arch


def example() -> ProgramImage:
    """What `docs/examples/programs/conv_8x8` holds; rewrite it with `pytest --update-golden`."""
    weights = np.random.default_rng(8).integers(-127, 128, (3, 3, 4, 12)).astype(np.int8)
    return conv_image(spatial(), SHAPE, weights, SCALES, name="conv1")


def float_arch(name: str) -> SpatialArch:
    bits = {"e4m3": 53, "e5m2": 77}[name]
    changes = {
        "control.fp8_format": name,
        "hierarchy.mac.datatypes.fp8.accumulator_bits": bits,
        "hierarchy.accumulator.capacity": f"{512 * 8 * (bits + 3) // 8} B",
    }
    arch = load_arch(EXAMPLE.parents[1] / "archs" / "tpe_8x8_fp8.yaml", changes)
    assert isinstance(arch, SpatialArch)
    return arch


def float_image(name: str) -> tuple[ProgramImage, npt.NDArray[Any]]:
    """A matrix product [5, 40] x [40, 20] / 4 with bias, and its weights."""
    weights = np.random.default_rng(1).normal(size=(40, 20)).astype(FLOATS[name])
    bias = np.linspace(-3, 3, 20).round(4)
    return gemm_image(float_arch(name), 5, weights, Quantisation(output_scale=4.0), bias=bias), weights


def run(image: ProgramImage, values: npt.NDArray[Any]) -> npt.NDArray[np.integer]:
    memory = image.memory()
    place_array(memory, image.symbol("input"), values)
    return take_array(FunctionalSimulator(image.array).run(image.program, memory), image.symbol("output"))


def quantised(real: npt.NDArray[np.float64], scales: Quantisation) -> npt.NDArray[np.float64]:
    return np.clip(np.rint(real / scales.output_scale) + scales.output_zero_point, scales.low, scales.high)


def test_convolution_gives_what_real_numbers_say() -> None:
    weights = np.random.default_rng(8).integers(-127, 128, (3, 3, 4, 12)).astype(np.int8)
    bias = np.arange(12) * 300
    values = np.random.default_rng(1).integers(-128, 128, (10, 10, 4))
    real = np.pad((values + 3) * 0.02, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(real, (3, 3), axis=(0, 1))
    sums = np.einsum("yxcij,ijck->yxk", windows, weights * 0.005) + bias * 0.02 * 0.005
    image = conv_image(spatial(), SHAPE, weights, SCALES, bias=bias)
    assert np.abs(run(image, values) - quantised(sums, SCALES)).max() <= 1  # ties of real numbers
    assert image.manifest.ops[0].macs == 43200
    assert [s.name for s in image.symbols("output")] == ["output"]


def test_matrix_product_has_a_scale_per_channel() -> None:
    weights = np.random.default_rng(2).integers(-127, 128, (17, 9)).astype(np.int8)
    scales = Quantisation(input_scale=0.1, weight_scales=tuple(0.01 * (k + 1) for k in range(9)), output_scale=7.0)
    values = np.random.default_rng(3).integers(-128, 128, (5, 17))
    real = (values * 0.1) @ (weights * np.array(scales.weight_scales))
    image = gemm_image(spatial(), 5, weights, scales)
    assert image.symbol("output").shape == (5, 9)
    assert np.abs(run(image, values) - quantised(real, scales)).max() <= 1


@pytest.mark.parametrize("ratio", [1.0, 0.5, 0.999999999999, 3e-7, 1e-12, 1e-18, 5e-324, 1.5e9])
def test_multiplier_and_shift_stand_for_the_ratio(ratio: float) -> None:
    multiplier, shift = channel_scaling(Quantisation(input_scale=ratio), 1)
    assert 0 <= multiplier[0] < 1 << 31 and 0 <= shift[0] <= 63
    assert float(multiplier[0]) / 2.0 ** int(shift[0]) == pytest.approx(ratio, rel=1e-8, abs=2.0**-63)


def test_faults_name_value_and_remedy() -> None:
    weights = np.zeros((4, 4), dtype=np.int8)
    with pytest.raises(CompileError, match="there are 3 weight scales; there must be 1 or one per output channel"):
        gemm_image(spatial(), 2, weights, Quantisation(weight_scales=(1.0, 1.0, 1.0)))
    with pytest.raises(CompileError, match=r"it must be positive and finite"):
        gemm_image(spatial(), 2, weights, Quantisation(output_scale=-1.0))
    with pytest.raises(CompileError, match=r"it must be below 2147483648"):
        gemm_image(spatial(), 2, weights, Quantisation(input_scale=1e30))
    with pytest.raises(CompileError, match=r"they must be int8 of shape \[3, 3, 4, 12\]"):
        conv_image(spatial(), SHAPE, weights)
    with pytest.raises(CompileError, match=r"the bias has the shape \[3\]; it must be \[4\]"):
        gemm_image(spatial(), 2, weights, bias=np.zeros(3, dtype=np.int64))
    with pytest.raises(CompileError, match="does not fit 32 bits"):
        gemm_image(spatial(), 2, weights, bias=np.full(4, 1 << 31))


@pytest.mark.parametrize("name", FLOATS)
def test_floating_point_product_is_rounded_once(name: str) -> None:
    """What NumPy computes with 53 bits, where that is exact, and ml_dtypes rounds."""
    image, weights = float_image(name)
    values = np.random.default_rng(2).normal(size=(5, 40)).astype(FLOATS[name])
    scales = np.full(20, 4.0)
    real = (values.astype(np.float64) @ weights.astype(np.float64) + np.linspace(-3, 3, 20).round(4)) / scales
    found = run(image, values)
    assert found.dtype == np.uint8
    assert (found == real.astype(FLOATS[name]).view(np.uint8)).mean() > 0.99  # the bias is rounded to 2^-16
    assert (run(image, values.view(np.uint8)) == found).all()
    assert (run(image, values.view("V1")) == found).all()


def test_what_floating_point_products_refuse() -> None:
    image, weights = float_image("e4m3")
    arch = float_arch("e4m3")
    with pytest.raises(
        CompileError, match="input: the array is of float32; it must be of ml_dtypes' e4m3, or hold codes"
    ):
        run(image, np.zeros((5, 40), dtype=np.float32))
    with pytest.raises(CompileError, match="weights are int8 .* they must be float8_e4m3fn"):
        gemm_image(arch, 5, np.zeros((40, 20), dtype=np.int8))
    with pytest.raises(CompileError, match=r"zero points are \(0, 3\); elements of e4m3 have none"):
        gemm_image(arch, 5, weights, Quantisation(output_zero_point=3))
    with pytest.raises(CompileError, match="the bias goes up to 40000.0; it must be below 32768"):
        gemm_image(arch, 5, weights, bias=np.full(20, 4e4))


def test_shipped_example_is_current(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    from tileloom.archdsl import save_image

    if pytestconfig.getoption("--update-golden"):
        save_image(example(), EXAMPLE)
    save_image(example(), tmp_path)
    assert load_image(EXAMPLE) == example()
    for path in sorted(tmp_path.iterdir()):
        assert path.read_bytes() == (EXAMPLE / path.name).read_bytes(), path.name
