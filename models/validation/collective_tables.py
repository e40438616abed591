"""Tables of measured collectives."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..systems import CollectiveOp, Collectives, Machine
from ..systems.peer import FRAMEWORKS
from .measured import Measurements
from .tables import Table, TableRow

NCCL_OPS: Final[dict[str, CollectiveOp]] = {
    "all_reduce": "all_reduce",
    "all_gather": "all_gather",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
}


def read_nccl(table: Table, column: str) -> list[Measurements[Machine]]:
    """Collectives of one node by NCCL, times in milliseconds; of each op and number of chips the newest version."""
    newest: dict[tuple[str, int], tuple[int, ...]] = {}
    groups: dict[tuple[str, int], list[TableRow]] = {}
    for row in table.rows:
        if row.text("op") not in NCCL_OPS:
            raise row.fault("op", f"one of {', '.join(NCCL_OPS)}")
        if not row.text(column):
            continue
        version = _version_of(row)
        key = (row.text("op"), row.whole("num_gpus", 2))
        if version > newest.get(key, ()):
            newest[key], groups[key] = version, []
        if version == newest[key]:
            groups[key].append(row)
    return [
        _measured(f"{NCCL_OPS[op]} {num}", NCCL_OPS[op], num, "nccl", rows, column)
        for (op, num), rows in groups.items()
    ]


def read_custom_all_reduces(table: Table, column: str) -> list[Measurements[Machine]]:
    """All-reduces of one node by inference frameworks' own kernels, times in milliseconds."""
    groups: dict[tuple[str, int], list[TableRow]] = {}
    for row in table.rows:
        if row.text("impl") not in FRAMEWORKS:
            raise row.fault("impl", f"one of {', '.join(FRAMEWORKS)}")
        if row.text(column):
            groups.setdefault((row.text("impl"), row.whole("num_gpus", 2)), []).append(row)
    return [_measured(f"{impl} {num}", "all_reduce", num, impl, rows, column) for (impl, num), rows in groups.items()]


def _measured(
    name: str, op: CollectiveOp, num: int, library: str, rows: list[TableRow], column: str
) -> Measurements[Machine]:
    sizes = np.array([row.whole("bytes", 1) for row in rows])
    return Measurements(
        name=name,
        kernels=Collectives(op=op, sizes_bytes=sizes, num_chips=num, library=library),
        quantity="time_s",
        values=np.array([row.number(column) * 1e-3 for row in rows]),
        lines=np.array([row.line for row in rows]),
    )


def _version_of(row: TableRow) -> tuple[int, ...]:
    """A version as numbers, so that 2.9 comes before 2.23."""
    try:
        return tuple(int(part) for part in row.text("nccl_version").split("."))
    except ValueError:
        raise row.fault("nccl_version", "a version like 2.27.3") from None
