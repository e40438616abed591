"""Reading networks as modules of the `graph` dialect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tileloom.archdsl import WorkloadError
from tileloom.compiler.frontend.network import read_network
from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir.data import ConstantOp, InputOp

from .networks import FLOAT, constant, model, tensor, weightless


def test_weights_of_any_size_are_kept() -> None:
    weights = np.random.default_rng(0).normal(size=(100, 60)).astype(np.float32)
    network = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")], [tensor("x", ["batch", 100])], ["y"],
        [constant("w", weights)],
    )  # fmt: skip
    module, store = read_network(network)
    module.verify()
    (found,) = (op for op in module.body.block.ops if isinstance(op, ConstantOp))
    assert np.array_equal(found.array(store), weights)
    source = np.ones((1, 100), np.float32)  # an open batch is 1
    np.testing.assert_allclose(interpret(module, store, {"x": source})["y"], source @ weights, rtol=1e-5)


def test_weights_in_other_files_are_read(tmp_path: Path) -> None:
    weights = np.arange(6000, dtype=np.float32).reshape(60, 100)
    network = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", [2, 60])], ["y"], [constant("w", weights)]
    )
    package: Any = onnx  # the types of its functions are open
    package.save(network, str(tmp_path / "net.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    module, store = read_network(tmp_path / "net.onnx")
    (found,) = (op for op in module.body.block.ops if isinstance(op, ConstantOp))
    assert np.array_equal(found.array(store), weights)


def test_missing_weights_are_named() -> None:
    network = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("x", [2, 60])], ["y"], [weightless("w", [60, 100])]
    )
    with pytest.raises(WorkloadError, match="w: w .60, 100. has no elements; put the files with the weights"):
        read_network(network)


def test_sizes_are_given_by_name() -> None:
    network = model([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", ["batch", "length"])], ["y"])
    module, _ = read_network(network, shapes={"length": 7})
    (source,) = (op for op in module.body.block.ops if isinstance(op, InputOp))
    assert "tensor<1x7xf32>" in str(source.result.type)


def test_four_bit_weights_are_kept_one_in_a_byte() -> None:
    packed = helper.make_tensor("w", TensorProto.INT4, [2, 3], [-8, 7, 0, 1, -1, 2])
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s"], ["d"]), helper.make_node("MatMul", ["x", "d"], ["y"])
    ]  # fmt: skip
    network = model(nodes, [tensor("x", [1, 2])], ["y"], [packed, constant("s", 0.5)], opset=21)
    module, store = read_network(network)
    found = next(op for op in module.body.block.ops if isinstance(op, ConstantOp) and "i4" in str(op.result.type))
    assert found.array(store).dtype == np.int8
    assert found.array(store).tolist() == [[-8, 7, 0], [1, -1, 2]]


def test_flow_of_control_that_depends_on_data_is_refused() -> None:
    branches = [
        helper.make_graph([helper.make_node(op, ["x"], [op])], op, [], [tensor(op, [2])]) for op in ("Relu", "Tanh")
    ]
    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branches[0], else_branch=branches[1])
    network = model([node], [tensor("x", [2], FLOAT), tensor("c", [], int(TensorProto.BOOL))], ["y"])
    with pytest.raises(WorkloadError, match="choice: If: its flow of control depends on data"):
        read_network(network)
