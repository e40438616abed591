"""Packages that import their public names at first use, so that nobody waits for what he does not use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def first_use(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        package: Its `__name__`.
        modules: The module below it that defines each public name, with a colon and the name there if that is another; the
            name itself for a module.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        path, _, other = modules[name].partition(":")
        module = import_module(f".{path}", package)
        return module if path == name else getattr(module, other or name)

    return get
