"""Refuses networks that would need the host in between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...archdsl import PassError
from ..ir.data import ConstantOp, InputOp, OutputOp
from ..ir.graph import GraphOp
from .base import PassContext

BORDER = frozenset({"QuantizeLinear", "DequantizeLinear", "Softmax", "Cast", "Reshape", "Transpose"})
"""Operators that the host may do in front of the first program and behind the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckHostOps:
    """Leaves the module as it is, and fails where ops would run on the host that must not.

    In front of the first program and behind the last one the host may convert numbers and take the final softmax. All
    else must be asked for.

    Before and after:
        %1 = "qnn.matmul"(%0, ...) ...
        %2 = "graph.dequantize_linear"(%1, ...) ...
        %3 = "graph.softmax"(%2) ...

    Attributes:
        fallback: Whether any op may run on the host.
    """

    name: ClassVar = "check-host-ops"
    fallback: bool = False

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See `Pass`."""
        if self.fallback:
            return module
        faults = [_fault(op, place) for op, place in host_ops(module) if place == "middle" or op.op_type not in BORDER]
        if not any(_is_on_array(op) for op in module.body.block.ops):
            faults.append(
                "nothing of the network is quantised to int8, so nothing runs on the array: quantise it first"
            )
        if faults:
            kinds = ", ".join(f"{kind} ({num})" for kind, num in sorted(_kinds(module).items()))
            raise PassError("\n".join([*faults, f"with --fallback the host runs what the array cannot; here: {kinds}"]))
        return module


def host_ops(module: ModuleOp) -> list[tuple[GraphOp, str]]:
    """Every op that runs on the host, at any level, and where: in `front` of all that runs on the array, `behind` it, or in the `middle`."""
    behind: set[Operation] = set()
    leads: set[Operation] = set()
    ops = list(module.body.block.ops)
    for op in ops:
        owners = [operand.owner for operand in op.operands]
        if _is_on_array(op) or any(owner in behind for owner in owners):
            behind.add(op)
    for op in reversed(ops):
        users = [use.operation for result in op.results for use in result.uses]
        if _is_on_array(op) or any(user in leads for user in users):
            leads.add(op)
    found: list[tuple[GraphOp, str]] = []
    for op in ops:
        if isinstance(op, GraphOp):
            place = "middle" if op in behind and op in leads else "behind" if op in behind else "front"
            found.append((op, place))
    return found


def _is_on_array(op: Operation) -> bool:
    return op.name.startswith("qnn.") or op.name in ("tile.program", "pe.program")


def _fault(op: GraphOp, place: str) -> str:
    nodes = ", ".join(op.node_names)
    where = {"middle": "between ops of the array", "front": "in front of all that runs on the array"}
    return (
        f"{nodes}: {op.op_type} (operator set {op.opset}) has no form in integers here, and would run on the host"
        f" {where.get(place, 'behind all that runs on the array')}"
    )


def _kinds(module: ModuleOp) -> Counter[str]:
    skipped = (ConstantOp, InputOp, OutputOp)
    return Counter(
        op.op_type for op in module.body.block.ops if isinstance(op, GraphOp) and not isinstance(op, skipped)
    )
