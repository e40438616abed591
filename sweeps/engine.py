"""The sweep engine: ask the sampler, skip what is stored, run the rest, store each result when it is there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Collection, Generator, Hashable, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Protocol

from .designs import WORKLOADS, ServedModel
from .evaluation import PointResult, Pricer
from .execution import Chunk, Executor, WorkContext, WorkItem
from .loading import Sweep
from .planning import PlannedPoint, Planner, axis_units
from .points import model_version
from .samplers import Inputs, Outcome, make_sampler
from .spec import ServeTerms
from .store import PointStatus
from .writer import SweepWriter, open_for_writing

MakeExecutor = Callable[[WorkContext], Executor]


class Progress(Protocol):
    """Is told how far a run is."""

    def add(self, num_stored: int, num_to_run: int) -> None:
        """More points are known: so many have a result already, so many will run."""
        ...

    def advance(self, status: PointStatus) -> None:
        """One more point has a result."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...


@dataclass(slots=True)
class RunSummary:
    """What a run did.

    Attributes:
        num_points: Design points of the sweep that are known so far.
        num_reused: Those whose result was stored before.
        num_run: Those that ran now.
        num_same: Those that resolve to the same design as another one, and share its result.
        num_excluded: Those that a constraint ruled out before they ran.
        statuses: Number of results per status, stored ones included.
        is_interrupted: Whether it was stopped before the end.
        has_changed_spec: Whether the specification differs from the last run's.
    """

    num_points: int = 0
    num_reused: int = 0
    num_run: int = 0
    num_same: int = 0
    num_excluded: int = 0
    statuses: dict[PointStatus, int] = field(default_factory=dict[PointStatus, int])
    is_interrupted: bool = False
    has_changed_spec: bool = False

    def count(self, status: PointStatus) -> None:
        """One more result of that status."""
        self.statuses[status] = self.statuses.get(status, 0) + 1

    @property
    def num_failed(self) -> int:
        """Points that failed."""
        return self.statuses.get(PointStatus.FAILED, 0)


def run_sweep(
    sweep: Sweep,
    directory: Path,
    pricer: Pricer,
    make_executor: MakeExecutor,
    progress: Progress,
    *,
    retry_failed: bool = False,
) -> RunSummary:
    """Run a sweep, or what is left of it, into its output directory.

    SIGINT and SIGTERM stop it between two results; what has finished is stored.

    Args:
        sweep: The sweep.
        directory: Output directory.
        pricer: The model.
        make_executor: Makes the executor when there is something to run.
        progress: Is told how far it is.
        retry_failed: Whether stored points that failed run again.

    Raises:
        SweepError: The directory or its store cannot be used, or the workers cannot run.
    """
    version = model_version()
    with open_for_writing(directory, sweep.spec.name) as writer, _stop_signals() as stop:
        before = writer.state()
        retry = {i for i, status in before.statuses.items() if retry_failed and status is PointStatus.FAILED}
        writer.begin(metadata(sweep, version))
        context = WorkContext(
            blueprint=sweep.blueprint,
            workloads=sweep.workloads,
            mapping=sweep.spec.mapping,
            constants=sweep.spec.constants,
            evaluator=pricer.evaluate,
            version=version,
        )
        planner = Planner(sweep, version, pricer)
        run = _Run(sweep, writer, planner, progress, stop, before.statuses, retry)
        run.summary.has_changed_spec = before.metadata.get("spec_text", sweep.spec_text) != sweep.spec_text
        with closing(LazyExecutor(lambda: make_executor(context))) as executor:
            run.to_the_end(executor)
        return run.summary


def metadata(sweep: Sweep, version: str) -> dict[str, object]:
    """What the store says about a sweep; `store.SweepResults` explains it."""
    spec = sweep.spec
    units = axis_units(sweep)
    return {
        "name": spec.name,
        "base": spec.base,
        "arch_name": sweep.blueprint.base.name,
        "pricing": sweep.pricing.value,
        "spec_text": sweep.spec_text,
        "axes": [{"path": a.path, "values": a.values, "unit": u} for a, u in zip(sweep.space.axes, units, strict=True)],
        "workloads": [
            *(
                {
                    "name": workload.name,
                    "spec": entry.workload,
                    "size": f"{workload.macs:,} MACs in {sum(op.count for op in workload.ops):,} ops",
                    "unmodelled": [f"{node.name} ({node.kind}): {node.reason}" for node in workload.unmodelled],
                    "notices": workload.notices,
                }
                for entry, workload in zip(spec.workloads, sweep.workloads, strict=False)
            ),
            *(
                {
                    "name": served.name,
                    "spec": spec.workloads[served.index].workload,
                    "size": served_text(served, [axis.path for axis in sweep.space.axes]),
                    "unmodelled": (),
                    "notices": served.model.notes,
                }
                for served in sweep.blueprint.served
            ),
        ],
        "objectives": [objective.value for objective in spec.objectives],
        "constraints": spec.constraints,
        "mapping": spec.mapping.model_dump(mode="json", by_alias=True),
        "constants": spec.constants.model_dump(mode="json"),
        "sampler": spec.sampler.model_dump(mode="json"),
        "model_version": version,
    }


