"""The one writer of a sweep's result store.

A sweep has one `SweepWriter`, in the process that runs it; workers hand their results to that process. The
store is a SQLite file in WAL mode, so that readers work while it is written. Results are content-addressed:
a finished design point is found by its id whatever sweep specification asks for it next.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import zlib
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Final

from ..archdsl import SweepError
from .evaluation import PointResult
from .store import (
    APPLICATION_ID,
    FORMAT_VERSION,
    STORE_NAME,
    InputValue,
    PointStatus,
    StoredState,
    check_format,
    read_state,
    store_error,
)

LOCK_NAME: Final = "sweep.lock"
BUSY_TIMEOUT_S: Final = 10.0
_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE points (idx INTEGER PRIMARY KEY, id TEXT NOT NULL, inputs TEXT NOT NULL, terms TEXT NOT NULL);
CREATE TABLE results (
    id TEXT PRIMARY KEY, status TEXT NOT NULL, metrics TEXT, workload_metrics TEXT, breakdown BLOB,
    infeasible TEXT, error TEXT, traceback TEXT, elapsed_s REAL NOT NULL
) WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """A design point as the store lists it.

    Attributes:
        index: Position in the sweep.
        id: Key of its result.
        inputs: Path and value per axis.
        terms: Numbers that constraints and plots need, by dotted path.
    """

    index: int
    id: str
    inputs: tuple[tuple[str, InputValue], ...]
    terms: Mapping[str, float]

    @property
    def inputs_text(self) -> str:
        """The inputs as they are stored; equal inputs give equal text."""
        return json.dumps(dict(self.inputs))


class SweepWriter:
    """Writes one sweep's store; open it with `open_for_writing`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path

    def state(self) -> StoredState:
        """What the store holds already."""
        with self._explained():
            return read_state(self._connection)

    def begin(self, metadata: Mapping[str, object]) -> None:
        """Start a run: replace what the store says about its sweep and empty the list of points."""
        rows = [(key, json.dumps(value)) for key, value in metadata.items()]
        with self._explained(), self._connection:
            self._connection.execute("DELETE FROM meta")
            self._connection.executemany("INSERT INTO meta VALUES (?, ?)", rows)
            self._connection.execute("DELETE FROM points")

    def list_points(self, points: Iterable[PointRow]) -> None:
        """Add points to the sweep's list."""
        rows = [(p.index, p.id, p.inputs_text, json.dumps(dict(p.terms))) for p in points]
        with self._explained(), self._connection:
            self._connection.executemany("INSERT INTO points VALUES (?, ?, ?, ?)", rows)

    def write(self, results: Sequence[PointResult]) -> None:
        """Store results at once; a result of the same id is replaced."""
        with self._explained(), self._connection:
            self._connection.executemany(
                "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", map(_result_row, results)
            )

    def metrics(self, point_id: str) -> tuple[PointStatus, dict[str, float]] | None:
        """Status and metrics of one stored result."""
        with self._explained():
            row = self._connection.execute("SELECT status, metrics FROM results WHERE id = ?", (point_id,)).fetchone()
        return None if row is None else (PointStatus(row[0]), json.loads(row[1]) if row[1] else {})

    @contextmanager
    def _explained(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as err:
            raise store_error(self._path, err) from err


@contextmanager
def open_for_writing(directory: Path, name: str) -> Generator[SweepWriter]:
    """The writer of the store in an output directory, which is made when it is missing.

    Args:
        directory: Output directory.
        name: Name of the sweep that will be written.

    Raises:
        SweepError: Another run has the directory, or what is there is no store, is damaged or belongs to
            another sweep.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise SweepError(f"{directory}: cannot make the output directory: {err.strerror}") from err
    path = directory / STORE_NAME
    with _locked(directory):
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S)
            writer = _prepare(connection, path, name)
        except sqlite3.Error as err:
            if connection is not None:
                connection.close()
            raise store_error(path, err) from err
        except SweepError:
            if connection is not None:
                connection.close()
            raise
        try:
            yield writer
        finally:
            connection.close()


def running_process(directory: Path) -> str | None:
    """Who is running the sweep in a directory (`process 4711 on host`), or None."""
    import fcntl

    try:
        with (directory / LOCK_NAME).open("r+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return file.read().strip() or "another process"
    except OSError:
        return None
    return None


@contextmanager
def _locked(directory: Path) -> Generator[None]:
    """Hold the directory's lock; the system lets go of it when the process ends in whatever way."""
    import fcntl

    path = directory / LOCK_NAME
    try:
        file: IO[str] = path.open("a+")
    except OSError as err:
        raise SweepError(f"{path}: cannot write to the output directory: {err.strerror}") from err
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            raise SweepError(
                f"{directory}: {owner} is running a sweep here; wait for it, stop it, or give another -o DIR"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def _prepare(connection: sqlite3.Connection, path: Path, name: str) -> SweepWriter:
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables:
        check_format(connection, path)
        damage = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if damage != "ok":
            raise store_error(path, sqlite3.DatabaseError(f"database disk image is malformed: {damage}"))
    else:
        connection.executescript(
            f"BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT_VERSION};"
            f"{_SCHEMA} COMMIT;"
        )
    connection.execute("PRAGMA journal_mode = WAL")
    # A power failure may lose the last commits, a killed process loses none; neither damages the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    writer = SweepWriter(connection, path)
    owner = writer.state().metadata.get("name", name)
    if owner != name:
        raise SweepError(f"{path.parent}: this directory holds the sweep '{owner}', not '{name}'; give another -o DIR")
    return writer


def _result_row(result: PointResult) -> tuple[object, ...]:
    infeasible = None if result.infeasible is None else json.dumps(asdict(result.infeasible))
    is_ok = result.status is PointStatus.OK
    return (
        result.id,
        result.status.value,
        json.dumps(dict(result.metrics)) if is_ok else None,
        json.dumps(dict(result.workload_metrics)) if is_ok else None,
        zlib.compress(result.breakdown.encode(), level=1) if result.breakdown else None,
        infeasible,
        result.error or None,
        result.traceback or None,
        result.elapsed_s,
    )
