"""Where what is worth keeping between runs is kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """The folder of one kind of built files, below `TILELOOM_CACHE` or the user's cache folder; it need not exist.

    Args:
        name: What is kept there, such as `rtl`.
    """
    given = os.environ.get("TILELOOM_CACHE")
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tileloom"
    return base / name
