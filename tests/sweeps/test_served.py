"""Sweeps that serve language models: the numbers of `tileloom serve estimate`, variants of chips, and what cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import GpuArch, System, description_from_tree, load_tree, variant_from_tree
from tileloom.compiler import load_workload
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.engine import run_sweep
from tileloom.sweeps.execution import SerialExecutor
from tileloom.sweeps.export import table
from tileloom.sweeps.loading import Sweep, load_sweep
from tileloom.sweeps.objectives import Objective
from tileloom.sweeps.plots.from_sweep import front_plot
from tileloom.sweeps.progress import SilentProgress
from tileloom.sweeps.report.data import page_data
from tileloom.sweeps.report.from_sweep import make_report
from tileloom.sweeps.served import serving_pricer
from tileloom.sweeps.store import PointStatus, SweepResults

from .sweep_case import write_spec

SPEC = """\
    schema_version: 1
    name: served
    base: dgx_h100
    workloads:
      - {workload: llama3.1_8b, name: chat, serve: {isl: 512, osl: 64, quantisation: fp8}}
      - {workload: llama3.1_8b, name: draft, serve: {isl: 64, osl: 64, quantisation: fp8}}
    space:
      chips.gpu.arch.sms: [66, 132]
      links.nvlink.bandwidth: [25 GB/s]
      workloads.chat.serve.tp: [1, 16]
      workloads.chat.serve.concurrency: [4, 60000]
    constraints: ["links.nvlink.bandwidth == 25 GB/s", "tpot_s <= 1 s", "workloads.chat.serve.tp * 2 <= 32"]
    constants: {mode: calibrated, calibration: frameworks_warm}
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return load_sweep(write_spec(tmp_path_factory.mktemp("served"), SPEC), load_workload)


