"""Transformers whole: only what stands at the border is left to the host, and all levels agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

from tileloom.archdsl import SpatialArch, check_program, pe_array
from tileloom.compiler.compilation import DumpOptions, compile_network
from tileloom.compiler.generators import quantised_transformer
from tileloom.compiler.host import host_ops
from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.pipeline import lower_network
from tileloom.compiler.quantisation.reals import step_of
from tileloom.models import FunctionalSimulator, replay

from .qdq import Array, random_inputs
from .reference import check_onnx, run_onnx
from .row_modules import arch_of, tiny_arch

STEPS = 8
"""How far results may be from onnxruntime's, in steps of at least 200 that they cover: a result of an op that is the other
neighbour of a real number changes a few results of the next product, and so on."""
Source = ModelProto | Path


def check_agreement(source: Source, arch: SpatialArch, inputs: dict[str, Array], host: list[str]) -> None:
    """All levels agree on every output; nothing but some ops is left to the host."""
    array = pe_array(arch)
    module, store = lower_network(source)
    assert [each.op.op_type for each in host_ops(module)] == host
    expected = interpret(module, store, inputs)
    tiled = compile_network(source, arch, dumps=DumpOptions(stop_after="convert-qnn-to-tile"))
    network = compile_network(source, arch).network
    assert network is not None
    for image in network.images.values():
        assert not check_program(image.program, array, len(image.memory()))
        # The recurrence leaves dispatch out, which shows where instructions are as short as here.
        predicted = sum(op.predicted_cycles or 0 for op in image.manifest.ops)
        assert abs(replay(array, image.program).cycles - predicted) <= 0.12 * predicted
    simulated = network.run(
        inputs, lambda _, image, memory: FunctionalSimulator(array).run(image.program, memory)
    )  # fmt: skip
    for name, result in expected.items():
        assert np.array_equal(interpret(tiled.module, tiled.store, inputs)[name], result)
        assert np.array_equal(simulated[name], result)


def check_against_onnxruntime(source: Source, draw: Callable[[], dict[str, Array]], scale: float) -> None:
    """Over 20 inputs, results are a few steps from onnxruntime's, and nearly all decisions are the same."""
    module, store = lower_network(source)
    same = total = 0
    for _ in range(20):
        inputs = draw()
        (found,), (expected,) = interpret(module, store, inputs).values(), run_onnx(source, inputs)
        assert np.abs(found.astype(np.float64) - expected.astype(np.float64)).max() / scale < STEPS + 0.5
        same += int((found.argmax(axis=-1) == expected.argmax(axis=-1)).sum())
        total += found[..., 0].size
    assert same >= 0.97 * total


@pytest.mark.parametrize("arch", [arch_of("tpe_8x8"), tiny_arch()], ids=["8x8", "4x4"])
def test_generated_transformer_runs_whole_on_the_array(arch: SpatialArch) -> None:
    model = quantised_transformer(1)
    check_onnx(model)
    inputs = random_inputs(lower_network(model)[0], np.random.default_rng(0))
    check_agreement(model, arch, inputs, [])


def test_generated_transformer_is_near_onnxruntime() -> None:
    model = quantised_transformer(2, blocks=2, tokens=9, heads=4)
    module, rng = lower_network(model)[0], np.random.default_rng(1)
    check_against_onnxruntime(model, lambda: random_inputs(module, rng), 1.0)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match="heads 3 must divide width 32"):
        quantised_transformer(1, heads=3)


@pytest.mark.parametrize("name", ["tpe_8x8", "tpe_16x16"])
def test_bert_runs_whole_on_the_array(name: str, shared_data: Path) -> None:
    inputs = {"ids": np.random.default_rng(2).integers(0, 512, (2, 24))}
    path = shared_data / "onnx" / "bert_tiny_qdq_int8.onnx"
    check_agreement(path, arch_of(name), inputs, ["Gather", "DequantizeLinear"])


def test_bert_is_near_onnxruntime(shared_data: Path) -> None:
    rng, path = np.random.default_rng(3), shared_data / "onnx" / "bert_tiny_qdq_int8.onnx"
    module, store = lower_network(path)
    (last,) = (each.op for each in host_ops(module) if each.op.op_type == "DequantizeLinear")
    step = step_of(last, store)
    assert step is not None
    check_against_onnxruntime(path, lambda: {"ids": rng.integers(0, 512, (2, 24))}, step.scale)
