"""Moves loads ahead of what needs them: across tiles and across kernels, as far as their places are free."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from itertools import accumulate

from ...archdsl import PeArray, ceil_div
from .steps import Load, Step, Store, Walk

LOADS_AHEAD = 8
"""How many loads may stand in front of what they were placed for, unless the user says otherwise."""
IDLE_FACTOR = 4
"""By how much more may where the bus is idle. Without a limit the bus-bound layers of small arrays lose: walks that could
run stand behind loads in the one stream of instructions."""


def with_loads_ahead(steps: Sequence[Step], ahead: int, array: PeArray) -> list[Step]:
    """The steps with loads earlier, and what they wait for by the new numbers.

    All other steps keep their order, and so do loads to the scratchpad, and those to slots. The load queue holds what has
    not begun: once it is full, dispatch waits, and with it what could run already. So only some loads stand in front of
    what they were placed for, and more where the bus would be idle otherwise, by a rough account of when walks run and
    the bus is free. A load that still waits for its slot lets those behind it pass that go to the scratchpad, and the
    other way round.

    Args:
        steps: In the order of their effects.
        ahead: How many loads may stand there in any case; 0 for no load earlier than it was placed.
        array: The PE array.
    """
    others = [step for step in steps if not isinstance(step, Load)]
    loads = [step for step in steps if isinstance(step, Load)]
    order = _Order(loads, others, ahead, array)
    found: list[Step] = []
    for idx, step in enumerate(others):
        found += order.loads_before(idx)
        found.append(step)
    found += order.rest()
    _renumber(found, loads)
    return found


class _Order:
    """Chooses the loads in front of each other step.

    Attributes:
        placed: Per load whether it has been chosen.
        passed: Loads that are needed by now, in their old order.
        early: Loads chosen that are not needed yet.
        now, bus: When the next walk begins and the bus is free, if nothing holds them up.
        arrivals: Per load when its data are there.
        under_way: When the last loads end, as many as main memory serves at a time.
    """

    def __init__(self, loads: Sequence[Load], others: Sequence[Step], ahead: int, array: PeArray) -> None:
        self.loads, self.others, self.ahead, self.array = loads, others, ahead, array
        self.needed = _needed(others, len(loads))
        self.ready = _ready(loads, others, self.needed)
        self.queues = [deque[int](), deque[int]()]
        for idx, load in enumerate(loads):
            self.queues[_is_for_slots(load)].append(idx)
        self.load_beats, self.work, self.store_beats = _costs(loads, others, array)
        self.work_before = [0, *accumulate(self.work)]
        self.placed = [False] * len(loads)
        self.arrivals = [0] * (len(loads) + 1)
        self.passed = self.early = self.now = self.bus = 0
        self.under_way = deque([0] * array.loads_in_flight, maxlen=array.loads_in_flight)

    def loads_before(self, idx: int) -> list[Load]:
        """The loads in front of a step, which then takes its time."""
        found: list[Load] = []
        while self.passed < len(self.loads) and self.needed[self.passed] <= idx:
            self.early -= self.placed[self.passed]
            self.passed += 1
        while (chosen := self._choose(idx)) is not None:
            found.append(self._take(chosen))
        step = self.others[idx]
        if isinstance(step, Walk):
            self.now = max(self.now, self.arrivals[max(step.after_load, step.preload_after_load)]) + self.work[idx]
        else:
            self.bus = max(self.bus, self.now) + self.store_beats[idx]
        return found

    def rest(self) -> list[Load]:
        """Loads that nothing needs."""
        return [self._take(chosen) for chosen in sorted(idx for queue in self.queues for idx in queue)]

    def _choose(self, idx: int) -> int | None:
        pads, slots = self.queues
        if not pads and not slots:
            return None
        first, second = (pads or slots)[0], (slots or pads)[0]
        if first > second:
            first, second = second, first
        if first < self.passed:
            return first
        if self.early >= self.ahead * (IDLE_FACTOR if self._is_idle() else 1):
            return None
        if self.ready[first] <= idx:
            return first
        return second if self.ready[second] <= idx and self._is_in_time(first, second, idx) else None

    def _is_idle(self) -> bool:
        """Whether a load would begin at once and find the bus free once main memory's latency has passed."""
        return self.under_way[0] <= self.now and self.bus <= self.now + self.array.latency_cycles

    def _is_in_time(self, first: int, second: int, idx: int) -> bool:
        """Whether what waits for the first load is not held up when the second one passes it."""
        least = self.work_before[self.needed[first]] - self.work_before[idx]
        later = max(self.bus, self.now) + self.load_beats[second] + self.load_beats[first] + self.array.latency_cycles
        return later <= self.now + least

    def _take(self, chosen: int) -> Load:
        load = self.loads[chosen]
        self.queues[_is_for_slots(load)].popleft()
        self.placed[chosen] = True
        self.early += chosen >= self.passed
        begin = max(self.now, self.under_way[0])
        self.bus = max(self.bus, begin + self.array.latency_cycles) + self.load_beats[chosen]
        self.under_way.append(self.bus)
        self.arrivals[chosen + 1] = self.bus
        return load


