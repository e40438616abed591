"""`tileloom sweep`: exit codes, what goes to stdout and what to stderr."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.evaluation import Pricer
from tileloom.sweeps.execution import SerialExecutor, WorkContext

from .fake_evaluator import fake_load
from .sweep_case import FAKE_PRICER, SPEC, write_spec

FAILING_SPEC = SPEC.replace("[4, 8, 16]", "[4, 13]")

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Cli:
    """Run a command line in an empty directory, in this process and with the fake evaluator as the mapper."""

    def pricer() -> Pricer:
        return FAKE_PRICER

    def in_this_process(context: WorkContext, num_workers: int) -> SerialExecutor:
        return SerialExecutor(context)

    monkeypatch.setattr("tileloom.sweeps.execution.LocalExecutor", in_this_process)
    monkeypatch.setattr("tileloom.sweeps.mapped.mapping_pricer", pricer)
    monkeypatch.setattr("tileloom.compiler.load_workload", fake_load)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["sweep", *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def run_sweep(cli: Cli, folder: Path, text: str = SPEC, *options: str) -> tuple[int, str, str]:
    return cli("run", str(write_spec(folder, text)), "--no-plots", "--jobs", "1", *options)


def test_run_prints_the_front_and_exits_with_0(cli: Cli, tmp_path: Path) -> None:
    code, out, err = run_sweep(cli, tmp_path)
    assert code == ExitCode.DONE
    assert out.startswith("sizes: 18 points: 15 ok, 3 infeasible; 1 on the front (18 run, 0 stored before)\n")
    assert "energy_pj" in out
    assert "knee" in out
    assert (tmp_path / "results" / "sizes" / "sweep.sqlite").exists()
    assert "error" not in err


def test_run_again_says_that_all_was_stored(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path)
    code, out, _ = run_sweep(cli, tmp_path)
    assert code == ExitCode.DONE
    assert "(0 run, 18 stored before)" in out


def test_changed_specification_is_remarked_on_stderr(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path)
    code, _, err = run_sweep(cli, tmp_path, SPEC.replace("[4, 8, 16]", "[4, 8, 32]"))
    assert code == ExitCode.DONE
    assert (
        "the specification changed since the last run: 12 of its 18 points have a result from before, which is kept\n"
        in err
    )


def test_failed_points_exit_with_3_and_are_shown_with_their_traceback(cli: Cli, tmp_path: Path) -> None:
    code, out, err = run_sweep(cli, tmp_path, FAILING_SPEC)
    assert code == ExitCode.FAILED_POINTS
    assert "sizes: 12 points: 5 ok, 1 infeasible, 6 failed; 1 on the front" in out
    assert "error: 6 points failed; tileloom sweep show results/sizes --select failed lists them" in err
    code, out, _ = cli("show", "results/sizes", "--select", "failed")
    assert code == ExitCode.DONE
    assert out.count("ValueError: cannot price 13 rows") == 6
    code, out, _ = cli("show", "results/sizes", "#6")
    assert code == ExitCode.DONE
    assert "Traceback (most recent call last)" in out
    assert out.endswith("ValueError: cannot price 13 rows\n")


def test_retry_failed_runs_failed_points_only(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path, FAILING_SPEC)
    code, out, _ = run_sweep(cli, tmp_path, FAILING_SPEC, "--retry-failed")
    assert code == ExitCode.FAILED_POINTS
    assert "(6 run, 6 stored before)" in out


def test_nothing_feasible_exits_with_4(cli: Cli, tmp_path: Path) -> None:
    code, out, err = run_sweep(cli, tmp_path, SPEC.replace("to: 64 KiB", "to: 2 KiB"))
    assert code == ExitCode.INFEASIBLE
    assert "3 points: 3 infeasible; 0 on the front" in out
    assert "no design point is feasible" in err
    _, out, _ = cli("show", "results/sizes", "#0")
    assert "scratchpad capacity: needs 4,096 bytes, has 2,048 bytes" in out
    assert "would fit: give scratchpad at least 4096 bytes" in out


def test_dry_run_stores_nothing_and_says_why_points_would_run(cli: Cli, tmp_path: Path) -> None:
    code, out, _ = run_sweep(cli, tmp_path, SPEC, "--dry-run")
    assert code == ExitCode.DONE
    assert out.startswith("sizes: 18 of 18 points would run\n")
    assert re.search(r"18 +new +no result is stored", out)
    assert re.search(r"estimated time: 0:\d\d \(from a trial of 2 points\)", out)
    assert not (tmp_path / "results").exists()
    run_sweep(cli, tmp_path)
    _, out, _ = run_sweep(cli, tmp_path, SPEC + "    mapping: {convention: zigzag}\n", "--dry-run", "--json")
    found: dict[str, Any] = json.loads(out)
    assert found["to_run"] == found["counts"]["changed"] == 18
    assert found["changes"] == ["the mapping options", "the specification"]
    assert {point["reason"] for point in found["points"]} == {"changed"}


def test_json_of_every_command_has_a_schema_version(cli: Cli, tmp_path: Path) -> None:
    for arguments in (
        ("run", str(write_spec(tmp_path)), "--no-plots", "--jobs", "1", "--json"),
        ("status", "results/sizes", "--json"),
        ("show", "results/sizes", "--json"),
        ("show", "results/sizes", "#3", "--json"),
        ("diff", "results/sizes", "results/sizes", "--json"),
    ):
        code, out, _ = cli(*arguments)
        assert code == ExitCode.DONE
        assert json.loads(out)["schema_version"] == 1


def test_status_counts_points(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path, FAILING_SPEC)
    code, out, _ = cli("status", "results/sizes", "--json")
    found = json.loads(out)
    assert code == ExitCode.DONE
    assert (found["points"], found["ok"], found["infeasible"], found["failed"], found["pending"]) == (12, 5, 1, 6, 0)
    assert found["running"] is None


def test_show_of_a_point_lists_its_ops(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path)
    code, out, _ = cli("show", "results/sizes", "#5")
    assert code == ExitCode.DONE
    assert out.startswith("sizes #5 ")
    assert re.search(r"op +1 .* 100.0% +0.500 +compute +yes", out)


def test_show_limits_its_list_and_says_so(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path)
    _, out, _ = cli("show", "results/sizes", "--select", "all", "--limit", "4")
    assert out.endswith("... and 14 more; --limit 18 lists them\n")


def test_diff_names_what_changed(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path)
    other = SPEC.replace("base: ref16", "base: fast.yaml").replace("[4, 8, 16]", "[4, 8, 32]")
    (tmp_path / "fast.yaml").write_text("extends: ref16\nclock: 2 GHz\n", encoding="utf-8")
    run_sweep(cli, tmp_path, other, "-o", "other")
    code, out, _ = cli("diff", "results/sizes", "other")
    assert code == ExitCode.DONE
    assert "base: ref16 -> fast.yaml\n" in out
    assert "2 points equal, 10 changed, 6 only in the first, 6 only in the second\n" in out
    assert "latency_s: changed by up to 50.00%\n" in out
    assert "(-50.00%)" in out


def test_export_goes_by_the_suffix(cli: Cli, tmp_path: Path) -> None:
    run_sweep(cli, tmp_path)
    assert cli("export", "results/sizes")[1] == "results/sizes/points.csv\n"
    assert cli("export", "results/sizes", "-o", "a.parquet")[1] == "a.parquet\n"
    assert (tmp_path / "a.parquet").read_bytes()[:4] == b"PAR1"
    assert cli("export", "results/sizes", "-o", "a.txt", "--format", "csv")[0] == ExitCode.DONE
    assert (tmp_path / "a.txt").read_bytes() == (tmp_path / "results/sizes/points.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("status", "nowhere"), "nowhere/sweep.sqlite: there is no sweep store"),
        (("run", "none.yaml"), "none.yaml: cannot read the file: No such file or directory"),
        (("run", "none.yaml", "--address", "a:1"), "only a Ray cluster has an address; add --executor ray"),
        (("run", "none.yaml", "--jobs", "0"), "Invalid value for '--jobs'"),
        (("export", "nowhere", "--format", "xls"), "'xls' is not one of"),
    ],
)
def test_bad_usage_exits_with_2(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = cli(*arguments)
    assert code == ExitCode.BAD_INPUT
    assert out == ""
    assert message in " ".join(err.replace("│", " ").split())


def test_quiet_run_prints_the_answer_only(cli: Cli, tmp_path: Path) -> None:
    _, out, err = run_sweep(cli, tmp_path, SPEC, "-q")
    assert out.startswith("sizes: 18 points")
    assert err == ""
