"""Run design points in worker processes on this machine.

Workers are spawned, not forked, so that they behave alike on every system and inherit no locks. A worker
that dies takes no result with it but those it had not handed over; its points run again one by one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Final

from ...archdsl import SweepError
from ..evaluation import PointResult
from .base import TICK_S
from .work import Chunk, WorkContext, check_version, run_chunk, suspects

END_GRACE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Ready:
    """A worker says that it has nothing to do."""


@dataclass(frozen=True, slots=True)
class _Broken:
    """A worker says that it cannot work at all, and why."""

    error: str
    traceback: str = ""


_Message = PointResult | _Ready | _Broken


@dataclass(slots=True)
class _Worker:
    """A worker process as seen from the process that runs the sweep."""

    process: BaseProcess
    connection: Connection
    is_started: bool = False
    chunk: Chunk | None = None
    finished: set[str] = field(default_factory=set[str])


class LocalExecutor:
    """A pool of worker processes.

    Args:
        context: What all points share.
        num_workers: Number of processes.
    """

    def __init__(self, context: WorkContext, num_workers: int) -> None:
        self._context = context
        self._num_workers = num_workers
        self._workers: list[_Worker] = []

    @property
    def num_workers(self) -> int:
        """Number of processes."""
        return self._num_workers

    def run(self, chunks: Sequence[Chunk]) -> Iterator[PointResult | None]:
        """Run chunks; see `Executor.run`."""
        queue = deque(chunks)
        while queue or any(worker.chunk for worker in self._workers):
            self._start_workers(len(queue))
            self._hand_out(queue)
            ready = wait([worker.connection for worker in self._workers], timeout=TICK_S)
            if not ready:
                yield None
            for worker in [worker for worker in self._workers if worker.connection in ready]:
                yield from self._receive(worker, queue)

    def close(self) -> None:
        """End all workers at once; they hold nothing that has to be kept."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.connection.close()
            worker.process.terminate()
        for worker in workers:
            worker.process.join(END_GRACE_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _start_workers(self, num_waiting: int) -> None:
        """Start workers while more chunks wait than workers are free to take them."""
        num_free = sum(worker.chunk is None for worker in self._workers)
        with _interrupts_ignored():  # spawned processes keep ignoring Ctrl-C: it is for this one to handle
            while len(self._workers) < self._num_workers and num_free < num_waiting:
                self._workers.append(_spawn(self._context))
                num_free += 1

    def _hand_out(self, queue: deque[Chunk]) -> None:
        for worker in self._workers:
            if queue and worker.is_started and worker.chunk is None:
                worker.chunk, worker.finished = queue.popleft(), set()
                try:
                    worker.connection.send(worker.chunk)
                except OSError:  # it died while idle; its connection reports that next
                    queue.appendleft(worker.chunk)
                    worker.chunk, worker.is_started = None, False

    def _receive(self, worker: _Worker, queue: deque[Chunk]) -> Iterator[PointResult]:
        try:
            message: _Message = worker.connection.recv()
        except (EOFError, OSError):
            yield from self._bury(worker, queue)
            return
        match message:
            case _Ready():
                worker.is_started, worker.chunk = True, None
            case _Broken():
                raise SweepError(message.error) from (RuntimeError(message.traceback) if message.traceback else None)
            case PointResult():
                worker.finished.add(message.id)
                yield message

    def _bury(self, worker: _Worker, queue: deque[Chunk]) -> Iterator[PointResult]:
        """Take a dead worker's points back."""
        worker.process.join(END_GRACE_S)
        worker.connection.close()
        self._workers.remove(worker)
        cause = _how_it_ended(worker.process.exitcode)
        if not worker.is_started:
            raise SweepError(f"{cause} before it could start")
        if worker.chunk is not None:
            again, given_up = suspects(worker.chunk, worker.finished, cause)
            queue.extend(again)
            yield from given_up


def _spawn(context: WorkContext) -> _Worker:
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=True)
    process = spawn.Process(target=worker_main, args=(theirs, context), daemon=True)
    process.start()
    theirs.close()  # so that its end is seen when the worker dies
    return _Worker(process, ours)


def worker_main(connection: Connection, context: WorkContext) -> None:
    """A worker process: take chunks and give back results until the other side hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        check_version(context)
    except SweepError as err:
        connection.send(_Broken(str(err)))
        return
    try:
        connection.send(_Ready())
        while True:
            chunk: Chunk = connection.recv()
            for result in run_chunk(context, chunk):
                connection.send(result)
            connection.send(_Ready())
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # the sweep has ended
    except Exception as err:  # noqa: BLE001 (the edge of a process: there is nobody else to report it)
        connection.send(_Broken(f"a worker failed: {type(err).__name__}: {err}", traceback.format_exc()))


def _end_with_parent() -> None:
    """End this process when the sweep's is killed, also in the middle of a long search."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _interrupts_ignored() -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _how_it_ended(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        return f"a worker process was killed by {signal.Signals(-exit_code).name}"
    return f"a worker process ended with exit code {exit_code}"
