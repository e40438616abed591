"""Moves loads ahead of what needs them: across tiles and across kernels, as far as their places are free."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...archdsl import PeArray
from ...models import LOAD_STEP, MATMUL_STEP, STORE_STEP, compiled
from .steps import Ints, Steps, Waits

LOADS_AHEAD = 8
"""How many loads may stand in front of what they were placed for, unless the user says otherwise."""
IDLE_FACTOR = 4
"""By how much more may where the bus is idle. Without a limit the bus-bound layers of small arrays lose: walks that could
run stand behind loads in the one stream of instructions."""
PADS, SLOTS = range(2)
"""Kinds of loads: to the scratchpad, and to slots."""


def with_loads_ahead(steps: Steps, ahead: int, array: PeArray) -> Steps:
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
    is_load = steps.kind == LOAD_STEP
    loads, others = np.flatnonzero(is_load), np.flatnonzero(~is_load)
    is_for_slots = (steps.fact("space")[loads] > 0).astype(np.int64)
    needed = _needed(steps.waits, others, len(loads))
    work, store_beats = _costs(steps, others, array)
    chooser = _Loads(
        needed=needed,
        ready=_ready(steps, loads, others, needed, is_for_slots),
        kind=is_for_slots,
        beats=(steps.fact("vectors") * steps.fact("beats"))[loads] * array.cycles_per_beat,
        is_placed=np.zeros(len(loads), dtype=np.int64),
        arrivals=np.zeros(len(loads) + 1, dtype=np.int64),
        under_way=np.zeros(array.loads_in_flight, dtype=np.int64),
    )
    waited = np.maximum(steps.waits.after_load, steps.waits.preload_after_load)[others]
    walks = _Others(
        is_store=(steps.kind[others] == STORE_STEP).astype(np.int64), waited=waited, work=work, store_beats=store_beats,
        work_before=np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(work))),
    )  # fmt: skip
    order = np.empty(len(steps), dtype=np.int64)
    _place(chooser, walks, ahead, array.latency_cycles, loads, others, order)
    return _renumbered(steps, order, loads)


class _Loads(NamedTuple):
    """Loads in their old order, [loads].

    Attributes:
        needed: Index among the others of the first one that waits for it, or for a later load.
        ready: That from which on nothing that it, or one of its kind before it, waits for stands behind it.
        kind: To the scratchpad or to slots.
        beats: Cycles on the bus.
        is_placed: Whether it has been chosen.
        arrivals: [loads + 1] when its data are there, by number from 1 on.
        under_way: [loads that main memory serves at a time] when the last ones end, round and round.
    """

    needed: Ints
    ready: Ints
    kind: Ints
    beats: Ints
    is_placed: Ints
    arrivals: Ints
    under_way: Ints


class _Others(NamedTuple):
    """All other steps in their order, [others].

    Attributes:
        is_store: Whether it is a store.
        waited: The number of the last load that it waits for.
        work: Cycles of a walk in the array.
        store_beats: Cycles of a store on the bus.
        work_before: [others + 1] sums of the work before each.
    """

    is_store: Ints
    waited: Ints
    work: Ints
    store_beats: Ints
    work_before: Ints


@compiled
def _place(
    loads: _Loads, others: _Others, ahead: int, latency: int, load_steps: Ints, other_steps: Ints, order: Ints
) -> None:
    """Writes the order.

    `passed` loads are needed by now, in their old order, and `early` ones chosen that are not needed yet; `now` and `bus` say
    when the next walk begins and the bus is free, if nothing holds them up.
    """
    num_loads, depth, placed = len(load_steps), len(loads.under_way), 0
    heads = np.array([_next(loads.kind, 0, PADS), _next(loads.kind, 0, SLOTS)])
    passed, early, now, bus, num_taken = 0, 0, 0, 0, 0
    for idx in range(len(other_steps) + 1):
        is_rest = idx == len(other_steps)  # loads that nothing needs come last
        while passed < num_loads and loads.needed[passed] <= idx:
            early -= loads.is_placed[passed]
            passed += 1
        while True:
            first, second = min(heads[PADS], heads[SLOTS]), max(heads[PADS], heads[SLOTS])
            if first == num_loads:
                break
            if second == num_loads:
                second = first
            chosen = first
            if first >= passed and not is_rest:
                # Whether a load would begin at once and find the bus free once main memory's latency has passed.
                is_idle = loads.under_way[num_taken % depth] <= now and bus <= now + latency
                if early >= ahead * (IDLE_FACTOR if is_idle else 1):
                    break
                if loads.ready[first] > idx:
                    # Whether what waits for the first load is not held up when the second one passes it.
                    least = others.work_before[loads.needed[first]] - others.work_before[idx]
                    later = max(bus, now) + loads.beats[second] + loads.beats[first] + latency
                    if loads.ready[second] > idx or later > now + least:
                        break
                    chosen = second
            kind = int(loads.kind[chosen])
            heads[kind] = _next(loads.kind, chosen + 1, kind)
            loads.is_placed[chosen] = 1
            early += chosen >= passed
            bus = max(bus, max(now, loads.under_way[num_taken % depth]) + latency) + loads.beats[chosen]
            loads.under_way[num_taken % depth] = bus
            num_taken += 1
            loads.arrivals[chosen + 1] = bus
            order[placed] = load_steps[chosen]
            placed += 1
        if is_rest:
            return
        if others.is_store[idx]:
            bus = max(bus, now) + others.store_beats[idx]
        else:
            now = max(now, loads.arrivals[others.waited[idx]]) + others.work[idx]
        order[placed] = other_steps[idx]
        placed += 1


@compiled
def _next(kinds: Ints, begin: int, kind: int) -> int:
    """The first load of a kind from an index on; their number for none."""
    at = begin
    while at < len(kinds) and kinds[at] != kind:
        at += 1
    return at


def _costs(steps: Steps, others: Ints, array: PeArray) -> tuple[Ints, Ints]:
    """Of steps that are no loads: cycles of walks in the array, and of stores on the bus."""
    kind, vectors = steps.kind[others], steps.fact("vectors")[others]
    each = 1 + steps.fact("is_sequence")[others]
    work = np.where(kind == MATMUL_STEP, np.maximum(vectors, array.rows + 1), vectors * each)
    is_store = kind == STORE_STEP
    beats = vectors * steps.fact("beats")[others] * array.cycles_per_beat
    return np.where(is_store, 0, work), np.where(is_store, beats, 0)


def _renumbered(steps: Steps, order: Ints, loads: Ints) -> Steps:
    """Steps in another order, and waits for loads by their new numbers: one for a load is one for all that stood before it, too."""
    new_of_step = np.cumsum(steps.kind[order] == LOAD_STEP)
    number = np.empty(len(steps), dtype=np.int64)
    number[order] = new_of_step
    latest = np.concatenate((np.zeros(1, dtype=np.int64), np.maximum.accumulate(number[loads])))
    waits = steps.waits._replace(
        after_load=latest[steps.waits.after_load], preload_after_load=latest[steps.waits.preload_after_load]
    )
    return Steps(
        forms=steps.forms, form=steps.form[order], kernel=steps.kernel[order], numbers=steps.numbers[order],
        waits=Waits(*(column[order] for column in waits)),
    )  # fmt: skip


def _needed(waits: Waits, others: Ints, num_loads: int) -> Ints:
    """Per load the index among the others of the first one that waits for it, or for a later load."""
    last = np.maximum.accumulate(np.maximum(waits.after_load, waits.preload_after_load)[others])
    return np.searchsorted(last, np.arange(1, num_loads + 1), side="left").astype(np.int64)


def _ready(steps: Steps, loads: Ints, others: Ints, needed: Ints, is_for_slots: Ints) -> Ints:
    """Per load the index among the others from which on nothing that it, or one of its kind before it, waits for stands behind it."""
    kind = steps.kind[others]
    walks, stores = np.flatnonzero(kind != STORE_STEP), np.flatnonzero(kind == STORE_STEP)
    after_walk, after_store = steps.waits.after_walk[loads], steps.waits.after_store[loads]
    walk = np.concatenate((np.zeros(1, dtype=np.int64), walks + 1))[after_walk]
    # A load learns of a store from a walk that waits for it; one that must wait for the load's sake loses time.
    knowing, known = _store_knowledge(steps.waits, others, walks)
    behind = np.concatenate((knowing + 1, [len(others) + 1]))[np.searchsorted(known, after_store, side="left")]
    store = np.minimum(behind, needed)
    # Once the next one is under way, it has ended soon.
    next_store = np.concatenate((stores + 2, [len(others) + 2]))[np.minimum(after_store, len(stores))]
    store = np.where(after_store > 0, np.minimum(store, next_store), 0)
    found = np.maximum(walk, store)
    for each in (PADS, SLOTS):
        found[is_for_slots == each] = np.maximum.accumulate(found[is_for_slots == each])
    return found


def _store_knowledge(waits: Waits, others: Ints, walks: Ints) -> tuple[Ints, Ints]:
    """The indices of walks that wait for later stores than all before them, and those stores."""
    store = np.maximum(waits.after_store, waits.preload_after_store)[others[walks]]
    before = np.concatenate((np.zeros(1, dtype=np.int64), np.maximum.accumulate(store)))[: len(store)]
    is_new = store > before
    return walks[is_new], store[is_new]
