"""Every pass on the graph level: what it makes of a small network, and that it computes the same."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from onnx import ModelProto
from xdsl.dialects.builtin import ModuleOp

from tileloom.compiler.frontend.network import read_network
from tileloom.compiler.interpreters.modules import interpret
from tileloom.compiler.ir.data import ConstantOp, InputOp, OutputOp
from tileloom.compiler.ir.graph import GraphOp
from tileloom.compiler.passes.base import Pass, PassContext
from tileloom.compiler.passes.canonicalise_graph import CanonicaliseGraph
from tileloom.compiler.passes.convert_qoperator_to_qdq import ConvertQoperatorToQdq
from tileloom.compiler.passes.convert_unsigned_to_signed import ConvertUnsignedToSigned
from tileloom.compiler.passes.eliminate_common_subexpressions import EliminateCommonSubexpressions
from tileloom.compiler.passes.eliminate_dead_code import EliminateDeadCode
from tileloom.compiler.passes.fold_batch_norm import FoldBatchNorm
from tileloom.compiler.passes.fold_constants import FoldConstants
from tileloom.compiler.passes.hoist_quantize import HoistQuantize
from tileloom.compiler.passes.lower_border_pools import LowerBorderPools
from tileloom.compiler.passes.lower_gemm import LowerGemm
from tileloom.compiler.passes.lower_means import LowerMeans
from tileloom.compiler.passes.lower_one_dimensional import LowerOneDimensional
from tileloom.compiler.passes.quantise_intermediates import QuantiseIntermediates
from tileloom.compiler.passes.sink_dequantize import SinkDequantize
from tileloom.compiler.passes.split_rectifiers import SplitRectifiers

from ..qdq import Network, random_inputs


def kinds(module: ModuleOp) -> list[str]:
    """Names of the ops, without those of the `data` dialect and the dialect's own."""
    skipped = (ConstantOp, InputOp, OutputOp)
    return [op.name.partition(".")[2] for op in module.body.block.ops if not isinstance(op, skipped)]


def check(model: ModelProto, passes: Sequence[Pass], expected: Sequence[str], *, apart: float = 1e-5) -> ModuleOp:
    """Runs passes and dead code elimination; the module before is left alone and computes the same."""
    before, store = read_network(model)
    text, after = str(before), before
    for each in (*passes, EliminateDeadCode()):
        after = each.run(after, PassContext(store=store))
        after.verify()
    assert str(before) == text
    assert kinds(after) == list(expected)
    inputs = random_inputs(before, np.random.default_rng(0))
    found, wanted = interpret(after, store, inputs), interpret(before, store, inputs)
    for name, array in wanted.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_allclose(found[name].astype(float), array.astype(float), atol=apart)
    return after


def test_eliminate_dead_code_keeps_what_is_read() -> None:
    net = Network()
    source = net.input((2, 3), "float32")
    net.node("Tanh", [source])
    check(net.model(net.node("Relu", [source])), [], ["relu"])


def test_eliminate_common_subexpressions_keeps_both_names() -> None:
    net = Network()
    source = net.input((2, 3), "float32")
    model = net.model(net.node("Add", [net.node("Relu", [source]), net.node("Relu", [source])]))
    after = check(model, [EliminateCommonSubexpressions()], ["relu", "add"])
    relu = next(op for op in after.body.block.ops if isinstance(op, GraphOp))
    assert relu.node_names == ("Relu_0", "Relu_1")


def test_fold_constants_leaves_dequantised_weights() -> None:
    net = Network()
    source = net.input((2, 3), "float32")
    weights = net.dequantize(net.constant(np.ones((3, 90, 60)), "int8"), 0.5)  # larger than what reading folds
    offset = net.node("Exp", [net.constant(np.ones((90, 60)))])
    total = net.node("Add", [net.node("ReduceMean", [weights], axes=[0], keepdims=0), offset])
    model = net.model(net.node("Add", [net.node("ReduceMean", [source]), total]))
    check(model, [FoldConstants()], ["dequantize_linear", "reduce_mean", "add", "reduce_mean", "add"], apart=1e-4)
    check(model, [FoldConstants(folds_weights=True)], ["reduce_mean", "add"], apart=1e-4)


