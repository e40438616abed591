"""Whole networks lowered to integers, against onnxruntime; a small residual one is made here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tileloom.archdsl import PassError
from tileloom.compiler.host import Place, host_ops
from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.passes.base import PassContext
from tileloom.compiler.passes.check_host_ops import CheckHostOps
from tileloom.compiler.pipeline import lower_network

from .qdq import KERNEL_SCALE, Array, Network, check_against_onnxruntime, random_inputs
from .reference import run_onnx

TINY = ("autoencoder_ad_int8", "dscnn_kws_int8", "mobilenet_v1_025_vww_int8", "resnet8_int8")
TIES = {"resnet8_int8": 0.05}
"""Share of outputs that may differ by more than one step. ResNet-8 ends in means of 64 integers with the scale of its input:
1.4 % of them lie halfway between two integers, where the rounding errors of onnxruntime's float sums decide, and Softmax
makes several steps of one."""


def residual_network() -> ModelProto:
    """The shape of ResNet-8: three stages of two convolutions with a sum, a mean and a product."""
    net = Network(13, seed=5)

    def conv(source: tuple[str, float], channels: tuple[int, int], size: int, stride: int) -> str:
        weights = net.kernel((channels[1], channels[0], size, size))
        inputs = [source[0], weights, net.bias(channels[1], source[1] * KERNEL_SCALE)]
        return net.node("Conv", inputs, strides=[stride] * 2, pads=[size // 2] * 4, kernel_shape=[size, size])

    def quantised(value: str, scale: float, zero: int) -> tuple[str, float]:
        return net.requantize(value, scale, zero), scale

    image = net.dequantize(net.input((1, 3, 16, 16)), 0.0213, -1), 0.0213
    value = quantised(net.node("Relu", [conv(image, (3, 8), 3, 1)]), 0.0417, -128)
    for channels, stride in (((8, 8), 1), ((8, 16), 2), ((16, 32), 2)):
        first = quantised(net.node("Relu", [conv(value, channels, 3, stride)]), value[1] * 6.13, -128)
        second = quantised(conv(first, (channels[1], channels[1]), 3, 1), value[1] * 43.7, 4)
        other = value if stride == 1 else quantised(conv(value, channels, 1, stride), value[1] * 2.87, -11)
        value = quantised(net.node("Relu", [net.node("Add", [other[0], second[0]])]), value[1] * 21.3, -128)
    value = quantised(net.node("GlobalAveragePool", [value[0]]), value[1] * 0.513, -128)
    product = net.node("MatMul", [net.node("Flatten", [value[0]]), net.kernel((32, 10))])
    logits = net.node("Add", [product, net.bias(10, value[1] * KERNEL_SCALE)])
    logits = net.requantize(logits, value[1] * 5.17, 3)
    softened = net.node("Mul", [logits, net.constant(0.01 / value[1])])  # or Softmax makes many steps of one
    return net.model(net.quantize(net.node("Softmax", [softened]), 1 / 256, -128))


def test_residual_network_equals_onnxruntime() -> None:
    module = check_against_onnxruntime(residual_network(), runs=20, equal=0.97, host=["Mul", "Softmax"])
    assert sum(op.name == "qnn.transpose" for op in module.body.block.ops) == 1  # of the input, channels first
    assert {host.place for host in host_ops(module)} == {Place.AFTER}
    with pytest.raises(PassError, match="Mul_72: Mul"):  # real numbers are multiplied behind the array: only if asked
        CheckHostOps().run(module, PassContext(store=DataStore()))


@pytest.mark.parametrize("name", TINY)
def test_tiny_network_equals_onnxruntime(name: str, shared_data: Path) -> None:
    path = shared_data / "mlperf_tiny" / f"{name}.onnx"
    module, store = lower_network(path)
    far = total = 0
    rng = np.random.default_rng(0)
    for _ in range(20):
        inputs = random_inputs(module, rng)
        (found,) = interpret(module, store, inputs).values()
        (expected,) = run_onnx(path, inputs)
        distance = np.abs(found.astype(np.int64) - expected.astype(np.int64))
        far, total = far + int(np.count_nonzero(distance > 1)), total + distance.size
        assert np.array_equal(found.argmax(axis=-1), expected.argmax(axis=-1))
    assert far <= max(TIES.get(name, 0.0), 0.001) * total
    CheckHostOps().run(module, PassContext(store=DataStore()))


@pytest.mark.parametrize("name", TINY)
def test_every_layer_of_a_tiny_network_equals_onnxruntime(name: str, shared_data: Path) -> None:
    path = shared_data / "mlperf_tiny" / f"{name}.onnx"
    module, store = lower_network(path)
    inputs = random_inputs(module, np.random.default_rng(1))
    values: dict[SSAValue, Array] = {}
    interpret(module, store, inputs, values=values)
    expected = quantised_values(path, inputs)
    checked = 0
    for node, found in layers(module, values):
        reference = expected[node]
        if found.ndim == 4 and found.shape != reference.shape:
            reference = reference.transpose(0, 2, 3, 1)
        distance = np.abs(found.astype(np.int64) - reference.reshape(found.shape).astype(np.int64))
        assert distance.max() <= 2, node
        # one mean of 64 numbers that lies halfway is a larger share of a small layer
        assert np.count_nonzero(distance) <= max(0.001 * distance.size, 3), node
        checked += 1
    assert checked >= 10


def layers(module: ModuleOp, values: dict[SSAValue, Array]) -> list[tuple[str, Array]]:
    """The node that quantises each product, sum and pool of a module, and what the op made."""
    kinds = ("qnn.conv2d", "qnn.depthwise_conv2d", "qnn.matmul", "qnn.add", "qnn.pool2d")
    found = [(op, [str(name.data) for name in op.nodes]) for op in module.body.block.ops if op.name in kinds]  # pyright: ignore
    return [(nodes[-1], values[op.results[0]]) for op, nodes in found]


def quantised_values(path: Path, inputs: dict[str, Array]) -> dict[str, Array]:
    """What onnxruntime's quantising nodes make, by their names."""
    model = onnx.ModelProto.FromString(path.read_bytes())
    given = {output.name for output in model.graph.output}
    nodes = {node.output[0]: node.name for node in model.graph.node if node.op_type == "QuantizeLinear"}
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in nodes if name not in given)
    order = [output.name for output in model.graph.output]
    results = run_onnx(model, inputs)
    return {nodes[name]: array for name, array in zip(order, results, strict=True) if name in nodes}


def test_residual_network_with_functions_equals_onnxruntime(shared_data: Path) -> None:
    path = shared_data / "onnx" / "resnet_tiny_qdq_int8.onnx"
    module, store = lower_network(path)
    CheckHostOps().run(module, PassContext(store=DataStore()))
    inputs = random_inputs(module, np.random.default_rng(0))
    (found,) = interpret(module, store, inputs).values()
    (expected,) = run_onnx(path, inputs)
    step = 0.0018135499
    assert np.abs(found - expected).max() <= 1.01 * step
