"""Systems of chips: collectives over the links of a described system, with published or fitted constants."""

from .collectives import LIBRARIES, CollectiveOp, Collectives
from .constants import CONSTANTS
from .machine import Machine, make_machine
from .wiring import Wiring, wiring_of

__all__ = [
    "CONSTANTS",
    "LIBRARIES",
    "CollectiveOp",
    "Collectives",
    "Machine",
    "Wiring",
    "make_machine",
    "wiring_of",
]
