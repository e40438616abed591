"""Functions of one element: every graph of element-wise ops between one tensor and a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from ...archdsl import CompileError
from ..interpreters.graph import run_graph_op
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp
from ..ir.graph import GraphOp, owner_of
from ..ir.store import Array, DataStore
from .reals import Quantised, constant_of

ALL_INT8 = np.arange(-128, 128)


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A value as a function of another of the same shape.

    Attributes:
        source: What it is a function of.
        ops: What computes it, in order; none where the value is the source.
        constants: Scalars that they read.
        value: The value.
    """

    source: SSAValue
    ops: tuple[GraphOp, ...]
    constants: Mapping[SSAValue, Array]
    value: SSAValue

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the ONNX nodes that it stands for."""
        return tuple(name for op in self.ops for name in op.node_names)

    def evaluate(self, samples: Array) -> Array:
        """The function at some points.

        Args:
            samples: [points] Values of the source.

        Raises:
            CompileError: An op cannot be run by onnx's reference.
        """
        found = {self.source: samples, **self.constants}
        for op in self.ops:
            found[op.outputs[0]] = run_graph_op(op, [found[value] for value in op.inputs])[0]
        return found[self.value]

    def of_integers(self, source: Quantised) -> Array:
        """The function of every int8 value that the source can have, [256] from -128 on."""
        return self.evaluate(((ALL_INT8 - source.zero_point) * source.scale).astype(np.float32))


def function_of(value: SSAValue, store: DataStore) -> Function | None:
    """The function that ends in a value and begins as early as possible; None where it reads several tensors.

    It begins behind ops with constants that differ from element to element.
    """
    ops: list[GraphOp] = []
    constants: dict[SSAValue, Array] = {}
    sources: list[SSAValue] = []
    seen: set[SSAValue] = set()
    shape = shape_of(value)

    def visit(current: SSAValue) -> None:
        if current in seen:
            return
        seen.add(current)
        owner = owner_of(current)
        array = constant_of(current, store)
        if array is not None and array.size == 1:
            constants[current] = array.reshape(())
        elif _is_step(owner, shape, store) and isinstance(owner, GraphOp):
            for operand in owner.inputs:
                visit(operand)
            ops.append(owner)
        else:
            sources.append(current)

    visit(value)
    if len(sources) != 1 or shape_of(sources[0]) != shape:
        return None
    return Function(source=sources[0], ops=tuple(ops), constants=constants, value=value)


def is_computable(function: Function) -> bool:
    """Whether onnx's reference can run it."""
    try:
        function.evaluate(np.zeros(2, np.float32))
    except CompileError:
        return False
    return True


def _is_step(owner: object, shape: tuple[int, ...], store: DataStore) -> bool:
    """Whether an op makes every element from one element of its operands, and in the same way."""
    if not isinstance(owner, GraphOp) or owner.operator is None or not owner.operator.is_elementwise:
        return False
    if len(owner.outputs) != 1 or shape_of(owner.outputs[0]) != shape:
        return False
    others = [value for value in owner.inputs if shape_of(value) != shape or isinstance(owner_of(value), ConstantOp)]
    return all(array is not None and array.size == 1 for array in (constant_of(value, store) for value in others))
