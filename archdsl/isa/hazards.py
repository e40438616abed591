"""Data hazards: accesses of different units to the same place that nothing orders as the program does.

Per space and unit one number is kept for every place: the last instruction of the unit that touched it. A unit works
in order, so an instruction whose clock has reached that number is behind all that the unit did there. Numbers stand in
NumPy arrays, and regions are strided views of them, so that the cost of an access is that of touching its places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..workload import ceil_div
from .encoding import Instruction
from .ordering import Clock, numbered
from .parameters import PeArray
from .regions import Access, Region, Space, Unit

Numbers = npt.NDArray[np.int32]
_WRITERS: dict[Space, tuple[Unit, ...]] = {
    Space.SCRATCHPAD: (Unit.LOAD, Unit.STORE),
    Space.ACCUMULATORS: (Unit.SUMS,),
    Space.PARAMETERS: (Unit.LOAD,),
    Space.TABLES: (Unit.LOAD,),
    Space.MEMORY: (Unit.STORE,),
}
_READERS: dict[Space, tuple[Unit, ...]] = {
    Space.SCRATCHPAD: (Unit.PRELOAD, Unit.COMPUTE),
    Space.ACCUMULATORS: (Unit.STORE,),
    Space.PARAMETERS: (Unit.STORE,),
    Space.TABLES: (Unit.STORE,),
    Space.MEMORY: (Unit.LOAD,),
}
_SOURCES = {
    Space.SCRATCHPAD: "load it first",
    Space.ACCUMULATORS: "let a COMPUTE without accumulate write it first",
    Space.PARAMETERS: "load it first",
    Space.TABLES: "load it first",
}
_QUEUE = {
    Unit.LOAD: "load",
    Unit.PRELOAD: "execute",
    Unit.COMPUTE: "execute",
    Unit.SUMS: "execute",
    Unit.STORE: "store",
}


@dataclass(slots=True)
class _Shadow:
    """The last instruction of every unit at every place of a space.

    Attributes:
        granule: Bytes or vectors that make a place.
        last: Per unit the numbers, 0 where it has not been.
    """

    granule: int
    num_places: int
    last: dict[Unit, Numbers] = field(default_factory=dict[Unit, Numbers])

    def view(self, unit: Unit, region: Region) -> Numbers:
        """A unit's numbers in a region, [rows, vectors, places]."""
        if unit not in self.last:
            self.last[unit] = np.zeros(self.num_places, dtype=np.int32)
        size, granule = self.last[unit].itemsize, self.granule
        return np.ndarray(
            (region.num_y, region.num_x, ceil_div(region.length, granule)),
            dtype=np.int32,
            buffer=self.last[unit],
            offset=size * (region.first // granule),
            strides=(size * (region.y_step // granule), size * (region.x_step // granule), size),
        )

    def place(self, region: Region, where: tuple[int, ...]) -> int:
        """First byte or vector of a place in a view."""
        y, x, offset = where
        return region.first + y * region.y_step + x * region.x_step + offset * self.granule


def hazard_faults(
    program: Sequence[Instruction], touched: Sequence[tuple[Access, ...]], clocks: Sequence[Clock], array: PeArray
) -> Iterator[tuple[int, str]]:
    """Index and message of every access that nothing orders behind an earlier one, or that reads what nothing wrote.

    Args:
        program: The program.
        touched: What every instruction touches.
        clocks: What has ended when it issues.
        array: The PE array.
    """
    shadows = _shadows(touched, array)
    numbers, members = numbered(program)
    for idx, some in enumerate(touched):
        for access in some:
            shadow = shadows[access.space]
            for unit in Unit:
                yield from _unordered(program, shadow, access, unit, members[unit], idx, clocks[idx])
            yield from _unwritten(shadow, access, idx)
        for access in some:
            for region in access.regions:
                shadows[access.space].view(access.unit, region)[...] = numbers[idx, access.unit]


def _shadows(touched: Sequence[tuple[Access, ...]], array: PeArray) -> dict[Space, _Shadow]:
    """Empty shadows. Main memory's places are as large as all accesses to it are multiples of, at most a beat."""
    regions = [
        region for some in touched for access in some if access.space == Space.MEMORY for region in access.regions
    ]
    steps = {r.x_step for r in regions if r.num_x > 1} | {r.y_step for r in regions if r.num_y > 1}
    granule = math.gcd(array.bus_bytes, *{region.first for region in regions}, *steps)
    end = max((region.end for region in regions), default=0)
    return {
        Space.SCRATCHPAD: _Shadow(granule=1, num_places=array.scratchpad_bytes),
        Space.ACCUMULATORS: _Shadow(granule=1, num_places=array.accumulator_vectors),
        Space.PARAMETERS: _Shadow(granule=1, num_places=array.parameter_slots),
        Space.TABLES: _Shadow(granule=1, num_places=array.table_slots),
        Space.MEMORY: _Shadow(granule=granule, num_places=ceil_div(end, granule)),
    }


def _unordered(
    program: Sequence[Instruction],
    shadow: _Shadow,
    access: Access,
    unit: Unit,
    members: Sequence[int],
    idx: int,
    clock: Clock,
) -> Iterator[tuple[int, str]]:
    """What another unit did there, where one of the two writes."""
    others = _WRITERS[access.space] + (_READERS[access.space] if access.is_write else ())
    if unit == access.unit or unit not in others or unit not in shadow.last:
        return
    for region in access.regions:
        last = shadow.view(unit, region)
        if last.max() <= clock[unit]:
            continue
        where = np.unravel_index(int(last.argmax()), last.shape)
        number = int(last[where])
        before = members[number - 1]
        place = f"{access.space} {shadow.place(region, tuple(int(at) for at in where))}"
        is_written = unit in _WRITERS[access.space]
        earlier = f"instruction {before} ({program[before].name})"
        if not access.is_write:
            what = f"reads {place}, which {earlier} may not have written yet"
        elif is_written:
            what = f"writes {place} before {earlier} may have written it"
        else:
            what = f"overwrites {place}, which {earlier} may not have read yet"
        yield idx, f"it {what}: {_remedy(unit, access.unit, before)}"
        return


def _remedy(unit: Unit, own: Unit, before: int) -> str:
    giver, taker = _QUEUE[unit], _QUEUE[own]
    through = "" if "execute" in (giver, taker) else ", through the execute queue,"
    return (
        f"let a token from the {giver} to the {taker} queue{through} order it behind instruction {before},"
        " or put a FENCE between"
    )


def _unwritten(shadow: _Shadow, access: Access, idx: int) -> Iterator[tuple[int, str]]:
    """What is read before anything wrote it.

    Of the scratchpad this is said only where nothing of an access was written: PRELOAD reads all columns, also those
    without weights, and vectors at the edge of an image may hold nothing but the channels that fill up a pixel.
    """
    if not access.is_read or access.space == Space.MEMORY:
        return
    writers = _WRITERS[access.space]
    written = [np.maximum.reduce([shadow.view(unit, region) for unit in writers]) for region in access.regions]
    if access.space == Space.SCRATCHPAD:
        if written and max(last.max() for last in written) == 0:
            first, end = min(r.first for r in access.regions), max(r.end for r in access.regions) - 1
            yield (
                idx,
                f"it reads {access.space}s {first} to {end}, and nothing has written any of them: load them first",
            )
        return
    for region, last in zip(access.regions, written, strict=True):
        if last.min() == 0:
            where = np.unravel_index(int(last.argmin()), last.shape)
            place = shadow.place(region, tuple(int(at) for at in where))
            yield idx, f"it reads {access.space} {place}, which nothing has written: {_SOURCES[access.space]}"
            return
