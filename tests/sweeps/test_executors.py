"""Executors: the same bytes wherever points run, whatever dies on the way."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import SweepError
from tileloom.sweeps.execution import RayExecutor
from tileloom.sweeps.store import STORE_NAME, PointStatus, SweepResults

from .sweep_case import ROOT, SPEC, export, load, local, logged, run, write_spec

PROGRAM = Path(__file__).parent / "run_fake_sweep.py"
SLOW_SPEC = SPEC.replace("[4, 8, 16]", "[4, 8, 13, 16, 32]")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import the fake evaluator as `tests.sweeps.fake_evaluator`."""
    monkeypatch.syspath_prepend(str(ROOT))  # pyright: ignore[reportUnknownMemberType]


def start(spec: Path, directory: Path, **environment: str) -> subprocess.Popen[str]:
    """Start a sweep in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(spec), str(directory), "2"],
        env={**os.environ, **environment},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_results(directory: Path, count: int) -> int:
    """Wait until so many results are stored; returns how many there are."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        time.sleep(0.02)
        if (directory / STORE_NAME).exists():
            try:
                with sqlite3.connect(f"file:{directory / STORE_NAME}?mode=ro", uri=True) as connection:
                    found = connection.execute("SELECT count(*) FROM results").fetchone()[0]
            except sqlite3.OperationalError:
                continue
            if found >= count:
                return found
    raise AssertionError(f"no {count} results within a minute")


@pytest.mark.parametrize("num_workers", [1, 3])
def test_worker_processes_give_the_same_bytes(tmp_path: Path, num_workers: int) -> None:
    sweep = load(tmp_path, SLOW_SPEC)
    run(sweep, tmp_path / "serial")
    summary = run(sweep, tmp_path / "local", make_executor=local(num_workers))
    assert summary.num_run == 30
    assert export(tmp_path / "local") == export(tmp_path / "serial")


def test_dying_worker_costs_only_the_point_that_kills_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CRASH_ROWS", "16")
    summary = run(load(tmp_path), tmp_path / "out", make_executor=local(2))
    results = SweepResults.load(tmp_path / "out")
    failed = [record for record in results.records if record.status is PointStatus.FAILED]
    assert summary.num_run == 18
    assert {record.inputs["hierarchy.pe_array.axes.rows.size"] for record in failed} == {16}
    assert len(failed) == 6
    assert failed[0].error == (
        "WorkerDied: a worker process ended with exit code 7; perhaps it ran out of memory: try fewer --jobs"
    )


def test_worker_of_another_model_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tileloom.sweeps.engine.model_version", lambda: "0123456789abcdef")
    with pytest.raises(SweepError, match="a worker has model version [0-9a-f]{16} and the sweep 0123456789abcdef"):
        run(load(tmp_path), tmp_path / "out", make_executor=local(1))


def test_killed_sweep_resumes_without_losing_or_repeating_a_finished_point(tmp_path: Path) -> None:
    spec, out, log = write_spec(tmp_path, SLOW_SPEC), tmp_path / "out", tmp_path / "log"
    process = start(spec, out, FAKE_SLEEP_S="0.03", FAKE_LOG=str(log))
    wait_for_results(out, 8)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.3)  # the workers notice that their parent is gone
    stored = SweepResults.load(out)
    finished = {record.id for record in stored.records if record.status is not PointStatus.PENDING}
    assert 8 <= len(finished) < 30
    log.unlink()
    resumed = start(spec, out, FAKE_LOG=str(log))
    assert resumed.wait(60) == 0
    assert not finished & set(logged(log))
    assert {*finished, *logged(log)} == {record.id for record in SweepResults.load(out).records}
    run(load(tmp_path, SLOW_SPEC), tmp_path / "uninterrupted")
    assert export(out) == export(tmp_path / "uninterrupted")


def test_workers_end_when_the_sweep_is_killed(tmp_path: Path) -> None:
    spec, out, log = write_spec(tmp_path, SLOW_SPEC), tmp_path / "out", tmp_path / "log"
    process = start(spec, out, FAKE_SLEEP_S="0.05", FAKE_LOG=str(log))
    wait_for_results(out, 2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    time.sleep(0.5)
    num_logged = len(logged(log))
    time.sleep(0.5)
    assert len(logged(log)) == num_logged


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_stops_soon_and_keeps_what_finished(tmp_path: Path, number: signal.Signals) -> None:
    spec, out = write_spec(tmp_path, SLOW_SPEC), tmp_path / "out"
    process = start(spec, out, FAKE_SLEEP_S="0.5")  # long beside what a busy machine delays this process
    num_before = wait_for_results(out, 4)
    os.killpg(process.pid, number)  # as a terminal does: the workers get it too
    _, errors = process.communicate(timeout=10)
    assert process.returncode == 130
    assert errors == ""
    results = SweepResults.load(out)
    num_finished = sum(record.status is not PointStatus.PENDING for record in results.records)
    assert num_before <= num_finished < 30


def test_second_run_on_the_same_directory_is_refused_with_the_pid(tmp_path: Path) -> None:
    spec, out = write_spec(tmp_path, SLOW_SPEC), tmp_path / "out"
    first = start(spec, out, FAKE_SLEEP_S="0.1")
    try:
        wait_for_results(out, 1)
        second = start(spec, out)
        _, errors = second.communicate(timeout=30)
        assert second.returncode == 1
        assert f"out: process {first.pid} on " in errors
        assert "is running a sweep here; wait for it, stop it, or give another -o DIR" in errors
    finally:
        first.kill()
        first.wait()


def require_ray() -> None:
    """Skip without Ray; fail instead where everything has to be tested."""
    if "CI" in os.environ:
        import_module("ray")
    pytest.importorskip("ray", reason="the extra `scale` is not installed")


@pytest.mark.slow
def test_local_ray_cluster_gives_the_same_bytes(tmp_path: Path) -> None:
    require_ray()
    sweep = load(tmp_path, SLOW_SPEC)
    run(sweep, tmp_path / "serial")
    run(sweep, tmp_path / "ray", make_executor=lambda context: RayExecutor(context, 2, None))
    assert export(tmp_path / "ray") == export(tmp_path / "serial")


@pytest.mark.slow
def test_running_ray_cluster_of_two_machines_gives_the_same_bytes(tmp_path: Path) -> None:
    require_ray()
    machine: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    cluster = import_module("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={**machine, "include_dashboard": False}
    )
    try:
        cluster.add_node(**machine)
        sweep = load(tmp_path, SLOW_SPEC)
        run(sweep, tmp_path / "serial")
        run(sweep, tmp_path / "ray", make_executor=lambda context: RayExecutor(context, None, cluster.address))
    finally:
        cluster.shutdown()
    assert export(tmp_path / "ray") == export(tmp_path / "serial")


def test_missing_ray_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SweepError, match=r"executor ray needs Ray; install it with: pip install 'tileloom\[scale\]'"):
        run(load(tmp_path), tmp_path / "out", make_executor=lambda context: RayExecutor(context, 2, None))
