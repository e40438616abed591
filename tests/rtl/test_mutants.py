"""Every fault in `mutants/` fails a test of the fast RTL suite: a design that passes has none of them."""

from __future__ import annotations

import logging
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import PeArray, RtlError
from tileloom.models import replay
from tileloom.rtl import Job, RtlResult, build, run_programs, sources

from . import cases, test_agreement, test_fp8, test_int4, test_vector_unit
from .patches import PATHS, Patch, PatchError, apply_patch, copy_design, read_patch

SUITE = (test_agreement, test_int4, test_vector_unit, test_fp8)
DOC = Path(__file__).parents[2] / "docs" / "tensor_pe_array.md"
LEAST_PATCHES = 25
FIRST = "test_random_programs_agree (8, 8, 4)"
"""What finds most faults, and its simulator builds quickly."""
HANG = "the program did not end within"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A test of the suite with its arguments; the name has the size of the PE array."""

    name: str
    run: Callable[[], None]


def suite() -> list[Check]:
    """The fast tests of the suite's modules, those of one PE array together, small arrays first."""
    found: list[tuple[int, str, Check]] = []
    for name, test in (entry for module in SUITE for entry in vars(module).items()):
        marks = list(getattr(test, "pytestmark", ()))
        if not name.startswith("test_") or any(mark.name == "slow" for mark in marks):
            continue
        for arguments in product(*(cases_of(mark) for mark in marks if mark.name == "parametrize")):
            given = {key: value for some in arguments for key, value in some.items()}
            sizes = given.get("sizes")
            words = [str(value) for value in (sizes, *given.values()) if isinstance(value, str) or value is sizes]
            words = [word for word in dict.fromkeys(words) if word != "None"]
            num_pes = sizes[0] * sizes[1] if sizes else sys.maxsize
            found.append((num_pes, str(sizes), Check(name=" ".join((name, *words)), run=partial(test, **given))))
    return [check for *_, check in sorted(found, key=lambda entry: entry[:2])]


def cases_of(mark: pytest.Mark) -> list[dict[str, Any]]:
    """The arguments that one parametrization gives to a test, one after another."""
    names, values = mark.args[0], list(mark.args[1])
    if isinstance(names, str):
        return [{names: value} for value in values]
    return [dict(zip(names, value, strict=True)) for value in values]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Runs the suite's programs on a copy of the design.

    Attributes:
        sv_dir: The copy.
        folders: Where its simulators stand.
    """

    sv_dir: Path
    folders: set[Path] = field(default_factory=set[Path])

    def run_programs(self, array: PeArray, jobs: Sequence[Job]) -> list[RtlResult]:
        """Like the function of this name, but a program that hangs is given up soon."""
        self.folders.add(build(array, sv_dir=self.sv_dir).folder)
        bounded: list[Job] = []
        for job in jobs:
            found = replay(array, job.program, latency_cycles=job.latency_cycles, cycles_per_beat=job.cycles_per_beat)
            bounded.append(replace(job, max_cycles=4 * found.cycles + 1000))
        return run_programs(array, bounded, sv_dir=self.sv_dir)

    def first_failure(self, first: str) -> str | None:
        """The first test that fails, and how; those come first whose name begins like this.

        Raises:
            RtlError: A simulator cannot be built: that says nothing of the suite.
        """
        for check in sorted(suite(), key=lambda check: not check.name.startswith(first)):
            try:
                check.run()
            except AssertionError as error:
                return f"{check.name}: {error}"
            except RtlError as error:
                if not str(error).startswith(HANG):
                    raise
                return f"{check.name}: {error}"
        return None


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Tests of the suite that are called run on its copy of the design."""
    made = Bench(sv_dir=tmp_path)
    for module in (cases, *SUITE):
        monkeypatch.setattr(module, "run_programs", made.run_programs, raising=False)
    return made


