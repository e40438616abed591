"""Static schedules across chips: the cycle in which every stage starts on every chip, and every transfer on every link.

Links are static: no flow control, fixed latency, one clock. So the schedule is the execution. Within a stage every chip makes
its part of each op's channels and sends it to the others before the next op; between stages each chip of the next stage gets
the whole result, one part from each chip of the stage before. A transfer takes the route of least latency cut-through: it
starts on the next link when its first byte has arrived, and occupies each link for its bytes. It starts in the first cycle
in which all links of its route are free at their time.

`schedule_faults` checks a schedule without the code that made it.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ...archdsl import ModelError, System, whole_cycles
from ..systems.wiring import Hop, wiring_of
from .placement import Placement, Stage

MAX_RUNS: Final = 200_000
"""Most transfers of one schedule; more is surely a slip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """One op of a stage on one chip.

    Attributes:
        chip: The chip.
        stage_idx: The stage.
        op_idx: The op within the stage.
        op: Name of the op.
        start_cycle: When it starts.
        end_cycle: When its result is complete.
    """

    chip: str
    stage_idx: int
    op_idx: int
    op: str
    start_cycle: int
    end_cycle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRun:
    """One part of a result on its way.

    Attributes:
        sender: Chip that made it.
        receiver: Chip that needs it.
        stage_idx: Stage that made it.
        op_idx: Op that made it.
        num_bytes: Its size.
        links: Directed links that it takes.
        link_start_cycles: When it starts on each of them.
        busy_cycles: How long it occupies each of them.
        arrival_cycle: When its last byte has arrived.
    """

    sender: str
    receiver: str
    stage_idx: int
    op_idx: int
    num_bytes: int
    links: tuple[tuple[str, str], ...]
    link_start_cycles: tuple[int, ...]
    busy_cycles: tuple[int, ...]
    arrival_cycle: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticSchedule:
    """One input through all stages.

    Attributes:
        placement: What runs where.
        clock_hz: Clock that the cycles count.
        runs: Ops on chips.
        transfers: Transfers between chips.
    """

    placement: Placement
    clock_hz: float
    runs: tuple[StageRun, ...]
    transfers: tuple[TransferRun, ...]

    @property
    def latency_cycles(self) -> int:
        """From the start of the first stage to the end of the last."""
        return max(run.end_cycle for run in self.runs)

    @property
    def latency_s(self) -> float:
        """The same [s]."""
        return self.latency_cycles / self.clock_hz

    def table(self) -> str:
        """Every op and transfer with its cycles, in order of start."""
        lines = [f"{'start':>10} {'end':>10}  what"]
        rows: list[tuple[int, int, str]] = [
            (run.start_cycle, run.end_cycle, f"{run.chip}: stage {run.stage_idx}, {run.op}") for run in self.runs
        ]
        for move in self.transfers:
            for link, start, busy in zip(move.links, move.link_start_cycles, move.busy_cycles, strict=True):
                rows.append(
                    (start, start + busy, f"{link[0]} > {link[1]}: {move.num_bytes:,} bytes for {move.receiver}")
                )
        lines += [f"{start:>10,} {end:>10,}  {text}" for start, end, text in sorted(rows)]
        return "\n".join(lines)


def schedule_statically(placement: Placement, system: System) -> StaticSchedule:
    """Schedule one input through a placement.

    Raises:
        ModelError: A link on the way is not static, or links have different clocks.
    """
    return _Builder(placement, system).build()


