"""Datatypes of tensors: ONNX element types as the names and widths that architectures use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class NumberClass(StrEnum):
    """What kind of numbers a datatype holds."""

    FLOAT = "float"
    INTEGER = "integer"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Datatype:
    """One datatype.

    Signed and unsigned integers of a width share a name: a multiplier for one serves the other.

    Attributes:
        name: Name as in an architecture's compute unit (`int8`, `bf16`, ...).
        bits: Width of one element in memory.
        number: Float, integer or neither (text, complex).
    """

    name: str
    bits: int
    number: NumberClass

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.number is NumberClass.FLOAT

    @property
    def is_quantised(self) -> bool:
        """Whether it is an integer narrow enough to hold a quantised tensor."""
        return self.number is NumberClass.INTEGER and self.bits <= 16


def _float(name: str, bits: int) -> Datatype:
    return Datatype(name=name, bits=bits, number=NumberClass.FLOAT)


def _integer(name: str, bits: int) -> Datatype:
    return Datatype(name=name, bits=bits, number=NumberClass.INTEGER)


def _other(name: str, bits: int) -> Datatype:
    return Datatype(name=name, bits=bits, number=NumberClass.OTHER)


# Keys: onnx.TensorProto.DataType, which is frozen by the ONNX format (onnx.proto3, message TensorProto).
_BY_ELEMENT_TYPE: dict[int, Datatype] = {
    1: _float("fp32", 32),
    2: _integer("int8", 8),
    3: _integer("int8", 8),
    4: _integer("int16", 16),
    5: _integer("int16", 16),
    6: _integer("int32", 32),
    7: _integer("int64", 64),
    8: _other("string", 64),  # assumption: a pointer each
    9: _other("bool", 8),
    10: _float("fp16", 16),
    11: _float("fp64", 64),
    12: _integer("int32", 32),
    13: _integer("int64", 64),
    14: _other("complex64", 64),
    15: _other("complex128", 128),
    16: _float("bf16", 16),
    17: _float("fp8", 8),
    18: _float("fp8", 8),
    19: _float("fp8", 8),
    20: _float("fp8", 8),
    21: _integer("int4", 4),
    22: _integer("int4", 4),
    23: _float("fp4", 4),
    24: _float("fp8", 8),
    25: _integer("int2", 2),
    26: _integer("int2", 2),
    27: _float("fp6", 6),
    28: _float("fp6", 6),
}
UNKNOWN = _other("unknown", 0)


def datatype_of(element_type: int) -> Datatype:
    """Datatype of an ONNX element type; `UNKNOWN` for one that is not in the table."""
    return _BY_ELEMENT_TYPE.get(element_type, UNKNOWN)


def datatype_names() -> tuple[str, ...]:
    """Names that `datatype_named` takes, sorted."""
    return tuple(sorted({d.name for d in _BY_ELEMENT_TYPE.values() if d.number is not NumberClass.OTHER}))


def datatype_named(name: str) -> Datatype:
    """Datatype of that name.

    Raises:
        KeyError: There is no number type of that name.
    """
    for datatype in _BY_ELEMENT_TYPE.values():
        if datatype.name == name and datatype.number is not NumberClass.OTHER:
            return datatype
    raise KeyError(name)


def product_datatype(a: Datatype, b: Datatype) -> Datatype:
    """Datatype that multiplies `a` by `b`: the float one, else the wider one.

    With weights alone quantised (int4 weights, fp16 activations) the product is taken in the float type.
    """
    if a.is_float != b.is_float:
        return a if a.is_float else b
    return a if a.bits >= b.bits else b
