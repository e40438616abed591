"""Vector work: bytes, elements, and what is free."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import defs, helper

from tileloom.archdsl import VectorOp, Workload
from tileloom.compiler.frontend.registry import FREE_OPS, LOWERINGS, NOT_MODELLED

from .networks import INT64, constant, load, model, only_vector_op, tensor, weightless

X = [1, 8, 6, 10]


def one(op_type: str, *extra: str, shape: list[int] = X, weights: Any = (), **attributes: Any) -> Workload:
    """A network of one node over an input `x`."""
    version = attributes.pop("opset", 20)
    node = helper.make_node(op_type, ["x", *extra], ["y"], name="n", **attributes)
    return load(model([node], [tensor("x", shape)], [tensor("y", None)], list(weights), opset=version))


def moved(op: VectorOp) -> tuple[int, int]:
    return sum(n for _, n in op.read_bytes), sum(n for _, n in op.write_bytes)


def test_every_operator_is_known() -> None:
    named = {schema.name for schema in defs.get_all_schemas() if not schema.domain}
    # decided in the walk over the graph, not by a lowering
    assert named - set(LOWERINGS) - FREE_OPS - set(NOT_MODELLED) == set()


def test_no_operator_is_in_two_tables() -> None:
    assert not set(LOWERINGS) & FREE_OPS
    assert not set(LOWERINGS) & set(NOT_MODELLED)
    assert not FREE_OPS & set(NOT_MODELLED)


@pytest.mark.parametrize(
    ("op_type", "passes"), [("Relu", 1), ("Sigmoid", 1), ("Gelu", 4), ("Softmax", 5), ("HardSwish", 4), ("Clip", 2)]
)
def test_activation_reads_and_writes_its_tensor(op_type: str, passes: int) -> None:
    op = only_vector_op(one(op_type))
    assert (op.kind, op.elements, op.passes) == (op_type.lower(), 480, passes)
    assert moved(op) == (480 * 4, 480 * 4)
    assert op.datatype == "fp32"


def test_broadcast_operand_is_read_once() -> None:
    op = only_vector_op(one("Add", "c", weights=[weightless("c", [8, 1, 1])]))
    assert op.read_bytes == (("x", 1920), ("c", 32))


def test_tensor_with_itself_is_read_once() -> None:
    assert only_vector_op(one("Mul", "x")).read_bytes == (("x", 1920),)


def test_sum_of_many_takes_one_pass_less() -> None:
    op = only_vector_op(one("Sum", "a", "b", weights=[weightless("a", X), weightless("b", X)]))
    assert op.passes == 2


def test_normalisation_reads_its_parameters() -> None:
    params = [weightless(name, [8]) for name in ("scale", "bias", "mean", "var")]
    op = only_vector_op(one("BatchNormalization", "scale", "bias", "mean", "var", weights=params))
    assert (op.passes, moved(op)) == (2, (1920 + 4 * 32, 1920))
    group = only_vector_op(one("GroupNormalization", "scale", "bias", weights=params[:2], num_groups=2, opset=21))
    assert group.elements == 480


def test_max_pool_takes_one_pass_per_tap() -> None:
    op = only_vector_op(one("MaxPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]))
    assert (op.elements, op.passes) == (480, 9)
    strided = only_vector_op(one("AveragePool", kernel_shape=[2, 2], strides=[2, 2]))
    assert (strided.elements, strided.passes, moved(strided)) == (480, 1, (1920, 480))


def test_global_pool_and_reduction_read_everything_once() -> None:
    pool = only_vector_op(one("GlobalAveragePool"))
    assert (pool.elements, pool.passes, moved(pool)) == (480, 1, (1920, 32))
    reduced = only_vector_op(one("ReduceMean", "axes", weights=[constant("axes", [2, 3], "int64")]))
    assert (reduced.elements, reduced.passes, moved(reduced)) == (480, 1, (1920, 32))


@pytest.mark.parametrize(("mode", "passes"), [("nearest", 1), ("linear", 4), ("cubic", 16)])
def test_resize_takes_one_pass_per_tap(mode: str, passes: int) -> None:
    op = only_vector_op(one("Resize", "", "scales", weights=[constant("scales", [1, 1, 2, 2])], mode=mode))
    assert (op.elements, op.passes, moved(op)) == (1920, passes, (1920, 7680))


def test_movement_takes_no_passes() -> None:
    op = only_vector_op(one("Transpose", perm=[0, 2, 3, 1]))
    assert (op.passes, moved(op)) == (0, (1920, 1920))
    padded = only_vector_op(one("Pad", "p", weights=[constant("p", [0, 0, 1, 1, 0, 0, 1, 1], "int64")]))
    assert (padded.passes, moved(padded)) == (0, (1920, 8 * 8 * 12 * 4))


def test_selection_reads_what_it_selects() -> None:
    bounds = [constant("s", [1], "int64"), constant("e", [3], "int64"), constant("a", [1], "int64")]
    op = only_vector_op(one("Slice", "s", "e", "a", weights=bounds))
    assert moved(op) == (2 * 60 * 4, 2 * 60 * 4)
    node = helper.make_node("Gather", ["table", "ids"], ["y"], name="n")
    table = weightless("table", [1000, 16])
    gather = only_vector_op(load(model([node], [tensor("ids", [3], INT64)], ["y"], [table])))
    assert gather.read_bytes == (("table", 3 * 16 * 4), ("ids", 24))


def test_scatter_writes_what_it_scatters() -> None:
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], name="n", axis=0)
    inputs = [tensor("x", [100, 4]), tensor("i", [2, 4], INT64), tensor("u", [2, 4])]
    op = only_vector_op(load(model([node], inputs, ["y"])))
    assert moved(op) == (8 * 8 + 8 * 4, 8 * 4)


def test_split_and_concat_move_everything() -> None:
    split = helper.make_node("Split", ["x", "parts"], ["a", "b"], name="split", axis=1)
    concat = helper.make_node("Concat", ["b", "a"], ["y"], name="concat", axis=1)
    network = model([split, concat], [tensor("x", X)], ["y"], [constant("parts", [2, 6], "int64")])
    first, second = load(network).vector_ops()
    assert moved(first) == moved(second) == (1920, 1920)


@pytest.mark.parametrize(
    ("op_type", "extra", "weights", "attributes"),
    [
        ("Transpose", (), (), {"perm": [1, 0, 2, 3]}),  # only the axis of size 1 moves
        ("Flatten", (), (), {}),
        ("Identity", (), (), {}),
        ("Dropout", (), (), {}),
        ("Expand", ("s",), (constant("s", X, "int64"),), {}),
        ("Pad", ("s",), (constant("s", [0] * 8, "int64"),), {}),
        ("Cast", (), (), {"to": 1}),
        ("Resize", ("", "s"), (constant("s", [1, 1, 1, 1]),), {}),
    ],
)
def test_what_leaves_elements_alone_is_free(op_type: str, extra: Any, weights: Any, attributes: dict[str, Any]) -> None:
    nodes = [helper.make_node(op_type, ["x", *extra], ["h"], **attributes), helper.make_node("Relu", ["h"], ["y"])]
    workload = load(model(nodes, [tensor("x", X)], ["y"], list(weights)))
    assert [op.kind for op in workload.ops] == ["relu"]


def test_cast_between_widths_is_work() -> None:
    op = only_vector_op(one("Cast", to=10))
    assert (moved(op), op.datatype) == ((1920, 960), "fp16")


def test_empty_tensors_do_nothing() -> None:
    nodes = [helper.make_node("Concat", ["past", "x"], ["y"], name="grow", axis=0)]
    nodes += [helper.make_node("MatMul", ["past", "w"], ["z"], name="none")]
    nodes += [
        helper.make_node("Relu", ["z"], ["r"], name="nothing"),
        helper.make_node("Relu", ["y"], ["last"], name="last"),
    ]
    network = model(nodes, [tensor("past", ["p", 4]), tensor("x", [2, 4])], ["last", "r"], [weightless("w", [4, 3])])
    assert [op.name for op in load(network, {"p": 1}).ops] == ["grow", "none", "nothing", "last"]
    assert [op.name for op in load(network, {"p": 0}).ops] == ["grow", "last"]


def test_random_numbers_are_not_constants() -> None:
    nodes = [helper.make_node("RandomNormal", [], ["r"], name="r", shape=[4]), helper.make_node("Relu", ["r"], ["y"])]
    assert [op.kind for op in load(model(nodes, [], ["y"])).ops] == ["randomnormal", "relu"]


def test_top_k_counts_as_a_sort() -> None:
    node = helper.make_node("TopK", ["x", "k"], ["v", "i"], name="n")
    op = only_vector_op(load(model([node], [tensor("x", [3, 1000])], ["v", "i"], [constant("k", [5], "int64")])))
    assert (op.elements, op.passes) == (3000, 10)