@pytest.fixture(scope="module")
def results(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> SweepResults:
    folder = tmp_path_factory.mktemp("results")
    summary = run_sweep(sweep, folder, serving_pricer(), SerialExecutor, SilentProgress())
    assert (summary.num_points, summary.num_run) == (8, 8)
    assert run_sweep(sweep, folder, serving_pricer(), SerialExecutor, SilentProgress()).num_run == 0
    return SweepResults.load(folder)


def test_design_of_the_base_has_the_numbers_of_serve_estimate(
    results: SweepResults, capsys: pytest.CaptureFixture[str]
) -> None:
    record = results.records[4]
    assert record.inputs["chips.gpu.arch.sms"] == 132
    argv = ["serve", "estimate", "--model", "llama3.1_8b", "--system", "dgx_h100", "--isl", "512", "--osl", "64"]
    argv += ["--concurrency", "4", "--quantisation", "fp8", "--mode", "calibrated", "--calibration", "frameworks_warm"]
    assert main([*argv, "--json"]) == ExitCode.DONE
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    own = record.workload_metrics["chat"]
    assert {name: own[name] for name in own if name != "num_chips"} == {n: document[n] for n in own if n != "num_chips"}
    stored = results.breakdown(record.id)[0]
    assert stored["notes"] == document["notes"]
    assert stored["parts"] == document["parts"]


def test_of_several_models_the_worst_counts(results: SweepResults) -> None:
    record = results.records[0]
    chat, draft = record.workload_metrics["chat"], record.workload_metrics["draft"]
    assert record.metrics["ttft_s"] == max(chat["ttft_s"], draft["ttft_s"]) == chat["ttft_s"]
    assert record.metrics["tokens_per_s"] == min(chat["tokens_per_s"], draft["tokens_per_s"]) == draft["tokens_per_s"]


def test_what_cannot_be_is_infeasible_with_what_is_missing(results: SweepResults) -> None:
    assert [record.status for record in results.records[:4]] == [
        PointStatus.OK,
        PointStatus.INFEASIBLE,
        PointStatus.INFEASIBLE,
        PointStatus.INFEASIBLE,
    ]
    memory, chips = results.records[1].infeasible, results.records[2].infeasible
    assert memory is not None and memory.unit == "bytes" and memory.demand > memory.limit == 80_000_000_000
    assert chips is not None and (chips.demand, chips.limit, chips.unit) == (16, 8, "chips")


def test_variant_says_what_it_borrows(results: SweepResults) -> None:
    document: Any = results.breakdown(results.records[0].id)[0]
    notes: list[str] = document["notes"]
    assert "h100_sxm_variant has no measurements: constants of h100_sxm (frameworks_warm) are borrowed" in notes
    assert any("in proportion to SMs and boost clock" in note for note in notes)


def test_fewer_sms_take_longer_for_a_prompt(results: SweepResults) -> None:
    half, whole = results.records[0].metrics, results.records[4].metrics
    assert 1.2 < half["ttft_s"] / whole["ttft_s"] < 2.5


def test_rates_are_maximised_and_drawn_so(results: SweepResults) -> None:
    assert results.objectives == (Objective.TOKENS_PER_S_PER_USER, Objective.TOKENS_PER_S_PER_CHIP)
    assert list(results.on_front()) == [False] * 4 + [True] + [False] * 3
    plot = front_plot(results, commit="abc")
    assert all(axis.is_larger_better for axis in plot.axes)
    assert "chat: isl 512, osl 64, quantisation fp8" in str(plot.caption)


def test_export_and_report_have_the_metrics_of_serving_alone(results: SweepResults) -> None:
    columns = table(results)
    assert {"tpot_s", "chat.tpot_s", "draft.free_bytes"} <= columns.keys()
    assert "energy_pj" not in columns
    assert columns["links.nvlink.bandwidth [bytes/s]"] == [25e9] * 8
    data: Any = page_data(make_report(results, commit="abc"))
    assert data["details"][0][0]["parts"][0][:2] == [0, 0]
    assert data["partNames"][0] == "TTFT, idle"
    assert next(metric["name"] for metric in data["metrics"] if metric["largerIsBetter"]) == "tokens_per_s_per_user"


def test_one_point_is_shown_with_its_parts_and_notes(results: SweepResults, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", "show", str(results.directory), "#0"]) == ExitCode.DONE
    printed = capsys.readouterr()
    assert "\n    attention: " in printed.out
    assert "are borrowed" in printed.err


@pytest.mark.slow
def test_workers_price_and_draw_and_a_layout_that_cannot_be_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = write_spec(tmp_path, SPEC.replace("[66, 132]", "[99]").replace("[1, 16]", "[1, 3]").replace(", 60000", ""))
    out = str(tmp_path / "out")
    assert main(["sweep", "run", str(spec), "-o", out, "--jobs", "1"]) == ExitCode.FAILED_POINTS
    assert "1 ok, 1 failed; 1 on the front" in capsys.readouterr().out
    assert (tmp_path / "out" / "pareto.png").is_file() and (tmp_path / "out" / "report.html").is_file()
    assert main(["sweep", "show", out, "#1"]) == ExitCode.DONE
    assert "tp=3 does not divide the 32 heads of llama3.1_8b" in capsys.readouterr().out


def test_rates_of_a_variant_follow_sms_and_clock() -> None:
    tree = load_tree("h100_sxm")
    base = description_from_tree(tree)
    assert isinstance(base, GpuArch)
    assert variant_from_tree(tree, base, {"sms": 132}).description == base

    def variant(overrides: dict[str, object]) -> GpuArch:
        found = variant_from_tree(tree, base, overrides).description
        assert isinstance(found, GpuArch)
        return found

    halved = variant({"sms": 66})
    assert halved.name == "h100_sxm_variant"
    assert halved.macs_per_cycle("bf16") == pytest.approx(base.macs_per_cycle("bf16"))
    assert halved.vector_units.ops_per_s["fp32"] == base.vector_units.ops_per_s["fp32"] / 2
    slower = variant({"clocks.boost": "915 MHz"})
    assert slower.macs_per_cycle("fp8") == pytest.approx(base.macs_per_cycle("fp8"))
    given = variant({"sms": 66, "tensor_cores.datatypes.bf16.dense": "1200 TFLOP/s"})
    assert given.tensor_cores.datatypes["bf16"].dense_ops_per_s == 1.2e15
    assert variant({"l2.capacity": "100 MiB"}).tensor_cores == base.tensor_cores


def test_variant_of_a_system_keeps_chips_that_did_not_change() -> None:
    tree = load_tree("dgx_h100")
    base = description_from_tree(tree)
    found = variant_from_tree(tree, base, {"links.nvlink.bandwidth": "50 GB/s"}).description
    assert isinstance(found, System) and isinstance(base, System)
    assert (found.name, found.chips) == ("dgx_h100_variant", base.chips)
