"""Power of a chip that serves: idle power, and the energy of its kernels over the time of a step."""

from __future__ import annotations

import numpy as np

from ..gpu.chip import Chip
from ..gpu.energy import idle_power_w
from ..gpu.times import Floats


def kernels_power_w(chip: Chip, dynamic_w: Floats) -> Floats:
    """What kernels add to a chip's idle power, at most what the power limit leaves `[n]` [W].

    Limits: kernels are priced at the clock of a burst; where the limit holds for seconds, steps are longer than stated.

    Args:
        chip: The chip.
        dynamic_w: Energy of the kernels above idle power over the time that they and the host take `[n]` [W].
    """
    return np.minimum(dynamic_w, chip.arch.power.limit_w - idle_power_w(chip))
