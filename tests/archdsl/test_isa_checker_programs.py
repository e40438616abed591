"""The static checker on whole programs: kernels pass, mutated ones do not, and its verdicts hold in time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tileloom.archdsl import Instruction, PeArray, assemble, check_program
from tileloom.archdsl.isa.ordering import clocks
from tileloom.archdsl.isa.tokens import issue
from tileloom.compiler import ConvShape, gemm_shape, take_output
from tileloom.models import FunctionalSimulator

from ..rtl.cases import array_of, random_case, random_vector_case
from ..rtl.programs import RandomProgram
from .program_schedules import conflicts, random_run, violated

Sizes = tuple[int, int, int]
PLAIN: dict[str, object] = {}
TIGHT: dict[str, object] = {
    "hierarchy.scratchpad.banks": 1,
    "hierarchy.accumulator.banks": 1,
    "control.queue_depth": 3,
    "control.loads_in_flight": 2,
    "control.requests_in_flight": 3,
}
ARRAYS: tuple[tuple[Sizes, dict[str, object]], ...] = (
    ((4, 4, 4), PLAIN), ((8, 8, 8), PLAIN), ((16, 16, 16), PLAIN), ((4, 16, 4), PLAIN), ((16, 4, 4), PLAIN), ((8, 8, 4), TIGHT),
)  # fmt: skip
BITS = ("pop_prev", "pop_next", "push_prev", "push_next")


def with_change(program: Sequence[Instruction], idx: int, **changes: Any) -> list[Instruction]:
    """A program with one instruction changed: dependence bits or operands."""
    bits = {name: value for name, value in changes.items() if name in BITS}
    operands = {name: value for name, value in changes.items() if name not in BITS}
    old = program[idx]
    return [*program[:idx], replace(old, operands={**old.operands, **operands}, **bits), *program[idx + 1 :]]


@pytest.mark.parametrize(("sizes", "overrides"), ARRAYS, ids=str)
def test_random_kernels_have_no_fault(sizes: Sizes, overrides: dict[str, object]) -> None:
    array, rng = array_of(*sizes, overrides), Random(f"checked {sizes}")
    for _ in range(12):
        case = random_case(rng, array)
        assert check_program(case.program, array, len(case.memory)) == (), case.shape
        case = random_vector_case(rng, array)
        assert check_program(case.program, array, len(case.memory)) == (), case.shape


@pytest.mark.parametrize(("sizes", "overrides"), ARRAYS, ids=str)
def test_random_programs_have_no_fault(sizes: Sizes, overrides: dict[str, object]) -> None:
    array, rng = array_of(*sizes, overrides), Random(f"checked programs {sizes}")
    for _ in range(12):
        job = RandomProgram(array, rng).job()
        assert check_program(job.program, array, len(job.memory)) == ()


@pytest.mark.parametrize(("sizes", "overrides"), ARRAYS, ids=str)
def test_dropped_dependence_bits_are_found_or_harmless(sizes: Sizes, overrides: dict[str, object]) -> None:
    """A dropped pop is always found, but for that of a load which a kernel holds back although its place is free.

    A dropped push makes every later pop of its counter wait for a later token: either one waits for ever, which is
    found, or no instruction knows less of what has ended, so that all that was ordered still is.
    """
    array, rng = array_of(*sizes, overrides), Random(f"dropped {sizes}")
    num_found = num_harmless = 0
    for _ in range(3):
        case = random_case(rng, array)
        order = issue(case.program, array.queue_depth).order
        before = clocks(case.program, order, array)
        places = [(idx, bit) for idx, some in enumerate(case.program) for bit in BITS if getattr(some, bit)]
        for idx, bit in rng.sample(places, min(40, len(places))):
            program = with_change(case.program, idx, **{bit: False})
            if check_program(program, array, len(case.memory)):
                num_found += 1
                continue
            num_harmless += 1
            if case.program[idx].name == "LD" and bit == "pop_next":
                continue  # tests/rtl runs such programs
            assert bit.startswith("push"), f"{idx} {bit} of {case.shape}"
            after = clocks(program, issue(program, array.queue_depth).order, array)
            assert all(
                new >= old
                for one, other in zip(after, before, strict=True)
                for new, old in zip(one, other, strict=True)
            )
    # Most that stay are releases by COMPUTE and ST that no later instruction happens to wait for.
    assert num_found / (num_found + num_harmless) > 0.6


def test_dropped_pop_is_reported_where_it_bites() -> None:
    array = array_of(4, 4, 4)
    case = random_case(Random(5), array)
    pops = [idx for idx, some in enumerate(case.program) if some.pop_prev and some.name in ("PRELOAD", "ST")]
    for idx in pops:
        first, *_ = check_program(with_change(case.program, idx, pop_prev=False), array, len(case.memory))
        assert first.index == idx
        assert "may not have" in first.message


@pytest.mark.parametrize(
    ("name", "operand", "delta", "part"),
    [
        ("LD", "memory_address", 1, "memory_address is"),
        ("LD", "memory_address", 1 << 20, "it reads main memory byte"),
        ("LD", "local_address", 1, "local_address is"),
        ("PRELOAD", "address", 1 << 16, "it reads scratchpad byte"),
        ("PRELOAD", "rows", 100, "rows is"),
        ("COMPUTE", "destination", 1 << 15, "it writes accumulator vector"),
        ("COMPUTE", "x_count", -1, "x_count is"),
        ("ST", "address", 1, "address is"),
        ("ST", "address", 1 << 20, "it writes main memory byte"),
        ("ST", "source", 1 << 15, "it reads accumulator vector"),
        ("ST", "columns", 100, "columns is"),
    ],
)
def test_changed_operands_are_found(name: str, operand: str, delta: int, part: str) -> None:
    array = array_of(8, 8, 8)
    case = random_case(Random(11), array, gemm_shape(13, 17, 9))
    for idx, some in enumerate(case.program):
        if some.name != name or some.operands.get("space"):
            continue
        value = 0 if operand == "x_count" else some[operand] + delta
        faults = check_program(with_change(case.program, idx, **{operand: value}), array, len(case.memory))
        assert (faults[0].index, faults[0].instruction) == (idx, name)
        assert part in faults[0].message


@pytest.mark.parametrize(
    "window",
    [
        {"kernel_height": 3, "kernel_width": 3, "dilation": 2, "pad_left": 2, "output_height": 7},
        {"kernel_height": 3, "kernel_width": 1, "output_height": 9},
        {"kernel_height": 1, "kernel_width": 3, "pad_left": 1, "output_height": 11},
    ],
)
def test_windows_over_an_input_one_column_wide_load_no_byte_twice(window: dict[str, int]) -> None:
    array = array_of(16, 4, 4)
    shape = ConvShape(height=11, width=1, channels=19, outputs=20, output_width=1, **window)
    case = random_case(Random(2), array, shape)
    assert check_program(case.program, array, len(case.memory)) == ()
    assert (
        take_output(FunctionalSimulator(array).run(case.program, case.memory), shape, case.layout) == case.expected
    ).all()


def test_kernel_without_halt_is_found() -> None:
    array = array_of(8, 8, 8)
    case = random_case(Random(3), array)
    assert [str(fault) for fault in check_program(case.program[:-1], array, len(case.memory))] == [
        f"instruction {len(case.program) - 1} (end): the program has no HALT; end it with one"
    ]


def test_thousands_of_instructions_take_seconds() -> None:
    array = array_of(8, 8, 8)
    case = random_case(Random(1), array, gemm_shape(128, 256, 160))
    assert len(case.program) > 4000
    start = time.perf_counter()
    assert check_program(case.program, array, len(case.memory)) == ()
    assert time.perf_counter() - start < 10


# ---- Against random schedules.


def random_program(rng: Random, array: PeArray) -> list[Instruction]:
    """A short program of small accesses, valid but for its tokens."""
    program = list(
        assemble("CFG_TILE row_bytes=4 rows=8 width_bytes=4\nCFG_WALK x_step_bytes=4 y_step_rows=1\nCFG_ST x_bytes=4\n")
    )
    program += assemble(
        f"LD rows=1 row_beats={array.slot_beats} space=parameters\nLD rows=1 row_beats=16\nFENCE\nPRELOAD rows=4\n"
    )
    program += assemble("COMPUTE x_count=1 y_count=4 rows=4 swap=1\nFENCE\n")
    is_waiting = False
    for _ in range(rng.randint(2, 14)):
        name = rng.choice(("LD", "LD", "PRELOAD", "COMPUTE", "COMPUTE", "ST", "ST", "NOP", "CFG_LD", "CFG_ST"))
        if rng.random() < 0.05:
            name = "FENCE"
        if name == "PRELOAD" and is_waiting:
            continue
        program.append(_random_instruction(rng, name, is_waiting=is_waiting, array=array))
        if name in ("PRELOAD", "COMPUTE"):
            is_waiting = name == "PRELOAD" or (is_waiting and not program[-1]["swap"])
    return [*program, Instruction(name="HALT")]


def _random_instruction(rng: Random, name: str, *, is_waiting: bool, array: PeArray) -> Instruction:
    at, bits = 4 * rng.randrange(8), dict[str, bool]()
    if name == "LD" and rng.random() < 0.3:
        operands = {"rows": 1, "row_beats": array.slot_beats, "space": 1, "local_address": 0}
    elif name == "LD":
        operands = {
            "rows": 1,
            "row_beats": rng.randint(1, 2),
            "local_address": at,
            "memory_address": 4 * rng.randrange(4),
        }
    elif name == "PRELOAD":
        operands = {"rows": 1, "address": at}
    elif name == "COMPUTE":
        operands = {"y": at // 4, "x_count": 1, "y_count": 1, "rows": 4, "destination": rng.randrange(4)}
        operands["swap"] = int(is_waiting and rng.random() < 0.7)
    elif name == "ST":
        space = int(rng.random() < 0.3)
        operands = {"source": rng.randrange(4), "x_count": 1, "y_count": 1, "columns": 4, "space": space}
        operands["address"] = at if space else 4 * rng.randrange(4)
    else:
        operands = {"low": -8, "high": 7, "x_bytes": 4} if name == "CFG_ST" else {}
    chance = {"load": ("pop_next", "push_next"), "execute": BITS, "store": ("pop_prev", "push_prev")}
    if name != "FENCE":
        queue = Instruction(name=name).queue
        bits = {bit: rng.random() < (0.15 if bit.startswith("pop") else 0.6) for bit in chance[queue]}
    return replace(Instruction(name=name, operands=operands), **bits)


def test_verdicts_hold_in_random_schedules() -> None:
    """A program without faults ends and keeps its order in every schedule; one that hangs does so in every schedule.

    Of those with hazards most show one within a few schedules; the rest need luck.
    """
    array, rng = array_of(4, 4, 4, {"control.queue_depth": 3, "control.loads_in_flight": 2}), Random(8)
    verdicts = {"valid": 0, "hangs": 0, "hazard": 0, "shown": 0}
    for _ in range(400):
        program = random_program(rng, array)
        faults = check_program(program, array, 256)
        is_hung = any("for ever" in fault.message for fault in faults)
        runs = [random_run(program, array, rng) for _ in range(6 if not faults or is_hung else 30)]
        assert {run.is_hung for run in runs} == {is_hung}
        if is_hung:
            verdicts["hangs"] += 1
            continue
        pairs = conflicts(program, array, 256)
        bad = {idx for run in runs for idx in violated(run, pairs)}
        assert bad <= {fault.index for fault in faults}
        verdicts["hazard" if faults else "valid"] += 1
        verdicts["shown"] += bool(bad)
    assert min(verdicts.values()) > 40, verdicts
    assert verdicts["shown"] > 0.9 * verdicts["hazard"], verdicts
