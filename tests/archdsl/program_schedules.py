"""Programs run in random schedules: what the checker says without time, seen in time.

Written from the RTL and not from the checker: units take any time for what they do, within the depth of their queues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tileloom.archdsl import Instruction, PeArray
from tileloom.archdsl.isa.operand_checks import OperandCheck
from tileloom.archdsl.isa.regions import Access, Region, Unit

QUEUES = ("load", "execute", "store")
_SIDES = {"load": {"next": 1}, "execute": {"prev": 0, "next": 3}, "store": {"prev": 2}}
_GIVES = {"load": {"next": 0}, "execute": {"prev": 1, "next": 2}, "store": {"prev": 3}}


@dataclass(slots=True)
class Run:
    """One run.

    Attributes:
        issues: When every instruction issued; -1 if it never did.
        ends: When every unit ended it.
        is_hung: Whether something did not issue.
    """

    issues: list[int]
    ends: dict[tuple[int, Unit], int] = field(default_factory=dict[tuple[int, Unit], int])
    is_hung: bool = False


class _Machine:
    """Queues, tokens and units that work as slowly as they like."""

    def __init__(self, program: Sequence[Instruction], array: PeArray, rng: Random) -> None:
        self.program, self.array, self.rng = program, array, rng
        self.run = Run([-1] * len(program))
        self.queues: dict[str, deque[int]] = {name: deque() for name in QUEUES}
        self.working: dict[Unit, deque[int]] = {unit: deque() for unit in Unit}
        self.tokens = [0] * 4
        self.pc = self.now = 0
        self.is_reserved = self.is_complete = False
        self.weights = {name: rng.choice((0.02, 0.3, 1.0, 5.0)) for name in (*QUEUES, *Unit, "dispatch")}

    def steps(self) -> list[str | Unit]:
        """What may happen next."""
        found: list[str | Unit] = [unit for unit in Unit if self.working[unit]]
        # The array never waits: sums end a bounded number of cycles after their inputs.
        found += [name for name in QUEUES if self.queues[name] and self._may_issue(name)]
        if self.pc < len(self.program) and self._may_dispatch():
            found.append("dispatch")
        return found

    def _may_dispatch(self) -> bool:
        instruction = self.program[self.pc]
        if instruction.name == "FENCE":
            return not any(self.queues.values()) and not any(self.working.values())
        return len(self.queues[instruction.queue]) < self.array.queue_depth

    def _may_issue(self, queue: str) -> bool:
        instruction = self.program[self.queues[queue][0]]
        for side, counter in _SIDES[queue].items():
            if getattr(instruction, f"pop_{side}") and not self.tokens[counter]:
                return False
        working = self.working
        return {
            "LD": len(working[Unit.LOAD]) < self.array.loads_in_flight,
            "PRELOAD": not working[Unit.PRELOAD] and not self.is_reserved,
            "COMPUTE": not working[Unit.COMPUTE] and (self.is_complete or not instruction["swap"] if instruction.name == "COMPUTE" else True),
            "ST": len(working[Unit.STORE]) < 2,
            "HALT": not working[Unit.STORE],
        }.get(instruction.name, True)  # fmt: skip

    def take(self, step: str | Unit) -> None:
        """Lets one thing happen."""
        self.now += 1
        if isinstance(step, Unit):
            self._end(step)
        elif step == "dispatch":
            if self.program[self.pc].name == "FENCE":
                self.run.issues[self.pc] = self.now
            else:
                self.queues[self.program[self.pc].queue].append(self.pc)
            self.pc += 1
        else:
            self._issue(step)

    def _issue(self, queue: str) -> None:
        idx = self.queues[queue].popleft()
        instruction = self.program[idx]
        self.run.issues[idx] = self.now
        for side, counter in _SIDES[queue].items():
            self.tokens[counter] -= getattr(instruction, f"pop_{side}")
        unit = {"LD": Unit.LOAD, "PRELOAD": Unit.PRELOAD, "COMPUTE": Unit.COMPUTE, "ST": Unit.STORE}.get(
            instruction.name
        )
        if unit is None:
            self._give(idx, ("prev", "next"))
            return
        self.working[unit].append(idx)
        if unit == Unit.PRELOAD:
            self.is_reserved = True
        elif unit == Unit.COMPUTE and instruction["swap"]:
            self.is_reserved = self.is_complete = False

    def _end(self, unit: Unit) -> None:
        idx = self.working[unit].popleft()
        self.run.ends[idx, unit] = self.now
        if unit == Unit.COMPUTE:
            self.working[Unit.SUMS].append(idx)
        self.is_complete |= unit == Unit.PRELOAD
        sides = {Unit.COMPUTE: ("prev",), Unit.SUMS: ("next",)}.get(unit, ("prev", "next"))
        self._give(idx, sides)

    def _give(self, idx: int, sides: Sequence[str]) -> None:
        instruction = self.program[idx]
        for side, counter in _GIVES[instruction.queue].items():
            if side in sides:
                self.tokens[counter] += getattr(instruction, f"push_{side}")


def random_run(program: Sequence[Instruction], array: PeArray, rng: Random) -> Run:
    """One run of a program in a random schedule, to its end or until nothing more can happen."""
    machine = _Machine(program, array, rng)
    while steps := machine.steps():
        machine.take(rng.choices(steps, [machine.weights[step] for step in steps])[0])
    machine.run.is_hung = min(machine.run.issues, default=0) < 0
    return machine.run


Conflict = tuple[int, Unit, int]
"""Instructions that touch the same place, the earlier one with its unit."""


def conflicts(program: Sequence[Instruction], array: PeArray, memory_bytes: int) -> list[Conflict]:
    """All pairs of instructions that touch the same place on behalf of different units, where one writes: by sets."""
    check = OperandCheck(array=array, memory_bytes=memory_bytes)
    seen: list[tuple[int, Access, set[int]]] = []
    found: list[Conflict] = []
    for idx, instruction in enumerate(program):
        some = [(idx, access, places(access.regions)) for access in check.step(instruction)[1]]
        for _, access, touched in some:
            for before, other, others in seen:
                is_conflict = other.space == access.space and (other.is_write or access.is_write)
                if is_conflict and other.unit != access.unit and touched & others:
                    found.append((before, other.unit, idx))
        seen += some
    return found


def places(regions: Sequence[Region]) -> set[int]:
    """Everything in some regions."""
    return {
        region.first + y * region.y_step + x * region.x_step + at
        for region in regions
        for y in range(region.num_y)
        for x in range(region.num_x)
        for at in range(region.length)
    }


def violated(run: Run, pairs: Sequence[Conflict]) -> set[int]:
    """Instructions that issued in a run before an earlier one that they conflict with had ended."""
    return {idx for before, unit, idx in pairs if run.ends[before, unit] > run.issues[idx]}
