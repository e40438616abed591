"""What instructions touch: memories, the units that touch them, and strided regions of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from ..workload import ceil_div
from .encoding import Instruction
from .parameters import PeArray


class Space(StrEnum):
    """A memory, and in what its regions are counted."""

    SCRATCHPAD = "scratchpad byte"
    ACCUMULATORS = "accumulator vector"
    PARAMETERS = "parameter slot"
    TABLES = "table slot"
    MEMORY = "main memory byte"


LOAD_SPACES = (Space.SCRATCHPAD, Space.PARAMETERS, Space.TABLES)
"""Where an LD goes, by the choice of its `space`."""


class Unit(IntEnum):
    """Something that ends its instructions in order. COMPUTE and ALU end twice: once inputs are read, once sums stand."""

    LOAD = 0
    PRELOAD = 1
    COMPUTE = 2
    SUMS = 3
    STORE = 4


UNITS_OF: dict[str, tuple[Unit, ...]] = {
    "LD": (Unit.LOAD,),
    "PRELOAD": (Unit.PRELOAD,),
    "COMPUTE": (Unit.COMPUTE, Unit.SUMS),
    "ALU": (Unit.COMPUTE, Unit.SUMS),
    "ST": (Unit.STORE,),
}
"""Units that work on an instruction; all others end with their issue."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Vectors in rows: `length` units of a space each.

    Attributes:
        first: First unit of the first vector.
        length: Units of a vector.
        num_x, x_step: Vectors of a row, and from one to the next.
        num_y, y_step: Rows, and from one to the next.
    """

    first: int
    length: int
    num_x: int = 1
    x_step: int = 0
    num_y: int = 1
    y_step: int = 0

    @property
    def end(self) -> int:
        """First unit behind all of it."""
        return self.first + (self.num_x - 1) * self.x_step + (self.num_y - 1) * self.y_step + self.length

    def merged(self) -> Region:
        """The same units in as few vectors as their steps allow."""
        first, length, num_x, num_y = self.first, self.length, self.num_x, self.num_y
        if self.x_step <= length:
            length, num_x = (num_x - 1) * self.x_step + length, 1
        if num_x == 1 and self.y_step <= length:
            length, num_y = (num_y - 1) * self.y_step + length, 1
        return Region(first=first, length=length, num_x=num_x, x_step=self.x_step, num_y=num_y, y_step=self.y_step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a unit does to a space on behalf of one instruction."""

    space: Space
    unit: Unit
    regions: tuple[Region, ...]
    is_read: bool = False
    is_write: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration that an instruction finds; what was never configured is 0, as after reset."""

    ld: Instruction = field(default_factory=lambda: Instruction(name="CFG_LD"))
    tile: Instruction = field(default_factory=lambda: Instruction(name="CFG_TILE"))
    walk: Instruction = field(default_factory=lambda: Instruction(name="CFG_WALK"))
    alu: Instruction = field(default_factory=lambda: Instruction(name="CFG_ALU"))
    st: Instruction = field(default_factory=lambda: Instruction(name="CFG_ST"))


def vector_bytes(columns: int, bits: int) -> int:
    """Bytes of a vector of elements of 4, 8 or 32 bits."""
    return ceil_div(columns * bits, 8)


def element_bits(instruction: Instruction, operand: str) -> int:
    """The bits that an operand chooses by name."""
    return int(instruction.kind.field(operand).choices[instruction[operand]])


def load_source(ld: Instruction, config: Config, array: PeArray) -> Region:
    """Bytes of main memory that an LD reads."""
    return Region(
        first=ld["memory_address"],
        length=ld["row_beats"] * array.bus_bytes,
        num_y=ld["rows"],
        y_step=config.ld["memory_row_bytes"],
    ).merged()


def load_target(ld: Instruction, config: Config, array: PeArray) -> Region:
    """What an LD writes: bytes of the scratchpad, or a slot of parameters or tables."""
    if ld["space"]:
        return Region(first=ld["local_address"], length=1)
    return Region(
        first=ld["local_address"],
        length=ld["row_beats"] * array.bus_bytes,
        num_y=ld["rows"],
        y_step=config.ld["local_row_bytes"],
    ).merged()


def preload_source(preload: Instruction, config: Config, array: PeArray) -> Region:
    """Bytes of the scratchpad that a PRELOAD reads: all columns of every row."""
    width = vector_bytes(array.cols, element_bits(config.walk, "weight_bits"))
    return Region(
        first=preload["address"], length=width, num_y=preload["rows"], y_step=preload["row_bytes"]
    ).merged()  # fmt: skip


def lanes_of(walker: Instruction) -> int:
    """Elements of the vectors over which a COMPUTE or ALU walks."""
    return walker["columns" if walker.name == "ALU" else "rows"]


def operand_source(alu: Instruction, config: Config, array: PeArray) -> tuple[Region, ...]:
    """Bytes of the scratchpad that an ALU reads as its second operand: all columns."""
    if not alu["operand"]:
        return ()
    width = vector_bytes(array.cols, element_bits(config.walk, "weight_bits"))
    num = alu["x_count"] * alu["y_count"] if operand_name(alu) == "sequence" else 1
    region = Region(first=config.alu["address"], length=width, num_x=num, x_step=config.alu["step_bytes"])
    return (region.merged(),)


def operand_name(alu: Instruction) -> str:
    """What an ALU's second operand is."""
    return alu.kind.field("operand").choices[alu["operand"]]


