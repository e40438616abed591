"""Figures of sweeps and estimates: PNG, SVG and the CSV behind them."""

from .from_document import breakdown_of, plot_estimate, roofline_of
from .from_sweep import front_plot, plot_sweep

__all__ = ["breakdown_of", "front_plot", "plot_estimate", "plot_sweep", "roofline_of"]
