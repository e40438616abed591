"""Inner tilings sorted into classes that a coarse bound cannot tell apart.

The bound forgets that tile counts are whole numbers and looks only at products of extents over each class
of dims (dims that index the same tensors). Thousands of tilings and of spatial factors then fall into a few
classes, and most pairs of classes are ruled out before any member is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .inner import Pattern
from .objective import Objective, Scorer, Traffic
from .placement import ExtentArray, Tilings, as_floats, slide_choices
from .problem import FloatArray, IntArray, Problem, distinct
from .traffic import axis_elements

if TYPE_CHECKING:
    from .tables import Tables


_PACK = 2.0**26
"""Two extents below it fit one float."""


@dataclass(frozen=True, slots=True)
class Floor:
    """What a part of a mapping costs at least: energy [pJ], cycles, and main-memory bytes."""

    energy_pj: float
    latency_cycles: float
    main_memory_bytes: float

    def score(self, scorer: Scorer, traffic: Traffic) -> FloatArray | float:
        """A bound on the score of any mapping that moves `traffic` besides."""
        return self.with_inner(scorer.objective, *scorer.parts(traffic))

    def with_inner(
        self,
        objective: Objective,
        energy: FloatArray | float,
        latency: FloatArray | float,
        main_bytes: FloatArray | float,
    ) -> FloatArray | float:
        """A bound on the score of any mapping that costs this much besides."""
        return objective.score(
            energy + self.energy_pj, np.maximum(latency, self.latency_cycles), main_bytes + self.main_memory_bytes
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerChain:
    """One tensor's way from the memories outside the fan-outs to the compute unit.

    Attributes:
        tensor: The tensor.
        parent: Its innermost holder outside the fan-outs.
        levels: Its holders below them, outermost first.
        is_raised: Whether the refills of the first of them are left to the outermost segment.
    """

    tensor: int
    parent: int
    levels: tuple[int, ...]
    is_raised: bool


@dataclass(frozen=True, slots=True)
class Menu:
    """All inner tilings of one placement.

    Attributes:
        options: Tilings of segments 1, 2, ... for each combination of chains, as arrays of equal length.
        starts: Per option the index of its first tiling in the whole menu.
        num: Tilings in the whole menu.
        by_class: All tilings, those of one class together.
        class_starts: Per class where it begins in `by_class`.
        class_sizes: Per class how many members it has.
        tops: Per segment and class of dims the product of extents around the segment, [classes].
        at: Per (tensor, level) and class of dims the product of the tile's extents, [classes].
        windows: Per (tensor, level) of the innermost segment whose tensor has windows, for each sliding axis its
            tiles' elements over all pieces and the extents of its two dims, [classes] each.
        largest: Classes that no other class matches or betters in all products: they bound all others.
        is_complete: False when tilings were dropped to respect a limit.
    """

    options: tuple[tuple[Tilings, ...], ...]
    starts: tuple[int, ...]
    num: int
    by_class: IntArray
    class_starts: IntArray
    class_sizes: IntArray
    tops: tuple[FloatArray, ...]
    at: dict[tuple[int, int], FloatArray]
    windows: dict[tuple[int, int], tuple[tuple[FloatArray, FloatArray, FloatArray], ...]]
    largest: IntArray
    is_complete: bool

    def members(self, classes: IntArray) -> IntArray:
        """Tilings of some classes, one class after the other."""
        sizes = self.class_sizes[classes]
        firsts = np.repeat(self.class_starts[classes] - (np.cumsum(sizes) - sizes), sizes)
        return self.by_class[firsts + np.arange(len(firsts))]


def make_menu(problem: Problem, options: Sequence[tuple[Tilings, ...]], raised: tuple[int, int] | None) -> Menu:
    """Sorts tilings into classes.

    Args:
        problem: The problem.
        options: Tilings of the inner segments for each combination of chains.
        raised: The raised (tensor, level); only tilings that can have it are taken, and the extents around the
            outermost inner segment matter to the bound.
    """
    if raised is not None:
        options = [some for option in options if num_of(some := _raisable(problem, option, raised))]
    groups = problem.dim_classes
    starts: list[int] = []
    signatures: list[FloatArray] = []
    num = 0
    points = sorted({(p.tensor, p.level) for option in options for t in option for p in t.chain.points})
    windowed = [
        (t, lv)
        for t, lv in points
        if problem.segment_of[lv] == problem.num_fanouts
        and lv != problem.latch
        and slide_choices(problem, problem.tensors[t])
    ]
    for option in options:
        starts.append(num)
        num += num_of(option)
        sites = {(p.tensor, p.level): site for t in option for p, site in zip(t.chain.points, t.at, strict=True)}
        extents = [*(t.top for t in option), *(sites[point] for point in points)]
        products = [_product([e[d] for d in dims], num_of(option)) for e in extents for dims in groups]
        products += [row for point in windowed for row in _windows(problem, option, point)]
        signatures.append(np.stack(products) if products else np.zeros((0, num_of(option))))
    if not options:
        none = np.zeros(0, dtype=np.intp)
        return Menu((), (), 0, none, none, none, (), {}, {}, none, is_complete=True)
    table = np.concatenate(signatures, axis=1)
    first, inverse = distinct(table)
    unique = table[:, first]
    order = np.argsort(inverse, kind="stable")
    sizes = np.bincount(inverse, minlength=unique.shape[1])
    width = len(groups)
    num_segments = len(options[0])
    blocks = [unique[i * width : (i + 1) * width] for i in range(num_segments + len(points))]
    num_windows = 3 * sum(len(problem.tensors[t].sliding) for t, _ in windowed)
    tail = unique[len(unique) - num_windows :]
    # Else the extents around the outermost inner segment do not enter the bound; fewer window elements are better.
    sign = np.resize([-1.0, 1.0, 1.0], (num_windows, 1))
    entered = width if num_segments and raised is None else 0
    entering = np.concatenate([unique[entered : len(unique) - num_windows], tail * sign])
    return Menu(
        options=tuple(options),
        starts=tuple(starts),
        num=num,
        by_class=order,
        class_starts=np.cumsum(sizes) - sizes,
        class_sizes=sizes,
        tops=tuple(blocks[:num_segments]),
        at=dict(zip(points, blocks[num_segments:], strict=True)),
        windows=_axes_of_windows(problem, windowed, tail),
        largest=_largest(entering),
        is_complete=all(t.is_complete for option in options for t in option),
    )


def _raisable(problem: Problem, option: tuple[Tilings, ...], raised: tuple[int, int]) -> tuple[Tilings, ...]:
    """Those tilings in which no loop outside a holder, in the inner segments, goes over a dim that indexes its tensor."""
    tensor, level = raised
    segment = problem.segment_of[level]
    good = np.ones(num_of(option), dtype=bool)
    for dim in problem.tensors[tensor].related:
        for tiling in option[: segment - 1]:
            good &= tiling.top[dim] == 1
        tiling = option[segment - 1]
        at = next(
            at
            for point, at in zip(tiling.chain.points, tiling.at, strict=True)
            if (point.tensor, point.level) == raised
        )
        good &= tiling.top[dim] == at[dim]
    rows = np.flatnonzero(good)
    return tuple(rows_of(tiling, rows) for tiling in option)


def _windows(problem: Problem, option: tuple[Tilings, ...], point: tuple[int, int]) -> list[FloatArray]:
    """Per sliding axis its elements over all pieces and the extents of its dims, under every tiling of an option."""
    tiling = option[-1]
    around = as_floats(tiling.top)
    rows: list[FloatArray | float] = []
    for here, slides, at in zip(tiling.chain.points, tiling.chain.slides, tiling.at, strict=True):
        extents = as_floats(at)
        if (here.tensor, here.level) == point:
            for pair in problem.tensors[here.tensor].sliding:
                dims = [dim for dim, _ in pair]
                slide = next(((dim, around[dim]) for dim in slides if dim in dims), None)
                rows += [axis_elements(problem, pair, extents, slide), *(extents[dim] for dim in dims)]
        around = extents
    return [np.broadcast_to(np.asarray(row, dtype=np.float64), (tiling.num,)) for row in rows]


def _axes_of_windows(
    problem: Problem, windowed: Sequence[tuple[int, int]], rows: FloatArray
) -> dict[tuple[int, int], tuple[tuple[FloatArray, FloatArray, FloatArray], ...]]:
    found: dict[tuple[int, int], tuple[tuple[FloatArray, FloatArray, FloatArray], ...]] = {}
    low = 0
    for point in windowed:
        num_axes = len(problem.tensors[point[0]].sliding)
        found[point] = tuple((rows[low + 3 * k], rows[low + 3 * k + 1], rows[low + 3 * k + 2]) for k in range(num_axes))
        low += 3 * num_axes
    return found


def _largest(products: FloatArray) -> IntArray:
    """Columns that no other column matches or exceeds in every row; the first of equals."""
    if not len(products):
        return np.zeros(1, dtype=np.intp)
    # Whatever exceeds a column in every row has a larger sum, and so comes before it.
    left = np.argsort(-products.sum(axis=0), kind="stable")
    kept: list[int] = []
    while len(left):
        best, left = left[0], left[1:]
        kept.append(int(best))
        left = left[(products[:, left] > products[:, best : best + 1]).any(axis=0)]
    return np.array(sorted(kept), dtype=np.intp)


def _product(columns: Sequence[ExtentArray], num: int) -> FloatArray:
    total = np.ones(num)
    for column in columns:
        total = total * column
    return total


def relaxed_traffic(tables: Tables, pattern: Pattern, menu: Menu, rows: IntArray, classes: IntArray) -> Traffic:
    """Least traffic below the outermost segment of (spread, class of tilings), arrays broadcastable to [rows, classes].

    Args:
        tables: The problem's tables.
        pattern: Which levels keep which tensors.
        menu: The inner tilings.
        rows: Spreads of interest.
        classes: Classes of interest.
    """
    total = neutral_traffic(tables, rows)
    for chain in tables.inner_chains(pattern):
        if chain.levels:
            total = total.plus(kept_traffic(tables, menu, rows, classes, chain))
        else:
            total = total.plus(column_of(tables.direct(chain.tensor, chain.parent), rows))
    return total


def outer_steps(tables: Tables, menu: Menu, rows: IntArray, classes: IntArray) -> list[FloatArray]:
    """Per class of dims its least steps outside the fan-outs, [rows, classes]."""
    relaxed = _Relaxed(tables, menu, rows, classes)
    return [relaxed.outer_steps(group) for group in range(len(relaxed.groups))]


def neutral_traffic(tables: Tables, rows: IntArray) -> Traffic:
    """No traffic, with the steps and instances of some spreads as columns."""
    num_levels = len(tables.problem.hierarchy.levels)
    instances: list[FloatArray | float] = [x[rows, None] if isinstance(x, np.ndarray) else x for x in tables.instances]
    return Traffic([0.0] * num_levels, [0.0] * num_levels, instances, tables.steps[rows, None])


def kept_traffic(
    tables: Tables, menu: Menu, rows: IntArray, classes: IntArray, chain: InnerChain, last: Traffic | None = None
) -> Traffic:
    """Least traffic of one tensor from its innermost holder outside the fan-outs down to the compute unit.

    Args:
        tables: The problem's tables.
        menu: The inner tilings.
        rows: Spreads of interest.
        classes: Classes of interest.
        chain: The tensor's holders; at least one below the fan-outs.
        last: Its traffic at the compute unit, as columns; that of each spread unless given.

    Returns:
        Arrays broadcastable to [rows, classes].
    """
    if last is None:
        last = column_of(tables.direct(chain.tensor, chain.levels[-1]), rows)
    return _Relaxed(tables, menu, rows, classes).kept(chain, last)


def column_of(traffic: Traffic, rows: IntArray) -> Traffic:
    """Traffic of some spreads as columns."""

    def pick(values: Sequence[FloatArray | float]) -> list[FloatArray | float]:
        return [v[rows, None] if isinstance(v, np.ndarray) else v for v in values]

    return Traffic(pick(traffic.read), pick(traffic.write), traffic.instances, traffic.steps)


class _Relaxed:
    """Least traffic of tensors kept below a fan-out, over (spread, class of tilings)."""

    def __init__(self, tables: Tables, menu: Menu, rows: IntArray, classes: IntArray) -> None:
        self.tables = tables
        self.problem = tables.problem
        self.menu = menu
        self.rows = rows
        self.classes = classes
        self.groups = self.problem.dim_classes
        self.sizes = [float(math.prod(self.problem.sizes[d] for d in dims)) for dims in self.groups]

    def spread(self, fanout: int, group: int, kind: str) -> FloatArray:
        """Product of spatial factors over a class of dims, [rows, 1]."""
        factors = getattr(self.tables.spread.spreads[fanout], kind)
        total = np.ones((len(self.rows), 1))
        for dim in self.groups[group]:
            total = total * factors[dim][self.rows, None]
        return total

    def kept(self, chain: InnerChain, last: Traffic) -> Traffic:
        """Traffic of one tensor from its innermost holder outside the fan-outs down to the compute unit."""
        problem = self.problem
        tensor, parent, inner = chain.tensor, chain.parent, chain.levels
        info = problem.tensors[tensor]
        num_levels = len(problem.hierarchy.levels)
        read: list[FloatArray | float] = [0.0] * num_levels
        write: list[FloatArray | float] = [0.0] * num_levels
        whole = info.elements
        drain_free = 0.0 if problem.convention.final_drain_is_read else whole
        drained: FloatArray | float = 0.0
        for at, level in enumerate(inner):
            if chain.is_raised and at == 0:
                # Once at the very least.
                least = whole * info.element_bytes
                if info.is_output:
                    write[parent] = write[parent] + least
                else:
                    read[parent] = read[parent] + least
                    write[level] = write[level] + least
                parent = level
                continue
            amount = self.moved(tensor, level, parent, shared=None) * whole
            crossing = self.moved(tensor, level, parent, shared=info.is_output) * whole
            if (tensor, level) in self.menu.windows:
                held, shared = self.windows(tensor, level, parent)
                amount = amount * (held / whole)
                crossing = crossing * (shared / whole)
            if info.is_output:
                width = problem.width(info, parent, crossing)
                write[parent] = write[parent] + (crossing * width - problem.narrowed(info, parent, width))
                read[parent] = read[parent] + drained * width
                if problem.segment_of[parent] == 0:
                    # Outside the fan-outs every element starts from nothing just once.
                    read[parent] = read[parent] + (crossing - whole) * width
                drained = np.maximum(amount - drain_free, 0.0)
            else:
                read[parent] = read[parent] + crossing * info.element_bytes
                write[level] = write[level] + amount * info.element_bytes
            parent = level
        if info.is_output:
            write[parent] = write[parent] + last.write[parent]
            # More than one arrival of some element: sums there are not finished.
            arrivals = last.write[parent] / problem.least_width(info, parent)
            width = problem.width(info, parent, arrivals)
            # Accumulations into what starts from nothing read nothing, but drain once each in exchange.
            least = np.maximum(last.write[parent] - drain_free * width, 0.0)
            read[parent] = np.maximum(read[parent] + drained * width, least)
        else:
            read[parent] = read[parent] + last.read[parent]
        return Traffic(read, write, [1.0] * num_levels, 0.0)

    def outer_steps(self, group: int) -> FloatArray:
        """Least steps of a class of dims outside the fan-outs."""
        extent: FloatArray = np.ones((1, 1))
        for inside in range(self.problem.num_fanouts, 0, -1):
            extent = (
                extent * self.menu.tops[inside - 1][group][None, self.classes] * self.spread(inside - 1, group, "every")
            )
        return np.maximum(self.sizes[group] / extent, 1.0)

    def windows(self, tensor: int, level: int, parent: int) -> tuple[FloatArray, FloatArray]:
        """Elements of all tiles as held, and as read when neighbours share what overlaps, at least."""
        problem = self.problem
        info = problem.tensors[tensor]
        held: FloatArray = np.full((1, 1), info.plain_elements)
        shared: FloatArray = held
        for pair, row in zip(info.sliding, self.menu.windows[tensor, level], strict=True):
            elements, *extents = (column[self.classes] for column in row)
            spread = np.ones(len(self.rows))
            factors: list[FloatArray] = []
            for dim, _ in pair:
                factor = np.ones(len(self.rows))
                for fanout in range(problem.segment_of[parent], problem.segment_of[level]):
                    spread = spread * self.tables.spread.spreads[fanout].every[dim][self.rows]
                    factor = factor * self.tables.spread.spreads[fanout].multicast[dim][self.rows]
                factors.append(factor)
            # An axis that is spread over instances does not slide.
            beside = self._beside(pair, factors, extents)
            held = held * elements[None]
            shared = shared * np.where(spread[:, None] > 1, beside, elements[None])
        return held, shared

    def _beside(
        self, pair: tuple[tuple[int, int], tuple[int, int]], factors: list[FloatArray], extents: list[FloatArray]
    ) -> FloatArray:
        """Elements along one sliding axis where instances share what overlaps, [rows, classes].

        Few pairs of factors and of extents are different: each combination is worked out once.
        """
        some, of_row = np.unique(factors[0] * _PACK + factors[1], return_inverse=True)
        others, of_class = np.unique(extents[0] * _PACK + extents[1], return_inverse=True)
        around: list[FloatArray | float] = [1.0] * len(self.problem.sizes)
        for (dim, _), factor, extent in zip(pair, np.divmod(some, _PACK), np.divmod(others, _PACK), strict=True):
            around[dim] = factor[:, None] * extent
        return np.asarray(axis_elements(self.problem, pair, around))[of_row.reshape(-1)[:, None], of_class.reshape(-1)]

    def moved(self, tensor: int, level: int, parent: int, *, shared: bool | None) -> FloatArray:
        """Least refills of a tile over the tensor's size; with `shared` instances that share count once."""
        problem, menu = self.problem, self.menu
        related = problem.tensors[tensor].related
        segment, outer = problem.segment_of[level], problem.segment_of[parent]
        total: FloatArray = np.ones((1, 1))
        for group, dims in enumerate(self.groups):
            if dims[0] in related:
                continue
            extent: FloatArray = menu.at[tensor, level][group][None, self.classes]
            for inside in range(problem.num_fanouts, segment, -1):
                extent = (
                    extent * menu.tops[inside - 1][group][None, self.classes] * self.spread(inside - 1, group, "every")
                )
            if shared is not None:
                for between in range(segment, outer, -1):
                    kind = "reduction" if shared else "multicast"
                    extent = extent * self.spread(between - 1, group, kind)
            total = total * np.maximum(self.sizes[group] / extent, 1.0)
        return total


def joined(option: tuple[Tilings, ...], limit: int) -> tuple[Tilings, ...]:
    """All combinations of the segments' tilings, as arrays of one common length."""
    num = 1
    grown: list[Tilings] = []
    for tiling in option:
        grown = [rows_of(t, np.repeat(np.arange(num), tiling.num)) for t in grown]
        grown.append(rows_of(tiling, np.tile(np.arange(tiling.num), num)))
        num *= tiling.num
        if num > limit:
            thin = np.linspace(0, num - 1, limit).astype(int)
            grown = [rows_of(t, thin, is_complete=False) for t in grown]
            num = limit
    return tuple(grown)


def rows_of(tiling: Tilings, rows: IntArray, *, is_complete: bool = True) -> Tilings:
    """Some rows of tilings."""
    top = tuple(x[rows] for x in tiling.top)
    at = tuple(tuple(x[rows] for x in site) for site in tiling.at)
    num = len(top[0]) if top else 1
    return Tilings(tiling.chain, top, at, num, tiling.is_complete and is_complete)


def num_of(option: tuple[Tilings, ...]) -> int:
    """Rows of an option; 1 where there are no inner segments."""
    return option[0].num if option else 1
