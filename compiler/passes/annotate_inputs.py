"""Pass `annotate-inputs`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ..ir.attributes import float_attr, int_attr
from ..ir.data import InputOp
from ..ir.graph import GraphOp
from ..ir.store import DataStore
from ..quantisation.reals import Step, step_of
from .base import PassContext

MOVERS = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operators whose results are the elements of their first operand."""


@dataclass(frozen=True, slots=True)
class AnnotateInputs:
    """Notes what the integers of the network's inputs stand for, which their first `dequantize_linear` says.

    Before:
        %0 = "data.input"() {input_name = "x"} : () -> tensor<1x8xi8>
        %1 = "graph.dequantize_linear"(%0, %scale, %zero)
    After:
        %0 = "data.input"() {input_name = "x", scale = 5.000000e-01 : f64, zero_point = 3 : i64} : () -> tensor<1x8xi8>
        %1 = "graph.dequantize_linear"(%0, %scale, %zero)
    """

    name: ClassVar[str] = "annotate-inputs"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        made = module.clone()
        for op in made.body.block.ops:
            step = _step(op.result, ctx.store) if isinstance(op, InputOp) else None
            if step is not None:
                op.attributes["scale"] = float_attr(step.scale)
                op.attributes["zero_point"] = int_attr(step.zero_point)
        return made


def _step(value: SSAValue, store: DataStore) -> Step | None:
    """What the first of a value's users that knows says about its integers."""
    for use in value.uses:
        user = use.operation
        if not isinstance(user, GraphOp) or use.index != 0:
            continue
        found = step_of(user, store) if user.op_type == "DequantizeLinear" else None
        if found is None and user.op_type in MOVERS:
            found = _step(user.outputs[0], store)
        if found is not None:
            return found
    return None
