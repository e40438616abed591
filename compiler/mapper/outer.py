"""The outermost segment: what the chip-wide memories exchange with each other and with main memory.

Per group of dims (dims of one sliding window belong together) and extents below, the options are listed once as
factors of the chain's terms (`walk`), less those that another option matches or betters in every factor.
A *raised* chain has one more point, for a holder below the fan-outs whose tile outlives changes of the outer tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from .inner import Pattern
from .options import GroupForm, list_factors, undominated
from .placement import Chain, Point, SharedSites, chains, dim_options, shared_sites
from .problem import Problem, TensorInfo, distinct
from .terms import combined, dim_groups, windows_in
from .traffic import window_elements
from .walk import Bools, ChainForm, Floats, Ints


@dataclass(slots=True)
class _Options:
    """Options of one group of dims, as rows of one table that grows; after those of each kind a row of their least.

    Attributes:
        rows: [options, terms] factors, in parts.
        extents: [options, points, dims] extents, in parts.
        places: [2, kinds] where the options around each kind (see `Below`) begin and end; -1 before they are listed.
        num: Rows so far.
    """

    rows: list[Floats] = field(default_factory=list[Floats])
    extents: list[Floats] = field(default_factory=list[Floats])
    places: Ints = field(default_factory=lambda: np.zeros((2, 0), dtype=np.int64))
    num: int = 0


class Below:
    """Numbers whatever lies below the outermost segment, per group of dims.

    The options of a group depend on the extents below and, under a raised point, on what lies between it and its
    holder (see `options.list_factors`). Thousands of inner tilings are alike in that.

    Args:
        problem: The problem.

    Attributes:
        groups: The groups of dims.
        keys: Per group and number what lies below: [dims, numbers].
    """

    def __init__(self, problem: Problem) -> None:
        self.groups = dim_groups(problem)
        self.keys: list[list[Floats]] = [[] for _ in self.groups]
        self._numbers: list[dict[bytes, int]] = [{} for _ in self.groups]

    def kinds(self, keys: Floats) -> Ints:
        """The numbers, [groups, tilings], of what lies below the segment, [dims, numbers, tilings]."""
        found = np.empty((len(self.groups), keys.shape[2]), dtype=np.int64)
        for group, dims in enumerate(self.groups):
            columns = keys[list(dims)].reshape(-1, keys.shape[2])
            first, inverse = distinct(columns)
            known, listed = self._numbers[group], self.keys[group]
            kinds = np.empty(len(first), dtype=np.int64)
            for at, key in enumerate(np.ascontiguousarray(columns[:, first].T)):
                kinds[at] = known.setdefault(key.tobytes(), len(listed))
                if kinds[at] == len(listed):
                    listed.append(key.reshape(len(dims), -1))
            found[group] = kinds[inverse]
        return found


class OuterChain:
    """One order of the holders, and its options around whatever lies below.

    Args:
        problem: The problem.
        chain: The order.
        parents: Per point the level that fills it.
        below: What lies below.
    """

    def __init__(self, problem: Problem, chain: Chain, parents: Sequence[int], below: Below) -> None:
        self.problem = problem
        self.chain = chain
        self.below = below
        self._options = [_Options() for _ in below.groups]
        self._pool: Floats | None = None
        first, moved, held = 0, [0], list[int]()
        slides: list[int | None] = []
        for point, choices in zip(chain.points, chain.slides, strict=True):
            slides += (None,) * 3 if point.is_raised else choices or (None,)
            first = len(slides)
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
            base=np.array([info.plain_elements * _unit(info) for info in infos], dtype=np.float64),
            whole=np.array([info.elements * _unit(info) for info in infos], dtype=np.float64),
            is_rounded=np.array([info.is_rounded for info in infos], dtype=np.bool_),
            element_bytes=problem.tensors[-1].element_bytes,
            sum_bytes=problem.tensors[-1].sum_bytes,
            holds_sums=np.array([level.holds_sums for level in problem.hierarchy.levels], dtype=np.bool_),
        )
        self._forms = [_group_form(problem, infos, slides, dims, is_first=not k) for k, dims in enumerate(below.groups)]

    def options(self, kinds: Ints) -> tuple[Floats, Ints, Ints]:
        """Options around some inner tilings.

        Args:
            kinds: [groups, inner tilings] what lies below each; see `Below`.

        Returns:
            The table of factors, and per inner tiling and group where its options begin and end in it; a row of their
            least factors follows.
        """
        places = [self._placed(group, some) for group, some in enumerate(kinds)]
        if self._pool is None:
            for options in self._options:
                options.rows = [np.concatenate(options.rows)]
                options.extents = [np.concatenate(options.extents)]
            self._pool = np.concatenate([options.rows[0] for options in self._options])
        # Rows of later groups follow those of all groups before.
        offset = 0
        for options, (start, stop) in zip(self._options, places, strict=True):
            start += offset
            stop += offset
            offset += options.num
        start, stop = (np.stack(columns, axis=1) for columns in zip(*places, strict=True))
        return self._pool, start, stop

    @cached_property
    def _sites(self) -> list[list[tuple[SharedSites, ...]]]:
        """Per group and dim the points that share its extent."""
        return [[shared_sites(self.problem, self.chain, dim) for dim in dims] for dims in self.below.groups]

    def extents(self, rows: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        """Per point and dim the extent under one option per group."""
        at = np.ones((len(self.chain.points), len(self.problem.sizes)), dtype=np.int64)
        low = 0
        for options, dims, row in zip(self._options, self.below.groups, rows, strict=True):
            at[:, list(dims)] = options.extents[0][row - low]
            low += options.num
        return tuple(tuple(site) for site in at.tolist())

    def _placed(self, group: int, kinds: Ints) -> tuple[Ints, Ints]:
        """Where the options around some kinds begin and end in the group's table."""
        options = self._options[group]
        num_known = options.places.shape[1]
        if num_known < len(self.below.keys[group]):
            more = np.full((2, 2 * len(self.below.keys[group]) - num_known), -1, dtype=np.int64)
            options.places = np.concatenate([options.places, more], axis=1)
        start, stop = options.places[:, kinds]
        if start.min(initial=0) < 0:
            for kind in np.unique(kinds[start < 0]):
                rows, extents = self._list(group, self.below.keys[group][int(kind)])
                options.rows += [rows, rows.min(axis=0, initial=np.inf)[None]]
                options.extents += [extents, np.zeros((1, *extents.shape[1:]))]
                options.places[:, kind] = options.num, options.num + len(rows)
                options.num += len(rows) + 1
            self._pool = None
            start, stop = options.places[:, kinds]
        return start, stop

    def _list(self, group: int, below: Floats) -> tuple[Floats, Floats]:
        """Factors [options, terms] and extents [options, points, dims] of one group."""
        dims = self.below.groups[group]
        tables = [
            dim_options(self.problem, dim, sites, int(numbers[0]), is_outermost=True)
            for dim, sites, numbers in zip(dims, self._sites[group], below, strict=True)
        ]
        grown = combined(tables)
        num_sites, num = grown[0].shape
        at = np.ones((num, num_sites - 1, len(dims) + 1))
        for d, table in enumerate(grown):
            at[:, :, d] = table[1:].T
        factors = np.ones((num, self.num_terms))
        list_factors(self.form, self._forms[group], at, below, factors)
        order = np.argsort(factors.sum(axis=1), kind="stable")
        kept = np.sort(order[undominated(factors[order])])
        return factors[kept], at[kept, :, :-1]


