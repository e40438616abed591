"""Simulators are built once, and serve every environment with the same packages."""

from __future__ import annotations

import importlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tileloom.rtl import build

from . import cases

pytestmark = pytest.mark.rtl
# The package's attribute of this name is the function.
build_module = importlib.import_module("tileloom.rtl.build")


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that were built in an empty cache; instead of a compiler there is a pause."""
    folders: list[Path] = []

    def pause(work: Path, *_: object) -> None:
        folders.append(work)
        time.sleep(0.2)
        (work / build_module.TOP).touch()

    monkeypatch.setenv("TILELOOM_CACHE", str(tmp_path))
    monkeypatch.setattr(build_module, "_build", pause)
    return folders


def test_who_wants_what_another_builds_waits_for_it(built: list[Path]) -> None:
    array = cases.array_of(4, 4, 4)
    start = threading.Barrier(3)

    def one(_: int) -> bool:
        start.wait()
        return build(array).is_reused

    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(one, range(3))) == [False, True, True]
    assert len(built) == 1


def test_a_simulator_of_other_packages_is_another(built: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    array = cases.array_of(4, 4, 4)
    first = build(array).folder
    monkeypatch.setattr(build_module, "_versions", lambda: ("verilator 0", "cocotb 0"))
    assert build(array).folder != first
    assert len(built) == 2


def test_a_simulator_holds_no_path_of_its_environment() -> None:
    from cocotb_tools import config

    program = build(cases.array_of(4, 4, 4)).program
    assert str(config.libs_dir).encode() not in program.read_bytes()
