"""Networks of ops as kernels: the same kernels as those written by hand, and nothing left out in silence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tileloom.archdsl import ModelError, Op, VectorOp, load_arch, parse_notation
from tileloom.compiler import load_workload
from tileloom.models.gpu.attention import Attentions
from tileloom.models.gpu.attention_patterns import AttentionOp, join_attention
from tileloom.models.gpu.chip import Chip, make_chip
from tileloom.models.gpu.gemm import Gemms
from tileloom.models.gpu.resnet import resnet50
from tileloom.models.gpu.workloads import KernelEstimate, estimate_kernels


@pytest.fixture(scope="module")
def chip() -> Chip:
    arch = load_arch("h100_sxm")
    assert arch.kind == "gpu"
    return make_chip(arch)


def one(text: str, chip: Chip) -> KernelEstimate:
    (estimate,) = estimate_kernels([parse_notation(text)], chip)
    return estimate


def test_product_is_the_kernel_of_its_shape(chip: Chip) -> None:
    cold = np.zeros(1, dtype=np.bool_)
    m, n, k, batch = (np.array([size]) for size in (512, 2048, 4096, 3))
    kernel = Gemms(m=m, n=n, k=k, batch=batch, datatype="bf16", weights_in_cache=cold, inputs_in_cache=cold).times(chip)
    found = one("gemm:M=512,N=2048,K=4096,B=3,datatype=bf16,acc_bits=16", chip)
    assert found.time.amount == pytest.approx(kernel.time_s[0])
    assert kernel.energy_j is not None and found.energy_j == pytest.approx(kernel.energy_j[0])
    assert found.ops == 2 * found.op.macs


def test_convolutions_of_resnet50_are_those_written_by_hand(chip: Chip) -> None:
    """The network from the onnx package against the kernel sequence of torchvision's: same shapes but for the stem's stride."""
    by_hand = resnet50(("one",), np.array([1])).times(chip).serial_s["convolutions"][0]
    ops = [op for op in load_workload("onnx:resnet50:datatype=bf16").ops if isinstance(op, Op) and op.kind == "conv"]
    found = estimate_kernels(ops, chip)
    assert len(found) == 53
    assert sum(estimate.time.amount for estimate in found) == pytest.approx(by_hand, rel=0.02)


def test_every_op_of_a_network_is_priced_in_its_place(chip: Chip) -> None:
    ops = load_workload("transformer_block:dtype=fp16,hidden=256,heads=4,seq=64").ops
    found = estimate_kernels(ops, chip)
    assert [estimate.op for estimate in found] == list(ops)
    assert all(estimate.time.amount >= chip.launch_s and estimate.energy_j > 0 for estimate in found)
    notes = {estimate.op.kind: estimate.notes for estimate in found}
    assert notes["softmax"] == ("softmax: one pass over inputs and results; its rows are not known",)


def test_attention_spelt_out_in_ops_is_one_kernel(chip: Chip) -> None:
    ops = load_workload("transformer_block:dtype=fp16,hidden=1024,heads=8,seq=4096").ops
    (attention,) = [op for op in join_attention(ops) if isinstance(op, AttentionOp)]
    assert (attention.heads, attention.query_len, attention.kv_len, attention.head_dim) == (8, 4096, 4096, 128)
    assert (attention.name, attention.num_ops) == ("scores", 4)
    spelt_out = [op for op in ops if op.name in ("scores", "masked", "attention_weights", "context")]
    assert attention.macs == sum(op.macs for op in spelt_out)
    (joined,) = estimate_kernels([attention], chip)
    kernel = Attentions(
        batch=np.array([1]),
        query_heads=np.array([8]),
        kv_heads=np.array([8]),
        head_dim=np.array([128]),
        query_len=np.array([4096]),
        kv_len=np.array([4096]),
        window=np.array([0]),
        datatype="fp16",
        is_causal=False,
    ).times(chip)
    assert joined.time.amount == pytest.approx(kernel.time_s[0])
    apart = estimate_kernels(spelt_out, chip)
    assert joined.time.amount < sum(estimate.time.amount for estimate in apart)
    assert joined.main_memory_bytes < sum(estimate.main_memory_bytes for estimate in apart)


@pytest.mark.parametrize(
    "sizes", ["dtype=int8,hidden=256,heads=4", "dtype=fp32,hidden=256,heads=4", "dtype=fp16,hidden=1024,heads=2"]
)
def test_attention_that_no_kernel_has_stays_as_it_is(sizes: str) -> None:
    ops = load_workload(f"transformer_block:{sizes},seq=64").ops
    assert join_attention(ops) == ops


def test_products_that_do_not_fit_together_are_not_attention() -> None:
    ops = load_workload("transformer_block:dtype=fp16,hidden=256,heads=4,seq=64").ops
    names = [op.name for op in ops]
    without = [op for op in ops if op.name != "attention_weights"]
    assert all(isinstance(op, Op | VectorOp) for op in join_attention(without))
    elsewhere = list(ops)
    elsewhere[names.index("context")] = replace(elsewhere[names.index("context")], count=2)
    assert join_attention(elsewhere) == tuple(elsewhere)


def test_vector_work_takes_its_stream_or_its_instructions(chip: Chip) -> None:
    moved = (("x", 1 << 30),)
    add = VectorOp(name="a", kind="add", elements=1 << 29, read_bytes=moved, write_bytes=moved, datatype="bf16")
    stream, work = estimate_kernels([add, replace(add, passes=40)], chip)
    peak_s = 2 * (1 << 30) / chip.memory_bytes_per_s
    assert stream.regime == "memory" and peak_s < stream.time.amount < 1.2 * peak_s
    assert work.regime == "compute" and work.time.amount > 3 * stream.time.amount


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("conv:B=2,K=64,C=32,OY=28,OX=28,FY=3,FX=3,stride=2,datatype=bf16", "bf16 b2 32->64 3x3/2 56x56 g1"),
        ("conv:B=1,G=64,K=1,C=1,OY=28,OX=28,FY=3,FX=3,datatype=bf16", "bf16 b1 64->64 3x3/1 28x28 g64"),
        ("conv:B=1,K=64,C=32,OX=100,FX=5,datatype=bf16", "bf16 100x64x160"),
        ("conv:B=1,G=64,K=1,C=1,OX=100,FX=5,datatype=bf16", "stream bf16 6400 x 45"),
    ],
)
def test_convolutions_name_their_kernel(text: str, kernel: str, chip: Chip) -> None:
    found = one(text, chip)
    assert found.kernel == kernel
    assert any("not square" in note for note in found.notes) == ("b1 " not in kernel and "b2 " not in kernel)


def test_what_a_chip_cannot_run_is_an_error(chip: Chip) -> None:
    with pytest.raises(ModelError, match="it multiplies no 'int4'; did you mean 'int8'"):
        one("gemm:M=8,N=8,K=8,bits=4", chip)
    op = parse_notation("gemm:M=8,N=8,K=8,bits=8")
    lone = replace(op, tensors=(op.tensors[0], op.output))
    with pytest.raises(ModelError, match=r"gemm \(gemm\) has 2 tensors; kernels multiply two into a third"):
        estimate_kernels([lone], chip)
