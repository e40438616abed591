"""Every fault in `mutants/` fails a test of the fast RTL suite: a design that passes has none of them."""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tileloom.archdsl import PeArray, RtlError
from tileloom.models import replay
from tileloom.rtl import Job, RtlResult, run_programs, sources

from . import cases, test_agreement, test_fp8, test_int4, test_vector_unit
from .patches import PATHS, Patch, PatchError, apply_patch, copy_design, read_patch
from .variants import combine, header_of

SUITE = (test_agreement, test_int4, test_vector_unit, test_fp8)
DOC = Path(__file__).parents[2] / "docs" / "tensor_pe_array.md"
LEAST_PATCHES = 25
FIRST = "test_random_programs_agree (8, 8, 4)"
"""What finds most faults, and its simulator builds quickly."""
HANG = "the program did not end within"
GROUPS = (
    frozenset(
        (
            "fifo",
            "tokens",
            "fetch",
            "arbiter",
            "align",
            "skew",
            "array",
            "vector",
            "accumulator",
            "requantise",
            "float_round",
        )
    )
    | {"float32", "shadow"},
    frozenset(("issue", "load", "scratchpad", "preload", "compute", "store")),
    frozenset(("execute",)),
)
"""Modules whose faults stand in one simulator, none within another; those of the others have one each.

Of these, one simulator takes those that the same test finds, since another test may need another PE array.
"""


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
        fault: Number of the fault that stands in it and is chosen; 0 for the design itself.
    """

    sv_dir: Path
    fault: int = 0

    def run_programs(self, array: PeArray, jobs: Sequence[Job]) -> list[RtlResult]:
        """Like the function of this name, but a program that hangs is given up soon."""
        bounded: list[Job] = []
        for job in jobs:
            found = replay(array, job.program, latency_cycles=job.latency_cycles, cycles_per_beat=job.cycles_per_beat)
            bounded.append(replace(job, max_cycles=4 * found.cycles + 1000))
        return run_programs(
            array, bounded, sv_dir=self.sv_dir, is_quick=True, plusargs=(f"fault={self.fault}",) if self.fault else ()
        )

    def failure(self, check: Check) -> str | None:
        """How a test fails; None when it passes.

        Raises:
            RtlError: A simulator cannot be built: that says nothing of the test.
        """
        with pytest.MonkeyPatch.context() as patched:
            for module in (cases, *SUITE):
                patched.setattr(module, "run_programs", self.run_programs, raising=False)
            try:
                check.run()
            except AssertionError as error:
                return f"{check.name}: {error}"
            except RtlError as error:
                if not str(error).startswith(HANG):
                    raise
                return f"{check.name}: {error}"
        return None

    def first_failing(self, first: str) -> Check | None:
        """The first test that fails; those come first whose name begins like this."""
        ordered = sorted(suite(), key=lambda check: not check.name.startswith(first))
        return next((check for check in ordered if self.failure(check) is not None), None)


@pytest.fixture(scope="session")
def passed() -> set[tuple[object, str]]:
    """Tests that passed without a fault, by what stands in the simulator."""
    return set()


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_suite_fails_with_the_fault_alone(path: Path, tmp_path: Path, passed: set[tuple[object, str]]) -> None:
    """Some test fails with the fault, and passes in the same simulator, or one of the design itself, without it."""
    patch = read_patch(path)
    group = next((group for group in GROUPS if patch.module in group), frozenset[str]())
    faulty, sound = (tmp_path / name for name in ("faulty", "sound"))
    for folder in (faulty, sound):
        folder.mkdir()
    if group:
        numbered = [(number, read_patch(one)) for number, one in enumerate(PATHS, start=1)]
        alike = [
            (number, one) for number, one in numbered if one.module in group and one.first_test == patch.first_test
        ]
        combine(faulty, alike)
        bench = Bench(sv_dir=faulty, fault=PATHS.index(path) + 1)
        without = replace(bench, fault=0)
    else:
        bench = Bench(sv_dir=copy_design(faulty, patch))
        without = Bench(sv_dir=copy_design(sound))
    check = bench.first_failing(patch.first_test or FIRST)
    assert check is not None, f"no test fails with this fault: {patch.description}"
    tested = ((group, patch.first_test) if group else None, check.name)
    if tested not in passed:
        assert without.failure(check) is None
        passed.add(tested)
    logging.getLogger(__name__).info("%s: %s", patch.name, check.name)


def test_no_module_of_a_group_stands_in_another() -> None:
    for group in GROUPS:
        names = {f"tpe_{module}" for module in group}
        for path in sources():
            if path.stem in names:
                code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
                inside = set(re.findall(r"\btpe_\w+", code)) - {path.stem}
                assert not inside & names, path.stem


def test_a_module_with_faults_is_a_choice_between_copies(tmp_path: Path) -> None:
    number, path = next((number, path) for number, path in enumerate(PATHS, start=1) if path.stem.startswith("fifo-"))
    patch = read_patch(path)
    original = next(path for path in sources() if path.stem == "tpe_fifo").read_text(encoding="utf-8")
    text = (combine(tmp_path, [(number, patch)]) / "tpe_fifo.sv").read_text(encoding="utf-8")
    copies = {0: original.splitlines(), number: apply_patch(patch, original.splitlines())}
    for which, lines in copies.items():
        assert "\n".join(lines).replace("tpe_fifo", f"tpe_fifo__{which}") in text
    assert f"  assign rdata_o = fault == {number} ? rdata_o__{number} : rdata_o__0;" in text


def test_every_port_of_a_module_with_faults_is_found() -> None:
    for path in sources(with_bench=False):
        lines = path.read_text(encoding="utf-8").splitlines()
        if path.stem == "tpe_number_pkg":
            continue
        header = header_of(lines)
        words = [word for line in header.lines for word in re.findall(r"\w+", line.partition("//")[0])]
        assert len(header.inputs) + len(header.outputs) == words.count("input") + words.count("output")
        assert len(header.parameters) == words.count("parameter")
        assert all(name.endswith(("_i", "_ni")) for name in header.inputs)
        assert all(name.endswith("_o") for _, name in header.outputs)


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
