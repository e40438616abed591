"""Figures of sweeps and estimates: PNG, SVG and the CSV behind them."""
