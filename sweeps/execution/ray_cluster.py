"""Run design points on a Ray cluster: an existing one by its address, or one started on this machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final

from ...archdsl import SweepError
from ..evaluation import PointResult
from .base import TICK_S
from .work import Chunk, WorkContext, check_version, run_chunk, suspects

LOCAL_OBJECT_STORE_BYTES: Final = 100 * 1024 * 1024


@dataclass(slots=True)
class _Running:
    """A chunk that runs somewhere."""

    chunk: Chunk
    finished: set[str] = field(default_factory=set[str])


class RayExecutor:
    """Runs chunks as Ray tasks that stream their results back.

    Args:
        context: What all points share.
        num_workers: Chunks that run at once; every CPU of the cluster when left out.
        address: Address of a running cluster (`host:port`, `auto`); starts a local one when left out.

    Raises:
        SweepError: Ray is not installed, or the cluster does not answer.
    """

    def __init__(self, context: WorkContext, num_workers: int | None, address: str | None) -> None:
        ray = self._ray = _import_ray()
        try:
            ray.init(**_init_options(num_workers, address))
        except (ConnectionError, RuntimeError, ValueError) as err:
            where = f"the Ray cluster at {address}" if address else "a local Ray cluster"
            raise SweepError(f"cannot connect to {where}: {str(err).strip().partition(chr(10))[0]}") from err
        self._num_workers = num_workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._context = ray.put(context)
        self._task = ray.remote(num_cpus=1, num_returns="streaming", max_retries=0)(_run_remotely)

    @property
    def num_workers(self) -> int:
        """Chunks that run at once."""
        return self._num_workers

    def run(self, chunks: Sequence[Chunk]) -> Iterator[PointResult | None]:
        """Run chunks; see `Executor.run`."""
        queue = deque(chunks)
        running: dict[Any, _Running] = {}
        try:
            while queue or running:
                while queue and len(running) < self._num_workers:
                    chunk = queue.popleft()
                    running[self._task.remote(self._context, chunk)] = _Running(chunk)
                ready, _ = self._ray.wait(list(running), num_returns=1, timeout=TICK_S)
                if not ready:
                    yield None
                for stream in ready:
                    yield from self._receive(stream, running, queue)
        finally:
            for stream in running:
                self._ray.cancel(stream, force=True)

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        self._ray.shutdown()

    def _receive(self, stream: Any, running: dict[Any, _Running], queue: deque[Chunk]) -> Iterator[PointResult]:
        task = running[stream]
        try:
            result: PointResult = self._ray.get(next(stream))
        except StopIteration:
            del running[stream]
            return
        except self._ray.exceptions.RayTaskError as err:
            raise SweepError(f"a worker failed: {str(err.cause).partition(chr(10))[0]}") from err
        except self._ray.exceptions.RayError as err:
            del running[stream]
            cause = f"a Ray worker was lost ({type(err).__name__})"
            again, given_up = suspects(task.chunk, task.finished, cause)
            queue.extend(again)
            yield from given_up
            return
        task.finished.add(result.id)
        yield result


def _run_remotely(context: WorkContext, chunk: Chunk) -> Iterator[PointResult]:
    check_version(context)
    yield from run_chunk(context, chunk)


def _import_ray() -> Any:
    """The module; it is optional and only partly typed."""
    try:
        return import_module("ray")
    except ImportError as err:
        raise SweepError("executor ray needs Ray; install it with: pip install 'tileloom[scale]'") from err


def _init_options(num_workers: int | None, address: str | None) -> dict[str, Any]:
    common: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address:
        return {**common, "address": address}
    return {
        **common,
        "address": "local",
        "num_cpus": num_workers,
        "include_dashboard": False,
        "object_store_memory": LOCAL_OBJECT_STORE_BYTES,
    }
