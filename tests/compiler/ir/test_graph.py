"""Dialect `graph`: optional operands, attributes, printing and verification."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from tileloom.compiler.interpreters.graph import run_graph_op
from tileloom.compiler.ir.attributes import tensor_type
from tileloom.compiler.ir.data import Data, InputOp, OutputOp
from tileloom.compiler.ir.graph import Graph, OnnxOp, make_op


def value(*shape: int) -> SSAValue:
    return InputOp("x", tensor_type(shape, "float32")).result


def test_left_out_operands_keep_the_positions_of_others() -> None:
    limit = value()
    op = make_op("Clip", [value(2, 3), None, limit], [tensor_type([2, 3], "float32")], version=13)
    op.verify()
    assert op.input(1) is None
    assert op.input(2) is limit
    assert op.input_positions == (0, 2)


def test_unknown_operator_and_unknown_attribute_become_graph_onnx() -> None:
    kind = tensor_type([2], "float32")
    for op_type, attributes in (("Foo", {"texts": ("a", "b"), "x": 1.5}), ("Relu", {"consumed_inputs": (0,)})):
        op = make_op(op_type, [value(2)], [kind], version=7, attributes=attributes)
        assert isinstance(op, OnnxOp)
        assert op.op_type == op_type
        assert op.onnx_attributes() == attributes


def test_module_prints_and_parses_back() -> None:
    source = InputOp("x", tensor_type([1, 3, 4, 4], "float32"))
    kind = tensor_type([1, 3, 2, 2], "float32")
    pool = make_op(
        "MaxPool", [source.result], [kind], version=12, nodes=["a", "b"],
        attributes={"kernel_shape": (2, 2), "strides": (2, 2), "auto_pad": "VALID"},
    )  # fmt: skip
    other = make_op("Foo", [pool.outputs[0], None, pool.outputs[0]], [kind], version=1, domain="d", attributes={"a": 1})
    module = ModuleOp([source, pool, other, OutputOp("y", other.outputs[0])])
    context = Context()
    for dialect in (Builtin, Data, Graph):
        context.load_dialect(dialect)
    parsed = Parser(context, str(module)).parse_module()
    parsed.verify()
    assert parsed.is_structurally_equivalent(module)


@pytest.mark.parametrize(
    ("op_type", "shapes", "result", "message"),
    [
        ("Relu", [(2, 3)], (2, 4), "it must be that of the operand"),
        ("Add", [(2, 3), (3, 2)], (2, 3), "cannot be broadcast"),
        ("Reshape", [(2, 3), (1,)], (5,), "the operand has 6 elements"),
        ("Transpose", [(2, 3)], (2, 3, 1), "the operand has 2 axes"),
        ("MatMul", [(2, 3), (4, 5)], (2, 5), "do not fit"),
        ("Conv", [(2, 3, 4, 4), (1, 3, 1, 1)], (1, 1, 4, 4), "batch and rank must stay"),
        ("Conv", [(2, 3, 4, 4)], (2, 1, 4, 4), "has 1 operands; it takes 2 to 3"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    op_type: str, shapes: list[tuple[int, ...]], result: tuple[int, ...], message: str
) -> None:
    op = make_op(op_type, [value(*shape) for shape in shapes], [tensor_type(result, "float32")], version=13)
    with pytest.raises(VerifyException, match=message):
        op.verify()


def test_padded_maximum_of_integers_is_interpreted() -> None:
    source = InputOp("x", tensor_type((1, 1, 2, 2), "int8"))
    op = make_op(
        "MaxPool", [source.result], [tensor_type((1, 1, 3, 3), "int8")], version=16,
        attributes={"kernel_shape": (2, 2), "pads": (1, 1, 1, 1)},
    )  # fmt: skip
    (found,) = run_graph_op(op, [np.array([[[[-128, -5], [-7, -6]]]], dtype=np.int8)])
    assert found.dtype == np.int8
    assert found[0, 0].tolist() == [[-128, -5, -5], [-7, -5, -5], [-7, -6, -6]]
