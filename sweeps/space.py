"""The design space: lists, ranges and log steps of the specification become axes of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from ..archdsl import Diagnostic, Place, YamlList, YamlMap, YamlScalar, YamlTree, nearest_hint
from .quantities import KNOWN_UNITS, decimal_text, parse_quantity
from .store import InputValue, JsonScalar

MAX_AXIS_VALUES = 10_000
RANGE_FIELDS = ("from", "to", "step", "log_steps", "factor")
LOG_DIGITS = 6
RANGE_FORMS = "{from, to, step}, {from, to, log_steps} or {from, to, factor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One swept field.

    Attributes:
        path: Dotted path into the architecture.
        key_place: Where the path stands in the specification.
        values: Values in sweep order, as text with a unit where they have one.
        places: Where each value comes from.
    """

    path: str
    key_place: Place
    values: tuple[InputValue, ...]
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """All combinations of the axes' values; the last axis changes fastest."""

    axes: tuple[Axis, ...]

    @property
    def num_points(self) -> int:
        """Number of combinations."""
        return math.prod(len(axis.values) for axis in self.axes)

    def inputs(self, digits: Sequence[int]) -> tuple[tuple[str, InputValue], ...]:
        """Path and value per axis.

        Args:
            digits: Index of the value on each axis.
        """
        return tuple((axis.path, axis.values[digit]) for axis, digit in zip(self.axes, digits, strict=True))

    def digits(self, grid_idx: int) -> tuple[int, ...]:
        """Index of the value on each axis for one combination.

        Args:
            grid_idx: Which combination, from 0 to `num_points - 1`.
        """
        found: list[int] = []
        for axis in reversed(self.axes):
            grid_idx, digit = divmod(grid_idx, len(axis.values))
            found.append(digit)
        return tuple(reversed(found))


def read_space(tree: YamlTree | None) -> tuple[Space, list[Diagnostic]]:
    """Read the `space` section.

    Args:
        tree: The section; anything but a map has no axes and is reported elsewhere.

    Returns:
        The space with every axis that could be read, and the faults.
    """
    axes: list[Axis] = []
    faults: list[Diagnostic] = []
    for path, values in tree.entries.items() if isinstance(tree, YamlMap) else ():
        reader = _AxisReader(path, faults)
        if isinstance(values, YamlList):
            read = reader.read_list(values)
        elif isinstance(values, YamlMap):
            read = reader.read_range(values)
        else:
            reader.fault(values.place, f"a list of values or a range {RANGE_FORMS} is needed here")
            continue
        if read:
            assert isinstance(tree, YamlMap)
            axes.append(
                Axis(
                    path=path,
                    key_place=tree.key_places[path],
                    values=tuple(v for v, _ in read),
                    places=tuple(p for _, p in read),
                )
            )
    return Space(tuple(axes)), faults


Values = list[tuple[InputValue, Place]]


