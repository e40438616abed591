"""Pass `eliminate-common-subexpressions`."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..frontend.inference import RANDOM_OPS
from ..ir.attributes import names_attr
from ..ir.data import ConstantOp, InputOp, OutputOp
from ..ir.graph import GraphOp
from .base import PassContext


@dataclass(frozen=True, slots=True)
class EliminateCommonSubexpressions:
    """Computes what is computed twice once. The names of the nodes of both are kept.

    Before:
        %1 = "graph.relu"(%0) {nodes = ["a"]}
        %2 = "graph.relu"(%0) {nodes = ["b"]}
        %3 = "graph.add"(%1, %2)
    After:
        %1 = "graph.relu"(%0) {nodes = ["a", "b"]}
        %3 = "graph.add"(%1, %1)
    """

    name: ClassVar[str] = "eliminate-common-subexpressions"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        del ctx
        copy = module.clone()
        seen: dict[Hashable, Operation] = {}
        for op in list(copy.body.block.ops):
            if isinstance(op, (InputOp, OutputOp)) or (isinstance(op, GraphOp) and op.op_type in RANDOM_OPS):
                continue
            first = seen.setdefault(_key(op), op)
            if first is op:
                continue
            _join_names(first, op)
            for kept, result in zip(first.results, op.results, strict=True):
                result.replace_all_uses_with(kept)
            op.detach()
            op.erase()
        return copy


def _key(op: Operation) -> Hashable:
    attributes = tuple((name, value) for name, value in sorted(op.attributes.items()) if name != "nodes")
    return (op.name, tuple(op.operands), attributes, tuple(result.type for result in op.results))


def _join_names(first: Operation, second: Operation) -> None:
    if isinstance(first, ConstantOp):
        return  # zero points alone would have hundreds of names
    names = [name.data for op in (first, second) for name in getattr(op, "nodes", None) or ()]
    first.attributes["nodes"] = names_attr(dict.fromkeys(names))
