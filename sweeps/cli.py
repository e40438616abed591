"""The `tileloom` command line: the root app, what each exit code means and how errors are shown.

A command group is one module under `commands/` that holds a `typer.Typer` named `app`, and one line in
`COMMANDS`. A module is imported only when its name stands on the command line, so that `tileloom --help`
stays instant however heavy the commands become.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import IntEnum
from importlib import import_module
from typing import Annotated, Final

import typer

from .console import Terminal, examples

PROGRAM: Final = "tileloom"
QUIET_FLAGS: Final = ("-q", "--quiet")
VERBOSE_FLAGS: Final = ("-v", "--verbose")
COLLECTOR_THRESHOLDS: Final = (200_000, 20, 100)
"""Thresholds of Python's cycle collector. Its own make a quarter of a short command's time searches of what imports have left."""


class ExitCode(IntEnum):
    """What a command's exit status says."""

    DONE = 0
    BUG = 1
    BAD_INPUT = 2
    FAILED_POINTS = 3
    INFEASIBLE = 4
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """One top-level command before its module is imported.

    Attributes:
        module: Module under `commands/` whose `app` holds it.
        summary: Its line in `tileloom --help`.
        is_group: Whether verbs follow its name (`arch check`) or it is a verb itself (`estimate`).
    """

    module: str
    summary: str
    is_group: bool


COMMANDS: Final[dict[str, LazyCommand]] = {
    "estimate": LazyCommand(module="estimate", summary="Price one workload on one architecture.", is_group=False),
    "compile": LazyCommand(module="compile", summary="Compile a network for a tensor PE array.", is_group=False),
    "run": LazyCommand(module="run", summary="Run a compiled network on a simulator or the RTL.", is_group=False),
    "explain": LazyCommand(module="explain", summary="Say where a compiled network's time goes.", is_group=False),
    "validate": LazyCommand(module="validate", summary="Compare a model with measurements.", is_group=False),
    "calibrate": LazyCommand(module="calibrate", summary="Fit constants to measurements.", is_group=False),
    "serve": LazyCommand(module="serve", summary="Serve a language model: estimate and plan.", is_group=True),
    "sweep": LazyCommand(module="sweep", summary="Sweep architectures over workloads: run, show, plot.", is_group=True),
    "rtl": LazyCommand(module="rtl", summary="Lint, build, run, trace the RTL; its coverage.", is_group=True),
    "arch": LazyCommand(module="arch", summary="Check, show and compare architecture files.", is_group=True),
}


def make_app(load: Collection[str] | None = None) -> typer.Typer:
    """Build the root app.

    Args:
        load: Names of the commands to import; the others only appear in the help. None loads all.
    """
    app = typer.Typer(
        name=PROGRAM,
        help="Hardware-software codesign: one architecture description for model, compiler and sweeps.",
        epilog=examples(
            "tileloom estimate gemm:M=512,N=512,K=512,bits=8 --arch ref16",
            "tileloom arch list",
        ),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, command in COMMANDS.items():
        if load is not None and name not in load:
            app.command(name, help=command.summary)(_not_loaded)
            continue
        module = import_module(f".commands.{command.module}", __package__)
        if command.is_group:
            app.add_typer(module.app, name=name, short_help=command.summary)
        else:
            app.add_typer(module.app)
    return app


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line.

    Args:
        argv: Arguments after the program's name; those of the process when left out.

    Returns:
        The exit status, one of `ExitCode`.
    """
    if argv is None:  # the process is the command's alone
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
    arguments = _global_flags_first(sys.argv[1:] if argv is None else argv)
    try:
        make_app(arguments)(args=arguments, prog_name=PROGRAM)
    except SystemExit as stop:
        return _status(stop)
    except KeyboardInterrupt:
        Terminal().error("interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001  the edge: everything that ends a command is told here
        return _report(error)
    return ExitCode.DONE


def _show_version(wanted: bool) -> None:
    if not wanted:
        return
    from importlib.metadata import version

    Terminal().line(f"{PROGRAM} {version(PROGRAM)}")
    raise typer.Exit


def _root(
    context: typer.Context,
    quiet: Annotated[bool, typer.Option(*QUIET_FLAGS, help="Print the answer and errors only.")] = False,
    verbose: Annotated[int, typer.Option(*VERBOSE_FLAGS, count=True, help="Say more; twice for most.")] = 0,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Print the version and stop.")
    ] = False,
) -> None:
    del version  # its callback has ended the program
    context.obj = Terminal(verbosity=-1 if quiet else verbose)
    if sys.stderr.isatty():
        _show_logged(context.obj)


def _show_logged(terminal: Terminal) -> None:
    """Show what our packages log, which is why a command takes longer than it mostly does."""
    import logging

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            terminal.note(record.getMessage())

    logger = logging.getLogger(PROGRAM)
    logger.handlers = [Notes()]
    logger.setLevel(logging.INFO)


def _not_loaded() -> None:
    raise AssertionError("a command that stands on the command line is always loaded")


def _global_flags_first(arguments: Sequence[str]) -> list[str]:
    """Move -q and -v before the command, so that they may stand anywhere up to `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    head, tail = arguments[:end], arguments[end:]
    flags = [a for a in head if a in (*QUIET_FLAGS, *VERBOSE_FLAGS) or (a[:2] == "-v" and set(a[1:]) == {"v"})]
    return [*flags, *(a for a in head if a not in flags), *tail]


def _status(stop: SystemExit) -> int:
    if stop.code is None:
        return ExitCode.DONE
    return stop.code if isinstance(stop.code, int) else ExitCode.BUG


def _report(error: Exception) -> int:
    """Tell the user what ended the command; returns the exit status."""
    from ..archdsl import InfeasibleError, ToolkitError  # only now: importing it costs more than the help

    terminal = Terminal()
    if isinstance(error, InfeasibleError):
        terminal.line(f"infeasible: {error}")
        return ExitCode.INFEASIBLE
    if isinstance(error, ToolkitError):
        terminal.error(str(error))
        return ExitCode.BAD_INPUT
    if isinstance(error, OSError) and error.filename is not None:
        terminal.error(f"{os.fspath(error.filename)}: {error.strerror}")
        return ExitCode.BAD_INPUT
    terminal.text_to_stderr("".join(traceback.format_exception(error)))
    terminal.error(f"this is a bug in {PROGRAM}: please report it with the lines above and the command that you ran")
    return ExitCode.BUG


if __name__ == "__main__":
    sys.exit(main())
