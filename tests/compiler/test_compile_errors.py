"""What does not compile: each case says which node, what is wrong, and what would mend it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, helper

from tileloom.archdsl import (
    Arch,
    ArchError,
    CompileError,
    InfeasibleError,
    PassError,
    ToolkitError,
    WorkloadError,
    load_arch,
)
from tileloom.compiler.compilation import CompileOptions, DumpOptions, compile_network
from tileloom.compiler.passes import convert_tile_to_pe

from .arrays import Overrides, arch_of
from .qdq import Network

ARRAY = arch_of(8, 8, 8)
FP8 = Path(__file__).parents[2] / "docs" / "examples" / "archs" / "tpe_8x8_fp8.yaml"
Middle = Callable[[Network, str], str]


def conv(net: Network, value: str, channels: tuple[int, int], size: int = 3) -> str:
    """A quantised convolution that keeps the size of the image."""
    inputs = [value, net.kernel((channels[1], channels[0], size, size)), net.bias(channels[1])]
    made = net.node("Conv", inputs, kernel_shape=[size] * 2, pads=[size // 2] * 4)
    return net.requantize(made, 0.1, 2)


def network(middle: Middle | None = None, *, opset: int = 17, size: int = 3) -> ModelProto:
    """Two convolutions, with something between."""
    net = Network(opset)
    value = conv(net, net.real_input((1, 4, 8, 8)), (4, 8), size)
    if middle is not None:
        value = middle(net, value)
    return net.model(net.quantize(conv(net, value, (8, 8)), 0.1, 2))


def said(model: ModelProto | str | Path, error: type[ToolkitError] = PassError, arch: Arch = ARRAY) -> str:
    """What is said about a network that does not compile."""
    with pytest.raises(error) as caught:
        compile_network(model, arch)
    assert type(caught.value) is error
    return str(caught.value)


def between(op_type: str, *constants: npt.ArrayLike, **attributes: Any) -> Middle:
    """One node between the convolutions, with float constants."""

    def middle(net: Network, value: str) -> str:
        inputs = [value, *(net.constant(each) for each in constants)]
        return net.requantize(net.node(op_type, inputs, **attributes), 0.05, 1)

    return middle


# ---- Operators.


@pytest.mark.parametrize(
    ("middle", "node"),
    [
        (between("LRN", size=3), "LRN_6: LRN (operator set 17)"),
        (between("ConvTranspose", np.ones((8, 8, 3, 3))), "ConvTranspose_6: ConvTranspose (operator set 17)"),
        (between("LogSoftmax", axis=1), "LogSoftmax_6: LogSoftmax (operator set 17)"),
    ],
    ids=["LRN", "ConvTranspose", "LogSoftmax"],
)
def test_unsupported_operator_in_the_middle(middle: Middle, node: str) -> None:
    text = said(network(middle))
    assert f"{node} has no form on the array" in text
    assert "supported between int8 tensors: Conv, MatMul" in text
    assert "with --fallback" in text


def test_unsupported_operator_may_run_on_the_host() -> None:
    assert compile_network(network(between("LRN", size=3)), ARRAY, CompileOptions(fallback=True)).network is not None


def test_convolution_over_three_axes() -> None:
    net = Network()
    value = net.node("Conv", [net.real_input((1, 4, 6, 6, 6)), net.kernel((8, 4, 3, 3, 3))], kernel_shape=[3] * 3)
    text = said(net.model(net.quantize(value, 0.1)))
    assert "Conv_2: Conv" in text
    assert "its input has 5 axes; supported are images [N, C, H, W]" in text


def test_weights_that_do_not_fit_their_input() -> None:
    def middle(net: Network, value: str) -> str:
        return net.requantize(net.node("Conv", [value, net.kernel((8, 7, 3, 3))], kernel_shape=[3, 3]), 0.1)

    assert "Conv_7: Conv (operator set 17) has no form on the array: its weights [8, 7, 3, 3]" in said(network(middle))


def test_operator_set_of_the_future() -> None:
    assert "operator set 99 is newer than" in said(network(opset=99), WorkloadError)


def test_reshape_to_another_number_of_elements() -> None:
    def middle(net: Network, value: str) -> str:
        return net.node("Reshape", [value, net.constant([1, 8, 5, 16], "int64")])

    text = said(network(middle))
    assert "graph.reshape for ONNX node 'Reshape_6': the result is [1, 8, 5, 16]; the operand has 512" in text
    assert "export it again" in text


# ---- Quantisation.


def test_float_network() -> None:
    net = Network()
    net.inputs.append(helper.make_tensor_value_info("x", 1, [1, 4, 8, 8]))
    value = net.node("Conv", ["x", net.constant(np.ones((8, 4, 3, 3)))], kernel_shape=[3, 3])
    text = said(net.model(net.node("Relu", [value])))
    assert "Conv_0: Conv" in text
    assert "nothing of the network is quantised to 8 bits, so that nothing runs on the array: quantise it" in text


def test_one_float_layer() -> None:
    def middle(net: Network, value: str) -> str:
        return net.node("Conv", [value, net.constant(np.ones((8, 8, 1, 1)))], kernel_shape=[1, 1])

    text = said(network(middle))
    assert "Conv_6: Conv" in text
    assert "quantise the network" in text


def test_scale_that_is_computed() -> None:
    def middle(net: Network, value: str) -> str:
        scale = net.node("Div", [net.node("ReduceMax", [value], keepdims=0), net.constant(127.0)])
        return net.dequantize(net.node("QuantizeLinear", [value, scale, net.constant(0, "int8")]), 0.1)

    text = said(network(middle))
    assert "ReduceMax_6: ReduceMax" in text
    assert "or run them on the host with --fallback" in text


def test_dynamic_quantisation() -> None:
    def middle(net: Network, value: str) -> str:
        net.nodes.append(helper.make_node("DynamicQuantizeLinear", [value], ["q", "scale", "zero"], name="dynamic"))
        return net.node("DequantizeLinear", ["q", "scale", "zero"])

    assert "dynamic: DynamicQuantizeLinear" in said(network(middle))


def test_activation_with_a_scale_per_channel() -> None:
    def middle(net: Network, value: str) -> str:
        parameters = [net.constant(np.linspace(0.01, 0.1, 8)), net.constant(np.zeros(8), "int8")]
        quantised = net.node("QuantizeLinear", [value, *parameters], axis=1)
        return net.node("DequantizeLinear", [quantised, *parameters], axis=1)

    text = said(network(middle))
    assert "Conv_10: Conv" in text
    assert "no int8 behind a quantize_linear of one scale" in text


@pytest.mark.parametrize(("scale", "ratio"), [(-0.1, "-1.0"), (0.0, "inf"), (float("nan"), "nan")])
def test_scale_that_is_none(scale: float, ratio: str) -> None:
    text = said(network(lambda net, value: net.dequantize(net.quantize(value, scale), 0.1)))
    assert (
        f"DequantizeLinear_5: DequantizeLinear (operator set 17) has no form on the array: a ratio of scales is {ratio}"
        in text
    )
    assert "it must be from 0 to below 2147483648" in text


def test_activations_of_16_bits() -> None:
    net = Network(21)
    value = net.dequantize(net.input((1, 4, 8, 8), "int16"), 0.1, 0, "int16")
    made = net.node("Conv", [value, net.kernel((8, 4, 3, 3))], kernel_shape=[3, 3])
    text = said(net.model(net.quantize(made, 0.1)))
    assert "Conv_2: Conv" in text
    assert "its input are no int8" in text


# ---- Files and shapes.


def test_missing_weights() -> None:
    model = network()
    model.graph.initializer.pop(4)
    assert "DequantizeLinear_1: DequantizeLinear: input 'c6' is produced by no node" in said(model, WorkloadError)


def opened(**names: int) -> ModelProto:
    """A network whose input has open dims."""
    model = network()
    for name, axis in names.items():
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    return model


def test_open_dims_other_than_the_batch() -> None:
    text = said(opened(h=2, w=3), WorkloadError)
    assert "x0: axis 2 is open (dim 'h'); give its size with --shape 'h=VALUE'" in text
    assert "x0: axis 3 is open (dim 'w'); give its size with --shape 'w=VALUE'" in text


def test_open_batch_is_one() -> None:
    assert compile_network(opened(n=0), ARRAY).network is not None


def test_size_of_an_unknown_dim() -> None:
    with pytest.raises(WorkloadError, match="--shape hh: the network has no open dim of that name; did you mean 'h'"):
        compile_network(opened(h=2), ARRAY, shapes={"hh": 8})


def test_graph_without_nodes() -> None:
    graph = helper.make_graph([], "nothing", [], [])
    assert "graph 'nothing' has no nodes" in said(helper.make_model(graph, ir_version=10), WorkloadError)


def test_graph_with_a_cycle() -> None:
    model = network()
    model.graph.node[3].input[0] = model.graph.node[-1].output[0]
    text = said(model, WorkloadError)
    assert "nodes wait for each other's outputs" in text
    assert "Conv_3" in text


def test_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network().SerializeToString()[:200])
    assert said(path, WorkloadError) == (
        f"{path}: 200 bytes that are not an ONNX model, or one cut short; export or download it again"
    )


def test_dump_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "01-some-pass.mlir"
    path.write_text("garbage {")
    with pytest.raises(CompileError, match="not a module of the IR.*dump it again, or mend this line"):
        compile_network("", ARRAY, dumps=DumpOptions(resume_from=path))


def test_pass_that_is_none() -> None:
    with pytest.raises(CompileError, match="no pass of that name; did you mean 'convert-qnn-to-tile'"):
        compile_network(network(), ARRAY, dumps=DumpOptions(stop_after="convert-qnn-to-tle"))


# ---- Architectures.


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("h100_sxm", "h100_sxm is no tensor PE array: it is a GPU; start from the preset tpe_16x16"),
        ("ref16", "ref16 is no tensor PE array: it has no `control`; start from the preset tpe_16x16"),
        (str(FP8), "tpe_8x8_fp8: its elements are e4m3; networks compile for int8"),
    ],
    ids=["GPU", "other dataflow", "floats"],
)
def test_architecture_that_is_no_integer_pe_array(name: str, cause: str) -> None:
    assert cause in said(network(), ArchError, load_arch(name))


def infeasible(model: ModelProto, overrides: Overrides) -> InfeasibleError:
    """Why a network does not fit an 8 x 8 array with some changes."""
    with pytest.raises(InfeasibleError) as caught:
        compile_network(model, arch_of(8, 8, 8, overrides))
    return caught.value


def test_scratchpad_too_small_for_a_window() -> None:
    net = Network()
    pooled = net.node("AveragePool", [net.real_input((1, 8, 16, 16))], kernel_shape=[16, 16])
    model = net.model(net.quantize(pooled, 0.05))
    error = infeasible(model, {"parameters.scratchpad": "1 KiB"})
    assert str(error) == (
        "AveragePool_1, QuantizeLinear_2: scratchpad capacity: needs 2,048 bytes, has 1,024 bytes\n"
        "  would fit: a scratchpad of 2 KiB; 1,024 bytes are missing"
    )


def test_scratchpad_too_small_for_a_convolution() -> None:
    error = infeasible(network(size=7), {"parameters.scratchpad": "256 B"})
    assert (error.infeasible.op, error.infeasible.resource) == ("Conv_3, QuantizeLinear_4", "scratchpad capacity")
    assert error.infeasible.terms == (("inputs of one output", 448), ("weights", 128))
    assert error.infeasible.levers == ("a scratchpad of 1 KiB; 320 bytes are missing",)


def test_scratchpad_too_small_for_a_tensor_that_moves() -> None:
    def middle(net: Network, value: str) -> str:
        return net.node("Reshape", [value, net.constant([1, 8, 4, 16], "int64")])

    error = infeasible(network(middle), {"parameters.scratchpad": "512 B"})
    assert error.infeasible.levers == ("a scratchpad of 1 KiB; 512 bytes are missing",)
    assert error.infeasible.op == "Conv_3, QuantizeLinear_4"


def test_what_would_fit_does_fit() -> None:
    overrides = {"parameters.scratchpad": "1 KiB"}
    assert compile_network(network(size=7), arch_of(8, 8, 8, overrides)).network is not None


def test_accumulators_too_narrow_for_a_sum() -> None:
    error = infeasible(network(), {"hierarchy.mac.datatypes.int8.accumulator_bits": 18})
    assert (error.infeasible.resource, error.infeasible.demand, error.infeasible.limit) == ("accumulator width", 20, 18)
    assert error.infeasible.levers == ("accumulator_bits: 20",)
    assert error.infeasible.op == "Conv_3, QuantizeLinear_4"


def test_program_longer_than_the_program_counter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert_tile_to_pe, "MOST_INSTRUCTIONS", 20)
    error = infeasible(network(), {})
    assert error.infeasible.resource == "program counter"
    assert "Conv_3 to Conv_8" in error.infeasible.op
    assert "the network in two parts" in error.infeasible.levers


def test_no_tables() -> None:
    with pytest.raises(ArchError, match="control.table_slots: must be at least 1, not 0"):
        arch_of(8, 8, 8, {"control.table_slots": 0})
