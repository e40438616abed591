"""The pricer of sweeps that serve language models: each design's systems serve each model as `tileloom serve estimate` does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from ..archdsl import (
    Description,
    GpuArch,
    Infeasible,
    InfeasibleError,
    System,
    Workload,
    counted,
)
from ..models import serving
from .designs import ServedModel
from .evaluation import DesignPoint, PointResult, Pricer, infeasible_result
from .objectives import METRICS_OF, Metric, Pricing
from .serving_documents import Json, estimate_document
from .spec import ConstantsOptions, MappingOptions
from .store import PointStatus

METRICS = METRICS_OF[Pricing.SERVING]


def evaluate_served(
    points: Sequence[DesignPoint], workloads: Sequence[Workload], mapping: MappingOptions
) -> Iterator[PointResult]:
    """Price design points one by one; see `evaluation.Evaluator`.

    Raises:
        ModelError: A layout does not suit the model, a chip lacks a datatype, or there is no such calibration.
    """
    for point in points:
        try:
            documents = {served.name: _document(point, served) for served in point.served}
        except InfeasibleError as err:
            yield infeasible_result(point.id, err.infeasible)
        else:
            yield _ok_result(point.id, documents)


def serving_pricer() -> Pricer:
    """Prices design points by what serving language models on them takes."""
    return Pricer(evaluate=evaluate_served, group_key=_one_group)


def service_of(arch: Description, served: ServedModel, constants: ConstantsOptions) -> serving.Service:
    """The service that a design gives.

    Raises:
        ModelError: No such calibration, datatype or quantisation, or chips that serve no language models.
    """
    terms = served.terms
    return serving.make_service(
        served.model,
        serving.numerics_of(served.model, terms.quantisation, terms.kv),
        _fabric(arch),
        serving.Engine(
            policy=terms.policy,
            max_step_tokens=terms.max_step_tokens,
            speculation=serving.Speculation(
                draft_tokens=terms.draft_tokens, acceptance=terms.acceptance, draft_share=terms.draft_share
            ),
        ),
        serving.Traffic(isl=terms.isl, osl=terms.osl, prefix_hit=terms.prefix_hit),
        mode=constants.mode,
        calibration=constants.calibration,
        load_imbalance=terms.load_imbalance,
    )


def _fabric(arch: Description) -> serving.Fabric:
    if isinstance(arch, System):
        return serving.fabric_of(arch)
    assert isinstance(arch, GpuArch)  # loading a sweep refuses others
    return serving.fabric_of_chips(arch, 1)


def _document(point: DesignPoint, served: ServedModel) -> Json:
    """One model on one design, with the design's notes.

    Raises:
        InfeasibleError: A chip's memory does not hold it, or the layout takes more chips than there are.
    """
    service = service_of(point.arch, served, point.constants)
    terms = served.terms
    layout = serving.Layout(tp=terms.tp, pp=terms.pp, dp=terms.dp, ep=terms.ep)
    if layout.num_chips > service.fabric.num_chips:
        raise InfeasibleError(_too_few_chips(service, layout))
    document = estimate_document(service, serving.serve(service, layout, terms.concurrency))
    notes = [*point.notes, *cast("list[str]", document["notes"])]
    return {**document, "workload": served.name, "num_chips": layout.num_chips, "notes": notes}


def _too_few_chips(service: serving.Service, layout: serving.Layout) -> Infeasible:
    return Infeasible(
        resource=f"chips of {service.fabric.name} ({layout})",
        demand=layout.num_chips,
        limit=service.fabric.num_chips,
        unit="chips",
        levers=(f"a system of {counted(layout.num_chips, 'chips')}", "fewer chips for an instance: tp, pp or dp"),
        op=service.model.name,
    )


def _ok_result(point_id: str, documents: Mapping[str, Json]) -> PointResult:
    per_workload = {name: {m.name: _number(document[m.name]) for m in METRICS} for name, document in documents.items()}
    return PointResult(
        id=point_id,
        status=PointStatus.OK,
        metrics={metric.name: _worst(metric, list(per_workload.values())) for metric in METRICS},
        workload_metrics=per_workload,
        breakdown=json.dumps(list(documents.values()), separators=(",", ":"), allow_nan=False),
    )


def _worst(metric: Metric, each: Sequence[Mapping[str, float]]) -> float:
    """What a design has to offer whichever of the models it serves."""
    values = [values[metric.name] for values in each]
    return min(values) if metric.is_larger_better else max(values)


def _number(value: object) -> float:
    assert isinstance(value, int | float)  # metrics are numbers of the document
    return float(value)


def _one_group(arch: Description) -> int:
    """Models of serving share nothing between architectures that grouping could save."""
    return 0
