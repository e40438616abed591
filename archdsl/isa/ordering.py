"""What a program's tokens, queues and barriers order: a clock per instruction.

A clock says, per unit, how many of its instructions have certainly ended. The clock of an instruction is that of its
issue: the joint clock of its predecessor in its queue, of the barrier in front of it, and of the ends whose tokens it
takes. That queues are short, or that few loads may be under way, orders nothing here: a valid program stays valid on
deeper queues.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .encoding import Instruction
from .parameters import PeArray
from .regions import UNITS_OF, Unit
from .tokens import GIVER, pops, pushes

Clock = tuple[int, ...]
START: Clock = (0,) * len(Unit)


def joined(clocks: Iterable[Clock]) -> Clock:
    """The least clock that is not before any of them."""
    return tuple(map(max, zip(*clocks, strict=True)))


def numbered(program: Sequence[Instruction]) -> tuple[dict[tuple[int, Unit], int], dict[Unit, list[int]]]:
    """Numbers a unit's instructions from 1.

    Returns:
        The number by index and unit, and the indices of every unit in order.
    """
    numbers: dict[tuple[int, Unit], int] = {}
    members: dict[Unit, list[int]] = {unit: [] for unit in Unit}
    for idx, instruction in enumerate(program):
        for unit in UNITS_OF.get(instruction.name, ()):
            members[unit].append(idx)
            numbers[idx, unit] = len(members[unit])
    return numbers, members


def giving_unit(instruction: Instruction, counter: int) -> Unit | None:
    """The unit at whose end an instruction gives a token; none if it gives it when it issues."""
    units = UNITS_OF.get(instruction.name)
    if units is None:
        return None
    return units[-1] if counter == 2 else units[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """A token: once `rank` tokens have been given, this one has been."""

    idx: int
    unit: Unit | None
    rank: int


@dataclass(slots=True)
class _Counter:
    """The tokens of one direction, by rank, and how many were taken."""

    tokens: list[_Given]
    num_taken: int = 0
    num_certain: int = 0
    clock: Clock = START


@dataclass(slots=True)
class _Run:
    """What is known while instructions issue one after another."""

    ends: dict[Unit, Clock] = field(default_factory=lambda: dict.fromkeys(Unit, START))
    end_of: dict[tuple[int, Unit | None], Clock] = field(default_factory=dict[tuple[int, "Unit | None"], Clock])
    queue: dict[str, Clock] = field(default_factory=dict[str, Clock])
    preload: Clock = START


def clocks(program: Sequence[Instruction], order: Sequence[int], array: PeArray) -> list[Clock]:
    """The clock of every instruction's issue.

    Args:
        program: A program that ends.
        order: An order in which its instructions may issue.
        array: The PE array.
    """
    numbers, _ = numbered(program)
    fences = _fences(program)
    counters = [_Counter(_ranked(program, counter, array)) for counter in range(len(GIVER))]
    run = _Run()
    found = list(fences)
    for idx in order:
        instruction = program[idx]
        if instruction.kind.is_barrier:
            continue
        known = [fences[idx], run.queue.get(instruction.queue, START)]
        known += [_taken(counters[counter], run) for counter in pops(instruction)]
        if instruction.name == "PRELOAD":
            known.append(run.ends[Unit.PRELOAD])
        elif instruction.name in ("COMPUTE", "ALU"):
            known.append(run.ends[Unit.COMPUTE])
            if instruction.name == "COMPUTE" and instruction["swap"]:
                known.append(run.ends[Unit.PRELOAD])
        found[idx] = run.queue[instruction.queue] = run.end_of[idx, None] = joined(known)
        _end(run, idx, instruction, found[idx], numbers)
    return found


def _end(run: _Run, idx: int, instruction: Instruction, clock: Clock, numbers: dict[tuple[int, Unit], int]) -> None:
    """The ends of an instruction: behind its issue, and behind its unit's last."""
    for unit in UNITS_OF.get(instruction.name, ()):
        own = tuple(numbers[idx, unit] if other == unit else 0 for other in Unit)
        clock = joined((clock, run.ends[unit], own))
        run.ends[unit] = run.end_of[idx, unit] = clock


def _taken(counter: _Counter, run: _Run) -> Clock:
    """The clock that the next token of a counter brings: that of every token that must have been given by then."""
    counter.num_taken += 1
    while counter.num_certain < len(counter.tokens):
        token = counter.tokens[counter.num_certain]
        if token.rank > counter.num_taken:
            break
        counter.clock = joined((counter.clock, run.end_of[token.idx, token.unit]))
        counter.num_certain += 1
    return counter.clock


def _fences(program: Sequence[Instruction]) -> list[Clock]:
    """Per instruction what the barriers in front of it have waited for."""
    counts = [0] * len(Unit)
    fence: Clock = START
    found: list[Clock] = []
    for instruction in program:
        if instruction.kind.is_barrier:
            fence = tuple(counts)
        found.append(fence)
        for unit in UNITS_OF.get(instruction.name, ()):
            counts[unit] += 1
    return found


def _ranked(program: Sequence[Instruction], counter: int, array: PeArray) -> list[_Given]:
    """The tokens of a counter by rank.

    Tokens of one unit are given in order. Where several units give to a counter, a token's rank counts besides those
    in front of it those that may overtake it.
    """
    queue = [
        idx for idx, instruction in enumerate(program)
        if instruction.queue == GIVER[counter] and not instruction.kind.is_barrier
    ]  # fmt: skip
    givers = [
        (place, giving_unit(program[idx], counter))
        for place, idx in enumerate(queue)
        if counter in pushes(program[idx])
    ]
    is_mixed = len({unit for _, unit in givers}) > 1
    found: list[_Given] = []
    for number, (place, unit) in enumerate(givers, start=1):
        num_late = 0
        if is_mixed and unit is not None:
            end = _overtaking_end(program, queue, place, unit, array)
            for later, other in givers[number:]:
                if later >= end:
                    break
                num_late += other != unit
        found.append(_Given(idx=queue[place], unit=unit, rank=number + num_late))
    return sorted(found, key=lambda token: token.rank)


def _overtaking_end(
    program: Sequence[Instruction], queue: Sequence[int], place: int, unit: Unit, array: PeArray
) -> int:
    """The place in the queue from which on nothing issues before the instruction at `place` ends."""
    names, allowed = {
        Unit.LOAD: (("LD",), array.loads_in_flight - 1),
        Unit.PRELOAD: (("COMPUTE",), 0),
        Unit.COMPUTE: (("COMPUTE", "ALU"), 0),
        Unit.SUMS: (("COMPUTE", "ALU"), 0),
        Unit.STORE: (("ST",), 1),
    }[unit]
    at, num_passed = place + 1, 0
    while at < len(queue):
        instruction = program[queue[at]]
        if instruction.name in names and (unit != Unit.PRELOAD or instruction["swap"]):
            if num_passed == allowed:
                break
            num_passed += 1
        at += 1
    # The last sums take as many cycles as the array has rows and columns, and an instruction issues per cycle.
    return at + array.rows + array.cols + 2 if unit == Unit.SUMS else at
