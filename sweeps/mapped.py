"""The evaluator that sweeps use: map every op of every workload, and write the estimate down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..archdsl import InfeasibleError, SpatialArch, Workload
from .document import EstimateDocument
from .estimation import EstimateOptions, estimate_workload
from .evaluation import DesignPoint, PointResult, infeasible_result, ok_result
from .spec import MappingOptions


def evaluate_group(
    points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions
) -> Iterator[PointResult]:
    """Price a group of design points; see `evaluation.Evaluator`.

    Raises:
        ModelError: An architecture cannot run an op.
    """
    options = EstimateOptions(objective=mapping.objective, convention=mapping.convention, fidelity=mapping.fidelity)
    for point in points:
        assert isinstance(point.arch, SpatialArch)  # loading a sweep refuses others
        try:
            documents = _documents(point.arch, workloads, options)
        except InfeasibleError as err:
            yield infeasible_result(point.id, err.infeasible)
        else:
            yield ok_result(point.id, documents)


def _documents(
    arch: SpatialArch, workloads: Sequence[Workload], options: EstimateOptions
) -> dict[str, EstimateDocument]:
    return {workload.name: estimate_workload(workload, arch, options).document for workload in workloads}
