"""Random graphs compiled for random arrays: integer interpreter, tile interpreter and functional simulator agree."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from onnx import ModelProto

from tileloom.archdsl import InfeasibleError, SpatialArch, check_program, pe_array
from tileloom.compiler.compilation import CompileOptions
from tileloom.compiler.generators import random_quantised_graph
from tileloom.compiler.generators.builder import GraphBuilder
from tileloom.compiler.generators.layers import conv
from tileloom.compiler.generators.quantisation import Scale
from tileloom.compiler.interpreters.modules import interpret

from .arrays import ONE_PORT, arch_of, random_arch, random_options
from .compiled import compiled_for, describe, drawn_inputs, lowered, run_functional

NUM_FAST, NUM_SLOW = 40, 200
TOO_LARGE = frozenset[int]()
"""Seeds whose graph does not fit the scratchpad that is drawn for it: both factors of a product must stand there."""


def check(seed: int, arch: SpatialArch, options: CompileOptions) -> None:
    """Fails where a graph's outputs differ, or a program is not valid."""
    check_model(random_quantised_graph(seed), arch, options, seed)


def check_model(model: ModelProto, arch: SpatialArch, options: CompileOptions, seed: int) -> None:
    """Fails where a model's outputs differ, or a program is not valid."""
    said = f"{describe(pe_array(arch))}, {options}"
    before, after, store = lowered(model, arch, options)
    inputs = drawn_inputs(before, seed)
    expected = interpret(before, store, inputs)
    tiled = interpret(after, store, inputs)
    network = compiled_for(model, arch, options)
    found = run_functional(network, inputs)
    for name, array in expected.items():
        assert np.array_equal(tiled[name], array), f"{name} after tiling, {said}"
        assert np.array_equal(found[name], array), f"{name} on the simulator, {said}"
    for image in network.images.values():
        faults = check_program(image.program, image.array, len(image.data))
        assert not faults, f"{faults[0]}, {said}"


@pytest.mark.parametrize(
    "seed", [seed if seed < NUM_FAST else pytest.param(seed, marks=pytest.mark.slow) for seed in range(NUM_SLOW)]
)
def test_random_graph_on_a_random_array(seed: int) -> None:
    rng = Random(seed)
    arch = random_arch(rng)
    options = random_options(rng, arch)
    if seed in TOO_LARGE:
        with pytest.raises(InfeasibleError, match="scratchpad capacity"):
            compiled_for(random_quantised_graph(seed), arch, options)
        return
    check(seed, arch, options)


@pytest.mark.parametrize(
    ("sizes", "seeds"),
    [
        ((6, 12, 4), (1, 67)),
        ((5, 3, 1), (1, 69)),
        ((8, 2, 8), (36, 52)),
        ((3, 32, 4), (168,)),
        ((32, 2, 16), (141, 209)),
    ],
)
def test_sizes_that_are_no_powers_of_two_and_buses_wider_than_the_array(
    sizes: tuple[int, int, int], seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        check(seed, arch_of(*sizes, ONE_PORT), CompileOptions(fallback=True))


def test_ties_are_rounded_as_the_architecture_says() -> None:
    """Seed 99 has means that lie halfway between two integers."""
    for rounding in ("half_to_even", "half_away"):
        check(99, arch_of(12, 12, 4, {"control.rounding": rounding}), CompileOptions(fallback=True))


@pytest.mark.parametrize("seed", [153, 238, 725])
def test_inputs_that_are_returned_in_other_shapes(seed: int) -> None:
    check(seed, arch_of(8, 8, 8), CompileOptions(fallback=True))


@pytest.mark.parametrize("seed", [25, 60])
def test_padding_of_unsigned_elements_runs_on_the_array(seed: int) -> None:
    check(seed, arch_of(8, 8, 8), CompileOptions())


@pytest.mark.parametrize("sizes", [(8, 8, 8), (16, 16, 4), (4, 4, 4), (8, 16, 8)], ids=str)
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "stride"),
    [(16, (7, 9), (1, 1), 2), (48, (8, 5), (1, 1), 3), (128, (5, 5), (1, 1), 2), (32, (9, 8), (1, 3), 2), (5, (9, 9), (1, 1), 2)],
)  # fmt: skip
def test_what_strides_jump_over_is_not_read(
    sizes: tuple[int, int, int], channels: int, size: tuple[int, int], kernel: tuple[int, int], stride: int
) -> None:
    """Layers in the middle, so that pixels begin where stores put them, and through main memory."""
    builder = GraphBuilder(0, num_samples=2)
    image = conv(builder, builder.add_input((1, 3, *size), Scale(scale=0.02, zero_point=1)), channels, (1, 1))
    model = builder.finish([conv(builder, image, 24, kernel, stride=stride, pads=(0, 0, 0, 0))])
    check_model(model, arch_of(*sizes), CompileOptions(keeps_on_chip=False, is_depth_first=False), seed=1)


def test_a_strided_layer_reads_its_pixels_alone() -> None:
    builder = GraphBuilder(0, num_samples=2)
    image = conv(builder, builder.add_input((1, 3, 9, 9), Scale(scale=0.02, zero_point=1)), 128, (1, 1))
    model = builder.finish([conv(builder, image, 16, (1, 1), stride=2, pads=(0, 0, 0, 0))])
    options = CompileOptions(keeps_on_chip=False, is_depth_first=False)
    network = compiled_for(model, arch_of(16, 16, 16), options)
    (program,) = network.images.values()
    beats = sum(
        instruction.operands["rows"] * instruction.operands["row_beats"]
        for loads in program.manifest.ops[1].loads
        for instruction in program.program[loads.first : loads.first + loads.num]
        if instruction.name == "LD" and not instruction.operands.get("space")
    )
    assert beats * 16 == 128 * 25 + 128 * 16
