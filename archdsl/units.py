"""Physical quantities: text with a unit in YAML, one base unit inside.

Conversions are exact (decimal), so that what is written out reads back as the same number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Annotated, Literal

from pydantic import BeforeValidator, PlainSerializer, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from .spec import nearest_hint, shown

UNBOUNDED = "unbounded"

MAX_WHOLE = 2**63 - 1
"""Largest whole quantity, so that counts fit NumPy's integers."""

_QUANTITY = re.compile(r"([-+]?[0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(.*)")
_SI = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}


def _si(unit: str, prefixes: str = " kMGTP") -> dict[str, Decimal]:
    return {p.strip() + unit: Decimal(1).scaleb(_SI[p.strip()]) for p in prefixes}


def _binary(unit: str) -> dict[str, Decimal]:
    return {prefix + unit: Decimal(1024) ** power for power, prefix in enumerate(("", "Ki", "Mi", "Gi", "Ti"))}


@dataclass(frozen=True, slots=True)
class Dimension:
    """One kind of quantity.

    Attributes:
        name: What it is, for messages.
        units: Factor to the base unit, per unit.
        written: Units used in writing, largest first; the first that leaves a short number is taken.
        usual: Unit that a number without one most likely meant.
        example: A quantity as it is written.
        is_whole: Whether the value is an integer number of base units.
    """

    name: str
    units: Mapping[str, Decimal]
    written: tuple[str, ...]
    usual: str
    example: str
    is_whole: bool = False

    def parse(self, text: str) -> int | float:
        """The value in the base unit.

        Raises:
            ValueError: No number, no unit, an unknown unit, or not whole; the message shows the fix.
        """
        found = _QUANTITY.fullmatch(text.strip())
        if found is None:
            raise ValueError(self.needed(text))
        number, unit = found[1], found[2].strip()
        if not unit:
            raise ValueError(self.missing_unit(number))
        if unit not in self.units:
            hint = nearest_hint(unit, self.units, show=8)
            raise ValueError(f"unknown unit '{unit}' ({self.name}, e.g. '{self.example}'){hint}")
        return self._value(Decimal(number) * self.units[unit], text)

    def _value(self, value: Decimal, text: str) -> int | float:
        if value < 0:
            raise ValueError(f"'{text}' is negative; {self.a_name} is at least 0")
        if self.is_whole:
            if value != value.to_integral_value():
                raise ValueError(f"'{text}' is not a whole number of {self.written[-1]}")
            if value > MAX_WHOLE:
                raise ValueError(f"'{text}' is too large")
            return int(value)
        result = float(value)
        if not math.isfinite(result):
            raise ValueError(f"'{text}' is too large")
        return result

    @property
    def a_name(self) -> str:
        """The name with its article."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"

    def needed(self, value: object) -> str:
        """The message for something that is no quantity."""
        return f"{self.a_name} like '{self.example}' is needed here, not {shown(value)}"

    def missing_unit(self, number: object) -> str:
        """The message for a number that has no unit."""
        try:
            is_base = self.usual == self.written[-1]
            suggestion = self.format(float(str(number))) if is_base else f"{number} {self.usual}"
        except (ValueError, InvalidOperation):
            suggestion = self.example
        return f"{number} has no unit; write '{suggestion}'"

    def format(self, value: float) -> str:
        """The shortest exact way to write a value, e.g. `64 KiB`."""
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if exact == 0:
            return f"0 {self.usual}"
        for unit in self.written:
            scaled = exact / self.units[unit]
            if scaled * self.units[unit] == exact and _is_short(scaled, self.is_whole):
                return f"{_number(scaled)} {unit}"
        return f"{_number(exact / self.units[self.written[-1]])} {self.written[-1]}"

    @property
    def pattern(self) -> str:
        """Regular expression of the quantities, for editors; `${...}` may stand for any part."""
        units = "|".join(re.escape(unit).replace("\\ ", " ").replace("\\-", "-") for unit in sorted(self.units))
        return rf"^([0-9.eE+-]+ *({units})|.*\$\{{.*)$"


def _is_short(scaled: Decimal, is_whole: bool) -> bool:
    return scaled == scaled.to_integral_value() if is_whole else scaled >= 1


def _number(value: Decimal) -> str:
    text = format(value.normalize(), "f")
    return text if len(text) < 20 else str(value.normalize())


BYTES = Dimension(
    "capacity", {**_binary("B"), **_si("B", "kMGT")}, ("TiB", "GiB", "MiB", "KiB", "B"), "B", "64 KiB", is_whole=True
)
BITS = Dimension("width in bits", {"bit": Decimal(1), "bits": Decimal(1)}, ("bit",), "bit", "512 bit", is_whole=True)
CYCLES = Dimension(
    "latency in cycles", {"cycles": Decimal(1), "cycle": Decimal(1)}, ("cycles",), "cycles", "100 cycles", is_whole=True
)
CLOCK = Dimension("clock", _si("Hz", " kMG"), ("GHz", "MHz", "kHz", "Hz"), "GHz", "1 GHz")
NODE = Dimension("technology node", {"nm": Decimal(1), "um": Decimal(1000)}, ("nm",), "nm", "45 nm")
VOLTAGE = Dimension("voltage", {"V": Decimal(1), "mV": Decimal("0.001")}, ("V",), "V", "0.9 V")
AREA = Dimension("area", {"mm2": Decimal(1), "um2": Decimal("0.000001")}, ("mm2",), "mm2", "0.5 mm2")
ENERGY_PER_BYTE = Dimension(
    "energy per byte",
    {
        "pJ/B": Decimal(1),
        "fJ/B": Decimal("0.001"),
        "nJ/B": Decimal(1000),
        "pJ/bit": Decimal(8),
        "fJ/bit": Decimal("0.008"),
    },
    ("pJ/B",),
    "pJ/B",
    "2 pJ/B",
)
ENERGY = Dimension(
    "energy",
    {"pJ": Decimal(1), "fJ": Decimal("0.001"), "nJ": Decimal(1000), "uJ": Decimal(1000000)},
    ("pJ",),
    "pJ",
    "0.2 pJ",
)
POWER = Dimension("power", {"W": Decimal(1), "mW": Decimal("0.001"), "kW": Decimal(1000)}, ("W",), "W", "700 W")
TIME = Dimension(
    "time",
    {"s": Decimal(1), "ms": Decimal("1e-3"), "us": Decimal("1e-6"), "ns": Decimal("1e-9"), "ps": Decimal("1e-12")},
    ("s", "ms", "us", "ns", "ps"),
    "us",
    "1.2 us",
)
RATE = Dimension(
    "rate",
    {**_si("OP/s"), **_si("FLOP/s"), **_si("OPS"), **_si("FLOPS")},
    ("POP/s", "TOP/s", "GOP/s", "MOP/s", "kOP/s", "OP/s"),
    "TOP/s",
    "989.4 TFLOP/s",
)
PER_SECOND = Dimension(
    "bandwidth", {**_si("B/s"), **_binary("B/s")}, ("TB/s", "GB/s", "MB/s", "kB/s", "B/s"), "GB/s", "64 GB/s"
)
PER_CYCLE = Dimension(
    "bandwidth", {"B/cycle": Decimal(1), "bit/cycle": Decimal("0.125")}, ("B/cycle",), "B/cycle", "64 B/cycle"
)
_ANY_BANDWIDTH = Dimension("bandwidth", {**PER_CYCLE.units, **PER_SECOND.units}, ("B/cycle",), "B/cycle", "64 B/cycle")


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bytes per cycle or per second; infinite when `unbounded`.

    Attributes:
        amount: Bytes per unit of time; `math.inf` when unbounded.
        per: The unit of time.
    """

    amount: float
    per: Literal["cycle", "second"] = "cycle"

    @classmethod
    def parse(cls, text: str) -> Bandwidth:
        """Read `64 B/cycle`, `3.35 TB/s` or `unbounded`.

        Raises:
            ValueError: Not a bandwidth; the message shows the fix.
        """
        text = text.strip()
        if text == UNBOUNDED:
            return cls(math.inf)
        if not text.endswith("cycle") and text.endswith("/s"):
            value, per = _ANY_BANDWIDTH.parse(text), "second"
        else:
            value, per = _ANY_BANDWIDTH.parse(text), "cycle"
        if value == 0:
            raise ValueError(f"'{text}' moves nothing; a bandwidth is above 0")
        return cls(value, per)

    @property
    def is_unbounded(self) -> bool:
        """Whether this never limits."""
        return math.isinf(self.amount)

    def bytes_per_cycle(self, clock_hz: float) -> float:
        """Bytes per cycle of a clock; infinite when unbounded."""
        return self.amount if self.per == "cycle" else self.amount / clock_hz

    def bytes_per_s(self, clock_hz: float) -> float:
        """Bytes per second under a clock; infinite when unbounded."""
        return self.amount * clock_hz if self.per == "cycle" else self.amount

    def __str__(self) -> str:
        if self.is_unbounded:
            return UNBOUNDED
        return (PER_CYCLE if self.per == "cycle" else PER_SECOND).format(self.amount)


