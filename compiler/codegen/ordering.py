"""Moves loads ahead of what needs them: across tiles and across kernels, as far as their places are free."""

from __future__ import annotations

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
    loads: list[Load] = []
    needed: list[int] = []  # per load the index among the others in front of which it stood
    num_others = 0
    for step in steps:
        if isinstance(step, Load):
            loads.append(step)
            needed.append(num_others)
        else:
            num_others += 1
    ready = _ready(loads, others)
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


def _ready(loads: Sequence[Load], others: Sequence[Step]) -> list[int]:
    """Per load the index among the others from which on nothing that it waits for stands behind it."""
    walks = [idx for idx, step in enumerate(others) if isinstance(step, Walk)]
    stores = [idx for idx, step in enumerate(others) if isinstance(step, Store)]
    found: list[int] = []
    for load in loads:
        walk = walks[load.after_walk - 1] + 1 if load.after_walk else 0
        # A load learns of a store through the execute queue: from a walk that waits for it.
        store = stores[load.after_store - 1] + 2 if load.after_store else 0
        found.append(max(walk, store, found[-1] if found else 0))
    return found
