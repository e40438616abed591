"""`tileloom run` and `explain` of compiled networks on the RTL: it agrees with the simulators, layer by layer."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.archdsl import PeArray, SpatialArch, load_arch
from tileloom.compiler import CompileOptions, compile_network, save_network
from tileloom.rtl import Job, RtlResult, run_programs
from tileloom.sweeps.cli import ExitCode, main

pytestmark = pytest.mark.rtl

ROOT = Path(__file__).parents[2]
MODEL = str(ROOT / "docs" / "examples" / "networks" / "tiny_int8.onnx")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The example with the result of every layer in main memory."""
    folder = str(tmp_path_factory.mktemp("compiled") / "tiny")
    assert main(["compile", MODEL, "--arch", "tpe_8x8", "--keep-layers", "-o", folder, "-q"]) == ExitCode.DONE
    return folder


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--json"]) == ExitCode.DONE, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_functional_replay_and_rtl_agree(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    rtl = run_json(capsys, "run", tiny, "--on", "rtl", "--layers", "--seed", "5", "-o", "rtl.npz")
    run_json(capsys, "run", tiny, "--on", "functional", "--seed", "5", "-o", "functional.npz")
    replayed = run_json(capsys, "run", tiny, "--on", "replay")
    assert rtl["is_agreed"]
    assert rtl["rtl_cycles"] == rtl["replay_cycles"] == replayed["replay_cycles"]
    assert len(rtl["layers"]) == 6
    assert not any(layer["num_different"] for layer in rtl["layers"])
    with np.load("rtl.npz") as one, np.load("functional.npz") as other:
        assert one.files == other.files
        assert all((one[name] == other[name]).all() for name in one.files)


def test_examples_of_the_help_run(tiny: str, tmp_path: Path) -> None:
    shutil.copytree(tiny, tmp_path / "results" / "tiny")
    assert main(["run", "results/tiny", "--on", "rtl", "--seed", "7"]) == ExitCode.DONE
    assert main(["explain", "results/tiny", "--on", "rtl", "--json"]) == ExitCode.DONE


def test_slow_memory_takes_the_same_cycles(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    found = run_json(capsys, "run", tiny, "--on", "rtl", "--latency", "7", "--cycles-per-beat", "3")
    assert found["is_agreed"]
    assert found["rtl_cycles"] == found["replay_cycles"]


def test_explain_takes_the_cycles_of_the_rtl(capsys: pytest.CaptureFixture[str], tiny: str) -> None:
    found = run_json(capsys, "explain", tiny, "--on", "rtl")
    assert found["rtl_cycles"] == found["total"]["replay_cycles"]
    assert main(["explain", tiny, "--on", "rtl"]) == ExitCode.DONE
    assert capsys.readouterr().out.rstrip().endswith(f"RTL     {found['rtl_cycles']:,} cycles, as the replay")


def test_a_disagreement_names_the_first_layer(
    capsys: pytest.CaptureFixture[str], tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = json.loads((Path(tiny) / "manifest.json").read_text(encoding="utf-8"))
    region = next(r for r in image["memory"]["regions"] if r["name"] == "QuantizeLinear_2")

    def broken(array: PeArray, jobs: Sequence[Job], *, waves: Path | None = None) -> list[RtlResult]:
        (found,) = run_programs(array, jobs, waves=waves)
        memory, issue_cycles = found.memory.copy(), found.issue_cycles.copy()
        memory[region["address"]] ^= 1
        issue_cycles[3] += 1
        return [replace(found, memory=memory, issue_cycles=issue_cycles)]

    monkeypatch.setattr("tileloom.rtl.run_programs", broken)
    assert main(["run", tiny, "--on", "rtl", "--layers"]) == ExitCode.BUG
    said = capsys.readouterr().err
    assert "1 bytes of main memory differ" in said
    assert "1 instructions issue at another cycle, the first is 3" in said
    assert "Conv_2 is the first layer whose stored result differs: 1 of 512 bytes of QuantizeLinear_2" in said
    assert "this is a bug in tileloom" in said


def test_several_programs_run_with_the_host_between(capsys: pytest.CaptureFixture[str]) -> None:
    from ..compiler.tiny_networks import two_programs

    arch = load_arch("tpe_8x8")
    assert isinstance(arch, SpatialArch)
    options = CompileOptions(fallback=True)
    network = compile_network(two_programs(), arch, options).network
    assert network is not None
    save_network(network, Path("two"), name="two", options=options)
    found = run_json(capsys, "run", "two", "--on", "rtl")
    assert found["is_agreed"]
    assert [program["name"] for program in found["programs"]] == ["program0", "program1"]
    assert found["rtl_cycles"] == sum(program["rtl_cycles"] for program in found["programs"])
