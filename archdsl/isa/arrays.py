"""Puts arrays where a program image's symbols say, and takes them from there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import CompileError
from .manifest import Symbol

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]
    Ints = npt.NDArray[np.integer]


def place_array(memory: Bytes, symbol: Symbol, values: Ints) -> None:
    """Writes an array into main memory.

    Args:
        memory: Main memory; changed.
        symbol: Where, and as what.
        values: Integers of the symbol's shape that fit its elements; for floating-point elements their codes as uint8,
            or an array of the matching type of `ml_dtypes`.

    Raises:
        CompileError: Shape, kind or values do not fit the symbol.
    """
    import numpy as np

    if values.shape != symbol.shape:
        raise CompileError(
            f"{symbol.name}: the array has the shape {list(values.shape)}; it must be {list(symbol.shape)}"
        )
    if symbol.format != "integer" and (symbol.format in values.dtype.name or values.dtype == np.dtype("V1")):
        values = values.view(np.uint8)  # a file of arrays keeps such types as plain bytes
    elif symbol.format != "integer" and values.dtype != np.uint8:
        raise CompileError(
            f"{symbol.name}: the array is of {values.dtype}; it must be of ml_dtypes' {symbol.format}, or hold codes as uint8"
        )
    if values.dtype.kind not in "iu":
        raise CompileError(f"{symbol.name}: the array is of {values.dtype}; it must be of integers: quantise it first")
    low, high = value_range(symbol)
    if int(values.min()) < low or int(values.max()) > high:
        raise CompileError(
            f"{symbol.name}: values go from {values.min()} to {values.max()}; they must be from {low} to {high}"
        )
    bits = values.astype(np.int64)
    if symbol.element_bits == 4:
        bits = np.pad(bits, [(0, 0)] * (bits.ndim - 1) + [(0, bits.shape[-1] % 2)]) & 15
        bits = bits[..., 0::2] | bits[..., 1::2] << 4
    kind = "<u4" if symbol.element_bits == 32 else "u1"
    stored = np.ascontiguousarray(bits.astype(kind))
    _view(memory, symbol)[...] = stored.view(np.uint8).reshape(*symbol.stored_shape, symbol.stored_bytes)


def take_array(memory: Bytes, symbol: Symbol) -> Ints:
    """Reads an array of main memory: int8 or uint8 for elements of 4 and 8 bits, int32 or uint32 for those of 32.

    Floating-point elements are their codes; `ml_dtypes` gives their values (`found.view(ml_dtypes.float8_e4m3fn)`).

    Raises:
        CompileError: The symbol lies outside memory.
    """
    import numpy as np

    raw = np.ascontiguousarray(_view(memory, symbol))
    letter = "i" if symbol.signed else "u"
    if symbol.element_bits == 32:
        return raw.view(f"<{letter}4").reshape(symbol.shape).astype(f"{letter}4")
    if symbol.element_bits == 8:
        return raw.view(f"{letter}1").reshape(symbol.shape)
    low = raw.reshape(symbol.stored_shape)
    both = np.stack([low & 15, low >> 4], axis=-1).reshape(*symbol.shape[:-1], -1)[..., : symbol.shape[-1]]
    found = both.astype(f"{letter}1")
    return np.where(found > 7, found - 16, found).astype("i1") if symbol.signed else found


def value_range(symbol: Symbol) -> tuple[int, int]:
    """The least and the greatest value of a symbol's elements."""
    if symbol.signed:
        return -(1 << (symbol.element_bits - 1)), (1 << (symbol.element_bits - 1)) - 1
    return 0, (1 << symbol.element_bits) - 1


def _view(memory: Bytes, symbol: Symbol) -> Bytes:
    """The bytes of all stored elements, [..., bytes of an element]; writes go to memory."""
    from numpy.lib.stride_tricks import as_strided

    if symbol.end > len(memory):
        raise CompileError(f"{symbol.name}: ends at byte {symbol.end}, and memory has {len(memory)}")
    return as_strided(
        memory[symbol.address :],
        shape=(*symbol.stored_shape, symbol.stored_bytes),
        strides=(*symbol.strides_bytes, 1),
    )