def is_yaml(info: ValidationInfo) -> bool:
    """Whether a value comes from YAML, where quantities need units; Python code passes base units."""
    return info.context is not None and bool(info.context.get("yaml"))


def _reader(dimension: Dimension, is_positive: bool = True) -> BeforeValidator:
    def read(value: object, info: ValidationInfo) -> object:
        if isinstance(value, str):
            try:
                value = dimension.parse(value)
            except ValueError as err:
                raise PydanticCustomError("quantity", "{reason}", {"reason": str(err)}) from err
            except InvalidOperation as err:
                raise PydanticCustomError("quantity", "{reason}", {"reason": f"'{value}' is too large"}) from err
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise PydanticCustomError("quantity", "{reason}", {"reason": dimension.needed(value)})
        elif is_yaml(info):
            raise PydanticCustomError("quantity", "{reason}", {"reason": dimension.missing_unit(value)})
        if value < 0 or (is_positive and value == 0):
            bound = "above 0" if is_positive else "at least 0"
            reason = f"{dimension.format(value)} is out of range; this {dimension.name} must be {bound}"
            raise PydanticCustomError("quantity", "{reason}", {"reason": reason})
        return value

    return BeforeValidator(read)


def _writer(dimension: Dimension) -> PlainSerializer:
    def write(value: float) -> str:
        return dimension.format(value)

    return PlainSerializer(write, return_type=str, when_used="json")


