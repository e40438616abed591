"""Tables of measured GEMMs."""

from __future__ import annotations

import numpy as np

from ..gpu.gemm import Gemms
from .measured import Measurements
from .tables import Table, TableRow

OWN_DATATYPES = {"bf16": "bf16", "fp16": "fp16", "tf32": "tf32", "fp32": "fp32", "fp8": "fp8", "int8": "int8"}
OUTPUT_BITS = {"bf16": 16, "fp16": 16, "tf32": 32, "fp32": 32, "fp8": 16, "int8": 32}
"""Bits of an element of the result: fp8 products are stored as bf16, int8 products as int32."""
COPIES = 5
"""Weight matrices that the benchmark goes round, each of the same shape, against the cache.

Source: recalled from aiconfigurator's collectors; the flag `weights_l2_hot` of the table says when all five fit."""
FRAMEWORK_DATATYPES = {"bfloat16": "bf16", "fp8": "fp8", "nvfp4": "fp4", "int8_wo": "int8_weights"}


def read_own_gemms(table: Table, column: str) -> list[Measurements]:
    """C[m, n] = A[m, k] B[n, k]^T by cuBLAS, the cache cold, times in microseconds."""
    by_type: dict[str, list[TableRow]] = {}
    for row in table.rows:
        if row.text("dtype") not in OWN_DATATYPES:
            raise row.fault("dtype", f"one of {', '.join(OWN_DATATYPES)}")
        if row.text(column):
            by_type.setdefault(row.text("dtype"), []).append(row)
    found: list[Measurements] = []
    for datatype, rows in by_type.items():
        kernels = Gemms(
            m=np.array([row.whole("m", 1) for row in rows]),
            n=np.array([row.whole("n", 1) for row in rows]),
            k=np.array([row.whole("k", 1) for row in rows]),
            datatype=OWN_DATATYPES[datatype],
            output_bits=OUTPUT_BITS[datatype],
            weights_in_cache=np.zeros(len(rows), dtype=np.bool_),
            inputs_in_cache=np.zeros(len(rows), dtype=np.bool_),
        )
        found.append(
            Measurements(
                name=f"gemm {datatype}",
                kernels=kernels,
                quantity="time_s",
                values=np.array([row.number(column) * 1e-6 for row in rows]),
                lines=np.array([row.line for row in rows]),
            )
        )
    return found


def read_framework_gemms(table: Table, column: str) -> list[Measurements]:
    """C[m, n] = A[m, k] B[n, k]^T in inference frameworks, warm, times in milliseconds."""
    by_type: dict[str, list[TableRow]] = {}
    for row in table.rows:
        if row.text("dtype") not in FRAMEWORK_DATATYPES:
            raise row.fault("dtype", f"one of {', '.join(FRAMEWORK_DATATYPES)}")
        if row.text(column):
            by_type.setdefault(row.text("dtype"), []).append(row)
    found: list[Measurements] = []
    for datatype, rows in by_type.items():
        kernels = Gemms(
            m=np.array([row.whole("m", 1) for row in rows]),
            n=np.array([row.whole("n", 1) for row in rows]),
            k=np.array([row.whole("k", 1) for row in rows]),
            datatype="bf16" if datatype == "int8_wo" else FRAMEWORK_DATATYPES[datatype],
            weight_bits=8 if datatype == "int8_wo" else None,
            output_bits=16,
            weights_in_cache=np.array([row.whole("weights_l2_hot") == 1 for row in rows]),
            inputs_in_cache=np.ones(len(rows), dtype=np.bool_),
            reuse_bytes=np.array([_reuse_bytes(row, datatype) for row in rows]),
        )
        found.append(
            Measurements(
                name=f"gemm {datatype}",
                kernels=kernels,
                quantity="time_s",
                values=np.array([row.number(column) * 1e-3 for row in rows]),
                lines=np.array([row.line for row in rows]),
            )
        )
    return found


def _reuse_bytes(row: TableRow, datatype: str) -> float:
    """Bytes from one use of a weight matrix to the next: all copies, and one product's input and result."""
    m, n, k = (row.whole(side, 1) for side in ("m", "n", "k"))
    weight, element = {"bfloat16": (2, 2), "fp8": (1, 1), "nvfp4": (0.5625, 0.5625), "int8_wo": (1, 2)}[datatype]
    return COPIES * n * k * weight + m * k * element + 2.0 * m * n
