"""Progress: a bar on a terminal, else a line every ten seconds."""

from __future__ import annotations

import pytest

from tileloom.sweeps.progress import StderrProgress, duration
from tileloom.sweeps.store import PointStatus


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("tileloom.sweeps.progress.time.monotonic", clock)
    return clock


def test_without_a_terminal_there_is_a_line_every_ten_seconds(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = StderrProgress(is_terminal=False)
    progress.add(200, 1000)
    for _ in range(200):
        clock.now_s += 0.125
        progress.advance(PointStatus.OK)
    progress.finish()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0] == "280/1200 points, 8 points/s, 1:55 left"


def test_idle_ticks_show_that_it_is_alive(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = StderrProgress(is_terminal=False)
    progress.add(0, 10)
    clock.now_s += 11
    progress.tick()
    assert capsys.readouterr().err == "0/10 points\n"


def test_bar_is_drawn_in_place_and_counts_what_went_wrong(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    progress = StderrProgress(is_terminal=True)
    progress.add(0, 4)
    for status in (PointStatus.OK, PointStatus.FAILED, PointStatus.INFEASIBLE):
        clock.now_s += 1
        progress.advance(status)
    progress.finish()
    err = capsys.readouterr().err
    assert err.count("\r") == 4
    assert err.endswith("\n")
    last = err.rpartition("\r")[2].rstrip()
    assert last == "[######################........] 3/4 points, 1 points/s, 0:01 left, 1 infeasible"[: len(last)]


@pytest.mark.parametrize(("time_s", "text"), [(0.4, "0:00"), (46, "0:46"), (90, "1:30"), (3723, "1:02:03")])
def test_duration(time_s: float, text: str) -> None:
    assert duration(time_s) == text