class _Builder:
    """The schedule while it grows: what is reserved on each link."""

    def __init__(self, placement: Placement, system: System) -> None:
        self._placement = placement
        self._wiring = wiring_of(system)
        self._links = {link.name: link for link in system.links}
        clocks = {link.clock_hz for link in system.links if link.is_static}
        self._clock_hz = clocks.pop() or 0.0 if len(clocks) == 1 else 0.0
        if not self._clock_hz:
            raise ModelError(
                f"{system.name}: a static schedule needs static links of one clock; add 'static: true' to them"
            )
        self._busy: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._runs: list[StageRun] = []
        self._transfers: list[TransferRun] = []

    def build(self) -> StaticSchedule:
        ready = dict.fromkeys(self._placement.stages[0].chips, 0)
        for stage_idx, stage in enumerate(self._placement.stages):
            ready = self._stage(stage_idx, stage, ready)
        return StaticSchedule(
            placement=self._placement,
            clock_hz=self._clock_hz,
            runs=tuple(self._runs),
            transfers=tuple(self._transfers),
        )

    def _stage(self, stage_idx: int, stage: Stage, ready: dict[str, int]) -> dict[str, int]:
        """Run a stage; when the chips of the next one have what they need."""
        scale = self._clock_hz / self._placement.array.clock_hz
        is_last_stage = stage_idx + 1 == len(self._placement.stages)
        for op_idx, (op, part) in enumerate(zip(stage.ops, stage.cycles.parts, strict=True)):
            ends: dict[str, int] = {}
            for chip in stage.chips:
                ends[chip] = ready[chip] + math.ceil(part.amount * scale)
                self._runs.append(
                    StageRun(
                        chip=chip, stage_idx=stage_idx, op_idx=op_idx, op=op.name,
                        start_cycle=ready[chip], end_cycle=ends[chip],
                    )
                )  # fmt: skip
            is_last_op = op_idx + 1 == len(stage.ops)
            if is_last_op and is_last_stage:
                return ends
            receivers = self._placement.stages[stage_idx + 1].chips if is_last_op else stage.chips
            share = math.ceil(stage.op_output_bytes[op_idx] / len(stage.chips))
            # A chip that keeps its own part waits for the others'.
            ready = {chip: ends.get(chip, 0) for chip in receivers}
            for sender in stage.chips:
                for receiver in receivers:
                    if sender != receiver:
                        arrival = self._send(stage_idx, op_idx, sender, receiver, share, ends[sender])
                        ready[receiver] = max(ready[receiver], arrival)
        return ready

    def _send(self, stage_idx: int, op_idx: int, sender: str, receiver: str, num_bytes: int, from_cycle: int) -> int:
        if len(self._transfers) >= MAX_RUNS:
            raise ModelError(f"the schedule has more than {MAX_RUNS:,} transfers")
        route = self._wiring.route(sender, receiver)
        delays, offsets = self._delays(route)
        busy = tuple(whole_cycles(num_bytes / hop.bytes_per_s, self._clock_hz) for hop in route)
        start = self._first_free(route, offsets, busy, from_cycle)
        starts = tuple(start + offset for offset in offsets)
        for hop, at, length in zip(route, starts, busy, strict=True):
            insort(self._busy.setdefault((hop.sender, hop.receiver), []), (at, at + length))
        arrival = max(at + delay + length for at, delay, length in zip(starts, delays, busy, strict=True))
        self._transfers.append(
            TransferRun(
                sender=sender, receiver=receiver, stage_idx=stage_idx, op_idx=op_idx, num_bytes=num_bytes,
                links=tuple((hop.sender, hop.receiver) for hop in route), link_start_cycles=starts, busy_cycles=busy,
                arrival_cycle=arrival,
            )
        )  # fmt: skip
        return arrival

    def _delays(self, route: tuple[Hop, ...]) -> tuple[list[int], list[int]]:
        """Cycles that each link delays the first byte, and when it starts on each after the start on the first."""
        delays: list[int] = []
        offsets = [0]
        for hop in route:
            link = self._links[hop.link]
            if not link.is_static:
                raise ModelError(f"link '{link.name}' between {hop.sender} and {hop.receiver} is not static")
            delays.append(whole_cycles(hop.latency_s, self._clock_hz))
            offsets.append(offsets[-1] + delays[-1])
        return delays, offsets[:-1]

    def _first_free(self, route: tuple[Hop, ...], offsets: list[int], busy: tuple[int, ...], from_cycle: int) -> int:
        """First cycle from which every link of a route is free when it is needed."""
        start = from_cycle
        is_moved = True
        while is_moved:
            is_moved = False
            for hop, offset, length in zip(route, offsets, busy, strict=True):
                for taken_from, taken_to in self._busy.get((hop.sender, hop.receiver), []):
                    if taken_from < start + offset + length and start + offset < taken_to:
                        start, is_moved = taken_to - offset, True
        return start


def schedule_faults(schedule: StaticSchedule, system: System) -> Iterator[str]:
    """What is wrong with a schedule: links that carry two transfers at once, operands used before they arrive."""
    clock_hz = schedule.clock_hz
    latencies = {link.name: link.latency_s for link in system.links}
    wiring = wiring_of(system)
    on_link: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for move in schedule.transfers:
        for link, start, busy in zip(move.links, move.link_start_cycles, move.busy_cycles, strict=True):
            on_link.setdefault(link, []).append((start, start + busy))
            hop = wiring.route(*link)[0]
            if move.num_bytes > busy * hop.bytes_per_s / clock_hz + 1e-6:
                yield f"{link[0]} > {link[1]}: {move.num_bytes:,} bytes do not pass in {busy} cycles"
        for (before, after), link in zip(pairwise(move.link_start_cycles), move.links, strict=False):
            delay = whole_cycles(latencies[wiring.route(*link)[0].link], clock_hz)
            if after < before + delay:
                yield f"{move.sender} > {move.receiver}: leaves {link[1]} in cycle {after}, before it has come there"
    for link, taken in sorted(on_link.items()):
        for (_, first_end), (second_start, _) in pairwise(sorted(taken)):
            if second_start < first_end:
                yield f"{link[0]} > {link[1]}: two transfers at once in cycle {second_start}"
    yield from _early_runs(schedule)


def _early_runs(schedule: StaticSchedule) -> Iterator[str]:
    """Runs that start before what they need is there, and transfers that start before it is made."""
    made = {(run.chip, run.stage_idx, run.op_idx): run.end_cycle for run in schedule.runs}
    last_op = [len(stage.ops) - 1 for stage in schedule.placement.stages]
    arrived: dict[tuple[str, int, int], dict[str, int]] = {}
    for move in schedule.transfers:
        if move.link_start_cycles[0] < made[move.sender, move.stage_idx, move.op_idx]:
            yield f"{move.sender}: sends stage {move.stage_idx}, op {move.op_idx} before it is made"
        arrived.setdefault((move.receiver, move.stage_idx, move.op_idx), {})[move.sender] = move.arrival_cycle
    for run in schedule.runs:
        if run.stage_idx == run.op_idx == 0:
            continue
        source_stage = run.stage_idx if run.op_idx else run.stage_idx - 1
        source = (source_stage, run.op_idx - 1 if run.op_idx else last_op[source_stage])
        for maker in schedule.placement.stages[source_stage].chips:
            there = made[maker, *source] if maker == run.chip else arrived.get((run.chip, *source), {}).get(maker)
            if there is None:
                yield f"{run.chip}: {run.op} lacks the part that {maker} makes"
            elif run.start_cycle < there:
                yield f"{run.chip}: {run.op} starts in cycle {run.start_cycle}, its operand from {maker} is there in {there}"
