"""Programs of the `tile` dialect: loops run as they stand, and every place that lives for a while is an array of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import as_strided
from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from ...archdsl import Rounding
from ...models import requantised
from ..ir import tile
from ..ir.attributes import shape_of
from ..ir.store import Array, DataStore

Bytes = npt.NDArray[np.uint8]
Sums = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Place:
    """Rows of bytes in an array."""

    content: Bytes
    at: int
    rows: int
    width: int
    pitch: int


def run_tile_program(
    program: tile.ProgramOp, store: DataStore, inputs: Sequence[Array], rounding: Rounding = "half_to_even"
) -> list[Array]:
    """What a program returns.

    Args:
        program: The program.
        store: Arrays of its constants.
        inputs: One int8 array per operand.
        rounding: What happens to ties.
    """
    return _Interpreter(program, store, rounding).run(inputs)


class _Interpreter:
    def __init__(self, program: tile.ProgramOp, store: DataStore, rounding: Rounding) -> None:
        self.program = program
        self.rounding: Rounding = rounding
        self.index: dict[SSAValue, int] = {}
        self.places: dict[SSAValue, _Place] = {}
        self.sums: dict[SSAValue, Sums] = {}
        self.slots: dict[SSAValue, Bytes] = {}
        self._actions: dict[type[Operation], Callable[[Operation], None]] = {
            tile.PlaceOp: self._place,
            tile.ViewOp: self._view,
            tile.SumsOp: self._new_sums,
            tile.CopyOp: self._copy,
            tile.ParametersOp: self._parameters,
            tile.TableOp: self._table,
            tile.MatMulOp: self._matmul,
            tile.VectorOp: self._vector,
            tile.StoreOp: self._store,
        }
        buffers = [op for op in program.body.block.ops if isinstance(op, tile.BufferOp)]
        ends = {tile.MAIN: 0, tile.SCRATCHPAD: 0}
        for op in buffers:
            space = tile.space_of(op.result)
            ends[space] = max(ends[space], _address(op) + tile.size_of(op.result)[0] * tile.pitch_of(op.result))
        self.memories = {space: np.zeros(end, dtype=np.uint8) for space, end in ends.items()}
        self.named: dict[str, int] = {}
        for op in buffers:
            rows, width = tile.size_of(op.result)
            memory = self.memories[tile.space_of(op.result)]
            self.places[op.result] = _Place(memory, _address(op), rows, width, tile.pitch_of(op.result))
            self.named.setdefault(op.buffer_name.data, _address(op))
            if op.sha256 is not None:
                content = store[op.sha256.data]
                memory[_address(op) : _address(op) + content.size] = content

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        program, memory = self.program, self.memories[tile.MAIN].view(np.int8)
        for name, strides, value in zip(program.input_names, program.input_strides, inputs, strict=True):
            at = self.named[name.data]
            as_strided(memory[at:], shape=value.shape, strides=strides.get_values())[...] = value
        for op in program.body.block.ops:
            if isinstance(op, tile.KernelOp):
                self._block(op.body.block)
        return [
            as_strided(memory[self.named[name.data] :], shape=shape_of(value), strides=strides.get_values()).copy()
            for name, strides, value in zip(program.output_names, program.output_strides, program.outputs, strict=True)
        ]

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if isinstance(op, tile.ForOp):
                for value in range(0, int(op.upper.value.data), int(op.step.value.data)):
                    self.index[op.index] = value
                    self._block(op.body.block)
            else:
                self._actions[type(op)](op)

    def _number(self, op: Operation, name: str) -> int:
        """An attribute: a number, or a map of the indices in force."""
        attr = op.attributes[name]
        if isinstance(attr, IntegerAttr):
            return int(attr.value.data)
        assert isinstance(attr, AffineMapAttr)
        indices: Sequence[SSAValue] = getattr(op, "indices", ())
        return attr.data.eval([self.index[index] for index in indices], [])[0]

    # ---- Places and copies.

    def _place(self, op: Operation) -> None:
        value = cast(tile.PlaceOp, op).result
        (rows, width), pitch = tile.size_of(value), tile.pitch_of(value)
        self.places[value] = _Place(np.zeros(rows * pitch, dtype=np.uint8), 0, rows, width, pitch)

    def _view(self, op: Operation) -> None:
        view = cast(tile.ViewOp, op)
        source, value = self.places[view.source], view.result
        (rows, width), at = tile.size_of(value), source.at + self._number(op, "offset")
        self.places[value] = _Place(source.content, at, rows, width, tile.pitch_of(value))

    def _new_sums(self, op: Operation) -> None:
        value = cast(tile.SumsOp, op).result
        self.sums[value] = np.zeros(tile.size_of(value), dtype=np.int64)

    def _copy(self, op: Operation) -> None:
        copy = cast(tile.CopyOp, op)
        source, target = self.places[copy.source], self.places[copy.target]
        read, write = source.at + self._number(op, "read_at"), target.at + self._number(op, "write_at")
        num = self._number(op, "row_bytes")
        for _ in range(self._number(op, "rows")):
            data = source.content[read : read + num]
            target.content[write : write + len(data)] = data[: len(target.content) - write]
            read += self._number(op, "read_pitch")
            write += self._number(op, "write_pitch")

    def _parameters(self, op: Operation) -> None:
        parameters = cast(tile.ParametersOp, op)
        source = self.places[parameters.source]
        at = source.at + self._number(op, "read_at")
        self.slots[parameters.result] = source.content[at : at + tile.size_of(parameters.result)[1]]

    def _table(self, op: Operation) -> None:
        table = cast(tile.TableOp, op)
        source = self.places[table.source]
        self.slots[table.result] = source.content[source.at : source.at + 256]

    # ---- Computations.

    def _vectors(self, op: Operation, source: _Place, lanes: int, element_bytes: int = 1) -> Sums:
        """The input vectors of a walk, [vectors, lanes]."""
        num = lanes * element_bytes
        ys = self._number(op, "y") + np.arange(self._number(op, "y_count")) * self._number(op, "y_step")
        xs = self._number(op, "x") + np.arange(self._number(op, "x_count")) * self._number(op, "x_step")
        at = xs[:, None] + np.arange(num)
        inside = ((ys >= 0) & (ys < source.rows))[:, None, None] & ((at >= 0) & (at < source.width))
        places = source.at + ys[:, None, None] * source.pitch + at
        padding = np.uint8(self._number(op, "padding") & 0xFF)
        data = np.where(inside, source.content[np.where(inside, places, 0)], padding).reshape(-1, num)
        kind = np.int8 if element_bytes == 1 else np.dtype("<i4")
        return np.ascontiguousarray(data).view(kind).astype(np.int64)

    def _matmul(self, op: Operation) -> None:
        matmul = cast(tile.MatMulOp, op)
        weights, sums = self.places[matmul.weights], self.sums[matmul.sums]
        rows, cols = self._number(op, "rows"), sums.shape[1]
        inputs = self._vectors(op, self.places[matmul.input], rows)
        at = weights.at + self._number(op, "weights_at")
        found = np.zeros((rows, cols), dtype=np.int64)
        for row in range(rows):
            begin = at + row * self._number(op, "weights_pitch")
            if self._number(op, "weight_bits") == 4:
                packed = weights.content[begin : begin + -(-cols // 2)]
                nibbles = np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)[:cols].astype(np.int64)
                found[row] = np.where(nibbles > 7, nibbles - 16, nibbles)
            else:
                there = weights.content[begin : begin + cols].view(np.int8)
                found[row, : len(there)] = there  # what lies behind makes sums that nobody stores
        products = np.rint(inputs.astype(np.float64) @ found.astype(np.float64)).astype(np.int64)
        self._accumulate(op, sums, products, "add")

    def _vector(self, op: Operation) -> None:
        vector = cast(tile.VectorOp, op)
        sums, columns = self.sums[vector.sums], self._number(op, "columns")
        inputs = self._vectors(op, self.places[vector.input], columns, self._number(op, "input_bits") // 8)
        products = np.zeros((len(inputs), sums.shape[1]), dtype=np.int64)
        products[:, :columns] = self._rounded(
            inputs * self._operand(op, len(inputs), columns), self._number(op, "shift")
        )
        reduce = np.add.reduce if vector.operation.data == "add" else np.maximum.reduce
        if vector.lanes.data == "combined":
            products = np.repeat(reduce(products[:, :columns], axis=1)[:, None], sums.shape[1], axis=1)
        if self._number(op, "hold"):
            products = reduce(products, axis=0)[None]
        self._accumulate(op, sums, products, vector.operation.data)

    def _operand(self, op: Operation, num: int, columns: int) -> Sums | int:
        vector = cast(tile.VectorOp, op)
        if vector.values is None:
            return self._number(op, "scalar")
        values = self.places[vector.values]
        at = values.at + self._number(op, "values_at")
        steps = np.arange(num if vector.operand.data == "sequence" else 1) * self._number(op, "values_step")
        return values.content[at + steps[:, None] + np.arange(columns)].view(np.int8).astype(np.int64)

    def _rounded(self, products: Sums, shift: int) -> Sums:
        """Products by two to the shift."""
        if not shift:
            return products
        floor = products >> shift
        twice = 2 * (products - (floor << shift))
        is_up = (floor & 1 == 1) if self.rounding == "half_to_even" else products >= 0
        return floor + ((twice > 1 << shift) | ((twice == 1 << shift) & is_up))

    def _accumulate(self, op: Operation, sums: Sums, products: Sums, operation: str) -> None:
        first = self._number(op, "sums_at")
        places = slice(first, first + len(products))
        if self._number(op, "accumulate"):
            products = sums[places] + products if operation == "add" else np.maximum(sums[places], products)
        sums[places] = (products + (1 << 31)) % (1 << 32) - (1 << 31)

    # ---- Stores.

    def _store(self, op: Operation) -> None:
        store = cast(tile.StoreOp, op)
        y_count, x_count, columns = (self._number(op, name) for name in ("y_count", "x_count", "columns"))
        sums, target = self.sums[store.sums], self.places[store.target]
        first = self._number(op, "sums_at")
        made = self._stored(store, sums[first : first + y_count * x_count])
        at = target.at + self._number(op, "write_at")
        for vector, content in enumerate(made[:, : columns * self._number(op, "bits") // 8]):
            y, x = divmod(vector, x_count)
            begin = at + y * self._number(op, "y_pitch") + x * self._number(op, "x_pitch")
            target.content[begin : begin + len(content)] = content

    def _stored(self, store: tile.StoreOp, sums: Sums) -> Bytes:
        """Bytes of some sums, [vectors, bytes]."""
        if self._number(store, "bits") == 32:
            return np.ascontiguousarray(sums.astype("<i4")).view(np.uint8)
        slot, cols = self.slots[store.parameters], sums.shape[1]
        bias, multiplier = (slot[4 * cols * idx : 4 * cols * (idx + 1)].view("<i4").astype(np.int64) for idx in (0, 1))
        values = requantised(
            sums, bias, multiplier, slot[8 * cols : 9 * cols].astype(np.int64) & 63,
            self._number(store, "zero_point"), self._number(store, "low"), self._number(store, "high"), self.rounding,
        )  # fmt: skip
        stored = values.astype(np.int8).view(np.uint8)
        return stored if store.table is None else self.slots[store.table][stored]


def _address(op: tile.BufferOp) -> int:
    return int(op.address.value.data)