def _is_for_slots(load: Load) -> bool:
    return load.operands.get("space", 0) > 0


def _costs(loads: Sequence[Load], others: Sequence[Step], array: PeArray) -> tuple[list[int], list[int], list[int]]:
    """Cycles of loads on the bus, of other steps that are walks in the array, and of those that are stores on the bus."""
    beat, least = array.cycles_per_beat, array.rows + 1
    load_beats = [load.operands["rows"] * load.operands["row_beats"] * beat for load in loads]
    work, store_beats = [0] * len(others), [0] * len(others)
    for idx, step in enumerate(others):
        vectors = step.operands["x_count"] * step.operands["y_count"]
        if isinstance(step, Walk):
            work[idx] = vectors if step.preload is None else max(vectors, least)
            if step.operands.get("operand", 0) == 2:  # a vector of its own for each
                work[idx] = 2 * vectors
        elif not step.operands["space"]:
            bits = step.operands["columns"] * (8, 4, 32)[step.operands["format"]]
            store_beats[idx] = vectors * ceil_div(ceil_div(bits, 8), array.bus_bytes) * beat
    return load_beats, work, store_beats


def _renumber(steps: Sequence[Step], loads: Sequence[Load]) -> None:
    """Writes waits for loads by their new numbers: a wait for a load is one for all that stood before it, too.

    In place: a large network has a million steps, which nobody but the caller has seen.
    """
    number = {id(step): num for num, step in enumerate((step for step in steps if isinstance(step, Load)), 1)}
    latest = [0, *accumulate((number[id(load)] for load in loads), max)]
    for step in steps:
        if not isinstance(step, Load):
            step.after_load = latest[step.after_load]
        if isinstance(step, Walk):
            step.preload_after_load = latest[step.preload_after_load]


def _needed(others: Sequence[Step], num_loads: int) -> list[int]:
    """Per load the index among the others of the first one that waits for it, or for a later load."""
    found: list[int] = []
    for idx, step in enumerate(others):
        last = step.after_load if isinstance(step, Walk | Store) else 0
        if isinstance(step, Walk):
            last = max(last, step.preload_after_load)
        found += [idx] * (last - len(found))
    return found + [len(others)] * (num_loads - len(found))


def _ready(loads: Sequence[Load], others: Sequence[Step], needed: Sequence[int]) -> list[int]:
    """Per load the index among the others from which on nothing that it, or one of its kind before it, waits for stands behind it."""
    walks = [idx for idx, step in enumerate(others) if isinstance(step, Walk)]
    stores = [idx for idx, step in enumerate(others) if isinstance(step, Store)]
    knowing, known = _store_knowledge(others)
    found: list[int] = []
    before = [0, 0]
    for load, latest in zip(loads, needed, strict=True):
        walk = walks[load.after_walk - 1] + 1 if load.after_walk else 0
        store = 0
        if load.after_store:
            # A load learns of a store from a walk that waits for it; one that must wait for the load's sake loses time.
            at = bisect_left(known, load.after_store)
            store = knowing[at] + 1 if at < len(known) else latest
            if load.after_store < len(stores):  # once the next one is under way, it has ended soon
                store = min(store, stores[load.after_store] + 2)
            store = min(store, latest)
        kind = _is_for_slots(load)
        before[kind] = max(walk, store, before[kind])
        found.append(before[kind])
    return found


def _store_knowledge(others: Sequence[Step]) -> tuple[list[int], list[int]]:
    """The indices of walks that wait for later stores than all before them, and those stores."""
    knowing: list[int] = []
    known: list[int] = []
    for idx, step in enumerate(others):
        if isinstance(step, Walk):
            store = max(step.after_store, step.preload_after_store)
            if store > (known[-1] if known else 0):
                knowing.append(idx)
                known.append(store)
    return knowing, known
