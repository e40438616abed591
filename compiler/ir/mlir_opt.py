"""MLIR's own `mlir-opt` as a judge of our text: it parses and verifies a module by the dialects' IRDL alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from xdsl.ir import Dialect

from ...archdsl import CompileError, Diagnostic
from .irdl import irdl_text
from .registry import OWN_DIALECTS

OVERRIDE: Final = "TILELOOM_MLIR_OPT"
"""Environment variable with the path of the `mlir-opt` to use."""
VERSIONS: Final = range(40, 18, -1)
"""Of LLVM, newest first, whose `mlir-opt` Debian calls `mlir-opt-19` and so on. Older ones have no IRDL of this kind."""

_PROBE: Final = "irdl.dialect @p { irdl.operation @o { %0 = irdl.any irdl.results(named: %0) } }"
_ERROR: Final = re.compile(r"^<(?:stdin|unknown)>:(\d+)(?::(\d+))?: error: (?:loc\((.*?)\): )?(.*)$", re.MULTILINE)


def find_mlir_opt() -> Path | None:
    """The `mlir-opt` of this machine: what `TILELOOM_MLIR_OPT` says, else `mlir-opt`, else the newest with a version.

    Raises:
        CompileError: `TILELOOM_MLIR_OPT` names no program.
    """
    wanted = os.environ.get(OVERRIDE)
    if wanted:
        found = shutil.which(wanted)
        if found is None:
            raise CompileError(f"{OVERRIDE}={wanted}: no such program; give the path of mlir-opt, or unset it")
        return Path(found)
    for name in ("mlir-opt", *(f"mlir-opt-{version}" for version in VERSIONS)):
        if found := shutil.which(name):
            return Path(found)
    return None


def check_with_mlir(texts: Mapping[str, str], dialects: Iterable[Dialect] = OWN_DIALECTS) -> tuple[Diagnostic, ...]:
    """What `mlir-opt` finds wrong with modules; nothing if they are right.

    Args:
        texts: Modules as `print_module` gives them, by the names that messages use.
        dialects: Those that they use, besides MLIR's own.

    Returns:
        Faults with line and column, or, where an op has a location, with the ONNX nodes in `path` instead.

    Raises:
        CompileError: There is no `mlir-opt`, or it does not take the dialects' IRDL.
    """
    program = find_mlir_opt()
    if program is None:
        raise CompileError(f"no mlir-opt on the PATH; install Debian's mlir-19-tools, or set {OVERRIDE}")
    with tempfile.TemporaryDirectory() as folder:
        definitions = Path(folder) / "dialects.irdl"
        definitions.write_text(irdl_text(dialects, is_named=_names_operands(program)), encoding="utf-8")
        refused = _run(program, definitions, "")
        if refused.returncode:
            raise CompileError(f"{program} does not take the dialects' IRDL; a fault of the toolkit:\n{refused.stderr}")
        return tuple(fault for name, text in texts.items() for fault in _check(program, definitions, name, text))


def _check(program: Path, definitions: Path, name: str, text: str) -> list[Diagnostic]:
    result = _run(program, definitions, text)
    if not result.returncode:
        return []
    lines = text.split("\n")
    faults: list[Diagnostic] = []
    for found in _ERROR.finditer(result.stderr):
        line, column = int(found[1]), int(found[2] or 0)
        source = lines[line - 1] if 0 < line <= len(lines) else ""
        faults.append(
            Diagnostic(file=name, line=line, column=column, path=found[3] or "", message=found[4], source_line=source)
        )
    return faults or [Diagnostic(file=name, line=0, column=0, path="", message=result.stderr.strip())]


@cache
def _names_operands(program: Path) -> bool:
    """Whether this version's IRDL names operands: there is no syntax that old and new versions share."""
    with tempfile.TemporaryDirectory() as folder:
        probe = Path(folder) / "probe.irdl"
        probe.write_text(_PROBE, encoding="utf-8")
        return _run(program, probe, "").returncode == 0


def _run(program: Path, definitions: Path, text: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), f"--irdl-file={definitions}", "-"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)
