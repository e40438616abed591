"""The engine: what runs, what is reused, what is stored, and that nothing depends on how it ran."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from tileloom.archdsl import Description, SpatialArch, Workload
from tileloom.sweeps.dry_run import Reason, dry_run
from tileloom.sweeps.engine import run_sweep
from tileloom.sweeps.evaluation import DesignPoint, Evaluator, PointResult, Pricer, failed_result
from tileloom.sweeps.execution import SerialExecutor
from tileloom.sweeps.progress import SilentProgress
from tileloom.sweeps.spec import MappingOptions
from tileloom.sweeps.store import PointStatus, SweepResults

from .fake_evaluator import fake_evaluate, fake_evaluate_list
from .sweep_case import FAKE_PRICER, SPEC, export, load, logged, run


def alone(arch: Description) -> str:
    """A group for each architecture."""
    return arch.model_dump_json()


def one_group(arch: Description) -> int:
    """One group for all architectures."""
    return 0


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "evaluated.log"
    monkeypatch.setenv("FAKE_LOG", str(path))
    return path


def test_grid_runs_every_combination_in_order(tmp_path: Path, log: Path) -> None:
    summary = run(load(tmp_path), tmp_path / "out")
    results = SweepResults.load(tmp_path / "out")
    assert summary.num_points == summary.num_run == len(results.records) == 18
    assert [record.index for record in results.records] == list(range(18))
    assert [record.inputs["hierarchy.scratchpad.capacity"] for record in results.records[:7]] == [
        "2 KiB", "4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB", "2 KiB",
    ]  # fmt: skip
    assert results.records[1].values == {
        "hierarchy.pe_array.axes.rows.size": 4.0,
        "hierarchy.scratchpad.capacity": 4096.0,
    }
    assert len(logged(log)) == len(set(logged(log))) == 18


def test_infeasible_points_keep_their_typed_reason(tmp_path: Path) -> None:
    run(load(tmp_path), tmp_path / "out")
    record = SweepResults.load(tmp_path / "out").records[0]
    assert record.status is PointStatus.INFEASIBLE
    assert record.infeasible is not None
    assert (record.infeasible.demand, record.infeasible.limit, record.infeasible.unit) == (4096, 2048, "bytes")
    assert record.infeasible.levers == ("give scratchpad at least 4096 bytes",)
    assert not record.metrics


def test_running_again_runs_nothing(tmp_path: Path, log: Path) -> None:
    sweep = load(tmp_path)
    run(sweep, tmp_path / "out")
    before = export(tmp_path / "out")
    summary = run(sweep, tmp_path / "out")
    assert (summary.num_run, summary.num_reused) == (0, 18)
    assert len(logged(log)) == 18
    assert export(tmp_path / "out") == before


def test_changed_specification_reuses_what_it_still_asks_for(tmp_path: Path, log: Path) -> None:
    run(load(tmp_path), tmp_path / "out")
    summary = run(load(tmp_path, SPEC.replace("[4, 8, 16]", "[8, 16, 32]")), tmp_path / "out")
    assert summary.has_changed_spec
    assert (summary.num_points, summary.num_reused, summary.num_run) == (18, 12, 6)
    assert len(logged(log)) == 24
    fresh = tmp_path / "fresh"
    run(load(tmp_path, SPEC.replace("[4, 8, 16]", "[8, 16, 32]")), fresh)
    assert export(tmp_path / "out") == export(fresh)


def test_objectives_and_constraints_do_not_make_points_run_again(tmp_path: Path) -> None:
    run(load(tmp_path), tmp_path / "out")
    text = SPEC.replace("[energy, latency]", "[area, edp]") + '    constraints: ["area_mm2 <= 0.1"]\n'
    summary = run(load(tmp_path, text), tmp_path / "out")
    assert (summary.num_run, summary.num_reused) == (0, 18)
    results = SweepResults.load(tmp_path / "out")
    excluded = [record for record in results.records if record.status is PointStatus.EXCLUDED]
    assert excluded
    assert all(record.metrics["area_mm2"] > 0.1 for record in excluded)
    assert all(record.violated == ("area_mm2 <= 0.1",) for record in excluded)
    assert not results.on_front()[[record.index for record in excluded]].any()


def test_constraint_on_inputs_keeps_points_from_running(tmp_path: Path, log: Path) -> None:
    text = SPEC + '    constraints: ["hierarchy.pe_array.axes.rows.size * 1 KiB <= hierarchy.scratchpad.capacity"]\n'
    summary = run(load(tmp_path, text), tmp_path / "out")
    results = SweepResults.load(tmp_path / "out")
    assert summary.num_excluded == results.count(PointStatus.EXCLUDED) == 1 + 2 + 3
    assert len(logged(log)) == 18 - 6


@pytest.mark.parametrize("evaluator", [fake_evaluate, fake_evaluate_list])
def test_failed_point_keeps_its_error_and_spoils_no_other(tmp_path: Path, evaluator: Evaluator) -> None:
    sweep = load(tmp_path, SPEC.replace("[4, 8, 16]", "[4, 13, 16]"))
    summary = run(sweep, tmp_path / "out", evaluator=evaluator, group_key=one_group)
    results = SweepResults.load(tmp_path / "out")
    failed = [record for record in results.records if record.status is PointStatus.FAILED]
    assert summary.num_failed == len(failed) == 6
    assert {record.inputs["hierarchy.pe_array.axes.rows.size"] for record in failed} == {13}
    assert failed[0].error == "ValueError: cannot price 13 rows"
    assert "fake_point" in failed[0].traceback
    assert "During handling" not in failed[0].traceback
    assert results.count(PointStatus.OK) == 10


def test_retry_failed_runs_only_what_failed(tmp_path: Path, log: Path) -> None:
    sweep = load(tmp_path, SPEC.replace("[4, 8, 16]", "[4, 13, 16]"))
    run(sweep, tmp_path / "out")
    log.unlink()
    assert run(sweep, tmp_path / "out").num_run == 0
    summary = run(sweep, tmp_path / "out", retry_failed=True)
    assert (summary.num_run, summary.num_reused) == (6, 12)
    assert len(set(logged(log))) == 6


def test_numbers_that_are_not_finite_make_a_point_fail(tmp_path: Path) -> None:
    def broken(
        points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions
    ) -> Iterator[PointResult]:
        for result in fake_evaluate(points, workloads, mapping):
            yield replace(result, metrics={**result.metrics, "energy_pj": float("nan")})

    run(load(tmp_path), tmp_path / "out", evaluator=broken)
    record = SweepResults.load(tmp_path / "out").records[1]
    assert record.status is PointStatus.FAILED
    assert record.error == "ModelError: energy_pj is nan; metrics must be finite"


@pytest.mark.parametrize("mode", ["singles", "one group", "list"])
def test_results_do_not_depend_on_grouping_or_order(tmp_path: Path, mode: str) -> None:
    sweep = load(tmp_path, SPEC.replace("[4, 8, 16]", "[4, 13, 16]"))
    run(sweep, tmp_path / "plain")
    run(
        sweep,
        tmp_path / "out",
        evaluator=fake_evaluate_list if mode == "list" else fake_evaluate,
        group_key=alone if mode == "singles" else one_group,
    )
    assert export(tmp_path / "out") == export(tmp_path / "plain")


def test_the_largest_designs_run_first(tmp_path: Path, log: Path) -> None:
    run(load(tmp_path), tmp_path / "out")
    rows = {
        record.id: record.values["hierarchy.pe_array.axes.rows.size"]
        for record in SweepResults.load(tmp_path / "out").records
    }
    assert [rows[point] for point in logged(log)] == [16.0] * 6 + [8.0] * 6 + [4.0] * 6


def test_points_that_resolve_to_one_design_run_once(tmp_path: Path, log: Path) -> None:
    text = SPEC.replace(
        "hierarchy.scratchpad.capacity: {from: 2 KiB, to: 64 KiB, factor: 2}",
        "hierarchy.scratchpad.capacity: [8 KiB, 8192 B]",
    )
    summary = run(load(tmp_path, text), tmp_path / "out")
    assert (summary.num_points, summary.num_run, summary.num_same) == (6, 3, 3)
    records = SweepResults.load(tmp_path / "out").records
    assert records[0].metrics == records[1].metrics
    assert len(logged(log)) == 3


def test_values_that_make_no_architecture_together_fail_alone(tmp_path: Path) -> None:
    text = SPEC.replace(
        "hierarchy.scratchpad.capacity: {from: 2 KiB, to: 64 KiB, factor: 2}",
        "hierarchy.scratchpad.keeps: [[input], [input, weight, output]]\n      hierarchy.scratchpad.must_keep: [[], [weight]]",
    )
    summary = run(load(tmp_path, text), tmp_path / "out")
    assert summary.num_failed == 3
    failed = [r for r in SweepResults.load(tmp_path / "out").records if r.status is PointStatus.FAILED]
    assert {record.inputs["hierarchy.scratchpad.keeps"] for record in failed} == {("input",)}
    assert failed[0].error.startswith("ArchError: <override>: hierarchy.1.must_keep.0: must_keep names weight")


def test_breakdown_is_what_the_evaluator_gave(tmp_path: Path) -> None:
    run(load(tmp_path, SPEC.replace("[net_a]", "[net_a, network_b]")), tmp_path / "out")
    results = SweepResults.load(tmp_path / "out")
    record = results.records[-1]
    documents = results.breakdown(record.id)
    assert [document["workload"] for document in documents] == ["net_a", "network_b"]
    total = sum(cast("dict[str, float]", document["total"])["energy_pj"] for document in documents)
    assert record.metrics["energy_pj"] == total
    assert record.metrics["edp_pj_s"] == record.metrics["energy_pj"] * record.metrics["latency_s"]
    assert record.metrics["utilization"] == pytest.approx(0.5)
    assert set(record.workload_metrics) == {"net_a", "network_b"}


def test_dry_run_says_why_each_point_would_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    sweep = load(tmp_path, SPEC.replace("[4, 8, 16]", "[4, 13, 16]"))
    found = dry_run(sweep, out, FAKE_PRICER, num_workers=2)
    assert found.counts[Reason.NEW] == found.num_to_run == 18
    assert found.time_s is not None
    assert found.time_basis == "a trial of 2 points"
    assert not out.exists()
    run(sweep, out)
    assert dry_run(sweep, out, FAKE_PRICER, num_workers=2).counts[Reason.STORED] == 18
    retry = dry_run(sweep, out, FAKE_PRICER, num_workers=2, retry_failed=True)
    assert (retry.counts[Reason.FAILED], retry.counts[Reason.STORED]) == (6, 12)
    assert retry.time_basis == "the mean of the stored results"
    other = load(tmp_path, SPEC.replace("[4, 8, 16]", "[4, 13, 16, 20]") + "    mapping: {objective: latency}\n")
    changed = dry_run(other, out, FAKE_PRICER, num_workers=2)
    assert (changed.counts[Reason.CHANGED], changed.counts[Reason.NEW]) == (18, 6)
    assert changed.changes == ("the mapping options", "the specification")


def test_traceback_is_cut_at_its_end() -> None:
    result = failed_result("x", ValueError("y" * 50_000))
    assert len(result.traceback) == 20_000
    assert result.traceback.endswith("y\n")


def test_constraint_on_a_metric_that_is_known_beforehand_keeps_points_from_running(tmp_path: Path, log: Path) -> None:
    def early(arch: Description) -> dict[str, float]:
        assert isinstance(arch, SpatialArch)
        capacity_bytes = arch.memories[1].capacity_bytes or 0
        return {"area_mm2": 0.01 * arch.fanouts[0].axes[0].size + capacity_bytes / 1e6}

    pricer = Pricer(evaluate=fake_evaluate, group_key=one_group, early_metrics=early)
    sweep = load(tmp_path, SPEC + '    constraints: ["area_mm2 <= 0.1", "energy_pj > 0"]\n')
    summary = run_sweep(sweep, tmp_path / "early", pricer, SerialExecutor, SilentProgress())
    assert len(logged(log)) == summary.num_run == 18 - summary.num_excluded
    assert summary.num_excluded > 0
    run(sweep, tmp_path / "late")
    early_results, late_results = SweepResults.load(tmp_path / "early"), SweepResults.load(tmp_path / "late")
    for first, second in zip(early_results.records, late_results.records, strict=True):
        if second.status is not PointStatus.INFEASIBLE:  # without a result there is no late area to compare
            assert (first.status, first.violated) == (second.status, second.violated)
