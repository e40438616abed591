"""Who touched what last: from it follows what a step must wait for.

Per memory space and unit one number is kept for every granule: the unit's last step that touched it. A unit ends its
steps in order, so waiting for the greatest number in a range is waiting for all that was done there. Ranges are widened
to whole granules, which may order more than is needed and never less.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Range = tuple[int, int]
"""First place, and first place behind."""


class Shadow:
    """The last steps of one unit in one space.

    Args:
        num_places: Size of the space.
        granule: Places that share a number.
    """

    def __init__(self, num_places: int, granule: int = 1) -> None:
        self._granule = granule
        self._last: npt.NDArray[np.int32] = np.zeros(-(-num_places // granule) + 1, dtype=np.int32)
        self._any = False

    def last(self, places: Range) -> int:
        """The last step in a range; 0 for none."""
        if not self._any:
            return 0
        low, high = places
        return int(self._last[low // self._granule : -(-high // self._granule)].max(initial=0))

    def touch(self, places: Range, step: int) -> None:
        """A step touches a range."""
        low, high = places
        self._any = True
        self._last[low // self._granule : -(-high // self._granule)] = step
