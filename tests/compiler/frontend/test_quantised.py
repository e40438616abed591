"""Quantised graphs: integer products, stored widths, and when quantisation costs nothing."""

from __future__ import annotations

from typing import Any

from onnx import NodeProto, TensorProto, helper

from tileloom.archdsl import Op, Workload

from .networks import INT8, INT32, UINT8, constant, load, model, only_op, tensor, weightless

INT4 = int(TensorProto.INT4)
FLOAT16 = int(TensorProto.FLOAT16)


def node(op_type: str, inputs: list[str], out: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op_type, inputs, [out], name=out, **attributes)


def quantise(source: str, out: str, scale: str = "s") -> NodeProto:
    return node("QuantizeLinear", [source, scale, "z"], out)


def dequantise(source: str, out: str, scale: str = "s") -> NodeProto:
    return node("DequantizeLinear", [source, scale, "z"], out)


SCALES = [constant("s", 0.1), constant("s2", 0.2), constant("z", 0, "int8")]
WEIGHTS = [*SCALES, weightless("w8", [8, 6], INT8), weightless("bias", [6])]
PARAMETERS = 4 + 1  # bytes of a scale and a zero point
TAIL = [dequantise("w8", "w"), node("MatMul", ["x", "w"], "mm")]


def bits(op: Op) -> list[int]:
    return [t.bits for t in op.tensors]


def kinds(workload: Workload) -> list[tuple[str, str]]:
    return [(op.name, op.kind) for op in workload.ops]


def vector_bytes(workload: Workload) -> dict[str, tuple[int, int]]:
    """Bytes read and written per vector op."""
    return {
        op.name: (sum(n for _, n in op.read_bytes), sum(n for _, n in op.write_bytes)) for op in workload.vector_ops()
    }


def test_product_between_dequantise_and_quantise_is_int8() -> None:
    nodes = [dequantise("x8", "x"), *TAIL, quantise("mm", "y")]
    workload = load(model(nodes, [tensor("x8", [4, 8], INT8)], ["y"], WEIGHTS, opset=21))
    op = only_op(workload)
    assert (op.datatype, bits(op)) == ("int8", [8, 8, 8])
    assert kinds(workload) == [("mm", "matmul")]


def test_bias_and_activation_before_quantise_stay_quantised() -> None:
    nodes = [dequantise("x8", "x"), *TAIL, node("Add", ["mm", "bias"], "sum"), node("Relu", ["sum"], "r")]
    workload = load(model([*nodes, quantise("r", "y")], [tensor("x8", [4, 8], INT8)], ["y"], WEIGHTS, opset=21))
    assert bits(only_op(workload)) == [8, 8, 8]
    assert {op.datatype for op in workload.ops} == {"int8"}
    assert vector_bytes(workload) == {"sum": (24 + 6 * 4, 24), "r": (24, 24)}


def test_product_that_is_not_requantised_stores_its_accumulators() -> None:
    nodes = [dequantise("x8", "x"), *TAIL]
    op = only_op(load(model(nodes, [tensor("x8", [4, 8], INT8)], ["mm"], WEIGHTS, opset=21)))
    assert (op.datatype, bits(op)) == ("int8", [8, 8, 32])


def test_acc_bits_override_the_output_alone() -> None:
    nodes = [dequantise("x8", "x"), *TAIL, quantise("mm", "y")]
    network = model(nodes, [tensor("x8", [4, 8], INT8)], ["y"], WEIGHTS, opset=21)
    assert bits(only_op(load(network, acc_bits=32))) == [8, 8, 32]


def test_float_input_is_quantised_by_vector_work() -> None:
    nodes = [quantise("xf", "x8"), dequantise("x8", "x"), *TAIL, quantise("mm", "y")]
    workload = load(model(nodes, [tensor("xf", [4, 8])], ["y"], WEIGHTS, opset=21))
    assert kinds(workload) == [("x8", "quantize"), ("mm", "matmul")]
    assert vector_bytes(workload)["x8"] == (4 * 8 * 4 + PARAMETERS, 4 * 8)


def test_returned_float_is_dequantised_by_vector_work() -> None:
    nodes = [dequantise("x8", "x"), *TAIL, quantise("mm", "y8"), dequantise("y8", "y")]
    workload = load(model(nodes, [tensor("x8", [4, 8], INT8)], ["y"], WEIGHTS, opset=21))
    assert kinds(workload) == [("mm", "matmul"), ("y", "dequantize")]
    assert vector_bytes(workload)["y"] == (24 + PARAMETERS, 96)
    reshaped = [*nodes[:-1], dequantise("y8", "yf"), node("Flatten", ["yf"], "y")]
    workload = load(model(reshaped, [tensor("x8", [4, 8], INT8)], ["y"], WEIGHTS, opset=21))
    assert kinds(workload) == [("mm", "matmul"), ("yf", "dequantize")]


def test_requantising_to_another_scale_is_work_and_to_the_same_is_not() -> None:
    for scale, expected in (("s", []), ("s2", [("y", "requantize")])):
        nodes = [dequantise("x8", "x"), node("Reshape", ["x", "shape"], "r"), quantise("r", "y", scale)]
        nodes += [dequantise("y", "yd", scale), node("Relu", ["yd"], "last"), quantise("last", "out", scale)]
        weights = [*SCALES, constant("shape", [32], "int64")]
        workload = load(model(nodes, [tensor("x8", [4, 8], INT8)], ["out"], weights, opset=21))
        assert kinds(workload) == [*expected, ("last", "relu")]


