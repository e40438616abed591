"""The outermost segment: what the chip-wide memories exchange with each other and with main memory.

Per group of dims (dims of one sliding window belong together) and extents below, the options are listed once as
factors of the chain's terms (`walk`), less those that another option matches or betters in every factor.
A *raised* chain has one more point, for a holder below the fan-outs whose tile outlives changes of the outer tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .compiled import compiled
from .inner import Pattern
from .placement import Chain, Point, chains, dim_options
from .problem import FloatArray, Problem, TensorInfo, distinct
from .terms import combined, dim_groups, held_factor, windows_in
from .traffic import axis_elements, visits, window_elements
from .walk import Bools, ChainForm, Floats, Ints

Extents = dict[int, FloatArray]
"""Extents of some dims at one site, over options."""


@dataclass(slots=True)
class _Options:
    """Options of one group of dims, as rows of one table that grows."""

    rows: list[Floats] = field(default_factory=list[Floats])
    extents: list[Floats] = field(default_factory=list[Floats])
    places: dict[tuple[int, ...], tuple[int, int]] = field(default_factory=dict[tuple[int, ...], tuple[int, int]])
    num: int = 0


class OuterChain:
    """One order of the holders, and its options around every extent below.

    Args:
        problem: The problem.
        chain: The order.
        parents: Per point the level that fills it.
    """

    def __init__(self, problem: Problem, chain: Chain, parents: Sequence[int]) -> None:
        self.problem = problem
        self.chain = chain
        self.groups = dim_groups(problem)
        self._options = [_Options() for _ in self.groups]
        self._pool: Floats | None = None
        first, moved, held = 0, [0], list[int]()
        self._slides: list[tuple[int | None, ...]] = []
        for point, slides in zip(chain.points, chain.slides, strict=True):
            self._slides.append((None,) * 3 if point.is_raised else slides or (None,))
            first += len(self._slides[-1])
            moved.append(first)
        for point in chain.points:
            held.append(-1 if point.is_raised else first)
            first += not point.is_raised
        self.num_terms = first
        infos = [problem.tensors[point.tensor] for point in chain.points]
        self.form = ChainForm(
            parent=np.array(parents, dtype=np.int64),
            child=np.array([point.level for point in chain.points], dtype=np.int64),
            is_output=np.array([info.is_output for info in infos], dtype=np.bool_),
            is_raised=np.array([point.is_raised for point in chain.points], dtype=np.bool_),
            moved=np.array(moved, dtype=np.int64),
            held=np.array(held, dtype=np.int64),
            base=np.array([info.plain_elements * info.element_bytes for info in infos], dtype=np.float64),
            whole=np.array([info.elements * info.element_bytes for info in infos], dtype=np.float64),
            is_rounded=np.array([info.tensor.bits % 8 != 0 for info in infos], dtype=np.bool_),
        )

    def options(self, keys: npt.NDArray[np.int64]) -> tuple[Floats, Ints, Ints]:
        """Options around some inner tilings.

        Args:
            keys: [dims, numbers, inner tilings]: per dim the extent below and, for a raised point, what lies
                between it and its holder (see `raised_key`).

        Returns:
            The table of factors, and per inner tiling and group where its options begin and end in it.
        """
        num = keys.shape[2]
        start = np.zeros((num, len(self.groups)), dtype=np.int64)
        stop = np.zeros_like(start)
        for group, dims in enumerate(self.groups):
            columns = keys[list(dims)].reshape(-1, num)
            first, inverse = distinct(columns)
            places = np.array([self._place(group, tuple(columns[:, at].tolist())) for at in first], dtype=np.int64)
            start[:, group], stop[:, group] = places[inverse].T
        # Rows of later groups follow those of all groups before.
        sizes = np.array([0, *(options.num for options in self._options)], dtype=np.int64)
        offsets = np.cumsum(sizes)[:-1]
        if self._pool is None:
            for options in self._options:
                options.rows = [np.concatenate(options.rows)]
                options.extents = [np.concatenate(options.extents)]
            self._pool = np.concatenate([options.rows[0] for options in self._options])
        return self._pool, start + offsets, stop + offsets

    def extents(self, rows: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Per point and dim the extent under one option per group."""
        at = np.ones((len(self.chain.points), len(self.problem.sizes)), dtype=np.int64)
        low = 0
        for options, dims, row in zip(self._options, self.groups, rows, strict=True):
            table = options.extents[0][row - low]
            at[:, list(dims)] = table.reshape(len(self.chain.points), len(dims))
            low += options.num
        return tuple(tuple(site) for site in at.tolist())

    def _place(self, group: int, key: tuple[int, ...]) -> tuple[int, int]:
        options = self._options[group]
        if key not in options.places:
            rows, extents = self._list(group, key)
            options.rows.append(rows)
            options.extents.append(extents)
            options.places[key] = options.num, options.num + len(rows)
            options.num += len(rows)
            self._pool = None
        return options.places[key]

    def _list(self, group: int, key: tuple[int, ...]) -> tuple[Floats, Floats]:
        """Factors [options, terms] and extents [options, points x dims] of one group."""
        problem, dims = self.problem, self.groups[group]
        per_dim = np.array(key, dtype=np.float64).reshape(len(dims), -1)
        tables = [
            dim_options(problem, self.chain, dim, int(numbers[0]), is_outermost=True)
            for dim, numbers in zip(dims, per_dim, strict=True)
        ]
        grown = combined(tables)
        num = grown[0].shape[1]
        sites: list[Extents] = [
            {dim: table[site] for dim, table in zip(dims, grown, strict=True)} for site in range(len(grown[0]))
        ]
        between = dict(zip(dims, per_dim, strict=True))
        factors = np.ones((num, self.num_terms))
        around: Extents = {dim: np.full(num, float(problem.sizes[dim])) for dim in dims}
        for i, (point, at) in enumerate(zip(self.chain.points, sites[1:], strict=True)):
            info = problem.tensors[point.tensor]
            first = int(self.form.moved[i])
            if point.is_raised:
                for kind in range(3):
                    factors[:, first + kind] = self._raised(info, dims, at, between, kind)
            else:
                for k, slide in enumerate(self._slides[i]):
                    factors[:, first + k] = self._refills(info, dims, at, around, slide)
                unit = info.element_bytes if group == 0 else 1.0
                factors[:, int(self.form.held[i])] = held_factor(problem, info, dims, at) * unit
            around = {dim: np.minimum(extent, problem.sizes[dim]) for dim, extent in at.items()}
        order = np.argsort(factors.sum(axis=1), kind="stable")
        kept = np.sort(order[undominated(np.ascontiguousarray(factors[order]))])
        extents = np.stack([site[dim] for site in sites[1:] for dim in dims], axis=1) if len(sites) > 1 else None
        return factors[kept], np.zeros((len(kept), 0)) if extents is None else extents[kept]

    def _refills(
        self, info: TensorInfo, dims: Sequence[int], at: Extents, around: Extents, slide: int | None
    ) -> FloatArray | float:
        total: FloatArray | float = 1.0
        for dim in dims:
            if dim in info.unrelated:
                total = total * visits(self.problem.sizes[dim], at[dim], [])
        for pair in windows_in(info, dims):
            extents = self._complete(at)
            slides = (slide, around[slide]) if slide is not None and slide in {d for d, _ in pair} else None
            total = total * axis_elements(self.problem, pair, extents, slides)
        return total

    def _raised(
        self, info: TensorInfo, dims: Sequence[int], at: Extents, between: dict[int, FloatArray], kind: int
    ) -> FloatArray | float:
        """Refills of a holder below the fan-outs: of all instances, of what crosses, of each reduction group."""
        total: FloatArray | float = 1.0
        for dim in dims:
            if dim not in info.unrelated:
                continue
            below, tile, *rest = between[dim].tolist()
            blocks: list[tuple[FloatArray | float, bool]] = []
            inner = tile
            for top, every, shared in zip(rest[0::3], rest[1::3], rest[2::3], strict=True):
                blocks.append((top / inner, True))
                once = {0: 1.0, 1: shared, 2: every}[kind]
                blocks += [(once, True), (every / once, False)]
                inner = top * every
            blocks.append((at[dim] / below, True))
            total = total * visits(self.problem.sizes[dim], tile, blocks)
        return total

    def _complete(self, at: Extents) -> list[FloatArray | float]:
        return [at.get(dim, 1.0) for dim in range(len(self.problem.sizes))]


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


