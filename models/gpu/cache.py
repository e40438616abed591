"""What stays in the cache between two uses."""

from __future__ import annotations

import numpy as np

from ...archdsl import GpuCache
from .times import Floats


def hit_share(bytes_between: Floats, cache: GpuCache) -> Floats:
    """Share of a tensor that is still in the cache when it is used again, 0 to 1.

    Partitions that each keep what their own SMs read hold shared data as often as there are partitions: what fits in one
    always hits, what exceeds the cache never does, and between them the share falls in proportion.

    Args:
        bytes_between: Bytes touched from one use to the next, the tensor's own among them.
        cache: The cache.

    Source: NVIDIA, A100 whitepaper, 2020: two partitions, each for the SMs directly connected. The fall between the two
        bounds is an assumption.
    """
    filled = bytes_between / cache.capacity_bytes
    if cache.partitions == 1:
        return np.where(filled <= 1, 1.0, 0.0)
    return np.clip((1 - filled) / (1 - 1 / cache.partitions), 0.0, 1.0)