def served_text(served: ServedModel, swept: Collection[str]) -> str:
    """How a language model is served in all designs: its traffic, and terms that are not the default.

    Args:
        served: The model.
        swept: Paths whose values differ between designs.
    """
    usual = ServeTerms().model_dump()
    shown = {
        name: value
        for name, value in served.terms.model_dump().items()
        if (name in ("isl", "osl", "concurrency") or value != usual[name])
        and not any(f"{WORKLOADS}.{key}.serve.{name}" in swept for key in (served.name, served.index))
    }
    return ", ".join(
        f"{name} {value:,}" if isinstance(value, int) else f"{name} {value}" for name, value in shown.items()
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """One run in progress."""

    sweep: Sweep
    writer: SweepWriter
    planner: Planner
    progress: Progress
    stop: threading.Event
    statuses: dict[str, PointStatus]
    retry: set[str]
    summary: RunSummary = field(default_factory=RunSummary)
    planned: dict[Inputs, PlannedPoint] = field(default_factory=dict[Inputs, PlannedPoint])

    def to_the_end(self, executor: LazyExecutor) -> None:
        """Run batch after batch until the sampler has no more."""
        spec = self.sweep.spec
        sampler = make_sampler(spec.sampler, self.sweep.space, len(spec.objectives), self.planner.is_allowed)
        while batch := sampler.ask():
            chunks = self._plan(batch, executor)
            if chunks:
                self._run(chunks, executor)
            if self.stop.is_set():
                self.summary.is_interrupted = True
                return
            sampler.tell(self._outcome(inputs) for inputs in batch)

    def _plan(self, batch: Sequence[Inputs], executor: LazyExecutor) -> list[Chunk]:
        """List a batch's new points in the store; the chunks that have to run."""
        new: list[PlannedPoint] = []
        for inputs in batch:
            if self.stop.is_set():
                break
            if inputs not in self.planned:
                self.planned[inputs] = self.planner.plan(len(self.planned), inputs)
                new.append(self.planned[inputs])
        self.writer.list_points(point.row for point in new)
        to_run = self._select(new)
        self.writer.write([point.failure for point in to_run if point.failure is not None])
        for point in to_run:
            if point.failure is not None:
                self._count(point.failure)
        valid = [point for point in to_run if point.failure is None]
        return make_chunks(valid, executor.num_workers) if valid and not self.stop.is_set() else []

    def _select(self, new: Sequence[PlannedPoint]) -> list[PlannedPoint]:
        """The points that have no result yet; of those that resolve to the same design the first."""
        to_run: dict[str, PlannedPoint] = {}
        num_reused = 0
        for point in new:
            point_id = point.row.id
            if point.is_excluded:
                self.summary.num_excluded += 1
            elif point_id in self.statuses and point_id not in self.retry:
                num_reused += 1
                self.summary.count(self.statuses[point_id])
            elif point_id in to_run:
                self.summary.num_same += 1
            else:
                to_run[point_id] = point
        self.summary.num_points += len(new)
        self.summary.num_reused += num_reused
        self.progress.add(num_reused, len(to_run))
        return list(to_run.values())

    def _run(self, chunks: Sequence[Chunk], executor: LazyExecutor) -> None:
        results = executor.run(chunks)
        try:
            while not self.stop.is_set() and (item := next(results, _END)) is not _END:
                if isinstance(item, PointResult):
                    self.writer.write([item])
                    self._count(item)
                else:
                    self.progress.tick()
        finally:
            results.close()

    def _count(self, result: PointResult) -> None:
        self.statuses[result.id] = result.status
        self.retry.discard(result.id)
        self.summary.num_run += 1
        self.summary.count(result.status)
        self.progress.advance(result.status)

    def _outcome(self, inputs: Inputs) -> Outcome:
        """What the sampler learns of a combination: further from counting with each constraint violated."""
        point = self.planned[inputs]
        constraints = self.sweep.constraints
        stored = None if point.is_excluded else self.writer.metrics(point.row.id)
        if stored is not None and stored[0] is not PointStatus.OK:
            return Outcome(objectives=(), penalty=len(constraints) + 1)
        metrics = stored[1] if stored else {}
        environment = {**point.row.terms, **metrics}
        penalty = sum(c.is_decided_by(environment) and not c.holds(environment) for c in constraints)
        objectives = tuple(o.cost(metrics) for o in self.sweep.spec.objectives) if stored else ()
        return Outcome(objectives=objectives, penalty=penalty)


_END = object()


def make_chunks(points: Sequence[PlannedPoint], num_workers: int) -> list[Chunk]:
    """Points by group, groups split only so far that every worker has something to do.

    Largest first, and of equals the last: parameters are mostly listed from small to large, and the largest designs,
    which take longest, must not be left to one worker at the end.
    """
    groups: dict[Hashable, list[WorkItem]] = {}
    for point in points:
        groups.setdefault(point.group, []).append(WorkItem(point.row.id, point.row.inputs))
    most = max(1, -(-len(points) // num_workers))
    chunks = [
        Chunk(tuple(items[start : start + most])) for items in groups.values() for start in range(0, len(items), most)
    ]
    chunks.reverse()
    return sorted(chunks, key=lambda chunk: -len(chunk.items))


class LazyExecutor:
    """An executor that is made when something has to run, so that a finished sweep starts no worker.

    Args:
        make: Makes the executor.
    """

    def __init__(self, make: Callable[[], Executor]) -> None:
        self._make = make
        self._made: Executor | None = None

    @property
    def num_workers(self) -> int:
        """How many chunks run at once."""
        return self._executor.num_workers

    def run(self, chunks: Sequence[Chunk]) -> Generator[PointResult | None]:
        """Run chunks; see `Executor.run`."""
        yield from self._executor.run(chunks)

    def close(self) -> None:
        """End the workers, if there are any."""
        if self._made is not None:
            self._made.close()

    @property
    def _executor(self) -> Executor:
        if self._made is None:
            self._made = self._make()
        return self._made


@contextmanager
def _stop_signals() -> Generator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second SIGINT acts at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
