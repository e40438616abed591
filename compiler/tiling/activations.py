"""How activations stand in memory: pixels of bytes side by side in rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from ...archdsl import PeArray, ceil_div
from ..ir.tile import MAIN, SCRATCHPAD, Buffer, BufferOp, bytes_memref


def aligned(num: int, unit: int) -> int:
    """The next multiple of a unit."""
    return ceil_div(num, unit) * unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """Bytes of an activation.

    Attributes:
        images, height, width, channels: Its shape; an activation of another rank is one row of pixels.
        pixel_bytes: From one pixel to the next: its channels, and what is needed so that the next one can be stored.
        row_bytes: From one row to the next.
    """

    images: int
    height: int
    width: int
    channels: int
    pixel_bytes: int
    row_bytes: int

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.images * self.height * self.width

    @property
    def image_bytes(self) -> int:
        """From one image to the next."""
        return self.height * self.row_bytes

    @property
    def num_bytes(self) -> int:
        """Of all of it."""
        return self.images * self.image_bytes

    @property
    def has_gaps(self) -> bool:
        """Whether there is something between rows."""
        return self.height * self.images > 1 and self.row_bytes != self.width * self.pixel_bytes

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes along [N, H, W, C]."""
        return self.image_bytes, self.row_bytes, self.pixel_bytes, 1

    def as_row(self) -> Format:
        """The same bytes as one row of pixels; there must be no gaps."""
        return replace(self, images=1, height=1, width=self.pixels, row_bytes=self.pixels * self.pixel_bytes)


def tile_columns(array: PeArray) -> int:
    """Output channels of a tile: the most columns whose outputs lie within a word of the scratchpad for every tile."""
    return 1 << (array.cols.bit_length() - 1)


def axes_of(shape: Sequence[int]) -> tuple[int, int, int, int]:
    """Images, height, width and channels of an activation's shape."""
    if len(shape) == 4:
        images, height, width, channels = shape
        return images, height, width, channels
    return 1, 1, math.prod(shape[:-1]), shape[-1] if shape else 1


def stored_format(array: PeArray, shape: Sequence[int]) -> Format:
    """What stores write: vectors of outputs begin where they lie within a word of the scratchpad."""
    images, height, width, channels = axes_of(shape)
    pixel = aligned(channels, tile_columns(array))
    row = aligned(width * pixel, array.bus_bytes) if height * images > 1 else width * pixel
    return Format(images=images, height=height, width=width, channels=channels, pixel_bytes=pixel, row_bytes=row)


def given_format(array: PeArray, shape: Sequence[int]) -> Format:
    """What the network is given: pixels without gaps, in rows of whole beats."""
    images, height, width, channels = axes_of(shape)
    return Format(
        images=images, height=height, width=width, channels=channels, pixel_bytes=channels,
        row_bytes=aligned(width * channels, array.bus_bytes),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Activation:
    """An activation at its place.

    Attributes:
        name: Unique.
        format: How it stands there.
        space: `main` or `scratchpad`.
        address: Its first byte.
    """

    name: str
    format: Format
    space: str
    address: int

    @property
    def is_local(self) -> bool:
        """Whether it stands in the scratchpad."""
        return self.space == SCRATCHPAD

    def view(self, format_: Format, name: str = "", offset: int = 0) -> Activation:
        """The same bytes, or some of them, under another shape."""
        return replace(self, name=name or self.name, format=format_, address=self.address + offset)

    def image(self, idx: int) -> Activation:
        """One of its images."""
        if self.format.images == 1:
            return self
        return self.view(replace(self.format, images=1), f"{self.name}[{idx}]", idx * self.format.image_bytes)


class Buffers:
    """The buffers of a module: one op per place and shape.

    Args:
        role_of: Role of an activation by name.
    """

    def __init__(self) -> None:
        self.ops: list[BufferOp] = []
        self._known: dict[tuple[str, int, int, int], SSAValue] = {}
        self._names: set[str] = set()

    def of(self, activation: Activation, role: str = "activation") -> SSAValue:
        """The buffer of an activation: its rows, of as many bytes as its pixels have."""
        format_ = activation.format
        rows, row_bytes = format_.images * format_.height, min(format_.width * format_.pixel_bytes, format_.row_bytes)
        key = activation.space, activation.address, rows, row_bytes
        if key not in self._known:
            type_ = bytes_memref(rows, row_bytes, activation.space, format_.row_bytes)
            self._known[key] = self._add(activation.name, type_, activation.address, role, None)
        return self._known[key]

    def again(self, activation: Activation) -> str:
        """Another buffer for an activation that has one; returns its name."""
        format_ = activation.format
        type_ = bytes_memref(
            format_.images * format_.height, format_.width * format_.pixel_bytes, activation.space, format_.row_bytes
        )
        self._add(activation.name, type_, activation.address, "output", None)
        return self.ops[-1].buffer_name.data

    def constant(self, name: str, num_bytes: int, address: int, role: str, sha256: str) -> SSAValue:
        """The buffer of bytes that stand in main memory before the program."""
        return self._add(name, bytes_memref(1, num_bytes, MAIN), address, role, sha256)

    def _add(self, name: str, type_: Buffer, address: int, role: str, sha256: str | None) -> SSAValue:
        unique, num = name, 1
        while unique in self._names:
            num += 1
            unique = f"{name}.{num}"
        self._names.add(unique)
        op = BufferOp(unique, type_, address=address, role=role, sha256=sha256)
        self.ops.append(op)
        return op.result
