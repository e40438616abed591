"""The enumerator that the mapper is held against is itself checked."""

from __future__ import annotations

import math
from random import Random

from tileloom.archdsl import Mapping, Temporal, check_mapping, load_arch
from tileloom.models import estimate_op

from ..random_cases import arch_of, conv, gemm, random_mapping
from .enumerator import Enumerator, find_optima
from .random_legal import random_legal_mapping
from .small_cases import OBJECTIVES, Problem, random_problem, small_seeds, value_of


def small_problems(num: int, most: int) -> list[Problem]:
    """The first problems, by seed, whose spaces have at most `most` mappings."""
    return [random_problem(Random(seed)) for seed in small_seeds(num, most)]


def test_two_loops_in_two_levels_give_the_space_written_out_by_hand() -> None:
    level: dict[str, object] = {
        "kind": "memory",
        "memory_class": "scratchpad",
        "source": "assumption: test",
        "capacity_bytes": None,
    }
    level |= {"read_bandwidth": "unbounded", "write_bandwidth": "unbounded"}
    arch = arch_of([{**level, "name": "L0"}, {**level, "name": "L1", "keeps": ["weight"]}])
    op = gemm(2, 2, 1)
    walker = Enumerator(op=op, arch=arch)
    found = sorted(str(walker.mapping(steps)) for steps in walker.walk())
    # W[K,N] is bypassed, or kept at the top, or below N; M stands above, between or below.
    assert found == [
        "L0[A,W,Z] L1[W] M/1 N/1",
        "L0[A,W,Z] M/1 N/1",
        "L0[A,W,Z] M/1 N/1 L1[W]",
        "L0[A,W,Z] N/1 L1[W] M/1",
    ]


def test_all_mappings_are_legal_and_different() -> None:
    for problem in small_problems(12, most=800):
        walker = Enumerator(op=problem.op, arch=problem.arch, orders_matter=True)
        seen: set[Mapping] = set()
        for steps in walker.walk():
            mapping = walker.mapping(steps)
            assert check_mapping(mapping, problem.op, problem.arch) == ()
            seen.add(mapping)
        assert len(seen) == walker.num_found


def test_optimum_has_the_value_that_the_estimate_gives() -> None:
    for problem in small_problems(12, most=800):
        for objective, best in find_optima(problem.op, problem.arch, problem.convention).items():
            estimate = estimate_op(problem.op, best.mapping, problem.arch, convention=problem.convention)
            assert math.isclose(value_of(estimate, objective), best.value, rel_tol=1e-12)


def test_no_random_mapping_of_the_space_beats_the_optimum() -> None:
    num_tried = 0
    for problem in small_problems(12, most=800):
        optima = find_optima(problem.op, problem.arch, problem.convention, is_nested=False)
        rng = Random(1)
        for _ in range(100):
            mapping = random_mapping(rng, problem.op, problem.arch, is_ragged_inside=False)
            if check_mapping(mapping, problem.op, problem.arch):
                continue
            num_tried += 1
            estimate = estimate_op(problem.op, mapping, problem.arch, convention=problem.convention)
            for objective in OBJECTIVES:
                assert value_of(estimate, objective) >= optima[objective].value * (1 - 1e-12), mapping
    assert num_tried > 300


def test_random_legal_mappings_of_large_ops_are_legal() -> None:
    arch = load_arch("ref16")
    assert arch.kind == "spatial"
    ops = [gemm(512, 384, 100), conv({"K": 64, "C": 48, "OY": 28, "OX": 28, "FY": 3, "FX": 3}, stride=(2, 2))]
    for op in ops:
        for seed in range(100):
            mapping = random_legal_mapping(Random(seed), op, arch)
            assert check_mapping(mapping, op, arch) == ()
            assert any(isinstance(node, Temporal) for node in mapping.nodes)