def test_canonicalise_graph_joins_views_and_transposes() -> None:
    net = Network()
    value = net.node("Flatten", [net.node("Identity", [net.input((2, 8, 2, 3), "float32")])])
    value = net.node("Unsqueeze", [net.node("Dropout", [value]), net.constant([0], "int64")])
    value = net.node("Transpose", [net.node("Transpose", [value], perm=[0, 2, 1])], perm=[2, 1, 0])
    check(net.model(value), [CanonicaliseGraph()], ["reshape", "transpose"])


def test_canonicalise_graph_removes_what_does_nothing() -> None:
    net = Network()
    value = net.node("Transpose", [net.node("Transpose", [net.input((2, 3), "float32")])])
    value = net.node("Reshape", [net.node("Cast", [value], to=1), net.constant([2, 3], "int64")])
    check(net.model(net.node("Relu", [value])), [CanonicaliseGraph()], ["relu"])


def test_canonicalise_graph_slices_gathers() -> None:
    net = Network()
    value = net.node("Gather", [net.input((2, 5), "float32"), net.constant([3, 4, 1], "int64")], axis=1)
    check(net.model(net.node("Relu", [value])), [CanonicaliseGraph()], ["slice", "slice", "concat", "relu"])


def test_lower_gemm_says_every_step() -> None:
    net = Network()
    operands = [net.input((3, 4), "float32"), net.input((3, 5), "float32"), net.constant(np.arange(5))]
    model = net.model(net.node("Gemm", operands, transA=1, alpha=0.5, beta=2.0))
    check(model, [LowerGemm()], ["transpose", "matmul", "mul", "mul", "add"])


def test_lower_one_dimensional_adds_an_axis() -> None:
    net = Network()
    weights = net.constant(net.rng.normal(size=(8, 4, 3)))
    model = net.model(net.node("Conv", [net.input((2, 4, 9), "float32"), weights], strides=[2], pads=[1, 0]))
    check(model, [LowerOneDimensional()], ["reshape", "reshape", "conv", "reshape"])


@pytest.mark.parametrize(
    ("axes", "expected"),
    [((2, 3), ["global_average_pool", "reshape"]), ((1,), ["transpose", "reshape", "global_average_pool", "reshape"])],
)
def test_lower_means_pools(axes: tuple[int, ...], expected: list[str]) -> None:
    net = Network()
    model = net.model(net.node("ReduceMean", [net.input((2, 3, 4, 5), "float32")], axes=list(axes), keepdims=0))
    check(model, [LowerMeans()], expected)


def test_lower_border_pools_cuts_the_image_by_divisors() -> None:
    net = Network()
    value = net.node("AveragePool", [net.input((1, 2, 5, 4), "float32")], kernel_shape=[3, 1], pads=[1, 0, 1, 0])
    check(net.model(value), [LowerBorderPools()], [*["slice", "average_pool"] * 3, "concat"])


def batch_norm(net: Network, value: str, scale: Sequence[float]) -> str:
    others = [[0.1, -0.5], [1.1, -0.5], [1.1, 0.5]]
    return net.node("BatchNormalization", [value, *(net.constant(array) for array in (scale, *others))])


def test_fold_batch_norm_scales_weights() -> None:
    net = Network()
    weights = net.constant(net.rng.normal(size=(2, 3, 3, 3)))
    value = net.node("Conv", [net.input((1, 3, 6, 6), "float32"), weights, net.constant([1, 2])])
    check(net.model(batch_norm(net, value, [1.5, -0.7])), [FoldBatchNorm()], ["conv"])


def test_fold_batch_norm_keeps_the_integers_of_quantised_weights() -> None:
    net = Network()
    value = net.node("Conv", [net.input((1, 3, 6, 6), "float32"), net.kernel((2, 3, 3, 3)), net.bias(2)])
    model = net.model(batch_norm(net, value, [1.5, 0.7]))
    after = check(model, [FoldBatchNorm()], ["dequantize_linear", "conv"], apart=1e-4)
    (dequantise,) = (op for op in after.body.block.ops if op.name == "graph.dequantize_linear")
    assert "tensor<2x3x3x3xi8>" in str(dequantise.operands[0].type)


