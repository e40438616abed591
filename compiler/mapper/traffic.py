"""How many elements cross between two holders, for arrays of tilings whose tiles nest without remainder.

The same definition as `models.counting`, specialised to aligned tilings (only the outermost tile of a dim
may be ragged) and to loop orders in which every holder stands directly below a loop that indexes its
tensor. The search's results are checked against the counting core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...models import compiled, elementwise
from .problem import FloatArray, Problem, TensorInfo
from .walk import Bools

Block = tuple[FloatArray | float, bool]
"""A factor of a dim's nest and whether its pieces are counted once (True) or each (False)."""


def visits(size: int, tile: FloatArray | float, blocks: Sequence[Block]) -> FloatArray | float:
    """Pieces of a dim that are visited.

    Args:
        size: The dim's size.
        tile: Extent of one piece.
        blocks: Factors around the tile, innermost first; what is left of the dim lies around them and is counted.
    """
    blocks = _without_units(blocks)
    if all(once for _, once in blocks):
        # Only factors counted once: what counts is how many blocks of them there are.
        for factor, _ in blocks:
            tile = tile * factor
        return np.ceil(size / tile)
    shape = np.broadcast_shapes(np.shape(tile), *(np.shape(factor) for factor, _ in blocks))
    tiles = np.ascontiguousarray(np.broadcast_to(tile, shape), dtype=np.float64).reshape(-1)
    factors = np.empty((len(tiles), len(blocks)))
    for at, (factor, _) in enumerate(blocks):
        factors[:, at] = np.broadcast_to(factor, shape).reshape(-1)
    found = np.empty(shape)
    _visits(float(size), tiles, factors, np.array([once for _, once in blocks]), found.reshape(-1))
    return found


@compiled
def _visits(size: float, tile: FloatArray, factors: FloatArray, is_once: Bools, found: FloatArray) -> None:
    for k in range(tile.shape[0]):
        found[k] = visits_at(size, tile[k], factors[k], is_once)


@compiled
def visits_at(size: float, tile: float, factors: FloatArray, is_once: Bools) -> float:
    """`visits` of one tiling; the factors are whole numbers."""
    extent = tile
    for factor in factors:
        extent *= factor
    full = np.floor(size / extent)
    rest = size - full * extent
    for k in range(factors.shape[0] - 1, -1, -1):
        extent /= factors[k]
        times = np.floor(rest / extent)
        if not is_once[k]:
            full = full * factors[k] + times
            rest -= times * extent
        elif times > 0:
            full += 1
            rest = 0.0
    return full + 1 if rest > 0 else full


def _without_units(blocks: Sequence[Block]) -> list[Block]:
    """Drops factors that are 1 throughout, and counted ones at the outside: both change nothing."""
    kept = [block for block in blocks if not np.all(block[0] == 1.0)]
    while kept and not kept[-1][1]:
        kept.pop()
    return kept


@compiled
def overhang_at(size: float, extent: float, threshold: float) -> float:
    """Sum over the pieces of a dim of `max(0, piece - threshold)`."""
    times = np.floor(size / extent)
    return times * max(extent - threshold, 0.0) + max(size - times * extent - threshold, 0.0)


@compiled
def sliding_overhang_at(size: float, sweep: float, tile: float, threshold: float) -> float:
    """The same where pieces of `tile` slide over sweeps of `sweep`: each counts less what the one before held."""
    times = np.floor(size / sweep)
    return times * _sweep(sweep, tile, threshold) + _sweep(size - times * sweep, tile, threshold)


@compiled
def _sweep(sweep: float, tile: float, threshold: float) -> float:
    times = np.floor(sweep / tile)
    left = sweep - times * tile
    if times == 0:
        return max(left - threshold, 0.0)
    first = max(tile - threshold, 0.0)
    step = max(2 * tile - threshold, 0.0) - first
    last = max(tile + left - threshold, 0.0) - first if left > 0 else 0.0
    return first + (times - 1) * step + last


@elementwise
def _overhang(size: float, extent: float, threshold: float) -> float:
    return overhang_at(size, extent, threshold)


@elementwise
def _sliding_overhang(size: float, sweep: float, tile: float, threshold: float) -> float:
    return sliding_overhang_at(size, sweep, tile, threshold)


def window_elements(
    problem: Problem,
    info: TensorInfo,
    extents: Sequence[FloatArray | float],
    slide: tuple[int, FloatArray | float] | None = None,
) -> FloatArray | float:
    """Elements of a tensor's tiles summed over all its pieces.

    Args:
        problem: The problem.
        info: The tensor.
        extents: Per dim the extent of its pieces (used for dims on sliding axes).
        slide: Dim along which windows slide and its extent around the sliding loop.
    """
    total: FloatArray | float = info.plain_elements
    for pair in info.sliding:
        total = total * axis_elements(problem, pair, extents, slide)
    return total


def axis_elements(
    problem: Problem,
    pair: tuple[tuple[int, int], tuple[int, int]],
    extents: Sequence[FloatArray | float],
    slide: tuple[int, FloatArray | float] | None = None,
) -> FloatArray | float:
    """The same along one sliding axis, given as its ((dim, threshold), (dim, threshold))."""
    product: FloatArray | float = 1.0
    whole = 1.0
    for dim, threshold in pair:
        size = problem.sizes[dim]
        whole *= size
        if slide is not None and slide[0] == dim:
            product = product * _sliding_overhang(size, slide[1], extents[dim], threshold)
        else:
            product = product * _overhang(size, extents[dim], threshold)
    return whole - product


def footprint(info: TensorInfo, extents: Sequence[FloatArray | float], width: FloatArray | float) -> FloatArray | float:
    """Bytes of one tile of a tensor.

    Args:
        info: The tensor.
        extents: Per dim its extent at the holder, not above the dim's size.
        width: Bytes of one element there.
    """
    total: FloatArray | float = width
    for dim in info.plain:
        total = total * extents[dim]
    for (a, over_a), (b, over_b) in info.sliding:
        x, y = extents[a], extents[b]
        total = total * (x * y - np.maximum(x - over_a, 0.0) * np.maximum(y - over_b, 0.0))
    # Tiles of elements that are no whole number of bytes end at a byte.
    return np.ceil(total) if info.is_rounded else total
