"""What a search takes and gives: candidates in the search's terms, budgets and outcomes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from .inner import Pattern
from .placement import Chain


@dataclass(frozen=True, slots=True)
class Choice:
    """One tiling of a segment: extents around it and at every holder, per dim, in multiples of what lies below."""

    chain: Chain
    top: tuple[int, ...]
    at: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One complete mapping in the search's terms.

    Attributes:
        pattern: Which levels keep which tensors.
        row: Row of the spread table.
        inner: Tilings of segments 1, 2, ...
        outer: Tiling of the outermost segment, in elements.
        score: The objective's value.
    """

    pattern: Pattern
    row: int
    inner: tuple[Choice, ...]
    outer: Choice
    score: float


@dataclass(slots=True)
class Budget:
    """How much a search may do.

    Attributes:
        tilings: Inner and outer tilings that may still be evaluated.
        deadline: `time.perf_counter()` at which to stop.
    """

    tilings: float = np.inf
    deadline: float = np.inf

    @property
    def is_spent(self) -> bool:
        """Whether the search must end."""
        return self.tilings <= 0 or (self.deadline < np.inf and time.perf_counter() > self.deadline)


@dataclass(slots=True)
class Outcome:
    """What a search found.

    Attributes:
        best: The best candidates, best first; empty when nothing fits.
        bound: No mapping of the space scores below it.
        is_complete: Whether the whole space was covered.
        num_covered: Inner tilings covered, those ruled out by bounds included.
    """

    best: list[Candidate] = field(default_factory=list[Candidate])
    bound: float = np.inf
    is_complete: bool = True
    num_covered: int = 0
