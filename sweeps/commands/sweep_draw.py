"""Everything that is drawn of a sweep, in one call."""

from __future__ import annotations

from pathlib import Path

from ..store import SweepResults


def draw(results: SweepResults, folder: Path) -> tuple[Path, ...]:
    """Draw a sweep's figures and its report.

    Args:
        results: The sweep.
        folder: Where to put them; made when it is missing.

    Returns:
        The files.
    """
    from ..plots import plot_sweep
    from ..report import report_sweep

    return (*plot_sweep(results, folder), report_sweep(results, folder))
