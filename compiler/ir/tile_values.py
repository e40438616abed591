"""What ops of dialect `tile` are made with: memory spaces, buffers, and affine expressions over indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AffineMapAttr, MemRefType, NoneAttr, StridedLayoutAttr, StringAttr, i8
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap

from .attributes import int_attr

Buffer = MemRefType[Attribute]
MAIN, SCRATCHPAD, ACCUMULATORS, PARAMETERS, TABLES = "main", "scratchpad", "accumulators", "parameters", "tables"
"""Memory spaces."""


class Linear:
    """An affine expression: a constant and a factor per index.

    Args:
        constant: Its value where all indices are 0.
        factors: Per index value its factor.
    """

    def __init__(self, constant: int = 0, factors: Mapping[SSAValue, int] | None = None) -> None:
        self.constant = constant
        self.factors = {index: factor for index, factor in (factors or {}).items() if factor}

    def __add__(self, other: Linear | int) -> Linear:
        if isinstance(other, int):
            return Linear(self.constant + other, self.factors)
        factors = dict(self.factors)
        for index, factor in other.factors.items():
            factors[index] = factors.get(index, 0) + factor
        return Linear(self.constant + other.constant, factors)

    def __mul__(self, factor: int) -> Linear:
        return Linear(self.constant * factor, {index: factor * known for index, known in self.factors.items()})


def maps_of(expressions: Mapping[str, Linear | int]) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """Affine maps for some expressions over the same indices: the indices, and the maps by name."""
    known = {name: Linear(value) if isinstance(value, int) else value for name, value in expressions.items()}
    indices = list(dict.fromkeys(index for value in known.values() for index in value.factors))
    maps: dict[str, Attribute] = {}
    for name, value in known.items():
        expr: AffineExpr = AffineConstantExpr(value.constant)
        for at, index in enumerate(indices):
            if index in value.factors:
                expr = AffineDimExpr(at) * value.factors[index] + expr
        maps[name] = AffineMapAttr(AffineMap(len(indices), 0, (expr,)))
    return indices, maps


def bytes_memref(rows: int, row_bytes: int, space: str, pitch: int | None = None) -> Buffer:
    """Rows of bytes in a memory space, `pitch` apart."""
    layout = NoneAttr() if pitch in (None, row_bytes) else StridedLayoutAttr([pitch, 1])
    return MemRefType(i8, [rows, row_bytes], layout, StringAttr(space))


def space_of(value: SSAValue) -> str:
    """The memory space of a buffer."""
    space = _buffer(value).memory_space
    return space.data if isinstance(space, StringAttr) else MAIN


def size_of(value: SSAValue) -> tuple[int, ...]:
    """Sizes of a buffer's axes."""
    return tuple(int(size) for size in _buffer(value).get_shape())


def pitch_of(value: SSAValue) -> int:
    """Bytes from one row of a buffer to the next."""
    layout = _buffer(value).layout
    if isinstance(layout, StridedLayoutAttr):
        step = layout.get_strides()[0]
        assert step is not None
        return int(step)
    return size_of(value)[1]


def _buffer(value: SSAValue) -> Buffer:
    found: Attribute = value.type
    assert isinstance(found, MemRefType)
    return cast("Buffer", found)


def indexed(
    operands: Sequence[SSAValue | Sequence[SSAValue]],
    maps: Mapping[str, Linear | int],
    attributes: Mapping[str, int | str] | None = None,
) -> dict[str, Any]:
    """What makes an op with maps: arguments of `build`, without the types of results."""
    indices, found = maps_of(maps)
    for name, value in (attributes or {}).items():
        found[name] = int_attr(value) if isinstance(value, int) else StringAttr(value)
    return {"operands": [*operands, indices], "attributes": found}
