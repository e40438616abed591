"""Functional coverage of programs: which situations of the tensor PE array they bring about.

Bins are counted per instruction over replayed programs. What a group counts is listed in full, so that those that are
missing can be named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..archdsl import CompileError, Instruction, ProgramImage, Symbol, take_array, tensor_pe_array_isa
from .schedules import QUEUES, UNIT_OF, Schedule, Slice

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes = npt.NDArray[np.uint8]

LENGTHS: Final = ((1, "1"), (7, "2-7"), (63, "8-63"), (1 << 40, "64 or more"))
"""Steps of a unit (rows, vectors, beats of a load) by upper bound."""
STALL_CAUSES: Final = ("token", "unit busy", "bank taken", "queue empty")
OCCUPANCIES: Final = ("alone", "half full at most", "more than half full", "full")
SATURATIONS: Final = ("none", "low", "high", "both")
CLIPPED_FORMATS: Final = ("8", "4")
Bin = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageGroup:
    """One question about programs.

    Attributes:
        name: What is crossed with what.
        hits: How often each bin was met; every bin that can be met is there.
    """

    name: str
    hits: Mapping[Bin, int]

    @property
    def num_covered(self) -> int:
        """Bins that were met."""
        return sum(count > 0 for count in self.hits.values())

    @property
    def missing(self) -> tuple[Bin, ...]:
        """Bins that were not met."""
        return tuple(name for name, count in self.hits.items() if not count)


@dataclass(slots=True)
class FunctionalCoverage:
    """Adds programs up."""

    _hits: dict[str, dict[Bin, int]] = field(
        default_factory=lambda: {name: dict.fromkeys(bins, 0) for name, bins in _universe().items()}
    )
    _cross: set[Bin] = field(default_factory=set[Bin])
    num_instructions: int = 0

    def add(self, image: ProgramImage, schedule: Schedule, memory: Bytes) -> None:
        """Counts one program.

        Args:
            image: The program.
            schedule: Its replay as a schedule.
            memory: Main memory after it, from which saturation is read; stores to the scratchpad are not looked at.
        """
        for queue, causes in schedule.replay.stall_cycles.items():
            for cause, cycles in causes.items():
                self._hit("queue x stall cause", (queue, cause), cycles)
        saturations = _saturations(image, memory)
        occupancies = _occupancies(schedule, image.array.queue_depth)
        before: dict[str, int] = {}
        for item in schedule.slices:
            insn = image.program[item.idx]
            length, wait = _length(insn), _wait(item, insn, before.get(item.queue, -1))
            before[item.queue] = item.issue_cycle
            saturation = saturations.get(item.idx, "-")
            self.num_instructions += 1
            self._hit("instruction x length", (item.name, length))
            self._hit("instruction x wait", (item.name, wait))
            self._hit("instruction x tokens taken", (item.name, _tokens(insn)))
            if not insn.kind.is_barrier:
                self._hit("queue x occupancy at issue", (item.queue, occupancies[item.idx]))
            if saturation != "-":
                choices = insn.kind.field("format").choices
                self._hit("stored format x saturation", (choices[insn["format"]], saturation))
            self._cross.add((item.name, length, wait, occupancies[item.idx], saturation))

    def groups(self) -> tuple[CoverageGroup, ...]:
        """All groups, with what was met so far."""
        return tuple(CoverageGroup(name=name, hits=dict(hits)) for name, hits in self._hits.items())

    @property
    def num_combinations(self) -> int:
        """Combinations met of instruction, length, wait, occupancy and saturation together."""
        return len(self._cross)

    def _hit(self, group: str, name: Bin, count: int = 1) -> None:
        bins = self._hits[group]
        if name in bins:
            bins[name] += count


def _universe() -> dict[str, list[Bin]]:
    kinds = tensor_pe_array_isa().instructions
    units = [kind for kind in kinds if kind.name in UNIT_OF]
    queued = [kind for kind in kinds if not kind.is_barrier]
    pops = {queue: _popped_sides(queue) for queue in QUEUES}
    return {
        "instruction x length": [
            *((kind.name, "-") for kind in kinds if kind not in units),
            *((kind.name, label) for kind in units for _, label in LENGTHS),
        ],
        "instruction x wait": [(kind.name, wait) for kind in queued for wait in _waits(kind.name)],
        "instruction x tokens taken": [(kind.name, sides) for kind in queued for sides in pops[kind.queue]],
        # Loads touch the scratchpad before all others: none finds its bank taken.
        "queue x stall cause": [
            (queue, cause) for queue in QUEUES for cause in STALL_CAUSES if (queue, cause) != ("load", "bank taken")
        ],
        "queue x occupancy at issue": [(queue, label) for queue in QUEUES for label in OCCUPANCIES],
        "stored format x saturation": [(bits, label) for bits in CLIPPED_FORMATS for label in SATURATIONS],
    }


def _waits(name: str) -> tuple[str, ...]:
    """What an instruction can wait for, in the words of `_wait`."""
    if name in UNIT_OF:
        return ("none", "queue empty", "unit", "token or unit")
    return ("none", "queue empty", "token", *(("unit",) if name == "HALT" else ()))


def _popped_sides(queue: str) -> tuple[str, ...]:
    sides = {"load": ("none", "next"), "execute": ("none", "previous", "next", "both"), "store": ("none", "previous")}
    return sides[queue]


def _tokens(insn: Instruction) -> str:
    if insn.pop_prev and insn.pop_next:
        return "both"
    return "previous" if insn.pop_prev else "next" if insn.pop_next else "none"


def _length(insn: Instruction) -> str:
    match insn.name:
        case "LD":
            steps = insn["rows"] * insn["row_beats"]
        case "PRELOAD":
            steps = insn["rows"]
        case "COMPUTE" | "ALU" | "ST":
            steps = insn["x_count"] * insn["y_count"]
        case _:
            return "-"
    return next(label for most, label in LENGTHS if steps <= most)


def _wait(item: Slice, insn: Instruction, issued_before: int) -> str:
    """Why an instruction did not issue in the cycle after the one before it, as far as its kind tells."""
    at_head = max(item.dispatch_cycle, issued_before) + 1
    if item.issue_cycle > at_head:
        pops = insn.pop_prev or insn.pop_next
        if pops and item.unit is not None:
            return "token or unit"
        return "token" if pops else "unit"
    return "queue empty" if item.dispatch_cycle > issued_before else "none"


def _occupancies(schedule: Schedule, depth: int) -> dict[int, str]:
    """How full the queue of each instruction is when it issues, itself included."""
    found: dict[int, str] = {}
    for queue in QUEUES:
        items = [s for s in schedule.slices if s.queue == queue]
        last = 0
        for idx, item in enumerate(items):
            while last < len(items) and items[last].dispatch_cycle < item.issue_cycle:
                last += 1
            level = last - idx
            found[item.idx] = (
                OCCUPANCIES[0] if level <= 1
                else OCCUPANCIES[3] if level >= depth
                else OCCUPANCIES[1] if 2 * level <= depth
                else OCCUPANCIES[2]
            )  # fmt: skip
    return found


def _saturations(image: ProgramImage, memory: Bytes) -> dict[int, str]:
    """Per store to main memory of 8 or 4 bits: whether it has values at the bounds that it clips to."""
    config = Instruction(name="CFG_ST")
    found: dict[int, str] = {}
    for idx, insn in enumerate(image.program):
        if insn.name == "CFG_ST":
            config = insn
        bits = {0: 8, 1: 4}.get(insn.operands.get("format", 0)) if insn.name == "ST" else None
        # What a table gave does not show what it was looked up by.
        if bits is None or insn["space"] or insn["lookup"]:
            continue
        values = _stored(insn, config, bits, memory)
        has_low, has_high = bool((values == config["low"]).any()), bool((values == config["high"]).any())
        found[idx] = SATURATIONS[has_low + 2 * has_high]
    return found


def _stored(insn: Instruction, config: Instruction, bits: int, memory: Bytes) -> npt.NDArray[np.integer]:
    shape = (insn["y_count"], insn["x_count"], insn["columns"])
    try:
        symbol = Symbol.model_validate({
            "name": "stored", "role": "output", "address": insn["address"], "shape": shape, "element_bits": bits,
            "strides_bytes": (config["y_bytes"], config["x_bytes"], 1),
        })  # fmt: skip
    except ValueError as error:
        raise CompileError(f"a store overwrites itself: {error}") from error
    return take_array(memory, symbol)


def missing_lines(groups: Sequence[CoverageGroup], most: int) -> Iterable[str]:
    """Lines that name what was not met, at most so many bins per group."""
    for group in groups:
        if not group.missing:
            continue
        names = [" / ".join(name) for name in group.missing[:most]]
        rest = len(group.missing) - len(names)
        yield f"{group.name}: {', '.join(names)}{f' and {rest} more' if rest else ''}"
