"""The same network for five arrays without touching code: what comes out is what the integers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import SpatialArch, check_program, load_arch
from tileloom.compiler import compile_network
from tileloom.compiler.compilation import DumpOptions
from tileloom.compiler.generators import quantised_resnet8
from tileloom.compiler.interpreters.modules import interpret
from tileloom.models import FunctionalSimulator, replay

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "archs"
ARCHS = [
    str(EXAMPLES / "tpe_4x4.yaml"),
    "tpe_8x8",
    str(EXAMPLES / "tpe_8x8_int4.yaml"),
    "tpe_16x16",
    str(EXAMPLES / "tpe_32x8.yaml"),
    "tpe_32x32",
]


@pytest.mark.parametrize("name", ARCHS, ids=[Path(name).stem for name in ARCHS])
def test_network_compiles_and_is_exact(name: str) -> None:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    model = quantised_resnet8(5)
    lowered = compile_network(model, arch, dumps=DumpOptions(stop_after="check-host-ops"))
    network = compile_network(model, arch).network
    assert network is not None
    (given,) = model.graph.input
    shape = [dim.dim_value for dim in given.type.tensor_type.shape.dim]
    inputs = {given.name: np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)}
    found = network.run(inputs, lambda _, image, memory: FunctionalSimulator(image.array).run(image.program, memory))
    wanted = interpret(lowered.module, lowered.store, inputs)
    for output, values in wanted.items():
        assert np.array_equal(found[output], values)
    (image,) = network.images.values()
    assert check_program(image.program, image.array, image.manifest.memory.size_bytes) == ()
    cycles = replay(image.array, image.program).cycles
    predicted = sum(op.predicted_cycles or 0 for op in image.manifest.ops)
    assert predicted == pytest.approx(cycles, rel=0.03)
