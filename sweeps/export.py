"""Export a sweep's results as CSV or Parquet: the same results give the same bytes.

One row per design point in the sweep's order. There are no times, paths or versions of anything in the
data, so that an interrupted and resumed sweep exports what an uninterrupted one does.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from ..archdsl import SweepError
from .objectives import METRIC_NAMES
from .store import DesignRecord, InputValue, SweepResults

ExportFormat = Literal["csv", "parquet"]
Cell = None | bool | int | float | str


def export_results(results: SweepResults, path: Path, format: ExportFormat) -> None:
    """Write all design points of a sweep to a file.

    Args:
        results: The sweep's results.
        path: File to write.
        format: `csv` or `parquet`.

    Raises:
        SweepError: The file cannot be written.
    """
    columns = table(results)
    try:
        if format == "csv":
            path.write_bytes(csv_bytes(columns))
        else:
            _write_parquet(columns, path)
    except OSError as err:
        raise SweepError(f"{path}: cannot write the export: {err.strerror or err}") from err


def table(results: SweepResults) -> dict[str, list[Cell]]:
    """The exported table, by column.

    Columns: `index`, `id`, `status`, `on_front`; each swept path as written, and where it is a number
    also in its canonical unit as `PATH [UNIT]`; the metrics; with several workloads also each one's as
    `WORKLOAD.METRIC`; `violated`, `reason` and `error` in words.
    """
    records = results.records
    on_front = results.on_front()
    columns: dict[str, list[Cell]] = {
        "index": [record.index for record in records],
        "id": [record.id for record in records],
        "status": [record.status.value for record in records],
        "on_front": [bool(is_on) for is_on in on_front],
    }
    for axis in results.axes:
        columns[axis.path] = _uniform([_cell(record.inputs[axis.path]) for record in records])
        if axis.unit:
            columns[f"{axis.path} [{axis.unit}]"] = [record.values.get(axis.path) for record in records]
    for metric in results.metrics:
        columns[metric.name] = [_float(record.metrics.get(metric.name)) for record in records]
    if len(results.workloads) > 1:
        for workload in results.workloads:
            for metric in results.metrics:
                if metric.is_per_workload:
                    values = [record.workload_metrics.get(workload.name, {}).get(metric.name) for record in records]
                    columns[f"{workload.name}.{metric.name}"] = [_float(value) for value in values]
    columns["violated"] = ["; ".join(record.violated) or None for record in records]
    columns["reason"] = [_reason(record) for record in records]
    columns["error"] = [record.error or None for record in records]
    return columns


def csv_bytes(columns: dict[str, list[Cell]]) -> bytes:
    """The table as CSV: UTF-8, `\\n` after each row, floats in the shortest form that reads back equal."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_csv_cell(cell) for cell in row] for row in zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _write_parquet(columns: dict[str, list[Cell]], path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pa: Any = pyarrow  # only partly typed
    parquet: Any = pyarrow.parquet
    arrays = {name: pa.array(cells, type=_parquet_type(pa, name, cells)) for name, cells in columns.items()}
    parquet.write_table(pa.table(arrays), path, compression="zstd", use_dictionary=False)


def _parquet_type(pa: Any, name: str, cells: Sequence[Cell]) -> Any:
    """A column's type; text for one that is empty."""
    kinds: set[type] = {type(cell) for cell in cells if cell is not None}
    if name.rpartition(".")[2] in METRIC_COLUMNS or kinds == {float}:
        return pa.float64()
    if kinds == {bool}:
        return pa.bool_()
    return pa.int64() if kinds == {int} else pa.string()


METRIC_COLUMNS = frozenset(METRIC_NAMES)


def _cell(value: InputValue) -> Cell:
    return " ".join(map(str, value)) if isinstance(value, tuple) else value


def _uniform(cells: list[Cell]) -> list[Cell]:
    """Cells of one type: whole numbers beside fractions become floats, any other mixture text."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if len(kinds) < 2:
        return cells
    if kinds == {int, float}:
        return [None if cell is None else float(cell) for cell in cells]
    return [None if cell is None else str(cell) for cell in cells]


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _reason(record: DesignRecord) -> str | None:
    return str(record.infeasible) if record.infeasible else None


def _csv_cell(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    return repr(cell) if isinstance(cell, float) else str(cell)
