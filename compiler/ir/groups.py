"""Groups of operands and results as MLIR sees them.

MLIR gives all values of an optional or variadic group of an IRDL dialect one type. Where types may differ, one group of ours
is several of MLIR's, and where there are several the text says how many values each has, in `operand_segment_sizes` and
`result_segment_sizes`. Modules in memory do not have these attributes: they follow from the types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from xdsl.dialects.builtin import DenseArrayBase, i32
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
from xdsl.irdl import (
    AnyAttr,
    AttrConstraint,
    AttrSizedOperandSegments,
    IRDLOperation,
    OptionalDef,
    RangeConstraint,
    RangeLengthConstraint,
    RangeOf,
    VariadicDef,
)

from .graph import GraphOp

Side = Literal["operand", "result"]
Word = Literal["single", "optional", "variadic"]
MOST_GROUPS: Final = 16
"""Of MLIR's for one of ours without a limit; neighbours of one type share a group."""
XDSL_SIZES: Final = AttrSizedOperandSegments.attribute_name
"""What xDSL calls the attribute that MLIR calls `operand_segment_sizes`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """One of MLIR's groups.

    Attributes:
        name: Unique among the op's operands, or its results.
        word: How many values it has.
        constraint: What each value must be.
    """

    name: str
    word: Word
    constraint: AttrConstraint[Any]


def element_constraint(constraint: RangeConstraint[Any]) -> AttrConstraint[Any]:
    """What every element of a range must be."""
    if isinstance(constraint, RangeLengthConstraint):
        return element_constraint(constraint.constraint)
    return constraint.constr if isinstance(constraint, RangeOf) else AnyAttr()


@cache
def groups_of(op_type: type[Operation], side: Side) -> tuple[Group, ...]:
    """The groups of an op's operands or results."""
    if not issubclass(op_type, IRDLOperation):
        return ()
    definition = op_type.get_irdl_definition()
    found: list[Group] = []
    for name, range_ in definition.operands if side == "operand" else definition.results:
        constraint = element_constraint(range_.constr)
        if isinstance(range_, OptionalDef):
            words: list[Word] = ["optional"]
        elif not isinstance(range_, VariadicDef):
            words = ["single"]
        elif _is_one_type(constraint):
            words = ["variadic"]
        else:
            words = _words(op_type, side)
        found += [
            Group(name=name if len(words) == 1 else f"{name}{idx}", word=word, constraint=constraint)
            for idx, word in enumerate(words)
        ]
    return tuple(found)


def text_attributes(op: Operation) -> dict[str, Attribute]:
    """The attributes of an op in the text."""
    attributes = dict(op.attributes)
    if XDSL_SIZES in attributes:
        attributes[_sizes_name("operand")] = attributes.pop(XDSL_SIZES)
        return attributes
    sides: tuple[tuple[Side, Sequence[Attribute]], ...] = (("operand", op.operand_types), ("result", op.result_types))
    for side, types in sides:
        if _needs_sizes(type(op), side):
            sizes = _sizes(groups_of(type(op), side), types)
            attributes[_sizes_name(side)] = DenseArrayBase.from_list(i32, sizes)
    return attributes


def take_sizes(op: Operation) -> None:
    """Makes the attributes of an op from the text those that it has in memory."""
    for side in ("operand", "result"):
        sizes = op.attributes.pop(_sizes_name(side), None)
        if sizes is not None and side == "operand" and _is_sized(type(op)):
            op.attributes[XDSL_SIZES] = sizes


def _words(op_type: type[Operation], side: Side) -> list[Word]:
    """What a variadic group becomes: as many values as there must be, and those that there may be."""
    least, most = op_type.counts(side) if issubclass(op_type, GraphOp) else (0, None)
    needed: list[Word] = ["single"] * least
    others: list[Word] = ["variadic"] * MOST_GROUPS if most is None else ["optional"] * (most - least)
    return needed + others


def _is_one_type(constraint: AttrConstraint[Any]) -> bool:
    """Whether values that a constraint allows have one type: one without parameters, `index` for example."""
    bases = constraint.get_bases() or set()
    return len(bases) == 1 and all(
        issubclass(base, ParametrizedAttribute) and not base.get_irdl_definition().parameters for base in bases
    )


@cache
def _needs_sizes(op_type: type[Operation], side: Side) -> bool:
    return sum(group.word != "single" for group in groups_of(op_type, side)) > 1


@cache
def _is_sized(op_type: type[Operation]) -> bool:
    return issubclass(op_type, IRDLOperation) and any(
        isinstance(option, AttrSizedOperandSegments) for option in op_type.get_irdl_definition().options
    )


def _sizes_name(side: Side) -> str:
    return f"{side}_segment_sizes"


def _sizes(groups: Sequence[Group], types: Sequence[Attribute]) -> list[int]:
    """How many values each group has; where there are too many, the last one has the rest, and MLIR says so."""
    sizes: list[int] = []
    begin = 0
    for group in groups:
        end = min(begin + 1, len(types))
        while group.word == "variadic" and end < len(types) and types[end] == types[begin]:
            end += 1
        sizes.append(end - begin)
        begin = end
    sizes[-1] += len(types) - begin
    return sizes
