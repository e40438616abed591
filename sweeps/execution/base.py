"""What every executor does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from ..evaluation import PointResult
from .work import Chunk

TICK_S: Final = 0.25
"""Longest silence of an executor, so that its caller can show progress and notice an interrupt."""


class Executor(Protocol):
    """Runs chunks of design points."""

    @property
    def num_workers(self) -> int:
        """How many chunks run at once."""
        ...

    def run(self, chunks: Sequence[Chunk]) -> Iterator[PointResult | None]:
        """Run chunks.

        Args:
            chunks: Started in this order.

        Yields:
            Each result as soon as it is there, and None when a tick went by without one. Closing the
            iterator early gives up what has not finished.

        Raises:
            SweepError: The workers cannot run at all.
        """
        ...

    def close(self) -> None:
        """End all workers at once."""
        ...
