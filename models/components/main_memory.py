"""Main memory: energy per byte by DRAM technology.

One figure per technology for streaming accesses, reads and writes alike, controller excluded. Refresh, idle power and
row misses beyond those in the published figure are left out. The node of the chip does not matter: the energy is spent
in the DRAM and its interface.
"""

from __future__ import annotations

from functools import cache

from ...archdsl import ModelError
from .anchor_table import load_anchors

BITS_PER_BYTE = 8


@cache
def _pj_per_bit() -> dict[str, float]:
    """The calibration anchors themselves: there is nothing to fit between technologies."""
    return {
        anchor.technology: anchor.published
        for anchor in load_anchors()
        if anchor.quantity == "main_memory.pj_per_bit" and anchor.role == "calibration"
    }


def main_memory_technologies() -> tuple[str, ...]:
    """DRAM technologies with a published energy."""
    return tuple(_pj_per_bit())


def pj_per_byte(technology: str) -> float:
    """Energy of moving one byte to or from a DRAM [pJ/B].

    Args:
        technology: One of `main_memory_technologies()`.

    Raises:
        ModelError: No figure for that technology.

    Source: anchors.csv (main_memory.pj_per_bit, calibration).
    """
    table = _pj_per_bit()
    if technology not in table:
        raise ModelError(f"no energy for main memory of type '{technology}'; there are {', '.join(table)}")
    return table[technology] * BITS_PER_BYTE
