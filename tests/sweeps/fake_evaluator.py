"""A stand-in for the mapper: cheap, exact, and as badly behaved as a test asks for.

Workers import this module by name, and tests steer it through environment variables, which workers inherit:

    FAKE_LOG         file to which every evaluated point's id is appended
    FAKE_SLEEP_S     time that each point takes
    FAKE_CRASH_ROWS  the process dies at points with so many rows
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tileloom.archdsl import Infeasible, Op, SpatialArch, Tensor, TensorAxis, TensorRole, Workload
from tileloom.sweeps.evaluation import DesignPoint, PointResult, infeasible_result, ok_result
from tileloom.sweeps.spec import MappingOptions

FAILING_ROWS = 13
LEAST_CAPACITY_BYTES = 4096


def fake_load(spec: str, shapes: Mapping[str, int]) -> Workload:
    """A one-op workload whose size is the length of its name."""
    size = len(spec)
    tensors = tuple(
        Tensor(name=name, role=role, bits=8, axes=tuple(TensorAxis(terms=((dim, 1),)) for dim in dims))
        for name, role, dims in (
            ("A", TensorRole.INPUT, "MK"),
            ("W", TensorRole.WEIGHT, "KN"),
            ("Z", TensorRole.OUTPUT, "MN"),
        )
    )
    dims = (("M", shapes.get("batch", 1)), ("N", size), ("K", size))
    return Workload(name=spec, ops=(Op(name="op", kind="gemm", dims=dims, tensors=tensors, datatype="int8"),))


def fake_evaluate(
    points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions
) -> Iterator[PointResult]:
    """Price points by a formula, one after the other."""
    for point in points:
        yield fake_point(point, workloads, mapping)


def fake_evaluate_list(
    points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions
) -> list[PointResult]:
    """Price points all at once and hand them back in another order."""
    return [fake_point(point, workloads, mapping) for point in reversed(points)]


def fake_point(point: DesignPoint, workloads: Sequence[Workload], mapping: MappingOptions) -> PointResult:
    """Price one point: more rows are faster and larger, a larger scratchpad saves energy and takes area."""
    arch = point.arch
    assert isinstance(arch, SpatialArch)
    rows = arch.fanouts[0].axes[0].size
    capacity_bytes = arch.memories[1].capacity_bytes or 0
    if os.environ.get("FAKE_SLEEP_S"):
        time.sleep(float(os.environ["FAKE_SLEEP_S"]))
    if os.environ.get("FAKE_CRASH_ROWS") == str(rows):
        os._exit(7)
    if os.environ.get("FAKE_LOG"):
        with Path(os.environ["FAKE_LOG"]).open("a", encoding="utf-8") as log:
            log.write(point.id + "\n")
    if rows == FAILING_ROWS:
        raise ValueError(f"cannot price {rows} rows")
    if capacity_bytes < LEAST_CAPACITY_BYTES:
        return infeasible_result(
            point.id,
            Infeasible(
                resource="scratchpad capacity",
                demand=LEAST_CAPACITY_BYTES,
                limit=capacity_bytes,
                unit="bytes",
                levers=(f"give scratchpad at least {LEAST_CAPACITY_BYTES} bytes",),
            ),
        )
    documents = {
        workload.name: _document(workload, rows, capacity_bytes, arch.clock_hz, mapping.objective)
        for workload in workloads
    }
    return ok_result(point.id, documents)


def _document(workload: Workload, rows: int, capacity_bytes: int, clock_hz: float, objective: str) -> dict[str, object]:
    cycles = 1000.0 * workload.macs / rows
    energy_pj = workload.macs * (1.0 + 1e6 / capacity_bytes) / 3
    return {
        "workload": workload.name,
        "objective": objective,
        "ops": [
            {
                "name": op.name,
                "count": 1,
                "latency_cycles": cycles,
                "energy_pj": energy_pj,
                "macs": op.macs,
                "utilization": 0.5,
                "bottleneck": "compute",
                "proved_optimal": True,
            }
            for op in workload.ops
        ],
        "total": {
            "latency_cycles": cycles,
            "latency_s": cycles / clock_hz,
            "energy_pj": energy_pj,
            "area_mm2": 0.01 * rows + capacity_bytes / 1e6,
            "macs": workload.macs,
            "main_memory_bytes": int(1e9 / capacity_bytes),
            "utilization": 0.5,
        },
    }
