"""Estimates as trees of named parts: every total is the sum or the maximum of what lies below it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["cycles", "pJ", "mm^2", "s", "bytes", "W"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One named amount.

    Attributes:
        name: What it is, e.g. `scratchpad` or `read W`.
        amount: How much, in `unit`.
        unit: Unit of the amount.
        rule: How `amount` follows from `parts`; a leaf has none.
        parts: What it is made of.
    """

    name: str
    amount: float
    unit: Unit
    rule: Literal["leaf", "sum", "max"] = "leaf"
    parts: tuple[Part, ...] = ()

    def walk(self) -> Iterator[Part]:
        """This part and all below it."""
        yield self
        for part in self.parts:
            yield from part.walk()

    @property
    def largest(self) -> Part:
        """The direct part with the largest amount, the first of equals; itself when it is a leaf."""
        return max(self.parts, key=lambda part: part.amount, default=self)


def sum_of(name: str, unit: Unit, parts: Sequence[Part]) -> Part:
    """A part that is the sum of others, correctly rounded so that the order does not matter."""
    return Part(name=name, amount=math.fsum(p.amount for p in parts), unit=unit, rule="sum", parts=tuple(parts))


def max_of(name: str, unit: Unit, parts: Sequence[Part]) -> Part:
    """A part that is the largest of others."""
    amount = max((p.amount for p in parts), default=0.0)
    return Part(name=name, amount=amount, unit=unit, rule="max", parts=tuple(parts))
