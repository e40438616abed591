"""Traffic below the outermost segment: everything that the fan-outs and the levels under them decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...models import returned_sums
from .objective import Traffic
from .placement import Tilings, as_floats
from .problem import FloatArray, Problem, TensorInfo
from .spatial import Spread
from .traffic import Block, footprint, visits, window_elements

Extents = Sequence[FloatArray | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Which levels keep which tensors.

    Attributes:
        levels: Per tensor its levels, outermost first, the first being level 0.
        raised: The tensor whose outermost holder below the fan-outs outlives changes of tiles outside them.
            Its refills are decided by the outermost segment (`outer`), all others' by the inner ones.
    """

    levels: tuple[tuple[int, ...], ...]
    raised: int | None = None

    def first_inner(self, problem: Problem, tensor: int) -> int:
        """The outermost level below a fan-out that keeps a tensor."""
        return min(level for level in self.levels[tensor] if problem.segment_of[level] > 0)

    def parent(self, problem: Problem, tensor: int, segment: int) -> int:
        """The innermost level that keeps a tensor in `segment` or outside it."""
        return max(level for level in self.levels[tensor] if problem.segment_of[level] <= segment)


@dataclass(frozen=True, slots=True)
class Site:
    """A place in the nest in absolute extents: a holder, or the compute unit.

    Attributes:
        segment: Its segment.
        extents: Per dim the tile's extent.
        sweeps: Dims along which its windows may slide and the extents around those loops; the best is taken.
    """

    segment: int
    extents: Extents
    sweeps: tuple[tuple[int, FloatArray | float], ...] = ()


@dataclass(frozen=True, slots=True)
class Frame:
    """Extents around the segments and fan-outs, shared by all transfers of one array of candidates.

    Attributes:
        bottoms: Per segment the extents below it; index 0 is not used.
        tops: Per segment the extents around it; index 0 is not used.
        spreads: Per fan-out its factors.
    """

    bottoms: tuple[Extents, ...]
    tops: tuple[Extents, ...]
    spreads: tuple[Spread, ...]


def blocks_of(frame: Frame, site: Site, outer_segment: int, dim: int, *, use_reduction: bool) -> list[Block]:
    """The factors of a dim's nest between a site and the segment of its parent, innermost first.

    Spatial factors on axes that share (multicast, or reduction) count once, those on others each. The
    latter stand outside the former on the same fan-out.
    """
    blocks: list[Block] = []
    inner = site.extents[dim]
    for segment in range(site.segment, outer_segment, -1):
        blocks.append((frame.tops[segment][dim] / inner, False))
        spread = frame.spreads[segment - 1]
        shared = spread.reduction[dim] if use_reduction else spread.multicast[dim]
        blocks += [(shared, True), (spread.every[dim] / shared, False)]
        inner = frame.tops[segment][dim] * spread.every[dim]
    return blocks


def filled(problem: Problem, info: TensorInfo, frame: Frame, site: Site, parent_segment: int) -> FloatArray | float:
    """Elements of a holder's tile over all refills and instances."""
    total = _windows(problem, info, frame, site, parent_segment, site.extents)
    for dim in info.unrelated:
        total = total * visits(problem.sizes[dim], site.extents[dim], [])
    return total


def delivered(
    problem: Problem, info: TensorInfo, frame: Frame, site: Site, parent_segment: int, *, every_axis: bool = False
) -> FloatArray | float:
    """Elements that cross at the parent: after multicast for inputs, after spatial reduction for outputs.

    Args:
        problem: The problem.
        info: The tensor.
        frame: Extents around segments and fan-outs.
        site: The child.
        parent_segment: Segment of the parent.
        every_axis: For outputs, count each group of instances once on every axis (see `sent` in docs/counting.md).
    """
    extents = site.extents
    if info.sliding and (every_axis or not info.is_output):
        extents = _side_by_side(info, frame, site, parent_segment, every_axis=every_axis)
    total = _windows(problem, info, frame, site, parent_segment, extents)
    for dim in info.unrelated:
        blocks = blocks_of(frame, site, parent_segment, dim, use_reduction=info.is_output)
        if every_axis:
            blocks = [(factor, index % 3 > 0) for index, (factor, _) in enumerate(blocks)]
        total = total * visits(problem.sizes[dim], site.extents[dim], blocks)
    return total