def test_float_tensor_with_a_float_reader_stays_float() -> None:
    nodes = [dequantise("x8", "x"), *TAIL, quantise("mm", "y"), node("Exp", ["mm"], "e")]
    workload = load(model(nodes, [tensor("x8", [4, 8], INT8)], ["y", "e"], WEIGHTS, opset=21))
    assert bits(only_op(workload)) == [8, 8, 32]
    assert kinds(workload) == [("mm", "matmul"), ("y", "quantize"), ("e", "exp")]


def test_moved_tensors_stay_quantised() -> None:
    nodes = [dequantise("x8", "x0"), node("Transpose", ["x0"], "x"), *TAIL, quantise("mm", "y")]
    workload = load(model(nodes, [tensor("x8", [8, 4], INT8)], ["y"], WEIGHTS, opset=21))
    assert bits(only_op(workload)) == [8, 8, 8]
    assert vector_bytes(workload) == {"x": (32, 32)}


def test_weights_alone_quantised_multiply_in_float() -> None:
    weights = [weightless("w4", [8, 6], INT4), constant("s", 0.1, "float16"), constant("z", 0, "int8")]
    nodes = [node("DequantizeLinear", ["w4", "s"], "w"), node("MatMul", ["x", "w"], "y")]
    op = only_op(load(model(nodes, [tensor("x", [4, 8], FLOAT16)], [tensor("y", None, FLOAT16)], weights, opset=21)))
    assert (op.datatype, bits(op)) == ("fp16", [16, 4, 16])


def test_qlinear_conv_stores_its_output_quantised() -> None:
    names = ["x", "s", "zu", "w", "s", "z", "s", "zu"]
    weights = [*SCALES, constant("zu", 0, "uint8"), weightless("w", [6, 3, 3, 3], INT8)]
    network = model([node("QLinearConv", names, "y")], [tensor("x", [1, 3, 8, 8], UINT8)], ["y"], weights)
    op = only_op(load(network))
    assert (op.datatype, bits(op), op.macs) == ("int8", [8, 8, 8], 6 * 3 * 9 * 36)


def test_qlinear_matmul_finds_its_second_factor_behind_the_scales() -> None:
    weights = [*SCALES, weightless("w", [8, 6], INT8)]
    names = ["x", "s", "z", "w", "s", "z", "s", "z"]
    op = only_op(load(model([node("QLinearMatMul", names, "y")], [tensor("x", [4, 8], INT8)], ["y"], weights)))
    assert (op.sizes, bits(op)) == ({"M": 4, "N": 6, "K": 8}, [8, 8, 8])


def test_integer_products_store_int32() -> None:
    weights = [weightless("w", [8, 6], INT8), weightless("k", [6, 3, 1, 1], INT8)]
    matmul = only_op(
        load(model([node("MatMulInteger", ["x", "w"], "y")], [tensor("x", [4, 8], UINT8)], ["y"], weights))
    )
    assert (matmul.datatype, bits(matmul)) == ("int8", [8, 8, 32])
    conv = node("ConvInteger", ["x", "k"], "y")
    op = only_op(load(model([conv], [tensor("x", [1, 3, 4, 4], UINT8)], ["y"], weights)))
    assert (op.datatype, bits(op)) == ("int8", [8, 8, 32])


def test_bias_held_as_int32_is_no_reason_for_work() -> None:
    weights = [*SCALES, weightless("k8", [6, 3, 1, 1], INT8), weightless("b32", [6], INT32)]
    nodes = [dequantise("x8", "x"), dequantise("k8", "k"), node("DequantizeLinear", ["b32", "s"], "b")]
    nodes += [node("Conv", ["x", "k", "b"], "c"), quantise("c", "y")]
    workload = load(model(nodes, [tensor("x8", [1, 3, 4, 4], INT8)], ["y"], weights, opset=21))
    assert kinds(workload) == [("c", "conv")]
    assert workload.notices == ("bias: 24 bytes of 1 nodes are left out: biases are taken to stay at the accumulators",)


def test_datatype_counts_every_float_tensor_as_that_type() -> None:
    nodes = [node("MatMul", ["x", "w"], "mm"), node("Relu", ["mm"], "y")]
    workload = load(model(nodes, [tensor("x", [4, 8])], ["y"], [weightless("w", [8, 6])]), datatype="int8")
    assert (only_op(workload).datatype, bits(only_op(workload))) == ("int8", [8, 8, 8])
    assert vector_bytes(workload) == {"y": (24, 24)}
    assert {op.datatype for op in workload.ops} == {"int8"}


def test_float_network_keeps_its_own_types() -> None:
    workload = load(model([node("MatMul", ["x", "w"], "y")], [tensor("x", [4, 8])], ["y"], [weightless("w", [8, 6])]))
    assert (only_op(workload).datatype, bits(only_op(workload))) == ("fp32", [32, 32, 32])
