"""Reads the patches in `mutants/`, each a fault, and puts them into copies of the design."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from tileloom.rtl import sources

FOLDER = Path(__file__).parent / "mutants"
PATHS = tuple(sorted(FOLDER.glob("*.patch")))


class PatchError(Exception):
    """A patch that cannot be read or does not fit the design."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    """Lines that are replaced by others, with what stands around them in both."""

    old: tuple[str, ...]
    new: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """One fault.

    Attributes:
        name: Its name: the module and what is wrong.
        description: What is wrong, in a sentence.
        module: The module that it stands in.
        first_test: How the name of a test that fails with it begins (a line `Fails: ...`), so that it may be run
            first; None unless given.
        hunks: What it changes there.
    """

    name: str
    description: str
    module: str
    first_test: str | None
    hunks: tuple[Hunk, ...]


def read_patch(path: Path) -> Patch:
    """Reads a unified diff of one file below a line that says in words what it does.

    Raises:
        PatchError: It is something else.
    """
    lines = path.read_text(encoding="utf-8").splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("--- ")]
    if len(starts) != 1:
        raise PatchError(f"{path.name}: {len(starts)} files are changed, not one")
    head = lines[: starts[0]]
    if not head or not head[0].strip():
        raise PatchError(f"{path.name}: the first line has to say in words what is wrong")
    before, after, *body = lines[starts[0] :]
    found = re.fullmatch(r"--- a/rtl/sv/tpe_(\w+)\.sv", before)
    if found is None or after != f"+++ b/rtl/sv/tpe_{found[1]}.sv":
        raise PatchError(f"{path.name}: a file of rtl/sv has to be changed, not: {before} {after}")
    hunks: list[list[str]] = []
    for line in body:
        if line.startswith("@@ "):
            hunks.append([])
        elif hunks and line[:1] in (" ", "-", "+"):
            hunks[-1].append(line)
        else:
            raise PatchError(f"{path.name}: this is no line of a hunk: {line!r}")
    if not hunks or any(all(line[0] == "+" for line in hunk) for hunk in hunks):
        raise PatchError(f"{path.name}: a hunk needs lines that stand in the file, to be found by")
    return Patch(
        name=path.stem,
        description=head[0],
        module=found[1],
        first_test=next((line.removeprefix("Fails: ") for line in head if line.startswith("Fails: ")), None),
        hunks=tuple(
            Hunk(
                old=tuple(line[1:] for line in hunk if line[0] != "+"),
                new=tuple(line[1:] for line in hunk if line[0] != "-"),
            )
            for hunk in hunks
        ),
    )


def apply_patch(patch: Patch, lines: list[str]) -> list[str]:
    """The lines of a file with a fault.

    Hunks are found by what they replace, not by line numbers, which drift as the design changes.

    Raises:
        PatchError: It changes nothing, or what it replaces does not stand in the file exactly once.
    """
    for hunk in patch.hunks:
        num = len(hunk.old)
        places = [at for at in range(len(lines) - num + 1) if tuple(lines[at : at + num]) == hunk.old]
        if len(places) != 1:
            text = "\n".join(hunk.old)
            raise PatchError(
                f"{patch.name}: these lines stand in tpe_{patch.module}.sv {len(places)} times, not once; adapt the patch"
                f" to the design:\n{text}"
            )
        lines = [*lines[: places[0]], *hunk.new, *lines[places[0] + num :]]
    if not any(hunk.old != hunk.new for hunk in patch.hunks):
        raise PatchError(f"{patch.name}: it changes nothing")
    return lines


def copy_design(folder: Path, patch: Patch | None = None) -> Path:
    """Copies the SystemVerilog into a folder, with a fault if one is given; returns the folder.

    Raises:
        PatchError: The fault does not fit.
    """
    for path in sources():
        shutil.copy(path, folder / path.name)
    if patch is not None:
        path = folder / f"tpe_{patch.module}.sv"
        lines = apply_patch(patch, path.read_text(encoding="utf-8").splitlines())
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder
