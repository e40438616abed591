"""What is left to the host after lowering: at the borders of a network, or in its middle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from .ir.graph import GraphOp

SUPPORTED = (
    "Conv", "MatMul", "Gemm", "AveragePool", "GlobalAveragePool", "MaxPool", "GlobalMaxPool", "ReduceMean", "Add", "Sub",
    "Mul", "BatchNormalization", "Relu", "Clip", "Softmax", "LayerNormalization", "functions of one element", "Concat", "Flatten", "Gather along known indices",
    "Pad", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze",
)  # fmt: skip
"""What the array runs between int8 tensors."""

ON_ARRAY = frozenset({"qnn", "tile", "pe"})
"""Dialects whose ops run on the array."""

_Values: TypeAlias = Callable[[Operation], Sequence[SSAValue]]


class Place(StrEnum):
    """Where an op of the host stands to those of the array."""

    BEFORE = "before"
    BETWEEN = "between"
    AFTER = "after"
    APART = "apart"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostOp:
    """One op that the host runs.

    Attributes:
        op: The op.
        place: Before all that the array does with its results, after all that it reads, between, or apart from both.
    """

    op: GraphOp
    place: Place

    @property
    def crosses(self) -> bool:
        """Whether data leave the array for it and come back."""
        return self.place == Place.BETWEEN

    def __str__(self) -> str:
        reason = "" if self.op.reason is None else f": {self.op.reason.data}"
        names = ", ".join(self.op.node_names) or "(made by the compiler)"
        return f"{names}: {self.op.op_type} (operator set {self.op.opset}) has no form on the array{reason}"


def host_ops(module: ModuleOp) -> tuple[HostOp, ...]:
    """The ops of a lowered module that the host runs, in order.

    Args:
        module: Of level `qnn`, `tile` or `pe`.
    """
    ops = list(module.body.block.ops)
    after = _reached(ops, lambda op: op.operands, lambda op: op.results)
    before = _reached(reversed(ops), lambda op: op.results, lambda op: op.operands)
    return tuple(
        HostOp(op=op, place=_place(op in after, op in before)) for op in ops if isinstance(op, GraphOp)
    )  # fmt: skip


def _place(is_after: bool, is_before: bool) -> Place:
    if is_after:
        return Place.BETWEEN if is_before else Place.AFTER
    return Place.BEFORE if is_before else Place.APART


def _reached(ops: Iterable[Operation], reads: _Values, makes: _Values) -> set[Operation]:
    """Ops that data of the array's ops flow into, directly or through others."""
    marked: set[SSAValue] = set()
    found: set[Operation] = set()
    for op in ops:
        is_reached = any(value in marked for value in reads(op))
        if is_reached:
            found.add(op)
        if is_reached or op.dialect_name() in ON_ARRAY:
            marked.update(makes(op))
    return found