def settled(problem: Problem, chain: Chain, at: Sequence[Sequence[int]]) -> Chain:
    """The chain with, per holder, the one loop over which sliding saves most."""
    slides: list[tuple[int, ...]] = []
    around: Sequence[int] = problem.sizes
    for point, choices, extents in zip(chain.points, chain.slides, at, strict=True):
        info = problem.tensors[point.tensor]
        amounts = [
            float(window_elements(problem, info, extents, (dim, float(min(around[dim], problem.sizes[dim])))))
            for dim in choices
        ]
        slides.append((choices[int(np.argmin(amounts))],) if choices else ())
        around = extents
    return Chain(chain.points, tuple(slides))


def outer_chains(problem: Problem, pattern: Pattern) -> tuple[OuterChain, ...]:
    """All orders of the outermost segment's holders under a placement."""
    points = [
        Point(tensor, level)
        for tensor, levels in enumerate(pattern.levels)
        for level in levels[1:]
        if problem.segment_of[level] == 0
    ]
    if pattern.raised is not None:
        points.append(Point(pattern.raised, pattern.first_inner(problem, pattern.raised), is_raised=True))
    found: list[OuterChain] = []
    for chain in chains(problem, points, is_outermost=True):
        if chain.points and chain.points[-1].is_raised:
            # A tile that outlives no other's change: the loops below it may as well stand below the fan-outs.
            continue
        parents: list[int] = []
        last: dict[int, int] = {}
        for point in chain.points:
            parents.append(last.get(point.tensor, 0))
            last[point.tensor] = point.level
        found.append(OuterChain(problem, chain, parents))
    return tuple(found)
