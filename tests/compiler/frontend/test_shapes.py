"""Shapes: open dims, sizes computed in the graph, functions and control flow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, GraphProto, NodeProto, helper

from tileloom.archdsl import Workload

from .networks import BOOL, INT64, constant, load, model, only_op, only_vector_op, tensor, weightless


def relu(source: str, out: str) -> NodeProto:
    return helper.make_node("Relu", [source], [out], name=out)


def node(op_type: str, inputs: list[str], out: str, **attributes: Any) -> NodeProto:
    return helper.make_node(op_type, inputs, [out], name=out, **attributes)


@pytest.mark.parametrize("name", ["batch", "batch_size", "N", "unk__12", "s0", "", "decoder_batch"])
def test_open_batch_is_one_with_a_notice(name: str) -> None:
    workload = load(model([relu("x", "y")], [tensor("x", [name or None, 5])], ["y"]))  # pyright: ignore[reportArgumentType] - onnx takes None
    assert only_vector_op(workload).elements == 5
    assert workload.notices == (f"batch: open dim '{name or 'x[0]'}' is taken as 1",)


def test_given_batch_needs_no_notice() -> None:
    workload = load(model([relu("x", "y")], [tensor("x", ["batch", 5])], ["y"]), {"batch": 3})
    assert only_vector_op(workload).elements == 15
    assert workload.notices == ()


def test_made_up_name_on_a_later_axis_is_no_batch() -> None:
    network = model([node("Add", ["a", "b"], "y")], [tensor("a", ["s0", 5]), tensor("b", [1, "s0"])], ["y"])
    with pytest.raises(Exception, match=r"axis 0 is open \(dim 's0'\)"):
        load(network)


def test_dims_made_of_others_are_computed() -> None:
    network = model(
        [relu("x", "y")], [tensor("q", ["past", 1]), tensor("r", ["seq", 1]), tensor("x", ["past + 2*seq", 4])], ["y"]
    )
    assert only_vector_op(load(network, {"past": 3, "seq": 5})).elements == (3 + 10) * 4


def test_axis_of_an_input_can_be_replaced() -> None:
    network = model([relu("x", "y")], [tensor("x", [1, 5])], ["y"])
    assert only_vector_op(load(network, {"x[0]": 7})).elements == 35


def test_sizes_computed_in_the_graph_reach_the_reshape() -> None:
    nodes = [
        node("Shape", ["x"], "shape"),
        node("Gather", ["shape", "zero"], "rows"),
        node("Mul", ["rows", "two"], "double"),
        node("Unsqueeze", ["double", "axes"], "first"),
        node("Concat", ["first", "rest"], "target", axis=0),
        node("Reshape", ["x", "target"], "flat"),
        node("MatMul", ["flat", "w"], "y"),
    ]
    weights = [constant("zero", 0, "int64"), constant("two", 2, "int64"), constant("axes", [0], "int64")]
    weights += [constant("rest", [-1], "int64"), weightless("w", [6, 10])]
    op = only_op(load(model(nodes, [tensor("x", ["batch", 12])], ["y"], weights), {"batch": 4}))
    assert op.sizes == {"M": 8, "N": 10, "K": 6}


def test_resize_scales_and_slice_bounds_are_evaluated() -> None:
    nodes = [
        node("Resize", ["x", "", "scales"], "big", mode="nearest"),
        node("Slice", ["big", "starts", "ends", "axes"], "cut"),
        node("Conv", ["cut", "w"], "y"),
    ]
    weights = [constant("scales", [1, 1, 2, 2]), constant("starts", [1], "int64"), constant("ends", [9], "int64")]
    weights += [constant("axes", [2], "int64"), weightless("w", [3, 2, 1, 1])]
    op = only_op(load(model(nodes, [tensor("x", [1, 2, 5, 6])], ["y"], weights)))
    assert (op.sizes["OY"], op.sizes["OX"]) == (8, 12)


def test_constant_subgraphs_are_free() -> None:
    nodes = [node("Transpose", ["w"], "wt"), node("Mul", ["wt", "wt"], "w2"), node("MatMul", ["x", "w2"], "y")]
    workload = load(model(nodes, [tensor("x", [4, 8])], ["y"], [weightless("w", [16, 8])]))
    assert [op.name for op in workload.ops] == ["y"]


def test_constant_first_factor_is_the_weight() -> None:
    network = model([node("MatMul", ["w", "x"], "y")], [tensor("x", [8, 4])], ["y"], [weightless("w", [16, 8])])
    assert only_op(load(network)).sizes == {"M": 4, "N": 16, "K": 8}


def test_stated_shape_helps_where_inference_stops() -> None:
    nodes = [helper.make_node("Mystery", ["x"], ["m"], domain="own", name="m"), node("MatMul", ["m", "w"], "y")]
    network = model(nodes, [tensor("x", [4, 8])], ["y"], [weightless("w", [8, 2])], domains=["own"])
    assert [missing.name for missing in load(network).unmodelled] == ["m", "y"]
    network.graph.value_info.append(tensor("m", [4, 8]))
    workload = load(network)
    assert only_op(workload).sizes == {"M": 4, "N": 2, "K": 8}
    assert [missing.name for missing in workload.unmodelled] == ["m"]


def test_data_sized_tensor_leaves_out_what_follows_and_says_why() -> None:
    nodes = [node("NonZero", ["x"], "places"), node("Cast", ["places"], "y", to=1)]
    workload = load(model(nodes, [tensor("x", [4, 8])], ["y"]))
    assert [(m.name, m.kind) for m in workload.unmodelled] == [("places", "NonZero"), ("y", "Cast")]
    assert "the shape of places [2, ?] is not known" in workload.unmodelled[1].reason


def test_float_type_that_an_operator_does_not_list_is_inferred_all_the_same() -> None:
    einsum = node("Einsum", ["a", "b"], "y", equation="ij,jk->ik")
    op = only_op(load(model([einsum], [tensor("a", [2, 3], 16), tensor("b", [3, 4], 16)], [tensor("y", None, 16)])))
    assert op.datatype == "bf16"
    assert [t.bits for t in op.tensors] == [16, 16, 16]


def test_function_is_inlined_with_its_attributes() -> None:
    body = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Elu", ["c"], ["y"], name="elu"),
    ]
    body[0].attribute.append(AttributeProto(name="strides", type=AttributeProto.INTS, ref_attr_name="step"))
    function = helper.make_function(
        "own", "block", ["x", "w"], ["y"], body, [helper.make_opsetid("", 17)], attributes=["step"]
    )
    call = helper.make_node("block", ["x", "w"], ["y"], domain="own", name="call", step=[2])
    network = model(
        [call], [tensor("x", [1, 3, 9])], ["y"], [weightless("w", [4, 3, 3])], functions=[function], domains=["own"]
    )
    workload = load(network)
    assert [op.name for op in workload.ops] == ["call/conv", "call/elu"]
    assert only_op(workload).sizes["OX"] == 4


def test_function_may_be_called_without_an_optional_input() -> None:
    body = [helper.make_node("Clip", ["x", "low", "high"], ["y"], name="clip")]
    function = helper.make_function("own", "bound", ["x", "low", "high"], ["y"], body, [helper.make_opsetid("", 17)])
    call = helper.make_node("bound", ["x", "zero"], ["y"], domain="own", name="call")
    network = model([call], [tensor("x", [5])], ["y"], [constant("zero", 0)], functions=[function], domains=["own"])
    assert only_vector_op(load(network)).read_bytes == (("x", 20), ("zero", 4))


def test_same_name_twice_gets_a_number() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["a"], name="same"), helper.make_node("Relu", ["a"], ["b"], name="same")]
    assert [op.name for op in load(model(nodes, [tensor("x", [2])], ["b"])).ops] == ["same", "same#2"]


def branch(name: str, cols: int) -> GraphProto:
    """A branch that multiplies the outer `x` by a weight."""
    weight = weightless(f"{name}_w", [8, cols])
    nodes = [node("MatMul", ["x", f"{name}_w"], f"{name}_y")]
    return helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(f"{name}_y")], [weight])


def conditional(condition: str) -> list[NodeProto]:
    return [node("If", [condition], "y", then_branch=branch("then", 2), else_branch=branch("other", 5))]


def test_branch_that_runs_is_entered() -> None:
    inputs = [tensor("x", [4, 8])]
    taken = load(model(conditional("yes"), inputs, ["y"], [constant("yes", True, bool)]))
    assert [(op.name, op.macs) for op in taken.mac_ops()] == [("y/then_y", 4 * 8 * 2)]
    other = load(model(conditional("no"), inputs, ["y"], [constant("no", False, bool)]))
    assert [(op.name, op.macs) for op in other.mac_ops()] == [("y/other_y", 4 * 8 * 5)]


def test_branch_that_depends_on_data_is_left_out_with_the_heavier_ones_macs() -> None:
    workload = load(model(conditional("c"), [tensor("x", [4, 8]), tensor("c", [], BOOL)], ["y"]))
    (missing,) = workload.unmodelled
    assert (missing.name, missing.macs) == ("y", 4 * 8 * 5)


def loop(trips: str, condition: str, body_nodes: list[NodeProto]) -> Workload:
    """A loop that carries `[4, 8]` through `body_nodes` (`h` to `h_out`), and stacks it."""
    nodes = [*body_nodes, node("Identity", ["keep"], "keep_out"), node("Identity", ["h_out"], "scanned")]
    body = helper.make_graph(
        nodes,
        "body",
        [tensor("i", [], INT64), tensor("keep", [], BOOL), tensor("h", [4, 8])],
        [tensor("keep_out", [], BOOL), tensor("h_out", None), tensor("scanned", None)],
    )
    outer = helper.make_node("Loop", [trips, condition, "x"], ["last", "all"], name="loop", body=body)
    inputs = [tensor("x", [4, 8]), tensor("n", [], INT64)]
    weights = [weightless("w", [8, 8]), constant("five", 5, "int64"), constant("yes", True, bool)]
    last = node("MatMul", ["all", "w"], "after")
    return load(model([outer, last], inputs, ["last", "after"], weights))


def test_loop_with_known_trips_counts_its_body_that_often() -> None:
    workload = loop("five", "yes", [node("MatMul", ["h", "w"], "h_out")])
    inside, after = workload.mac_ops()
    assert (inside.name, inside.count, inside.macs) == ("loop/h_out", 5, 4 * 8 * 8)
    assert after.macs == 5 * 4 * 8 * 8
    assert workload.unmodelled == ()


def test_loop_without_a_condition_runs_all_trips() -> None:
    assert next(loop("five", "", [node("MatMul", ["h", "w"], "h_out")]).mac_ops()).count == 5


def test_loop_with_open_trips_is_left_out_with_one_runs_macs() -> None:
    workload = loop("n", "yes", [node("MatMul", ["h", "w"], "h_out")])
    assert [(m.name, m.macs) for m in workload.unmodelled] == [("loop", 4 * 8 * 8), ("after", 0)]


def test_loop_that_grows_its_tensor_is_left_out() -> None:
    workload = loop("five", "yes", [node("Concat", ["h", "h"], "h_out", axis=0)])
    assert [m.name for m in workload.unmodelled] == ["loop", "after"]


def test_scan_runs_once_per_slice() -> None:
    body = helper.make_graph(
        [node("MatMul", ["slice", "w"], "product"), node("Add", ["state", "product"], "next")],
        "body",
        [tensor("state", [2, 6]), tensor("slice", [2, 8])],
        [tensor("next", None), tensor("product", None)],
    )
    scan = helper.make_node("Scan", ["s", "xs"], ["final", "products"], name="scan", body=body, num_scan_inputs=1)
    inputs = [tensor("s", [2, 6]), tensor("xs", [7, 2, 8])]
    workload = load(model([scan, node("Relu", ["products"], "y")], inputs, ["final", "y"], [weightless("w", [8, 6])]))
    assert [(op.name, op.count) for op in workload.ops] == [("scan/product", 7), ("scan/next", 7), ("y", 1)]
    assert workload.macs == 7 * 2 * 8 * 6


def test_weight_values_are_not_needed_but_list_of_sizes_are() -> None:
    nodes = [node("Reshape", ["x", "target"], "flat"), node("MatMul", ["flat", "w"], "y")]
    weights = [weightless("target", [2], INT64), weightless("w", [6, 2])]
    workload = load(model(nodes, [tensor("x", [4, 3])], ["y"], weights))
    assert "the shape of flat [?, ?] is not known" in workload.unmodelled[0].reason


def test_folded_constants_equal_numpy() -> None:
    nodes = [node("Range", ["zero", "eight", "two"], "steps"), node("ReduceSum", ["steps"], "total", keepdims=1)]
    nodes += [node("Expand", ["x", "total"], "wide"), node("Exp", ["wide"], "y")]
    weights = [constant(name, value, "int64") for name, value in (("zero", 0), ("eight", 8), ("two", 2))]
    workload = load(model(nodes, [tensor("x", [1])], ["y"], weights))
    assert [op.name for op in workload.ops] == ["wide", "y"]
    assert workload.ops[1].elements == np.arange(0, 8, 2).sum()  # pyright: ignore[reportAttributeAccessIssue]
