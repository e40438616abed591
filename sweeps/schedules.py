"""A replayed program as slices on units: what the Gantt chart, the trace events and functional coverage show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from ..archdsl import Instruction, ProgramImage, disassemble

if TYPE_CHECKING:
    from ..models import Replay

QUEUES: Final = ("load", "execute", "store")
Unit = Literal["load", "preload", "compute", "store"]
UNITS: Final[tuple[Unit, ...]] = ("load", "preload", "compute", "store")
UNIT_QUEUES: Final[dict[Unit, str]] = {"load": "load", "preload": "execute", "compute": "execute", "store": "store"}
UNIT_OF: Final[dict[str, Unit]] = {
    "LD": "load",
    "PRELOAD": "preload",
    "COMPUTE": "compute",
    "ALU": "compute",
    "ST": "store",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """One instruction's time.

    Attributes:
        idx: Its index in the program.
        name: Its mnemonic.
        queue: Its queue.
        unit: The unit that it occupies; None for one that ends with its issue.
        lane: Slices of a unit overlap, as its pipeline takes the next before the last has ended; those of one lane do
            not.
        what: What it moves or does, e.g. `LD weight`.
        text: The instruction in full.
        dispatch_cycle: Cycle in which it entered its queue.
        issue_cycle: Cycle in which it left it.
        end_cycle: Cycle in which it ended.
    """

    idx: int
    name: str
    queue: str
    unit: Unit | None
    lane: int
    what: str
    text: str
    dispatch_cycle: int
    issue_cycle: int
    end_cycle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When the instructions of a program waited, ran and ended.

    Attributes:
        slices: One per instruction that issued, in program order.
        replay: What it was made from.
    """

    slices: tuple[Slice, ...]
    replay: Replay

    def num_lanes(self, unit: Unit) -> int:
        """Lanes that a unit's slices need."""
        return max((s.lane + 1 for s in self.slices if s.unit == unit), default=1)

    def occupancy(self, queue: str) -> list[tuple[int, int]]:
        """Instructions in a queue, as (cycle, number from that cycle on)."""
        return _levels((s.dispatch_cycle + 1, s.issue_cycle + 1) for s in self.slices if s.queue == queue)

    def under_way(self, unit: Unit) -> list[tuple[int, int]]:
        """Instructions under way in a unit, as (cycle, number from that cycle on)."""
        return _levels((s.issue_cycle, s.end_cycle) for s in self.slices if s.unit == unit)


def schedule_of(image: ProgramImage, found: Replay) -> Schedule:
    """The schedule of a replayed image.

    Dispatch takes one instruction per cycle in program order, and waits while its queue is full; what the replay does
    not record follows from that.
    """
    dispatch = _dispatch_cycles(image, found)
    lanes: dict[Unit, list[int]] = {unit: [] for unit in UNITS}
    slices: list[Slice] = []
    for idx, insn in enumerate(image.program):
        start, end = int(found.issue_cycles[idx]), int(found.end_cycles[idx])
        if start < 0:
            continue
        unit = UNIT_OF.get(insn.name)
        slices.append(
            Slice(
                idx=idx,
                name=insn.name,
                queue=insn.queue,
                unit=unit,
                lane=0 if unit is None else _take_lane(lanes[unit], start, end),
                what=_what(image, insn),
                text=disassemble([insn]).strip(),
                dispatch_cycle=dispatch[idx],
                issue_cycle=start,
                end_cycle=end,
            )
        )
    return Schedule(slices=tuple(slices), replay=found)


def _dispatch_cycles(image: ProgramImage, found: Replay) -> list[int]:
    """The cycle in which each instruction enters its queue; the first is fetched in cycle 0 and enters in cycle 1."""
    left: dict[str, list[int]] = {queue: [] for queue in QUEUES}
    cycles: list[int] = []
    last = 0
    for insn, issue_cycle in zip(image.program, found.issue_cycles.tolist(), strict=True):
        if insn.kind.is_barrier:
            last = issue_cycle
        else:
            issues = left[insn.queue]
            depth = image.array.queue_depth
            free_from = issues[-depth] + 1 if len(issues) >= depth else 0
            last = max(last + 1, free_from)
            issues.append(issue_cycle)
        cycles.append(last)
    return cycles


def _take_lane(free_from: list[int], start: int, end: int) -> int:
    """The first lane that is free by then."""
    for lane, cycle in enumerate(free_from):
        if cycle <= start:
            free_from[lane] = end
            return lane
    free_from.append(end)
    return len(free_from) - 1


def _what(image: ProgramImage, insn: Instruction) -> str:
    if insn.name == "ST":
        return "ST to scratchpad" if insn["space"] else "ST to memory"
    if insn.name != "LD":
        return insn.name
    if insn.kind.field("space").choices[insn["space"]] == "table":
        return "LD table"
    at = insn["memory_address"]
    role = next((s.role for s in image.manifest.symbols if s.address <= at < s.end), None)
    if role is None:
        role = "parameter" if insn["space"] else "data"
    return f"LD {role}"


def _levels(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    steps: dict[int, int] = {}
    for start, end in spans:
        steps[start] = steps.get(start, 0) + 1
        steps[end] = steps.get(end, 0) - 1
    found: list[tuple[int, int]] = []
    level = 0
    for cycle in sorted(steps):
        if steps[cycle]:
            level += steps[cycle]
            found.append((cycle, level))
    return found
