"""Small random mapping problems with real capacities, for comparisons of the mapper with the enumerator."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import get_args

from tileloom.archdsl import Memory, Op, SpatialArch

from ..random_cases import random_arch, random_op
from .enumerator import Objective

OBJECTIVES: tuple[Objective, ...] = get_args(Objective)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mapping problem."""

    op: Op
    arch: SpatialArch
    convention: str


def random_problem(rng: Random, most_macs: int = 24, most_levels: int = 3) -> Problem:
    """A small op on an architecture whose inner memories hold a few to a few dozen bytes."""
    op, arch = random_op(rng, most_macs), random_arch(rng, most_levels)
    hierarchy = [
        node.model_copy(update={"capacity_bytes": rng.choice((2, 4, 8, 16, 32, 64, None))})
        if isinstance(node, Memory) and node is not arch.memories[0]
        else node
        for node in arch.hierarchy
    ]
    convention = rng.choice(("tileloom", "tileloom", "accelforge", "timeloop", "zigzag"))
    return Problem(op=op, arch=arch.model_copy(update={"hierarchy": tuple(hierarchy)}), convention=convention)