@pytest.mark.rtl
@pytest.mark.slow
def test_the_design_itself_passes(bench: Bench) -> None:
    copy_design(bench.sv_dir)
    assert bench.first_failure(FIRST) is None


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_suite_fails_with_the_fault(path: Path, bench: Bench) -> None:
    patch = read_patch(path)
    copy_design(bench.sv_dir, patch)
    try:
        failure = bench.first_failure(patch.first_test or FIRST)
    finally:
        for folder in bench.folders:
            shutil.rmtree(folder)
    assert failure is not None, f"no test fails with this fault: {patch.description}"
    logging.getLogger(__name__).info("%s: %s", patch.name, failure)


def test_every_patch_fits_the_design_and_there_are_enough(tmp_path: Path) -> None:
    assert len(PATHS) >= LEAST_PATCHES
    tests = [check.name for check in suite()]
    for path in PATHS:
        (tmp_path / path.stem).mkdir()
        patch = read_patch(path)
        copy_design(tmp_path / path.stem, patch)
        assert patch.name.startswith(f"{patch.module}-")
        assert any(name.startswith(patch.first_test or FIRST) for name in tests)


def test_every_module_has_a_fault_and_the_page_counts_them() -> None:
    counts = Counter(read_patch(path).module for path in PATHS)
    bench = {"memory", "tb"}
    assert set(counts) == {path.stem.removeprefix("tpe_") for path in sources()} - bench
    rows = re.findall(r"^\| `tpe_(\w+)` \| (\d+) \|", DOC.read_text(encoding="utf-8"), re.MULTILINE)
    assert {module: int(num) for module, num in rows} == counts


def patch_of(tmp_path: Path, text: str) -> Patch:
    path = tmp_path / "fifo-fault.patch"
    path.write_text(text, encoding="utf-8")
    return read_patch(path)


HEAD = "It is wrong.\n--- a/rtl/sv/tpe_fifo.sv\n+++ b/rtl/sv/tpe_fifo.sv\n"


def test_a_patch_is_found_by_content_and_replaces_whole_lines(tmp_path: Path) -> None:
    patch = patch_of(tmp_path, HEAD + "@@ -70,2 +70,3 @@\n b\n-c\n+d\n+e\n")
    assert patch.description == "It is wrong."
    assert apply_patch(patch, ["a", "b", "c", "bc", "f"]) == ["a", "b", "d", "e", "bc", "f"]


@pytest.mark.parametrize(
    ("hunk", "message"),
    [
        ("-x\n+y\n", r"fifo-fault: these lines stand in tpe_fifo.sv 0 times, not once; adapt the patch to the .*:\nx"),
        ("-b\n+y\n", "fifo-fault: these lines stand in tpe_fifo.sv 2 times, not once"),
        (" a\n", "fifo-fault: it changes nothing"),
    ],
)
def test_a_patch_that_does_not_fit_is_named(hunk: str, message: str, tmp_path: Path) -> None:
    patch = patch_of(tmp_path, f"{HEAD}@@ -1 +1 @@\n{hunk}")
    with pytest.raises(PatchError, match=message):
        apply_patch(patch, ["a", "b", "b"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("It is wrong.\n", "fifo-fault.patch: 0 files are changed, not one"),
        (HEAD.partition("\n")[2], "fifo-fault.patch: the first line has to say in words what is wrong"),
        (
            HEAD.replace("rtl/sv", "rtl"),
            "fifo-fault.patch: a file of rtl/sv has to be changed, not: --- a/rtl/tpe_fifo",
        ),
        (HEAD + "-x\n", "fifo-fault.patch: this is no line of a hunk: '-x'"),
        (HEAD + "@@ -1,0 +2 @@\n+x\n", "fifo-fault.patch: a hunk needs lines that stand in the file, to be found by"),
        (HEAD + "@@ -1 +1 @@\n\\ No newline\n", "fifo-fault.patch: this is no line of a hunk: "),
    ],
)
def test_a_text_that_is_no_patch_is_named(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(PatchError, match=re.escape(message)):
        patch_of(tmp_path, text)
