"""Constraints of a sweep: `area_mm2 <= 20`, `hierarchy.scratchpad.capacity >= 2 * 32 KiB`.

A constraint compares arithmetic over metrics of the result and dotted paths into the architecture, by a
whitelist and never by `eval`. A number with a unit becomes a canonical number (bytes, Hz, pJ, ...), as
paths do.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ..archdsl import nearest_hint
from .objectives import METRIC_NAMES
from .quantities import KNOWN_UNITS, BandwidthUnit, parse_quantity

Environment = Mapping[str, float]

_BINARY: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: math.pow,
}
_COMPARE: Final[dict[type[ast.cmpop], Callable[[float, float], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: Final[dict[str, tuple[Callable[[list[float]], float], int, int]]] = {
    "min": (min, 2, 99),
    "max": (max, 2, 99),
    "abs": (lambda args: abs(args[0]), 1, 1),
    "ceil": (lambda args: math.ceil(args[0]), 1, 1),
    "floor": (lambda args: math.floor(args[0]), 1, 1),
    "log2": (lambda args: math.log2(args[0]), 1, 1),
}
_OTHER_BANDWIDTHS: Final = {
    "bytes/s": "a bandwidth per second; constraints see bandwidths in B/cycle",
    "bytes/cycle": "a bandwidth per cycle; constraints on GPUs and systems see bandwidths in B/s",
}
_ALLOWED: Final = f"+ - * / // % **, < <= > >= == !=, and, or, not, parentheses and {', '.join(_FUNCTIONS)}"


class ConstraintError(ValueError):
    """A constraint that cannot be understood.

    Attributes:
        offset: 0-based place of the fault in the constraint's text.
    """

    def __init__(self, message: str, offset: int = 0) -> None:
        super().__init__(message)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Constraint:
    """One parsed constraint; equal when written equal.

    Attributes:
        text: As the specification writes it.
        names: Metrics and dotted paths that it reads, sorted.
    """

    text: str
    names: tuple[str, ...] = field(compare=False)
    tree: ast.expr = field(compare=False, repr=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics among its names: without any, it can be decided before the point runs."""
        return tuple(name for name in self.names if name in METRIC_NAMES)

    @property
    def paths(self) -> tuple[str, ...]:
        """The dotted paths among its names."""
        return tuple(name for name in self.names if name not in METRIC_NAMES)

    def is_decided_by(self, environment: Environment) -> bool:
        """Whether every name has a value."""
        return all(name in environment for name in self.names)

    def holds(self, environment: Environment) -> bool:
        """Whether the constraint holds; arithmetic without a value (1 / 0, log2 of 0) makes it false.

        Args:
            environment: Value of every name, in canonical units.
        """
        try:
            return bool(_value(self.tree, environment))
        except (ArithmeticError, ValueError):
            return False


def parse_constraint(text: str, bandwidths: BandwidthUnit = "bytes/cycle") -> Constraint:
    """Parse one constraint, for example `area_mm2 <= 20 and clock >= 500 MHz`.

    Args:
        text: The constraint.
        bandwidths: Unit in which the paths that it reads have bandwidths.

    Raises:
        ConstraintError: It is no comparison, or uses something that is not whitelisted.
    """
    plain = _without_units(text, bandwidths)
    try:
        tree = ast.parse(plain.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise ConstraintError(f"'{text}' is not a constraint; write a comparison such as 'area_mm2 <= 20'") from err
    if not _is_claim(tree):
        raise ConstraintError(f"'{text}' is not a comparison; write one such as 'area_mm2 <= 20'")
    names: set[str] = set()
    _check(tree, text, names)
    return Constraint(text, tuple(sorted(names)), tree)


_KEYWORDS: Final = frozenset({"and", "or", "not", "if", "else", "in", "is"})
_QUANTITY: Final = re.compile(
    r"(?<![\w.])(?P<number>\d++(?:\.\d*+)?+(?:[eE][+-]?\d++)?+|\.\d++)\s*(?P<unit>[A-Za-z][A-Za-z0-9]*(?:/[A-Za-z]+)?)"
)


def _without_units(text: str, bandwidths: BandwidthUnit) -> str:
    """The text with every quantity replaced by its canonical number."""

    def put(found: re.Match[str]) -> str:
        number, unit = found["number"], found["unit"]
        if unit in _KEYWORDS:
            return found[0]
        quantity = parse_quantity(f"{number} {unit}")
        if quantity is None and "/" in unit:  # `64 B/clock`: a division by a name
            head, _, rest = unit.partition("/")
            quantity = parse_quantity(f"{number} {head}")
            return found[0] if quantity is None else f"{quantity.value!r}/{rest}"
        if quantity is None:
            hint = nearest_hint(unit, KNOWN_UNITS, show=8)
            raise ConstraintError(f"unknown unit '{unit}' in '{found[0]}'{hint}", found.start("unit"))
        if quantity.canonical_unit in _OTHER_BANDWIDTHS and quantity.canonical_unit != bandwidths:
            raise ConstraintError(f"'{found[0]}' is {_OTHER_BANDWIDTHS[quantity.canonical_unit]}", found.start())
        return repr(quantity.value)

    return _QUANTITY.sub(put, text)


def _is_claim(tree: ast.expr) -> bool:
    if isinstance(tree, ast.BoolOp):
        return all(_is_claim(value) for value in tree.values)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not):
        return _is_claim(tree.operand)
    return isinstance(tree, ast.Compare)


def _check(tree: ast.expr, text: str, names: set[str]) -> None:
    """Refuse what is not whitelisted and collect names."""
    match tree:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return
        case ast.Name() | ast.Attribute():
            names.add(_dotted(tree, text))
            return
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            parts = [left, right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not(), operand=operand):
            parts = [operand]
        case ast.BoolOp(values=parts):
            pass
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARE for op in ops):
            parts = [left, *rest]
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
            _, least, most = _FUNCTIONS[name]
            if not least <= len(parts) <= most:
                raise ConstraintError(f"{name} takes {least} argument{'s' * (least > 1)}, not {len(parts)}")
        case _:
            part = ast.unparse(tree)
            raise ConstraintError(
                f"'{part}' is not allowed in a constraint; there are {_ALLOWED}", max(0, text.find(part))
            )
    for part in parts:
        _check(part, text, names)


def _dotted(tree: ast.expr, text: str) -> str:
    if isinstance(tree, ast.Name):
        return tree.id
    if isinstance(tree, ast.Attribute):
        return f"{_dotted(tree.value, text)}.{tree.attr}"
    part = ast.unparse(tree)
    raise ConstraintError(f"'{part}' is not a name or dotted path", max(0, text.find(part)))


def _value(tree: ast.expr, environment: Environment) -> float:
    match tree:
        case ast.Constant(value=int() | float() as value):
            return float(value)  # whole numbers would let `9 ** 9 ** 9` run for ever
        case ast.Name() | ast.Attribute():
            return float(environment[_dotted(tree, "")])
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, environment), _value(right, environment))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _value(operand, environment)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, environment)
        case ast.UnaryOp(operand=operand):
            return _value(operand, environment)
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_value(value, environment) for value in values)
        case ast.BoolOp(values=values):
            return any(_value(value, environment) for value in values)
        case ast.Compare(left=left, ops=ops, comparators=rest):
            values = [_value(part, environment) for part in (left, *rest)]
            return all(_COMPARE[type(op)](a, b) for op, a, b in zip(ops, values[:-1], values[1:], strict=True))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _FUNCTIONS[name][0]([_value(arg, environment) for arg in args])
        case _:
            raise AssertionError(f"not whitelisted: {ast.dump(tree)}")
