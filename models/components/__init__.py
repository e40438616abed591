"""Component models: energy and area of memories, arithmetic and wires, anchored to published figures."""

from .anchors import AnchorError, ErrorSummary, anchor_errors, summarise
from .chips import chip_errors
from .numbers import (
    ArchNumbers,
    AreaPart,
    AxisNumbers,
    ComputeNumbers,
    DatatypeNumbers,
    FanoutNumbers,
    LevelNumbers,
    Provenance,
)
from .pe_array_area import pe_array_area, post_processing_area
from .resolve import resolve

__all__ = [
    "AnchorError",
    "ArchNumbers",
    "AreaPart",
    "AxisNumbers",
    "ComputeNumbers",
    "DatatypeNumbers",
    "ErrorSummary",
    "FanoutNumbers",
    "LevelNumbers",
    "Provenance",
    "anchor_errors",
    "chip_errors",
    "pe_array_area",
    "post_processing_area",
    "resolve",
    "summarise",
]
