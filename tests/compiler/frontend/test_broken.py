"""Broken networks: each says which node or input, why, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import AttributeProto, ModelProto, helper

from tileloom.archdsl import WorkloadError
from tileloom.compiler import import_onnx, load_workload

from .networks import INT64, constant, load, model, tensor

RELU = helper.make_node("Relu", ["x"], ["y"], name="relu")


def said(network: ModelProto, shapes: dict[str, int] | None = None, *, strict: bool = False) -> str:
    """What is said about a network that does not import."""
    with pytest.raises(WorkloadError) as caught:
        load(network, shapes, strict=strict)
    return str(caught.value)


def said_of_file(path: Path) -> str:
    """What is said about a file that does not import, after its name."""
    with pytest.raises(WorkloadError) as caught:
        import_onnx(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_missing_file(tmp_path: Path) -> None:
    assert said_of_file(tmp_path / "net.onnx") == "no such file; check the path"


def test_directory_names_the_networks_in_it(tmp_path: Path) -> None:
    assert said_of_file(tmp_path) == "is a directory; it holds no .onnx file"
    (tmp_path / "a.onnx").touch()
    assert said_of_file(tmp_path) == "is a directory; name a file in it: a.onnx"


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").touch()
    assert said_of_file(tmp_path / "net.onnx") == "the file is empty; export or download it again"


def test_text_file(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_text("not a network\n" * 20)
    assert said_of_file(tmp_path / "net.onnx").startswith("280 bytes that are not an ONNX model, or one cut short")


def test_large_file_pointer(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    assert "fetch it with `git lfs pull`" in said_of_file(tmp_path / "net.onnx")


def test_truncated_file_is_never_taken_for_a_network(tmp_path: Path) -> None:
    data = model([RELU], [tensor("x", [2, 3])], ["y"]).SerializeToString()
    path = tmp_path / "net.onnx"
    for length in range(1, len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(WorkloadError) as caught:
            import_onnx(path)
        assert str(path) in str(caught.value)


def test_graph_without_nodes() -> None:
    assert said(model([], [tensor("x", [2])], [tensor("x", [2])])) == (
        "net.onnx: graph 'g' has no nodes: there is nothing to import"
    )


def test_file_without_a_graph() -> None:
    assert said(ModelProto(ir_version=9)) == (
        "net.onnx: the file holds no ONNX graph; is it an ONNX file, and complete?"
    )


def test_model_without_operator_sets() -> None:
    network = model([RELU], [tensor("x", [2])], ["y"])
    del network.opset_import[:]
    assert said(network) == "net.onnx: the model names no operator set (opset_import); export it again"


def test_operator_set_of_the_future() -> None:
    text = said(model([RELU], [tensor("x", [2])], ["y"], opset=999))
    assert text.startswith("net.onnx: operator set 999 is newer than ")
    assert "update the onnx package" in text


def test_nothing_runs() -> None:
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    network = model([node], [tensor("x", [2, 3])], ["y"], [constant("shape", [6], "int64")])
    assert "nothing is computed at run time" in said(network)


def test_cycle_names_its_nodes() -> None:
    nodes = [
        helper.make_node("Add", ["x", "c"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"], name="second"),
        helper.make_node("Relu", ["b"], ["c"], name="third"),
    ]
    text = said(model(nodes, [tensor("x", [2])], ["c"]))
    assert text == (
        "net.onnx: second: Relu: nodes wait for each other's outputs: second -> third -> first -> second; "
        "an ONNX graph may not hold a cycle"
    )


def test_unsorted_nodes_are_sorted() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["b"], name="second"), helper.make_node("Abs", ["x"], ["a"], name="first")]
    workload = load(model(nodes, [tensor("x", [2])], ["b"]))
    assert [op.name for op in workload.ops] == ["first", "second"]


def test_dangling_input_names_the_nearest() -> None:
    node = helper.make_node("Relu", ["input_0"], ["y"], name="relu")
    assert said(model([node], [tensor("input0", [2])], ["y"])) == (
        "net.onnx: relu: Relu: input 'input_0' is produced by no node, input or weight; did you mean 'input0'?"
    )


def test_output_that_nobody_makes() -> None:
    assert "output 'z' is produced by no node" in said(model([RELU], [tensor("x", [2])], ["z"]))


def test_tensor_made_twice() -> None:
    nodes = [RELU, helper.make_node("Abs", ["x"], ["y"], name="abs")]
    assert said(model(nodes, [tensor("x", [2])], ["y"])) == (
        "net.onnx: abs: Abs: output 'y' is already produced by node 'relu'; rename one of them"
    )


def test_shapes_that_do_not_multiply() -> None:
    node = helper.make_node("MatMul", ["a", "b"], ["y"], name="mm")
    assert said(model([node], [tensor("a", [2, 3]), tensor("b", [4, 5])], ["y"])) == (
        "net.onnx: mm: MatMul: does not fit its inputs a [2, 3], b [4, 5]: "
        "Incompatible dimensions for matrix multiplication; check the export and --shape"
    )


def test_channels_that_do_not_fit() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", group=2)
    text = said(model([node], [tensor("x", [1, 6, 8, 8]), tensor("w", [4, 2, 3, 3])], ["y"]))
    assert text == (
        "net.onnx: conv: Conv: input x [1, 6, 8, 8] and weight w [4, 2, 3, 3] with 2 groups do not fit; check the export"
    )


def test_faults_of_several_nodes_come_at_once() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], name="one", group=2),
        helper.make_node("Conv", ["x", "w"], ["z"], name="two", group=4),
    ]
    text = said(model(nodes, [tensor("x", [1, 6, 8, 8]), tensor("w", [4, 2, 3, 3])], ["y", "z"]))
    assert [line.split(": ")[1] for line in text.splitlines()] == ["one", "two"]


def test_missing_required_input() -> None:
    node = helper.make_node("Conv", ["x"], ["y"], name="conv")
    text = said(model([node], [tensor("x", [1, 6, 8, 8])], ["y"]))
    assert text.startswith("net.onnx: conv: Conv: does not fit its inputs x [1, 6, 8, 8]: ")
    assert "input size 1 not in range" in text


def test_malformed_equation() -> None:
    node = helper.make_node("Einsum", ["a", "b"], ["y"], name="e", equation="ij,jk->ikq")
    text = said(model([node], [tensor("a", [2, 3]), tensor("b", [3, 4])], [tensor("y", None)]))
    assert text.startswith("net.onnx: e: Einsum: ")


def test_recursive_function() -> None:
    call = helper.make_node("loop", ["x"], ["y"], domain="own", name="call")
    function = helper.make_function("own", "loop", ["x"], ["y"], [call], [helper.make_opsetid("own", 1)])
    network = model([call], [tensor("x", [2])], ["y"], functions=[function], domains=["own"])
    assert "function loop calls itself; a function may not be recursive" in said(network)


def test_open_dim_says_what_to_give() -> None:
    network = model([RELU], [tensor("ids", ["batch", "length"]), tensor("x", ["batch", 3])], ["y"])
    assert said(network) == ("net.onnx: ids: axis 1 is open (dim 'length'); give its size with --shape 'length=VALUE'")


def test_unnamed_open_dim_is_given_by_input_and_axis() -> None:
    network = model([RELU], [tensor("x", [2, None])], ["y"])  # pyright: ignore[reportArgumentType] - onnx takes None
    assert said(network) == "net.onnx: x: axis 1 is open (dim 'x[1]'); give its size with --shape 'x[1]=VALUE'"


def test_unknown_shape_name_suggests_one() -> None:
    network = model([RELU], [tensor("x", ["batch", "length"])], ["y"])
    text = said(network, {"lenght": 3})
    assert "net.onnx: --shape lenght: the network has no open dim of that name; did you mean 'length'?" in text
    assert "net.onnx: x: axis 1 is open (dim 'length')" in text


def test_negative_size() -> None:
    network = model([RELU], [tensor("x", ["batch", "length"])], ["y"])
    assert "net.onnx: length: size -1 is negative; sizes are 0 or more" in said(network, {"length": -1})


def test_input_without_a_shape() -> None:
    network = model([RELU], [tensor("x", None)], ["y"])
    assert said(network) == "net.onnx: x: the input has no shape; give it with --shape 'x[0]=VALUE', ..."
    assert load(network, {"x[0]": 2, "x[1]": 3}).ops[0].elements == 6  # pyright: ignore[reportAttributeAccessIssue]


def test_strict_lists_everything_left_out() -> None:
    nodes = [
        helper.make_node("Mystery", ["x"], ["a"], name="first", domain="own"),
        helper.make_node("NonZero", ["x"], ["b"], name="second"),
    ]
    text = said(model(nodes, [tensor("x", [2, 3])], ["a", "b"], domains=["own"]), strict=True)
    assert text == (
        "net.onnx: first: Mystery: not modelled: operator set 'own' is not modelled (0 MACs and 24 bytes); "
        "leave it out by importing without strict\n"
        "net.onnx: second: NonZero: not modelled: the size of its output depends on data (0 MACs and 24 bytes); "
        "leave it out by importing without strict"
    )


def test_unknown_datatype() -> None:
    with pytest.raises(WorkloadError, match=r"datatype 'bf17' is unknown; did you mean 'bf16'\?"):
        load(model([RELU], [tensor("x", [2])], ["y"]), datatype="bf17")


def test_unknown_attribute() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    node.attribute.append(AttributeProto(name="note", type=AttributeProto.TENSOR))
    network = model([node], [tensor("x", [2])], [tensor("y", [2])])
    assert "Unrecognized attribute: note" in said(network)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("resnet50", "resnet50: no such workload or file; did you mean 'onnx:resnet50'?"),
        ("onnx:resnet51", "onnx:resnet51: the onnx package ships no network 'resnet51'; did you mean 'resnet50'?"),
        ("onnx:resnet50:datatype", "onnx:resnet50:datatype: option 'datatype' is not 'key=value'"),
        (
            "onnx:resnet50:datatype=int7",
            "onnx:resnet50:datatype=int7: datatype 'int7' is unknown; did you mean 'int8'?",
        ),
        ("transformer_block:hiden=64", "transformer_block: hiden: unknown option; did you mean 'hidden'?"),
        ("transformer_block:hidden=64,heads=5", "transformer_block: hidden 64 does not divide into 5 heads"),
        ("transformer_block:heads=12,kv_heads=5", "transformer_block: 12 heads do not share 5 kv_heads evenly"),
        ("transformer_block:seq=many", "transformer_block: seq: 'many' is not a whole number"),
        ("transformer_block:seq=1,seq=2", "transformer_block:seq=1,seq=2: option 'seq' is given twice"),
        (
            "transformer_block:dtype=int4",
            "transformer_block: dtype 'int4' is unknown; known are fp32, fp16, bf16, int8",
        ),
        ("gemm:M=1", "missing N, K; give it as 'N=SIZE'"),
    ],
)
def test_broken_name(spec: str, message: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        load_workload(spec)
    assert message in str(caught.value)


def test_notation_takes_no_shapes() -> None:
    with pytest.raises(WorkloadError, match="a notation has no open dims; leave out --shape batch"):
        load_workload("gemm:M=1,N=1,K=1", {"batch": 2})


def test_integer_input_to_a_float_operator() -> None:
    network = model([helper.make_node("Softmax", ["x"], ["y"], name="s")], [tensor("x", [2], INT64)], ["y"])
    assert "s: Softmax: does not fit its inputs x [2]: " in said(network)
