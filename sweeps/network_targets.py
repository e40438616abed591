"""Where a compiled network can run; apart, so that the help of `tileloom run` needs no simulator."""

from __future__ import annotations

from enum import StrEnum


class Target(StrEnum):
    """What a compiled network can run on."""

    FUNCTIONAL = "functional"
    REPLAY = "replay"
    RTL = "rtl"