def _windows(
    problem: Problem, info: TensorInfo, frame: Frame, site: Site, parent_segment: int, extents: Extents
) -> FloatArray | float:
    """Elements of all tiles, sliding along the best loop where the axis is not shared out below the parent."""
    if not site.sweeps or info.is_output:
        return window_elements(problem, info, extents)
    least: FloatArray | float = np.inf
    for dim, sweep in site.sweeps:
        pair = next(pair for pair in info.sliding if dim in {d for d, _ in pair})
        spread: FloatArray | float = 1.0
        for other, _ in pair:
            for fanout in range(parent_segment, site.segment):
                spread = spread * frame.spreads[fanout].every[other]
        around = sweep if isinstance(spread, float) else np.where(spread > 1, site.extents[dim], sweep)
        # Where windows are shared side by side the axis is spread, and nothing slides.
        around = np.maximum(around, extents[dim])
        least = np.minimum(least, window_elements(problem, info, extents, (dim, around)))
    return least


def _side_by_side(info: TensorInfo, frame: Frame, site: Site, parent_segment: int, *, every_axis: bool) -> Extents:
    """Extents of the windows that neighbouring instances share."""
    extents = list(site.extents)
    for pair in info.sliding:
        for dim, _ in pair:
            is_beside: npt.NDArray[np.bool_] | bool = True
            inner = site.extents[dim]
            for segment in range(site.segment, parent_segment, -1):
                spread = frame.spreads[segment - 1]
                shared = spread.every[dim] if every_axis else spread.multicast[dim]
                is_beside = is_beside & (frame.tops[segment][dim] == inner)
                extents[dim] = extents[dim] * np.where(is_beside, shared, 1.0)
                is_beside = is_beside & (spread.every[dim] == shared)
                inner = frame.tops[segment][dim] * spread.every[dim]
    return extents


def make_frame(problem: Problem, spreads: Sequence[Spread], chains: Sequence[Tilings]) -> Frame:
    """Stacks segments and fan-outs from the inside outward.

    Args:
        problem: The problem.
        spreads: Per fan-out its factors.
        chains: Per segment 1, 2, ... its tilings relative to what lies below.
    """
    num_segments = problem.num_fanouts + 1
    bottoms: list[Extents] = [()] * num_segments
    tops: list[Extents] = [()] * num_segments
    below: Extents = [1.0] * len(problem.sizes)
    for segment in range(num_segments - 1, 0, -1):
        bottoms[segment] = below
        tops[segment] = [b * t for b, t in zip(below, as_floats(chains[segment - 1].top), strict=True)]
        below = [t * s for t, s in zip(tops[segment], spreads[segment - 1].every, strict=True)]
    bottoms[0] = below
    return Frame(tuple(bottoms), tuple(tops), tuple(spreads))


def inner_traffic(
    problem: Problem,
    pattern: Pattern,
    frame: Frame,
    chains: Sequence[Tilings],
    capacities: Sequence[float],
    *,
    with_steps: bool,
) -> tuple[Traffic, npt.NDArray[np.bool_] | bool, FloatArray | float]:
    """Traffic of every transfer whose child is the compute unit or a level below a fan-out.

    Args:
        problem: The problem.
        pattern: Which levels keep which tensors.
        frame: Extents around segments and fan-outs.
        chains: Per segment 1, 2, ... its tilings.
        capacities: Per level the bytes that tiles may take.
        with_steps: Whether steps are wanted; they are 0 otherwise.

    Returns:
        The traffic, charged at parents and children, whether all tiles below fan-outs fit, and the bytes of one output
        element at its innermost level outside the fan-outs, or at the raised holder where the output is raised.
    """
    num_levels = len(problem.hierarchy.levels)
    read: list[FloatArray | float] = [0.0] * num_levels
    write: list[FloatArray | float] = [0.0] * num_levels
    used: dict[int, FloatArray | float] = {}
    sites = _sites(problem, frame, chains)
    compute = Site(problem.num_fanouts, [1.0] * len(problem.sizes))
    last_width: FloatArray | float = 0.0
    for info in problem.tensors:
        parent = pattern.parent(problem, info.idx, 0)
        levels = [lv for lv in pattern.levels[info.idx] if problem.segment_of[lv] > 0]
        widths = _widths(
            problem, info, frame, [sites[info.idx, level] for level in levels] + [compute], [parent, *levels]
        )
        is_raised = info.idx == pattern.raised
        if info.is_output:
            last_width = widths[is_raised]
        starts: FloatArray | float = info.elements
        for at, level in enumerate(levels):
            site = sites[info.idx, level]
            limited = [np.minimum(e, s) for e, s in zip(site.extents, problem.sizes, strict=True)]
            used[level] = used.get(level, 0.0) + footprint(info, limited, widths[at + 1])
            if is_raised and at == 0:
                starts = 0.0
            else:
                some = (widths[at], widths[at + 1])
                starts = charge(problem, info, frame, site, parent, level, starts, read, write, some)
            parent = level
        charge(problem, info, frame, compute, parent, None, starts, read, write, (widths[-1], 0.0))
    steps = _steps(problem, frame) if with_steps else 0.0
    fits: npt.NDArray[np.bool_] | bool = True
    for level, amount in used.items():
        fits = fits & (amount <= capacities[level])
    return Traffic(read, write, _instances(problem, frame), steps), fits, last_width


