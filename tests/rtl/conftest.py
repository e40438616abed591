"""RTL tests need a simulator: without its tools they skip with the reason, and fail in continuous integration."""

from __future__ import annotations

import os

import pytest

from tileloom.archdsl import RtlError
from tileloom.rtl import verilator_root


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("rtl") is None:
        return
    try:
        verilator_root()
    except RtlError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
