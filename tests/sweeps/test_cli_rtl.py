"""`tileloom rtl` without a simulator: traces, functional coverage, and bad input."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tileloom.archdsl import (
    Mapping,
    ProgramImage,
    Region,
    SpatialArch,
    Symbol,
    SymbolRole,
    load_arch,
    load_image,
    make_image,
    parse_notation,
    pe_array,
    save_image,
)
from tileloom.compiler import MappingResult, ProgramBuilder, gemm_image, map_op
from tileloom.models import estimate_op
from tileloom.sweeps.cli import ExitCode, main
from tileloom.sweeps.image_runs import RunOptions, estimate_cycles, load_inputs, random_inputs, replay_image
from tileloom.sweeps.schedules import QUEUES, UNITS, schedule_of

ROOT = Path(__file__).parents[2]
EXAMPLE = str(ROOT / "docs" / "examples" / "programs" / "conv_8x8")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands write below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def image() -> ProgramImage:
    return load_image(EXAMPLE)


def test_trace_writes_chart_numbers_and_events(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["rtl", "trace", EXAMPLE, "-o", "out"]) == ExitCode.DONE
    captured = capsys.readouterr()
    assert captured.out.startswith("The compute unit is busiest: it works in ")
    names = ("schedule.csv", "schedule.png", "schedule.svg", "trace.json")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == list(names)
    rows: list[dict[str, str]] = list(csv.DictReader((tmp_path / "out" / "schedule.csv").open(encoding="utf-8")))
    trace: Any = json.loads((tmp_path / "out" / "trace.json").read_text(encoding="utf-8"))
    slices: list[dict[str, Any]] = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == len(rows) == load_image(EXAMPLE).manifest.num_instructions
    compute = next(event for event in slices if event["name"] == "COMPUTE")
    assert compute["args"]["x_count"] == "10"
    first = rows[int(compute["args"]["instruction"])]
    assert compute["ts"] == int(first["issue_cycle"])
    assert compute["ts"] + compute["dur"] == int(first["end_cycle"])


def test_whatever_a_program_loads_is_drawn(tmp_path: Path) -> None:
    """Also tables, and what an op before has stored."""
    arch = load_arch("tpe_8x8")
    assert isinstance(arch, SpatialArch)
    builder = ProgramBuilder(pe_array(arch))
    roles: list[SymbolRole] = ["input", "output", "weight", "parameter"]
    symbols = [
        Symbol(name=role, role=role, address=256 * idx, shape=(256,), strides_bytes=(1,), element_bits=8)
        for idx, role in enumerate(roles)
    ]
    for idx in range(len(roles)):
        load = {"memory_address": 256 * idx, "local_address": 256 * idx, "rows": 1, "row_beats": 4}
        builder.load(load, gives=False)
    builder.load({"memory_address": 0, "rows": 1, "row_beats": 32, "space": 2}, gives=False)
    builder.fence()
    regions = [Region(name="all", address=0, size_bytes=1024)]
    save_image(make_image(arch, builder.finish(), bytes(1024), symbols, regions=regions, ops=[]), tmp_path / "image")
    assert main(["rtl", "trace", "image", "-o", "out"]) == ExitCode.DONE
    rows: list[dict[str, str]] = list(csv.DictReader((tmp_path / "out" / "schedule.csv").open(encoding="utf-8")))
    assert {"LD input", "LD output", "LD weight", "LD parameter", "LD table"} <= {row["what"] for row in rows}


def test_slices_of_a_track_do_not_overlap(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["rtl", "trace", EXAMPLE, "-o", "out", "--latency", "3"]) == ExitCode.DONE
    events = json.loads((tmp_path / "out" / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    ends: dict[tuple[int, int], int] = {}
    for event in sorted((e for e in events if e["ph"] == "X"), key=lambda e: e["ts"]):
        track = (event["pid"], event["tid"])
        assert event["ts"] >= ends.get(track, 0)
        ends[track] = event["ts"] + event["dur"]
    levels = [event["args"]["instructions"] for event in events if event["ph"] == "C"]
    assert min(levels) == 0


def test_trace_is_the_same_bytes_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["rtl", "trace", EXAMPLE, "-o", name, "--window", "100:300"]) == ExitCode.DONE
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_derived_dispatch_gives_the_occupancy_that_the_replay_counts(image: ProgramImage) -> None:
    found = replay_image(image, RunOptions())
    schedule = schedule_of(image, found)
    for queue in QUEUES:
        waits = sum(s.issue_cycle - s.dispatch_cycle for s in schedule.slices if s.queue == queue)
        assert waits == pytest.approx(found.mean_occupancy[queue] * found.cycles)
    for unit in UNITS:
        assert max(level for _, level in schedule.under_way(unit)) >= 1


def test_functional_coverage_counts_and_names_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rtl", "coverage", EXAMPLE, "--no-lines"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "instruction x length" in out
    assert "not met: queue x stall cause: execute / bank taken, store / bank taken" in out
    assert main(["rtl", "coverage", EXAMPLE, EXAMPLE, "--no-lines", "--json"]) == ExitCode.DONE
    found: Any = json.loads(capsys.readouterr().out)
    assert found["lines"] is None
    groups = {group["group"]: group for group in found["functional"]}
    assert ["COMPUTE", "8-63"] not in groups["instruction x length"]["missing"]
    assert ["COMPUTE", "1"] in groups["instruction x length"]["missing"]
    assert ["8", "both"] not in groups["stored format x saturation"]["missing"]
    assert all(group["num_covered"] + len(group["missing"]) == group["num_bins"] for group in groups.values())


def test_area_is_modelled_block_by_block(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rtl", "area", "--arch", "tpe_16x16", "--no-synthesis"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["block", "modelled", "[um^2]", "Yosys", "[um^2]", "ratio"]
    assert main(["rtl", "area", "--arch", "tpe_16x16", "--no-synthesis", "--json"]) == ExitCode.DONE
    found: Any = json.loads(capsys.readouterr().out)
    blocks = {row["block"]: row["modelled_um2"] for row in found["blocks"]}
    assert blocks["pe_array"] == pytest.approx(blocks["mac"] + blocks["register"] + blocks["pe_pipeline"])
    assert blocks["post_processing"] == pytest.approx(blocks["lanes"] + blocks["store_unit"])
    assert blocks["total"] == pytest.approx(blocks["pe_array"] + blocks["post_processing"])
    assert {row["synthesised_um2"] for row in found["blocks"]} == {None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rtl", "run", "nothing"], "nothing: no such folder; a program image is a folder with manifest.json"),
        (["rtl", "trace", EXAMPLE, "-o", "x", "--window", "9:3"], "'9:3' is not FROM:TO"),
        (["rtl", "trace", EXAMPLE, "-o", "x", "--window", "90000:90001"], "the program ends at cycle"),
        (["rtl", "trace", EXAMPLE, "-o", "x", "--max-cycles", "50"], "did not end within 50 cycles"),
        (["rtl", "run", EXAMPLE, "--static", "--jitter-seed", "1"], "--static and --jitter-seed exclude each other"),
        (["rtl", "run", EXAMPLE, "-o", "out.bin"], "'out.bin' must end in .npz"),
        (["rtl", "run", EXAMPLE, "--input", "no.npz"], "no.npz"),
        (["rtl", "lint", "--arch", "h100_sxm"], "h100_sxm is of kind gpu; the RTL is of kind spatial"),
        (["rtl", "build", "--arch", "ref16"], "ref16 is no tensor PE array"),
        (["rtl", "area", "--arch", "ref16"], "ref16 is no tensor PE array"),
    ],
)
def test_bad_input_exits_with_2_and_an_empty_answer(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(arguments) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_inputs_are_checked_by_name(image: ProgramImage, tmp_path: Path) -> None:
    given = random_inputs(image, 3)
    np.savez(tmp_path / "good.npz", allow_pickle=False, **given)
    assert (load_inputs(image, tmp_path / "good.npz")["input"] == given["input"]).all()
    np.savez(tmp_path / "other.npz", allow_pickle=False, inptu=given["input"])
    with pytest.raises(Exception, match="'inptu' is no input of the program; did you mean 'input'"):
        load_inputs(image, tmp_path / "other.npz")
    np.savez(tmp_path / "none.npz")
    with pytest.raises(Exception, match="lacks the input input; it has nothing"):
        load_inputs(image, tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("no", encoding="utf-8")
    with pytest.raises(Exception, match=r"text\.npz: no \.npz file"):
        load_inputs(image, tmp_path / "text.npz")


def test_estimate_needs_a_mapping_or_a_prediction(image: ProgramImage) -> None:
    assert estimate_cycles(image) is None
    arch = load_arch("tpe_8x8")
    assert isinstance(arch, SpatialArch)
    weights = np.zeros((8, 8), dtype=np.int8)
    assert estimate_cycles(gemm_image(arch, 8, weights, predicted_cycles=321.0)) == 321.0
    op = replace(parse_notation("gemm:M=8,N=8,K=8,bits=8,acc_bits=32"), name="gemm")
    found = map_op(op, arch)
    assert isinstance(found, MappingResult)
    mapping: Mapping = found.mapping
    priced = estimate_op(op, mapping, arch, fidelity="detailed").latency_cycles
    assert estimate_cycles(gemm_image(arch, 8, weights, mapping=mapping)) == priced
