"""What is left to the host, and what is said about it."""

from __future__ import annotations

import pytest
from onnx import ModelProto

from tileloom.archdsl import CompileError, PassError
from tileloom.compiler.host import Place, host_ops
from tileloom.compiler.ir.store import DataStore
from tileloom.compiler.passes.base import PassContext
from tileloom.compiler.passes.check_host_ops import CheckHostOps
from tileloom.compiler.pipeline import lower_network

from .qdq import Network


def normalised(op_type: str = "LogSoftmax") -> ModelProto:
    """A float input, a product, something for the host, a function, a float output."""
    net = Network()
    value = net.requantize(net.input((2, 8), "float32"), 0.1)
    value = net.requantize(net.node("MatMul", [value, net.kernel((8, 8))]), 0.2)
    value = net.requantize(net.node(op_type, [value]), 0.01)
    return net.model(net.requantize(net.node("Tanh", [value]), 0.01))


def test_places_are_told_apart() -> None:
    module, _ = lower_network(normalised())
    found = [(host.op.op_type, host.place) for host in host_ops(module)]
    between = [(op_type, Place.BETWEEN) for op_type in ("DequantizeLinear", "LogSoftmax", "QuantizeLinear")]
    assert found == [("QuantizeLinear", Place.BEFORE), *between, ("DequantizeLinear", Place.AFTER)]


def test_op_in_the_middle_is_refused_by_name() -> None:
    module, _ = lower_network(normalised())
    with pytest.raises(CompileError) as error:
        CheckHostOps().run(module, PassContext(store=DataStore()))
    assert str(error.value).startswith(
        "LogSoftmax_6: LogSoftmax (operator set 17) has no form on the array\nsupported between"
    )
    assert str(error.value).endswith("or run them on the host with --fallback")


def test_reason_of_an_op_that_cannot_be_converted_is_given() -> None:
    net = Network()
    value = net.requantize(net.node("Conv", [net.real_input((1, 2, 4, 4, 4)), net.kernel((3, 2, 1, 1, 1))]), 0.1)
    value = net.node("Transpose", [value], perm=[0, 1, 3, 2, 4])
    value = net.node("Transpose", [net.requantize(net.node("Tanh", [value]), 0.1)])
    module, _ = lower_network(net.model(value))
    (conv,) = (host for host in host_ops(module) if host.op.op_type == "Conv")
    assert "its input has 5 axes; supported are images [N, C, H, W] of known size" in str(conv)


def test_network_of_real_numbers_is_apart() -> None:
    net = Network()
    module, _ = lower_network(net.model(net.node("Relu", [net.input((2, 3), "float32")])))
    assert [host.place for host in host_ops(module)] == [Place.APART]
    with pytest.raises(PassError, match="nothing of the network is quantised to 8 bits"):
        CheckHostOps().run(module, PassContext(store=DataStore()))
