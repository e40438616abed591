"""Loops whose machine code is on disk: that they run without numba, and when they are compiled anew."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from tileloom.models import compiled
from tileloom.models.compiled import CompiledFunction
from tileloom.models.machine_code import Entry, c_arguments, entry_of, numba_module

Floats = npt.NDArray[np.float64]


class Scales(NamedTuple):
    factor: float
    steps: int
    negates: bool


@compiled
def _scaled(value: float, scales: Scales) -> float:
    return (-value if scales.negates else value) * scales.factor**2 + np.exp(value)


@compiled
def fill(values: Floats, scales: Scales, offset: float, out: Floats) -> None:
    for row in range(values.shape[0]):
        for col in range(values.shape[1]):
            out[row, col] = _scaled(values[row, col], scales) + offset + scales.steps


@compiled
def divide(values: Floats, divisor: float, out: Floats) -> None:
    for idx in range(len(values)):
        out[idx] = values[idx] / divisor


@compiled
def reverse(values: Floats, out: Floats) -> None:
    copied = values.copy()
    for idx in range(len(values)):
        out[idx] = copied[len(values) - 1 - idx]


def files(folder: Path) -> list[Path]:
    return sorted((folder / "loops").glob("*.o"))


def entries_of(function: object) -> dict[tuple[Any, ...], Entry | None]:
    assert isinstance(function, CompiledFunction)
    return function._entries  # pyright: ignore[reportPrivateUsage]  what a new process would not have


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TILELOOM_CACHE", str(tmp_path))
    for function in (fill, divide, reverse):
        entries_of(function).clear()
    yield tmp_path
    for function in (fill, divide, reverse):
        entries_of(function).clear()


SCALES = Scales(factor=1.5, steps=3, negates=True)


def filled() -> Floats:
    values = np.linspace(0.0, 2.0, 12).reshape(3, 4)
    out = np.zeros_like(values)
    fill(values, SCALES, 0.25, out)
    return out


def test_machine_code_gives_the_bits_that_numba_gives(folder: Path) -> None:
    found, expected = filled(), np.zeros((3, 4))
    assert isinstance(fill, CompiledFunction)
    fill._in_numba(np.linspace(0.0, 2.0, 12).reshape(3, 4), SCALES, 0.25, expected)  # pyright: ignore[reportPrivateUsage]
    assert found.tobytes() == expected.tobytes()
    assert len(files(folder)) == 1


def test_a_later_process_reads_the_file_and_writes_none(folder: Path) -> None:
    first = filled()
    (written,) = files(folder)
    stamp = written.stat().st_mtime_ns
    entries_of(fill).clear()
    assert filled().tobytes() == first.tobytes()
    assert files(folder) == [written] and written.stat().st_mtime_ns == stamp


def test_a_damaged_file_is_compiled_anew(folder: Path) -> None:
    first = filled()
    (written,) = files(folder)
    damaged = written.read_bytes()[:-1]
    written.write_bytes(damaged)
    entries_of(fill).clear()
    assert filled().tobytes() == first.tobytes()
    assert written.read_bytes() != damaged


def test_a_file_in_place_of_the_folder_costs_time_only(folder: Path) -> None:
    (folder / "loops").write_text("no folder", encoding="utf-8")
    assert np.isfinite(filled()).all()


def test_another_function_behind_a_call_is_another_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = filled()

    @compiled
    def _scaled(value: float, scales: Scales) -> float:
        return value * scales.factor

    monkeypatch.setitem(fill.__wrapped__.__globals__, "_scaled", _scaled)  # pyright: ignore[reportFunctionMemberAccess]
    entries_of(fill).clear()
    assert (filled() != first).all()
    assert len(files(folder)) == 2


def test_the_first_compilation_is_logged(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    numba_module.cache_clear()
    with caplog.at_level("INFO", logger="tileloom"):
        filled()
    assert caplog.messages == ["compiling loops to machine code, once per installation"]


def test_an_exception_is_raised_as_numba_raises_it(folder: Path) -> None:
    values, out = np.ones(3), np.zeros(3)
    divide(values, 2.0, out)
    assert out.tolist() == [0.5, 0.5, 0.5] and len(files(folder)) == 1
    with pytest.raises(ZeroDivisionError):
        divide(values, 0.0, out)


def test_empty_arrays_are_taken(folder: Path) -> None:
    divide(np.zeros(0), 2.0, np.zeros(0))
    assert len(files(folder)) == 1


def test_a_loop_that_allocates_runs_in_numba_and_is_tried_once(folder: Path) -> None:
    out = np.zeros(3)
    reverse(np.arange(3.0), out)
    assert out.tolist() == [2.0, 1.0, 0.0]
    (mark,) = files(folder)
    assert mark.stat().st_size < 40
    arguments = (np.arange(3.0), out)
    assert entry_of(reverse.__wrapped__, lambda _: None, arguments) is None  # pyright: ignore[reportFunctionMemberAccess]


@pytest.mark.parametrize("array", [np.zeros((4, 4)).T[1:], np.zeros(3, np.complex128), np.broadcast_to(np.zeros(1), 3)])
def test_arrays_in_other_forms_are_left_to_numba(array: npt.NDArray[np.generic]) -> None:
    assert c_arguments((array,)) is None


@pytest.mark.parametrize(
    "command",
    [
        "serve plan --model llama3.1_70b --system 8xh100_sxm --rate 1 --json",
        "serve estimate --model llama3.1_8b --system h100_sxm --json",
        "estimate gemm:M=256,N=256,K=256,datatype=bf16 --arch h100_sxm --json",
    ],
)
def test_commands_run_without_numba_once_their_loops_are_compiled(command: str) -> None:
    script = (
        "import sys\n"
        "from tileloom.sweeps.cli import main\n"
        f"status = main({command.split()!r})\n"
        "print(status, *sorted({'numba', 'scipy'} & set(sys.modules)), file=sys.stderr)\n"
    )
    said = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True) for _ in "12"]
    assert said[-1].stderr.splitlines()[-1] == "0"
