"""RTL, event replay, functional simulator, closed form and NumPy agree: every output byte, every instruction's cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tileloom.archdsl import Instruction, PeArray, check_program
from tileloom.compiler import ProgramBuilder, gemm_shape, kernel_timing, take_output
from tileloom.models import replay, time_kernel, with_issue_cycles
from tileloom.rtl import Job, RtlResult, run_programs

from .cases import (
    ONE_PORT,
    PLAIN,
    SMALL_MEMORIES,
    TIGHT,
    Case,
    array_of,
    assert_agree,
    assert_same,
    large_shape,
    random_case,
    random_vector_case,
)
from .programs import RandomProgram

pytestmark = pytest.mark.rtl

Sizes = tuple[int, int, int]
ARRAYS: tuple[tuple[Sizes, Mapping[str, object], int], ...] = (
    ((4, 4, 4), PLAIN, 12),
    ((8, 8, 8), PLAIN, 12),
    ((16, 16, 16), PLAIN, 12),
    ((4, 16, 4), PLAIN, 10),
    ((16, 4, 4), PLAIN, 10),
    ((8, 8, 4), TIGHT, 12),
    ((4, 8, 4), ONE_PORT, 12),
)
LATER: tuple[tuple[Sizes, Mapping[str, object], int], ...] = (
    ((4, 4, 4), PLAIN, 45), ((8, 8, 8), PLAIN, 45), ((16, 16, 16), PLAIN, 45), ((4, 16, 4), PLAIN, 45),
    ((16, 4, 4), PLAIN, 45), ((32, 32, 32), PLAIN, 30), ((8, 8, 4), TIGHT, 45),
)  # fmt: skip


def has_separate_banks(array: PeArray) -> bool:
    """Whether the closed form takes it."""
    return not array.is_single_port and array.scratchpad_banks % 2 == 0 and array.accumulator_banks % 2 == 0


def assert_timed(array: PeArray, cases: Sequence[Case], results: Sequence[RtlResult]) -> None:
    """The closed form, which knows of no instructions, says how many cycles the RTL takes."""
    for case, result in zip(cases, results, strict=True):
        timing = kernel_timing(array, case.shape, case.layout)
        latency, beat = case.latency_cycles, case.cycles_per_beat
        estimate = time_kernel(timing, array, latency_cycles=latency, cycles_per_beat=beat)
        assert estimate.amount == result.cycles, f"{case.shape}, latency {latency}, {beat} cycles per beat"


@pytest.mark.parametrize(("sizes", "overrides", "num"), ARRAYS, ids=str)
def test_random_kernels_agree(sizes: Sizes, overrides: Mapping[str, object], num: int) -> None:
    array = array_of(*sizes, overrides)
    rng = Random(str(sizes))
    cases = [random_case(rng, array) for _ in range(num)]
    results = assert_agree(array, cases)
    if has_separate_banks(array):
        assert_timed(array, cases, results)


@pytest.mark.parametrize(("sizes", "memories"), [((8, 8, 8), 1), ((4, 16, 4), 0), ((16, 4, 4), 0)], ids=str)
def test_kernels_on_small_memories_agree(sizes: Sizes, memories: int) -> None:
    """Chunks of the channels, tiles of columns, weights that stay."""
    array = array_of(*sizes, SMALL_MEMORIES[memories])
    rng = Random(f"small {sizes}")
    cases = [random_case(rng, array, large_shape(rng, 200_000)) for _ in range(6)]
    assert_timed(array, cases, assert_agree(array, cases))


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
    cases = [random_case(rng, array) for _ in range(num)]
    results = assert_agree(array, cases)
    if has_separate_banks(array):
        assert_timed(array, cases, results)


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


def test_preload_waits_for_a_swap_that_a_load_holds_up() -> None:
    """A long load keeps inputs from their bank, and lets the next weights into theirs."""
    array = array_of(4, 8, 4, ONE_PORT)
    weights = array.scratchpad_bytes // 2
    builder = ProgramBuilder(array)
    builder.load({"memory_address": 0, "local_address": 0, "rows": 1, "row_beats": 8}, gives=False)
    loaded = builder.load({"memory_address": 64, "local_address": weights, "rows": 1, "row_beats": 16})
    builder.load({"memory_address": 0, "local_address": 1024, "rows": 1, "row_beats": 100}, gives=False)
    builder.configure("CFG_TILE", {"row_bytes": 4, "rows": 8, "width_bytes": 4})
    builder.configure("CFG_WALK", {"y_step_rows": 1})
    computed = 0
    for idx in range(2):
        builder.preload({"address": weights + 32 * idx, "row_bytes": 8, "rows": 4}, after=loaded)
        walk = {"destination": 8 * idx, "x_count": 1, "y_count": 8, "rows": 4, "swap": 1}
        _, computed = builder.compute(walk, ends=True)
    builder.configure("CFG_ST", {"y_bytes": 32})
    builder.store({"address": 1024, "x_count": 1, "y_count": 16, "columns": 8, "format": 2}, after=computed)
    memory = np.random.default_rng(4).integers(0, 256, 2048).astype(np.uint8)
    job = Job(program=builder.finish(), memory=memory)
    (result,) = assert_same(array, [job])
    compute, preload = (
        [at for at, insn in enumerate(job.program) if insn.name == name] for name in ("COMPUTE", "PRELOAD")
    )
    # The second preload is issued at once, and takes its rows when the first vector has gone.
    assert result.issue_cycles[preload[1]] == result.issue_cycles[compute[0]] + 1
    assert result.end_cycles[preload[1]] > result.issue_cycles[preload[1]] + 60


def test_tokens_that_come_in_one_cycle_all_count() -> None:
    """With one of these numbers of vectors a computation and the next preload end together."""
    array = array_of(4, 4, 4)
    jobs: list[Job] = []
    for num in range(1, 10):
        walk = {"x_count": 1, "y_count": num, "rows": 4, "swap": 1}
        program = (
            Instruction(name="PRELOAD", operands={"rows": 4}),
            Instruction(name="COMPUTE", operands=walk, push_prev=True),
            Instruction(name="PRELOAD", operands={"rows": 4}, push_prev=True),
            Instruction(name="COMPUTE", operands=walk),
            Instruction(name="CFG_LD", pop_next=True),
            Instruction(name="CFG_LD", pop_next=True),
            Instruction(name="FENCE"),
            Instruction(name="HALT"),
        )
        jobs.append(Job(program=program, memory=np.zeros(64, dtype=np.uint8), max_cycles=1000))
    assert_same(array, jobs)


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


def test_loads_that_need_not_wait_change_no_output() -> None:
    """A kernel holds some loads back for longer than it must. What the checker lets go without that, the RTL does too."""
    array = array_of(8, 8, 8)
    rng = Random(51)
    cases: list[Case] = []
    jobs: list[Job] = []
    while len(jobs) < 40:
        case = random_case(rng, array)
        waiting = [idx for idx, insn in enumerate(case.program) if insn.name == "LD" and insn.pop_next]
        for idx in rng.sample(waiting, min(4, len(waiting))):
            program = list(case.program)
            program[idx] = replace(program[idx], pop_next=False)
            if not check_program(program, array, len(case.memory)):
                cases.append(case)
                jobs.append(replace(case.job(jitter_seed=rng.randrange(1, 2**32)), program=program))
    for case, result in zip(cases, run_programs(array, jobs), strict=True):
        assert (take_output(result.memory, case.shape, case.layout) == case.expected).all(), case.shape


def test_static_mode_takes_the_replayed_cycles_and_notices_an_early_issue() -> None:
    array = array_of(8, 8, 8)
    rng = Random(20)
    cases = [random_case(rng, array) for _ in range(5)]
    jobs = [static_job(array, case) for case in cases]
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


def test_static_mode_holds_back_what_could_issue_earlier() -> None:
    array = array_of(4, 4, 4)
    rng = Random(21)
    cases = [random_case(rng, array) for _ in range(4)]
    jobs = [static_job(array, case, delay_cycles=11) for case in cases]
    for case, job, result in zip(cases, jobs, run_programs(array, jobs), strict=True):
        assert result.error is None
        assert result.issue_cycles.tolist() == [insn.issue_cycle for insn in job.program]
        assert (take_output(result.memory, case.shape, case.layout) == case.expected).all()


def test_static_mode_notices_bank_conflicts() -> None:
    array = array_of(8, 8, 4, TIGHT)
    rng = Random(20)
    jobs = [static_job(array, random_case(rng, array)) for _ in range(10)]
    found = [
        replay(array, job.program, latency_cycles=job.latency_cycles, cycles_per_beat=job.cycles_per_beat)
        for job in jobs
    ]
    have_waited = [some.stall_cycles["execute"]["bank taken"] > 0 for some in found]
    assert any(have_waited)
    for has_waited, job, result in zip(have_waited, jobs, run_programs(array, jobs), strict=True):
        if has_waited:
            message = result.error or ""
            assert message.startswith("bank conflict: execute queue")
            # What waits, not what stands behind it in the queue.
            assert job.program[int(message.rsplit(" ", 1)[1])].name in ("PRELOAD", "COMPUTE")


def test_static_mode_notices_what_the_program_leaves_behind() -> None:
    array = array_of(8, 8, 4, TIGHT)
    program = (Instruction(name="LD", operands={"rows": 1, "row_beats": 1}), Instruction(name="HALT"))
    found = replay(array, program)
    job = Job(program=with_issue_cycles(program, found), memory=np.zeros(64, dtype=np.uint8), is_static=True)
    (result,) = run_programs(array, [job])
    assert (result.error or "").startswith("undelivered")


def static_job(array: PeArray, case: Case, *, delay_cycles: int = 0) -> Job:
    """A case whose instructions issue when they can, or all of them some cycles later."""
    found = replay(array, case.program, latency_cycles=case.latency_cycles, cycles_per_beat=case.cycles_per_beat)
    program = [
        replace(insn, issue_cycle=insn.issue_cycle + delay_cycles) for insn in with_issue_cycles(case.program, found)
    ]
    return replace(case.job(), program=program, is_static=True)


def test_many_small_tiles_wait_for_the_place_of_their_input() -> None:
    """One weight tile per tile of outputs: loads may not run ahead by more tiles than there are places."""
    array = array_of(8, 8, 8)
    rng = Random(768)
    assert_agree(array, [random_case(rng, array, gemm_shape(num, 8, 8)) for num in (768, 1536)])
