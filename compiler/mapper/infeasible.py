"""Why no mapping fits, and what would make one fit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...archdsl import CompileError, Infeasible, Memory
from .problem import Problem
from .tables import Tables
from .traffic import footprint


def explain_infeasible(tables: Tables, memories: Sequence[Memory], op: str, *, is_complete: bool) -> Infeasible:
    """Names the resource that is short.

    Args:
        tables: The problem's tables.
        memories: The architecture's memories, outermost first.
        op: Name of the op.
        is_complete: Whether the search covered its whole space.

    Raises:
        CompileError: The search ended before it found a mapping, so that none can be said not to exist.
    """
    if not tables.patterns:
        return Infeasible(
            resource="placements that the constraints leave",
            demand=1,
            limit=0,
            unit="placements",
            levers=("drop one of the keep, bypass and dataflow constraints, or a must_keep of the architecture",),
            op=op,
        )
    found = _short_capacity(tables, memories, op) or _idle_units(tables, op)
    if found is not None:
        return found
    if not is_complete:
        raise CompileError(f"{op}: the search ended before it found a mapping; raise the budget or the time limit")
    return Infeasible(
        resource="tiles that nest, fit together and respect the constraints",
        demand=1,
        limit=0,
        unit="mappings",
        levers=_levers(tables.problem),
        op=op,
    )


def _short_capacity(tables: Tables, memories: Sequence[Memory], op: str) -> Infeasible | None:
    """The first memory that cannot hold the least tiles of what every placement keeps there."""
    problem = tables.problem
    for idx, memory in enumerate(memories):
        if idx == 0 or memory.capacity_bytes is None:
            continue
        copies = 2 if memory.double_buffered else 1
        fixed = [float(problem.fixed_tiles.get((idx, dim), 1)) for dim in range(len(problem.sizes))]
        terms = tuple(
            (info.tensor.name, copies * int(np.ceil(footprint(info, fixed, problem.least_width(info, idx)))))
            for info in problem.tensors
            if all(idx in pattern.levels[info.idx] for pattern in tables.patterns)
        )
        demand = sum(amount for _, amount in terms)
        if demand <= memory.capacity_bytes:
            continue
        names = [name for name, _ in terms]
        what = "the tile that the constraints fix" if max(fixed) > 1 else "one element"
        twice = ", twice since it is double-buffered" if copies == 2 else ""
        who = names[0] if len(names) == 1 else f"one of {', '.join(names)}"
        return Infeasible(
            resource=f"{memory.name} capacity for {what} of each tensor that must be kept there{twice}",
            demand=demand,
            limit=memory.capacity_bytes,
            unit="bytes",
            terms=terms,
            levers=(
                f"give {memory.name} a capacity of {demand} B",
                f"let {who} bypass {memory.name}",
                "fix smaller tiles" if max(fixed) > 1 else "use a narrower datatype",
            ),
            op=op,
        )
    return None


def _idle_units(tables: Tables, op: str) -> Infeasible | None:
    """The utilization floor, where no spread of the dims over the axes reaches it."""
    problem = tables.problem
    num_units = int(np.prod([axis.size for axis in problem.hierarchy.axes]))
    wanted = int(np.ceil(problem.constraints.min_utilization * num_units))
    if wanted <= 1:
        return None
    most = int(tables.num_used.max())
    if wanted <= most:
        return None
    return Infeasible(
        resource="compute units with work",
        demand=wanted,
        limit=most,
        unit="units",
        levers=(
            f"lower the utilization floor to {most / num_units:.3g}",
            "let more dims be spread over the axes (`carries`, or the spatial constraint)",
        ),
        op=op,
    )


def _levers(problem: Problem) -> tuple[str, ...]:
    """What would help where every single memory is large enough: the constraints that rule mappings out."""
    fixed = problem.constraints
    levers: list[str] = []
    if fixed.tiles:
        levers.append("fix tiles that divide the next outer ones, or fewer of them")
    if fixed.min_utilization > 0:
        levers.append(f"lower the utilization floor of {fixed.min_utilization:g}")
    levers.append("give the memories more capacity")
    return tuple(levers)