def compute_sources(compute: Instruction, config: Config) -> tuple[Region, ...]:
    """Bytes of the scratchpad that a COMPUTE or ALU reads on its walk: of every vector what lies in the tile."""
    tile, walk = config.tile, config.walk
    ys = _inside(compute["y"], walk["y_step_rows"], compute["y_count"], 1, tile["rows"])
    if not ys:
        return ()
    row = tile["address"] + (compute["y"] + ys.start * walk["y_step_rows"]) * tile["row_bytes"]
    y_step = walk["y_step_rows"] * tile["row_bytes"]
    return tuple(
        Region(
            first=row + part.first, length=part.length, num_x=part.num_x, x_step=part.x_step, num_y=len(ys), y_step=y_step
        ).merged()
        for part in _row_parts(compute, walk, tile["width_bytes"])
    )  # fmt: skip


def _row_parts(compute: Instruction, walk: Instruction, width: int) -> Iterator[Region]:
    """What the vectors of one row cover of the row."""
    length = vector_bytes(lanes_of(compute), element_bits(walk, "input_bits"))
    x, step, num = compute["x"], walk["x_step_bytes"], compute["x_count"]
    if step <= length:
        low, high = max(x, 0), min(x + (num - 1) * step + length, width)
        if low < high:
            yield Region(first=low, length=high - low)
        return
    whole = _inside(x, step, num, length, width)
    if whole:
        yield Region(first=x + whole.start * step, length=length, num_x=len(whole), x_step=step)
    # At most one vector sticks out on either side.
    for idx in sorted({max(0, -x // step), max(0, (width - x) // step)}):
        low, high = max(x + idx * step, 0), min(x + idx * step + length, width)
        if idx < num and idx not in whole and low < high:
            yield Region(first=low, length=high - low)


def _inside(first: int, step: int, num: int, length: int, end: int) -> range:
    """Indices of the vectors that lie wholly from 0 to `end`."""
    if step == 0:
        return range(1) if 0 <= first <= end - length else range(0)
    return range(max(0, ceil_div(-first, step)), max(0, min(num, (end - length - first) // step + 1)))


def compute_target(compute: Instruction) -> Region:
    """Accumulator vectors that a COMPUTE or ALU writes."""
    is_held = compute.name == "ALU" and compute["hold"]
    return Region(
        first=compute["destination"], length=1 if is_held else compute["x_count"] * compute["y_count"]
    )  # fmt: skip


def store_source(store: Instruction) -> Region:
    """Accumulator vectors that an ST reads."""
    return Region(first=store["source"], length=store["x_count"] * store["y_count"])


def store_target(store: Instruction, config: Config) -> Region:
    """Bytes that an ST writes."""
    return Region(
        first=store["address"],
        length=vector_bytes(store["columns"], element_bits(store, "format")),
        num_x=store["x_count"],
        x_step=config.st["x_bytes"],
        num_y=store["y_count"],
        y_step=config.st["y_bytes"],
    ).merged()


def accesses(instruction: Instruction, config: Config, array: PeArray) -> tuple[Access, ...]:
    """Everything that a valid instruction touches."""
    if instruction.name == "LD":
        space = LOAD_SPACES[instruction["space"]]
        return (
            Access(space=Space.MEMORY, unit=Unit.LOAD, regions=(load_source(instruction, config, array),), is_read=True),
            Access(space=space, unit=Unit.LOAD, regions=(load_target(instruction, config, array),), is_write=True),
        )  # fmt: skip
    if instruction.name == "PRELOAD":
        region = preload_source(instruction, config, array)
        return (Access(space=Space.SCRATCHPAD, unit=Unit.PRELOAD, regions=(region,), is_read=True),)
    if instruction.name in ("COMPUTE", "ALU"):
        sources = compute_sources(instruction, config)
        if instruction.name == "ALU":
            sources += operand_source(instruction, config, array)
        return (
            Access(space=Space.SCRATCHPAD, unit=Unit.COMPUTE, regions=sources, is_read=True),
            Access(
                space=Space.ACCUMULATORS, unit=Unit.SUMS, regions=(compute_target(instruction),),
                is_read=instruction["accumulate"] == 1, is_write=True,
            ),
        )  # fmt: skip
    if instruction.name == "ST":
        space = Space.SCRATCHPAD if instruction["space"] else Space.MEMORY
        found = [
            Access(space=Space.ACCUMULATORS, unit=Unit.STORE, regions=(store_source(instruction),), is_read=True),
            Access(space=space, unit=Unit.STORE, regions=(store_target(instruction, config),), is_write=True),
        ]
        if element_bits(instruction, "format") < 32:
            slot = Region(first=instruction["slot"], length=1)
            found.append(Access(space=Space.PARAMETERS, unit=Unit.STORE, regions=(slot,), is_read=True))
        if instruction["lookup"]:
            slot = Region(first=instruction["lookup"] - 1, length=1)
            found.append(Access(space=Space.TABLES, unit=Unit.STORE, regions=(slot,), is_read=True))
        return tuple(found)
    return ()
