"""Progress of a run on stderr: a bar on a terminal, else one line every ten seconds."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Final

from .store import PointStatus

BAR_PERIOD_S: Final = 0.1
LINE_PERIOD_S: Final = 10.0
RATE_WINDOW_S: Final = 30.0
BAR_WIDTH: Final = 30


class SilentProgress:
    """Says nothing, for `-q`."""

    def add(self, num_stored: int, num_to_run: int) -> None:
        """Says nothing."""

    def advance(self, status: PointStatus) -> None:
        """Says nothing."""

    def tick(self) -> None:
        """Says nothing."""

    def finish(self) -> None:
        """Says nothing."""


class StderrProgress:
    """Shows points done, rate and time left.

    Args:
        is_terminal: Whether to draw a bar in place; a line now and then otherwise.
    """

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self._period_s = BAR_PERIOD_S if is_terminal else LINE_PERIOD_S
        self._shown_s = self._started_s = time.monotonic()
        self._num_total = self._num_done = self._num_run = 0
        self._counts: dict[PointStatus, int] = {}
        self._marks = [(self._started_s, 0)]

    def add(self, num_stored: int, num_to_run: int) -> None:
        """More points are known."""
        self._num_total += num_stored + num_to_run
        self._num_done += num_stored
        self.tick()

    def advance(self, status: PointStatus) -> None:
        """One more point has a result."""
        self._num_done += 1
        self._num_run += 1
        self._counts[status] = self._counts.get(status, 0) + 1
        self.tick()

    def tick(self) -> None:
        """Show the state when it is time to."""
        now_s = time.monotonic()
        if now_s - self._shown_s >= self._period_s:
            self._shown_s = now_s
            self._show(now_s)

    def finish(self) -> None:
        """Show the last state and leave the bar's line."""
        if self._is_terminal:
            self._show(time.monotonic())
            sys.stderr.write("\n")
            sys.stderr.flush()

    def _show(self, now_s: float) -> None:
        text = self.text(now_s)
        if self._is_terminal:
            done = round(BAR_WIDTH * self._num_done / self._num_total) if self._num_total else 0
            bar = f"[{'#' * done}{'.' * (BAR_WIDTH - done)}] {text}"
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write(f"\r{bar[:width].ljust(width)}")
        else:
            sys.stderr.write(text + "\n")
        sys.stderr.flush()

    def text(self, now_s: float) -> str:
        """One line: `431/1000 points, 12.3 points/s, 0:46 left, 2 failed`."""
        parts = [f"{self._num_done}/{self._num_total} points"]
        rate = self._rate(now_s)
        if rate > 0:
            parts += [f"{rate:.3g} points/s", f"{duration((self._num_total - self._num_done) / rate)} left"]
        for status in (PointStatus.INFEASIBLE, PointStatus.FAILED):
            if self._counts.get(status):
                parts.append(f"{self._counts[status]} {status}")
        return ", ".join(parts)

    def _rate(self, now_s: float) -> float:
        """Points per second lately: groups differ in cost, so that the whole run's mean misleads."""
        if now_s - self._marks[-1][0] >= 1.0:
            self._marks.append((now_s, self._num_run))
            while len(self._marks) > 2 and now_s - self._marks[1][0] > RATE_WINDOW_S:
                del self._marks[0]
        start_s, num_then = self._marks[0]
        return (self._num_run - num_then) / (now_s - start_s) if now_s > start_s else 0.0


def duration(time_s: float) -> str:
    """Hours, minutes and seconds: `0:46`, `1:02:03`."""
    seconds = round(time_s)
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes}:{seconds % 60:02}"
