"""The mapper against every mapping there is, on small problems, and against random legal mappings on large ones."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tileloom.archdsl import Infeasible, SpatialArch, check_mapping, load_arch
from tileloom.compiler import MappingResult, map_op
from tileloom.models import estimate_op

from ..random_cases import arch_of, conv, gemm, transposed_conv, with_accumulator_bits
from .enumerator import Enumerator, Objective, find_optima
from .random_legal import random_legal_mapping
from .small_cases import OBJECTIVES, Problem, random_problem, value_of

SEEDS = (
    9, 10, 11, 19, 20, 25, 26, 31, 35, 37, 40, 45, 46, 56, 58, 59, 60, 63, 68, 77, 85, 92, 95, 97, 103, 104, 107, 108,
    112, 114, 118, 125, 131, 134, 137, 142, 147, 148, 151, 152, 155, 159, 161, 163, 164, 166, 168, 172, 173, 174, 175,
    180, 185, 193, 200, 204, 208, 210, 215, 216, 218, 220, 221, 226, 228, 233, 234, 240, 244, 246, 247, 248, 252, 257,
    265, 267, 271, 281, 283, 288, 290, 299, 313, 315, 319, 322, 323, 324, 325, 326, 329, 331, 333, 338, 341, 350, 358,
    360, 380, 383,
)  # fmt: skip
"""The first 100 problems with 50 to 1,500 mappings: `small_seeds(100, 1500, 50)`."""
SHORT = {
    (739, 24): "a loop outside the fan-outs that changes nothing but which windows lie side by side",
    (1055, 20): "a ragged loop outside the fan-outs that changes no other tile",
    (659, 20): "an operand latch that outlives a tile between two fan-outs",
    (406, 20): "more places than the fewest for their number of steps",
}
"""Problems (seed, most MACs) with a better mapping outside the space that the mapper searches, and what it is."""


def assert_optimal(seed: int, objectives: tuple[Objective, ...], *, most_macs: int = 24) -> None:
    """The mapper proves the enumerator's optimum of one problem under each objective."""
    assert_best(random_problem(Random(seed), most_macs), objectives, f"seed {seed}")


def assert_best(problem: Problem, objectives: tuple[Objective, ...], name: str) -> None:
    """The same of a given problem."""
    optima = find_optima(problem.op, problem.arch, problem.convention)
    for objective in objectives:
        found = map_op(problem.op, problem.arch, objective, convention=problem.convention)
        if not optima:
            assert isinstance(found, Infeasible), f"{name}: nothing fits, and the mapper found {found}"
            continue
        best = optima[objective]
        where = f"{name}, {objective}, {problem.convention}: enumerator {best.value} by {best.mapping}"
        assert isinstance(found, MappingResult), f"{where}; mapper: {found}"
        value = value_of(found.estimate, objective)
        assert math.isclose(value, best.value, rel_tol=1e-9), f"{where}; mapper: {value} by {found.mapping}"
        assert found.proved_optimal, f"{where}; mapper: found, and not proved"


