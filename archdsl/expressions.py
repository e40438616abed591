"""`${...}` in YAML: arithmetic over named parameters, by a whitelist and never by `eval`.

A scalar that is one expression becomes a number; `${rows * 4} KiB` becomes text with the number put in.
`$${` stands for a literal `${`.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import cast

from .errors import Diagnostic
from .spec import nearest_hint
from .yamltree import Path, Place, Plain, YamlList, YamlMap, YamlScalar, YamlTree

Number = int | float

MAX_BITS = 4096
"""Longest integer that an expression may make; far above any real quantity."""

_EXPRESSION = re.compile(r"\$\$\{|\$\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ExpressionError(ValueError):
    """An expression that has no value; the message says why."""


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, int) and isinstance(exponent, int) and exponent > 0:
        if abs(base) > 1 and base.bit_length() * exponent > MAX_BITS:
            raise ExpressionError(f"{base} ** {exponent} is too large")
        return base**exponent
    result = base**exponent
    if isinstance(result, complex):
        raise ExpressionError(f"{base} ** {exponent} is not a real number")
    return result


def _log2(value: Number) -> Number:
    if value <= 0:
        raise ExpressionError(f"log2({value}) does not exist; its argument must be positive")
    return math.log2(value)


_BINARY: dict[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_UNARY: dict[type[ast.unaryop], Callable[[Number], Number]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
_FUNCTIONS: dict[str, tuple[Callable[..., Number], int, int]] = {
    "min": (min, 2, 99),
    "max": (max, 2, 99),
    "ceil": (math.ceil, 1, 1),
    "floor": (math.floor, 1, 1),
    "log2": (_log2, 1, 1),
}


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        raise ExpressionError(f"'{text}' is not an expression") from err


def evaluate(text: str, lookup: Callable[[str], Plain]) -> Plain:
    """The value of one expression.

    Args:
        text: Arithmetic over numbers and names, e.g. `rows * cols`.
        lookup: Value of a name; raises `ExpressionError` for an unknown one.

    Returns:
        A number (whole where the value is whole), or whatever a lone name stands for.

    Raises:
        ExpressionError: No such name, not whitelisted, division by zero, too large.
    """
    tree = _parse(text)
    if isinstance(tree, ast.Name):
        return lookup(tree.id)
    try:
        value = _value(tree, lookup, text)
    except ZeroDivisionError as err:
        raise ExpressionError(f"'{text}' divides by zero") from err
    except (OverflowError, RecursionError) as err:
        raise ExpressionError(f"'{text}' is too large") from err
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**53
    return int(value) if is_whole else value


def _value(tree: ast.expr, lookup: Callable[[str], Plain], text: str) -> Number:
    match tree:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number, text)
        case ast.Name(id=name):
            value = lookup(name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ExpressionError(f"'{name}' is {value!r}, and arithmetic needs a number")
            return value
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left, lookup, text), _value(right, lookup, text)), text)
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand, lookup, text))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            if name not in _FUNCTIONS:
                raise ExpressionError(f"unknown function '{name}'{nearest_hint(name, _FUNCTIONS)}")
            return _call(name, [_value(arg, lookup, text) for arg in args])
        case _:
            part = ast.unparse(tree)
            raise ExpressionError(
                f"'{part}' is not allowed in an expression; there are + - * / // % **, parentheses, "
                f"{', '.join(_FUNCTIONS)} and names of parameters"
            )


def _bounded(value: Number, text: str) -> Number:
    if value.bit_length() > MAX_BITS if isinstance(value, int) else not math.isfinite(value):
        raise ExpressionError(f"'{text}' is too large")
    return value


def _call(name: str, args: list[Number]) -> Number:
    function, least, most = _FUNCTIONS[name]
    if not least <= len(args) <= most:
        wanted = f"{least} argument" if least == most else f"at least {least} arguments"
        raise ExpressionError(f"{name} takes {wanted}, not {len(args)}")
    return function(*args)


class Resolver:
    """Puts the values of parameters into a tree, collecting faults.

    Attributes:
        broken: Paths whose value could not be had.
    """

    def __init__(self, parameters: Mapping[str, YamlTree], faults: list[Diagnostic], path: Path = ()) -> None:
        self.parameters = parameters
        self.faults = faults
        self.path = path
        self.broken: set[Path] = set()
        self._values: dict[str, Plain] = {}
        self._failed: set[str] = set()
        self._open: list[str] = []

    def resolve_parameters(self) -> None:
        """Evaluate every parameter, so that faults in unused ones are found as well."""
        for name, tree in self.parameters.items():
            path: Path = (*self.path, "parameters", name)
            if not _NAME.fullmatch(name):
                self._fault(tree.place, path, f"parameter '{name}' is not a name of letters, digits and '_'")
                continue
            if not isinstance(tree, YamlScalar):
                self._fault(tree.place, path, "a parameter is one number or text")
                self._failed.add(name)
                continue
            try:
                self._lookup(name)
            except ExpressionError as err:
                if str(err):
                    self._fault(tree.place, path, str(err))

    def resolve(self, tree: YamlTree) -> YamlTree:
        """The tree with every `${...}` replaced."""
        return self._resolve(tree, self.path)

    def _resolve(self, tree: YamlTree, path: Path) -> YamlTree:
        if isinstance(tree, YamlScalar):
            return self._scalar(tree, path)
        if isinstance(tree, YamlList):
            items = tuple(self._resolve(item, (*path, i)) for i, item in enumerate(tree.items))
            changed = any(new is not old for new, old in zip(items, tree.items, strict=True))
            return YamlList(items, tree.place) if changed else tree
        entries = {key: self._resolve(value, (*path, key)) for key, value in tree.entries.items()}
        changed = any(entries[key] is not value for key, value in tree.entries.items())
        return YamlMap(entries, tree.key_places, tree.place) if changed else tree

    def _scalar(self, tree: YamlScalar, path: Path) -> YamlScalar:
        if not isinstance(tree.value, str) or "${" not in tree.value:
            return tree
        try:
            return YamlScalar(substitute(tree.value, self._lookup), tree.place, tree.indent)
        except ExpressionError as err:
            self.broken.add(path)
            if str(err):
                column = tree.place.column + tree.indent + max(0, tree.value.find("${"))
                place = Place(tree.place.source, tree.place.line, column if tree.place.line else 0)
                self._fault(place, path, str(err))
            return tree

    def _fault(self, place: Place, path: Path, message: str) -> None:
        self.faults.append(place.diagnostic(path, message))

    def _lookup(self, name: str) -> Plain:
        if name in self._values:
            return self._values[name]
        if name in self._failed:
            raise ExpressionError  # its own fault is reported once, where it stands
        if name not in self.parameters:
            raise ExpressionError(f"unknown parameter '{name}'{nearest_hint(name, self.parameters)}")
        if name in self._open:
            chain = " -> ".join([*self._open[self._open.index(name) :], name])
            raise ExpressionError(f"parameters depend on each other in a circle: {chain}")
        tree = self.parameters[name]
        value = tree.value if isinstance(tree, YamlScalar) else None
        self._open.append(name)
        try:
            self._values[name] = substitute(value, self._lookup) if isinstance(value, str) else value
        except ExpressionError:
            self._failed.add(name)
            raise
        finally:
            self._open.pop()
        return self._values[name]


def substitute(text: str, lookup: Callable[[str], Plain]) -> Plain:
    """A scalar's text with every expression replaced by its value.

    Raises:
        ExpressionError: An expression has no value, or a `${` is not closed.
    """
    whole = _EXPRESSION.fullmatch(text)
    if whole is not None and whole[1] is not None:
        return evaluate(whole[1], lookup)
    rest = _EXPRESSION.sub(" ", text)
    if "${" in rest:
        raise ExpressionError("'${' is not closed by '}'; write '$${' for a literal '${'")

    def put(found: re.Match[str]) -> str:
        expression = cast("str | None", found[1])
        return "${" if expression is None else _number_text(evaluate(expression, lookup))

    return _EXPRESSION.sub(put, text)


def escape(text: str) -> str:
    """A text in which `substitute` finds no expression and that it turns back into `text`."""
    return text.replace("${", "$${")


def _number_text(value: Plain) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, float) else str(value)
