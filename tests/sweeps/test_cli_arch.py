"""`tileloom arch`: exit codes, stdout, stderr, and the examples in its help."""

from __future__ import annotations

import csv
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import SpatialArch, list_presets, list_systems, load_arch, reference_markdown
from tileloom.sweeps.cli import main

VERBS = ("check", "show", "list", "schema", "diff")

BROKEN = """\
schema_version: 1
kind: spatial
name: broken
clok: 1 GHz
technology: {node: 45 nm, source: table 1}
source: table 1
hierarchy:
  - kind: memory
    name: main_memory
    class: main_memory
    capacity: unbounded
    read_bandwidth: 16
    write_bandwidth: 16 B/cycle
    source: table 1
  - {kind: compute, name: mac, datatypes: {int9: {}}}
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write below the working directory."""
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command line."""
    status = main(argv)
    out, err = capsys.readouterr()
    return status, out, err


def run_json(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    status, out, _ = run(capsys, *argv)
    assert status == 0
    return json.loads(out)


def help_examples(capsys: pytest.CaptureFixture[str], *verb: str) -> list[str]:
    _, out, _ = run(capsys, "arch", *verb, "--help")
    return [line.strip() for line in out.partition("Examples:")[2].splitlines() if line.strip()]


def test_check_accepts_every_preset(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "arch", "check", *list_presets())
    assert status == 0
    assert err == ""
    assert [line.partition(": ok")[0] for line in out.splitlines()] == list(list_presets())
    assert "eyeriss_v1: ok (spatial, 168 PEs)" in out
    assert "h100_sxm: ok (gpu, 132 SMs)" in out


def test_check_prints_every_fault_with_its_place_and_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.yaml").write_text(BROKEN, encoding="utf-8")
    status, out, err = run(capsys, "arch", "check", "broken.yaml", "ref16")
    assert status == 2
    assert out == "ref16: ok (spatial, 256 PEs)\n"
    heads = [line for line in err.splitlines() if line.startswith("broken.yaml:")]
    assert heads == [
        "broken.yaml:4:1: clok: unknown field; did you mean 'clock'?",
        "broken.yaml:12:21: hierarchy.0.read_bandwidth: 16 has no unit; write '16 B/cycle'",
        "broken.yaml:15:44: hierarchy.1.datatypes.int9: unknown datatype 'int9'; did you mean 'int8'?",
    ]
    assert "        read_bandwidth: 16\n                        ^\n" in err
    assert err.endswith("error: 3 faults in 1 of 2 files\n")


def test_check_json_lists_the_faults(capsys: pytest.CaptureFixture[str]) -> None:
    Path("broken.yaml").write_text(BROKEN, encoding="utf-8")
    status, out, _ = run(capsys, "arch", "check", "broken.yaml", "ref16", "--json")
    assert status == 2
    record = json.loads(out)
    assert record["schema_version"] == 1
    assert [(f["file"], f["ok"], len(f["faults"])) for f in record["files"]] == [
        ("broken.yaml", False, 3),
        ("ref16", True, 0),
    ]
    fault = record["files"][0]["faults"][1]
    assert (fault["line"], fault["column"], fault["path"]) == (12, 21, "hierarchy.0.read_bandwidth")


def test_check_names_the_nearest_preset(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "arch", "check", "eyeris_v1")
    assert (status, out) == (2, "")
    assert "unknown preset 'eyeris_v1'; did you mean 'eyeriss_v1'?" in err


def test_check_applies_overrides(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "arch", "check", "ref16", "--set", "hierarchy.scratchpad.capacity=64 KiB")[0] == 0
    status, _, err = run(capsys, "arch", "check", "ref16", "--set", "hierarchy.scratchpad.capacity=64")
    assert status == 2
    assert "64 has no unit; write '64 B'" in err


def test_list_prints_one_row_per_preset(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "arch", "list")
    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    presets, systems = list(list_presets()), list(list_systems())
    assert [row[0] for row in rows[2 : 2 + len(presets)]] == presets
    assert [row[0] for row in rows[4 + len(presets) :]] == systems
    assert ["dgx_a100", "8", "x", "a100_sxm", "nvlink", "25", "GB/s", "switch", "nccl,", "custom_allreduce"] in rows
    assert [
        "tpu_v1",
        "spatial",
        "65,536",
        "PEs",
        "91.8",
        "Tops/s",
        "int8",
        "28.4",
        "MiB",
        "32.2",
        "GB/s",
        "28",
        "nm",
    ] in rows


def test_list_json_has_the_figures_in_base_units(capsys: pytest.CaptureFixture[str]) -> None:
    record = run_json(capsys, "arch", "list", "--json")
    assert record["schema_version"] == 1
    h100 = next(preset for preset in record["presets"] if preset["name"] == "h100_sxm")
    assert (h100["num_units"], h100["unit"], h100["main_memory_bytes_per_s"]) == (132, "SM", 3.35e12)
    assert h100["peak_ops_per_s"]["bf16"] == 989.4e12
    node = next(system for system in record["systems"] if system["name"] == "dgx_h100")
    assert node["chips"] == {"gpu": {"arch": "h100_sxm", "count": 8}}
    assert node["links"] == [{"name": "nvlink", "bytes_per_s": 25e9, "latency_s": pytest.approx(0.2e-6)}]


def test_show_prints_a_table_and_draws(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "arch", "show", "eyeriss_v1")
    assert status == 0
    assert "168 PEs at 200 MHz, node 65 nm" in out
    assert "448 B each, 73.5 KiB in all" in out
    assert "! = a mapping may not bypass this level" in out
    stem = os.path.join("results", "arch", "eyeriss_v1")
    assert err == f"wrote {stem}.png, {stem}.svg, {stem}.csv\n"
    assert Path(f"{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in Path(f"{stem}.svg").read_text(encoding="utf-8")
    rows = list(csv.DictReader(Path(f"{stem}.csv").read_text(encoding="utf-8").splitlines()))
    arch = load_arch("eyeriss_v1")
    assert isinstance(arch, SpatialArch)
    assert [row["name"] for row in rows] == [node.name for node in arch.hierarchy]
    assert rows[3]["axes"] == "rows=12 cols=14"


def test_show_without_figure_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "arch", "show", "ref16", "--no-figure")
    assert (status, err) == (0, "")
    assert list(Path().iterdir()) == []


def test_show_draws_where_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "arch", "show", "b200", "-o", "deep/figure.v1")[0] == 0
    assert sorted(path.name for path in Path("deep").iterdir()) == ["figure.v1.csv", "figure.v1.png", "figure.v1.svg"]


def test_show_yaml_loads_back_equal(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(
        capsys, "arch", "show", "gemmini_16x16", "--yaml", "--no-figure", "--set", "parameters.rows=32"
    )  # fmt: skip
    assert status == 0
    Path("resolved.yaml").write_text(out, encoding="utf-8")
    assert load_arch("resolved.yaml") == load_arch("gemmini_16x16", {"parameters.rows": 32})


def test_show_json_holds_blocks_and_totals(capsys: pytest.CaptureFixture[str]) -> None:
    record = run_json(
        capsys, "arch", "show", "ref16", "--json", "--no-figure", "--set", "hierarchy.scratchpad.keeps=[input, weight]"
    )  # fmt: skip
    assert record["schema_version"] == 1
    assert record["totals"]["num_units"] == 256
    scratchpad = next(block for block in record["blocks"] if block["name"] == "scratchpad")
    assert (scratchpad["keeps"], scratchpad["capacity_bytes"]) == (["input", "weight"], 256 * 1024)
    assert record["arch"]["hierarchy"][1]["keeps"] == ["input", "weight"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--set", "hierarchy.scratchpad.capacty=5 KiB"), "unknown field; did you mean 'capacity'?"),
        (("--set", "hierarchy.scratchpd.capacity=5 KiB"), "has no element 'scratchpd'; did you mean 'scratchpad'?"),
        (("--set", "capacity"), "'capacity' is not PATH=VALUE"),
        (("--set", "name=a", "--set", "name=b"), "'name' is set twice"),
        (("--set", "name=[a"), "--set name"),
        (("--yaml", "--json"), "--yaml and --json exclude each other"),
        (("--no-figure", "-o", "x"), "--no-figure and --output exclude each other"),
        (("--colour",), "No such option: --colour"),
    ],
)
def test_bad_use_of_show_exits_with_2(capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], message: str) -> None:
    status, out, err = run(capsys, "arch", "show", "ref16", *argv)
    assert (status, out) == (2, "")
    assert message in err


def test_show_into_a_file_in_the_way_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    Path("results").write_text("", encoding="utf-8")
    status, _, err = run(capsys, "arch", "show", "ref16")
    assert status == 2
    assert "results" in err.splitlines()[-1]


def test_schema_is_json_schema_of_both_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    schema = run_json(capsys, "arch", "schema")
    assert {"SpatialArch", "GpuArch"} <= set(schema["$defs"])
    assert "System" in run_json(capsys, "arch", "schema", "--system")["$defs"]


def test_schema_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    printed = run_json(capsys, "arch", "schema")
    status, out, err = run(capsys, "arch", "schema", "--output", "made/arch.schema.json")
    assert (status, out) == (0, "")
    assert err == f"wrote {Path('made', 'arch.schema.json')}\n"
    assert json.loads(Path("made/arch.schema.json").read_text(encoding="utf-8")) == printed


def test_reference_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "arch", "schema", "--markdown", "--output", "made/reference.md")
    assert (status, out) == (0, "")
    assert Path("made/reference.md").read_text(encoding="utf-8") == reference_markdown()
    assert run(capsys, "arch", "schema", "--markdown", "--system")[0] == 2


def test_diff_prints_changed_paths_with_both_values(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "arch", "diff", "h100_sxm", "h200_sxm")
    assert status == 0
    assert [line.split() for line in out.splitlines()[2:]] == [
        ["name", "h100_sxm", "h200_sxm"],
        ["main_memory.capacity", "78125000", "KiB", "141000000000", "B"],
        ["main_memory.bandwidth", "3.35", "TB/s", "4.8", "TB/s"],
        ["main_memory.dram", "hbm3", "hbm3e"],
    ]
    assert "sources, notes and descriptions not shown; see --all" in err
    _, everything, _ = run(capsys, "arch", "diff", "h100_sxm", "h200_sxm", "--all")
    assert "main_memory.source" in everything


def test_diff_names_elements_and_reports_a_missing_node_once(capsys: pytest.CaptureFixture[str]) -> None:
    record = run_json(capsys, "arch", "diff", "ref16", "gemmini_16x16", "--json")
    found = {d["path"]: (d["left"], d["right"]) for d in record["differences"]}
    assert found["hierarchy.scratchpad.banks"] == ("1", "4")
    assert found["hierarchy.pe_array.axes.cols.network"] == ("broadcast", "systolic")
    assert found["hierarchy.accumulator"] == (None, "memory")
    assert not any(path.startswith("hierarchy.accumulator.") for path in found)
    assert found["hierarchy.main_memory.read_energy"] == ("64 pJ/B", None)


def test_diff_of_equals_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "arch", "diff", "ref16", "ref16") == (0, "ref16 and ref16 do not differ\n", "")


def test_diff_sees_only_what_a_model_reads(capsys: pytest.CaptureFixture[str]) -> None:
    Path("other.yaml").write_text("extends: ref16\nnotes: other\n", encoding="utf-8")
    status, out, err = run(capsys, "arch", "diff", "ref16", "other.yaml")
    assert (status, out) == (0, "ref16 and other.yaml do not differ in anything that a model reads\n")
    assert err == "1 difference in sources, notes and descriptions not shown; see --all\n"


def test_quiet_prints_the_answer_only(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, "arch", "show", "ref16", "-q")
    assert (status, err) == (0, "")
    assert out.startswith("ref16 (spatial)")


@pytest.mark.parametrize("verb", [(), *((verb,) for verb in VERBS)])
def test_help_ends_with_two_examples_that_run(capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]) -> None:
    commands = help_examples(capsys, *verb)
    assert len(commands) == 2
    for command in commands:
        program, *argv = shlex.split(command)
        assert program == "tileloom"
        assert main(argv) == 0, command


@pytest.mark.parametrize("verb", VERBS)
def test_help_names_long_flags_for_every_option(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    _, out, _ = run(capsys, "arch", verb, "--help")
    options = [line.split() for line in out.splitlines() if line.startswith("  -")]
    assert options
    assert all(any(word.startswith("--") for word in words) for words in options)
