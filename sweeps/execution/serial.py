"""Run design points in this process: for tests and debugging."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..evaluation import PointResult
from .work import Chunk, WorkContext, check_version, run_chunk


class SerialExecutor:
    """Runs one chunk after the other."""

    def __init__(self, context: WorkContext) -> None:
        self._context = context

    @property
    def num_workers(self) -> int:
        """Always 1."""
        return 1

    def run(self, chunks: Sequence[Chunk]) -> Iterator[PointResult | None]:
        """Run chunks; see `Executor.run`."""
        check_version(self._context)
        for chunk in chunks:
            yield from run_chunk(self._context, chunk)

    def close(self) -> None:
        """Nothing to end."""
