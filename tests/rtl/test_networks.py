"""Whole networks and random graphs on the RTL: every byte as the functional simulator, every cycle as event replay."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
import pytest
from onnx import ModelProto

from tileloom.archdsl import ProgramImage, SpatialArch, load_arch, take_array
from tileloom.compiler.compilation import CompileOptions
from tileloom.compiler.generators import (
    quantised_resnet8,
    quantised_resnext,
    random_grouped_graph,
    random_quantised_graph,
)
from tileloom.models import replay, with_issue_cycles
from tileloom.rtl import Job, run_programs

from ..compiler.arrays import Overrides, arch_named, arch_of, random_options
from ..compiler.compiled import (
    GENERATORS,
    PRESETS,
    TINY,
    compiled,
    compiled_file,
    compiled_for,
    filled_memory,
    generated,
    lowered,
    only_image,
    stored_layers,
    values_of,
)
from ..compiler.depth_first import bottleneck, residual
from ..compiler.tiny_networks import with_int4_weights
from .cases import ONE_PORT, PLAIN, TIGHT, assert_same

pytestmark = pytest.mark.rtl

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "archs"
ARRAYS: Mapping[tuple[int, int, int], Overrides] = {
    (4, 16, 4): PLAIN, (16, 4, 4): PLAIN, (8, 8, 4): TIGHT, (4, 8, 4): ONE_PORT,
}  # fmt: skip
"""Of random graphs."""
SEEDS_PER_ARRAY = 5
NARROW = {"parameters.bus_bytes": 4, "parameters.scratchpad": "32 KiB"}
"""What makes `tpe_16x16` an array where layers are cut together."""
DEPTH_FIRST = CompileOptions(is_depth_first=True)
TOGETHER: Mapping[str, tuple[str, Callable[[], ModelProto]]] = {
    "residual": ("conv2d+add", partial(residual, size=40, channels=32, wide=192)),
    "bottleneck": ("conv2d+conv2d", partial(bottleneck, size=28, narrow=16, wide=64)),
}
"""What is cut together, and of which network."""


def job_of(image: ProgramImage, seed: int = 1) -> Job:
    """A program with random inputs, on the main memory of its architecture."""
    array = image.array
    return Job(
        program=image.program, memory=filled_memory(image, seed), latency_cycles=array.latency_cycles,
        cycles_per_beat=array.cycles_per_beat,
    )  # fmt: skip


def test_network_with_int4_weights() -> None:
    arch = load_arch(str(EXAMPLES / "tpe_8x8_int4.yaml"))
    assert isinstance(arch, SpatialArch)
    image = only_image(compiled_for(with_int4_weights(quantised_resnet8(5)), arch))
    assert any(step.operands.get("weight_bits") for step in image.program)
    assert_same(image.array, [job_of(image)])


@pytest.mark.parametrize("arch", PRESETS)
def test_generated_networks(arch: str) -> None:
    images = [only_image(compiled(name, arch)) for name in GENERATORS]
    assert_same(images[0].array, [job_of(image) for image in images])


@pytest.mark.parametrize("arch", PRESETS)
def test_tiny_networks(arch: str, shared_data: Path) -> None:
    images = [only_image(compiled_file(shared_data / "mlperf_tiny" / f"{name}.onnx", arch)) for name in TINY]
    assert_same(images[0].array, [job_of(image) for image in images])


def test_every_layer_is_stored_as_the_interpreter_has_it() -> None:
    network = compiled("resnet8", "tpe_16x16", CompileOptions(keeps_layers=True))
    image = only_image(network)
    (result,) = assert_same(image.array, [job_of(image)])
    module, _, store = lowered(generated("resnet8"), arch_named("tpe_16x16"))
    (symbol,) = image.symbols("input")
    values = values_of(module, store, take_array(filled_memory(image, 1), symbol))
    layers = stored_layers(network, module, result.memory)
    assert len(layers) >= 10
    for op, array in layers.items():
        assert np.array_equal(array, values[op.results[0]])


@pytest.mark.parametrize("arch", PRESETS)
def test_convolutions_in_groups(arch: str) -> None:
    images = [
        only_image(compiled_for(quantised_resnext(0, size=12, groups=groups), arch_named(arch))) for groups in (4, 32)
    ]
    assert_same(images[0].array, [job_of(image) for image in images])


def test_network_in_static_mode_takes_the_same_cycles() -> None:
    image = only_image(compiled("dscnn", "tpe_8x8"))
    found = replay(image.array, image.program)
    job = replace(job_of(image), program=with_issue_cycles(image.program, found), is_static=True)
    tokens, static = run_programs(image.array, [job_of(image), job])
    assert static.error is None
    assert static.cycles == tokens.cycles == found.cycles
    assert np.array_equal(static.memory, tokens.memory)


@pytest.mark.parametrize("name", TOGETHER)
def test_layers_that_are_cut_together(name: str) -> None:
    kind, model_of = TOGETHER[name]
    image = only_image(compiled_for(model_of(), arch_named("tpe_16x16", NARROW), DEPTH_FIRST))
    assert any(kind in op.kind for op in image.manifest.ops)
    assert_same(image.array, [job_of(image)])


@pytest.mark.parametrize(("idx", "sizes"), list(enumerate(ARRAYS)))
def test_random_graphs(idx: int, sizes: tuple[int, int, int]) -> None:
    arch = arch_of(*sizes, ARRAYS[sizes])
    for seed in range(idx * SEEDS_PER_ARRAY, (idx + 1) * SEEDS_PER_ARRAY):
        network = compiled_for(random_quantised_graph(seed), arch, random_options(Random(seed), arch))
        for image in network.images.values():
            # Each in a simulator of its own: bytes between pixels may be what the scratchpad held before.
            assert_same(image.array, [job_of(image, seed)])


@pytest.mark.parametrize("sizes", list(ARRAYS))
def test_random_convolutions_in_groups(sizes: tuple[int, int, int]) -> None:
    arch = arch_of(*sizes, ARRAYS[sizes])
    for seed in range(3):
        for image in compiled_for(random_grouped_graph(seed), arch, random_options(Random(seed), arch)).images.values():
            assert_same(image.array, [job_of(image, seed)])
