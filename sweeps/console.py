"""What the commands share: the answer goes to stdout, everything else to stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    import typer
    from rich.console import Console
    from rich.table import Table

JSON_WIDTH = 110
FREE_WIDTH = 10_000  # a table that goes to a file or a pipe is never folded


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminal:
    """Where a command speaks.

    rich decides on colour: none for a file or a pipe, none under `NO_COLOR`.

    Attributes:
        verbosity: -1 with `-q`, else the number of `-v`.
    """

    verbosity: int = 0

    @staticmethod
    def of(context: typer.Context) -> Terminal:
        """The terminal that the root command set up."""
        return context.find_object(Terminal) or Terminal()

    def line(self, text: str) -> None:
        """Print one line of the answer."""
        sys.stdout.write(text + "\n")

    def json(self, value: object) -> None:
        """Print the answer as JSON; equal values give equal bytes."""
        sys.stdout.write(json_text(value) + "\n")

    def table(self, table: Table) -> None:
        """Print a table of the answer."""
        _console(to_stderr=False).print(table)

    def note(self, text: str) -> None:
        """Remark on the work; silent under `-q`."""
        if self.verbosity >= 0:
            self.text_to_stderr(text + "\n")

    def detail(self, text: str) -> None:
        """Remark shown under `-v` only."""
        if self.verbosity >= 1:
            self.text_to_stderr(text + "\n")

    def warn(self, text: str) -> None:
        """Say that the answer leaves something out or takes something for granted; silent under `-q`."""
        if self.verbosity >= 0:
            self._tagged("warning", "bold yellow", text)

    def error(self, text: str) -> None:
        """Say why there is no answer."""
        self._tagged("error", "bold red", text)

    def text_to_stderr(self, text: str) -> None:
        """Write text as it is."""
        sys.stderr.write(text)

    def _tagged(self, tag: str, style: str, text: str) -> None:
        from rich.text import Text

        _console(to_stderr=True).print(Text.assemble((f"{tag}: ", style), text), soft_wrap=True)


def json_text(value: object, depth: int = 0) -> str:
    """JSON for people and programs: whatever fits stands on one line.

    Args:
        value: Maps, sequences and scalars; numbers must be finite.
        depth: Levels of indentation around it.
    """
    short = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if len(short) + 2 * depth <= JSON_WIDTH or not isinstance(value, dict | list | tuple):
        return short
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        items = [f"{json.dumps(key, ensure_ascii=False)}: {json_text(v, depth + 1)}" for key, v in fields.items()]
        left, right = "{}"
    else:
        items = [json_text(item, depth + 1) for item in cast("Sequence[object]", value)]
        left, right = "[]"
    inner = f",\n{'  ' * (depth + 1)}".join(items)
    return f"{left}\n{'  ' * (depth + 1)}{inner}\n{'  ' * depth}{right}"


def examples(*commands: str) -> str:
    """Epilog of a `--help` page: commands that can be pasted and run.

    Args:
        commands: At least two command lines.
    """
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def _console(*, to_stderr: bool) -> Console:
    from rich.console import Console

    stream = sys.stderr if to_stderr else sys.stdout
    return Console(
        file=stream, highlight=False, markup=False, emoji=False, width=None if stream.isatty() else FREE_WIDTH
    )