def _widths(
    problem: Problem, info: TensorInfo, frame: Frame, sites: Sequence[Site], parents: Sequence[int]
) -> list[FloatArray | float]:
    """Bytes of one element at the parents of some sites."""
    if info.sum_bytes == info.element_bytes:
        return [info.element_bytes] * len(parents)
    return [parent_width(problem, info, frame, site, parent) for site, parent in zip(sites, parents, strict=True)]


def parent_width(problem: Problem, info: TensorInfo, frame: Frame, site: Site, parent: int) -> FloatArray | float:
    """Bytes of one element at the parent of a site, by what arrives there."""
    if not info.is_output:
        return info.element_bytes
    return problem.width(info, parent, delivered(problem, info, frame, site, problem.segment_of[parent]))


def charge(
    problem: Problem,
    info: TensorInfo,
    frame: Frame,
    site: Site,
    parent: int,
    child: int | None,
    starts: FloatArray | float,
    read: list[FloatArray | float],
    write: list[FloatArray | float],
    widths: tuple[FloatArray | float, FloatArray | float],
) -> FloatArray | float:
    """Charges one transfer to its parent and child levels; `child` is None for the compute unit.

    `widths` are the bytes of one element at the parent and at the child.

    Returns:
        For outputs, elements that start from nothing at the child.
    """
    segment = problem.segment_of[parent]
    at_parent, at_child = widths
    amount = filled(problem, info, frame, site, segment)
    crossing = delivered(problem, info, frame, site, segment)
    if not info.is_output:
        read[parent] = read[parent] + crossing * at_parent
        if child is not None:
            write[child] = write[child] + amount * at_child
        return 0.0
    groups = delivered(problem, info, frame, site, segment, every_axis=True)
    is_every = problem.convention.partial_sum_refills == "every" and child is not None and site.segment > 0
    first_instances = first_with_work(problem, info, frame, site) if is_every else 1.0
    back, sent = returned_sums(problem.convention, info.elements, amount, crossing, groups, first_instances, starts)
    write[parent] = write[parent] + (crossing * at_parent - problem.narrowed(info, parent, at_parent))
    read[parent] = read[parent] + back * at_parent
    if child is not None:
        write[child] = write[child] + sent * at_child
        drained = amount if problem.convention.final_drain_is_read else amount - info.elements
        read[child] = read[child] + drained * at_child
    return amount - sent


def first_with_work(problem: Problem, info: TensorInfo, frame: Frame, site: Site) -> FloatArray | float:
    """Instances of a holder along dims outside its tensor that have work in the first step."""
    total: FloatArray | float = 1.0
    for dim in info.unrelated:
        # Temporal factors, and what is left of the dim around them, stay at their first step.
        factors = [factor for factor, _ in blocks_of(frame, site, 0, dim, use_reduction=True)]
        blocks = [(factor, index % 3 == 0) for index, factor in enumerate(factors)]
        blocks.append((np.ceil(problem.sizes[dim] / frame.bottoms[0][dim]), True))
        total = total * visits(problem.sizes[dim], site.extents[dim], blocks)
    return total


@dataclass(frozen=True, slots=True)
class Raised:
    """What the outermost segment needs to know of a raised holder, over inner tilings.

    Attributes:
        is_possible: Whether no temporal loop between it and the outermost segment goes over a dim that indexes its
            tensor.
        keys: [dims, numbers]: per dim the extent of its tile, and per fan-out above it, innermost first, the
            extent around the segment and the factors on all axes and on those that share.
        scale: The first four of `walk.Inner.scale`.
    """

    is_possible: npt.NDArray[np.bool_] | bool
    keys: list[list[FloatArray | float]]
    scale: list[FloatArray | float]


