"""Every broken file says itself what must be reported of it, in `# expect:` lines after its text.

`# expect: 4:8: clock: message` is a fault of the file itself; `# expect: parts/x.yaml:4:8: ...` one of another file.
All faults of a file are listed: one that is missing or one too many fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tileloom.archdsl import ArchError, Diagnostic, MappingError, load_description, load_mapping

HERE = Path(__file__).parent
ARCH_FILES = sorted((HERE / "broken").glob("*.yaml"))
MAPPING_FILES = sorted((HERE / "broken_mappings").glob("*.yaml"))
MARK = "# expect: "


def expected(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(MARK) for line in lines if line.startswith(MARK)]


def shown(fault: Diagnostic, path: Path) -> str:
    """The first line of the fault, with its file relative to the broken one, which itself goes without saying."""
    head = str(fault).splitlines()[0]
    assert head.startswith(fault.file)
    if not fault.file.startswith("preset:") and Path(fault.file) != path:
        return os.path.relpath(fault.file, path.parent) + head.removeprefix(fault.file)
    return head.removeprefix(fault.file).removeprefix(":").strip()


def check_place(fault: Diagnostic) -> None:
    """The source line is the file's, and the caret stands below the column."""
    if fault.line == 0:
        return
    text = Path(fault.file).read_text(encoding="utf-8").splitlines()[fault.line - 1]
    assert fault.source_line == text
    assert 1 <= fault.column <= len(text) + 1
    assert str(fault).splitlines()[1:] == ["    " + text, "    " + " " * (fault.column - 1) + "^"]


@pytest.mark.parametrize("path", ARCH_FILES, ids=lambda path: path.stem)
def test_broken_description_reports_every_fault(path: Path) -> None:
    with pytest.raises(ArchError) as caught:
        load_description(path)
    assert [shown(fault, path) for fault in caught.value.diagnostics] == expected(path)
    for fault in caught.value.diagnostics:
        check_place(fault)


@pytest.mark.parametrize("path", MAPPING_FILES, ids=lambda path: path.stem)
def test_broken_mapping_file_reports_every_fault(path: Path) -> None:
    with pytest.raises(MappingError) as caught:
        load_mapping(path)
    assert [shown(fault, path) for fault in caught.value.diagnostics] == expected(path)
    for fault in caught.value.diagnostics:
        check_place(fault)


def test_there_are_enough_broken_files() -> None:
    assert len(ARCH_FILES) >= 16
    assert len(MAPPING_FILES) >= 5
