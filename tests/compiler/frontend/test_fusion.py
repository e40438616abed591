"""Joining element-wise nodes to products: what is still moved, and what stops a chain."""

from __future__ import annotations

from typing import Any

from onnx import ModelProto, NodeProto, helper

from tileloom.archdsl import Workload
from tileloom.compiler import load_workload, summarize_workload

from .networks import INT8, constant, load, model, tensor, weightless

W = [weightless("w", [8, 6]), weightless("v", [8, 6]), weightless("bias", [6])]
SIZE = 4 * 6 * 4  # bytes of a product's result


def node(op_type: str, inputs: list[str], out: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op_type, inputs, [out], name=out, **attributes)


def network(nodes: list[NodeProto], *outputs: str) -> ModelProto:
    return model(nodes, [tensor("x", [4, 8]), tensor("r", [4, 6])], list(outputs), W)


def traffic(workload: Workload) -> dict[str, int]:
    """Compulsory bytes per op."""
    return {row.name: row.bytes for row in summarize_workload(workload).rows}


def test_bias_and_activation_join_the_product() -> None:
    nodes = [node("MatMul", ["x", "w"], "mm"), node("Add", ["mm", "bias"], "sum"), node("Relu", ["sum"], "y")]
    apart, together = load(network(nodes, "y")), load(network(nodes, "y"), fuse=True)
    product = (4 * 8 + 8 * 6) * 4 + SIZE
    assert traffic(apart) == {"mm": product, "sum": 2 * SIZE + 24, "y": 2 * SIZE}
    assert traffic(together) == {"mm": product, "sum": 24, "y": 0}
    assert [op.passes for op in together.vector_ops()] == [1, 1]
    assert together.notices == ("fusion: 2 element-wise nodes are joined to the product before them",)
    assert together.macs == apart.macs


def test_residual_addition_joins_the_later_product_and_reads_the_other() -> None:
    nodes = [node("MatMul", ["x", "w"], "a"), node("MatMul", ["x", "v"], "b"), node("Add", ["a", "b"], "y")]
    (add,) = load(network(nodes, "y"), fuse=True).vector_ops()
    assert (add.read_bytes, add.write_bytes) == ((("a", SIZE),), ())


def test_second_reader_stops_the_chain() -> None:
    nodes = [node("MatMul", ["x", "w"], "mm"), node("Relu", ["mm"], "y"), node("Exp", ["mm"], "z")]
    assert load(network(nodes, "y", "z"), fuse=True) == load(network(nodes, "y", "z"))


def test_returned_result_stops_the_chain() -> None:
    nodes = [node("MatMul", ["x", "w"], "mm"), node("Relu", ["mm"], "y")]
    assert load(network(nodes, "y", "mm"), fuse=True) == load(network(nodes, "y", "mm"))


def test_softmax_stops_the_chain() -> None:
    nodes = [node("MatMul", ["x", "w"], "mm"), node("Softmax", ["mm"], "s"), node("Relu", ["s"], "y")]
    assert load(network(nodes, "y"), fuse=True) == load(network(nodes, "y"))


def test_broadcast_to_a_larger_tensor_stops_the_chain() -> None:
    nodes = [node("Slice", ["x", "s", "e"], "row"), node("MatMul", ["row", "w"], "mm"), node("Add", ["mm", "r"], "y")]
    made = network(nodes, "y")
    made.graph.initializer.extend([constant("s", [0], "int64"), constant("e", [1], "int64")])
    assert load(made, fuse=True) == load(made)


def test_chain_writes_the_width_of_its_last_tensor() -> None:
    nodes = [node("MatMul", ["x", "w"], "mm"), node("Cast", ["mm"], "y", to=10)]
    (product,) = load(network(nodes, "y"), fuse=True).mac_ops()
    assert product.output.bits == 16


def test_views_and_quantisation_do_not_stop_the_chain() -> None:
    weights = [
        weightless("w8", [8, 6], INT8),
        constant("s", 0.1),
        constant("z", 0, "int8"),
        constant("t", [24], "int64"),
    ]
    nodes = [
        node("DequantizeLinear", ["x8", "s", "z"], "x"),
        node("DequantizeLinear", ["w8", "s", "z"], "w"),
        node("MatMul", ["x", "w"], "mm"),
        node("QuantizeLinear", ["mm", "s", "z"], "mm8"),
        node("DequantizeLinear", ["mm8", "s", "z"], "mmf"),
        node("Reshape", ["mmf", "t"], "flat"),
        node("Relu", ["flat"], "active"),
        node("QuantizeLinear", ["active", "s", "z"], "y"),
    ]
    workload = load(model(nodes, [tensor("x8", [4, 8], INT8)], ["y"], weights, opset=21), fuse=True)
    assert traffic(workload) == {"mm": 32 + 48 + 24, "active": 0}


def test_fusion_never_adds_traffic_nor_changes_work() -> None:
    for name in ("onnx:resnet50", "onnx:inception_v2", "onnx:shufflenet", "transformer_block"):
        apart, together = load_workload(name), load_workload(f"{name}:fuse=1")
        assert summarize_workload(together).bytes < summarize_workload(apart).bytes
        assert together.macs == apart.macs
        assert [op.name for op in together.ops] == [op.name for op in apart.ops]


def test_resnet50_joins_every_node_between_convolutions() -> None:
    # 53 normalisations, 49 activations and 16 residual additions; pooling and softmax stay
    workload = load_workload("onnx:resnet50", fuse=True)
    assert workload.notices[-1] == "fusion: 118 element-wise nodes are joined to the product before them"
    assert {op.kind for op in workload.vector_ops() if op.write_bytes} == {"maxpool", "averagepool", "softmax"}
