"""Memory planning to the optimum, for small cases: a packing of rectangles whose place in time is given."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ...archdsl import ceil_div

if TYPE_CHECKING:
    from .planning import Lifetime

MOST_ITEMS = 40
"""Beyond these the solver may take seconds."""
MOST_WORK = 10.0
"""The solver's limit, in its own deterministic units of work (about seconds), so that results do not depend on the machine."""


def has_solver() -> bool:
    """Whether OR-Tools is installed."""
    return find_spec("ortools") is not None


def optimal_places(items: Sequence[Lifetime], capacity_bytes: int, unit: int) -> dict[str, int] | None:
    """Places within a capacity, of the least peak; None where there are none, or none were found.

    Args:
        items: What needs room.
        capacity_bytes: The room.
        unit: What places begin at a multiple of.
    """
    if len(items) > MOST_ITEMS or not has_solver():
        return None
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    capacity = capacity_bytes // unit
    sizes = [ceil_div(item.num_bytes, unit) for item in items]
    if any(size > capacity for size in sizes):
        return None
    begins = [model.new_int_var(0, capacity - size, item.name) for size, item in zip(sizes, items, strict=True)]
    spaces = [
        model.new_fixed_size_interval_var(begin, size, item.name)
        for begin, size, item in zip(begins, sizes, items, strict=True)
    ]
    times = [model.new_fixed_size_interval_var(item.first, item.last - item.first + 1, item.name) for item in items]
    model.add_no_overlap_2d(times, spaces)
    peak = model.new_int_var(0, capacity, "peak")
    for begin, size in zip(begins, sizes, strict=True):
        model.add(peak >= begin + size)
    model.minimize(peak)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.max_deterministic_time = MOST_WORK
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return {item.name: solver.value(begin) * unit for item, begin in zip(items, begins, strict=True)}
