"""Which tables of measurements can be read: one line per format, told by its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...archdsl import ModelError
from .attention_tables import read_framework_attention, read_own_attention
from .collective_tables import read_custom_all_reduces, read_nccl
from .convolution_tables import read_own_convolutions
from .energy_tables import read_own_energy
from .gemm_tables import COMMON_CALIBRATION, framework_gemm_calibration, read_framework_gemms, read_own_gemms
from .layer_tables import read_own_layers
from .measured import Measurements
from .memory_tables import framework_quantise_calibration, read_framework_quantise, read_own_memory
from .serving_tables import METRICS, read_serving
from .tables import Table, read_table
from .tiling_tables import read_own_tilings


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One kind of table.

    Attributes:
        name: What it holds.
        columns: Columns that tell it and that every table of it has.
        others: Columns that it may have besides, which say nothing that the model asks for.
        measured: Columns that may be compared with the model, the default first.
        read: Turns a table and the chosen column into measurements.
        target: What they are priced on.
        calibration: Set of constants that is fitted to such tables, by their conditions.
        calibration_of: The set for a table and column, where tables of the format differ in it.
        is_long: Whether what may be compared stands in rows, told apart by a column, instead of in columns of its own.
    """

    name: str
    columns: frozenset[str]
    others: frozenset[str] = frozenset()
    measured: tuple[str, ...]
    read: Callable[[Table, str], list[Measurements[Any]]]
    target: Literal["chip", "system"] = "chip"
    calibration: str
    calibration_of: Callable[[Table, str], str] | None = None
    is_long: bool = False


