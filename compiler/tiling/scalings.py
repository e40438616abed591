"""What the integers of a program's inputs and outputs stand for, as far as the module says."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, FloatAttr, IntegerAttr
from xdsl.ir import Attribute, Operation, SSAValue

from ..ir.attributes import float_attr, ints_attr
from ..ir.data import InputOp
from ..ir.graph import GraphOp
from ..ir.store import DataStore
from ..passes.annotate_inputs import MOVERS
from ..passes.convert_unsigned_to_signed import SHIFT
from ..quantisation.reals import Step, step_of
from .partition import Part

UNKNOWN = Step(scale=0.0, zero_point=0)


def scalings_of(part: Part, store: DataStore) -> dict[str, Attribute]:
    """Attributes of the part's program."""
    inputs = [_given(value, store) or UNKNOWN for value in part.inputs]
    outputs = [_made(value) or UNKNOWN for value in part.outputs]
    return {**_attributes("input", inputs), **_attributes("output", outputs)}


def _attributes(what: str, steps: Sequence[Step]) -> dict[str, Attribute]:
    return {
        f"{what}_scales": ArrayAttr([float_attr(step.scale) for step in steps]),
        f"{what}_zero_points": ints_attr(step.zero_point for step in steps),
    }


def _stated(op: object) -> Step | None:
    """What an op says about its result."""
    if not isinstance(op, Operation):
        return None
    scale, zero = op.attributes.get("scale"), op.attributes.get("zero_point")
    if not isinstance(scale, FloatAttr) or not isinstance(zero, IntegerAttr):
        return None
    return Step(scale=float(scale.value.data), zero_point=int(zero.value.data))


def _made(value: SSAValue) -> Step | None:
    """What the op that made a value says, or where it only moves elements, the one before."""
    owner = value.owner
    while isinstance(owner, Operation) and owner.name.startswith("qnn."):
        found = _stated(owner)
        if found is not None:
            return found
        owner = owner.operands[0].owner
    return None


def _given(value: SSAValue, store: DataStore) -> Step | None:
    """What is known of a value that comes from the host."""
    owner = value.owner
    while isinstance(owner, GraphOp) and owner.op_type in MOVERS:
        owner = owner.inputs[0].owner
    if not isinstance(owner, GraphOp):
        return _stated(owner)
    if owner.op_type != "QuantizeLinear":
        return None
    before = owner.inputs[0].owner
    if isinstance(before, GraphOp) and before.op_type == "DequantizeLinear":
        source = before.inputs[0].owner  # a uint8 input that was made signed
        known = _stated(source) if isinstance(source, InputOp) else None
        return known and Step(scale=known.scale, zero_point=known.zero_point - SHIFT)
    return step_of(owner, store)
