"""Why no mapping fits, and what would make one fit."""

from __future__ import annotations

import numpy as np

from ...archdsl import CompileError, Infeasible
from .objective import Scorer
from .tables import Tables


def explain_infeasible(tables: Tables, scorer: Scorer, op: str, *, is_complete: bool) -> Infeasible:
    """Names the resource that is short.

    Args:
        tables: The problem's tables.
        scorer: The architecture's prices.
        op: Name of the op.
        is_complete: Whether the search covered its whole space.

    Raises:
        CompileError: The search ended before it found a mapping, so that none can be said not to exist.
    """
    problem = tables.problem
    capacities = scorer.prices.capacity_bytes[:, 0]
    for idx, level in enumerate(problem.hierarchy.levels):
        held = [
            info
            for info in problem.tensors
            if idx > 0 and tables.patterns and all(idx in pattern.levels[info.idx] for pattern in tables.patterns)
        ]
        terms = tuple((info.tensor.name, int(np.ceil(info.element_bytes))) for info in held)
        demand = sum(amount for _, amount in terms)
        if demand > capacities[idx]:
            names = ", ".join(name for name, _ in terms)
            return Infeasible(
                resource=f"{level.name} capacity for one element of each tensor that must be kept there ({names})",
                demand=demand,
                limit=int(capacities[idx]),
                unit="bytes",
                terms=terms,
                levers=(
                    f"give {level.name} a capacity of {demand} bytes (twice that if it is double-buffered)",
                    f"let one of {names} bypass {level.name}",
                    "use a narrower datatype",
                ),
                op=op,
            )
    floor = problem.constraints.min_utilization
    num_units = int(np.prod([axis.size for axis in problem.hierarchy.axes]))
    most = int(max(tables.num_used[row] for row in range(tables.spread.num) if tables.spread.packing(row) is not None))
    wanted = int(np.ceil(floor * num_units))
    if wanted > most:
        return Infeasible(
            resource="compute units with work",
            demand=wanted,
            limit=most,
            unit="units",
            levers=(
                f"lower the utilization floor to {most / num_units:.3f}",
                "let more dims be spread over the axes (`carries`, or the spatial constraint)",
            ),
            op=op,
        )
    if not tables.patterns:
        return Infeasible(
            resource="placements that the constraints leave",
            demand=1,
            limit=0,
            unit="placements",
            levers=("drop one of the keep, bypass and dataflow constraints, or a must_keep of the architecture",),
            op=op,
        )
    if not is_complete:
        raise CompileError(f"{op}: the search ended before it found a mapping; raise the budget or the time limit")
    return Infeasible(
        resource="tiles that fit together",
        demand=1,
        limit=0,
        unit="mappings",
        levers=(
            "give the memories more capacity; the levels above list what must be kept",
            "relax the constraints on spatial loops and tiles",
        ),
        op=op,
    )
