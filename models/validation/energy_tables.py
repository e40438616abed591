"""Tables of measured energy: kernels that were repeated for seconds, at the clock that the power limit left."""

from __future__ import annotations

import numpy as np

from ..gpu.energy import Powered
from ..gpu.gemm import Gemms
from ..gpu.memory_bound import MemoryKernels
from .gemm_tables import OUTPUT_BITS, OWN_DATATYPES
from .measured import Measurements
from .tables import Table, TableRow


def read_own_energy(table: Table, column: str) -> list[Measurements]:
    """Energy per call, or the sustained time of one; the row of the idle chip is the description's, not a kernel's."""
    found: list[Measurements] = []
    by_kind: dict[tuple[str, str], list[TableRow]] = {}
    for row in table.rows:
        op = row.text("op")
        if op == "idle":
            continue
        if op not in ("gemm", "copy"):
            raise row.fault("op", "gemm, copy or idle")
        if row.text("dtype") not in OWN_DATATYPES:
            raise row.fault("dtype", f"one of {', '.join(OWN_DATATYPES)}")
        if row.text(column):
            by_kind.setdefault((op, row.text("dtype")), []).append(row)
    is_energy = column == "joules_per_call"
    for (op, datatype), rows in by_kind.items():
        found.append(
            Measurements(
                name=f"{'energy' if is_energy else 'sustained time'} {op} {datatype}",
                kernels=_gemms(rows, datatype) if op == "gemm" else _copies(rows, datatype),
                quantity="energy_j" if is_energy else "time_s",
                values=np.array([row.number(column) * (1.0 if is_energy else 1e-6) for row in rows]),
                lines=np.array([row.line for row in rows]),
            )
        )
    return found


def _gemms(rows: list[TableRow], datatype: str) -> Powered:
    gemms = Gemms(
        m=np.array([row.whole("m_or_rows", 1) for row in rows]),
        n=np.array([row.whole("n_or_cols", 1) for row in rows]),
        k=np.array([row.whole("k", 1) for row in rows]),
        datatype=OWN_DATATYPES[datatype],
        output_bits=OUTPUT_BITS[datatype],
        weights_in_cache=np.zeros(len(rows), dtype=np.bool_),
        inputs_in_cache=np.zeros(len(rows), dtype=np.bool_),
    )
    return Powered(kernels=gemms, datatype=OWN_DATATYPES[datatype])


def _copies(rows: list[TableRow], datatype: str) -> Powered:
    copies = MemoryKernels(
        op="copy",
        datatype=OWN_DATATYPES[datatype],
        rows=np.array([row.whole("m_or_rows", 1) for row in rows]),
        cols=np.array([row.whole("n_or_cols", 1) for row in rows]),
        inputs_in_cache=np.zeros(len(rows), dtype=np.bool_),
    )
    return Powered(kernels=copies, datatype="fp32")
