"""Which code made a result, for captions."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

GIT_TIMEOUT_S = 10


@cache
def code_version() -> str:
    """Commit of the checkout that is running, with `-dirty` after uncommitted edits; else the installed version."""
    root = Path(__file__).resolve().parent.parent
    if (root / "pyproject.toml").is_file() and (root / ".git").exists():
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=True)
        except (OSError, subprocess.SubprocessError):  # no git here: the installed version names the code
            return _installed()
        return done.stdout.strip()
    return _installed()


def _installed() -> str:
    try:
        return version("tileloom")
    except PackageNotFoundError:
        return "unknown version"
