"""Functional simulator of the tensor PE array: what a program does to memory, without time.

Instructions take effect in program order. Tokens are not looked at: a program whose tokens do not order its units
as its text does is rejected by the static checker.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import numpy.typing as npt

from ...archdsl import TABLE_BYTES, Instruction, ModelError, PeArray, ceil_div
from .arithmetic import arithmetic_of
from .numerics import Int64

Bytes = npt.NDArray[np.uint8]


@dataclass(slots=True)
class _State:
    """Architectural state."""

    scratchpad: Bytes
    accumulators: Int64
    parameters: Bytes
    tables: Bytes
    shadow: Int64
    weights: Int64
    config: dict[str, Instruction] = field(default_factory=dict[str, Instruction])


class FunctionalSimulator:
    """Executes programs on the architectural state alone.

    Args:
        array: The PE array.
    """

    def __init__(self, array: PeArray) -> None:
        self.array = array
        self._arithmetic = arithmetic_of(array)
        self._state = _State(
            scratchpad=np.zeros(array.scratchpad_bytes, dtype=np.uint8),
            accumulators=self._arithmetic.zeros(array.accumulator_vectors, array.cols),
            parameters=np.zeros((array.parameter_slots, array.slot_beats * array.bus_bytes), dtype=np.uint8),
            tables=np.zeros((array.table_slots, TABLE_BYTES), dtype=np.uint8),
            shadow=np.zeros((array.rows, array.cols), dtype=np.int64),
            weights=np.zeros((array.rows, array.cols), dtype=np.int64),
        )
        self._memory = np.zeros(0, dtype=np.uint8)
        self._actions: dict[str, Callable[[Instruction], None]] = {
            "LD": self._load,
            "PRELOAD": self._preload,
            "COMPUTE": self._compute,
            "ALU": self._vector,
            "ST": self._store,
        }

    def run(self, program: Sequence[Instruction], memory: Bytes) -> Bytes:
        """Main memory after a program.

        Args:
            program: The program.
            memory: Main memory before it; not changed.

        Raises:
            ModelError: The program has no HALT.
        """
        self._memory = memory.copy()
        for instruction in program:
            if instruction.name == "HALT":
                return self._memory
            if instruction.name.startswith("CFG"):
                self._state.config[instruction.name] = instruction
            elif instruction.name in self._actions:
                self._actions[instruction.name](instruction)
        raise ModelError("the program has no HALT; end it with one")

    def _config(self, name: str) -> Instruction:
        return self._state.config.get(name, Instruction(name=name))

    def _load(self, ld: Instruction) -> None:
        stride = self._config("CFG_LD")
        num_bytes = ld["row_beats"] * self.array.bus_bytes
        for row in range(ld["rows"]):
            source = ld["memory_address"] + row * stride["memory_row_bytes"]
            data = self._memory[source : source + num_bytes]
            if ld["space"]:
                slots = self._state.parameters if ld["space"] == 1 else self._state.tables
                slots[ld["local_address"]] = data
            else:
                target = ld["local_address"] + row * stride["local_row_bytes"]
                self._state.scratchpad[target : target + num_bytes] = data

    def _preload(self, preload: Instruction) -> None:
        array, is_nibbles = self.array, self._config("CFG_WALK")["weight_bits"] == 1
        num_bytes = -(-array.cols // 2) if is_nibbles else array.cols
        self._state.shadow[:] = 0
        for row in range(min(preload["rows"], array.rows)):
            at = preload["address"] + row * preload["row_bytes"]
            data = self._state.scratchpad[at : at + num_bytes]
            self._state.shadow[row] = self._arithmetic.elements(data, is_nibbles=is_nibbles)[: array.cols]

    def _compute(self, compute: Instruction) -> None:
        state, array = self._state, self.array
        if compute["swap"]:
            state.weights[:] = state.shadow
        # Rows that take no part see 0.
        inputs = self._walked(compute, min(compute["rows"], array.rows), array.rows)
        sums = self._arithmetic.matmul(inputs, state.weights)
        places = slice(compute["destination"], compute["destination"] + len(sums))
        if compute["accumulate"]:
            sums = self._arithmetic.added(state.accumulators[places], sums)
        state.accumulators[places] = sums

    def _vector(self, alu: Instruction) -> None:
        state, array = self._state, self.array
        columns = min(alu["columns"], array.cols)
        values = self._walked(alu, columns, array.cols)
        products = self._arithmetic.scaled(values, self._operand(alu), self._config("CFG_ALU")["shift"])
        combine = self._arithmetic.maximum if alu["operation"] == 1 else self._arithmetic.added
        if alu["lanes"]:
            total = reduce(combine, (products[:, column : column + 1] for column in range(columns)))
            products = np.repeat(total, array.cols, axis=1)
        if alu["hold"]:
            products = reduce(combine, (products[idx : idx + 1] for idx in range(len(products))))
        places = slice(alu["destination"], alu["destination"] + len(products))
        if alu["accumulate"]:
            products = combine(state.accumulators[places], products)
        state.accumulators[places] = products

    def _operand(self, alu: Instruction) -> Int64 | int:
        """The second operand: a scalar, [columns], or [vectors, columns]."""
        config, array = self._config("CFG_ALU"), self.array
        if not alu["operand"]:
            return config["scalar"]
        is_nibbles = self._config("CFG_WALK")["weight_bits"] == 1
        num_bytes = -(-array.cols // 2) if is_nibbles else array.cols
        num = alu["x_count"] * alu["y_count"] if alu["operand"] == 2 else 1
        at = config["address"] + np.arange(num)[:, None] * config["step_bytes"] + np.arange(num_bytes)
        return self._arithmetic.elements(self._state.scratchpad[at], is_nibbles=is_nibbles)[:, : array.cols]

    def _walked(self, walker: Instruction, lanes: int, most: int) -> Int64:
        """The vectors over which COMPUTE or ALU walks, [vectors, most]; lanes beyond the first are 0."""
        tile, walk = self._config("CFG_TILE"), self._config("CFG_WALK")
        bits = int(walk.kind.field("input_bits").choices[walk["input_bits"]])
        num_bytes = ceil_div(lanes * bits, 8)
        ys = walker["y"] + np.arange(walker["y_count"]) * walk["y_step_rows"]
        xs = walker["x"] + np.arange(walker["x_count"]) * walk["x_step_bytes"]
        at = xs[:, None] + np.arange(num_bytes)  # [x, bytes]
        is_inside = ((ys >= 0) & (ys < tile["rows"]))[:, None, None] & ((at >= 0) & (at < tile["width_bytes"]))
        address = tile["address"] + ys[:, None, None] * tile["row_bytes"] + at
        data = self._state.scratchpad[np.where(is_inside, address, 0)]
        found = np.zeros((len(ys) * len(xs), most), dtype=np.int64)
        if bits == 32:
            # Padding stands for single bytes.
            data = np.where(is_inside, data, np.uint8(walk["padding"] & 0xFF)).astype(np.uint8)
            found[:, :lanes] = np.ascontiguousarray(data).view("<i4").reshape(-1, lanes)
            return found
        elements = self._arithmetic.elements(data, is_nibbles=bits == 4)[..., :lanes]
        inside = np.repeat(is_inside, 2, axis=-1)[..., :lanes] if bits == 4 else is_inside
        found[:, :lanes] = np.where(inside, elements, self._arithmetic.element(walk["padding"])).reshape(-1, lanes)
        return found

    def _store(self, st: Instruction) -> None:
        state, array = self._state, self.array
        num = st["x_count"] * st["y_count"]
        sums = state.accumulators[st["source"] : st["source"] + num]
        config = self._config("CFG_ST")
        if st["format"] == 2:
            vectors = self._arithmetic.raw(sums).astype("<u4").view(np.uint8).reshape(num, -1)[:, : 4 * st["columns"]]
        else:
            bias, multiplier, shift = channel_parameters(state.parameters[st["slot"]], array.cols)
            values = self._arithmetic.post_processed(
                sums, bias, multiplier, shift, config["zero_point"], config["low"], config["high"]
            )
            if st["lookup"]:
                values = state.tables[st["lookup"] - 1][values & 0xFF].astype(np.int64)
            vectors = packed(values[:, : st["columns"]], is_nibbles=st["format"] == 1)
        memory = state.scratchpad if st["space"] else self._memory
        for idx in range(num):
            y, x = divmod(idx, st["x_count"])
            at = st["address"] + y * config["y_bytes"] + x * config["x_bytes"]
            memory[at : at + vectors.shape[1]] = vectors[idx]


def packed(values: Int64, *, is_nibbles: bool) -> Bytes:
    """Elements as bytes; of two in a byte the first takes the low half, and an odd last one stands alone in its own."""
    if not is_nibbles:
        return (values & 255).astype(np.uint8)
    nibbles = (values & 15).astype(np.uint8)
    if nibbles.shape[-1] % 2:
        nibbles = np.concatenate([nibbles, np.zeros((*nibbles.shape[:-1], 1), dtype=np.uint8)], axis=-1)
    return np.bitwise_or(nibbles[..., 0::2], nibbles[..., 1::2] << 4).astype(np.uint8)


def channel_parameters(slot: Bytes, cols: int) -> tuple[Int64, Int64, Int64]:
    """Bias, multiplier and shift of all columns."""
    bias = slot[: 4 * cols].view("<i4").astype(np.int64)
    multiplier = slot[4 * cols : 8 * cols].view("<i4").astype(np.int64)
    return bias, multiplier, (slot[8 * cols : 9 * cols] & 63).astype(np.int64)
