"""Groups of dims, and what they contribute to the size of a tile: the factors of products over groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .problem import FloatArray, Problem, TensorInfo

Window = tuple[tuple[int, int], tuple[int, int]]


def dim_groups(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Dims of more than one step, those that share a sliding axis together; at least one group."""
    groups: list[set[int]] = [{dim} for dim, size in enumerate(problem.sizes) if size > 1]
    for info in problem.tensors:
        for pair in info.sliding:
            met = [group for group in groups if any(dim in group for dim, _ in pair)]
            groups = [group for group in groups if group not in met]
            groups += [set[int]().union(*met)] if met else []
    # Groups with many options first: fixing them raises the bound most.
    ordered = sorted((tuple(sorted(group)) for group in groups), key=lambda dims: (-_size(problem, dims), dims))
    return tuple(ordered) or ((0,),)


def combined(tables: Sequence[FloatArray]) -> list[FloatArray]:
    """All combinations of the columns of several tables, as tables of one common width."""
    num = 1
    grown: list[FloatArray] = []
    for table in tables:
        grown = [np.repeat(column, table.shape[1], axis=1) for column in grown]
        grown.append(np.tile(table, (1, num)))
        num *= table.shape[1]
    return grown


def windows_in(info: TensorInfo, dims: Sequence[int]) -> list[Window]:
    """Sliding axes of a tensor that belong to a group of dims."""
    return [pair for pair in info.sliding if any(dim in dims for dim, _ in pair)]


def held_factor(
    problem: Problem, info: TensorInfo, dims: Sequence[int], at: Mapping[int, FloatArray]
) -> FloatArray | float:
    """Elements of a tile along a group of dims; their product over all groups is the tile's size."""
    total: FloatArray | float = 1.0
    limited = {dim: np.minimum(at[dim], problem.sizes[dim]) for dim in dims if dim in info.related}
    for dim in info.plain:
        if dim in limited:
            total = total * limited[dim]
    for (a, over_a), (b, over_b) in windows_in(info, dims):
        x, y = limited.get(a, 1.0), limited.get(b, 1.0)
        total = total * (x * y - np.maximum(x - over_a, 0.0) * np.maximum(y - over_b, 0.0))
    return total


def _size(problem: Problem, dims: Sequence[int]) -> int:
    total = 1
    for dim in dims:
        total *= problem.sizes[dim]
    return total