@dataclass(frozen=True, slots=True)
class _AxisReader:
    """Reads one axis, collecting faults."""

    path: str
    faults: list[Diagnostic]

    def fault(self, place: Place, message: str, field: str | int | None = None) -> None:
        path = f"space.{self.path}" if field is None else f"space.{self.path}.{field}"
        self.faults.append(place.diagnostic(path, message))

    def read_list(self, tree: YamlList) -> Values:
        if not tree.items:
            self.fault(tree.place, "the list is empty; give at least one value")
        values: Values = []
        seen: dict[str, int] = {}
        for idx, item in enumerate(tree.items):
            value = _list_value(item)
            if value is None:
                self.fault(item.place, "a value is a number, a text, true, false or a list of those", idx)
                continue
            key = repr(value[0])
            if key in seen:
                self.fault(item.place, f"{_shown(value[0])} is given twice; the first is element {seen[key]}", idx)
                continue
            seen[key] = idx
            values.append((value[0], item.place))
        return values

    def read_range(self, tree: YamlMap) -> Values:
        is_known = True
        for name in tree.entries:
            if name not in RANGE_FIELDS:
                is_known = False
                self.fault(tree.key_places[name], f"unknown field '{name}'{nearest_hint(name, RANGE_FIELDS)}", name)
        missing = [name for name in ("from", "to") if name not in tree.entries]
        steps = [name for name in ("step", "log_steps", "factor") if name in tree.entries]
        if is_known and missing:
            self.fault(tree.place, f"a range needs {' and '.join(repr(name) for name in missing)}; write {RANGE_FORMS}")
        if is_known and len(steps) != 1:
            given = f"not {' and '.join(steps)}" if steps else "and has none"
            self.fault(tree.place, f"a range takes one of 'step', 'log_steps' and 'factor', {given}")
        if not is_known or missing or len(steps) != 1:
            return []
        low, high = (self._amount(tree.entries[name], name) for name in ("from", "to"))
        if low is None or high is None:
            return []
        return self._expand(tree, low, high, steps[0])

    def _expand(self, tree: YamlMap, low: _Amount, high: _Amount, how: str) -> Values:
        if low.kind != high.kind:
            message = f"'from' is {low.described} and 'to' is {high.described}; both need units of the same kind"
            self.fault(tree.entries["to"].place, message, "to")
            return []
        top = high.base / low.scale
        if top < low.amount:
            self.fault(tree.entries["to"].place, "'to' is below 'from'; swap them", "to")
            return []
        expanders: dict[str, Callable[[YamlTree, _Amount, Decimal], list[Decimal]]] = {
            "step": self._linear,
            "factor": self._geometric,
            "log_steps": self._logarithmic,
        }
        amounts = expanders[how](tree.entries[how], low, top)
        return [(low.written(amount), tree.place) for amount in dict.fromkeys(amounts)]

    def _linear(self, tree: YamlTree, low: _Amount, top: Decimal) -> list[Decimal]:
        step = self._amount(tree, "step")
        if step is None:
            return []
        if step.kind != low.kind:
            self.fault(tree.place, f"'step' is {step.described} and 'from' is {low.described}", "step")
            return []
        width = step.base / low.scale
        if width <= 0:
            self.fault(tree.place, "'step' must be above 0", "step")
            return []
        count = int((top - low.amount) / width) + 1
        return [low.amount + i * width for i in range(count)] if self._is_count_fine(tree, count, "step") else []

    def _geometric(self, tree: YamlTree, low: _Amount, top: Decimal) -> list[Decimal]:
        factor = _decimal(tree)
        if factor is None or factor <= 1:
            self.fault(tree.place, "'factor' must be a number above 1", "factor")
            return []
        if not self._is_positive(low):
            return []
        count = int(math.log(float(top / low.amount)) / math.log(float(factor)) + 1e-9) + 2
        if not self._is_count_fine(tree, count, "factor"):
            return []
        exact = [low.amount * factor**i for i in range(count)]
        return [amount for amount in exact if amount <= top]

    def _logarithmic(self, tree: YamlTree, low: _Amount, top: Decimal) -> list[Decimal]:
        count = tree.value if isinstance(tree, YamlScalar) else None
        if isinstance(count, bool) or not isinstance(count, int) or count < 2:
            self.fault(tree.place, "'log_steps' must be a whole number of values, at least 2", "log_steps")
            return []
        if not self._is_count_fine(tree, count, "log_steps") or not self._is_positive(low):
            return []
        is_whole = low.amount == low.amount.to_integral_value() and top == top.to_integral_value()
        ratio = top / low.amount
        inner = [low.rounded(low.amount * ratio ** (Decimal(i) / (count - 1)), is_whole) for i in range(1, count - 1)]
        return [low.amount, *inner, top]

    def _is_positive(self, low: _Amount) -> bool:
        if low.amount <= 0:
            self.fault(low.place, "a logarithmic range must start above 0", "from")
        return low.amount > 0

    def _is_count_fine(self, tree: YamlTree, count: int, field: str) -> bool:
        if count > MAX_AXIS_VALUES:
            self.fault(tree.place, f"this makes {count} values; at most {MAX_AXIS_VALUES} are allowed", field)
        return count <= MAX_AXIS_VALUES

    def _amount(self, tree: YamlTree, field: str) -> _Amount | None:
        number = _decimal(tree)
        if number is not None:
            return _Amount(number, "", Decimal(1), isinstance(getattr(tree, "value", None), int), tree.place)
        if isinstance(tree, YamlScalar) and isinstance(tree.value, str):
            quantity = parse_quantity(tree.value)
            if quantity is not None:
                is_whole = quantity.dimension.is_whole
                return _Amount(
                    quantity.amount, quantity.unit, quantity.scale, is_whole, tree.place, quantity.canonical_unit
                )
            unit = tree.value.strip().rpartition(" ")[2].lstrip("0123456789.")
            self.fault(
                tree.place,
                f"'{tree.value}' is not a number or quantity{nearest_hint(unit, KNOWN_UNITS, show=0)}",
                field,
            )
            return None
        self.fault(tree.place, "a number or a quantity such as '64 KiB' is needed here", field)
        return None


@dataclass(frozen=True, slots=True)
class _Amount:
    """A number of a range with its unit.

    Attributes:
        amount: In the written unit.
        unit: The written unit; empty for a bare number.
        scale: Canonical units in one written unit.
        is_int: Whether values are whole numbers of canonical units.
        place: Where it stands.
        kind: The canonical unit.
    """

    amount: Decimal
    unit: str
    scale: Decimal
    is_int: bool
    place: Place
    kind: str = ""

    @property
    def base(self) -> Decimal:
        return self.amount * self.scale

    @property
    def described(self) -> str:
        return f"in {self.unit}" if self.unit else "without a unit"

    def rounded(self, amount: Decimal, is_whole: bool) -> Decimal:
        """An amount rounded to a whole number, to whole canonical units, or to six digits."""
        if is_whole:
            return amount.to_integral_value(ROUND_HALF_EVEN)
        if self.is_int:
            return (amount * self.scale).to_integral_value(ROUND_HALF_EVEN) / self.scale
        return amount.quantize(Decimal(1).scaleb(amount.adjusted() - LOG_DIGITS + 1), ROUND_HALF_EVEN)

    def written(self, amount: Decimal) -> JsonScalar:
        """An amount in this one's unit, as an architecture file would have it."""
        if self.unit:
            return f"{decimal_text(amount)} {self.unit}"
        if amount == amount.to_integral_value() and self.is_int:
            return int(amount)
        return float(amount)


def _list_value(tree: YamlTree) -> tuple[InputValue] | None:
    """A list element's value in a 1-tuple (null is a value too), or None when it is a map."""
    if isinstance(tree, YamlScalar):
        return (tree.value,)
    if isinstance(tree, YamlList) and all(isinstance(item, YamlScalar) for item in tree.items):
        return (tuple(item.value for item in tree.items if isinstance(item, YamlScalar)),)
    return None


def _decimal(tree: YamlTree) -> Decimal | None:
    value = tree.value if isinstance(tree, YamlScalar) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return Decimal(repr(value))


def _shown(value: InputValue) -> str:
    return (
        ", ".join(map(str, value))
        if isinstance(value, tuple)
        else f"'{value}'"
        if isinstance(value, str)
        else str(value)
    )
