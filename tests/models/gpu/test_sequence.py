"""Sequences of kernels: sums over steps, and layers of networks."""

import numpy as np
import pytest

from tileloom.archdsl import ModelError
from tileloom.models.gpu.layers import LLAMA_3_8B, LLAMA_3_70B, LlamaShape, llama_layer
from tileloom.models.gpu.memory_bound import MemoryKernels
from tileloom.models.gpu.resnet import resnet50
from tileloom.models.gpu.sequence import KernelSequence, Step

from .chips import chip_of


def copies(*rows: int) -> MemoryKernels:
    return MemoryKernels(
        op="copy",
        datatype="bf16",
        rows=np.array(rows),
        cols=np.full(len(rows), 4096),
        inputs_in_cache=np.zeros(len(rows), dtype=np.bool_),
    )


def layer(shape: LlamaShape, batch: list[int], query_len: list[int], kv_len: list[int]) -> KernelSequence:
    labels = tuple(f"b{b} q{q} kv{k}" for b, q, k in zip(batch, query_len, kv_len, strict=True))
    return llama_layer(shape, labels, np.array(batch), np.array(query_len), np.array(kv_len))


def test_a_sequence_is_the_sum_of_its_steps_by_name():
    chip, one, other = chip_of(), copies(128, 1024), copies(256, 64)
    steps = (Step(name="a", kernels=one, repeats=3), Step(name="b", kernels=other), Step(name="a", kernels=other))
    times = KernelSequence(labels=("x", "y"), steps=steps).times(chip)
    assert times.serial_s["a"] == pytest.approx(3 * one.times(chip).time_s + other.times(chip).time_s)
    assert times.serial_s["b"] == pytest.approx(other.times(chip).time_s)
    assert times.main_memory_bytes == pytest.approx(
        3 * one.times(chip).main_memory_bytes + 2 * other.times(chip).main_memory_bytes
    )
    assert times.part(1).amount == pytest.approx(times.time_s[1])


def test_steps_of_another_length_are_refused():
    with pytest.raises(ModelError, match="step 'a' has 1 kernels; the sequence has 2 rows"):
        KernelSequence(labels=("x", "y"), steps=(Step(name="a", kernels=copies(1)),))


def test_a_llama_layer_has_some_twenty_kernels_and_all_its_products():
    sequence = layer(LLAMA_3_8B, [2], [512], [512])
    weights = 4096 * 6144 + 4096 * 4096 + 4096 * 28672 + 14336 * 4096
    attended = 2 * 32 * 128 * 4 * (512 * 512 - 512 * 511 / 2)
    assert 18 <= sequence.num_kernels <= 26
    products = ("Q, K and V", "output projection", "gate and up", "down", "attention")
    ops = sum(step.kernels.times(chip_of()).ops[0] for step in sequence.steps if step.name in products)
    assert ops == pytest.approx(2 * 1024 * weights + attended)


def test_a_decoding_layer_reads_its_weights_and_its_cache():
    times = layer(LLAMA_3_70B, [1], [1], [4096]).times(chip_of())
    weights = 8192 * 10240 + 8192 * 8192 + 8192 * 57344 + 28672 * 8192
    compulsory = 2 * weights + 2 * 2 * 4096 * 8 * 128
    assert times.main_memory_bytes[0] == pytest.approx(compulsory, rel=0.01)
    assert times.time_s[0] > compulsory / chip_of().memory_bytes_per_s


def test_more_tokens_are_never_faster():
    times = layer(LLAMA_3_8B, [1, 8, 32, 128], [1] * 4, [4096] * 4).times(chip_of())
    assert (np.diff(times.time_s) > 0).all()


def test_resnet50_has_its_published_ops():
    # 4.09 billion multiply-accumulates in convolutions and classifier (torchvision).
    sequence = resnet50(("b1",), np.array([1]))
    ops = sum(
        step.repeats * step.kernels.times(chip_of()).ops[0]
        for step in sequence.steps
        if step.name in ("convolutions", "classifier")
    )
    assert ops == pytest.approx(2 * 4.09e9, rel=0.01)
