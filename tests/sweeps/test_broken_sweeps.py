"""Broken sweep files: every fault of a file at once, with its line, column, message and exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from tileloom.archdsl import SweepError
from tileloom.compiler import load_workload
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.loading import load_sweep

FOLDER = Path(__file__).parent / "broken"

# Per file its faults as `line:column: path: message`.
FAULTS: dict[str, list[str]] = {
    "bad_constraint.yaml": [
        "8:5: constraints.0: 'area_mm' is neither a metric nor a number of the architecture; did you mean 'area_mm2'?",
        "9:6: constraints.1: 'hierarchy.scratchpad.capacity + 1 KiB' is not a comparison; write one such as 'area_mm2 <= 20'",
        "10:5: constraints.2: '__import__('os').system('true')' is not allowed in a constraint; there are + - * / // % **, < <= > >= == !=, and, or, not, parentheses and min, max, abs, ceil, floor, log2",
    ],
    "bad_range.yaml": [
        "6:52: space.hierarchy.scratchpad.capacity.to: 'to' is below 'from'; swap them",
        "7:10: space.clock: a range takes one of 'step', 'log_steps' and 'factor', and has none",
    ],
    "bad_values.yaml": [
        "6:43: space.hierarchy.scratchpad.capacity: 128 has no unit; write '128 B'",
        "6:48: space.hierarchy.scratchpad.capacity: unknown unit 'KB' (capacity, e.g. '64 KiB'); did you mean 'KiB'?",
        "7:38: space.hierarchy.pe_array.axes.rows.size: must be at least 1, not 0",
    ],
    "everything.yaml": [
        "1:17: schema_version: unknown value 2; known are 1",
        "2:7: name: '9 lives' is not a name; names are letters, digits and '_' and start with a letter",
        "4:12: workloads: needs at least 1 entry, not 0",
        "6:18: space.clock.1: '1 GHz' is given twice; the first is element 0",
        "7:35: space.hierarchy.scratchpad.banks: must be at least 1, not 0",
        "8:29: constraints.0: unknown unit 'kJ' in '3 kJ'; known are B, KiB, MiB, GiB, TiB, kB, MB, GB, ...",
        "9:45: sampler.population: must be at least 4, not 2",
        "10:1: colour: unknown field; known are schema_version, name, description, base, workloads, space, constraints, objectives, mapping, constants, sampler",
    ],
    "gpu_base.yaml": [
        "6:3: space.clock: unknown field; did you mean 'clocks'?",
        "7:10: mapping: `mapping` is for networks on spatial architectures; designs priced by kernels do not read it: leave it out",
        "8:14: objectives.0: designs priced by kernels have no 'area'; known are energy, latency, edp, main_memory_bytes, power_w",
    ],
    "missing_fields.yaml": [
        "1:1: name: missing field 'name' (name of the sweep, in reports and as the output directory)",
        "1:1: workloads: missing field 'workloads' (workloads; metrics are sums over them, of served models the worst)",
    ],
    "missing_workload.yaml": [
        "6:5: workloads.1: networks/none.onnx: no such file; check the path",
        "7:49: workloads.2.shapes.batch: must be at least 1, not 0",
        "8:5: workloads.3: conv:B=1,Q=3: unknown key; known are B, G, K, C, OX, FX, stride, stride_x, dilation, dilation_x, bits, acc_bits, ...",
    ],
    "not_yaml.yaml": [
        "5:1: not valid YAML: expected ',' or ']', but got '<scalar>' while parsing a flow sequence",
    ],
    "same_names.yaml": [
        "6:5: workloads.1: workloads.0 and this one are both named 'small'; give one another `name`",
    ],
    "seed_missing.yaml": [
        "7:10: sampler.seed: missing field 'seed' (seed; the same seed draws the same points, and more `points` only add to them)",
    ],
    "served.yaml": [
        "3:7: base: 'ref16' is of kind spatial; language models are served on GPUs and systems of them",
        "4:1: workloads: some workloads have `serve` and some have not; language models and networks need sweeps of their own",
        "5:56: workloads.0.serve.concurency: unknown field; did you mean 'concurrency'?",
        "6:55: workloads.1.serve.osl: must be at least 2, not 1",
        "9:10: mapping: `mapping` is for networks on spatial architectures; designs priced by serving do not read it: leave it out",
        "10:14: objectives.0: designs priced by serving have no 'energy'; known are latency, power_w, ttft_s, ttft_queued_s, ttft_open_s, tpot_s, tpot_open_s, tokens_per_s, tokens_per_s_per_user, tokens_per_s_per_chip, joules_per_token, free_bytes, num_chips",
    ],
    "served_space.yaml": [
        "7:3: space.workloads.chat.workload: of a workload, fields of its `serve` can be swept, as workloads.NAME.serve.tp",
        "8:3: space.workloads.chat.serve.tpp: unknown field; did you mean 'tp'?",
        "9:38: space.workloads.chat.serve.concurrency: must be at least 1, not 0",
        "10:3: space.workloads.talk.serve.tp: workloads has no element 'talk'; known are chat",
        "11:3: space.links.nvlink.bandwith: unknown field; did you mean 'bandwidth'?",
        "13:5: constraints.0: designs priced by serving have no 'area_mm2'; known are ttft_s, ttft_queued_s, ttft_open_s, tpot_s, tpot_open_s, latency_s, tokens_per_s_per_user, tokens_per_s_per_chip, tokens_per_s, requests_per_s, power_w, joules_per_token, free_bytes, num_chips",
        "14:31: constraints.1: '4 B/cycle' is a bandwidth per cycle; constraints on GPUs and systems see bandwidths in B/s",
        "15:26: constants.calibration: mode datasheet fits nothing; add `mode: calibrated`, or leave this out",
    ],
    "swept_twice.yaml": [
        "7:3: space.hierarchy.1.capacity: this is the field that 'hierarchy.scratchpad.capacity' sweeps on line 6",
    ],
    "unknown_base.yaml": [
        "3:7: base: unknown preset 'ref17'; did you mean 'ref16'? (a file's name ends in .yaml)",
    ],
    "unknown_field.yaml": [
        "7:1: objectves: unknown field; did you mean 'objectives'?",
    ],
    "unknown_objective.yaml": [
        "7:22: objectives.1: unknown value 'latncy'; did you mean 'latency'?",
        "8:40: mapping.fidelity: unknown value 'exact'; known are throughput, detailed",
    ],
    "unknown_path.yaml": [
        "6:3: space.hierarchy.scratchpad.capcity: unknown field; did you mean 'capacity'?",
        "7:3: space.hierarchy.scrachpad.capacity: hierarchy has no element 'scrachpad'; did you mean 'scratchpad'?",
    ],
    "unknown_sampler.yaml": [
        "7:17: sampler.kind: unknown kind 'nsga'; did you mean 'nsga2'?",
    ],
}


def test_every_broken_file_is_listed() -> None:
    assert sorted(path.name for path in FOLDER.glob("*.yaml")) == sorted(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_broken_file_reports_all_its_faults_in_place(name: str) -> None:
    with pytest.raises(SweepError) as caught:
        load_sweep(FOLDER / name, load_workload)
    found = [
        f"{fault.line}:{fault.column}: {fault.path}: {fault.message}"
        if fault.path
        else f"{fault.line}:{fault.column}: {fault.message}"
        for fault in caught.value.diagnostics
    ]
    assert found == FAULTS[name]
    lines = (FOLDER / name).read_text(encoding="utf-8").splitlines()
    for fault in caught.value.diagnostics:
        assert fault.file == str(FOLDER / name)
        assert fault.source_line == lines[fault.line - 1]


@pytest.mark.parametrize("name", FAULTS)
def test_running_a_broken_file_exits_with_2_and_runs_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sweep", "run", str(FOLDER / name), "-o", str(tmp_path / "out")]) == ExitCode.BAD_INPUT
    printed = capsys.readouterr()
    assert printed.out == ""
    assert f"{FOLDER / name}:{FAULTS[name][0].partition(' ')[0]}" in printed.err
    assert not (tmp_path / "out").exists()


def test_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=r"none\.yaml: cannot read the file: No such file or directory"):
        load_sweep(tmp_path / "none.yaml", load_workload)


def test_faults_of_the_base_are_reported_where_they_stand(tmp_path: Path) -> None:
    (tmp_path / "array.yaml").write_text("extends: ref16\nclock: 1\n", encoding="utf-8")
    spec = tmp_path / "sweep.yaml"
    spec.write_text(
        "schema_version: 1\nname: x\nbase: array.yaml\nworkloads: [net]\nspace: {clock: []}\n", encoding="utf-8"
    )
    with pytest.raises(SweepError) as caught:
        load_sweep(spec, load_workload)
    found = [(Path(d.file).name, d.line, d.column, d.path) for d in caught.value.diagnostics]
    assert found == [
        ("sweep.yaml", 4, 13, "workloads.0"),
        ("sweep.yaml", 5, 16, "space.clock"),
        ("array.yaml", 2, 8, "clock"),
    ]