def test_fold_batch_norm_multiplies_and_adds_elsewhere() -> None:
    net = Network()
    model = net.model(batch_norm(net, net.input((1, 2, 4), "float32"), [1.5, -0.7]))
    check(model, [FoldBatchNorm()], ["mul", "add"])


def test_convert_qoperator_to_qdq_writes_real_numbers() -> None:
    net = Network()
    inputs = [net.input((3, 8), "uint8"), net.constant(0.0497), net.constant(120, "uint8")]
    inputs += [
        net.constant(net.rng.integers(0, 255, (8, 5)), "uint8"),
        net.constant(0.0103),
        net.constant(128, "uint8"),
    ]
    model = net.model(net.node("QLinearMatMul", [*inputs, net.constant(0.1013), net.constant(111, "uint8")]))
    expected = ["dequantize_linear", "dequantize_linear", "matmul", "quantize_linear"]
    check(model, [ConvertQoperatorToQdq()], expected, apart=1)


def test_convert_unsigned_to_signed_converts_at_the_borders_alone() -> None:
    net = Network()
    value = net.node("Reshape", [net.input((2, 6), "uint8"), net.constant([3, 4], "int64")])
    value = net.quantize(net.node("Relu", [net.dequantize(value, 0.1, 130, "uint8")]), 0.07, 3, "uint8")
    borders = ["dequantize_linear", "quantize_linear"]
    expected = [*borders, "reshape", "dequantize_linear", "relu", "quantize_linear", *borders]
    after = check(net.model(value), [ConvertUnsignedToSigned()], expected)
    assert "3x4xi8" in str(after)


def test_sink_dequantize_moves_integers() -> None:
    net = Network()
    value = net.node("Transpose", [net.real_input((1, 2, 3, 4))], perm=[0, 2, 3, 1])
    value = net.node("Pad", [value, net.constant([0, 1, 0, 0, 0, 0, 2, 0], "int64")])
    check(net.model(net.node("Relu", [value])), [SinkDequantize()], ["transpose", "pad", "dequantize_linear", "relu"])


def test_hoist_quantize_quantises_before_joining() -> None:
    net = Network()
    parts = [net.real_input((1, 3), 0.1, 4), net.node("Relu", [net.input((1, 2), "float32")])]
    model = net.model(net.quantize(net.node("Concat", parts, axis=1), 0.1, 4))
    check(model, [HoistQuantize()], ["relu", "quantize_linear", "concat"])


def test_split_rectifiers_computes_each_side() -> None:
    net = Network()
    value = net.node("Conv", [net.real_input((1, 3, 6, 6)), net.kernel((2, 3, 3, 3))])
    model = net.model(net.quantize(net.node("LeakyRelu", [value], alpha=0.1), 0.07, -5))
    expected = [
        "dequantize_linear", "dequantize_linear", "conv", "clip", "clip", "mul", "quantize_linear", "quantize_linear",
        "dequantize_linear", "dequantize_linear", "add", "quantize_linear",
    ]  # fmt: skip
    check(model, [SplitRectifiers()], expected)


def test_quantise_intermediates_covers_what_the_function_needs() -> None:
    net = Network()
    value = net.node("Conv", [net.real_input((1, 3, 6, 6)), net.kernel((2, 3, 3, 3))])
    model = net.model(net.quantize(net.node("HardSwish", [value]), 0.07, -5))
    pair = ["quantize_linear", "dequantize_linear"]
    expected = ["dequantize_linear", "dequantize_linear", "conv", *pair, "hard_swish", "quantize_linear"]
    after = check(model, [QuantiseIntermediates()], expected, apart=1)
    assert "Conv_2: between it and HardSwish_3 the network states no scale" in str(after.attributes["graph.notices"])
