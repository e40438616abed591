"""Attention, recurrent cells, and what products are made of."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import defs, helper

from tileloom.archdsl import DimClass, Op, TensorRole, Workload
from tileloom.compiler import load_workload

from .networks import axes_of, load, model, only_op, tensor, weightless

needs_attention = pytest.mark.skipif(defs.onnx_opset_version() < 23, reason="this onnx has no Attention operator")


def attention(q: list[int], kv: list[int], past: int = 0, **attributes: Any) -> Workload:
    names = ["q", "k", "v"]
    inputs = [tensor("q", q), tensor("k", kv), tensor("v", kv)]
    outputs = ["y"]
    if past:
        cache = [kv[0], kv[1], past, kv[3]]
        inputs += [tensor("pk", cache), tensor("pv", cache)]
        names += ["", "pk", "pv"]
        outputs += ["nk", "nv"]
    node = helper.make_node("Attention", names, outputs, name="att", **attributes)
    return load(model([node], inputs, outputs, opset=23))


def shapes(workload: Workload) -> dict[str, dict[str, int]]:
    return {op.name: op.sizes for op in workload.mac_ops()}


@needs_attention
def test_attention_is_two_products_and_a_softmax() -> None:
    workload = attention([2, 12, 128, 64], [2, 12, 128, 64])
    assert shapes(workload) == {
        "att/scores": {"B": 24, "M": 128, "N": 128, "K": 64},
        "att/values": {"B": 24, "M": 128, "N": 64, "K": 128},
    }
    (softmax,) = workload.vector_ops()
    assert (softmax.kind, softmax.elements) == ("softmax", 24 * 128 * 128)
    assert [op.name for op in workload.ops] == ["att/scores", "att/softmax", "att/values"]
    assert {op.nodes for op in workload.ops} == {("att",)}


@needs_attention
def test_query_heads_that_share_keys_are_rows_of_one_product() -> None:
    workload = attention([1, 32, 1, 128], [1, 8, 1, 128], past=1023)
    assert shapes(workload) == {
        "att/scores": {"B": 8, "M": 4, "N": 1024, "K": 128},
        "att/values": {"B": 8, "M": 4, "N": 128, "K": 1024},
    }
    scores = next(workload.mac_ops())
    assert scores.elements(scores.tensor("W")) == 8 * 1024 * 128
    cache = next(op for op in workload.vector_ops() if op.kind == "append")
    assert sum(n for _, n in cache.write_bytes) == 2 * 8 * 128 * 4


@needs_attention
def test_attention_of_three_axes_takes_heads_from_attributes() -> None:
    workload = attention([2, 10, 64], [2, 20, 64], q_num_heads=4, kv_num_heads=4)
    assert shapes(workload)["att/scores"] == {"B": 8, "M": 10, "N": 20, "K": 16}


def test_second_activation_takes_the_weight_role_and_batch_is_a_group() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"], name="mm")
    op = only_op(load(model([node], [tensor("a", [3, 4, 5]), tensor("b", [3, 5, 6])], ["y"])))
    assert [t.role for t in op.tensors] == [TensorRole.INPUT, TensorRole.WEIGHT, TensorRole.OUTPUT]
    classes = {dim: op.dim_class(dim) for dim, _ in op.dims}
    assert classes == {
        "B": DimClass.GROUP, "M": DimClass.PIXEL, "N": DimClass.OUTPUT_CHANNEL, "K": DimClass.REDUCTION,
    }  # fmt: skip


def cell(op_type: str, gates: int, directions: int = 1, **attributes: Any) -> Workload:
    weights = [weightless("w", [directions, gates * 16, 8]), weightless("r", [directions, gates * 16, 16])]
    node = helper.make_node(op_type, ["x", "w", "r"], ["y", "h"], name="cell", hidden_size=16, **attributes)
    return load(model([node], [tensor("x", [10, 3, 8])], ["y", "h"], weights))


@pytest.mark.parametrize(("op_type", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_cell_is_one_product_over_all_steps_and_one_per_step(op_type: str, gates: int) -> None:
    first, second = cell(op_type, gates).mac_ops()
    assert (first.name, first.sizes, first.count) == ("cell/input", {"M": 30, "N": gates * 16, "K": 8}, 1)
    assert (second.name, second.sizes, second.count) == ("cell/recurrent", {"M": 3, "N": gates * 16, "K": 16}, 10)
    (work,) = cell(op_type, gates).vector_ops()
    assert (work.elements, work.count) == (3 * gates * 16, 10)


def test_both_directions_share_the_input() -> None:
    workload = cell("LSTM", 4, directions=2, direction="bidirectional")
    first, second = workload.mac_ops()
    assert (first.sizes["N"], second.count) == (2 * 64, 20)
    assert workload.macs == 10 * 3 * 2 * (64 * 8 + 64 * 16)


def test_batch_first_cell_has_the_same_products() -> None:
    first, second = cell("LSTM", 4, layout=1).mac_ops()
    assert (first.sizes["M"], second.sizes["M"], second.count) == (30, 10, 3)


def conv(shape: list[int], weight: list[int], **attributes: Any) -> Op:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", **attributes)
    return only_op(load(model([node], [tensor("x", shape)], ["y"], [weightless("w", weight)])))


def test_conv_has_the_notations_form() -> None:
    op = conv([2, 8, 30, 30], [16, 4, 3, 3], group=2, strides=[2, 2], dilations=[1, 2], pads=[1, 1, 1, 1])
    notation = "conv:B=2,G=2,K=8,C=4,OY=15,OX=14,FY=3,FX=3,stride=2,dilation_x=2,datatype=fp32"
    (same,) = load_workload(notation).mac_ops()
    assert (op.dims, op.tensors, op.datatype) == (same.dims, same.tensors, same.datatype)


def test_gemm_has_the_notations_form() -> None:
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], name="fc", transB=1)
    weights = [weightless("w", [10, 64]), weightless("b", [10])]
    workload = load(model([node], [tensor("x", [4, 64])], ["y"], weights))
    (same,) = load_workload("gemm:M=4,N=10,K=64,datatype=fp32").mac_ops()
    assert (only_op(workload).dims, only_op(workload).tensors) == (same.dims, same.tensors)
    assert list(workload.vector_ops()) == []


def test_gemm_that_adds_a_matrix_is_also_vector_work() -> None:
    node = helper.make_node("Gemm", ["x", "w", "c"], ["y"], name="fc")
    inputs = [tensor("x", [4, 64]), tensor("c", [4, 10])]
    (op,) = load(model([node], inputs, ["y"], [weightless("w", [64, 10])])).vector_ops()
    assert (op.name, sum(n for _, n in op.read_bytes)) == ("fc/add", 2 * 160)


def test_depthwise_conv_has_one_channel_per_group() -> None:
    op = conv([1, 32, 10, 10], [32, 1, 3, 3], group=32)
    assert (op.sizes["G"], op.sizes["K"], op.sizes["C"], op.macs) == (32, 1, 1, 32 * 64 * 9)


def test_conv_of_one_and_three_axes() -> None:
    assert [dim for dim, _ in conv([1, 4, 20], [8, 4, 5]).dims] == ["B", "G", "K", "C", "OX", "FX"]
    op = conv([1, 4, 6, 7, 8], [8, 4, 2, 3, 1])
    assert op.sizes == {"B": 1, "G": 1, "K": 8, "C": 4, "OZ": 5, "OY": 5, "OX": 8, "FZ": 2, "FY": 3, "FX": 1}


def test_transposed_conv_slides_over_its_output() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], name="up", strides=[2, 2])
    op = only_op(load(model([node], [tensor("x", [1, 8, 5, 5])], ["y"], [weightless("w", [8, 4, 3, 3])])))
    assert op.sizes == {"B": 1, "G": 1, "K": 4, "C": 8, "IY": 5, "IX": 5, "FY": 3, "FX": 3}
    assert axes_of(op, "O")[3] == (("IY", 2), ("FY", 1))
    assert op.elements(op.output) == 4 * 11 * 11
    assert axes_of(op, "I")[3] == (("IY", 1),)


def test_conv_over_four_axes_is_left_out_with_its_macs() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    network = model([node], [tensor("x", [1, 2, 4, 4, 4, 4])], ["y"], [weightless("w", [3, 2, 2, 2, 2, 2])])
    (missing,) = load(network).unmodelled
    assert (missing.macs, missing.reason) == (3 * 81 * 2 * 16, "a convolution over 4 axes; 1 to 3 are modelled")


def test_einsum_of_three_is_left_out_with_its_macs() -> None:
    node = helper.make_node("Einsum", ["a", "b", "c"], ["y"], name="e", equation="ij,jk,kl->il")
    network = model([node], [tensor("a", [2, 3]), tensor("b", [3, 4]), tensor("c", [4, 5])], ["y"])
    (missing,) = load(network).unmodelled
    assert missing.macs == 2 * (2 * 3 * 4 * 5)


def test_deformable_conv_is_left_out_with_its_macs() -> None:
    node = helper.make_node("DeformConv", ["x", "w", "o"], ["y"], name="deform")
    inputs = [tensor("x", [1, 4, 6, 6]), tensor("o", [1, 18, 4, 4])]
    (missing,) = load(model([node], inputs, ["y"], [weightless("w", [8, 4, 3, 3])], opset=19)).unmodelled
    assert (missing.macs, missing.reason) == (8 * 16 * 4 * 9, "its input positions depend on data")
