"""Whole chips: areas of presets beside published ones."""

from __future__ import annotations

from ...archdsl import SpatialArch, load_arch
from .anchor_table import load_chips
from .anchors import AnchorError
from .resolve import resolve


def chip_errors() -> tuple[AnchorError, ...]:
    """Published chip areas beside those of the presets' numbers.

    Limits: a chip has more than the architecture names (control, network, links, pads), so that the modelled area should
    come out below the published one.
    """
    errors: list[AnchorError] = []
    for anchor in load_chips():
        arch = load_arch(anchor.technology)
        assert isinstance(arch, SpatialArch)
        errors.append(AnchorError(anchor=anchor, modelled=resolve(arch).area_mm2))
    return tuple(errors)
