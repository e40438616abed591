"""`tileloom validate` and `tileloom calibrate`: numbers, files, and what they refuse."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import cast

import pytest

from tileloom.archdsl import GpuArch, load_arch
from tileloom.models.validation import is_held_back
from tileloom.sweeps.cli import ExitCode, main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "measurements" / "h100_gemm.csv"
SLICE = ROOT / "tests" / "data" / "h100_sxm"


def document(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> dict[str, object]:
    """What `validate --json` prints."""
    assert main(["-q", "validate", *map(str, arguments), "--json"]) == ExitCode.DONE
    return json.loads(capsys.readouterr().out)


def number(document: dict[str, object], key: str) -> float:
    value = document[key]
    assert isinstance(value, int | float)
    return float(value)


def test_calibrated_gemms_are_within_the_stated_error_on_shapes_that_no_fit_has_seen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, EXAMPLE, "--arch", "h100_sxm")
    with EXAMPLE.open(encoding="utf-8") as file:
        shapes = [f"{row['dtype']} {row['m']}x{row['n']}x{row['k']}" for row in csv.DictReader(file)]
    assert (found["mode"], found["calibration"], found["rows"]) == ("calibrated", "own_cold", "held_back")
    assert found["n"] == sum(is_held_back(shape) for shape in shapes)
    assert number(found, "mape") < 7
    assert number(found, "median_ape") < 5
    assert abs(number(found, "signed_bias")) < 5


def test_the_data_sheet_alone_is_within_twelve_percent(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, EXAMPLE, "--arch", "h100_sxm", "--mode", "datasheet")
    assert (found["n"], found["calibration"], found["rows"]) == (72, "", "all")
    assert number(found, "mape") < 12


@pytest.mark.parametrize("table", ["attention", "memory", "block", "energy"])
def test_tables_of_every_kind_are_told_by_their_columns(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, SLICE / f"{table}.csv", "--arch", "h100_sxm", "--rows", "all")
    assert number(found, "mape") < 20
    regimes = cast("dict[str, object]", found["by_regime"])
    assert set(regimes) <= {"compute", "memory", "latency", "small", "large"}


def test_text_shows_regimes_and_the_worst_rows_with_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-q", "validate", str(EXAMPLE), "--arch", "h100_sxm", "--worst", "3"]) == ExitCode.DONE
    text = capsys.readouterr().out
    assert "calibrated (own_cold), rows held back from the fit" in text
    assert "memory bound" in text
    lines = text.rstrip().splitlines()
    assert len(lines[lines.index(next(line for line in lines if line.startswith("line "))) :]) == 4
    assert "tile " in lines[-1]
    assert "main loop" in lines[-1]


def test_ways_to_make_a_shape_are_ranked_per_shape(capsys: pytest.CaptureFixture[str]) -> None:
    table = SLICE / "triton_gemm.csv"
    found = document(capsys, table, "--arch", "h100_sxm")
    assert (found["calibration"], found["rows"], found["n"]) == ("triton", "held_back", 85)
    rankings = cast("list[dict[str, object]]", found["rankings"])
    assert [(one["label"], one["is_held_back"]) for one in rankings] == [("bf16 1000x2000x3000", True)]
    assert set(rankings[0]) >= {"n", "rank_correlation", "regret_percent", "first_choice", "fastest"}
    assert main(["-q", "validate", str(table), "--arch", "h100_sxm", "--rows", "all", "--worst", "0"]) == ExitCode.DONE
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("bf16 ")]
    assert len(lines) == 5
    assert any(line.startswith("bf16 1000x2000x3000, held back") for line in lines)


def test_plots_go_to_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document(capsys, EXAMPLE, "--arch", "h100_sxm", "-o", str(tmp_path))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".csv", ".png", ".svg"]
    with next(tmp_path.glob("*.csv")).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert all(float(row["measured_s"]) > 0 and float(row["predicted_s"]) > 0 for row in rows)


def test_a_chip_without_measurements_borrows_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, EXAMPLE, "--arch", "h200_sxm", "--calibration", "own_cold")
    notes = found["notes"]
    assert isinstance(notes, list)
    assert "h200_sxm has no measurements: constants of h100_sxm (own_cold) are borrowed" in notes


def test_calibrate_writes_a_description_whose_set_validates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    command = ["calibrate", str(EXAMPLE), "--arch", "h100_sxm", "--name", "mine", "--constants", "memory_efficiency"]
    assert main(["-q", *command, "-o", str(path), "--json"]) == ExitCode.DONE
    fit = json.loads(capsys.readouterr().out)
    assert 0.5 <= fit["constants"]["memory_efficiency"] <= 1
    arch = load_arch(path)
    assert isinstance(arch, GpuArch)
    assert arch.calibrations["mine"].constants == fit["constants"]
    assert {"mine", "own_cold"} <= set(arch.calibrations)
    datasheet = document(capsys, EXAMPLE, "--arch", path, "--mode", "datasheet", "--rows", "held_back")
    calibrated = document(capsys, EXAMPLE, "--arch", path, "--calibration", "mine")
    assert calibrated["rows"] == "held_back"
    assert number(calibrated, "mape") < number(datasheet, "mape")


def test_fit_of_a_file_extends_that_file_from_where_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("extends: h100_sxm\nname: own\nmain_memory: {bandwidth: 5 TB/s}\n", encoding="utf-8")
    fit = ["calibrate", str(EXAMPLE), "--arch", "own.yaml", "--name", "mine", "--constants", "memory_efficiency"]
    assert main([*fit, "-o", "out/fitted.yaml"]) == ExitCode.DONE
    assert 'extends: "../own.yaml"' in capsys.readouterr().out
    fitted = load_arch("out/fitted.yaml")
    assert isinstance(fitted, GpuArch)
    assert "mine" in fitted.calibrations


def test_constants_of_a_set_that_are_not_fitted_stay_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load_arch("h100_sxm")
    assert isinstance(before, GpuArch)
    known = before.calibrations["own_cold"]
    path = tmp_path / "fitted.yaml"
    command = [
        "calibrate",
        str(EXAMPLE),
        "--arch",
        "h100_sxm",
        "--name",
        "own_cold",
        "--constants",
        "memory_efficiency",
    ]
    assert main(["-q", *command, "-o", str(path)]) == ExitCode.DONE
    capsys.readouterr()
    after = load_arch(path)
    assert isinstance(after, GpuArch)
    found = after.calibrations["own_cold"]
    assert list(found.constants) == list(known.constants)
    assert {key for key, value in found.constants.items() if value != known.constants[key]} == {"memory_efficiency"}
    assert {**known.files, **found.files} == found.files
    assert known.data.strip() in found.data


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--name", "mine", "--constants", "gather_efficiency"),
            "gather_efficiency: changes no row of these tables; fit",
        ),
        (("--name", "mine", "--constants", "gather"), "unknown constant 'gather'"),
        (("--name", "own_cold", "--constants", "split_launches"), "calibration 'own_cold' would have 13 constants"),
        (("--name", "my set"), "'my set' is no name of a calibration; write letters, digits and _"),
        ((str(EXAMPLE), "--name", "mine"), "the same table is given twice"),
    ],
)
def test_fits_that_would_mean_nothing_are_refused(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibrate", str(EXAMPLE), "--arch", "h100_sxm", *arguments]) == ExitCode.BAD_INPUT
    assert said in capsys.readouterr().err


def test_own_table_needs_neither_least_times_nor_notes_and_may_begin_with_a_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("dtype,m,n,k,median_us\r\nbf16,1,4096,4096,16\r\n", encoding="utf-8-sig")
    assert number(document(capsys, path, "--arch", "h100_sxm", "--mode", "datasheet"), "n") == 1


def test_fit_finds_constants_that_made_the_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    truth = tmp_path / "truth.yaml"
    truth.write_text(
        "extends: h100_sxm\ncalibrations:\n  made: {chip: h100_sxm, constants: {memory_efficiency: 0.7, "
        'tile_overhead_s: 2.0e-6}, data: made, date: "2026-01-01", source: made}\n',
        encoding="utf-8",
    )
    with EXAMPLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert main(["-q", "validate", str(EXAMPLE), "--arch", str(truth), "--calibration", "made", "--rows", "all",
                 "-o", str(tmp_path / "out"), "--json"]) == ExitCode.DONE  # fmt: skip
    capsys.readouterr()
    with next((tmp_path / "out").glob("*.csv")).open(encoding="utf-8") as file:
        made = {int(row["line"]): float(row["predicted_s"]) * 1e6 for row in csv.DictReader(file)}
    table = tmp_path / "made.csv"
    lines = [f"{r['dtype']},{r['m']},{r['n']},{r['k']},{made[line]!r},1,\n" for line, r in enumerate(rows, 2)]
    table.write_text("dtype,m,n,k,median_us,min_us,note\n" + "".join(lines), encoding="utf-8")
    command = ["calibrate", str(table), "--arch", "h100_sxm", "--name", "x", "--json"]
    assert main(["-q", *command, "--constants", "memory_efficiency,tile_overhead_s"]) == ExitCode.DONE
    fit = json.loads(capsys.readouterr().out)
    assert fit["constants"]["memory_efficiency"] == pytest.approx(0.7, rel=0.01)
    assert fit["constants"]["tile_overhead_s"] == pytest.approx(2.0e-6, rel=0.02)
    assert fit["mape"] < 0.5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "dtype,m,n,k,median_us,min_us,note\nbf16,1,x,4096,16,16,\n",
            ":2:3: n: 'x' is not a whole number of at least 1",
        ),
        ("dtype,m,n,k,median_us,min_us,note\nbf17,1,4096,4096,16,16,\n", "dtype: 'bf17' is not one of bf16"),
        ("dtype,m,n,k,median_us,min_us,note\nbf16,1,4096,4096,-1,16,\n", "median_us: '-1' is not a number above 0"),
        ("dtype,m,n,k,median_us,min_us,note\nbf16,1,4096\n", "3 cells; the header has 7"),
        ("dtype,m,n,k,block_m,median_us,min_us,note\nbf16,1,1,1,64,1,1,\n", "GEMMs have no column block_m; leave out"),
        ("a,b\n1,2\n", "unknown table with columns a, b; known are"),
        ("dtype,m,n,median_us\nbf16,1,1,1\n", "GEMMs lack column k; the file has dtype, m, n, median_us"),
        ("dtype;m;n;k;median_us\nbf16;1;1;1;1\n", "one column 'dtype;m;n;k;median_us'; separate cells by commas"),
        ("dtype,m,n,k,k,median_us\nbf16,1,1,1,2,1\n", "column 'k' is there twice; leave one of them out"),
        ("dtype,m,n,k,median_us\nbf16,1,1,9999999999,1\n", ":2:4: k: '9999999999' is not a whole number of at most"),
        ("  \n", "empty; a table of measurements has a header line"),
        ("", "empty; a table of measurements has a header line"),
    ],
)
def test_faults_of_a_table_have_their_place(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    assert main(["validate", str(path), "--arch", "h100_sxm"]) == ExitCode.BAD_INPUT
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--arch", "h100_sxm", "--column", "median"), "no measured column 'median'"),
        (("--arch", "h100_sxm", "--calibration", "own_warm"), "no calibration 'own_warm'"),
        (("--arch", "ref16"), "ref16 is of kind spatial"),
        (("--arch", "a100_sxm", "--calibration", "own_cold"), "a100_sxm"),
        (("--arch", "h100_sxm", "--mode", "datasheet", "--calibration", "own_cold"), "needs mode calibrated"),
    ],
)
def test_impossible_requests_name_the_remedy(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", str(EXAMPLE), *arguments]) == ExitCode.BAD_INPUT
    assert said in capsys.readouterr().err


def test_a_chip_that_lacks_the_datatype_is_an_error_not_anothers_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("dtype,m,n,k,median_us,min_us,note\nfp8,128,4096,4096,16,16,\n", encoding="utf-8")
    assert main(["validate", str(path), "--arch", "a100_sxm", "--mode", "datasheet"]) == ExitCode.BAD_INPUT
    assert "a100_sxm: it multiplies no 'fp8'" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["validate", "calibrate"])
def test_help_ends_with_two_examples_that_run(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([verb, "--help"]) == ExitCode.DONE
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    commands = " ".join(lines[lines.index("Examples:") + 1 :]).split("tileloom ")[1:]
    assert len(commands) == 2
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    assert os.getcwd() == str(tmp_path)
    for command in commands:
        assert main(command.split()) == ExitCode.DONE


@pytest.mark.parametrize(
    ("arch", "datatype", "column", "calibration"),
    [
        ("a100_sxm", "int8_wo", "latency_ms_trtllm", "trtllm_weight_only_warm"),
        ("b200", "nvfp4", "latency_ms_trtllm", "trtllm_nvfp4_warm"),
        ("h100_sxm", "fp8", "latency_ms_vllm", "vllm_fp8_warm"),
        ("h100_sxm", "fp8", "latency_ms_trtllm", "trtllm_fp8_warm"),
        ("h100_sxm", "fp8", "latency_ms_sglang", "frameworks_warm"),
    ],
)
def test_kernels_of_a_framework_choose_their_constants(
    arch: str, datatype: str, column: str, calibration: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gemm.csv"
    path.write_text(f"system,dtype,m,n,k,{column},flops,weights_l2_hot\nx,{datatype},64,4096,4096,0.02,1,0\n")
    found = document(capsys, path, "--arch", arch, "--column", column)
    assert (found["mode"], found["calibration"], found["n"]) == ("calibrated", calibration, 1)


def test_measurements_beyond_the_peak_of_main_memory_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "gemm.csv"
    # 128 MiB of weights at 3.35 TB/s take 40 us.
    rows = "x,bfloat16,1,8192,8192,0.039,1,0\nx,bfloat16,1,8192,8192,0.050,1,0\n"
    path.write_text(f"system,dtype,m,n,k,latency_ms_trtllm,flops,weights_l2_hot\n{rows}")
    notes = document(capsys, path, "--arch", "h100_sxm")["notes"]
    assert isinstance(notes, list)
    assert (
        "gemm bfloat16: 1 of 2 rows were measured faster than main memory's peak moves what misses the cache" in notes
    )