def _group_form(
    problem: Problem, infos: Sequence[TensorInfo], slides: Sequence[int | None], dims: Sequence[int], *, is_first: bool
) -> GroupForm:
    place = {dim: at for at, dim in enumerate(dims)}
    windows = [windows_in(info, dims) for info in infos]
    pairs = [
        (place.get(a, len(dims)), over_a, place.get(b, len(dims)), over_b)
        for axes in windows
        for (a, over_a), (b, over_b) in axes
    ]
    return GroupForm(
        sizes=np.array([*(problem.sizes[dim] for dim in dims), 1], dtype=np.float64),
        is_unrelated=_flags([[dim in info.unrelated for dim in dims] for info in infos], len(dims)),
        is_plain=_flags([[dim in info.plain for dim in dims] for info in infos], len(dims)),
        first_window=np.cumsum([0, *(len(axes) for axes in windows)], dtype=np.int64),
        windows=np.array(pairs, dtype=np.int64).reshape(-1, 4),
        slide=np.array([-1 if slide is None else place.get(slide, -1) for slide in slides], dtype=np.int64),
        unit=np.array([_unit(info) if is_first else 1.0 for info in infos], dtype=np.float64),
    )


def _unit(info: TensorInfo) -> float:
    """Bytes of an element, but for outputs, which are counted in elements: their width depends on what arrives."""
    return 1.0 if info.is_output else info.element_bytes


def _flags(rows: Sequence[Sequence[bool]], width: int) -> Bools:
    return np.array(rows, dtype=np.bool_).reshape(-1, width)


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


def outer_chains(problem: Problem, pattern: Pattern, below: Below) -> tuple[OuterChain, ...]:
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
        found.append(OuterChain(problem, chain, parents, below))
    return tuple(found)
