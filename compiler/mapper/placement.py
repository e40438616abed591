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
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ...models import compiled
from .problem import FloatArray, Problem, TensorInfo, quotients
from .terms import combined, dim_groups, held_factor
from .walk import Bools, Floats, Ints

ExtentArray = npt.NDArray[np.int32]


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
    top: tuple[ExtentArray, ...]
    at: tuple[tuple[ExtentArray, ...], ...]
    num: int
    is_complete: bool


def as_floats(extents: Sequence[ExtentArray]) -> list[FloatArray]:
    """Extents to compute with."""
    return [extent.astype(np.float64) for extent in extents]


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
            ()
            if point.level == problem.latch or point.is_raised
            else slide_choices(problem, problem.tensors[point.tensor])
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


def tilings(problem: Problem, chain: Chain, capacities: Sequence[float], limit: int) -> Tilings:
    """Every tiling of a chain of an inner segment that matters.

    Args:
        problem: The problem.
        chain: The chain.
        capacities: Per level the bytes that its tiles may take; tilings beyond are dropped.
        limit: Most candidates to list.
    """
    groups = dim_groups(problem)
    num_sites = len(chain.points)
    tables: list[list[FloatArray]] = []  # per group and dim, [1 + holders, options]
    starts = [0]
    held: list[FloatArray] = []
    for group, dims in enumerate(groups):
        options = [dim_options(problem, dim, shared_sites(problem, chain, dim), 1, is_outermost=False) for dim in dims]
        tables.append(combined(options))
        num = tables[-1][0].shape[1]
        factors = np.empty((num, num_sites))
        for site, point in enumerate(chain.points):
            info = problem.tensors[point.tensor]
            at = {dim: table[1 + site] for dim, table in zip(dims, tables[-1], strict=True)}
            factors[:, site] = held_factor(problem, info, dims, at)
            # What arrives at a holder, and with it the width of an output there, is not known yet.
            factors[:, site] *= problem.least_width(info, point.level) if group == 0 else 1.0
        held.append(factors)
        starts.append(starts[-1] + num)
    infos = [problem.tensors[point.tensor] for point in chain.points]
    rows, is_complete = fitting(
        np.concatenate(held),
        np.array(starts, dtype=np.int64),
        np.array([point.level for point in chain.points], dtype=np.int64),
        np.array([info.is_rounded for info in infos], dtype=np.bool_),
        np.array(capacities, dtype=np.float64),
        limit,
    )
    # Thousands of tilings of dozens of ops stay in memory: 32 bits are enough, and dims of one step take none.
    extents = [np.broadcast_to(np.int32(1), (1 + num_sites, len(rows)))] * len(problem.sizes)
    for group, dims in enumerate(groups):
        for dim, table in zip(dims, tables[group], strict=True):
            if problem.sizes[dim] > 1:
                extents[dim] = table.astype(np.int32)[:, rows[:, group] - starts[group]]
    return Tilings(
        chain,
        tuple(table[0] for table in extents),
        tuple(tuple(table[1 + site] for table in extents) for site in range(num_sites)),
        len(rows),
        is_complete,
    )


@compiled
def fitting(
    held: Floats, starts: Ints, level: Ints, is_rounded: Bools, capacity: Floats, limit: int
) -> tuple[Ints, bool]:
    """All choices of one option per group of dims whose tiles fit.

    Args:
        held: [options, holders] factors of the tiles' bytes, the options of one group after those of another.
        starts: [groups + 1] where the options of each group begin.
        level: [holders] the level of each.
        is_rounded: [holders] whether its tile takes whole bytes only.
        capacity: [levels] bytes for tiles.
        limit: Most choices to list; where there are more, every second, fourth, ... of them is.

    Returns:
        The options chosen, [choices, groups], and whether these are all choices.
    """
    num_groups, width = starts.shape[0] - 1, held.shape[1]
    lowest = np.full((num_groups, width), np.inf)
    for j in range(num_groups):
        for row in range(starts[j], starts[j + 1]):
            for m in range(width):
                lowest[j, m] = min(lowest[j, m], held[row, m])
    used = np.zeros(capacity.shape[0])
    # Options that do not fit even with the least of all other groups, most of them, go first.
    good = np.zeros(held.shape[0], dtype=np.int64)
    first = np.zeros(num_groups + 1, dtype=np.int64)
    num = 0
    for j in range(num_groups):
        first[j] = num
        for row in range(starts[j], starts[j + 1]):
            used[:] = 0.0
            is_good = True
            for m in range(width):
                amount = held[row, m]
                for other in range(num_groups):
                    amount *= 1.0 if other == j else lowest[other, m]
                used[level[m]] += np.ceil(amount) if is_rounded[m] else amount
                is_good = is_good and used[level[m]] <= capacity[level[m]]
            if is_good:
                good[num] = row
                num += 1
    first[num_groups] = num
    least = np.ones((num_groups + 1, width))
    for j in range(num_groups - 1, -1, -1):
        for m in range(width):
            least[j, m] = least[j + 1, m] * lowest[j, m]
    product = np.ones((num_groups + 1, width))
    at = first[:-1].copy()
    found = np.zeros((64, num_groups), dtype=np.int64)
    num, num_met, stride, depth = 0, 0, 1, 0
    at[0] = first[0] - 1
    while depth >= 0:
        at[depth] += 1
        if at[depth] >= first[depth + 1]:
            depth -= 1
            continue
        row = good[at[depth]]
        used[:] = 0.0
        is_good = True
        for m in range(width):
            product[depth + 1, m] = product[depth, m] * held[row, m]
            amount = product[depth + 1, m] * least[depth + 1, m]
            used[level[m]] += np.ceil(amount) if is_rounded[m] else amount
            is_good = is_good and used[level[m]] <= capacity[level[m]]
        if not is_good:
            continue
        if depth + 1 < num_groups:
            depth += 1
            at[depth] = first[depth] - 1
            continue
        num_met += 1
        if (num_met - 1) % stride:
            continue
        if num == limit:
            num = (num + 1) // 2
            found[:num] = found[: 2 * num : 2].copy() if 2 * num <= found.shape[0] else found[::2].copy()
            stride *= 2
            if (num_met - 1) % stride:
                continue
        if num == found.shape[0]:
            grown = np.zeros((2 * num, num_groups), dtype=np.int64)
            grown[:num] = found
            found = grown
        for j in range(num_groups):
            found[num, j] = good[at[j]]
        num += 1
    return found[:num], stride == 1


