"""Three passes that do little."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.rewriter import Rewriter

from tileloom.archdsl import PassError
from tileloom.compiler.ir.attributes import int_attr
from tileloom.compiler.ir.data import ConstantOp
from tileloom.compiler.ir.qnn import LookupOp
from tileloom.compiler.passes.base import Pass, PassContext


def lookups(module: ModuleOp) -> list[LookupOp]:
    return [op for op in module.walk() if isinstance(op, LookupOp)]


@dataclass(frozen=True, slots=True, kw_only=True)
class InvertTables:
    """Turns the signs of tables: the result is another array of the store."""

    name: ClassVar = "invert-tables"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        result = module.clone()
        for op in lookups(result):
            table = op.table.owner
            assert isinstance(table, ConstantOp)
            inverted = ConstantOp.of(np.invert(table.array(ctx.store)), ctx.store)
            Rewriter.replace_op(table, inverted)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftZeroPoints:
    """Adds to zero points.

    Attributes:
        by: What to add.
    """

    name: ClassVar = "shift-zero-points"
    by: int = 1

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        result = module.clone()
        for op in lookups(result):
            op.attributes["zero_point"] = int_attr(int(op.zero_point.value.data) + self.by)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class DropAttribute:
    """Breaks the module."""

    name: ClassVar = "drop-attribute"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        result = module.clone()
        broken: list[Operation] = [*lookups(result)]
        for op in broken:
            del op.attributes["scale"]
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """Fails."""

    name: ClassVar = "refuse"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        raise PassError("ONNX node 'relu' is too green; paint it")


PIPELINE: tuple[Pass, ...] = (InvertTables(), ShiftZeroPoints(by=3), InvertTables(), ShiftZeroPoints(by=4))