def _schema(dimension: Dimension) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": dimension.pattern, "examples": [dimension.example]})


def _read_capacity(value: object, info: ValidationInfo) -> object:
    if value is None and is_yaml(info):
        reason = f"a capacity like '{BYTES.example}' or '{UNBOUNDED}' is needed here, not nothing"
        raise PydanticCustomError("quantity", "{reason}", {"reason": reason})
    return None if value == UNBOUNDED else value


def _read_bandwidth(value: object) -> object:
    if isinstance(value, Bandwidth):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    reason = _ANY_BANDWIDTH.missing_unit(value) if is_number else _ANY_BANDWIDTH.needed(value)
    if isinstance(value, str):
        try:
            return Bandwidth.parse(value)
        except ValueError as err:
            reason = str(err)
        except InvalidOperation:
            reason = f"'{value}' is too large"
    raise PydanticCustomError("quantity", "{reason}", {"reason": reason})


def _write_capacity(value: int | None) -> str:
    return UNBOUNDED if value is None else BYTES.format(value)


Reader = Callable[[object], object]
Bytes = Annotated[int, _reader(BYTES), _writer(BYTES), _schema(BYTES)]
Capacity = Annotated[
    Annotated[int, _reader(BYTES)] | None,
    BeforeValidator(_read_capacity),
    PlainSerializer(_write_capacity, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "pattern": rf"^{UNBOUNDED}$|{BYTES.pattern}", "examples": ["64 KiB", UNBOUNDED]}),
]
Bits = Annotated[int, _reader(BITS), _writer(BITS), _schema(BITS)]
Cycles = Annotated[int, _reader(CYCLES, is_positive=False), _writer(CYCLES), _schema(CYCLES)]
Clock = Annotated[float, _reader(CLOCK), _writer(CLOCK), _schema(CLOCK)]
NodeSize = Annotated[float, _reader(NODE), _writer(NODE), _schema(NODE)]
Voltage = Annotated[float, _reader(VOLTAGE), _writer(VOLTAGE), _schema(VOLTAGE)]
Area = Annotated[float, _reader(AREA, is_positive=False), _writer(AREA), _schema(AREA)]
EnergyPerByte = Annotated[
    float, _reader(ENERGY_PER_BYTE, is_positive=False), _writer(ENERGY_PER_BYTE), _schema(ENERGY_PER_BYTE)
]
Energy = Annotated[float, _reader(ENERGY, is_positive=False), _writer(ENERGY), _schema(ENERGY)]
Power = Annotated[float, _reader(POWER, is_positive=False), _writer(POWER), _schema(POWER)]
Time = Annotated[float, _reader(TIME, is_positive=False), _writer(TIME), _schema(TIME)]
Rate = Annotated[float, _reader(RATE), _writer(RATE), _schema(RATE)]
BandwidthField = Annotated[
    Bandwidth,
    BeforeValidator(_read_bandwidth),
    PlainSerializer(str, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^{UNBOUNDED}$|{_ANY_BANDWIDTH.pattern}",
            "examples": ["64 B/cycle", "3.35 TB/s", UNBOUNDED],
        }
    ),
]
