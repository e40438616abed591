"""What a run would do: how many points, why each would run, and how long that takes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from .engine import make_chunks, metadata
from .evaluation import Pricer
from .execution import Chunk, WorkContext
from .execution.work import run_chunk
from .loading import Sweep
from .planning import PlannedPoint, Planner
from .points import model_version
from .samplers import make_sampler
from .spec import Nsga2Sampler
from .store import STORE_NAME, PointStatus, StoredState, open_for_reading, read_state

PILOT_POINTS = 2


class Reason(StrEnum):
    """Why a point would run, or why not."""

    NEW = "new"
    CHANGED = "changed"
    FAILED = "failed"
    STORED = "stored"
    EXCLUDED = "excluded"
    SAME = "same"


RUNNING_REASONS = (Reason.NEW, Reason.CHANGED, Reason.FAILED)
REASON_TEXTS: dict[Reason, str] = {
    Reason.NEW: "no result is stored",
    Reason.CHANGED: "its result was computed with other inputs",
    Reason.FAILED: "it failed, and --retry-failed is given",
    Reason.STORED: "its result is stored",
    Reason.EXCLUDED: "a constraint rules it out",
    Reason.SAME: "it is the same design as another point",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """What a run would do.

    Attributes:
        points: Every point that is known beforehand, with its reason.
        counts: Number of points per reason.
        changes: What changed since the last run: `the model`, `the mapping options`, ...
        max_points: Most points of the sweep when later ones depend on earlier results, else None.
        time_s: Estimated time; None when nothing has to run.
        time_basis: What the estimated time rests on.
    """

    points: tuple[tuple[PlannedPoint, Reason], ...]
    counts: dict[Reason, int]
    changes: tuple[str, ...] = ()
    max_points: int | None = None
    time_s: float | None = None
    time_basis: str = ""

    @property
    def num_to_run(self) -> int:
        """How many points would run."""
        return sum(self.counts[reason] for reason in RUNNING_REASONS)


def dry_run(
    sweep: Sweep,
    directory: Path,
    pricer: Pricer,
    *,
    num_workers: int,
    retry_failed: bool = False,
) -> DryRun:
    """Find out what `run_sweep` would do with the same arguments; nothing is written.

    Without a stored result to estimate the time from, the first two points run and their results are
    dropped.

    Raises:
        SweepError: The directory holds something else than this sweep's store.
    """
    state = StoredState()
    if (directory / STORE_NAME).is_file():
        with open_for_reading(directory) as connection:
            state = read_state(connection)
    version = model_version()
    planner = Planner(sweep, version, pricer)
    spec = sweep.spec
    batch = make_sampler(spec.sampler, sweep.space, len(spec.objectives), planner.is_allowed).ask()
    planned = [planner.plan(index, inputs) for index, inputs in enumerate(dict.fromkeys(batch))]
    points = _with_reasons(planned, state, retry_failed)
    to_run = [point for point, reason in points if reason in RUNNING_REASONS and point.failure is None]
    context = WorkContext(
        blueprint=sweep.blueprint,
        workloads=sweep.workloads,
        mapping=spec.mapping,
        constants=spec.constants,
        evaluator=pricer.evaluate,
        version=version,
    )
    max_points = None
    num_expected = len(to_run)
    if isinstance(spec.sampler, Nsga2Sampler):
        max_points = spec.sampler.population * spec.sampler.generations
        num_expected = max_points - len(planned) + len(to_run)
    time_s, time_basis = _estimate_time(to_run, num_expected, state.mean_elapsed_s, context, num_workers)
    return DryRun(
        points=points,
        counts={reason: sum(r is reason for _, r in points) for reason in Reason},
        changes=_changes(state, sweep, version),
        max_points=max_points,
        time_s=time_s,
        time_basis=time_basis,
    )


def _with_reasons(
    planned: Sequence[PlannedPoint], state: StoredState, retry_failed: bool
) -> tuple[tuple[PlannedPoint, Reason], ...]:
    seen: set[str] = set()
    found: list[tuple[PlannedPoint, Reason]] = []
    for point in planned:
        point_id = point.row.id
        status = state.statuses.get(point_id)
        if point.is_excluded:
            reason = Reason.EXCLUDED
        elif status is not None and not (retry_failed and status is PointStatus.FAILED):
            reason = Reason.STORED
        elif point_id in seen:
            reason = Reason.SAME
        elif status is not None:
            reason = Reason.FAILED
        else:
            reason = Reason.CHANGED if point.row.inputs_text in state.listed_ids else Reason.NEW
        seen.add(point_id)
        found.append((point, reason))
    return tuple(found)


def _changes(state: StoredState, sweep: Sweep, version: str) -> tuple[str, ...]:
    """What the last run recorded otherwise."""
    if not state.metadata:
        return ()
    now: dict[str, object] = json.loads(json.dumps(metadata(sweep, version)))
    named = {
        "the model": "model_version",
        "the mapping options": "mapping",
        "the constants": "constants",
        "the workloads": "workloads",
        "the base architecture": "base",
        "the specification": "spec_text",
    }
    return tuple(words for words, key in named.items() if state.metadata.get(key) != now[key])


def _estimate_time(
    to_run: Sequence[PlannedPoint], num_expected: int, mean_s: float | None, context: WorkContext, num_workers: int
) -> tuple[float | None, str]:
    """Estimated time, and what it rests on."""
    if num_expected <= 0:
        return None, "nothing has to run"
    if mean_s is not None:
        return mean_s * num_expected / num_workers, "the mean of the stored results"
    if not to_run:
        return None, "nothing to estimate from"
    times = _pilot(to_run, context)
    later_s = times[-1]
    num_groups = len({point.group for point in to_run})
    total_s = times[0] * num_groups + later_s * max(0, num_expected - num_groups)
    return total_s / min(num_workers, num_expected), f"a trial of {len(times)} points"


def _pilot(to_run: Sequence[PlannedPoint], context: WorkContext) -> list[float]:
    """Times of the first points of a middling group: the first one's includes what the group shares."""
    chunks = make_chunks(to_run, 1)
    chunk = chunks[len(chunks) // 2]
    times: list[float] = []
    started_s = time.perf_counter()
    for _ in run_chunk(context, Chunk(chunk.items[:PILOT_POINTS])):
        now_s = time.perf_counter()
        times.append(now_s - started_s)
        started_s = now_s
    return times
