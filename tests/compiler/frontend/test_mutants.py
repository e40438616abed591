"""Damaged networks: whatever is wrong, the answer is an import or a `WorkloadError`, never another exception."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from onnx import AttributeProto, ModelProto, NodeProto, helper

from tileloom.archdsl import WorkloadError
from tileloom.compiler import generate_network
from tileloom.compiler.frontend.flattening import flatten
from tileloom.compiler.frontend.importer import build_workload
from tileloom.compiler.frontend.reading import parse_model

from .networks import BOOL, INT64, constant, model, tensor, weightless

NUM_MUTANTS = 150
OPERATORS = [
    "Attention", "Concat", "Constant", "ConstantOfShape", "Conv", "ConvTranspose", "DequantizeLinear", "Einsum", "Gather",
    "Gemm", "GRU", "If", "Loop", "LSTM", "MatMul", "Pad", "QLinearConv", "QuantizeLinear", "Resize", "RoiAlign", "Scan",
    "Slice", "Split", "TopK", "Transpose",
]  # fmt: skip


def varied_network() -> ModelProto:
    """Convolution, pooling, recurrence and control flow in one graph."""
    body = helper.make_graph(
        [helper.make_node("Relu", ["h"], ["h2"]), helper.make_node("Identity", ["c"], ["c2"])],
        "body",
        [tensor("i", [], INT64), tensor("c", [], BOOL), tensor("h", [1, 6, 4, 4])],
        [tensor("c2", [], BOOL), tensor("h2", None)],
    )
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], pads=[1, 1, 1, 1], strides=[1, 1], group=1),
        helper.make_node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Loop", ["trips", "", "b"], ["d"], body=body),
        helper.make_node("Reshape", ["d", "shape"], ["e"]),
        helper.make_node("LSTM", ["e", "w", "r"], ["f"], hidden_size=5),
        helper.make_node("Transpose", ["f"], ["g"], perm=[3, 0, 1, 2]),
        helper.make_node("ReduceSum", ["g", "axes"], ["y"], keepdims=0),
    ]
    weights = [constant("trips", 3, "int64"), constant("shape", [4, 1, 24], "int64"), constant("axes", [0], "int64")]
    weights += [weightless("k", [6, 3, 3, 3]), weightless("w", [1, 20, 24]), weightless("r", [1, 20, 5])]
    return model(nodes, [tensor("x", [1, 3, 8, 8])], ["y"], weights)


def drop_attribute(rng: Random, network: ModelProto, node: NodeProto) -> None:
    if node.attribute:
        del node.attribute[rng.randrange(len(node.attribute))]


def drop_input(rng: Random, network: ModelProto, node: NodeProto) -> None:
    if node.input:
        del node.input[rng.randrange(len(node.input))]


def blank_input(rng: Random, network: ModelProto, node: NodeProto) -> None:
    if node.input:
        node.input[rng.randrange(len(node.input))] = ""


def drop_outputs(rng: Random, network: ModelProto, node: NodeProto) -> None:
    del node.output[rng.randint(0, len(node.output)) :]


def change_operator(rng: Random, network: ModelProto, node: NodeProto) -> None:
    node.op_type = rng.choice(OPERATORS)


def change_attribute(rng: Random, network: ModelProto, node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.INTS and attribute.ints:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice([-5, 0, 1, 3, 10**12])
        elif attribute.type == AttributeProto.INT:
            attribute.i = rng.choice([-3, 0, 1, 2, 5])


def resize_weight(rng: Random, network: ModelProto, node: NodeProto) -> None:
    weight = rng.choice(network.graph.initializer)
    if weight.dims:
        weight.dims[rng.randrange(len(weight.dims))] = rng.choice([0, 1, 2, 7, -1, 10**12])


def resize_input(rng: Random, network: ModelProto, node: NodeProto) -> None:
    for dim in rng.choice(network.graph.input).type.tensor_type.shape.dim:
        if rng.random() < 0.3:
            dim.dim_value = rng.choice([0, 1, 2, 5, -3, 10**12])


def change_version(rng: Random, network: ModelProto, node: NodeProto) -> None:
    network.opset_import[0].version = rng.randint(1, 20)


MUTATIONS: list[Callable[[Random, ModelProto, NodeProto], None]] = [
    drop_attribute, drop_input, blank_input, drop_outputs, change_operator, change_attribute, resize_weight,
    resize_input, change_version,
]  # fmt: skip


def try_import(data: bytes) -> bool:
    """Whether it imports."""
    try:
        workload = build_workload(flatten(parse_model(data, "net.onnx"), "net.onnx"), "net.onnx")
    except WorkloadError as error:
        assert str(error).startswith("net.onnx: ")
        return False
    assert workload.macs >= 0
    return True


@pytest.mark.parametrize("name", ["varied", "transformer_block"])
def test_mutant_imports_or_says_what_is_wrong(name: str) -> None:
    small = {"hidden": "32", "heads": "4", "seq": "6"}
    original = (varied_network() if name == "varied" else generate_network(name, small)).SerializeToString()
    assert try_import(original)
    rng = Random(2024)
    outcomes: set[bool] = set()
    for _ in range(NUM_MUTANTS):
        network = ModelProto.FromString(original)
        for _ in range(rng.randint(1, 3)):
            rng.choice(MUTATIONS)(rng, network, rng.choice(network.graph.node))
        outcomes.add(try_import(network.SerializeToString()))
    assert outcomes == {True, False}


def test_damaged_bytes_import_or_say_what_is_wrong() -> None:
    original = varied_network().SerializeToString()
    rng = Random(2024)
    outcomes: set[bool] = set()
    for _ in range(NUM_MUTANTS):
        data = bytearray(original)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        outcomes.add(try_import(bytes(data)))
    assert outcomes == {True, False}
