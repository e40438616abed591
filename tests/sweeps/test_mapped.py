"""Sweeps with the real mapper: the same numbers as `tileloom estimate`, however points are grouped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tileloom.archdsl import SpatialArch
from tileloom.compiler import load_workload
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.engine import run_sweep
from tileloom.sweeps.estimation import EstimateOptions, estimate_workload
from tileloom.sweeps.evaluation import DesignPoint
from tileloom.sweeps.execution import SerialExecutor
from tileloom.sweeps.loading import Sweep, load_sweep
from tileloom.sweeps.mapped import early_metrics, evaluate_group, key_of_group, mapping_pricer
from tileloom.sweeps.progress import SilentProgress
from tileloom.sweeps.store import PointStatus, SweepResults

from .sweep_case import write_spec

SPEC = """\
    schema_version: 1
    name: tiny
    base: ref16
    workloads:
      - "gemm:M=8,N=12,K=16,bits=8"
      - {workload: "gemm:M=8,N=8,K=64,bits=8", name: deep}
    space:
      hierarchy.pe_array.axes.rows.size: [4, 8]
      hierarchy.scratchpad.capacity: [1 B, 512 B, 64 KiB]
      hierarchy.scratchpad.must_keep: [[input, output]]
      hierarchy.main_memory.read_bandwidth: [1 B/cycle, 64 B/cycle]
    objectives: [energy, latency, area]
    mapping: {objective: edp, convention: accelforge}
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return load_sweep(write_spec(tmp_path_factory.mktemp("tiny"), SPEC), load_workload)


@pytest.fixture(scope="module")
def points(sweep: Sweep) -> list[DesignPoint]:
    inputs = [sweep.space.inputs(sweep.space.digits(idx)) for idx in range(sweep.space.num_points)]
    return [
        DesignPoint(id=str(idx), inputs=values, arch=sweep.blueprint.design(dict(values)).arch)
        for idx, values in enumerate(inputs)
    ]


def test_results_do_not_depend_on_the_group(sweep: Sweep, points: list[DesignPoint]) -> None:
    together = {r.id: r for r in evaluate_group(points[::-1], sweep.workloads, sweep.spec.mapping)}
    for point in points:
        (alone,) = evaluate_group([point], sweep.workloads, sweep.spec.mapping)
        assert alone == together[point.id]


def test_points_have_the_numbers_of_an_estimate(sweep: Sweep, points: list[DesignPoint]) -> None:
    point = points[-1]
    assert isinstance(point.arch, SpatialArch)
    (result,) = evaluate_group([point], sweep.workloads, sweep.spec.mapping)
    options = EstimateOptions(objective="edp", convention="accelforge")
    documents = [estimate_workload(workload, point.arch, options).document for workload in sweep.workloads]
    assert json.loads(result.breakdown) == json.loads(json.dumps(documents))
    for name in ("energy_pj", "latency_cycles", "latency_s", "main_memory_bytes", "macs"):
        assert result.metrics[name] == sum(document["total"][name] for document in documents)
    assert result.metrics["area_mm2"] == documents[0]["total"]["area_mm2"]
    assert [document["workload"] for document in documents] == ["gemm:M=8,N=12,K=16,bits=8", "deep"]


def test_area_is_known_beforehand(sweep: Sweep, points: list[DesignPoint]) -> None:
    (result,) = evaluate_group(points[-1:], sweep.workloads, sweep.spec.mapping)
    assert early_metrics(points[-1].arch) == {"area_mm2": result.metrics["area_mm2"]}


def test_groups_are_by_array_shape_here(points: list[DesignPoint]) -> None:
    assert len({key_of_group(point.arch) for point in points}) == 2


def test_design_on_which_nothing_fits_is_infeasible(sweep: Sweep, tmp_path: Path) -> None:
    run_sweep(sweep, tmp_path / "out", mapping_pricer(), SerialExecutor, SilentProgress())
    results = SweepResults.load(tmp_path / "out")
    tight = [r for r in results.records if r.inputs["hierarchy.scratchpad.capacity"] == "1 B"]
    assert {record.status for record in tight} == {PointStatus.INFEASIBLE}
    assert all(record.infeasible is not None and "scratchpad" in record.infeasible.resource for record in tight)
    assert results.count(PointStatus.OK) == 8


def test_command_draws_figures_and_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = SPEC.replace("[4, 8]", "[4]")
    spec = write_spec(tmp_path, text)
    assert main(["sweep", "run", str(spec), "--jobs", "1", "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    files = [Path(name) for name in found["files"]]
    assert {path.suffix for path in files} == {".png", ".svg", ".csv", ".html"}
    assert all(path.stat().st_size > 0 for path in files)
    assert (found["points"], found["ok"], found["infeasible"]) == (6, 4, 2)
    assert main(["sweep", "plot", "results/tiny", "-o", "again"]) == ExitCode.DONE
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert sorted(names) == sorted(path.name for path in files)
