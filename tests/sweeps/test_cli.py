"""The command line as a whole: it starts fast, tells errors from bugs, and documents itself with what runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from tileloom.archdsl import ArchError, Diagnostic, Infeasible, InfeasibleError
from tileloom.sweeps import cli
from tileloom.sweeps.cli import COMMANDS, ExitCode, main, make_app
from tileloom.sweeps.console import Terminal, json_text

HELP_CPU_LIMIT_S = 0.3
HEAVY = ("pydantic", "numpy", "matplotlib", "onnx", "yaml", "networkx", "pyarrow", "plotly", "rich", "tileloom.archdsl")


def commands_of(command: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Every command below one, itself included, with the words that call it."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands_of(child, (*path, name))


ALL_COMMANDS = dict(commands_of(typer.main.get_command(make_app()), ("tileloom",)))


def raise_from_estimate(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """Exit status when a command raises."""

    def broken(load: object) -> typer.Typer:
        def fail() -> None:
            raise error

        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        app.command("fail")(fail)
        app.command("other")(fail)
        return app

    monkeypatch.setattr(cli, "make_app", broken)
    return main(["fail"])


def test_help_starts_within_its_cpu_budget() -> None:
    def cpu_s() -> float:
        before = os.times()
        subprocess.run([sys.executable, "-m", "tileloom.sweeps.cli", "--help"], check=True, capture_output=True)
        after = os.times()
        return after.children_user + after.children_system - before.children_user - before.children_system

    assert min(cpu_s() for _ in range(3)) < HELP_CPU_LIMIT_S


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys; from tileloom.sweeps.cli import main; status = main(['--help']);"
        "print('MODULES', *sys.modules); sys.exit(status)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    loaded = set(done.stdout.rpartition("MODULES")[2].split())
    assert loaded.isdisjoint(HEAVY)


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == ExitCode.DONE
    out = capsys.readouterr().out
    for name, command in COMMANDS.items():
        assert f"  {name} " in out
        assert command.summary[:30] in out


@pytest.mark.parametrize("path", sorted(ALL_COMMANDS), ids=" ".join)
def test_every_help_ends_with_two_examples(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*path[1:], "--help"]) == ExitCode.DONE
    lines = capsys.readouterr().out.rstrip().splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip() == "Examples:")
    examples = [line.strip() for line in lines[at + 1 :]]
    assert len(examples) >= 2
    assert all(example.startswith(" ".join(path)) for example in examples)


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("tileloom 0.")


def test_unknown_command_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["estimat"]) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "No such command 'estimat'" in captured.err
    assert "'estimate'" in captured.err


def test_users_error_is_told_with_its_place_and_exits_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fault = Diagnostic(file="a.yaml", line=3, column=5, path="x.y", message="unknown field", source_line="    y: 1")
    assert raise_from_estimate(monkeypatch, ArchError("", [fault])) == ExitCode.BAD_INPUT
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: a.yaml:3:5: x.y: unknown field\n        y: 1\n        ^\n"


def test_infeasible_is_an_answer_on_stdout_and_exits_with_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = Infeasible(resource="scratchpad capacity", demand=300, limit=200, unit="bytes", levers=("a larger one",))
    assert raise_from_estimate(monkeypatch, InfeasibleError(answer)) == ExitCode.INFEASIBLE
    out = capsys.readouterr().out
    assert out == "infeasible: scratchpad capacity: needs 300 bytes, has 200 bytes\n  would fit: a larger one\n"


def test_our_bug_shows_its_traceback_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert raise_from_estimate(monkeypatch, ZeroDivisionError("oh")) == ExitCode.BUG
    err = capsys.readouterr().err
    assert "Traceback" in err and "ZeroDivisionError: oh" in err
    assert "please report" in err.splitlines()[-1]


def test_unwritable_file_is_no_bug(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    error = PermissionError(13, "Permission denied", "/root/out.yaml")
    assert raise_from_estimate(monkeypatch, error) == ExitCode.BAD_INPUT
    assert capsys.readouterr().err == "error: /root/out.yaml: Permission denied\n"


def test_interrupt_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    assert raise_from_estimate(monkeypatch, KeyboardInterrupt()) == ExitCode.INTERRUPTED


@pytest.mark.parametrize("arguments", [["-v", "arch", "list"], ["arch", "-v", "list"], ["arch", "list", "-v"]])
def test_verbosity_may_stand_anywhere(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == ExitCode.DONE
    assert "ref16" in capsys.readouterr().out


def test_no_escape_sequences_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().warn("careful")
    main(["arch", "list"])
    captured = capsys.readouterr()
    assert captured.err.startswith("warning: careful\n")
    assert "\x1b" not in captured.out + captured.err


def test_quiet_keeps_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(verbosity=-1)
    terminal.note("a")
    terminal.warn("b")
    terminal.detail("c")
    terminal.error("d")
    assert capsys.readouterr().err == "error: d\n"


def test_details_need_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    Terminal().detail("hidden")
    Terminal(verbosity=1).detail("shown")
    assert capsys.readouterr().err == "shown\n"


def test_json_is_readable_and_parses_back() -> None:
    long = [{"name": "x" * 60, "values": [1.5, None, True]}, {"name": "y" * 60}]
    value: dict[str, object] = {"short": [1, 2], "long": long}
    text = json_text(value)
    assert json.loads(text) == value
    assert '  "short": [1, 2],' in text.splitlines()
    assert max(map(len, text.splitlines())) <= 112


def test_json_refuses_numbers_that_json_lacks() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"a": float("inf")})
