"""Tables of measured GEMMs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from ..gpu.gemm import Gemms, bits_of
from ..gpu.libraries import LibraryName
from ..gpu.memory_bound import MemoryKernels
from ..gpu.quantised import QuantisedGemms, QuantiserName, RowQuantisations
from ..gpu.times import Kernels
from .measured import Measurements
from .tables import Table, TableRow

OWN_DATATYPES = {"bf16": "bf16", "fp16": "fp16", "tf32": "tf32", "fp32": "fp32", "fp8": "fp8", "int8": "int8"}
OUTPUT_BITS = {"bf16": 16, "fp16": 16, "tf32": 32, "fp32": 32, "fp8": 16, "int8": 32}
"""Bits of an element of the result: fp8 products are stored as bf16, int8 products as int32."""
COMMON_CALIBRATION = "frameworks_warm"
"""Set of constants that is fitted to the kernels which frameworks have in common: the vendor's library, attention."""
COPIES = 5
"""Weight matrices that the benchmark goes round, each of the same shape, against the cache.

Source: recalled from aiconfigurator's collectors; the flag `weights_l2_hot` of the table says when all five fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkKernels:
    """What a datatype's products are made of in an inference framework.

    Attributes:
        datatype: What is multiplied.
        weight_bits: Bits of a weight in memory, where it is not the datatype's.
        library: Whose kernels multiply.
        quantiser: Which kernel quantises the activations before, if both are measured together; `tensor` for one scale.
        calibration: Set of constants that is fitted to such kernels.
    """

    datatype: str
    weight_bits: float | None = None
    library: LibraryName = "vendor"
    quantiser: QuantiserName | Literal["tensor"] | None = None
    calibration: str = COMMON_CALIBRATION


FRAMEWORK_DATATYPES = {
    "bfloat16": FrameworkKernels(datatype="bf16"),
    "fp8": FrameworkKernels(datatype="fp8"),
    "nvfp4": FrameworkKernels(datatype="fp4", library="block_scaled", quantiser="block_scaled"),
    "int8_wo": FrameworkKernels(datatype="bf16", weight_bits=8, library="weight_only"),
}
"""Kernels per datatype of a table, where the framework does not matter or nothing is known of its kernels."""
FRAMEWORK_KERNELS = {
    ("nvfp4", "latency_ms_trtllm"): replace(FRAMEWORK_DATATYPES["nvfp4"], calibration="trtllm_nvfp4_warm"),
    ("int8_wo", "latency_ms_trtllm"): replace(FRAMEWORK_DATATYPES["int8_wo"], calibration="trtllm_weight_only_warm"),
    ("fp8", "latency_ms_trtllm"): FrameworkKernels(datatype="fp8", quantiser="tensor", calibration="trtllm_fp8_warm"),
    ("fp8", "latency_ms_vllm"): FrameworkKernels(
        datatype="fp8", library="scaled_fp8", quantiser="scaled_fp8", calibration="vllm_fp8_warm"
    ),
}
"""Kernels per datatype and measured column that differ from the others of the datatype, with constants of their own."""


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
        found.append(
            Measurements(
                name=f"gemm {datatype}",
                kernels=_framework_kernels(datatype, column, rows),
                quantity="time_s",
                values=np.array([row.number(column) * 1e-3 for row in rows]),
                lines=np.array([row.line for row in rows]),
            )
        )
    return found


def framework_gemm_calibration(table: Table, column: str) -> str:
    """Set of constants for all rows of a table: that of their kernels where they have one in common, else the common one."""
    sets = {kernels_of(row.text("dtype"), column).calibration for row in table.rows if row.text(column)}
    return sets.pop() if len(sets) == 1 else COMMON_CALIBRATION


def kernels_of(datatype: str, column: str) -> FrameworkKernels:
    """What products of a table's datatype are made of in the framework of a measured column."""
    return FRAMEWORK_KERNELS.get((datatype, column), FRAMEWORK_DATATYPES[datatype])


def _framework_kernels(datatype: str, column: str, rows: list[TableRow]) -> Gemms | QuantisedGemms:
    made = kernels_of(datatype, column)
    gemms = Gemms(
        m=np.array([row.whole("m", 1) for row in rows]),
        n=np.array([row.whole("n", 1) for row in rows]),
        k=np.array([row.whole("k", 1) for row in rows]),
        datatype=made.datatype,
        weight_bits=made.weight_bits,
        output_bits=16,
        weights_in_cache=np.array([row.whole("weights_l2_hot") == 1 for row in rows]),
        inputs_in_cache=np.ones(len(rows), dtype=np.bool_),
        reuse_bytes=np.array([_reuse_bytes(row, made) for row in rows]),
        library=made.library,
    )
    return (
        gemms if made.quantiser is None else QuantisedGemms(gemms=gemms, quantising=_quantising(made.quantiser, gemms))
    )


def _quantising(quantiser: QuantiserName | Literal["tensor"], gemms: Gemms) -> Kernels:
    """The kernel that quantises the activations of each product."""
    if quantiser == "tensor":
        return MemoryKernels(
            op="quantise", datatype="bf16", rows=gemms.m, cols=gemms.k, inputs_in_cache=gemms.inputs_in_cache
        )
    return RowQuantisations(quantiser=quantiser, datatype=gemms.datatype, rows=gemms.m, cols=gemms.k)


def _reuse_bytes(row: TableRow, made: FrameworkKernels) -> float:
    """Bytes from one use of a weight matrix to the next: all copies, and one product's input and result."""
    m, n, k = (row.whole(side, 1) for side in ("m", "n", "k"))
    element = bits_of(made.datatype) / 8
    weight = element if made.weight_bits is None else made.weight_bits / 8
    return COPIES * n * k * weight + m * k * element + 2.0 * m * n