def raised_holder(problem: Problem, pattern: Pattern, frame: Frame, chains: Sequence[Tilings], tensor: int) -> Raised:
    """Describes the outermost holder below the fan-outs of a tensor."""
    info = problem.tensors[tensor]
    site = _sites(problem, frame, chains)[tensor, pattern.first_inner(problem, tensor)]
    is_possible: npt.NDArray[np.bool_] | bool = True
    keys: list[list[FloatArray | float]] = []
    for dim in range(len(problem.sizes)):
        numbers: list[FloatArray | float] = [site.extents[dim]]
        spread: FloatArray | float = 1.0
        for segment in range(site.segment, 0, -1):
            factors = frame.spreads[segment - 1]
            shared = factors.reduction[dim] if info.is_output else factors.multicast[dim]
            numbers += [frame.tops[segment][dim], factors.every[dim], shared]
            spread = spread * factors.every[dim]
        # Dims that index the tensor are not looped over where it is raised.
        keys.append([0.0] * len(numbers) if dim in info.related else numbers)
        if dim in info.related:
            is_possible = is_possible & (frame.bottoms[0][dim] == site.extents[dim] * spread)
    beside = _side_by_side(info, frame, site, 0, every_axis=False) if info.sliding else site.extents
    grouped = _side_by_side(info, frame, site, 0, every_axis=True) if info.sliding else site.extents
    crossing = site.extents if info.is_output else beside
    still = Site(site.segment, site.extents)
    scale = [_windows(problem, info, frame, still, 0, extents) for extents in (site.extents, crossing, grouped)]
    firsts = info.elements * first_with_work(problem, info, frame, site)
    unit = 1.0 if info.is_output else info.element_bytes
    return Raised(is_possible, keys, [amount * unit for amount in (*scale, firsts)])


def _sites(problem: Problem, frame: Frame, chains: Sequence[Tilings]) -> dict[tuple[int, int], Site]:
    found: dict[tuple[int, int], Site] = {}
    for segment, tiling in enumerate(chains, start=1):
        bottom = frame.bottoms[segment]
        around = list(frame.tops[segment])
        for point, slides, at in zip(tiling.chain.points, tiling.chain.slides, tiling.at, strict=True):
            extents = [b * m for b, m in zip(bottom, as_floats(at), strict=True)]
            sweeps = tuple((dim, around[dim]) for dim in slides)
            found[point.tensor, point.level] = Site(segment, extents, sweeps)
            around = extents
    return found


def _instances(problem: Problem, frame: Frame) -> list[FloatArray | float]:
    """Instances of every level that have work."""
    found: list[FloatArray | float] = []
    for segment in problem.segment_of:
        total: FloatArray | float = 1.0
        for dim, size in enumerate(problem.sizes):
            if size == 1:
                continue
            pieces: FloatArray | float = 1.0
            blocks: list[Block] = []
            for fanout in range(segment - 1, -1, -1):
                every = frame.spreads[fanout].every[dim]
                pieces = pieces * every
                blocks.append((every, False))
                if fanout:
                    blocks.append((frame.tops[fanout][dim] / frame.bottoms[fanout][dim], True))
            # Where nothing but the fan-outs splits the dim, the last of its pieces may be missing.
            if segment and np.any(frame.bottoms[0][dim] > size):
                used = visits(size, frame.tops[segment][dim], blocks)
                pieces = np.where(frame.bottoms[0][dim] > size, used, pieces)
            total = total * pieces
        found.append(total)
    return found


def _steps(problem: Problem, frame: Frame) -> FloatArray | float:
    total: FloatArray | float = 1.0
    for dim, size in enumerate(problem.sizes):
        if size == 1:
            continue
        blocks: list[Block] = []
        inner: FloatArray | float = 1.0
        for segment in range(problem.num_fanouts, 0, -1):
            blocks += [(frame.tops[segment][dim] / inner, False), (frame.spreads[segment - 1].every[dim], True)]
            inner = frame.tops[segment][dim] * frame.spreads[segment - 1].every[dim]
        total = total * visits(size, 1.0, blocks)
    return total
