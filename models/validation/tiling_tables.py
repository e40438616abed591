"""Tables of measured GEMM kernels whose tiling is given."""

from __future__ import annotations

import numpy as np

from ...archdsl import DATATYPE_BITS
from ..gpu.gemm import Gemms
from ..gpu.tiled_gemm import TiledGemms
from ..gpu.tilings import Tiling, is_power_of_two
from .measured import Measurements
from .tables import Table, TableRow

OUTPUT_BITS = 16
"""Bits of an element of the result, which the benchmark's kernel stores as bf16 or fp16."""


def read_own_tilings(table: Table, column: str) -> list[Measurements]:
    """C[m, n] = A[m, k] B[n, k]^T by one Triton kernel made in many ways, the cache cold, times in microseconds."""
    by_type: dict[str, list[TableRow]] = {}
    for row in table.rows:
        if row.text("dtype") not in DATATYPE_BITS:
            raise row.fault("dtype", f"one of {', '.join(DATATYPE_BITS)}")
        if row.text(column):
            by_type.setdefault(row.text("dtype"), []).append(row)
    return [
        Measurements(
            name=f"tiled gemm {datatype}",
            kernels=_kernels(rows, datatype),
            quantity="time_s",
            values=np.array([row.number(column) * 1e-6 for row in rows]),
            lines=np.array([row.line for row in rows]),
        )
        for datatype, rows in by_type.items()
    ]


def _kernels(rows: list[TableRow], datatype: str) -> TiledGemms:
    products = Gemms(
        m=np.array([row.whole("m", 1) for row in rows]),
        n=np.array([row.whole("n", 1) for row in rows]),
        k=np.array([row.whole("k", 1) for row in rows]),
        datatype=datatype,
        output_bits=OUTPUT_BITS,
        weights_in_cache=np.zeros(len(rows), dtype=np.bool_),
        inputs_in_cache=np.zeros(len(rows), dtype=np.bool_),
    )
    return TiledGemms(products=products, tilings=tuple(_tiling(row) for row in rows))


def _tiling(row: TableRow) -> Tiling:
    return Tiling(
        tile_m=_power_of_two(row, "block_m"),
        tile_n=_power_of_two(row, "block_n"),
        tile_k=_power_of_two(row, "block_k"),
        stages=row.whole("stages", 1),
        warps=_power_of_two(row, "warps"),
    )


def _power_of_two(row: TableRow, column: str) -> int:
    value = row.whole(column, 1)
    if not is_power_of_two(value):
        raise row.fault(column, "a power of two")
    return value
