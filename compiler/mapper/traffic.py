"""How many elements cross between two holders, for arrays of tilings whose tiles nest without remainder.

The same definition as `models.counting`, specialised to aligned tilings (only the outermost tile of a dim
may be ragged) and to loop orders in which every holder stands directly below a loop that indexes its
tensor. The search's results are checked against the counting core.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .problem import FloatArray, Problem, TensorInfo

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
    extents: list[FloatArray | float] = [tile]
    for factor, _ in blocks:
        extents.append(extents[-1] * factor)
    full = np.floor(size / extents[-1])
    rest = size - full * extents[-1]
    for (factor, once), piece in zip(reversed(blocks), reversed(extents[:-1]), strict=True):
        times = np.floor(rest / piece)
        if once:
            full = full + (times > 0)
            rest = np.where(times > 0, 0.0, rest)
        else:
            full = full * factor + times
            rest = rest - times * piece
    return full + (rest > 0)


def _without_units(blocks: Sequence[Block]) -> list[Block]:
    """Drops factors that are 1 throughout, and counted ones at the outside: both change nothing."""
    kept = [block for block in blocks if not np.all(block[0] == 1.0)]
    while kept and not kept[-1][1]:
        kept.pop()
    return kept


def overhang(size: int, extent: FloatArray | float, threshold: int) -> FloatArray | float:
    """Sum over the pieces of a dim of `max(0, piece - threshold)`."""
    times = np.floor(size / extent)
    return times * np.maximum(extent - threshold, 0.0) + np.maximum(size - times * extent - threshold, 0.0)


def sliding_overhang(
    size: int, sweep: FloatArray | float, tile: FloatArray | float, threshold: int
) -> FloatArray | float:
    """The same where pieces of `tile` slide over sweeps of `sweep`: each counts less what the one before held."""
    times = np.floor(size / sweep)
    return times * _sweep(sweep, tile, threshold) + _sweep(size - times * sweep, tile, threshold)


def _sweep(sweep: FloatArray | float, tile: FloatArray | float, threshold: int) -> FloatArray | float:
    first = np.maximum(tile - threshold, 0.0)
    step = np.maximum(2 * tile - threshold, 0.0) - first
    times = np.floor(sweep / tile)
    left = sweep - times * tile
    last = np.where(left > 0, np.maximum(tile + left - threshold, 0.0) - first, 0.0)
    return np.where(times > 0, first + (times - 1) * step + last, np.maximum(left - threshold, 0.0))


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
            product = product * sliding_overhang(size, slide[1], extents[dim], threshold)
        else:
            product = product * overhang(size, extents[dim], threshold)
    return whole - product


def footprint(info: TensorInfo, extents: Sequence[FloatArray | float]) -> FloatArray | float:
    """Bytes of one tile of a tensor.

    Args:
        info: The tensor.
        extents: Per dim its extent at the holder, not above the dim's size.
    """
    total: FloatArray | float = info.element_bytes
    for dim in info.plain:
        total = total * extents[dim]
    for (a, over_a), (b, over_b) in info.sliding:
        x, y = extents[a], extents[b]
        total = total * (x * y - np.maximum(x - over_a, 0.0) * np.maximum(y - over_b, 0.0))
    # Tiles of elements that are no whole number of bytes end at a byte.
    return np.ceil(total) if info.tensor.bits % 8 else total
