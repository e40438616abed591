"""The result store: what is refused, what survives, and what readers see."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from pathlib import Path

import pytest

from tileloom.archdsl import SweepError
from tileloom.sweeps.evaluation import PointResult
from tileloom.sweeps.store import STORE_NAME, PointStatus, SweepResults
from tileloom.sweeps.writer import LOCK_NAME, SweepWriter, open_for_writing, running_process

from .sweep_case import SPEC, export, load, run


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    """Output directory of a finished sweep."""
    run(load(tmp_path), tmp_path / "out")
    return tmp_path / "out"


def test_store_is_in_wal_mode(finished: Path) -> None:
    with sqlite3.connect(finished / STORE_NAME) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_reader_sees_what_is_committed_while_the_writer_writes(finished: Path) -> None:
    with open_for_writing(finished, "sizes") as writer:
        record = SweepResults.load(finished).records[0]
        assert record.status is PointStatus.INFEASIBLE
        writer.write([PointResult(id=record.id, status=PointStatus.FAILED, error="E: x")])
        assert SweepResults.load(finished).records[0].error == "E: x"


def test_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        SweepError, match=r"sweep\.sqlite: there is no sweep store; `tileloom sweep run SPEC -o .*` makes"
    ):
        SweepResults.load(tmp_path)


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    with sqlite3.connect(out / STORE_NAME) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = (out / STORE_NAME).read_bytes()
    for use in (lambda: SweepResults.load(out), lambda: run(load(tmp_path), out)):
        with pytest.raises(SweepError, match="this is not a sweep store; give an output directory of"):
            use()
    assert (out / STORE_NAME).read_bytes() == before


@pytest.mark.parametrize("damage", ["not a database", "overwritten page"])
def test_damaged_store_is_refused_with_what_to_do(finished: Path, tmp_path: Path, damage: str) -> None:
    path = finished / STORE_NAME
    content = bytearray(path.read_bytes())
    if damage == "not a database":
        content[:100] = b"x" * 100
    else:
        content[4096:12288] = os.urandom(8192)
    path.write_bytes(content)
    with pytest.raises(SweepError, match="the store is damaged .*move it away and run the sweep again"):
        run(load(tmp_path), finished)


def test_store_of_a_later_format_is_refused(finished: Path) -> None:
    with sqlite3.connect(finished / STORE_NAME) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SweepError, match="the store has format 99 and this version of tileloom reads 2"):
        SweepResults.load(finished)


def test_directory_of_another_sweep_is_refused(finished: Path, tmp_path: Path) -> None:
    other = load(tmp_path, SPEC.replace("name: sizes", "name: others"))
    with pytest.raises(
        SweepError, match="out: this directory holds the sweep 'sizes', not 'others'; give another -o DIR"
    ):
        run(other, finished)


def test_second_writer_is_refused_with_the_pid(finished: Path) -> None:
    with (
        open_for_writing(finished, "sizes"),
        pytest.raises(SweepError, match=f"out: process {os.getpid()} on .* is running a sweep here"),
        open_for_writing(finished, "sizes"),
    ):
        pass


def test_running_process_is_named_only_while_it_runs(finished: Path) -> None:
    assert running_process(finished) is None
    with open_for_writing(finished, "sizes"):
        assert (running_process(finished) or "").startswith(f"process {os.getpid()} on ")
    assert running_process(finished) is None


def test_stale_lock_file_of_a_killed_run_does_not_matter(finished: Path, tmp_path: Path) -> None:
    (finished / LOCK_NAME).write_text("process 1 on elsewhere\n", encoding="utf-8")
    assert run(load(tmp_path), finished).num_reused == 18


def test_store_locked_by_another_program_is_refused(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tileloom.sweeps.writer.BUSY_TIMEOUT_S", 0.05)
    with sqlite3.connect(finished / STORE_NAME) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SweepError, match="another program holds the store locked; close it and run again"):
            run(load(tmp_path), finished)
    other.close()


def test_full_disk_keeps_what_was_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    write = SweepWriter.write
    count = 0

    def write_until_full(writer: SweepWriter, results: list[PointResult]) -> None:
        nonlocal count
        count += 1
        if count == 8:  # SQLite itself then says that the disk is full
            connection: sqlite3.Connection = getattr(writer, "_connection")  # noqa: B009
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        write(writer, [_large(result) for result in results])

    monkeypatch.setattr(SweepWriter, "write", write_until_full)
    with pytest.raises(SweepError, match="the disk is full; finished design points are kept, so free some space"):
        run(load(tmp_path), out)
    monkeypatch.undo()
    summary = run(load(tmp_path), out)
    assert summary.num_reused >= 6
    assert summary.num_reused + summary.num_run == 18


def _large(result: PointResult) -> PointResult:
    from dataclasses import replace

    return replace(result, traceback="x" * 50_000)


def test_unwritable_output_directory_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(SweepError, match="file: cannot make the output directory: File exists"):
        run(load(tmp_path), tmp_path / "file")


def test_lock_is_let_go_when_the_run_fails(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(RuntimeError, match="boom"), open_for_writing(out, "sizes"):
        raise RuntimeError("boom")
    with (out / LOCK_NAME).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_records_are_found_by_id_prefix_and_index(finished: Path) -> None:
    results = SweepResults.load(finished)
    record = results.records[5]
    assert results.record(record.id) == results.record(record.id[:12]) == results.record("#5") == record
    with pytest.raises(SweepError, match="no design point 'zz' in sizes"):
        results.record("zz")
    with pytest.raises(SweepError, match="no design point '' in sizes"):
        results.record("")
    shared = next(c for c in "0123456789abcdef" if sum(r.id.startswith(c) for r in results.records) > 1)
    with pytest.raises(SweepError, match=f"'{shared}' fits .* design points of sizes; give more of the id"):
        results.record(shared)


def test_store_of_a_run_that_was_killed_before_it_began_says_so(tmp_path: Path) -> None:
    with open_for_writing(tmp_path / "out", "sizes"):
        pass
    with pytest.raises(SweepError, match=r"sweep\.sqlite: no run has begun here yet; run the sweep again"):
        SweepResults.load(tmp_path / "out")
    assert run(load(tmp_path), tmp_path / "out").num_run == 18


def test_missing_breakdown_says_why(finished: Path) -> None:
    results = SweepResults.load(finished)
    with pytest.raises(SweepError, match=f"design point {results.records[0].id} has no breakdown"):
        results.breakdown(results.records[0].id)


def test_store_can_be_read_from_a_directory_that_cannot_be_written(finished: Path) -> None:
    before = export(finished)
    finished.chmod(0o500)
    try:
        assert export(finished) == before
    finally:
        finished.chmod(0o700)
