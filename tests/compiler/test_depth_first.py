"""Ops cut together into bands of rows: what that saves, where it is not done, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from random import Random

import numpy as np
import pytest
from onnx import ModelProto

from tileloom.archdsl import InfeasibleError, ProgramImage, SpatialArch
from tileloom.compiler.compilation import CompileOptions
from tileloom.compiler.generators.builder import GraphBuilder
from tileloom.compiler.generators.layers import conv
from tileloom.compiler.generators.quantisation import Scale
from tileloom.compiler.ir.text import nodes_of
from tileloom.compiler.tiling import chains
from tileloom.models import replay

from .arrays import arch_named, arch_of, random_arch, random_options
from .compiled import compiled_for, drawn_inputs, lowered, only_image, predicted_cycles, run_functional
from .depth_first import bottleneck, random_layers, residual
from .test_random_graphs import check_model

TOGETHER, APART = CompileOptions(is_depth_first=True), CompileOptions(is_depth_first=False)
NARROW = {"parameters.bus_bytes": 4, "parameters.scratchpad": "32 KiB"}
CUT: Mapping[str, Callable[[], ModelProto]] = {
    "residual": partial(residual, size=24, channels=16, wide=96),
    "bottleneck": partial(bottleneck, size=28, narrow=16, wide=64),
}
"""Networks of which ops are cut together there."""
NUM_FAST, NUM_SLOW = 8, 40


def moved_bytes(image: ProgramImage) -> int:
    """Bytes that a program moves from and to main memory, in whole beats."""
    bus, total = image.array.bus_bytes, 0
    for step in image.program:
        if step.name == "LD":
            total += step.operands["rows"] * step.operands["row_beats"] * bus
        elif step.name == "ST" and not step.operands["space"]:
            vectors = step.operands["x_count"] * step.operands["y_count"]
            total += vectors * -(-step.operands["columns"] // bus) * bus
    return total


def kinds_of(image: ProgramImage) -> list[str]:
    """What the kernels of a program compute."""
    return [op.kind for op in image.manifest.ops]


def both(model: ModelProto, arch: SpatialArch) -> tuple[ProgramImage, ProgramImage]:
    """A network's program with and without ops that are cut together, which must give equal outputs."""
    module, _, _ = lowered(model, arch)
    inputs = drawn_inputs(module, 1)
    together, apart = compiled_for(model, arch, TOGETHER), compiled_for(model, arch, APART)
    expected, found = run_functional(apart, inputs), run_functional(together, inputs)
    for name, array in expected.items():
        assert np.array_equal(found[name], array), name
    return only_image(together), only_image(apart)


@pytest.mark.parametrize(
    "arch",
    [arch_named("tpe_16x16", {"parameters.scratchpad": "32 KiB"}), arch_named("tpe_16x16", NARROW)],
    ids=["16 B", "4 B"],
)
def test_a_convolution_and_the_addition_behind_it_move_less_and_take_less_time(arch: SpatialArch) -> None:
    together, apart = both(CUT["residual"](), arch)
    assert "conv2d+add" in kinds_of(together)
    assert "conv2d+add" not in kinds_of(apart)
    # The result of the convolution is neither written nor read: 2 x 24 x 24 x 96 bytes.
    assert moved_bytes(together) < moved_bytes(apart) - 2 * 24 * 24 * 96 * 0.9
    assert replay(together.array, together.program).cycles < 0.97 * replay(apart.array, apart.program).cycles


def test_convolutions_with_windows_are_cut_together_on_a_narrow_bus() -> None:
    together, apart = both(CUT["bottleneck"](), arch_named("tpe_16x16", NARROW))
    assert any(kind.count("conv2d") > 1 for kind in kinds_of(together)), kinds_of(together)
    assert moved_bytes(together) < 0.8 * moved_bytes(apart)
    assert replay(together.array, together.program).cycles < 0.9 * replay(apart.array, apart.program).cycles


@pytest.mark.parametrize(
    ("narrow", "groups"),
    [
        pytest.param(16, 4, id="diagonal"),
        pytest.param(48, 4, id="across tiles", marks=pytest.mark.slow),
        pytest.param(64, 2, id="wide", marks=pytest.mark.slow),
    ],
)
def test_convolutions_in_groups_take_part(narrow: int, groups: int) -> None:
    together, apart = both(bottleneck(size=28, narrow=narrow, wide=64, groups=groups), arch_named("tpe_16x16", NARROW))
    (grouped,) = (op for op in apart.manifest.ops if op.dims.get("G", 1) == groups)
    kinds = [op.kind for op in together.manifest.ops if set(grouped.nodes) <= set(op.nodes)]
    assert kinds and all(kind.count("conv2d") > 1 for kind in kinds), kinds_of(together)
    assert moved_bytes(together) < moved_bytes(apart)


def test_ops_are_cut_one_by_one_where_the_array_is_busy_anyway() -> None:
    builder = GraphBuilder(0, num_samples=1)
    image = builder.add_input((1, 64, 40, 40), Scale(scale=0.02, zero_point=1))
    model = builder.finish([conv(builder, conv(builder, image, 64, (3, 3)), 64, (3, 3))])
    assert kinds_of(only_image(compiled_for(model, arch_of(16, 16, 16), TOGETHER))) == ["conv2d", "conv2d"]


def test_nothing_is_cut_together_that_fits_the_scratchpad() -> None:
    image = only_image(compiled_for(residual(size=8, channels=16, wide=32), arch_named("tpe_16x16"), TOGETHER))
    assert all("+" not in kind for kind in kinds_of(image))


def prediction_error(model: ModelProto) -> float:
    """By what part of the replayed cycles the recurrence is off where ops are cut together."""
    image = only_image(compiled_for(model, arch_named("tpe_16x16", NARROW), TOGETHER))
    assert any("+" in kind for kind in kinds_of(image))
    return predicted_cycles(image) / replay(image.array, image.program).cycles - 1


@pytest.mark.parametrize("name", CUT)
def test_the_prediction_is_within_3_percent_where_ops_are_cut_together_on_a_narrow_bus(name: str) -> None:
    assert abs(prediction_error(CUT[name]())) < 0.03


def test_layers_that_are_kept_stand_in_main_memory_also_where_they_are_cut_together() -> None:
    arch = arch_named("tpe_16x16", NARROW)
    model = CUT["residual"]()
    network = compiled_for(model, arch, CompileOptions(is_depth_first=True, keeps_layers=True))
    regions = {region.name for region in only_image(network).manifest.memory.regions}
    module, _, _ = lowered(model, arch)
    names = {nodes_of(op)[-1] for op in module.body.block.ops if op.name in ("qnn.conv2d", "qnn.add")}
    assert names <= regions
    check_model(model, arch, CompileOptions(is_depth_first=True, keeps_layers=True), seed=1)


@pytest.mark.parametrize(
    "seed", [seed if seed < NUM_FAST else pytest.param(seed, marks=pytest.mark.slow) for seed in range(NUM_SLOW)]
)
def test_random_layers_on_a_random_array_whatever_it_costs(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All chains that can be made are made, so that bands of all kinds are met."""
    monkeypatch.setattr(chains, "PROMISE", 10.0)
    monkeypatch.setattr(chains, "GAIN", -10.0)
    rng = Random(seed)
    arch = random_arch(rng)
    try:
        check_model(random_layers(seed), arch, random_options(rng, arch), seed)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):  # then it does not fit op by op either
            compiled_for(random_layers(seed), arch, APART)
