"""The pricer of sweeps that run networks of ops on GPUs: each op is a kernel, as `tileloom estimate` has it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ..archdsl import Description, GpuArch, Workload
from .evaluation import DesignPoint, PointResult, Pricer
from .kernel_document import KernelTotalDocument, chip_of, kernels_document
from .spec import MappingOptions
from .store import PointStatus


def evaluate_kernels(
    points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions
) -> Iterator[PointResult]:
    """Price design points one by one; see `evaluation.Evaluator`.

    Raises:
        ModelError: A GPU cannot run an op, or there is no such calibration.
    """
    for point in points:
        assert isinstance(point.arch, GpuArch)  # loading a sweep refuses others
        chip = chip_of(point.arch, point.constants)
        documents = [kernels_document(workload, chip, point.notes) for workload in workloads]
        totals = {document["workload"]: document["total"] for document in documents}
        yield PointResult(
            id=point.id,
            status=PointStatus.OK,
            metrics=_sum(list(totals.values())),
            workload_metrics={name: _sum([total]) for name, total in totals.items()},
            breakdown=json.dumps(documents, separators=(",", ":"), allow_nan=False),
        )


def kernel_pricer() -> Pricer:
    """Prices design points by kernels of GPUs."""
    return Pricer(evaluate=evaluate_kernels, group_key=_one_group)


def _sum(totals: Sequence[KernelTotalDocument]) -> dict[str, float]:
    """Metrics of workloads that run one after another."""
    latency_s = sum(total["latency_s"] for total in totals)
    energy_pj = sum(total["energy_pj"] for total in totals)
    return {
        "latency_s": latency_s,
        "energy_pj": energy_pj,
        "edp_pj_s": energy_pj * latency_s,
        "power_w": sum(total["power_w"] * total["latency_s"] for total in totals) / latency_s,
        "main_memory_bytes": sum(total["main_memory_bytes"] for total in totals),
        "macs": float(sum(total["macs"] for total in totals)),
        "utilization": sum(total["utilization"] * total["latency_s"] for total in totals) / latency_s,
    }


def _one_group(arch: Description) -> int:
    """Kernels share nothing between chips that grouping could save."""
    return 0
