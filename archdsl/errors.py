"""The one tree of errors, and the shape of a fault found in a user's file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .infeasible import Infeasible


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One fault of a user's file: where it is, what it is and how to mend it.

    Attributes:
        file: Path as the user gave it, or `<string>`.
        line: 1-based line; 0 when the fault has no place in the file.
        column: 1-based column; 0 when the fault has no place in the file.
        path: Dotted path of the field, e.g. `hierarchy.1.capacity`; may be empty.
        message: What is wrong and what would be right.
        source_line: The text of that line, without its newline.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    source_line: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        head = f"{place}: {self.path}: {self.message}" if self.path else f"{place}: {self.message}"
        if not self.source_line:
            return head
        return f"{head}\n    {self.source_line}\n    {' ' * (self.column - 1)}^"


class ToolkitError(Exception):
    """Root of every error that a user's input can cause.

    Attributes:
        diagnostics: Faults with their places, when the input was a file.
    """

    def __init__(self, message: str = "", diagnostics: Iterable[Diagnostic] = ()) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        text = "\n".join([message, *map(str, self.diagnostics)] if message else map(str, self.diagnostics))
        super().__init__(text)


class ArchError(ToolkitError):
    """A bad architecture or system description."""


class WorkloadError(ToolkitError):
    """A bad network, op or workload notation."""


class MappingError(ToolkitError):
    """A mapping that is malformed or illegal for its op and architecture."""


class CompileError(ToolkitError):
    """Compilation or mapping search failed."""


class PassError(CompileError):
    """One compiler pass failed."""


class InfeasibleError(CompileError):
    """No legal mapping exists; wraps the typed answer for callers that must stop.

    Attributes:
        infeasible: The typed answer with demand, limit and levers.
    """

    def __init__(self, infeasible: Infeasible) -> None:
        self.infeasible = infeasible
        super().__init__(str(infeasible))


class ModelError(ToolkitError):
    """The model cannot price what it was asked to price."""


class RtlError(ToolkitError):
    """RTL generation, build or run failed."""


class SweepError(ToolkitError):
    """A bad sweep specification or result store."""
