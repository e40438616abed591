"""Tools of RTL tests: without them a test skips with the reason, and fails in continuous integration."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tileloom.archdsl import RtlError
from tileloom.rtl import formal_environment, synthesis_environment, verilator_root


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("rtl") is not None:
        _skip_without(verilator_root)


@pytest.fixture
def provers() -> None:
    """Yosys and a solver."""
    _skip_without(formal_environment)


@pytest.fixture
def yosys() -> None:
    """Yosys."""
    _skip_without(synthesis_environment)


def _skip_without(find: Callable[[], object]) -> None:
    try:
        find()
    except RtlError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
