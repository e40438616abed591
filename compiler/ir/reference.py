"""The reference page of the dialects, from their definitions."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    ArrayOfConstraint,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute, Dialect
from xdsl.irdl import (
    AttrConstraint,
    EqAttrConstraint,
    IRDLOperation,
    OptAttributeDef,
    OptionalDef,
    VariadicDef,
)

from .groups import XDSL_SIZES, element_constraint
from .registry import OWN_DIALECTS

_KINDS: Final[dict[type[Attribute], str]] = {
    ArrayAttr: "list", DenseArrayBase: "integers", FloatAttr: "float", IndexType: "index", IntegerAttr: "integer",
    IntegerType: "integer", MemRefType: "memref", StringAttr: "text", TensorType: "tensor", UnitAttr: "flag",
}  # fmt: skip


def ir_markdown(dialects: Iterable[Dialect] = OWN_DIALECTS) -> str:
    """The page: a table of ops for each dialect."""
    lines = [
        "# Dialects of the IR",
        "",
        "Generated from `compiler/ir` by `ir_markdown`; what they are for is in [ir.md](ir.md).",
        "`?` marks what may be left out, `*` what may come any number of times.",
    ]
    for dialect in dialects:
        operations = [found for found in dialect.operations if issubclass(found, IRDLOperation)]
        lines += ["", f"## {dialect.name}", "", _first_line(sys.modules[operations[0].__module__].__doc__), ""]
        lines += ["| op | operands | attributes | results | is |", "|---|---|---|---|---|"]
        lines += map(_row, operations)
    return "\n".join(lines) + "\n"


def _row(operation: type[IRDLOperation]) -> str:
    definition = operation.get_irdl_definition()
    attributes = [
        f"`{name}`{'?' if isinstance(found, OptAttributeDef) else ''} {_kind(found.constr)}"
        for name, found in definition.attributes.items()
        if name != XDSL_SIZES
    ]
    groups = [
        [f"`{name}`{_mark(found)} {_kind(element_constraint(found.constr))}" for name, found in ranges]
        for ranges in (definition.operands, definition.results)
    ]
    cells = [f"`{operation.name}`", *(", ".join(part) for part in (groups[0], attributes, groups[1]))]
    return f"| {' | '.join(cells)} | {_first_line(operation.__doc__)} |".replace("|  |", "| |")


def _mark(found: object) -> str:
    if isinstance(found, OptionalDef):
        return "?"
    return "*" if isinstance(found, VariadicDef) else ""


def _kind(constraint: AttrConstraint[Any]) -> str:
    """A word for what a constraint lets through."""
    if isinstance(constraint, EqAttrConstraint):
        return f"`{constraint.attr}`"
    if isinstance(constraint, ArrayOfConstraint):
        elements = cast("ArrayOfConstraint[Any]", constraint).elem_range_constraint
        return f"{_kind(element_constraint(elements))}s"
    bases = constraint.get_bases()
    if bases is None:
        return "any"
    return " or ".join(sorted({_KINDS.get(base, f"`{base.name}`") for base in bases}))


def _first_line(text: str | None) -> str:
    return (text or "").strip().split("\n", 1)[0]