@pytest.mark.parametrize("part", range(10))
def test_mapper_finds_the_optimum_of_every_small_problem(part: int) -> None:
    for idx in range(part, len(SEEDS), 10):
        # Two objectives each in turn, and all four for the first of every part.
        assert_optimal(SEEDS[idx], OBJECTIVES if idx == part else OBJECTIVES[idx // 10 % 2 :: 2])


@pytest.mark.parametrize("part", range(5))
def test_mapper_finds_the_optimum_where_sums_are_wider_than_outputs(part: int) -> None:
    for idx in range(part, len(SEEDS), 10):
        problem = random_problem(Random(SEEDS[idx]))
        arch = with_accumulator_bits(problem.arch, (20, 32)[idx // 10 % 2])
        problem = replace(problem, arch=arch, convention="tileloom")
        assert_best(problem, OBJECTIVES[idx // 20 % 2 :: 2], f"seed {SEEDS[idx]}")


@pytest.mark.parametrize("sizes", [{"G": 4, "OX": 3, "FX": 2}, {"G": 2, "C": 2, "OX": 3}, {"G": 3, "C": 4}], ids=str)
def test_mapper_spreads_alone_what_an_axis_carries_only_alone(sizes: dict[str, int]) -> None:
    op, rows, cols = conv(sizes), {"name": "rows", "size": 2, "dim_classes": ["reduction"]}, {"name": "cols", "size": 4}
    memory: dict[str, object] = {
        "kind": "memory",
        "read_bandwidth": "2 B/cycle",
        "write_bandwidth": "2 B/cycle",
        "read_energy_pj_per_byte": 4.0,
    }
    memory |= {"write_energy_pj_per_byte": 4.0, "memory_class": "scratchpad", "source": "assumption: test"}

    def with_columns(**fields: object) -> SpatialArch:
        axes = [rows, {**cols, "dim_classes": ["output_channel", "group"], **fields}]
        main = {**memory, "name": "main_memory", "memory_class": "main_memory", "capacity_bytes": None}
        inner = {**memory, "name": "scratchpad", "capacity_bytes": 16, "read_energy_pj_per_byte": 1.0, "area_mm2": 0.01}
        return arch_of([main, inner, {"kind": "fanout", "name": "lanes", "axes": axes}])

    lanes, freely = with_columns(alone_classes=["group"]), with_columns()
    walker = Enumerator(op=op, arch=freely)
    legal = [mapping for mapping in map(walker.mapping, walker.walk()) if not check_mapping(mapping, op, lanes)]
    assert len(legal) < walker.num_found
    estimates = (estimate_op(op, mapping, lanes) for mapping in legal)
    values = [tuple(value_of(estimate, objective) for objective in OBJECTIVES) for estimate in estimates]
    for objective, best in zip(OBJECTIVES, map(min, zip(*values, strict=True)), strict=True):
        found = map_op(op, lanes, objective)
        assert isinstance(found, MappingResult)
        assert found.proved_optimal, objective
        assert math.isclose(value_of(found.estimate, objective), best, rel_tol=1e-9), objective


@pytest.mark.parametrize(
    ("seed", "most_macs"),
    [pytest.param(*problem, marks=pytest.mark.xfail(reason=reason, strict=True)) for problem, reason in SHORT.items()],
)
def test_mappings_outside_the_searched_space(seed: int, most_macs: int) -> None:
    assert_optimal(seed, OBJECTIVES, most_macs=most_macs)


def test_nothing_is_proved_by_a_bound_that_a_mapping_undercuts() -> None:
    # A latched weight outlives the loops between two fan-outs here, and is read less often than the search counts.
    problem = random_problem(Random(6008), 120)
    found = map_op(problem.op, problem.arch, "energy", convention=problem.convention)
    assert isinstance(found, MappingResult)
    assert not found.proved_optimal
    assert found.gap > 0


LARGE_OPS = {
    "gemm": gemm(512, 384, 100),
    "tall gemm": gemm(1000, 7, 64),
    "batched gemm": gemm(64, 64, 32, b=12),
    "conv": conv({"K": 32, "C": 16, "OY": 14, "OX": 14, "FY": 3, "FX": 3}),
    "strided conv": conv({"K": 32, "C": 3, "OY": 28, "OX": 28, "FY": 7, "FX": 7}, stride=(2, 2)),
    "dilated conv": conv({"K": 16, "C": 32, "OY": 15, "OX": 15, "FY": 3, "FX": 3}, dilation=(2, 2)),
    "depthwise conv": conv({"G": 96, "OY": 14, "OX": 14, "FY": 3, "FX": 3}),
    "transposed conv": transposed_conv({"K": 32, "C": 64, "IX": 28, "FX": 4}),
}
ARCHS: dict[str, dict[str, object]] = {
    "ref16": {},
    "small ref16": {
        "hierarchy.scratchpad.capacity": "32 KiB",
        "hierarchy.pe_array.axes.rows.size": 8,
        "hierarchy.pe_array.axes.cols.multicast": False,
    },
    "thin ref16": {"hierarchy.pe_array.axes.rows.size": 3, "hierarchy.pe_array.axes.cols.size": 40},
}
NUM_PROBLEMS = 14
NUM_RANDOM = 50


@lru_cache
def mapped(op_name: str, arch_name: str, objective: Objective) -> tuple[SpatialArch, MappingResult]:
    """A variant of `ref16` and what the mapper found on it, once per problem."""
    arch = load_arch("ref16", ARCHS[arch_name])
    assert isinstance(arch, SpatialArch)
    found = map_op(LARGE_OPS[op_name], arch, objective)
    assert isinstance(found, MappingResult)
    return arch, found


@settings(max_examples=NUM_PROBLEMS, deadline=None)
@given(
    op_name=st.sampled_from(sorted(LARGE_OPS)),
    arch_name=st.sampled_from(sorted(ARCHS)),
    objective=st.sampled_from(OBJECTIVES),
    seed=st.integers(0, 10**6),
)
def test_mapper_is_never_worse_than_random_legal_mappings(
    op_name: str, arch_name: str, objective: Objective, seed: int
) -> None:
    op = LARGE_OPS[op_name]
    arch, found = mapped(op_name, arch_name, objective)
    limit = value_of(found.estimate, objective) * (1 - 1e-9)
    for variant in range(NUM_RANDOM):
        mapping = random_legal_mapping(Random(seed + variant), op, arch)
        value = value_of(estimate_op(op, mapping, arch), objective)
        assert value >= limit, f"{value} by {mapping}; mapper: {limit} by {found.mapping}"
