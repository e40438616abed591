"""RTL, event replay, functional simulator and NumPy agree: every output byte, every instruction's cycles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from tileloom.compiler import gemm_shape
from tileloom.models import replay, with_issue_cycles
from tileloom.rtl import Job, run_programs

from .cases import SMALL_MEMORIES, array_of, assert_agree, assert_same, large_shape, random_case, random_vector_case
from .programs import RandomProgram

pytestmark = pytest.mark.rtl

Sizes = tuple[int, int, int]
PLAIN: dict[str, object] = {}
TIGHT: dict[str, object] = {
    "hierarchy.scratchpad.banks": 1,
    "hierarchy.scratchpad.ports": {"read_write": 1},
    "hierarchy.accumulator.banks": 1,
    "hierarchy.mac.vector_lanes": 2,
    "control.queue_depth": 3,
    "control.loads_in_flight": 2,
    "control.requests_in_flight": 3,
    "control.rounding": "half_away",
}
"""One bank with one port, few lanes, short queues: everything waits for everything."""
ARRAYS: tuple[tuple[Sizes, Mapping[str, object], int], ...] = (
    ((4, 4, 4), PLAIN, 12),
    ((8, 8, 8), PLAIN, 12),
    ((16, 16, 16), PLAIN, 12),
    ((4, 16, 4), PLAIN, 10),
    ((16, 4, 4), PLAIN, 10),
    ((8, 8, 4), TIGHT, 12),
)
LATER: tuple[tuple[Sizes, Mapping[str, object], int], ...] = (
    ((4, 4, 4), PLAIN, 45), ((8, 8, 8), PLAIN, 45), ((16, 16, 16), PLAIN, 45), ((4, 16, 4), PLAIN, 45),
    ((16, 4, 4), PLAIN, 45), ((32, 32, 32), PLAIN, 30), ((8, 8, 4), TIGHT, 45),
)  # fmt: skip


@pytest.mark.parametrize(("sizes", "overrides", "num"), ARRAYS, ids=str)
def test_random_kernels_agree(sizes: Sizes, overrides: Mapping[str, object], num: int) -> None:
    array = array_of(*sizes, overrides)
    rng = Random(str(sizes))
    assert_agree(array, [random_case(rng, array) for _ in range(num)])


@pytest.mark.parametrize(("sizes", "memories"), [((8, 8, 8), 1), ((4, 16, 4), 0), ((16, 4, 4), 0)], ids=str)
def test_kernels_on_small_memories_agree(sizes: Sizes, memories: int) -> None:
    """Chunks of the channels, tiles of columns, weights that stay."""
    array = array_of(*sizes, SMALL_MEMORIES[memories])
    rng = Random(f"small {sizes}")
    assert_agree(array, [random_case(rng, array, large_shape(rng, 200_000)) for _ in range(6)])


@pytest.mark.slow
@pytest.mark.parametrize("memories", SMALL_MEMORIES, ids=range(len(SMALL_MEMORIES)))
@pytest.mark.parametrize("sizes", [(8, 8, 8), (4, 16, 4), (16, 4, 4)], ids=str)
def test_many_kernels_on_small_memories_agree(sizes: Sizes, memories: Mapping[str, object]) -> None:
    array = array_of(*sizes, memories)
    rng = Random(f"many small {sizes}")
    assert_agree(array, [random_case(rng, array, large_shape(rng, 1_000_000)) for _ in range(20)])


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "overrides", "num"), LATER, ids=str)
def test_many_random_kernels_agree(sizes: Sizes, overrides: Mapping[str, object], num: int) -> None:
    array = array_of(*sizes, overrides)
    rng = Random(f"many {sizes}")
    assert_agree(array, [random_case(rng, array) for _ in range(num)])


@pytest.mark.parametrize("sizes", [(8, 8, 8), (4, 16, 4), (16, 4, 4)], ids=str)
def test_random_vector_kernels_agree(sizes: Sizes) -> None:
    array = array_of(*sizes)
    rng = Random(f"vector {sizes}")
    assert_agree(array, [random_vector_case(rng, array) for _ in range(12)])


@pytest.mark.parametrize(("sizes", "overrides", "num"), ARRAYS, ids=str)
def test_random_programs_agree(sizes: Sizes, overrides: Mapping[str, object], num: int) -> None:
    """Every instruction in odd places: unaligned vectors, elements of 4 bits, stores to the scratchpad, fences."""
    array = array_of(*sizes, overrides)
    rng = Random(f"programs {sizes}")
    assert_same(array, [RandomProgram(array, rng).job() for _ in range(num)])


@pytest.mark.slow
@pytest.mark.parametrize(("sizes", "overrides", "num"), LATER, ids=str)
def test_many_random_programs_agree(sizes: Sizes, overrides: Mapping[str, object], num: int) -> None:
    array = array_of(*sizes, overrides)
    rng = Random(f"many programs {sizes}")
    assert_same(array, [RandomProgram(array, rng).job() for _ in range(2 * num)])


def test_jitter_changes_no_output() -> None:
    array = array_of(8, 8, 8)
    rng = Random(50)
    cases = [random_case(rng, array) for _ in range(5)]
    plain = run_programs(array, [case.job() for case in cases])
    jobs = [case.job(jitter_seed=rng.randrange(1, 2**32)) for case in cases for _ in range(10)]
    jittered = run_programs(array, jobs)
    assert sum(result.cycles for result in jittered) > 10 * sum(result.cycles for result in plain)
    for idx, result in enumerate(jittered):
        assert (result.memory == plain[idx // 10].memory).all()


def test_static_mode_takes_the_replayed_cycles_and_notices_an_early_issue() -> None:
    array = array_of(8, 8, 8)
    rng = Random(20)
    cases = [random_case(rng, array) for _ in range(5)]
    jobs: list[Job] = []
    for case in cases:
        found = replay(array, case.program, latency_cycles=case.latency_cycles, cycles_per_beat=case.cycles_per_beat)
        jobs.append(replace(case.job(), program=with_issue_cycles(case.program, found), is_static=True))
    dynamic = run_programs(array, [case.job() for case in cases])
    static = run_programs(array, jobs)
    for before, after in zip(dynamic, static, strict=True):
        assert after.error is None
        assert after.cycles == before.cycles
        assert (after.memory == before.memory).all()
    early: list[Job] = []
    places: list[int] = []
    for job in jobs:
        for idx in rng.sample(range(len(job.program)), 4):
            program = list(job.program)
            program[idx] = replace(program[idx], issue_cycle=program[idx].issue_cycle - 1)
            early.append(replace(job, program=program))
            places.append(idx)
    for idx, result in zip(places, run_programs(array, early), strict=True):
        assert result.error is not None
        assert result.error.startswith("mistimed")
        assert result.error.endswith(f"instruction {idx}")


def test_many_small_tiles_wait_for_the_place_of_their_input() -> None:
    """One weight tile per tile of outputs: loads may not run ahead by more tiles than there are places."""
    array = array_of(8, 8, 8)
    rng = Random(768)
    assert_agree(array, [random_case(rng, array, gemm_shape(num, 8, 8)) for num in (768, 1536)])
