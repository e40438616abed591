"""Power of a chip that serves, from how busy its units are."""

from __future__ import annotations

import numpy as np

from ..gpu.chip import Chip
from ..gpu.times import Floats

IDLE_SHARE = 0.15
"""Idle power over the limit where the description has none. assumption: H100 SXM idles at 123 of 700 W."""
MEMORY_SHARE = 0.45
"""Share of the power above idle that main memory at its full bandwidth draws, tensor cores idle. assumption: decoding, which
is limited by memory, is reported at half to two thirds of the limit."""


def chip_power_w(chip: Chip, datatype: str, *, ops_per_s: Floats, bytes_per_s: Floats) -> Floats:
    """Mean power `[n]` [W]: idle power, and what tensor cores and main memory add in proportion to their use.

    Limits: no energy per operation by datatype, no clock; at most the power limit.
    """
    limit = chip.arch.power.limit_w
    idle = chip.arch.power.idle_w if chip.arch.power.idle_w is not None else IDLE_SHARE * limit
    tensor = np.minimum(1.0, ops_per_s / chip.tensor_ops_per_s(datatype))
    memory = np.minimum(1.0, bytes_per_s / chip.memory_bytes_per_s)
    return np.minimum(limit, idle + (limit - idle) * (tensor + MEMORY_SHARE * memory))
