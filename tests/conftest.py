"""What all tests share: settings, golden files, reference data, and what may be skipped where."""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from hypothesis import settings

ROOT: Final = Path(__file__).parent.parent
SHARED_DATA: Final = ROOT.parent / "shared" / "data"
IS_CI: Final = os.environ.get("CI", "").lower() not in ("", "0", "false")

MAY_BE_ABSENT: Final = ("reference data is absent", "no Chromium", "needs a GPU", "no mlir-opt")
"""Beginnings of the reasons for which a test may be skipped under CI too: what the project cannot install."""

ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Rewrite golden files with what the tests give.")


def pytest_configure(config: pytest.Config) -> None:
    """Set up before test modules import NumPy and matplotlib."""
    os.environ["MPLBACKEND"] = "Agg"
    for name in ONE_THREAD:  # arrays are small and tests may run beside each other
        os.environ.setdefault(name, "1")
    settings.register_profile("local", deadline=None)
    settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
    settings.load_profile("ci" if IS_CI else "local")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under CI a missing tool fails its tests, so that a green run has run them."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        fail_if_needed(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for modules that skip themselves."""
    report = yield
    if report.skipped:
        fail_if_needed(report)
    return report


def fail_if_needed(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure under CI, unless its reason is one that CI cannot help."""
    place = report.longrepr
    reason = place[2].removeprefix("Skipped: ") if isinstance(place, tuple) else str(place)
    if IS_CI and not reason.startswith(MAY_BE_ABSENT):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI, where nothing may be missing: {reason}"


@dataclass(frozen=True, slots=True)
class Golden:
    """Compares text with the file that a test has under tests/golden.

    Attributes:
        stem: Path of the test's golden files without suffix.
        is_update: Whether to write the files instead.
    """

    stem: Path
    is_update: bool

    def check(self, text: str, suffix: str = ".txt") -> None:
        """Fail when the text differs from the golden file, or when there is none.

        Args:
            text: What the test made.
            suffix: Distinguishes several files of one test, e.g. `.json`.
        """
        path = self.stem.with_name(self.stem.name + suffix)
        if self.is_update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        if not path.is_file():
            pytest.fail(f"no golden file {shown}; write it with: pytest --update-golden")
        assert text == path.read_text(encoding="utf-8"), f"differs from {shown}; rewrite with: pytest --update-golden"


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The golden files of this test: `tests/golden/FOLDER/MODULE/TEST.txt`."""
    module = request.path.relative_to(ROOT / "tests").with_suffix("")
    name = re.sub(r"[^A-Za-z0-9_.=-]+", "_", request.node.name).strip("_")
    return Golden(ROOT / "tests" / "golden" / module / name, bool(request.config.getoption("--update-golden")))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Reference data of measurements and of other tools beside the checkout, which the project does not ship."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"reference data is absent: {SHARED_DATA}")
    return SHARED_DATA
