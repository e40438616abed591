"""Ops of the `graph` dialect, run by onnx's own reference implementation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...archdsl import CompileError
from ..ir.graph import GraphOp
from ..ir.store import Array

# The reference has these operators from a later version on, with the meaning that they always had.
FIRST_VERSIONS: Mapping[str, int] = {"DequantizeLinear": 19, "QuantizeLinear": 19}

IN_FLOATS = frozenset({"MaxPool"})
"""Operators that pad integers with what only floats have; their results are elements of the operand, and so exact."""


def run_graph_op(op: GraphOp, operands: Sequence[Array]) -> list[Array]:
    """Results of an op.

    Args:
        op: The op.
        operands: One array an operand.

    Raises:
        CompileError: The reference has no such operator, or it fails on these operands.
    """
    from onnx import helper
    from onnx.reference import ReferenceEvaluator

    inputs = _names("x", op.input_positions)
    outputs = _names("y", op.output_positions)
    given = dict(zip([name for name in inputs if name], operands, strict=True))
    is_cast = op.op_type in IN_FLOATS and operands[0].dtype.kind in "iu"
    if is_cast:
        given["x0"] = operands[0].astype(np.float64)
    names = [name for name in outputs if name]
    node = helper.make_node(op.op_type, inputs, outputs, domain=op.domain)
    for name, value in op.onnx_attributes().items():
        node.attribute.append(helper.make_attribute(name, value))
    version = max(op.opset, FIRST_VERSIONS.get(op.op_type, 1))
    empty = helper.make_empty_tensor_value_info
    graph = helper.make_graph([node], "op", [empty(name) for name in given], [empty(name) for name in names])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # 0/0 is the network's own doing
            evaluator: Any = ReferenceEvaluator(graph, opsets={op.domain: version})  # its methods carry no types
            results = cast("list[Any]", evaluator.run(names, given))
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        NotImplementedError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as e:
        where = ", ".join(op.node_names)
        message = f"{where}: {op.op_type} (operator set {op.opset}) cannot be run by onnx's reference: {e}"
        raise CompileError(message) from e
    if is_cast:
        results[0] = results[0].astype(operands[0].dtype)
    return [np.asarray(result) for result in results]


def _names(prefix: str, positions: Sequence[int]) -> list[str]:
    """A name for every position up to the last; empty where one is left out."""
    return [f"{prefix}{idx}" if idx in positions else "" for idx in range(max(positions, default=-1) + 1)]
