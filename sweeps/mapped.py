"""The pricer that sweeps use: map every op of every workload, and write the estimate down."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..archdsl import (
    Description,
    InfeasibleError,
    ModelError,
    SpatialArch,
    Workload,
)
from ..compiler import group_key
from ..models import resolve
from .estimation import EstimateOptions, Estimator
from .evaluation import DesignPoint, PointResult, Pricer, infeasible_result, ok_result
from .spec import MappingOptions

BATCH = 128
"""Design points whose ops are mapped together: the more, the less is listed anew, but the later each is known."""


def evaluate_group(
    points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions
) -> Iterator[PointResult]:
    """Price a group of design points; see `evaluation.Evaluator`.

    One estimator serves the group, so that what its architectures share is searched once; it does not
    outlive the group, so that memory does not grow with the sweep.

    Raises:
        ModelError: An architecture cannot run an op.
    """
    estimator = Estimator(
        EstimateOptions(
            objective=mapping.objective,
            convention=mapping.convention,
            fidelity=mapping.fidelity,
            time_limit_s=mapping.time_limit_s,
        )
    )
    for idx, point in enumerate(points):
        if idx % BATCH == 0:
            estimator.prepare(workloads, [_spatial(some.arch) for some in points[idx : idx + BATCH]])
        try:
            documents = {
                workload.name: estimator.estimate(workload, _spatial(point.arch)).document for workload in workloads
            }
        except InfeasibleError as err:
            yield infeasible_result(point.id, err.infeasible)
        else:
            yield ok_result(point.id, documents)


def key_of_group(arch: Description) -> tuple[object, ...]:
    """Equal for architectures that share every count and every table of the search."""
    return group_key(_spatial(arch))


def early_metrics(arch: Description) -> Mapping[str, float]:
    """The area, which no mapping changes; nothing when the component models cannot tell it."""
    try:
        return {"area_mm2": resolve(_spatial(arch)).area_mm2}
    except ModelError:
        return {}  # the point fails with this error when it runs


def mapping_pricer() -> Pricer:
    """Prices design points by searching mappings."""
    return Pricer(evaluate=evaluate_group, group_key=key_of_group, early_metrics=early_metrics)


def _spatial(arch: Description) -> SpatialArch:
    assert isinstance(arch, SpatialArch)  # loading a sweep refuses others
    return arch
