"""Tables of measured convolutions."""

from __future__ import annotations

import numpy as np

from ..gpu.convolution import Convolutions
from .measured import Measurements
from .tables import Table, TableRow


def read_own_convolutions(table: Table, column: str) -> list[Measurements]:
    """NHWC convolutions by cuDNN, the cache cold, times in microseconds."""
    by_type: dict[str, list[TableRow]] = {}
    for row in table.rows:
        if row.text(column):
            by_type.setdefault(row.text("dtype"), []).append(row)
    return [
        Measurements(
            name=f"convolution {datatype}",
            kernels=Convolutions(
                batch=np.array([row.whole("batch", 1) for row in rows]),
                in_channels=np.array([row.whole("cin", 1) for row in rows]),
                out_channels=np.array([row.whole("cout", 1) for row in rows]),
                kernel=np.array([row.whole("kernel", 1) for row in rows]),
                stride=np.array([row.whole("stride", 1) for row in rows]),
                in_size=np.array([row.whole("hw_in", 1) for row in rows]),
                groups=np.array([row.whole("groups", 1) for row in rows]),
                datatype=datatype,
            ),
            quantity="time_s",
            values=np.array([row.number(column) * 1e-6 for row in rows]),
            lines=np.array([row.line for row in rows]),
        )
        for datatype, rows in by_type.items()
    ]
