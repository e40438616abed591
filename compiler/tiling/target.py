"""What kernels share: the array, where they may stage data, and how constants stand in main memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import MemRefType, StringAttr, i8, i32
from xdsl.ir import Operation, SSAValue

from ...archdsl import PeArray, ceil_div
from ..ir.store import DataStore
from ..ir.tile import (
    ACCUMULATORS,
    PARAMETERS,
    SCRATCHPAD,
    TABLES,
    CopyOp,
    Linear,
    ParametersOp,
    PlaceOp,
    StoreOp,
    SumsOp,
    TableOp,
    bytes_memref,
    indexed,
)
from .activations import Activation, Buffers, aligned, tile_columns
from .loops import split

Ints = npt.NDArray[np.int64]
PIECE_BEATS = 64
"""Beats of one load: enough to hide main memory's latency with few loads under way, and little enough that others get
their turn."""


def in_beats(tiles: npt.NDArray[np.uint8], array: PeArray) -> npt.NDArray[np.uint8]:
    """Bytes [tiles, ...] with each tile filled up to whole beats."""
    flat = tiles.reshape(len(tiles), -1)
    return np.pad(flat, [(0, 0), (0, -flat.shape[1] % array.bus_bytes)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Some rows of an output, on chip for a while.

    Attributes:
        buffer: Where they stand.
        pixel_bytes, row_bytes: From one pixel and one row to the next.
        first_row, first_byte: The output's row, and the byte in a row, that stand first there.
    """

    buffer: SSAValue
    pixel_bytes: int
    row_bytes: int
    first_row: int = 0
    first_byte: int | Linear = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """How sums are stored.

    Attributes:
        targets: Where to: the same elements at each.
        zero_point, low, high: See `qnn.Requantisation`.
        table: The buffer of a table in which elements are looked up.
        band: A place for some of its rows, which takes them too.
    """

    targets: tuple[Activation, ...]
    zero_point: int
    low: int
    high: int
    table: SSAValue | None = None
    band: Band | None = None


