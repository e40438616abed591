"""Short ways to make, to read and to check the attributes that the dialects use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...archdsl import CompileError

Tensor: TypeAlias = TensorType[Attribute]
Integer: TypeAlias = IntegerAttr[IntegerType]
Integers: TypeAlias = DenseArrayBase[IntegerType]
Float: TypeAlias = FloatAttr[AnyFloat]

_ELEMENTS: dict[str, Attribute] = {
    "bool": i1, "bfloat16": bf16, "float16": f16, "float32": f32, "float64": f64,
    **{f"int{bits}": IntegerType(bits) for bits in (4, 8, 16, 32, 64)},
}  # fmt: skip
# MLIR has signless integers for what is signed here, and `ui` for the others.

KEPT = 4096
"""Attributes that are made once and shared: making one takes as long as making the op around it."""


@lru_cache(KEPT)
def int_attr(value: int) -> Integer:
    """A 64-bit integer; attributes never change, so that equal ones are one."""
    return IntegerAttr(int(value), i64)


def ints_attr(values: Iterable[int]) -> Integers:
    """A list of 64-bit integers."""
    return _ints_attr(tuple(int(value) for value in values))


@lru_cache(KEPT)
def _ints_attr(values: tuple[int, ...]) -> Integers:
    return DenseArrayBase.from_list(i64, values)


def float_attr(value: float) -> Float:
    """A 64-bit floating-point number."""
    return FloatAttr(float(value), f64)


def names_attr(names: Iterable[str]) -> ArrayAttr[StringAttr]:
    """A list of texts."""
    return ArrayAttr([StringAttr(name) for name in names])


def attribute_of(value: object) -> Attribute:
    """A plain value of an ONNX attribute as an attribute; `plain_value` turns it back.

    Raises:
        CompileError: It is of no kind that attributes have here.
    """
    match value:
        case bool() | int():
            return int_attr(value)
        case float():
            return float_attr(value)
        case str():
            return StringAttr(value)
        case tuple():
            elements = cast("tuple[object, ...]", value)
            if all(isinstance(element, int) for element in elements):
                return ints_attr(cast("tuple[int, ...]", elements))
            return ArrayAttr([attribute_of(element) for element in elements])
        case _:
            raise CompileError(f"an attribute holds {type(value).__name__}; it must be numbers or text")


def plain_value(attribute: Attribute) -> Any:
    """What an attribute holds, as Python has it."""
    match attribute:
        case IntegerAttr() | FloatAttr():
            return cast(Any, attribute).value.data
        case StringAttr():
            return attribute.data
        case DenseArrayBase():
            return tuple(int(value) for value in cast(Integers, attribute).get_values())
        case ArrayAttr():
            return tuple(plain_value(element) for element in attribute)
        case _:
            raise CompileError(f"attribute {attribute} holds neither numbers nor text")


def require(op: Operation, holds: bool, message: str) -> None:
    """Makes the verification of an op fail unless something holds."""
    if not holds:
        raise VerifyException(f"{op.name}: {message}")


def element_type(dtype: np.dtype[Any] | str) -> Attribute:
    """The element type that stands for a NumPy type.

    Raises:
        CompileError: Tensors of that type have no element type here.
    """
    name = np.dtype(dtype).name
    if name in _ELEMENTS:
        return _ELEMENTS[name]
    if name.startswith("uint"):
        return IntegerType(int(name[4:]), Signedness.UNSIGNED)
    raise CompileError(f"tensors of {name} have no element type in the IR")


def numpy_dtype(element: Attribute) -> np.dtype[Any]:
    """The NumPy type that an element type stands for; int8 for int4, whose elements are kept one in a byte."""
    if isinstance(element, IntegerType):
        integer = cast("IntegerType[int, Signedness]", element)
        bits = integer.width.data
        if bits == 1:
            return np.dtype(bool)
        kind = "uint" if integer.signedness.data == Signedness.UNSIGNED else "int"
        return np.dtype(f"{kind}{max(8, bits)}")
    for name, known in _ELEMENTS.items():
        if known == element:
            return np.dtype(name)
    raise CompileError(f"element type {element} has no NumPy type")


def tensor_type(shape: Sequence[int], dtype: np.dtype[Any] | str) -> Tensor:
    """A tensor of known shape."""
    return _tensor_type(tuple(int(size) for size in shape), np.dtype(dtype))


@lru_cache(KEPT)
def _tensor_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Tensor:
    return TensorType(element_type(dtype), shape)


def typed_like(value: SSAValue, shape: Sequence[int]) -> Tensor:
    """A tensor of another shape with the element type of a value."""
    return TensorType(element_of(value), [int(size) for size in shape])


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """Shape of a tensor value."""
    return tuple(int(size) for size in _tensor(value).get_shape())


def element_of(value: SSAValue) -> Attribute:
    """Element type of a tensor value."""
    return _tensor(value).get_element_type()


def dtype_of(value: SSAValue) -> np.dtype[Any]:
    """NumPy type of a tensor value."""
    return numpy_dtype(element_of(value))


def _tensor(value: SSAValue) -> Tensor:
    return cast(Tensor, value.type)  # verifiers see to it that every value is a tensor
