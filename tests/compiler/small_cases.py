"""Small random mapping problems with real capacities, for comparisons of the mapper with the enumerator."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import get_args

from tileloom.archdsl import Memory, Op, SpatialArch
from tileloom.models import OpEstimate

from ..random_cases import random_arch, random_op
from .enumerator import Enumerator, Objective, TooManyMappingsError

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
    for idx, node in enumerate(hierarchy):
        if isinstance(node, Memory) and idx > 0 and rng.random() < 0.15:
            hierarchy[idx] = node.model_copy(update={"must_keep": (rng.choice(node.keeps),)})
    return Problem(op=op, arch=arch.model_copy(update={"hierarchy": tuple(hierarchy)}), convention=convention)


@lru_cache
def small_seeds(num: int, most: int, least: int = 10) -> tuple[int, ...]:
    """The first seeds whose problems have at least `least` and at most `most` mappings, or none at all."""
    found: list[int] = []
    seed = 0
    while len(found) < num:
        problem = random_problem(Random(seed))
        walker = Enumerator(op=problem.op, arch=problem.arch, orders_matter=problem.convention == "zigzag", most=most)
        try:
            num_mappings = sum(1 for _ in walker.walk())
        except TooManyMappingsError:
            num_mappings = -1
        if num_mappings == 0 or num_mappings >= least:
            found.append(seed)
        seed += 1
    return tuple(found)


def value_of(estimate: OpEstimate, objective: Objective) -> float:
    """The objective's value of an estimate."""
    match objective:
        case "energy":
            return estimate.energy_pj
        case "latency":
            return estimate.latency_cycles
        case "edp":
            return estimate.energy_pj * estimate.latency_cycles
        case "main_memory_bytes":
            return estimate.main_memory_bytes
