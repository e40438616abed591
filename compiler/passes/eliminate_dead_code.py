"""Pass `eliminate-dead-code`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from ..ir.data import InputOp, OutputOp
from .base import PassContext


@dataclass(frozen=True, slots=True)
class EliminateDeadCode:
    """Removes ops whose results nobody reads.

    Before:
        %1 = "graph.relu"(%0)
        %2 = "graph.tanh"(%0)
        "data.output"(%1)
    After:
        %1 = "graph.relu"(%0)
        "data.output"(%1)
    """

    name: ClassVar[str] = "eliminate-dead-code"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        del ctx
        copy = module.clone()
        for op in reversed(list(copy.body.block.ops)):
            if isinstance(op, (InputOp, OutputOp)) or any(result.first_use for result in op.results):
                continue
            op.detach()
            op.erase()
        return copy
