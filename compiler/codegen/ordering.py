"""Moves loads ahead of what needs them: across tiles and across kernels, as far as their places are free."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from .steps import Load, Step, Store, Walk


def with_loads_ahead(steps: Sequence[Step], ahead: int) -> list[Step]:
    """The same steps with loads earlier; loads keep their order, and so do all other steps.

    Args:
        steps: In the order of their effects.
        ahead: How many loads may stand in front of what they were placed for. The load queue holds what has not begun: were
            there more, dispatch would wait for them, and with it what could run already.
    """
    others = [step for step in steps if not isinstance(step, Load)]
    loads = [step for step in steps if isinstance(step, Load)]
    needed = _needed(others, len(loads))
    ready = _ready(loads, others, needed)
    found: list[Step] = []
    placed = passed = 0
    for idx, step in enumerate(others):
        while passed < len(loads) and needed[passed] <= idx:
            passed += 1
        while placed < len(loads) and (placed < passed or (placed - passed < ahead and ready[placed] <= idx)):
            found.append(loads[placed])
            placed += 1
        found.append(step)
    return found + loads[placed:]


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
    """Per load the index among the others from which on nothing that it waits for stands behind it."""
    walks = [idx for idx, step in enumerate(others) if isinstance(step, Walk)]
    stores = [idx for idx, step in enumerate(others) if isinstance(step, Store)]
    knowing, known = _store_knowledge(others)
    found: list[int] = []
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
        found.append(max(walk, store, found[-1] if found else 0))
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
