"""Amounts: the numbers that the counting core computes with, in any of three forms.

A plain float serves one mapping, an array a batch, and a `Symbol` stands for a number that a program
(`programs.py`) computes later, block by block. The core is written once over all three. They give the
same bits: each is the same IEEE operation on the same values in the same order.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from .nest import FloatArray

Operation = Literal["add", "subtract", "multiply", "divide", "minimum", "maximum", "floor", "ceil"]
"""What a symbol may be computed by; the names are NumPy's."""

_COMMUTATIVE: frozenset[Operation] = frozenset({"add", "multiply", "minimum", "maximum"})


class Symbol:
    """A number to be computed: an operation on other symbols and constants, or an input.

    A graph makes equal symbols once, so that equal symbols are the same object.

    Attributes:
        graph: Where it was made.
        idx: Its position in the graph; operands come before it.
        operation: How it is computed; None for an input.
        operands: What it is computed from.
        is_integer: Whether its values are integers.
    """

    __slots__ = ("graph", "idx", "is_integer", "operands", "operation")
    __array_ufunc__ = None  # NumPy leaves operators to the symbol

    def __init__(
        self,
        graph: SymbolGraph,
        idx: int,
        operation: Operation | None,
        operands: tuple[Symbol | float, ...],
        is_integer: bool,
    ) -> None:
        self.graph = graph
        self.idx = idx
        self.operation = operation
        self.operands = operands
        self.is_integer = is_integer

    def __add__(self, other: Amount) -> Amount:
        return self.graph.apply("add", self, other)

    def __radd__(self, other: Amount) -> Amount:
        return self.graph.apply("add", other, self)

    def __sub__(self, other: Amount) -> Amount:
        return self.graph.apply("subtract", self, other)

    def __rsub__(self, other: Amount) -> Amount:
        return self.graph.apply("subtract", other, self)

    def __mul__(self, other: Amount) -> Amount:
        return self.graph.apply("multiply", self, other)

    def __rmul__(self, other: Amount) -> Amount:
        return self.graph.apply("multiply", other, self)

    def __truediv__(self, other: Amount) -> Amount:
        return self.graph.apply("divide", self, other)

    def __rtruediv__(self, other: Amount) -> Amount:
        return self.graph.apply("divide", other, self)


Amount = float | FloatArray | Symbol


class SymbolGraph:
    """Makes symbols, each once, and folds away what changes nothing (`x * 1`, `x + 0`, `ceil` of an integer)."""

    def __init__(self) -> None:
        self.symbols: list[Symbol] = []
        self._made: dict[tuple[Operation, Symbol | float, Symbol | float | None], Symbol] = {}

    def input(self, *, is_integer: bool = False) -> Symbol:
        """A number that is given when the program runs."""
        return self._append(None, (), is_integer)

    def apply(self, operation: Operation, left: Amount, right: Amount) -> Amount:
        """The result of an operation on two numbers, of which at least one is a symbol."""
        assert not isinstance(left, np.ndarray) and not isinstance(right, np.ndarray), "a symbol meets an array"
        folded = _folded(operation, left, right)
        if folded is not None:
            return folded
        if operation in _COMMUTATIVE and _order(left) > _order(right):
            left, right = right, left
        found = self._made.get((operation, left, right))
        if found is None:
            is_integer = operation != "divide" and _is_integer(left) and _is_integer(right)
            found = self._made[operation, left, right] = self._append(operation, (left, right), is_integer)
        return found

    def round(self, operation: Literal["floor", "ceil"], symbol: Symbol) -> Symbol:
        """The symbol rounded down or up."""
        if symbol.is_integer:
            return symbol
        found = self._made.get((operation, symbol, None))
        if found is None:
            found = self._made[operation, symbol, None] = self._append(operation, (symbol,), True)
        return found

    def _append(self, operation: Operation | None, operands: tuple[Symbol | float, ...], is_integer: bool) -> Symbol:
        symbol = Symbol(self, len(self.symbols), operation, operands, is_integer)
        self.symbols.append(symbol)
        return symbol


def _order(operand: Symbol | float) -> int:
    return operand.idx if isinstance(operand, Symbol) else -1


def _is_integer(operand: Symbol | float) -> bool:
    return operand.is_integer if isinstance(operand, Symbol) else float(operand).is_integer()


def _folded(operation: Operation, left: Symbol | float, right: Symbol | float) -> Symbol | float | None:
    """The result where it is an operand or a constant whatever the (finite) values are."""
    if left is right:
        return {"subtract": 0.0, "divide": 1.0, "minimum": left, "maximum": left}.get(operation)
    match operation:
        case "add":
            return right if left == 0.0 else left if right == 0.0 else None
        case "subtract":
            return left if right == 0.0 else None
        case "multiply":
            if left == 0.0 or right == 0.0:
                return 0.0
            return right if left == 1.0 else left if right == 1.0 else None
        case "divide":
            return 0.0 if left == 0.0 or right == math.inf else left if right == 1.0 else None
        case "minimum":
            return right if left == math.inf else left if right == math.inf else None
        case _:
            return None


def is_zero(amount: Amount) -> bool:
    """Whether an amount is known to be 0."""
    return isinstance(amount, float) and amount == 0.0


def as_float(amount: Amount) -> float:
    """An amount worked out from floats alone."""
    assert isinstance(amount, float), "only floats give floats"
    return amount


def as_array(amount: Amount) -> FloatArray:
    """An amount worked out from at least one array."""
    assert isinstance(amount, np.ndarray), "only arrays give arrays"
    return amount


def smaller(a: Amount, b: Amount) -> Amount:
    """The smaller of two amounts."""
    if isinstance(a, Symbol):
        return a.graph.apply("minimum", a, b)
    if isinstance(b, Symbol):
        return b.graph.apply("minimum", a, b)
    if isinstance(a, float) and isinstance(b, float):
        return min(a, b)
    return np.minimum(a, b)


def larger(a: Amount, b: Amount) -> Amount:
    """The larger of two amounts."""
    if isinstance(a, Symbol):
        return a.graph.apply("maximum", a, b)
    if isinstance(b, Symbol):
        return b.graph.apply("maximum", a, b)
    if isinstance(a, float) and isinstance(b, float):
        return max(a, b)
    return np.maximum(a, b)


def rounded_down(amount: Amount) -> Amount:
    """The largest integer that is no larger."""
    if isinstance(amount, Symbol):
        return amount.graph.round("floor", amount)
    return float(math.floor(amount)) if isinstance(amount, float) else np.floor(amount)


def rounded_up(amount: Amount) -> Amount:
    """The smallest integer that is no smaller."""
    if isinstance(amount, Symbol):
        return amount.graph.round("ceil", amount)
    return float(math.ceil(amount)) if isinstance(amount, float) else np.ceil(amount)
