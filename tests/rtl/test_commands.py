"""`tileloom rtl` with the simulator: lint, build, runs, waveforms, line coverage, and programs that hang."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.archdsl import Instruction, RtlError, load_image, place_array, take_array
from tileloom.models import FunctionalSimulator
from tileloom.rtl import Job, lint, run_programs
from tileloom.sweeps import image_runs
from tileloom.sweeps.cli import ExitCode, main

from .cases import array_of

pytestmark = pytest.mark.rtl

ROOT = Path(__file__).parents[2]
EXAMPLE = "docs/examples/programs/conv_8x8"
VERBS = ("lint", "build", "run", "trace", "coverage")
TIGHT: Mapping[str, object] = {
    "hierarchy.scratchpad.banks": 1,
    "hierarchy.scratchpad.ports": {"read": 0, "write": 0, "read_write": 1},
    "hierarchy.accumulator.banks": 1,
    "hierarchy.mac.vector_lanes": 2,
    "control.queue_depth": 3,
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the example and write below the working directory."""
    shutil.copytree(ROOT / EXAMPLE, tmp_path / EXAMPLE)
    monkeypatch.chdir(tmp_path)


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--json"]) == ExitCode.DONE, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("rows", "cols", "bus_bytes", "overrides"),
    [(8, 8, 8, {}), (16, 16, 16, {}), (32, 32, 32, {}), (4, 16, 4, {}), (8, 8, 4, TIGHT)],
    ids=str,
)
def test_lint_is_clean(rows: int, cols: int, bus_bytes: int, overrides: Mapping[str, object]) -> None:
    assert lint(array_of(rows, cols, bus_bytes, overrides)) == ""


def test_run_agrees_and_writes_what_the_functional_simulator_computes(capsys: pytest.CaptureFixture[str]) -> None:
    image = load_image(EXAMPLE)
    values = np.random.default_rng(5).integers(-128, 128, image.symbol("input").shape)
    np.savez("x.npz", allow_pickle=False, input=values)
    found = run_json(capsys, "rtl", "run", EXAMPLE, "--input", "x.npz", "-o", "out.npz")
    assert found["schema_version"] == 1
    assert found["is_agreed"] is True
    assert found["rtl_cycles"] == found["replay_cycles"]
    assert found["estimate_cycles"] is None
    assert found["utilization"] == pytest.approx(found["macs"] / (64 * found["rtl_cycles"]))
    for stalls in found["stall_cycles"].values():
        assert sum(stalls.values()) <= found["rtl_cycles"]
    memory = image.memory()
    place_array(memory, image.symbol("input"), values)
    expected = take_array(FunctionalSimulator(image.array).run(image.program, memory), image.symbol("output"))
    with np.load(found["outputs"]) as outputs:
        assert (outputs["output"] == expected).all()


def test_memory_options_reach_the_rtl(capsys: pytest.CaptureFixture[str]) -> None:
    plain = run_json(capsys, "rtl", "run", EXAMPLE)
    slow = run_json(capsys, "rtl", "run", EXAMPLE, "--latency", "300", "--cycles-per-beat", "4", "--static")
    jittered = run_json(capsys, "rtl", "run", EXAMPLE, "--jitter-seed", "9")
    assert slow["rtl_cycles"] == slow["replay_cycles"] > plain["rtl_cycles"]
    assert jittered["rtl_cycles"] > plain["rtl_cycles"]
    assert jittered["replay_cycles"] is None and jittered["is_agreed"] is True


def test_disagreement_is_our_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(*arguments: Any, **options: Any) -> Any:
        (found,) = run_programs(*arguments, **options)
        memory = found.memory.copy()
        memory[-1] ^= 1
        return [replace(found, memory=memory, cycles=found.cycles + 1)]

    monkeypatch.setattr("tileloom.rtl.run_programs", wrong)
    assert main(["rtl", "run", EXAMPLE, "--json"]) == ExitCode.BUG
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["is_agreed"] is False
    assert "1 bytes of main memory differ" in found["disagreements"][0]
    assert "RTL takes" in found["disagreements"][1]
    assert "please report it with the program image" in captured.err


def test_waveform_and_line_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    found = run_json(capsys, "rtl", "run", EXAMPLE, "--waves", "out/conv.vcd")
    text = Path(found["waves"]).read_text(encoding="ascii")
    assert "$scope module u_core" in text and "$enddefinitions" in text
    lines = run_json(capsys, "rtl", "coverage", EXAMPLE)["lines"]
    by_file = {file["file"]: file for file in lines}
    assert "tpe_tb.sv" not in by_file
    assert by_file["tpe_array.sv"]["num_covered"] == by_file["tpe_array.sv"]["num_points"]
    store = by_file["tpe_store.sv"]
    assert 0 < store["num_covered"] < store["num_points"] and store["missed_lines"]
    with pytest.raises(ValueError, match="exclude each other"):
        run_programs(array_of(8, 8, 8), [], waves=Path("a"), coverage=Path("b"))


def test_hang_is_told_with_queues_tokens_and_the_instruction_that_waits() -> None:
    program = (
        Instruction(name="NOP", push_prev=True),
        Instruction(name="NOP", push_prev=True),
        Instruction(name="ST", pop_prev=True, operands={"x_count": 1, "y_count": 1, "columns": 1}),
        Instruction(name="HALT"),
    )
    job = Job(program=program, memory=np.zeros(64, dtype=np.uint8), max_cycles=200)
    with pytest.raises(RtlError) as caught:
        run_programs(array_of(8, 8, 8), [job])
    text = str(caught.value)
    assert text.startswith("the program did not end within 200 cycles: instruction 2 (ST ")
    assert "is the first that did not issue; in the queues: load 0, execute 0, store 2; " in text
    assert "execute to load 2, execute to store 0" in text
    assert text.endswith("program counter 4")


def test_program_that_the_bench_cannot_hold_is_refused() -> None:
    job = Job(program=(Instruction(name="NOP"),) * (1 << 19), memory=np.zeros(64, dtype=np.uint8))
    with pytest.raises(
        RtlError, match="has 524288 instructions and 64 bytes of main memory; the test bench takes up to"
    ):
        run_programs(array_of(8, 8, 8), [job])


def test_fence_is_traced() -> None:
    program = (Instruction(name="NOP"), Instruction(name="FENCE"), Instruction(name="HALT"))
    (found,) = run_programs(array_of(8, 8, 8), [Job(program=program, memory=np.zeros(64, dtype=np.uint8))])
    replayed = image_runs.replay_image(replace_program(program), image_runs.RunOptions())
    assert (found.issue_cycles == replayed.issue_cycles).all()


def replace_program(program: tuple[Instruction, ...]) -> Any:
    return replace(load_image(EXAMPLE), program=program)


@pytest.mark.parametrize("verb", VERBS)
def test_examples_of_the_help_run(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rtl", verb, "--help"]) == ExitCode.DONE
    examples = [line.strip() for line in capsys.readouterr().out.partition("Examples:")[2].splitlines() if line.strip()]
    assert len(examples) == 2
    for example in examples:
        assert main(shlex.split(example)[1:]) == ExitCode.DONE, example
        assert capsys.readouterr().out
