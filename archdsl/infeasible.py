"""'Does not fit' as a typed answer."""

from __future__ import annotations

from dataclasses import dataclass

COUNTED = frozenset(
    {"bytes", "chips", "cycles", "instructions", "mappings", "placements", "registers", "threads", "units"}
)
"""Units that are words for things, of which there may be one; others are symbols."""


def counted(amount: int, unit: str) -> str:
    """An amount with its unit, which is a singular where it is one thing."""
    return f"{amount:,} {unit[:-1] if amount == 1 and unit in COUNTED else unit}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasible:
    """Why nothing fits, and what would make it fit.

    Attributes:
        resource: The resource that is short, e.g. `scratchpad capacity`.
        demand: Least amount needed, in `unit`.
        limit: Amount there, in `unit`.
        unit: Unit of demand and limit, e.g. `bytes`.
        terms: Named parts that add up to the demand, e.g. `(("A", 96), ("W", 32))`.
        levers: What would make it fit, one sentence each.
        op: Name of the op concerned; empty when it is not about one op.
    """

    resource: str
    demand: int
    limit: int
    unit: str
    terms: tuple[tuple[str, int], ...] = ()
    levers: tuple[str, ...] = ()
    op: str = ""

    def __str__(self) -> str:
        where = f"{self.op}: " if self.op else ""
        parts = f" ({' + '.join(f'{name} {amount:,}' for name, amount in self.terms)})" if self.terms else ""
        needed, there = counted(self.demand, self.unit), counted(self.limit, self.unit)
        text = f"{where}{self.resource}: needs {needed}{parts}, has {there}"
        return "\n".join([text, *(f"  would fit: {lever}" for lever in self.levers)])
