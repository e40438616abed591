"""Puts many faults into one copy of the design, of which a run chooses one: a simulator is built once for all of them.

A module with faults becomes a choice between itself and one copy per fault. All get the same inputs, and the outputs of the
chosen one go on, so that what the chosen copy meets is the design with its fault alone; the others are heard by nobody.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tileloom.rtl import sources

from .patches import Patch, apply_patch

PORT = re.compile(r"^\s*(input|output)\s+(\S.*?)\s+(\w+)\s*,?\s*(?://.*)?$")
PARAMETER = re.compile(r"^\s*parameter\s+.*?(\w+)\s*=")
HANG_SIGNALS = re.compile(r"^(\s*assign (?:queue_counts|tokens)\[\w\] = ).*;$", re.MULTILINE)
"""The test bench looks into modules for its message about a program that hangs; here they stand elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What stands in front of a module's body.

    Attributes:
        lines: All of it.
        parameters: Names of those that can be given.
        inputs: Names.
        outputs: Types and names.
    """

    lines: tuple[str, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[tuple[str, str], ...]


def combine(folder: Path, faults: Sequence[tuple[int, Patch]]) -> Path:
    """Copies the SystemVerilog into a folder, with all faults; `+fault=NUMBER` chooses, 0 or nothing is the design itself.

    Args:
        folder: Where to.
        faults: Faults with their numbers from 1; their modules may not stand in one another.

    Raises:
        PatchError: A fault does not fit.
    """
    of_module: defaultdict[str, list[tuple[int, Patch]]] = defaultdict(list)
    for number, patch in faults:
        of_module[f"tpe_{patch.module}"].append((number, patch))
    for path in sources():
        text = path.read_text(encoding="utf-8")
        if path.stem == "tpe_tb":
            text, num_places = HANG_SIGNALS.subn(r"\1'0;", text)
            assert num_places == 2, "the test bench's signals for hangs have other names"
        if path.stem in of_module:
            text = chosen(path.stem, text.splitlines(), of_module[path.stem])
        (folder / path.name).write_text(text, encoding="utf-8")
    return folder


def chosen(module: str, lines: list[str], faults: Sequence[tuple[int, Patch]]) -> str:
    """A module as the choice between itself and its copies with faults."""
    header = header_of(lines)
    versions = [(0, lines), *((number, apply_patch(patch, lines)) for number, patch in faults)]
    given = ", ".join(f".{name}({name})" for name in header.parameters)
    body = ["  int unsigned fault;", '  initial if (!$value$plusargs("fault=%d", fault)) fault = 0;']
    for number, _ in versions:
        body += [f"  {kind} {name}__{number};" for kind, name in header.outputs]
        ports = [f".{name}({name})" for name in header.inputs]
        ports += [f".{name}({name}__{number})" for _, name in header.outputs]
        body.append(f"  {module}__{number} {f'#({given}) ' if given else ''}u_{number} ({', '.join(ports)});")
    for _, name in header.outputs:
        choices = "".join(f"fault == {number} ? {name}__{number} : " for number, _ in faults)
        body.append(f"  assign {name} = {choices}{name}__0;")
    copies = [re.sub(rf"\b{module}\b", f"{module}__{number}", "\n".join(version)) for number, version in versions]
    return "\n".join((*copies, *header.lines, *body, "endmodule", ""))


def header_of(lines: Sequence[str]) -> Header:
    """Reads the header of the module that a file holds."""
    first = next(at for at, line in enumerate(lines) if line.startswith("module "))
    last = next(at for at, line in enumerate(lines) if at > first and line.rstrip() == ");")
    head = tuple(lines[first : last + 1])
    ports = [found.groups() for line in head if (found := PORT.match(line))]
    return Header(
        lines=head,
        parameters=tuple(found[1] for line in head if (found := PARAMETER.match(line))),
        inputs=tuple(name for way, _, name in ports if way == "input"),
        outputs=tuple((kind, name) for way, kind, name in ports if way == "output"),
    )
