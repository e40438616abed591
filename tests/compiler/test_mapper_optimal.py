"""The mapper against every mapping there is, on small problems, and against random legal mappings on large ones."""

from __future__ import annotations

import math
from functools import lru_cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.archdsl import Infeasible, Op, SpatialArch, load_arch
from tileloom.compiler import MappingResult, map_op
from tileloom.models import estimate_op

from ..random_cases import conv, gemm, transposed_conv
from .enumerator import Objective, find_optima
from .random_legal import random_legal_mapping
from .small_cases import OBJECTIVES, random_problem, small_seeds, value_of

NUM_PROBLEMS = 100
MOST_MAPPINGS = 1200
"""Problems with more mappings take too long to enumerate here; 60,000 were enumerated when this was written."""
NUM_RANDOM = 40


@pytest.mark.parametrize("part", range(10))
def test_mapper_finds_the_optimum_of_every_small_problem(part: int) -> None:
    for seed in small_seeds(NUM_PROBLEMS, MOST_MAPPINGS)[part::10]:
        problem = random_problem(Random(seed))
        optima = find_optima(problem.op, problem.arch, problem.convention)
        for objective in OBJECTIVES:
            found = map_op(problem.op, problem.arch, objective, convention=problem.convention)
            if not optima:
                assert isinstance(found, Infeasible), f"seed {seed}: nothing fits, and the mapper found {found}"
                continue
            best = optima[objective]
            where = f"seed {seed}, {objective}, {problem.convention}: enumerator {best.value} by {best.mapping}"
            assert isinstance(found, MappingResult), f"{where}: mapper says {found}"
            value = value_of(found.estimate, objective)
            assert math.isclose(value, best.value, rel_tol=1e-9), f"{where}, mapper {value} by {found.mapping}"
            assert found.proved_optimal, f"{where}: found, and not proved"


LARGE_OPS = {
    "gemm": gemm(512, 384, 100),
    "tall gemm": gemm(1000, 7, 64),
    "batched gemm": gemm(64, 64, 32, b=12),
    "conv": conv({"K": 64, "C": 48, "OY": 28, "OX": 28, "FY": 3, "FX": 3}),
    "strided conv": conv({"K": 64, "C": 3, "OY": 56, "OX": 56, "FY": 7, "FX": 7}, stride=(2, 2)),
    "dilated conv": conv({"K": 32, "C": 32, "OY": 15, "OX": 15, "FY": 3, "FX": 3}, dilation=(2, 2)),
    "depthwise conv": conv({"G": 96, "OY": 14, "OX": 14, "FY": 3, "FX": 3}),
    "transposed conv": transposed_conv({"K": 32, "C": 64, "IX": 28, "FX": 4}),
}
ARCHS = ("ref16", "small ref16", "wide ref16")


@lru_cache
def ref16(name: str) -> SpatialArch:
    """`ref16` and two relatives: a tight scratchpad with a larger register, and a long thin array."""
    overrides: dict[str, dict[str, object]] = {
        "ref16": {},
        "small ref16": {"hierarchy.scratchpad.capacity": "4 KiB", "hierarchy.register.capacity": "16 B"},
        "wide ref16": {"hierarchy.pe_array.axes.rows.size": 3, "hierarchy.pe_array.axes.cols.size": 40},
    }
    arch = load_arch("ref16", overrides[name])
    assert isinstance(arch, SpatialArch)
    return arch


@lru_cache
def mapped(op_name: str, arch_name: str, objective: Objective) -> MappingResult:
    """What the mapper found, once per problem."""
    found = map_op(LARGE_OPS[op_name], ref16(arch_name), objective)
    assert isinstance(found, MappingResult)
    return found


def beats_mapper(op: Op, arch: SpatialArch, seed: int, found: dict[Objective, MappingResult]) -> list[str]:
    """Objectives under which one random legal mapping is better than what the mapper found."""
    mapping = random_legal_mapping(Random(seed), op, arch)
    estimate = estimate_op(op, mapping, arch)
    return [
        f"{objective}: {value_of(estimate, objective)} by {mapping}, mapper {value_of(result.estimate, objective)}"
        for objective, result in found.items()
        if value_of(estimate, objective) < value_of(result.estimate, objective) * (1 - 1e-9)
    ]


@settings(max_examples=NUM_RANDOM, deadline=None)
@given(op_name=st.sampled_from(sorted(LARGE_OPS)), arch_name=st.sampled_from(ARCHS), seed=st.integers(0, 10**6))
def test_mapper_is_never_worse_than_random_legal_mappings(op_name: str, arch_name: str, seed: int) -> None:
    found: dict[Objective, MappingResult] = {
        objective: mapped(op_name, arch_name, objective) for objective in OBJECTIVES
    }
    for variant in range(25):
        better = beats_mapper(LARGE_OPS[op_name], ref16(arch_name), seed + variant, found)
        assert not better, better