@dataclass(slots=True, kw_only=True)
class Target:
    """The array and the module that is made for it.

    Attributes:
        array: The PE array.
        buffers: The module's buffers.
        store: Arrays by content.
        staging: First byte of the scratchpad for data that live for a while, and the first one behind it.
        has_int4: Whether weights that fit 4 bits take no more.
        memory_bytes: First byte of main memory that nothing has yet.
        choices: What was chosen for layers of one shape.
    """

    array: PeArray
    buffers: Buffers
    store: DataStore
    staging: tuple[int, int]
    has_int4: bool = False
    memory_bytes: int = 0
    choices: dict[object, Any] = field(default_factory=dict[object, Any])
    _constants: dict[tuple[str, str], SSAValue] = field(default_factory=dict[tuple[str, str], SSAValue])

    @property
    def staging_bytes(self) -> int:
        """Bytes of the scratchpad for data that live for a while."""
        return self.staging[1] - self.staging[0]

    @property
    def most_vectors(self) -> int:
        """Vectors of sums of a tile: what is left holds those that are being stored."""
        return max(1, self.array.accumulator_vectors // 2)

    @property
    def columns(self) -> int:
        """Output channels of a tile."""
        return tile_columns(self.array)

    def constant(self, name: str, content: npt.NDArray[np.uint8], role: str, *, is_shared: bool = True) -> SSAValue:
        """The buffer of some bytes, whole beats; the same bytes stand in memory once, unless they may not be shared."""
        padded = np.zeros(aligned(max(1, content.size), self.array.bus_bytes), dtype=np.uint8)
        padded[: content.size] = content.reshape(-1)
        key = self.store.add(padded)
        if (key, role) not in self._constants or not is_shared:
            self._constants[key, role] = self.buffers.constant(name, padded.size, self.memory_bytes, role, key)
            self.memory_bytes += padded.size
        return self._constants[key, role]

    def channel_parameters(self, name: str, bias: Ints, multiplier: Ints, shift: Ints) -> SSAValue:
        """The buffer of channel parameters: one slot per tile of channels."""
        cols, columns, slot = self.array.cols, self.columns, self.slot_bytes
        num = ceil_div(len(bias), columns)
        content = np.zeros((num, slot), dtype=np.uint8)
        at = 0
        for values, kind, width in ((bias, "<i4", 4), (multiplier, "<i4", 4), (shift, "u1", 1)):
            padded = np.zeros(num * columns, dtype=kind)
            padded[: len(values)] = values
            content[:, at : at + columns * width] = padded.view(np.uint8).reshape(num, columns * width)
            at += cols * width
        return self.constant(f"{name}.parameters", content.reshape(-1), "parameter")

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot of channel parameters."""
        return self.array.slot_beats * self.array.bus_bytes

    def parameters_op(self, source: SSAValue, tile_idx: Linear) -> ParametersOp:
        """Channel parameters of one tile of channels."""
        result = MemRefType(i8, [1, self.slot_bytes], memory_space=StringAttr(PARAMETERS))
        made = indexed([source], {"read_at": tile_idx * self.slot_bytes})
        return ParametersOp.build(**made, result_types=[result])

    def sums_op(self, num_vectors: int) -> SumsOp:
        """Sums of a tile."""
        type_ = MemRefType(i32, [num_vectors, self.array.cols], memory_space=StringAttr(ACCUMULATORS))
        return SumsOp.build(result_types=[type_])

    def table_op(self, source: SSAValue) -> TableOp:
        """A table in its slot."""
        return TableOp.build(
            operands=[source], result_types=[MemRefType(i8, [1, 256], memory_space=StringAttr(TABLES))]
        )

    def staged(
        self, source: SSAValue, begin: Linear, num_bytes: int, place: PlaceOp | None = None
    ) -> tuple[PlaceOp, list[Operation]]:
        """Bytes side by side of a buffer, staged in pieces: the place, a new one unless given, and all ops that it takes."""
        place = place or PlaceOp.build(result_types=[bytes_memref(1, num_bytes, SCRATCHPAD)])
        piece = PIECE_BEATS * self.array.bus_bytes

        def copy(idx: Linear, size: int) -> list[Operation]:
            maps = {"read_at": begin + idx * piece, "write_at": idx * piece}
            sizes = {"rows": 1, "row_bytes": size, "read_pitch": 0, "write_pitch": 0}
            return [CopyOp.build(**indexed([source, place.result], maps, sizes))]

        return place, [place, *split(num_bytes, piece, copy)]

    def copied(self, source: Activation, target: Activation, first_row: int, num_rows: int) -> list[Operation]:
        """Copies rows of an activation in main memory to the scratchpad."""
        read, write = source.format, target.format
        row_bytes = aligned(read.width * read.pixel_bytes, self.array.bus_bytes)
        piece = max(1, PIECE_BEATS * self.array.bus_bytes // row_bytes)
        found: list[Operation] = []
        buffers = [self.buffers.of(source), self.buffers.of(target)]

        def copy(idx: Linear, rows: int) -> list[Operation]:
            maps = {
                "read_at": idx * (piece * read.row_bytes) + first_row * read.row_bytes,
                "write_at": idx * (piece * write.row_bytes) + first_row * write.row_bytes,
            }
            sizes = {
                "rows": rows, "row_bytes": row_bytes, "read_pitch": read.row_bytes, "write_pitch": write.row_bytes,
            }  # fmt: skip
            return [CopyOp.build(**indexed(buffers, maps, sizes))]

        found += split(num_rows, piece, copy)
        return found

    def stores(
        self, output: Output, sums: SSAValue, parameters: SSAValue, y: Linear, x: Linear, channel: Linear, *,
        y_count: int, x_count: int, columns: int, table: SSAValue | None = None,
    ) -> list[Operation]:  # fmt: skip
        """Stores a tile of sums at every target."""
        places = [
            Band(
                buffer=self.buffers.of(target), pixel_bytes=target.format.pixel_bytes, row_bytes=target.format.row_bytes
            )
            for target in output.targets
        ]  # fmt: skip
        found: list[Operation] = []
        for place in (*places, *((output.band,) if output.band else ())):
            at = y * place.row_bytes + x * place.pixel_bytes + channel
            maps = {"sums_at": 0, "write_at": at + -place.first_row * place.row_bytes + place.first_byte * -1}
            sizes = {
                "y_count": y_count, "x_count": x_count, "y_pitch": place.row_bytes, "x_pitch": place.pixel_bytes,
                "columns": columns, "zero_point": output.zero_point, "low": output.low, "high": output.high, "bits": 8,
            }  # fmt: skip
            tables: Sequence[SSAValue] = [] if table is None else [table]
            found.append(StoreOp.build(**indexed([[sums], [parameters], tables, [place.buffer]], maps, sizes)))
        return found
