"""Which tables of measurements can be read: one line per format, told by its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...archdsl import ModelError
from .gemm_tables import read_framework_gemms, read_own_gemms
from .measured import Measurements
from .serving_tables import METRICS, read_serving
from .tables import Table, read_table


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One kind of table.

    Attributes:
        name: What it holds.
        columns: Columns that it has and no other kind has all of.
        measured: Columns that may be compared with the model, the default first.
        read: Turns a table and the chosen column into measurements.
        is_long: Whether what may be compared stands in rows, told apart by a column, instead of in columns of its own.
    """

    name: str
    columns: frozenset[str]
    measured: tuple[str, ...]
    read: Callable[[Table, str], list[Measurements]]
    is_long: bool = False


FORMATS: tuple[Format, ...] = (
    Format(
        name="GEMMs of inference frameworks",
        columns=frozenset({"system", "dtype", "m", "n", "k", "weights_l2_hot"}),
        measured=("latency_ms_trtllm", "latency_ms_vllm", "latency_ms_sglang"),
        read=read_framework_gemms,
    ),
    Format(
        name="serving at fixed concurrency",
        columns=frozenset({"model", "system", "isl", "osl", "batch", "metric", "value", "unit"}),
        measured=tuple(METRICS),
        read=read_serving,
        is_long=True,
    ),
    Format(
        name="GEMMs",
        columns=frozenset({"dtype", "m", "n", "k", "median_us", "min_us", "note"}),
        measured=("median_us", "min_us"),
        read=read_own_gemms,
    ),
)
"""Every kind of table, those with more columns first."""


def read_measurements(path: str | Path, column: str | None = None) -> tuple[Table, list[Measurements]]:
    """Read a table of measurements of any known format.

    Args:
        path: The CSV file.
        column: Measured column to use; the format's first when left out. Rows without a value there are left out.

    Raises:
        ModelError: Unknown format or column, or a cell that is not what it should be, with its place.
        OSError: The file cannot be read.
    """
    table = read_table(path)
    found = next((one for one in FORMATS if one.columns <= set(table.columns)), None)
    if found is None:
        known = "; ".join(f"{one.name}: {', '.join(sorted(one.columns))}" for one in FORMATS)
        raise ModelError(f"{path}: unknown table with columns {', '.join(table.columns)}; known are {known}")
    present = found.measured if found.is_long else table.columns
    wanted = column if column is not None else next((one for one in found.measured if one in present), None)
    if wanted is None or wanted not in found.measured or wanted not in present:
        raise ModelError(
            f"{path}: {found.name}: no measured column '{wanted}'; it may be {_listed(found.measured)}, "
            f"and the file has {_listed(table.columns)}"
        )
    measurements = [one for one in found.read(table, wanted) if len(one.kernels)]
    if not measurements:
        raise ModelError(f"{path}: column '{wanted}' has no values")
    return table, measurements


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
