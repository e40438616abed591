"""Faults of single instructions: counts, alignment and ranges, given the configuration in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from .encoding import Instruction, operand_faults
from .parameters import PeArray
from .regions import (
    LOAD_SPACES,
    Access,
    Config,
    Region,
    Space,
    accesses,
    compute_sources,
    compute_target,
    element_bits,
    lanes_of,
    load_source,
    load_target,
    operand_source,
    preload_source,
    store_source,
    store_target,
    vector_bytes,
)

POSITION_BITS = 22
"""Bits of a signed position in the input tile, as the PE array counts them."""
_CONFIG_FIELD = {"CFG_LD": "ld", "CFG_TILE": "tile", "CFG_WALK": "walk", "CFG_ALU": "alu", "CFG_ST": "st"}
_COUNTS = {
    "LD": ("rows", "row_beats"),
    "PRELOAD": ("rows",),
    "COMPUTE": ("x_count", "y_count", "rows"),
    "ALU": ("x_count", "y_count", "columns"),
    "ST": ("x_count", "y_count", "columns"),
}
_NEEDS = {
    "PRELOAD": {"CFG_WALK": "the bits of a weight"},
    "COMPUTE": {"CFG_TILE": "the input tile", "CFG_WALK": "the walk over it"},
    "ALU": {
        "CFG_TILE": "the input tile",
        "CFG_WALK": "the walk over it",
        "CFG_ALU": "the second operand",
    },
    "ST": {"CFG_ST": "strides and output range"},
}


@dataclass(slots=True)
class OperandCheck:
    """Looks at the instructions of a program one after another.

    Args:
        array: The PE array.
        memory_bytes: Size of main memory.
    """

    array: PeArray
    memory_bytes: int
    config: Config = field(default_factory=Config)
    _configured: set[str] = field(default_factory=set[str])

    def step(self, instruction: Instruction) -> tuple[tuple[str, ...], tuple[Access, ...]]:
        """The faults of the next instruction, and what it touches if it has none."""
        faults = tuple(self._faults(instruction))
        if instruction.name in _CONFIG_FIELD:
            # Also a faulty one, so that the fault is not reported again of all that follow it.
            self._configured.add(instruction.name)
            if not any(operand_faults(instruction)):
                self.config = replace(self.config, **{_CONFIG_FIELD[instruction.name]: instruction})
        return faults, () if faults else accesses(instruction, self.config, self.array)

    def _faults(self, instruction: Instruction) -> Iterator[str]:
        faults = list(operand_faults(instruction))
        if not faults:
            faults = [
                f"{count} is 0; it must be at least 1"
                for count in _COUNTS.get(instruction.name, ())
                if instruction[count] == 0
            ]
        if not faults:
            faults = list(self._missing(instruction))
        yield from faults
        checks: dict[str, Callable[[Instruction], Iterable[str]]] = {
            "LD": self._load,
            "PRELOAD": self._preload,
            "COMPUTE": self._compute,
            "ALU": self._vector,
            "CFG_WALK": self._elements,
            "CFG_ALU": self._scalar,
            "CFG_ST": self._output_range,
            "ST": self._store,
        }
        if not faults and instruction.name in checks:
            yield from checks[instruction.name](instruction)

    def _missing(self, instruction: Instruction) -> Iterator[str]:
        needs = dict(_NEEDS.get(instruction.name, {}))
        if instruction.name == "LD" and instruction["rows"] > 1:
            needs["CFG_LD"] = "the strides of several rows"
        for name, what in needs.items():
            if name not in self._configured:
                yield f"no {name} stands in front of it, which gives {what}; put one there"

    # ---- Loads.

    def _load(self, ld: Instruction) -> Iterator[str]:
        array, bus = self.array, self.array.bus_bytes
        yield from _aligned("memory_address", ld["memory_address"], bus, "the bus")
        if ld["rows"] > 1:
            yield from _aligned("memory_row_bytes of CFG_LD", self.config.ld["memory_row_bytes"], bus, "the bus")
        yield from self._within(Space.MEMORY, (load_source(ld, self.config, array),), "reads")
        if ld["space"]:
            yield from self._load_slot(ld)
            return
        yield from _aligned("local_address", ld["local_address"], bus, "the bus")
        if ld["rows"] > 1:
            yield from _aligned("local_row_bytes of CFG_LD", self.config.ld["local_row_bytes"], bus, "the bus")
        yield from self._within(Space.SCRATCHPAD, (load_target(ld, self.config, array),), "writes")

    def _load_slot(self, ld: Instruction) -> Iterator[str]:
        space = LOAD_SPACES[ld["space"]]
        is_table = space == Space.TABLES
        what = "a table" if is_table else "a set of channel parameters"
        num_beats = self.array.table_beats if is_table else self.array.slot_beats
        if ld["rows"] != 1:
            yield f"rows is {ld['rows']}; {what} takes a load of 1"
        if ld["row_beats"] != num_beats:
            yield f"row_beats is {ld['row_beats']}; {what} has {num_beats}"
        yield from self._slot("local_address", ld["local_address"], space)

    def _slot(self, name: str, slot: int, space: Space) -> Iterator[str]:
        num = self.array.table_slots if space == Space.TABLES else self.array.parameter_slots
        if slot >= num:
            yield f"{name} is slot {slot}; there are {num} {space}s, from 0"

    # ---- Execution.

    def _elements(self, walk: Instruction) -> Iterator[str]:
        """Of floating-point elements the width is fixed."""
        for name in ("input_bits", "weight_bits"):
            bits = element_bits(walk, name)
            if self.array.format.is_float and bits != 8:
                yield f"{name} is {bits}; the PE array's elements are {self.array.format.name}, of 8 bits"

    def _scalar(self, cfg: Instruction) -> Iterator[str]:
        if self.array.format.is_float and not 0 <= cfg["scalar"] <= 0xFF:
            yield f"scalar is {cfg['scalar']}; it must be the code of an element of {self.array.format.name}, 0 to 255"
        if self.array.format.is_float and cfg["shift"]:
            yield f"shift is {cfg['shift']}; products of {self.array.format.name} are exact: it must be 0"

    def _preload(self, preload: Instruction) -> Iterator[str]:
        yield from self._most_rows(preload)
        yield from self._within(Space.SCRATCHPAD, (preload_source(preload, self.config, self.array),), "reads")

    def _most_rows(self, instruction: Instruction) -> Iterator[str]:
        if instruction["rows"] > self.array.rows:
            yield f"rows is {instruction['rows']}; the PE array has {self.array.rows}"

    def _compute(self, compute: Instruction) -> Iterator[str]:
        yield from self._most_rows(compute)
        if element_bits(self.config.walk, "input_bits") == 32:
            yield "input_bits of CFG_WALK is 32; the PE array takes elements of 8 or 4 bits, and ALU alone those of 32"
        yield from self._walk(compute)

    def _vector(self, alu: Instruction) -> Iterator[str]:
        yield from self._most_columns(alu)
        yield from self._within(Space.SCRATCHPAD, operand_source(alu, self.config, self.array), "reads")
        yield from self._walk(alu)

    def _most_columns(self, instruction: Instruction) -> Iterator[str]:
        if instruction["columns"] > self.array.cols:
            yield f"columns is {instruction['columns']}; the PE array has {self.array.cols}"
            return
        has_words = instruction.name == "ALU" and element_bits(self.config.walk, "input_bits") == 32
        if has_words and instruction["columns"] > self.array.word_lanes:
            yield f"columns is {instruction['columns']}; a vector of 32-bit elements has up to {self.array.word_lanes}"

    def _walk(self, compute: Instruction) -> Iterator[str]:
        most = 1 << (POSITION_BITS - 1)
        walk = self.config.walk
        for axis, step in (("x", "x_step_bytes"), ("y", "y_step_rows")):
            last = compute[axis] + (compute[f"{axis}_count"] - 1) * walk[step]
            if last + lanes_of(compute) >= most:
                yield f"its walk ends at {axis} = {last}; positions count to {most - 1}: lower {axis}_count or {step}"
                return
        yield from self._within(Space.SCRATCHPAD, compute_sources(compute, self.config), "reads")
        yield from self._within(Space.ACCUMULATORS, (compute_target(compute),), "writes")

    # ---- Stores.

    def _output_range(self, cfg: Instruction) -> Iterator[str]:
        number_format = self.array.format
        for name in ("low", "high"):
            if number_format.is_nan(cfg[name]):
                yield f"{name} is {cfg[name]}, which is NaN in {number_format.name}; it must be a number"
        if number_format.is_float and cfg["zero_point"]:
            yield f"zero_point is {cfg['zero_point']}; elements of {number_format.name} have none: it must be 0"
        if number_format.rank(cfg["low"]) > number_format.rank(cfg["high"]):
            yield f"low is {cfg['low']} and high {cfg['high']}; low must not be above high"

    def _store(self, store: Instruction) -> Iterator[str]:
        array, bits = self.array, element_bits(store, "format")
        yield from self._most_columns(store)
        if bits < 32:
            yield from self._slot("slot", store["slot"], Space.PARAMETERS)
        if store["lookup"]:
            yield from self._slot("lookup - 1", store["lookup"] - 1, Space.TABLES)
            if bits == 32:
                yield f"lookup is {store['lookup']}, and format 32; tables hold elements of 8 bits: set it to 0"
        if bits == 4 and array.format.is_float:
            yield f"format is 4; the PE array's elements are {array.format.name}: store 8 or 32 bits"
        elif bits == 4:
            yield from self._nibbles(store)
        yield from self._within(Space.ACCUMULATORS, (store_source(store),), "reads")
        target = store_target(store, self.config)
        if store["space"]:
            yield from self._words(store, bits)
            yield from self._within(Space.SCRATCHPAD, (target,), "writes")
            return
        full = vector_bytes(array.cols, bits)
        unit = min(full, array.bus_bytes)
        what = "the bus" if full >= array.bus_bytes else f"a vector of {array.cols} columns"
        yield from _aligned("address", store["address"], unit, what)
        for count, step in (("x_count", "x_bytes"), ("y_count", "y_bytes")):
            if store[count] > 1:
                yield from _aligned(f"{step} of CFG_ST", self.config.st[step], unit, what)
        yield from self._within(Space.MEMORY, (target,), "writes")

    def _nibbles(self, store: Instruction) -> Iterator[str]:
        columns, low, high = store["columns"], self.config.st["low"], self.config.st["high"]
        if columns % 2 and columns < self.array.cols:
            yield (
                f"columns is {columns}; of 4-bit elements two share a byte, so it must be even:"
                f" store {columns + 1} columns"
            )
        if low < -8 or high > 7:
            yield f"low is {low} and high {high} in CFG_ST; stored with 4 bits they must be from -8 to 7"

    def _words(self, store: Instruction, bits: int) -> Iterator[str]:
        """A vector is written to the scratchpad in one access, to one word."""
        if bits == 32:
            yield "format is 32; the scratchpad takes elements of 8 or 4 bits: store to main memory"
            return
        word, length = self.array.word_bytes, vector_bytes(store["columns"], bits)
        xs = {idx * self.config.st["x_bytes"] % word for idx in range(min(store["x_count"], word))}
        ys = {idx * self.config.st["y_bytes"] % word for idx in range(min(store["y_count"], word))}
        worst = max((store["address"] + x + y) % word for x in xs for y in ys)
        if worst + length > word:
            yield (
                f"a vector of {length} B begins at byte {worst} of a scratchpad word of {word} B and does not end in it;"
                " choose address, x_bytes and y_bytes so that each vector lies in one word"
            )

    # ---- Ranges.

    def _within(self, space: Space, regions: Iterable[Region], verb: str) -> Iterator[str]:
        sizes = {
            Space.SCRATCHPAD: self.array.scratchpad_bytes,
            Space.ACCUMULATORS: self.array.accumulator_vectors,
            Space.MEMORY: self.memory_bytes,
        }
        end = max((region.end for region in regions), default=0)
        if end > sizes[space]:
            yield f"it {verb} {space} {end - 1}; the last is {sizes[space] - 1}"


def _aligned(name: str, value: int, unit: int, what: str) -> Iterator[str]:
    if value % unit:
        yield f"{name} is {value}; it must be a multiple of {what} ({unit} B): {value - value % unit} or {value - value % unit + unit}"
