"""The dialects as an IRDL file, with which MLIR's `mlir-opt --irdl-file` verifies modules without our code.

MLIR then knows every op: how many operands, results and regions it has and of what kind, and which attributes it must have
and of what kind.

Limits: IRDL says nothing of shapes, element types, elements of arrays, values, or optional attributes. Our own verifiers check
all that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    UnitAttr,
    VectorType,
)
from xdsl.ir import Attribute, Dialect, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import (
    AttrConstraint,
    AttrSetConstraint,
    EqAttrConstraint,
    IRDLOperation,
    OptAttributeDef,
    VariadicDef,
)

from .groups import XDSL_SIZES, Side, Word, groups_of
from .registry import OWN_DIALECTS

_BASES: Final[dict[type[Attribute], str]] = {
    AffineMapAttr: '"#builtin.affine_map"',
    ArrayAttr: '"#builtin.array"',
    DenseArrayBase: '"#builtin.dense_array"',
    DictionaryAttr: '"#builtin.dictionary"',
    FloatAttr: '"#builtin.float"',
    IntegerAttr: '"#builtin.integer"',
    StringAttr: '"#builtin.string"',
    SymbolRefAttr: '"#builtin.symbol_ref"',
    UnitAttr: '"#builtin.unit"',
    IntegerType: '"!builtin.integer"',
    MemRefType: '"!builtin.memref"',
    TensorType: '"!builtin.tensor"',
    VectorType: '"!builtin.vector"',
}
"""What MLIR calls the kinds of its own attributes and types."""
_WORDS: Final[dict[Word, str]] = {"single": "", "optional": "optional ", "variadic": "variadic "}
_SINGLE: Final = frozenset[type[Attribute]]({Float16Type, Float32Type, Float64Type, IndexType})
"""Types of MLIR without parameters, whose names are their text."""


class _Body:
    """The lines of one definition. Each constraint is a value of its own: MLIR makes what shares a value equal."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._num_values = 0

    def add(self, line: str) -> None:
        self.lines.append(line)

    def value(self, right_side: str) -> str:
        name = f"%{self._num_values}"
        self._num_values += 1
        self.add(f"{name} = {right_side}")
        return name

    def constraint(self, constraint: AttrConstraint[Any]) -> str:
        """The value that stands for a constraint, as exactly as IRDL can say it."""
        if isinstance(constraint, EqAttrConstraint):
            return self.value(f"irdl.is {constraint.attr}")
        if isinstance(constraint, AttrSetConstraint):
            return self._any_of(sorted(f"irdl.is {attribute}" for attribute in constraint.values))
        bases = constraint.get_bases()
        if bases is None or not all(_is_nameable(base) for base in bases):
            return self.value("irdl.any")
        return self._any_of(sorted(map(_base, bases)))

    def _any_of(self, choices: Sequence[str]) -> str:
        values = [self.value(choice) for choice in choices]
        return values[0] if len(values) == 1 else self.value(f"irdl.any_of({', '.join(values)})")


def irdl_text(dialects: Iterable[Dialect] = OWN_DIALECTS, *, is_named: bool = False) -> str:
    """The dialects in IRDL.

    Args:
        dialects: Which ones.
        is_named: Whether operands, results, regions and parameters have names, as LLVM 20 and later ask and LLVM 19 forbids.

    Raises:
        TypeError: A dialect has what IRDL has no word for.
    """
    return "\n".join(_dialect(dialect, is_named) for dialect in dialects)


def _dialect(dialect: Dialect, is_named: bool) -> str:
    parts = [_attribute(attribute, is_named) for attribute in dialect.attributes]
    for operation in dialect.operations:
        assert issubclass(operation, IRDLOperation)
        parts.append(_operation(operation, is_named))
    return f"irdl.dialect @{dialect.name} {{\n" + "".join(parts) + "}\n"


def _attribute(attribute: type[Attribute], is_named: bool) -> str:
    if not issubclass(attribute, ParametrizedAttribute):
        raise TypeError(f"{attribute.name}: IRDL has only attributes with parameters; make it a ParametrizedAttribute")
    body = _Body()
    definition = attribute.get_irdl_definition()
    parameters = [_named(name, body.constraint(found.constr), is_named) for name, found in definition.parameters]
    if parameters:
        body.add(f"irdl.parameters({', '.join(parameters)})")
    kind = "type" if issubclass(attribute, TypeAttribute) else "attribute"
    return _definition(kind, attribute.name, body)


def _operation(operation: type[IRDLOperation], is_named: bool) -> str:
    definition = operation.get_irdl_definition()
    if definition.properties:
        raise TypeError(f"{operation.name}: ops of IRDL dialects have no properties; use attr_def")
    body = _Body()
    for side in ("operand", "result"):
        groups = _groups(body, operation, side, is_named)
        if groups:
            body.add(f"irdl.{side}s({', '.join(groups)})")
    if definition.regions:
        body.add(f"irdl.regions({', '.join(_regions(body, operation, is_named))})")
    required = [
        f'"{name}" = {body.constraint(found.constr)}'
        for name, found in definition.attributes.items()
        if not isinstance(found, OptAttributeDef) and name != XDSL_SIZES
    ]
    if required:
        body.add(f"irdl.attributes {{ {', '.join(required)} }}")
    return _definition("operation", operation.name, body)


def _groups(body: _Body, operation: type[IRDLOperation], side: Side, is_named: bool) -> list[str]:
    return [
        _named(group.name, _WORDS[group.word] + body.constraint(group.constraint), is_named)
        for group in groups_of(operation, side)
    ]


def _regions(body: _Body, operation: type[IRDLOperation], is_named: bool) -> list[str]:
    parts: list[str] = []
    for name, found in operation.get_irdl_definition().regions:
        if isinstance(found, VariadicDef):
            raise TypeError(f"{operation.name}: IRDL has no optional or variadic regions; make {name} a region_def")
        parts.append(_named(name, body.value("irdl.region"), is_named))
    return parts


def _is_nameable(base: type[Attribute]) -> bool:
    """Whether IRDL can name a kind: those of MLIR above, and those of dialects, whose names have a dot."""
    return base in _BASES or base in _SINGLE or "." in base.name.removeprefix("builtin.")


def _base(base: type[Attribute]) -> str:
    """The constraint that an attribute or type is of a kind."""
    if base in _SINGLE:
        return f"irdl.is {base.name}"
    if base in _BASES:
        return f"irdl.base {_BASES[base]}"
    dialect, name = base.name.split(".", 1)
    return f"irdl.base @{dialect}::@{name}"


def _named(name: str, value: str, is_named: bool) -> str:
    return f"{name.rstrip('_')}: {value}" if is_named else value


def _definition(kind: str, name: str, body: _Body) -> str:
    lines = "".join(f"    {line}\n" for line in body.lines)
    return f"  irdl.{kind} @{name.split('.', 1)[1]} {{\n{lines}  }}\n"
