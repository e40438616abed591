"""Options of one group of dims in the outermost segment, as factors of its chain's terms; compiled.

See `outer` for what they are used for, and `walk` for what the terms mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...models import compiled
from .traffic import overhang_at, sliding_overhang_at, visits_at
from .walk import Bools, ChainForm, Floats, Ints


class GroupForm(NamedTuple):
    """How one group of dims enters the terms of a chain; arrays over its points, outermost first.

    Dims are counted within the group; one more than there are stands for any dim of size 1.

    Attributes:
        sizes: [dims + 1] sizes.
        is_unrelated: [points, dims] whether a dim does not index the point's tensor.
        is_plain: [points, dims] whether it indexes it on an axis of its own.
        first_window: [points + 1] where its windows begin in `windows`.
        windows: [windows, 4] sliding axes: dim, threshold, dim, threshold.
        slide: [terms] the dim along which windows slide; -1 for none.
        unit: [points] factor of the tile's bytes.
    """

    sizes: Floats
    is_unrelated: Bools
    is_plain: Bools
    first_window: Ints
    windows: Ints
    slide: Ints
    unit: Floats


@compiled
def list_factors(form: ChainForm, group: GroupForm, at: Floats, below: Floats, factors: Floats) -> None:
    """Works out every option's factors.

    Args:
        form: The chain.
        group: The group of dims.
        at: [options, points, dims + 1] extents at every point.
        below: [dims, numbers] the extent below the segment and, for a raised point, what lies between it and its
            holder: the tile's extent and, per fan-out from the inside, the extent around the segment, and the
            factors on all axes and on those that share.
        factors: [options, terms] what is worked out.
    """
    num_options, num_points, width = at.shape
    num_dims = width - 1
    num_fanouts = (below.shape[1] - 2) // 3
    around = np.ones(width)
    limited = np.ones(width)
    blocks = np.ones(max(3 * num_fanouts + 1, 1))
    is_once = np.ones(blocks.shape[0], dtype=np.bool_)
    for option in range(num_options):
        around[:] = group.sizes
        for i in range(num_points):
            tile = at[option, i]
            for d in range(width):
                limited[d] = min(tile[d], group.sizes[d])
            if form.is_raised[i]:
                for kind in range(3):
                    total = 1.0
                    for d in range(num_dims):
                        if group.is_unrelated[i, d]:
                            total *= _raised_visits(group.sizes[d], tile[d], below[d], kind, blocks, is_once)
                    factors[option, form.moved[i] + kind] = total
            else:
                steps = 1.0
                held = group.unit[i]
                for d in range(num_dims):
                    if group.is_unrelated[i, d]:
                        steps *= np.ceil(group.sizes[d] / tile[d])
                    elif group.is_plain[i, d]:
                        held *= limited[d]
                for w in range(group.first_window[i], group.first_window[i + 1]):
                    a, over_a, b, over_b = _window(group, w)
                    x, y = limited[a], limited[b]
                    held *= x * y - max(x - over_a, 0.0) * max(y - over_b, 0.0)
                factors[option, form.held[i]] = held
                for term in range(form.moved[i], form.moved[i + 1]):
                    total = steps
                    for w in range(group.first_window[i], group.first_window[i + 1]):
                        a, over_a, b, over_b = _window(group, w)
                        missed = _missed(group.sizes[a], tile[a], around[a], over_a, group.slide[term] == a)
                        missed *= _missed(group.sizes[b], tile[b], around[b], over_b, group.slide[term] == b)
                        total *= group.sizes[a] * group.sizes[b] - missed
                    factors[option, term] = total
            around[:] = limited


@compiled
def _window(group: GroupForm, at: int) -> tuple[int, int, int, int]:
    return group.windows[at, 0], group.windows[at, 1], group.windows[at, 2], group.windows[at, 3]


@compiled
def _missed(size: float, tile: float, around: float, threshold: int, is_sliding: bool) -> float:
    """See `traffic.axis_elements`."""
    return sliding_overhang_at(size, around, tile, threshold) if is_sliding else overhang_at(size, tile, threshold)


@compiled
def _raised_visits(size: float, extent: float, below: Floats, kind: int, blocks: Floats, is_once: Bools) -> float:
    """Refills along a dim of a holder below the fan-outs: of all instances, of what crosses, of each reduction group."""
    inner = below[1]
    num = 0
    for at in range(2, below.shape[0], 3):
        top, every, shared = below[at], below[at + 1], below[at + 2]
        once = 1.0 if kind == 0 else shared if kind == 1 else every
        blocks[num], blocks[num + 1], blocks[num + 2] = top / inner, once, every / once
        is_once[num], is_once[num + 1], is_once[num + 2] = True, True, False
        inner = top * every
        num += 3
    blocks[num], is_once[num] = extent / below[0], True
    return visits_at(size, below[1], blocks, is_once)


@compiled
def undominated(rows: Floats) -> Bools:
    """Rows that no row before them matches or undercuts in every column."""
    num, width = rows.shape
    kept = np.zeros(num, dtype=np.bool_)
    places = np.zeros(num, dtype=np.int64)
    num_kept = 0
    for i in range(num):
        is_dominated = False
        for k in range(num_kept):
            other = places[k]
            is_dominated = True
            for m in range(width):
                if rows[other, m] > rows[i, m]:
                    is_dominated = False
                    break
            if is_dominated:
                break
        if not is_dominated:
            kept[i] = True
            places[num_kept] = i
            num_kept += 1
    return kept


# Compiled code takes a third of a second to set itself up on its first call: here, and not in the first search.
undominated(np.zeros((1, 1)))
