"""Tables of measurements as CSV, with the place of every fault."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ...archdsl import Diagnostic, ModelError, nearest_hint
from .measured import file_digest

ValueT = TypeVar("ValueT")
MAX_SIZE = 2**31 - 1
"""Largest size that a cell may have, as in workloads."""
MAX_BYTES = 2**48
"""Largest number of bytes or elements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One line of a table.

    Attributes:
        table: Its table.
        line: 1-based line in the file.
        cells: Text per column.
    """

    file: str
    line: int
    cells: dict[str, str]

    def text(self, column: str) -> str:
        """A cell's text."""
        return self.cells[column].strip()

    def whole(self, column: str, least: int = 0) -> int:
        """A cell as a whole number of at least `least`, and no larger than sizes or bytes may be.

        Raises:
            ModelError: It is none; the message has its place.
        """
        value = self._parse(column, int, least, f"a whole number of at least {least}")
        most = MAX_BYTES if column in ("bytes", "bytes_moved", "elements") else MAX_SIZE
        if value > most:
            raise self.fault(column, f"a whole number of at most {most:,}")
        return value

    def number(self, column: str) -> float:
        """A cell as a number above 0.

        Raises:
            ModelError: It is none; the message has its place.
        """
        value = self._parse(column, float, 0.0, "a number above 0")
        if not value > 0 or math.isinf(value):
            raise self.fault(column, "a number above 0")
        return value

    def _parse(self, column: str, convert: Callable[[str], ValueT], least: ValueT, wanted: str) -> ValueT:
        try:
            value = convert(self.text(column))
        except ValueError:
            raise self.fault(column, wanted) from None
        if value < least:  # pyright: ignore[reportOperatorIssue]  numbers of the same kind
            raise self.fault(column, wanted)
        return value

    def fault(self, column: str, wanted: str) -> ModelError:
        """The error that a cell is not what it should be."""
        position = list(self.cells).index(column) + 1
        message = f"'{self.text(column)}' is not {wanted} (column {position})"
        place = Diagnostic(file=self.file, line=self.line, column=position, path=column, message=message)
        return ModelError("", [place])


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A CSV file.

    Attributes:
        file: Its path as the user gave it.
        columns: Names of its columns.
        rows: Its lines below the header.
        digest: Digest of its bytes.
    """

    file: str
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    digest: str

    def require(self, column: str) -> None:
        """Check that there is a column.

        Raises:
            ModelError: There is none.
        """
        if column not in self.columns:
            raise ModelError(f"{self.file}: no column '{column}'{nearest_hint(column, self.columns)}")


def read_table(path: str | Path) -> Table:
    """Read a CSV file.

    Raises:
        ModelError: It is no table: no header, or a line with another number of cells.
        OSError: It cannot be read.
    """
    content = Path(path).read_bytes()
    try:
        lines = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ModelError(f"{path}: not a CSV table in UTF-8: {error}") from error
    if not lines or not any(name.strip() for name in lines[0]):
        raise ModelError(f"{path}: empty; a table of measurements has a header line")
    columns = tuple(name.strip() for name in lines[0])
    if twice := sorted({name for name in columns if columns.count(name) > 1}):
        raise ModelError(f"{path}: column '{twice[0]}' is there twice; leave one of them out")
    rows = [_row(str(path), columns, line, cells) for line, cells in enumerate(lines[1:], start=2) if cells]
    return Table(file=str(path), columns=columns, rows=tuple(rows), digest=file_digest(content))


def _row(file: str, columns: Sequence[str], line: int, cells: list[str]) -> TableRow:
    if len(cells) != len(columns):
        message = f"{len(cells)} cells; the header has {len(columns)}"
        raise ModelError("", [Diagnostic(file=file, line=line, column=1, path="", message=message)])
    return TableRow(file=file, line=line, cells=dict(zip(columns, cells, strict=True)))
