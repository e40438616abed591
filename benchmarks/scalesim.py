"""Cycles of systolic GEMMs against SCALE-Sim: the array part of the detailed latency must agree exactly.

    python benchmarks/scalesim.py --csv ../shared/data/model_reference/scalesim_gemm_cycles.csv

SCALE-Sim (Samajdar et al., ISPASS 2020) gives every pass of a systolic array its own loading, filling and
draining, and reports the last cycle's index, one less than the number of cycles.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tileloom.archdsl import Keep, Mapping, Op, Spatial, SpatialArch, Temporal, parse_notation
from tileloom.models import CONVENTIONS, detailed_batch, hierarchy_of, nest_of, timing_of

Dataflow = Literal["os", "ws", "is"]
DEFAULT_CSV = Path(__file__).parents[2] / "shared/data/model_reference/scalesim_gemm_cycles.csv"


@dataclass(frozen=True, slots=True)
class Dataset:
    """How one dataflow lies on the array: dims of rows, columns and time, and what stays."""

    rows: str
    cols: str
    time: str
    stays: str
    role: str


DATAFLOWS: dict[Dataflow, Dataset] = {
    "os": Dataset("M", "N", "K", "Z", "output"),
    "ws": Dataset("K", "N", "M", "W", "weight"),
    "is": Dataset("K", "M", "N", "A", "input"),
}


def systolic_arch(rows: int, cols: int, dataflow: Dataflow) -> SpatialArch:
    """A systolic array as SCALE-Sim has it: no shadow registers, memory never in the way."""
    memory = {
        "kind": "memory",
        "memory_class": "scratchpad",
        "capacity_bytes": None,
        "read_bandwidth": "unbounded",
        "write_bandwidth": "unbounded",
        "latency_cycles": 0,
        "source": "assumption: memory is never in the way",
    }
    axes = [
        {"name": "rows", "size": rows, "network": "systolic"},
        {"name": "cols", "size": cols, "network": "systolic"},
    ]
    return SpatialArch.model_validate(
        {
            "schema_version": 1,
            "kind": "spatial",
            "name": f"systolic_{rows}x{cols}_{dataflow}",
            "clock_hz": 1e9,
            "technology": {"node_nm": 45, "source": "assumption: no result uses it"},
            "source": "SCALE-Sim 3.0.0",
            "hierarchy": [
                {**memory, "name": "main_memory"},
                {"kind": "fanout", "name": "pe_array", "axes": axes},
                {**memory, "name": "register", "double_buffered": True},
                {
                    "kind": "compute",
                    "name": "mac",
                    "datatypes": {"int8": {}},
                    "stationary": DATAFLOWS[dataflow].role,
                    "preload": "exposed",
                },
            ],
        }
    )


def systolic_mapping(op: Op, rows: int, cols: int, dataflow: Dataflow) -> Mapping:
    """Passes over the two dims on the array in time, then the third dim streams through."""
    lie = DATAFLOWS[dataflow]
    sizes = op.sizes
    return Mapping(
        nodes=(
            Keep(level="main_memory", tensors=tuple(t.name for t in op.tensors)),
            Temporal(dim=lie.rows, tile=min(rows, sizes[lie.rows])),
            Temporal(dim=lie.cols, tile=min(cols, sizes[lie.cols])),
            Spatial(dim=lie.rows, tile=1, fanout="pe_array", axis="rows"),
            Spatial(dim=lie.cols, tile=1, fanout="pe_array", axis="cols"),
            Keep(level="register", tensors=(lie.stays,)),
            Temporal(dim=lie.time, tile=1),
        )
    )


def array_cycles(m: int, n: int, k: int, rows: int, cols: int, dataflow: Dataflow) -> float:
    """Cycles in the array by the detailed latency."""
    op = parse_notation(f"gemm:M={m},N={n},K={k}")
    arch = systolic_arch(rows, cols, dataflow)
    nest, tiles = nest_of(op, systolic_mapping(op, rows, cols, dataflow), hierarchy_of(arch))
    latency = detailed_batch(nest, tiles, timing_of(arch), CONVENTIONS["tileloom"]).at(0)
    return next(part for part in latency.walk() if part.name == "PE array").amount


def disagreements(rows: Iterable[dict[str, str]]) -> list[str]:
    """Rows of the file whose cycles differ from ours."""
    found: list[str] = []
    for row in rows:
        size = [int(x) for x in row["array"].split("x")]
        dataflow = row["dataflow"]
        assert dataflow in ("os", "ws", "is"), dataflow
        ours = array_cycles(int(row["M"]), int(row["N"]), int(row["K"]), size[0], size[1], dataflow) - 1
        for column in ("total_cycles", "closed_form_minus_1"):
            if ours != float(row[column]):
                found.append(f"{row['name']} {row['array']} {dataflow}: {ours:g}, {column} {row[column]}")
    return found


def main() -> int:
    """Prints the comparison; 1 when a row disagrees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path, default=DEFAULT_CSV, help="rows simulated by SCALE-Sim")
    with parser.parse_args().csv.open(newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = disagreements(rows)
    print("\n".join(wrong))
    print(f"{len(rows)} rows of SCALE-Sim: {len(rows) - len({w.split(':')[0] for w in wrong})} agree exactly")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
