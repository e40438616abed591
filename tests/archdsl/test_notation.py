"""Notations: what they build, and what is said about broken ones."""

from __future__ import annotations

import pytest

from tileloom.archdsl import Op, TensorRole, WorkloadError, parse_notation


def axes_of(op: Op, name: str) -> list[tuple[tuple[str, int], ...]]:
    return [axis.terms for axis in op.tensor(name).axes]


def test_gemm_has_the_tensors_of_a_matrix_product() -> None:
    op = parse_notation("gemm:M=512,N=256,K=128,bits=8")
    assert op.dims == (("M", 512), ("N", 256), ("K", 128))
    assert axes_of(op, "A") == [(("M", 1),), (("K", 1),)]
    assert axes_of(op, "W") == [(("K", 1),), (("N", 1),)]
    assert axes_of(op, "Z") == [(("M", 1),), (("N", 1),)]
    assert [t.role for t in op.tensors] == [TensorRole.INPUT, TensorRole.WEIGHT, TensorRole.OUTPUT]
    assert op.macs == 512 * 256 * 128


def test_bits_set_every_tensor_and_acc_bits_the_output() -> None:
    assert [t.bits for t in parse_notation("gemm:M=2,N=2,K=2,bits=16").tensors] == [16, 16, 16]
    assert [t.bits for t in parse_notation("gemm:M=2,N=2,K=2,bits=8,acc_bits=32").tensors] == [8, 8, 32]
    assert [t.bits for t in parse_notation("gemm:M=2,N=2,K=2").tensors] == [8, 8, 8]


def test_datatype_is_an_integer_unless_named() -> None:
    assert parse_notation("gemm:M=2,N=2,K=2,bits=16").datatype == "int16"
    op = parse_notation("gemm:M=2,N=2,K=2,datatype=bf16")
    assert op.datatype == "bf16"
    assert [t.bits for t in op.tensors] == [16, 16, 16]


def test_batched_gemm_indexes_every_tensor_by_the_batch() -> None:
    op = parse_notation("gemm:B=4,M=2,N=3,K=5")
    assert op.macs == 4 * 2 * 3 * 5
    assert all("B" in tensor.dims for tensor in op.tensors)


def test_conv_keeps_dims_of_size_one_and_slides_over_its_input() -> None:
    op = parse_notation("conv:B=1,K=64,C=32,OY=56,OX=28,FY=3,FX=5,stride=2,dilation=3,G=1,bits=8")
    assert op.dims == (
        ("B", 1), ("G", 1), ("K", 64), ("C", 32), ("OY", 56), ("OX", 28), ("FY", 3), ("FX", 5),
    )  # fmt: skip
    assert axes_of(op, "I")[3:] == [(("OY", 2), ("FY", 3)), (("OX", 2), ("FX", 3))]
    assert axes_of(op, "W") == [((d, 1),) for d in ("G", "K", "C", "FY", "FX")]
    assert axes_of(op, "O") == [((d, 1),) for d in ("B", "G", "K", "OY", "OX")]


def test_conv_steps_may_differ_by_axis() -> None:
    op = parse_notation("conv:K=1,C=1,OY=4,OX=4,FY=3,FX=3,stride_y=2,dilation_x=2")
    assert axes_of(op, "I")[3:] == [(("OY", 2), ("FY", 1)), (("OX", 1), ("FX", 2))]


def test_conv_takes_one_and_three_axes() -> None:
    assert parse_notation("conv:K=8,C=4,OX=10,FX=3").macs == 8 * 4 * 10 * 3
    op = parse_notation("conv:K=2,C=2,OZ=3,OY=4,OX=5,FZ=1,FY=2,FX=3,stride_z=2")
    assert op.macs == 2 * 2 * 3 * 4 * 5 * 1 * 2 * 3
    assert axes_of(op, "I")[3] == (("OZ", 2), ("FZ", 1))


def test_depthwise_conv_has_one_channel_per_group() -> None:
    op = parse_notation("conv:G=32,K=1,C=1,OY=8,OX=8,FY=3,FX=3")
    assert op.macs == 32 * 8 * 8 * 9
    assert op.elements(op.tensor("I")) == 32 * 10 * 10


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("gemm:M=512,N=5x,K=512", 12, "N: '5x' is not a size; sizes are whole numbers from 1 to 2147483647"),
        ("gemm:M=0,N=1,K=1", 6, "M: '0' is not a size"),
        ("gemm:M=1,N=1,K=99999999999999999999", 14, "K: '99999999999999999999' is not a size"),
        ("gemm:M=1,N=1,K=1,bits=256", 18, "bits: '256' is not a size; sizes are whole numbers from 1 to 128"),
        ("gemm:M=1,N=1,KK=2,K=1", 14, "KK: unknown key; did you mean 'K'?"),
        ("gemm:M=1,N=1", 13, "missing K; give it as 'K=SIZE'"),
        ("gemm:M=1,M=2,N=1,K=1", 10, "M: given twice (first 'M=1')"),
        ("gemm:M=1,N=1,K", 14, "'K' is not 'key=value'"),
        ("gemm:M=1,N=1,K=1,", 18, "'' is not 'key=value'"),
        ("gemm:M=1,N=1,K=1,datatype=bf17", 18, "datatype: unknown datatype; did you mean 'bf16'?"),
        ("conv:K=1,C=1,OY=2,OX=2,FX=2", 28, "missing FY; give it as 'FY=SIZE'"),
        ("conv:K=1,C=1,OX=2,FX=2,stride_y=2", 24, "stride_y: unknown key; did you mean 'stride_x'?"),
        ("gem:M=1", 1, "unknown kind of op 'gem'; did you mean 'gemm'?"),
        ("gemm", 5, "'gemm' needs its sizes; write for example 'gemm:M=512,N=512,K=512,bits=8'"),
    ],
)
def test_broken_notation_says_where_and_what(text: str, column: int, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_notation(text)
    assert f"<workload>:1:{column}: {message}" in str(caught.value)
    assert caught.value.diagnostics[0].source_line == text


def test_all_faults_are_reported_at_once_in_order() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_notation("gemm:M=x,Q=1,N=2")
    assert [fault.column for fault in caught.value.diagnostics] == [6, 10, 17]