FORMATS: tuple[Format, ...] = (
    Format(
        name="GEMMs of inference frameworks",
        columns=frozenset({"system", "dtype", "m", "n", "k", "weights_l2_hot"}),
        others=frozenset({"flops"}),
        measured=("latency_ms_trtllm", "latency_ms_vllm", "latency_ms_sglang"),
        read=read_framework_gemms,
        calibration=COMMON_CALIBRATION,
        calibration_of=framework_gemm_calibration,
    ),
    Format(
        name="collectives of NCCL",
        columns=frozenset({"system", "op", "nccl_version", "num_gpus", "bytes"}),
        others=frozenset({"repeats"}),
        measured=("latency_ms", "latency_ms_min"),
        read=read_nccl,
        target="system",
        calibration="nccl",
    ),
    Format(
        name="all-reduces of inference frameworks",
        columns=frozenset({"system", "framework", "version", "impl", "num_gpus", "elements", "bytes"}),
        measured=("latency_ms",),
        read=read_custom_all_reduces,
        target="system",
        calibration="custom_allreduce",
    ),
    Format(
        name="serving at fixed concurrency",
        columns=frozenset({"model", "system", "isl", "osl", "batch", "metric", "value", "unit"}),
        others=frozenset(
            {"n_gpus", "parallel", "precision", "engine", "scenario", "raw_value", "raw_unit", "source", "confidence"}
        ),
        measured=tuple(METRICS),
        read=read_serving,
        is_long=True,
        calibration=COMMON_CALIBRATION,
    ),
    Format(
        name="tiled GEMMs",
        columns=frozenset({"dtype", "m", "n", "k", "block_m", "block_n", "block_k", "stages", "warps", "median_us"}),
        others=frozenset({"note"}),
        measured=("median_us", "min_us"),
        read=read_own_tilings,
        calibration="triton",
    ),
    Format(
        name="GEMMs",
        columns=frozenset({"dtype", "m", "n", "k", "median_us"}),
        others=frozenset({"note"}),
        measured=("median_us", "min_us"),
        read=read_own_gemms,
        calibration="own_cold",
    ),
    Format(
        name="memory-bound kernels",
        columns=frozenset({"op", "dtype", "rows", "cols", "bytes_moved", "median_us"}),
        others=frozenset({"note"}),
        measured=("median_us", "min_us"),
        read=read_own_memory,
        calibration="own_cold",
    ),
    Format(
        name="attention of inference frameworks",
        columns=frozenset({"system", "isl", "past_kv", "num_heads", "num_key_value_heads", "kv_cache_dtype"}),
        others=frozenset({"batch_size", "head_dim", "window_size", "attn_dtype"}),
        measured=("latency_ms_trtllm", "latency_ms_vllm", "latency_ms_sglang"),
        read=read_framework_attention,
        calibration=COMMON_CALIBRATION,
    ),
    Format(
        name="layers and networks",
        columns=frozenset({"model", "phase", "batch", "q_len", "kv_len", "median_us"}),
        others=frozenset({"note"}),
        measured=("median_us", "min_us"),
        read=read_own_layers,
        calibration="own_cold",
    ),
    Format(
        name="energy of kernels",
        columns=frozenset({"op", "dtype", "m_or_rows", "n_or_cols", "k", "joules_per_call", "mean_us"}),
        others=frozenset({"seconds", "calls", "mean_watts", "sm_mhz"}),
        measured=("joules_per_call", "mean_us"),
        read=read_own_energy,
        calibration="own_cold",
    ),
    Format(
        name="convolutions",
        columns=frozenset({"dtype", "cin", "cout", "kernel", "stride", "hw_in", "groups", "median_us"}),
        others=frozenset({"batch", "note"}),
        measured=("median_us", "min_us"),
        read=read_own_convolutions,
        calibration="own_cold",
    ),
    Format(
        name="attention",
        columns=frozenset(
            {"phase", "dtype", "q_heads", "kv_heads", "head_dim", "q_len", "kv_len", "causal", "backend"}
        ),
        others=frozenset({"batch", "note"}),
        measured=("median_us", "min_us"),
        read=read_own_attention,
        calibration="own_cold",
    ),
    Format(
        name="quantisation in inference frameworks",
        columns=frozenset({"system", "m", "k", "quant_dtype", "latency_ms"}),
        measured=("latency_ms",),
        read=read_framework_quantise,
        calibration=COMMON_CALIBRATION,
        calibration_of=framework_quantise_calibration,
    ),
)
"""Every kind of table, those with more columns first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTable:
    """A table of measurements as it was read.

    Attributes:
        table: The table.
        format: Its kind.
        column: The measured column that was used.
        measurements: What was measured.
    """

    table: Table
    format: Format
    column: str
    measurements: tuple[Measurements[Any], ...]

    @property
    def calibrations(self) -> tuple[str, ...]:
        """Sets of constants that suit it, the best first."""
        own = self.format.calibration_of
        names = () if own is None else (own(self.table, self.column),)
        return tuple(dict.fromkeys((*names, self.format.calibration)))


def read_measurements(path: str | Path, column: str | None = None) -> MeasuredTable:
    """Read a table of measurements of any known format.

    Args:
        path: The CSV file.
        column: Measured column to use; the format's first when left out. Rows without a value there are left out.

    Raises:
        ModelError: Unknown format or column, or a cell that is not what it should be, with its place.
        OSError: The file cannot be read.
    """
    table = read_table(path)
    found = format_of(table)
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
    return MeasuredTable(table=table, format=found, column=wanted, measurements=tuple(measurements))


def format_of(table: Table) -> Format:
    """What a table holds, and whether it is priced on a chip or a system.

    Raises:
        ModelError: No known format has its columns.
    """
    near = [one for one in FORMATS if one.columns <= set(table.columns)]
    for one in near:
        if set(table.columns) <= one.columns | one.others | set(one.measured):
            return one
    if near:
        # A column that nobody reads may change what was measured, as the tile of a kernel does.
        strange = [
            name for name in table.columns if name not in near[0].columns | near[0].others | set(near[0].measured)
        ]
        raise ModelError(
            f"{table.file}: {near[0].name} have no column {_listed(strange)}; leave out what does not matter"
        )
    if len(table.columns) == 1 and any(mark in table.columns[0] for mark in ";\t"):
        raise ModelError(f"{table.file}: one column '{table.columns[0]}'; separate cells by commas")
    closest = max(FORMATS, key=lambda one: _likeness(one, table.columns))
    if _likeness(closest, table.columns) >= 0.5:
        missing = sorted(closest.columns - set(table.columns))
        raise ModelError(
            f"{table.file}: {closest.name} lack column {_listed(missing)}; the file has {_listed(table.columns)}"
        )
    known = "; ".join(f"{one.name}: {', '.join(sorted(one.columns))}" for one in FORMATS)
    raise ModelError(f"{table.file}: unknown table with columns {', '.join(table.columns)}; known are {known}")


def _likeness(known: Format, columns: Sequence[str]) -> float:
    """Share of a format's columns that a table has."""
    return len(known.columns & set(columns)) / len(known.columns)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
