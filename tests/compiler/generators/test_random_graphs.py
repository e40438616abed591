"""Random graphs are valid, run, cover what they promise, and their outputs are not saturated."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest
from onnx import ModelProto, helper

from tileloom.compiler.generators import random_quantised_graph

from ..reference import check_onnx, random_inputs, run_onnx

OPERATORS = {
    "Add", "AveragePool", "Clip", "Concat", "Conv", "DequantizeLinear", "Flatten", "Gemm", "GlobalAveragePool", "HardSigmoid",
    "HardSwish", "LeakyRelu", "MatMul", "MaxPool", "Mul", "Pad", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Relu",
    "Reshape", "Sigmoid", "Slice", "Sub", "Tanh", "Transpose",
}  # fmt: skip


@cache
def generated() -> tuple[ModelProto, ...]:
    """Enough of them for every operator; generation takes 6 ms each."""
    return tuple(map(random_quantised_graph, range(120)))


def check_graph(model: ModelProto) -> list[float]:
    """Checks one graph; returns the share of the largest integer in every output."""
    check_onnx(model)
    outputs = run_onnx(model, random_inputs(model, 1))
    for output, value in zip(outputs, model.graph.output, strict=True):
        assert list(output.shape) == [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return [float((output == np.iinfo(output.dtype).max).mean()) for output in outputs if output.size > 16]


def test_graphs_are_valid_and_not_saturated() -> None:
    shares = [share for model in generated()[:30] for share in check_graph(model)]
    assert sum(shares) / len(shares) < 0.05
    assert sum(share > 0.3 for share in shares) <= 0.05 * len(shares)


@pytest.mark.slow
def test_many_graphs_are_valid_and_not_saturated() -> None:
    shares = [share for seed in range(30, 500) for share in check_graph(random_quantised_graph(seed))]
    assert sum(shares) / len(shares) < 0.05
    assert sum(share > 0.3 for share in shares) <= 0.05 * len(shares)


def test_every_operator_form_and_type_comes_up() -> None:
    models = generated()
    assert {node.op_type for model in models for node in model.graph.node} == OPERATORS
    versions = Counter(model.opset_import[0].version for model in models)
    assert set(versions) == set(range(10, 22))
    types = Counter(
        helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type).name for model in models
    )
    assert set(types) == {"int8", "uint8"} and types["int8"] > types["uint8"]
    scales = {
        len(tensor.dims) for model in models for tensor in model.graph.initializer if tensor.name.startswith("scale")
    }
    assert scales == {0, 1}


def test_windows_are_of_all_kinds() -> None:
    windows = [
        {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        for model in generated()
        for node in model.graph.node
        if node.op_type in ("Conv", "QLinearConv")
    ]
    assert {size for window in windows for size in window["kernel_shape"]} == {1, 2, 3, 4, 5}
    assert any(window["strides"][0] != window["strides"][1] for window in windows)
    assert any(2 in window["dilations"] for window in windows)
    assert any(window["pads"][:2] != window["pads"][2:] for window in windows)
    assert len({window["group"] for window in windows}) > 4


def test_nothing_is_left_unread() -> None:
    for model in generated():
        read = {name for node in model.graph.node for name in node.input} | {value.name for value in model.graph.output}
        assert all(set(node.output) <= read for node in model.graph.node)
        assert {tensor.name for tensor in model.graph.initializer} <= read


def test_seed_alone_decides() -> None:
    assert random_quantised_graph(7).SerializeToString() == random_quantised_graph(7).SerializeToString()
