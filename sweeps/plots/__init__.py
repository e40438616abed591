"""Figures of sweeps and estimates: PNG, SVG and the CSV behind them.

Names are imported at their first use: tables need how numbers are written, and no figures.
"""

from typing import TYPE_CHECKING

from ...archdsl import first_use

if TYPE_CHECKING:
    from .from_document import breakdown_of, plot_estimate, roofline_of
    from .from_sweep import front_plot, plot_sweep

__all__ = ["breakdown_of", "front_plot", "plot_estimate", "plot_sweep", "roofline_of"]

__getattr__ = first_use(__name__, __file__)
