"""Exports: the same results give the same bytes, and every cell is where its header says."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import SweepError
from tileloom.sweeps.export import csv_bytes, export_results, table
from tileloom.sweeps.store import SweepResults

from .sweep_case import SPEC, load, run

TEXT = (
    SPEC.replace("[4, 8, 16]", "[4, 13]").replace("[net_a]", "[net_a, network_b]")
    + '    constraints: ["area_mm2 <= 0.1"]\n'
)


@pytest.fixture
def results(tmp_path: Path) -> SweepResults:
    run(load(tmp_path, TEXT), tmp_path / "out")
    return SweepResults.load(tmp_path / "out")


def rows_of(results: SweepResults) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_bytes(table(results)).decode())))


def test_csv_has_a_row_per_point_in_order(results: SweepResults) -> None:
    rows = rows_of(results)
    assert [int(row["index"]) for row in rows] == list(range(12))
    assert [row["status"] for row in rows[:6]] == ["infeasible", "ok", "ok", "ok", "ok", "excluded"]
    assert {row["status"] for row in rows[6:]} == {"failed"}
    assert rows[1]["hierarchy.scratchpad.capacity"] == "4 KiB"
    assert rows[1]["hierarchy.scratchpad.capacity [bytes]"] == "4096.0"
    assert rows[0]["reason"].startswith("scratchpad capacity: needs 4,096 bytes, has 2,048 bytes")
    assert rows[5]["violated"] == "area_mm2 <= 0.1"
    assert rows[6]["error"] == "ValueError: cannot price 13 rows"
    assert rows[0]["energy_pj"] == ""


def test_numbers_read_back_equal(results: SweepResults) -> None:
    for row, record in zip(rows_of(results), results.records, strict=True):
        for name, value in record.metrics.items():
            assert float(row[name]) == value
        for workload, values in record.workload_metrics.items():
            assert float(row[f"{workload}.energy_pj"]) == values["energy_pj"]


def test_front_is_marked(results: SweepResults) -> None:
    marked = [row["on_front"] == "true" for row in rows_of(results)]
    assert marked == results.on_front().tolist()
    assert any(marked)


def test_parquet_has_the_same_table_and_the_same_bytes_every_time(results: SweepResults, tmp_path: Path) -> None:
    import pyarrow.parquet

    parquet: Any = pyarrow.parquet  # pyright: ignore[reportUnknownMemberType]
    export_results(results, tmp_path / "a.parquet", "parquet")
    export_results(results, tmp_path / "b.parquet", "parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert parquet.read_table(tmp_path / "a.parquet").to_pydict() == table(results)


def test_columns_of_a_sweep_without_any_result_keep_their_types(tmp_path: Path) -> None:
    import pyarrow.parquet

    parquet: Any = pyarrow.parquet  # pyright: ignore[reportUnknownMemberType]
    run(load(tmp_path, TEXT.replace("[4, 13]", "[13]")), tmp_path / "out")
    export_results(SweepResults.load(tmp_path / "out"), tmp_path / "a.parquet", "parquet")
    schema = parquet.read_schema(tmp_path / "a.parquet")
    assert str(schema.field("energy_pj").type) == "double"
    assert str(schema.field("network_b.latency_s").type) == "double"
    assert str(schema.field("index").type) == "int64"


def test_unwritable_file_says_so(results: SweepResults, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=r"no/a\.csv: cannot write the export: No such file or directory"):
        export_results(results, tmp_path / "no" / "a.csv", "csv")
