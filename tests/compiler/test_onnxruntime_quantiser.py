"""Networks as onnxruntime's own quantisation tool writes them, in every format that users choose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tileloom.archdsl import SpatialArch, load_arch
from tileloom.compiler import compile_network

from .compiled import run_functional
from .reference import run_onnx

SHAPE = (1, 3, 16, 16)


def real_network() -> ModelProto:
    """Convolutions, one of them depthwise, a residual addition, functions, a mean, a Gemm: in real numbers."""
    rng = np.random.default_rng(0)
    weights: list[TensorProto] = []
    nodes: list[NodeProto] = []

    def add(name: str, values: Any) -> str:
        weights.append(numpy_helper.from_array(np.asarray(values, np.float32), name))
        return name

    def conv(source: str, channels: tuple[int, int], kernel: int, groups: int = 1, stride: int = 1) -> str:
        name, shape = f"conv{len(nodes)}", (channels[1], channels[0] // groups, kernel, kernel)
        spread = (2 / (shape[1] * kernel * kernel)) ** 0.5
        inputs = [
            source,
            add(f"{name}_w", rng.normal(0, spread, shape)),
            add(f"{name}_b", rng.normal(0, 0.1, shape[0])),
        ]
        nodes.append(
            helper.make_node(
                "Conv", inputs, [name], name=name, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                pads=[kernel // 2] * 4, group=groups,
            )
        )  # fmt: skip
        return name

    def apply(op_type: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op_type.lower()}{len(nodes)}"
        nodes.append(helper.make_node(op_type, inputs, [name], name=name, **attributes))
        return name

    first = apply("Relu", conv("x", (3, 8), 3, stride=2))
    second = conv(apply("Relu", conv(first, (8, 8), 3, groups=8)), (8, 8), 1)
    value = apply("Relu", apply("Add", first, second))
    value = apply("Concat", value, apply("Sigmoid", conv(value, (8, 4), 1)), axis=1)
    value = apply("Flatten", apply("GlobalAveragePool", value))
    value = apply("Gemm", value, add("w", rng.normal(0, 0.3, (10, 12))), add("b", rng.normal(0, 0.1, 10)), transB=1)
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, (1, 10))], weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("activations", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
def test_network_compiles_and_agrees(form: str, activations: str, per_channel: bool, tmp_path: Path) -> None:
    tool: Any = pytest.importorskip("onnxruntime.quantization")  # it carries no types
    rng = np.random.default_rng(1)
    samples = iter([{"x": rng.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(8)])

    class Samples(tool.CalibrationDataReader):
        def get_next(self) -> Any:
            return next(samples, None)

    (tmp_path / "real.onnx").write_bytes(real_network().SerializeToString())
    path = tmp_path / "quantised.onnx"
    tool.quantize_static(
        tmp_path / "real.onnx", path, Samples(), quant_format=getattr(tool.QuantFormat, form), per_channel=per_channel,
        activation_type=getattr(tool.QuantType, activations), weight_type=tool.QuantType.QInt8,
    )  # fmt: skip
    arch = load_arch("tpe_8x8")
    assert isinstance(arch, SpatialArch)
    network = compile_network(path, arch).network
    assert network is not None
    assert list(network.images) == ["program"]
    step = {float(symbol.scaling.scale) for symbol in network.images["program"].symbols("output") if symbol.scaling}
    for _ in range(5):
        inputs = {"x": rng.normal(0, 1, SHAPE).astype(np.float32)}
        (found,) = run_functional(network, inputs).values()
        (expected,) = run_onnx(path, inputs)
        assert np.abs(found - expected).max() <= 2.01 * max(
            step
        )  # one flip of a tie on the way makes two steps at most
        assert found.argmax() == expected.argmax()
