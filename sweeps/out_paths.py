"""Callbacks of options that name what a command writes: whether it can is checked before the work, not after it."""

from __future__ import annotations

import os
from pathlib import Path

import typer


def writable_file(path: Path | None) -> Path | None:
    """A file to write, in a folder that is there or can be made.

    Raises:
        BadParameter: It cannot be written; the message says why.
    """
    if path is None:
        return None
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder; name a file in it")
    if path.exists() and not os.access(path, os.W_OK):
        raise typer.BadParameter(f"{path} may not be written; name another file, or change its permissions")
    writable_folder(path.parent)
    return path


def writable_folder(path: Path | None) -> Path | None:
    """A folder to write into, which is there or can be made.

    Raises:
        BadParameter: It cannot be written into; the message says why.
    """
    if path is None:
        return None
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise typer.BadParameter(f"{there} is a file, so nothing can be written into {path}; name another folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise typer.BadParameter(f"{there} may not be written into; name another folder, or change its permissions")
    return path


def writable_stem(path: Path | None) -> Path | None:
    """The path of some files without their suffixes.

    Raises:
        BadParameter: They cannot be written; the message says why.
    """
    if path is not None:
        writable_folder(path.parent)
    return path
