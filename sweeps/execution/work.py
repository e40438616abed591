"""The work that is handed to a worker, and how a worker does it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...archdsl import SweepError, Workload
from ..designs import Blueprint, DesignError
from ..evaluation import DesignPoint, Evaluator, PointResult, evaluate_isolated, failed_result
from ..points import model_version
from ..samplers import Inputs
from ..spec import ConstantsOptions, MappingOptions
from ..store import PointStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkContext:
    """What all design points of a sweep share; sent to each worker once.

    Attributes:
        blueprint: What designs are made from.
        workloads: Networks of ops that every design runs.
        mapping: How ops are mapped.
        constants: Which constants models of GPUs have.
        evaluator: What prices a group of points.
        version: Version of the model that the points' ids were made with.
    """

    blueprint: Blueprint
    workloads: tuple[Workload, ...]
    mapping: MappingOptions
    constants: ConstantsOptions
    evaluator: Evaluator
    version: str


@dataclass(frozen=True, slots=True)
class WorkItem:
    """One design point to run."""

    id: str
    inputs: Inputs


@dataclass(frozen=True, slots=True)
class Chunk:
    """Design points of one group that run together in one worker.

    Attributes:
        items: The points.
        is_suspect: Whether a worker has died on this chunk before.
    """

    items: tuple[WorkItem, ...]
    is_suspect: bool = False

    def without(self, finished: frozenset[str] | set[str]) -> tuple[WorkItem, ...]:
        """The points that have not finished."""
        return tuple(item for item in self.items if item.id not in finished)


def check_version(context: WorkContext) -> None:
    """Make sure that this process has the model that the points' ids were made with.

    Raises:
        SweepError: It has another one.
    """
    here = model_version()
    if here != context.version:
        raise SweepError(
            f"a worker has model version {here} and the sweep {context.version}: the installed code differs between "
            "them or changed while the sweep was running; install one version everywhere and run again"
        )


def run_chunk(context: WorkContext, chunk: Chunk) -> Iterator[PointResult]:
    """Price the points of a chunk.

    Yields:
        One result per point, as soon as it is known.
    """
    points: list[DesignPoint] = []
    for item in chunk.items:
        try:
            design = context.blueprint.design(dict(item.inputs))
        except DesignError as err:
            yield failed_result(item.id, err)
            continue
        point = DesignPoint(
            id=item.id,
            inputs=item.inputs,
            arch=design.arch,
            served=design.served,
            constants=context.constants,
            notes=design.notes,
        )
        points.append(point)
    if points:
        yield from evaluate_isolated(points, context.workloads, context.mapping, context.evaluator)


def lost_result(item: WorkItem, cause: str) -> PointResult:
    """The result of a point whose worker died twice."""
    error = f"WorkerDied: {cause}; perhaps it ran out of memory: try fewer --jobs"
    return PointResult(id=item.id, status=PointStatus.FAILED, error=error)


def suspects(chunk: Chunk, finished: set[str], cause: str) -> tuple[list[Chunk], list[PointResult]]:
    """What to do after a worker died on a chunk: run its other points one by one, or give one up.

    Args:
        chunk: The chunk.
        finished: Ids of its points that have a result.
        cause: How the worker died.

    Returns:
        Chunks to run, and results of points that are given up.
    """
    rest = chunk.without(finished)
    if chunk.is_suspect:
        return [], [lost_result(item, cause) for item in rest]
    return [Chunk((item,), is_suspect=True) for item in rest], []