def dim_options(
    problem: Problem, dim: int, sites: tuple[SharedSites, ...], below: int, *, is_outermost: bool
) -> FloatArray:
    """Extents of one dim at the top and at every holder of a chain, [1 + holders, options].

    Args:
        problem: The problem.
        dim: The dim.
        sites: Which of the chain's sites share its extent: see `shared_sites`.
        below: The extent below the segment.
        is_outermost: Whether the segment reaches up to the whole op.
    """
    size = problem.sizes[dim]
    num_sites = sum(shared.num for shared in sites)
    if (size <= below and not problem.fixed_tiles) or num_sites == 1:
        whole = below * -(-size // below) if is_outermost else below
        return np.full((num_sites, 1), float(max(whole, below)))
    return _extents(size, below, sites, is_outermost)


@dataclass(frozen=True, slots=True)
class SharedSites:
    """Neighbouring sites (the top of a segment, or a holder) that share the extent of a dim.

    Attributes:
        num: How many.
        wants_small: Whether some holder among them gains by a smaller extent.
        wants_big: Whether some gains by a larger one.
        is_latched: Whether one is an operand latch of a tensor that the dim indexes.
        is_raised: Whether one stands for a holder below the fan-outs whose tensor the dim indexes.
        fixed: The extent that the user fixed.
    """

    num: int
    wants_small: bool
    wants_big: bool
    is_latched: bool
    is_raised: bool
    fixed: int | None


def shared_sites(problem: Problem, chain: Chain, dim: int) -> tuple[SharedSites, ...]:
    """The sites of a chain that share a dim's extent, outermost first; the top of the segment is the first site."""
    return tuple(
        SharedSites(
            num=len(sites),
            wants_small=wants_small,
            wants_big=wants_big,
            is_latched=any(_is_latched(problem, chain, site, dim) for site in sites),
            is_raised=any(_is_raised(problem, chain, site, dim) for site in sites),
            fixed=_fixed_extent(problem, chain, sites[-1], dim),
        )
        for sites, (wants_small, wants_big) in _groups(problem, chain, dim)
    )


@lru_cache(maxsize=65536)
def _extents(size: int, below: int, groups: tuple[SharedSites, ...], is_outermost: bool) -> FloatArray:
    """All extents of a dim at every site, [sites, options]; not to be written to."""
    options: list[list[int]] = [[]]  # extents per group, outermost first; built from the innermost
    for position in range(len(groups) - 1, -1, -1):
        group = groups[position]
        is_first, is_last = position == 0, position == len(groups) - 1
        grown: list[list[int]] = []
        for inner in options:
            base = inner[0] if inner else below
            num_tiles = -(-size // base)
            if is_first and is_outermost and not group.wants_small:
                factors: tuple[int, ...] = (num_tiles,)
            elif group.is_latched:
                factors = (1,) if base == 1 else ()
            elif group.is_raised:
                factors = (1,) if base == below else ()
            elif is_last and not group.wants_big:
                factors = (1,)
            else:
                factors = quotients(num_tiles)
            if group.fixed is not None:
                factor = -(-group.fixed // base)
                factors = (factor,) if min(base * factor, size) == group.fixed else ()
            grown += [[base * factor, *inner] for factor in factors]
        options = grown
    rows = [position for position, group in enumerate(groups) for _ in range(group.num)]
    return np.array(options, dtype=np.float64).reshape(len(options), len(groups)).T[rows]


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
