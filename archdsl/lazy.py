"""Packages that import their public names at first use, so that nobody waits for what he does not use."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any


def first_use(package: str, file: str) -> Callable[[str], Any]:
    """The `__getattr__` of a package: it imports what the package's `if TYPE_CHECKING:` names, each name when it is asked for.

    So a name stands in one place, where type checkers and editors look for it too.

    Args:
        package: Its `__name__`.
        file: Its `__file__`.
    """
    places: dict[str, tuple[str, str]] = {}

    def get(name: str) -> Any:
        if not places:
            places.update(_places_of(file))
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path, other = places[name]
        module = import_module(f".{path}", package)
        value = getattr(module, other) if other else module
        setattr(sys.modules[package], name, value)  # the next use comes here no more
        return value

    return get


def _places_of(file: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each name, the module below the package that defines it, and its name there; none where it is a module."""
    for block in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name) and block.test.id == "TYPE_CHECKING":
            for line in block.body:
                if isinstance(line, ast.ImportFrom) and line.level == 1:
                    for alias in line.names:
                        place = (line.module, alias.name) if line.module else (alias.name, "")
                        yield alias.asname or alias.name, place
