"""Dialect `graph`: tensors and network ops with ONNX semantics. Level 1 of the IR.

`graph_table` lists the operators; every other one is a `graph.onnx` op that says which. Operands and results are those of
the ONNX operator in force at the op's `version`, constants of the `data` dialect among them.

Attributes of every op, besides those of the ONNX operator:
    version: Of the operator set.
    nodes: Names of the ONNX nodes that it stands for.
    given_inputs, given_outputs: Their positions, where optional ones are left out in between.
    reason: Why the op could not be converted to the next level, where a pass tried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    opt_attr_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .attributes import (
    Float,
    Integer,
    Integers,
    Tensor,
    attribute_of,
    int_attr,
    ints_attr,
    names_attr,
    plain_value,
    shape_of,
)
from .graph_table import MANY, OPERATORS, Operator, ShapeRule

REASON = "reason"
Plain: TypeAlias = "int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]"
"""What an ONNX attribute holds, as Python has it."""


class GraphOp(IRDLOperation):
    """One ONNX operator applied."""

    inputs = var_operand_def(Tensor)
    version = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    given_inputs = opt_attr_def(Integers)
    given_outputs = opt_attr_def(Integers)
    reason = opt_attr_def(StringAttr)
    outputs = var_result_def(Tensor)
    traits = traits_def(Pure())

    @classmethod
    def counts(cls, side: Literal["operand", "result"]) -> tuple[int, int | None]:
        """The least and the greatest number of its operands or results; None for no limit."""
        operator = _ROWS.get(cls.name)
        if operator is None:
            return 0, None
        least, most = operator.operands if side == "operand" else (1, operator.results)
        return least, None if most == MANY else most

    @property
    def operator(self) -> Operator | None:
        """Its row in the table; None for `graph.onnx`."""
        return _ROWS.get(self.name)

    @property
    def op_type(self) -> str:
        """The ONNX operator."""
        assert self.operator is not None
        return self.operator.op_type

    @property
    def domain(self) -> str:
        """Its operator set; empty for the standard one."""
        return ""

    @property
    def opset(self) -> int:
        """Version of the operator set."""
        return int(self.version.value.data)

    @property
    def node_names(self) -> tuple[str, ...]:
        """Names of the ONNX nodes that it stands for."""
        return tuple(name.data for name in self.nodes)

    def input(self, position: int) -> SSAValue | None:
        """The operand at a position of the ONNX operator; None where it is left out."""
        return self._at(self.inputs, self.given_inputs, position)

    def output(self, position: int) -> SSAValue | None:
        """The result at a position of the ONNX operator; None where it is left out."""
        return self._at(self.outputs, self.given_outputs, position)

    @property
    def input_positions(self) -> tuple[int, ...]:
        """Positions of the operands in the ONNX operator."""
        return _positions(self.given_inputs, len(self.inputs))

    @property
    def output_positions(self) -> tuple[int, ...]:
        """Positions of the results in the ONNX operator."""
        return _positions(self.given_outputs, len(self.outputs))

    def onnx_attributes(self) -> dict[str, Plain]:
        """Attributes of the ONNX operator by name."""
        assert self.operator is not None
        known = self.operator.attributes
        return {name: plain_value(value) for name, value in self.attributes.items() if name in known}

    def int_attribute(self, name: str, default: int) -> int:
        """An integer attribute of the ONNX operator."""
        value = self.attributes.get(name)
        return default if value is None else int(cast(int, plain_value(value)))

    def float_attribute(self, name: str, default: float) -> float:
        """A floating-point attribute of the ONNX operator."""
        value = self.attributes.get(name)
        return default if value is None else float(cast(float, plain_value(value)))

    def text_attribute(self, name: str, default: str) -> str:
        """A text attribute of the ONNX operator."""
        value = self.attributes.get(name)
        return default if value is None else str(plain_value(value))

    def ints_attribute(self, name: str) -> tuple[int, ...] | None:
        """A list of integers; None where it is left out."""
        value = self.attributes.get(name)
        return None if value is None else tuple(int(x) for x in cast("tuple[int, ...]", plain_value(value)))

    def verify_(self) -> None:
        operator = self.operator
        if operator is None:
            return
        count = max(self.input_positions, default=-1) + 1
        least, most = operator.operands
        if not least <= count <= most:
            raise VerifyException(f"{self.name}: has {count} operands; it takes {least} to {most}")
        if not 1 <= max(self.output_positions, default=-1) + 1 <= operator.results:
            raise VerifyException(f"{self.name}: has {len(self.outputs)} results; it makes 1 to {operator.results}")
        result = self.output(0)
        operands = [shape_of(value) for value in self.inputs]
        if result is None or not all(is_static(shape) for shape in (*operands, shape_of(result))):
            return
        fault = _SHAPE_RULES[operator.shape](operands, shape_of(result))
        if fault:
            raise VerifyException(f"{self.name}: the result is {list(shape_of(result))}; {fault}")

    @staticmethod
    def _at(values: Sequence[SSAValue], given: Integers | None, position: int) -> SSAValue | None:
        positions = _positions(given, len(values))
        return values[positions.index(position)] if position in positions else None


def _positions(given: Integers | None, count: int) -> tuple[int, ...]:
    return tuple(range(count)) if given is None else tuple(int(value) for value in given.get_values())


def _define(operator: Operator) -> type[GraphOp]:
    """The op class of a row of the table."""
    kinds: Mapping[str, Any] = {
        "int": Integer, "ints": Integers, "float": Float, "text": StringAttr, "texts": ArrayAttr[StringAttr],
        "floats": AnyAttr(),
    }  # fmt: skip
    fields: dict[str, Any] = {
        f"onnx_{name}": opt_attr_def(kinds[kind], attr_name=name) for name, kind in operator.attributes.items()
    }
    doc = f"ONNX operator `{operator.op_type}`."
    class_name = f"{operator.op_type}Op"
    fields |= {"name": f"graph.{operator.name}", "__doc__": doc, "__module__": __name__}
    return irdl_op_definition(type(class_name, (GraphOp,), fields))


@irdl_op_definition
class OnnxOp(GraphOp):
    """Any other operator.

    Attributes:
        onnx_type, onnx_domain: The operator and its operator set.
        onnx_attributes: Its attributes.
    """

    name = "graph.onnx"
    onnx_type = attr_def(StringAttr)
    onnx_domain = attr_def(StringAttr)
    onnx_values = attr_def(DictionaryAttr)

    @property
    def op_type(self) -> str:
        return self.onnx_type.data

    @property
    def domain(self) -> str:
        return self.onnx_domain.data

    def onnx_attributes(self) -> dict[str, Plain]:
        return {name: plain_value(value) for name, value in self.onnx_values.data.items()}


_ROWS: Mapping[str, Operator] = {f"graph.{operator.name}": operator for operator in OPERATORS}
_CLASSES: Mapping[str, type[GraphOp]] = {operator.op_type: _define(operator) for operator in OPERATORS}


def make_op(
    op_type: str,
    inputs: Sequence[SSAValue | None],
    result_types: Sequence[Tensor | None],
    *,
    version: int,
    domain: str = "",
    attributes: Mapping[str, Plain] | None = None,
    nodes: Iterable[str] = (),
) -> GraphOp:
    """An op for one ONNX operator.

    Args:
        op_type: The operator.
        inputs: Its operands; None where one is left out.
        result_types: Types of its results; None where one is left out.
        version: Of the operator set.
        domain: Of the operator set.
        attributes: ONNX attributes.
        nodes: Names of the ONNX nodes that it stands for.
    """
    found = _CLASSES.get(op_type) if domain == "" else None
    plain = dict(attributes or {})
    if found is not None and (not set(plain) <= set(_ROWS[found.name].attributes)):
        found = None  # an attribute that the operator does not have: kept as it is
    values = {name: attribute_of(value) for name, value in sorted(plain.items())}
    own: dict[str, Attribute] = {"version": int_attr(version), "nodes": names_attr(nodes)}
    for name, given in (("given_inputs", inputs), ("given_outputs", result_types)):
        positions = [idx for idx, value in enumerate(given) if value is not None]
        if positions != list(range(len(positions))):
            own[name] = ints_attr(positions)
    if found is None:
        own |= {
            "onnx_type": StringAttr(op_type), "onnx_domain": StringAttr(domain), "onnx_values": DictionaryAttr(values)
        }  # fmt: skip
    else:
        own |= values
    operands = [value for value in inputs if value is not None]
    types = [kind for kind in result_types if kind is not None]
    return (found or OnnxOp).create(operands=operands, result_types=types, attributes=own)


def is_op(op: object, *op_types: str) -> bool:
    """Whether something is a graph op of one of these standard ONNX operators."""
    return isinstance(op, GraphOp) and op.domain == "" and op.op_type in op_types


def owner_of(value: SSAValue | None) -> Operation | None:
    """The op that makes a value."""
    owner = None if value is None else value.owner
    return owner if isinstance(owner, Operation) else None


def made_by(value: SSAValue | None, *op_types: str) -> GraphOp | None:
    """The graph op that makes a value, if it is one of these operators."""
    owner = owner_of(value)
    return owner if isinstance(owner, GraphOp) and is_op(owner, *op_types) else None


def is_static(shape: Sequence[int]) -> bool:
    """Whether every size is known."""
    return all(size >= 0 for size in shape)


_Fault: TypeAlias = Callable[[list[tuple[int, ...]], tuple[int, ...]], str]


def _check_same(operands: list[tuple[int, ...]], result: tuple[int, ...]) -> str:
    return "" if operands[0] == result else f"it must be that of the operand, {list(operands[0])}"


def _check_broadcast(operands: list[tuple[int, ...]], result: tuple[int, ...]) -> str:
    try:
        expected = np.broadcast_shapes(*operands)
    except ValueError:
        return f"operands {[list(shape) for shape in operands]} cannot be broadcast"
    return "" if expected == result else f"the operands give {list(expected)}"


def _check_size(operands: list[tuple[int, ...]], result: tuple[int, ...]) -> str:
    size = math.prod(operands[0])
    return "" if size == math.prod(result) else f"the operand has {size} elements"


def _check_rank(operands: list[tuple[int, ...]], result: tuple[int, ...]) -> str:
    return "" if len(operands[0]) == len(result) else f"the operand has {len(operands[0])} axes"


def _check_product(operands: list[tuple[int, ...]], result: tuple[int, ...]) -> str:
    first, second = operands[:2]
    if not first or not second or len(first) == 1 or len(second) == 1:
        return ""
    if first[-1] != second[-2]:
        return f"the operands {list(first)} and {list(second)} do not fit"
    return "" if (result[-2], result[-1]) == (first[-2], second[-1]) else "it must be rows by columns of the operands"


def _check_window(operands: list[tuple[int, ...]], result: tuple[int, ...]) -> str:
    return "" if len(operands[0]) == len(result) and operands[0][0] == result[0] else "batch and rank must stay"


def _check_nothing(operands: list[tuple[int, ...]], result: tuple[int, ...]) -> str:
    del operands, result
    return ""


_SHAPE_RULES: Mapping[ShapeRule, _Fault] = {
    "same": _check_same, "broadcast": _check_broadcast, "size": _check_size, "rank": _check_rank,
    "product": _check_product, "window": _check_window, "free": _check_nothing,
}  # fmt: skip

Graph = Dialect("graph", [*_CLASSES.values(), OnnxOp], [])
