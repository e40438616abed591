"""`tileloom estimate` on GPUs, and sweeps of networks on them: totals, tables, JSON, and options that do not apply."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tileloom.compiler import load_workload
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.engine import run_sweep
from tileloom.sweeps.execution import SerialExecutor
from tileloom.sweeps.loading import load_sweep
from tileloom.sweeps.pricers import pricer_of
from tileloom.sweeps.progress import SilentProgress
from tileloom.sweeps.report.data import page_data
from tileloom.sweeps.report.from_sweep import make_report
from tileloom.sweeps.store import SweepResults

from .sweep_case import write_spec

BLOCK = ("estimate", "transformer_block:dtype=fp16,hidden=256,heads=4,seq=64", "--arch", "h100_sxm")
CALIBRATED = ("--mode", "calibrated", "--calibration", "own_cold")


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command line."""
    status = main(argv)
    out, err = capsys.readouterr()
    return status, out, err


def amount_of(part: Any) -> float:
    """A part's amount as its parts give it: the longest of those that overlap, else the sum."""
    if "parts" not in part:
        return part["amount"]
    return {"sum": sum, "max": max}[part["rule"]]([amount_of(below) for below in part["parts"]])


def test_totals_follow_from_the_kernels(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, *BLOCK, *CALIBRATED, "--json")
    assert status == ExitCode.DONE
    found: dict[str, Any] = json.loads(out)
    kernels, total = found["kernels"], found["total"]
    assert (found["schema_version"], found["mode"], found["calibration"]) == (1, "calibrated", "own_cold")
    for name in ("latency_s", "energy_pj", "macs", "main_memory_bytes"):
        assert total[name] == pytest.approx(sum(kernel[name] * kernel["count"] for kernel in kernels))
    assert total["power_w"] == pytest.approx(total["energy_pj"] * 1e-12 / total["latency_s"])
    for kernel in kernels:
        assert amount_of(kernel["latency_parts"]) == pytest.approx(kernel["latency_s"])
        assert kernel["regime"] in ("compute", "memory", "latency")


def test_table_names_kernels_and_regimes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *BLOCK, *CALIBRATED)
    assert status == ExitCode.DONE
    assert "fp16 64x256x256" in out and "latency bound" in out
    assert "distinct ops in 12 kernels; constants: calibration own_cold" in out
    assert "note: scores: attention: one FlashAttention 2 kernel in place of 4 ops" in err


def test_overridden_chip_borrows_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, *BLOCK, *CALIBRATED, "--set", "sms=66")
    assert status == ExitCode.DONE
    assert "on h100_sxm_variant" in out
    assert "h100_sxm_variant has no measurements: constants of h100_sxm (own_cold) are borrowed" in err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((*BLOCK, "--objective", "edp"), "--objective: h100_sxm is of kind gpu, which has no use for it"),
        ((*BLOCK[:3], "ref16", "--mode", "datasheet"), "--mode: ref16 is of kind spatial, which has no use for it"),
        ((*BLOCK[:3], "dgx_h100"), "estimate on one of its chips, or serve a language model on it"),
        ((*BLOCK, "--calibration", "own_cold"), "calibration 'own_cold' needs mode calibrated"),
        ((*BLOCK, "--mode", "calibrated"), "h100_sxm: which calibration? There are frameworks_warm, own_cold, "),
    ],
)
def test_what_does_not_apply_exits_with_2(
    argv: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, err = run(capsys, *argv)
    assert (status, out) == (ExitCode.BAD_INPUT, "")
    assert message in " ".join(err.split())


SPEC = """\
    schema_version: 1
    name: kernels
    base: h100_sxm
    workloads:
      - {workload: "gemm:M=4096,N=4096,K=4096,datatype=bf16", name: large}
      - {workload: "gemm:M=16,N=4096,K=4096,datatype=bf16", name: small}
    space:
      sms: [66, 132]
      main_memory.bandwidth: [2 TB/s, 3350 GB/s]
    constraints: ["main_memory.bandwidth <= 4 TB/s", "power_w <= 2000"]
    objectives: [latency, energy]
    constants: {mode: calibrated, calibration: own_cold}
"""


def test_sweep_over_a_gpu_has_the_numbers_of_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = load_sweep(write_spec(tmp_path, SPEC), load_workload)
    run_sweep(sweep, tmp_path / "out", pricer_of(sweep.pricing), SerialExecutor, SilentProgress())
    results = SweepResults.load(tmp_path / "out")
    record = results.records[3]
    documents = [
        json.loads(run(capsys, "estimate", entry.workload, "--arch", "h100_sxm", *CALIBRATED, "--json")[1])
        for entry in sweep.spec.workloads
    ]
    for name in ("latency_s", "energy_pj", "main_memory_bytes", "macs"):
        assert record.metrics[name] == sum(document["total"][name] for document in documents)
    assert results.breakdown(record.id)[0]["kernels"] == documents[0]["kernels"]
    latencies = [r.workload_metrics["small"]["latency_s"] for r in results.records]
    assert latencies[2] > latencies[3], "less bandwidth is slower where memory limits"
    data: Any = page_data(make_report(results, commit="abc"))
    assert data["partNames"] == ["latency", "gemm", "energy"]
    assert main(["sweep", "show", str(tmp_path / "out"), "#3"]) == ExitCode.DONE
    assert "bf16 4096x4096x4096" in capsys.readouterr().out
