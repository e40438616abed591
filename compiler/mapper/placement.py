"""Where each tensor is held between the loops, and every tiling that matters for it.

Loop orders need not be listed. Between two holders only the tile sizes at the holders matter, if every
holder stands directly below a loop that indexes its tensor (moving it out past other loops changes neither
its tile nor its traffic). So within one segment (the memories between two fan-outs) a mapping is an order
of the holders and one extent per holder and dim. Per dim many holders share their extent: a holder wants
the extent *small* where the dim indexes its tensor (less room), *big* where it does not (fewer refills).
An extent may differ from the next inner holder's only where the outer one wants it big and the inner one
small; everywhere else making both equal is at least as good.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .problem import FloatArray, Problem, TensorInfo, quotients
from .traffic import footprint


@dataclass(frozen=True, slots=True)
class Point:
    """One holder: a tensor kept at a level.

    Attributes:
        tensor: The tensor.
        level: The level.
        is_raised: It stands in the outermost segment for a holder below the fan-outs: from here inward no
            temporal loop outside them goes over a dim that indexes the tensor, so that the tile stays while others change.
        outlives: It is that holder. A larger tile leaves fewer of these loops.
    """

    tensor: int
    level: int
    is_raised: bool = False
    outlives: bool = False


@dataclass(frozen=True, slots=True)
class Chain:
    """Holders of one segment in order, outermost first.

    Attributes:
        points: The holders.
        slides: Per holder the dims over which its windows may slide: the loop directly above it goes over the
            one of them that saves most. Empty where there are no windows.
    """

    points: tuple[Point, ...]
    slides: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Tilings:
    """Extents of one chain over an array of candidates, in multiples of the extents below the segment.

    Attributes:
        chain: The chain.
        top: Per dim the extent around the whole segment.
        at: Per holder and dim the extent of its tile.
        num: Number of candidates.
        is_complete: False when candidates were dropped to respect a limit.
    """

    chain: Chain
    top: tuple[FloatArray, ...]
    at: tuple[tuple[FloatArray, ...], ...]
    num: int
    is_complete: bool


def chains(problem: Problem, points: Sequence[Point], *, is_outermost: bool) -> Iterator[Chain]:
    """All orders of the holders in which each tensor's levels stay in hierarchy order.

    In the outermost segment one chain covers all slides. In inner segments each slide has a chain of its own:
    there the extent around the segment depends on it.
    """
    for order in itertools.permutations(points):
        levels: dict[int, int] = {}
        is_ordered = True
        for point in order:
            is_ordered = is_ordered and levels.get(point.tensor, -1) < point.level
            levels[point.tensor] = point.level
        latched = [point.tensor for point in order if point.level == problem.latch and not point.is_raised]
        # Inside the first operand latch every dim of its tensor is 1, so that the others' order changes nothing.
        if not is_ordered or latched[1:] != sorted(latched[1:]):
            continue
        slides = [
            () if point.level == problem.latch or point.is_raised else slide_choices(problem, problem.tensors[point.tensor])
            for point in order
        ]
        if is_outermost:
            yield Chain(tuple(order), tuple(slides))
            continue
        # Sliding along some loop is never worse than along none: where there is no such loop it changes nothing.
        for some in itertools.product(*([(dim,) for dim in dims] or [()] for dims in slides)):
            yield Chain(tuple(order), tuple(some))


def slide_choices(problem: Problem, info: TensorInfo) -> tuple[int, ...]:
    """Dims along which windows of a tensor can slide to any avail."""
    return tuple(
        dim
        for pair in info.sliding
        if not info.is_output and all(problem.sizes[d] > 1 for d, _ in pair)
        for dim, _ in pair
    )


def tilings(
    problem: Problem,
    chain: Chain,
    below: Sequence[int],
    capacities: Sequence[float],
    *,
    is_outermost: bool,
    limit: int,
) -> Tilings:
    """Every tiling of a chain that matters.

    Args:
        problem: The problem.
        chain: The chain.
        below: Per dim the extent below the segment.
        capacities: Per level the bytes that its tiles may take; tilings beyond are dropped.
        is_outermost: Whether the segment reaches up to the whole op.
        limit: Most candidates to list.
    """
    num_sites = len(chain.points)
    num = 1
    columns: list[list[FloatArray]] = []  # per dim: [top, at 0, at 1, ...]
    is_complete = True
    floor = [min(b, size) for b, size in zip(below, problem.sizes, strict=True)]
    for dim, size in enumerate(problem.sizes):
        options = dim_options(problem, chain, dim, below[dim], is_outermost=is_outermost)
        columns = [[np.repeat(site, options.shape[1]) for site in sites] for sites in columns]
        columns.append([np.tile(options[site], num) for site in range(num_sites + 1)])
        num *= options.shape[1]
        if size == 1 or options.shape[1] == 1:
            continue
        fits = _fits(problem, chain, columns, floor, capacities)
        if not fits.all():
            columns = [[site[fits] for site in sites] for sites in columns]
            num = int(fits.sum())
        if num > limit:
            # Evenly thinned: the search then has no proof, and says so.
            rows = np.linspace(0, num - 1, limit).astype(int)
            columns = [[site[rows] for site in sites] for sites in columns]
            num, is_complete = limit, False
    return Tilings(
        chain,
        tuple(sites[0] for sites in columns),
        tuple(tuple(sites[1 + i] for sites in columns) for i in range(num_sites)),
        num,
        is_complete,
    )


def _fits(
    problem: Problem,
    chain: Chain,
    columns: list[list[FloatArray]],
    floor: Sequence[int],
    capacities: Sequence[float],
) -> np.ndarray:
    """Whether the tiles can fit when the dims not yet chosen stay at their least extent."""
    used: dict[int, FloatArray | float] = {}
    for site, point in enumerate(chain.points):
        extents: list[FloatArray | float] = [
            np.minimum(columns[d][site + 1], size) if d < len(columns) else float(floor[d])
            for d, size in enumerate(problem.sizes)
        ]
        used[point.level] = used.get(point.level, 0.0) + footprint(problem.tensors[point.tensor], extents)
    fits = np.ones(len(columns[-1][0]), dtype=bool)
    for level, amount in used.items():
        fits &= amount <= capacities[level]
    return fits


def dim_options(problem: Problem, chain: Chain, dim: int, below: int, *, is_outermost: bool) -> FloatArray:
    """Extents of one dim at the top and at every holder, [1 + holders, options]."""
    size = problem.sizes[dim]
    num_sites = len(chain.points)
    if (size <= below and not problem.fixed_tiles) or num_sites == 0:
        whole = below * -(-size // below) if is_outermost else below
        return np.full((num_sites + 1, 1), float(max(whole, below)))
    groups = _groups(problem, chain, dim)
    options: list[list[int]] = [[]]  # extents per group, outermost first; built from the innermost
    for position in range(len(groups) - 1, -1, -1):
        sites, (wants_small, wants_big) = groups[position]
        is_first, is_last = position == 0, position == len(groups) - 1
        grown: list[list[int]] = []
        for inner in options:
            base = inner[0] if inner else below
            num_tiles = -(-size // base)
            if is_first and is_outermost and not wants_small:
                factors: tuple[int, ...] = (num_tiles,)
            elif any(_is_latched(problem, chain, site, dim) for site in sites):
                factors = (1,) if base == 1 else ()
            elif any(_is_raised(problem, chain, site, dim) for site in sites):
                factors = (1,) if base == below else ()
            elif is_last and not wants_big:
                factors = (1,)
            else:
                factors = quotients(num_tiles)
            fixed = _fixed_extent(problem, chain, sites[-1], dim)
            if fixed is not None:
                factor = -(-fixed // base)
                factors = (factor,) if min(base * factor, size) == fixed else ()
            grown += [[base * factor, *inner] for factor in factors]
        options = grown
    table = np.ones((num_sites + 1, len(options)))
    for column, extents in enumerate(options):
        for (sites, _), extent in zip(groups, extents, strict=True):
            for site in sites:
                table[site, column] = extent
    return table


def _is_latched(problem: Problem, chain: Chain, site: int, dim: int) -> bool:
    """Whether a site is an operand latch of a tensor that the dim indexes: it holds one element."""
    if site == 0 or problem.latch is None:
        return False
    point = chain.points[site - 1]
    is_latch = point.level == problem.latch and not point.is_raised
    return is_latch and dim in problem.tensors[point.tensor].related


def _is_raised(problem: Problem, chain: Chain, site: int, dim: int) -> bool:
    """Whether a site stands for a holder below the fan-outs whose tensor the dim indexes."""
    if site == 0:
        return False
    point = chain.points[site - 1]
    return point.is_raised and dim in problem.tensors[point.tensor].related


def _fixed_extent(problem: Problem, chain: Chain, site: int, dim: int) -> int | None:
    """The extent that the user fixed for the tile at a site, where the dim indexes its tensor."""
    if site == 0:
        return None
    point = chain.points[site - 1]
    is_related = dim in problem.tensors[point.tensor].related and not point.is_raised
    return problem.fixed_tiles.get((point.level, dim)) if is_related else None


def _groups(problem: Problem, chain: Chain, dim: int) -> list[tuple[list[int], tuple[bool, bool]]]:
    """Sites (0 is the top, 1 + i holder i) that share the dim's extent, outermost first.

    Each with whether its holders want the extent small and big.
    """
    small = [False] * (len(chain.points) + 1)
    big = [False] * (len(chain.points) + 1)
    for site, (point, slides) in enumerate(zip(chain.points, chain.slides, strict=True), start=1):
        info = problem.tensors[point.tensor]
        if dim not in info.related:
            big[site] = True
            continue
        small[site] = True
        big[site] = point.outlives
        if any(dim in {d for d, _ in pair} for pair in info.sliding) and not point.is_raised:
            # A wider tile moves less of the windows' overlap again.
            big[site] = True
            if dim in slides:
                big[site - 1] = True
    groups: list[tuple[list[int], list[bool]]] = []
    for site in range(len(chain.points) + 1):
        previous = groups[-1] if groups else None
        fixed = None if previous is None else _fixed_extent(problem, chain, previous[0][-1], dim)
        is_parted = fixed != _fixed_extent(problem, chain, site, dim)
        if previous is not None and not is_parted and not (previous[1][1] and small[site]):
            previous[0].append(site)
            previous[1][0] = previous[1][0] or small[site]
            previous[1][1] = previous[1][1] or big[site]
        else:
            groups.append(([site], [small[site], big[site]]))
    return [(sites, (wants[0], wants[1])) for sites, wants in groups]
