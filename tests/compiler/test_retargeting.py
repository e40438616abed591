"""The same network for five arrays without touching code: what comes out is what the integers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import SpatialArch, check_program, load_arch
from tileloom.compiler import compile_network
from tileloom.compiler.codegen.compiled import CompiledNetwork
from tileloom.compiler.compilation import DumpOptions
from tileloom.compiler.generators import quantised_resnet8
from tileloom.compiler.interpreters.modules import interpret
from tileloom.models import FunctionalSimulator, replay

from .reference import random_inputs, run_onnx
from .tiny_networks import with_int4_weights

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


@pytest.mark.parametrize("name", ["tpe_8x8", str(EXAMPLES / "tpe_8x8_int4.yaml")], ids=["int8", "int4"])
def test_int4_weights_of_onnx_are_exact_and_take_half_where_the_array_has_them(name: str) -> None:
    arch = load_arch(name)
    assert isinstance(arch, SpatialArch)
    model = with_int4_weights(quantised_resnet8(5))
    network = compile_network(model, arch).network
    plain = compile_network(quantised_resnet8(5), arch).network
    assert network is not None and plain is not None
    inputs = random_inputs(model, 0)
    found = network.run(inputs, lambda _, image, memory: FunctionalSimulator(image.array).run(image.program, memory))
    (expected,) = run_onnx(model, inputs)
    (output,) = found.values()
    assert np.argmax(output) == np.argmax(expected)
    assert np.abs(output.astype(int) - expected.astype(int)).max() <= 1

    def weight_bytes(compiled: CompiledNetwork) -> int:
        (image,) = compiled.images.values()
        symbols = [symbol for symbol in image.manifest.symbols if symbol.role == "weight"]
        return sum(int(np.prod(symbol.shape)) for symbol in symbols)

    share = weight_bytes(network) / weight_bytes(plain)
    assert share == pytest.approx(0.5 if name != "tpe_8x8" else 1.0, abs=0.02)
