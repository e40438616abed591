"""Modules in files: text beside one file with the arrays of all dumps of a folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from xdsl.dialects.builtin import ModuleOp, StringAttr

from ...archdsl import CompileError
from ..ir.store import DataStore
from ..ir.text import parse_module, print_module

ALL: Final = "all"
"""Stands for every pass in `--print-after`."""
AFTER: Final = "data.after"
"""Attribute of a dumped module: number and name of the pass after which it was dumped, `03-fold-constants`."""
ARRAYS: Final = "arrays.npz"
"""Name of the file with the arrays, which the dumps beside it share."""

_LABEL: Final = re.compile(r"(\d+)-(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    """What a dump holds.

    Attributes:
        module: Without the note on where it was dumped.
        store: Its arrays.
        position: Of the pass in its pipeline, from 1.
        pass_name: The pass after which it was dumped.
    """

    module: ModuleOp
    store: DataStore
    position: int
    pass_name: str


def save_dump(folder: Path, module: ModuleOp, position: int, pass_name: str) -> Path:
    """Writes a module's text; returns the file. Its arrays are for `save_arrays`."""
    label = f"{position:02d}-{pass_name}"
    module.attributes[AFTER] = StringAttr(label)  # for the text alone: a copy of the module would take longer than that
    try:
        text = print_module(module)
    finally:
        del module.attributes[AFTER]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{label}.mlir"
    path.write_text(text, encoding="utf-8")
    return path


def arrays_of(module: ModuleOp) -> set[str]:
    """Keys of the arrays that a module refers to."""
    keys = (op.attributes.get("sha256") for op in module.walk())
    return {key.data for key in keys if isinstance(key, StringAttr)}


def save_arrays(folder: Path, store: DataStore, keys: set[str], *, keeps_others: bool) -> None:
    """Writes the arrays of a folder's dumps.

    Args:
        keeps_others: Whether arrays that are there stay, as dumps of an earlier run need them.
    """
    path = folder / ARRAYS
    if keeps_others and path.exists():
        others = DataStore.load(path)
        for key in others:
            store.add(others[key])
        keys = keys | set(others)
    store.save(path, keys)


def load_dump(path: Path) -> Dump:
    """Reads a dump and the arrays beside it.

    Raises:
        CompileError: A file cannot be read, is not a dump, or an array is missing.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CompileError(f"{path}: cannot be read ({error}); give a file that --print-after wrote") from None
    module = parse_module(text, str(path))
    label = module.attributes.pop(AFTER, None)
    found = _LABEL.fullmatch(label.data) if isinstance(label, StringAttr) else None
    if found is None:
        raise CompileError(
            f"{path}: does not say after which pass it was dumped; "
            f'the module needs the attribute {AFTER} = "NN-pass-name", as --print-after writes it'
        )
    store = DataStore.load(path.parent / ARRAYS)
    missing = sorted(arrays_of(module) - set(store))
    if missing:
        raise CompileError(
            f"{path.parent / ARRAYS}: lacks {len(missing)} arrays of {path.name}, the first {missing[0][:12]}...; dump again"
        )
    return Dump(module=module, store=store, position=int(found[1]), pass_name=found[2])
