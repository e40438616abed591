"""Tables of measured memory-bound kernels."""

from __future__ import annotations

from typing import Final, get_args

import numpy as np

from ..gpu.memory_bound import MemoryKernels
from ..gpu.memory_structures import MemoryOp
from .measured import Measurements
from .tables import Table, TableRow

QUANTISE_CALIBRATION: Final = "trtllm_fp8_warm"
"""Set of the fp8 products that such kernels come before."""

OPS: tuple[MemoryOp, ...] = get_args(MemoryOp)


def read_own_memory(table: Table, column: str) -> list[Measurements]:
    """Eager PyTorch kernels on [rows, cols], the cache cold, times in microseconds."""
    by_op: dict[tuple[MemoryOp, str], list[TableRow]] = {}
    for row in table.rows:
        op: MemoryOp | None = next((op for op in OPS if op == row.text("op")), None)
        if op is None:
            raise row.fault("op", f"one of {', '.join(OPS)}")
        if row.text(column):
            by_op.setdefault((op, row.text("dtype")), []).append(row)
    return [
        Measurements(
            name=f"memory {op}",
            kernels=MemoryKernels(
                op=op,
                datatype=datatype,
                rows=np.array([row.whole("rows", 1) for row in rows]),
                cols=np.array([row.whole("cols", 1) for row in rows]),
                inputs_in_cache=np.zeros(len(rows), dtype=np.bool_),
            ),
            quantity="time_s",
            values=np.array([row.number(column) * 1e-6 for row in rows]),
            lines=np.array([row.line for row in rows]),
        )
        for (op, datatype), rows in by_op.items()
    ]


def read_framework_quantise(table: Table, column: str) -> list[Measurements]:
    """Per-tensor fp8 quantisation of bf16 [m, k] in an inference framework, warm, times in milliseconds."""
    rows = [row for row in table.rows if row.text(column)]
    for row in rows:
        if row.text("quant_dtype") != "fp8":
            raise row.fault("quant_dtype", "fp8")
    kernels = MemoryKernels(
        op="quantise",
        datatype="bf16",
        rows=np.array([row.whole("m", 1) for row in rows]),
        cols=np.array([row.whole("k", 1) for row in rows]),
        inputs_in_cache=np.ones(len(rows), dtype=np.bool_),
    )
    values = np.array([row.number(column) * 1e-3 for row in rows])
    lines = np.array([row.line for row in rows])
    return [Measurements(name="quantise fp8", kernels=kernels, quantity="time_s", values=values, lines=lines)]


def framework_quantise_calibration(table: Table, column: str) -> str:
    """Set of constants that suits such a table: the one of the fp8 products that follow its kernels."""
    return QUANTISE_CALIBRATION
