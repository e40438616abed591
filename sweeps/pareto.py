"""Pareto fronts: which design points no other one beats, and the front's knee."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pareto_mask(objectives: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows are on the Pareto front, all objectives minimised.

    A row is dominated when another row is at most as large in every objective and smaller in at
    least one. Equal rows do not dominate each other, so ties and duplicates are all kept. Rows
    with a value that is not finite are never on the front and dominate nothing.

    Args:
        objectives: Objective values, shape [N, K], K at least 1.

    Returns:
        Mask of shape [N].

    Raises:
        ValueError: The array is not of shape [N, K] with K at least 1.
    """
    if objectives.ndim != 2 or objectives.shape[1] < 1:
        raise ValueError(f"objectives must have shape [N, K] with K >= 1, not {list(objectives.shape)}")
    mask = np.zeros(len(objectives), dtype=np.bool_)
    finite = np.flatnonzero(np.isfinite(objectives).all(axis=1))
    if not len(finite):
        return mask
    rows, inverse = np.unique(objectives[finite] + 0.0, axis=0, return_inverse=True)  # + 0.0: -0.0 equals 0.0
    mask[finite] = _front_of_sorted(rows)[inverse.reshape(-1)]
    return mask


def _front_of_sorted(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Front of distinct rows in lexicographic order: a later row never dominates an earlier one."""
    if rows.shape[1] == 2:
        best = np.minimum.accumulate(rows[:, 1])
        return np.concatenate([[True], rows[1:, 1] < best[:-1]])
    on_front = np.zeros(len(rows), dtype=np.bool_)
    front = np.empty_like(rows)
    size = 0
    for idx, row in enumerate(rows):
        if not (front[:size] <= row).all(axis=1).any():
            front[size] = row
            size += 1
            on_front[idx] = True
    return on_front


def knee_index(objectives: NDArray[np.float64]) -> int | None:
    """Row of the front's knee: the point with most gain per objective given up.

    Each objective is scaled to 0..1 over the front; the knee is the row with the least sum. With two
    objectives that is the point furthest below the line between the front's ends.

    Args:
        objectives: Objective values of all points, shape [N, K].

    Returns:
        Index of the knee (the first of equal ones), or None when no row is finite.

    Source: I. Das, "On characterizing the 'knee' of the Pareto curve based on Normal-Boundary
    Intersection", Structural Optimization 18, 1999: the point of the curve furthest from the
    hyperplane through the objectives' individual minima.
    """
    front = np.flatnonzero(pareto_mask(objectives))
    if not len(front):
        return None
    values = objectives[front]
    low = values.min(axis=0)
    span = values.max(axis=0) - low
    scaled = (values - low) / np.where(span > 0, span, 1.0)
    return int(front[np.argmin(scaled.sum(axis=1))])
