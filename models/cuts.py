"""How the loops of a nest cut its dims: into how many pieces, of which sizes, exactly.

After `n` loops over a dim there are at most `n + 1` sizes of pieces: the full tile, and for each loop that
does not divide what it cuts the chain of what is left over. `Facts` say where that cannot happen; they hold for
all mappings at hand and save work, but never change a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .amounts import Amount, is_zero, larger, rounded_down, rounded_up, smaller
from .nest import FloatArray, Nest

UNREACHED = 2.0**200
"""Larger than any count; exact when multiplied by one, and far from overflow."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What holds for every mapping of a batch, per loop.

    Attributes:
        divides: The tile divides the next outer tile of the dim (or the dim's size).
        is_one: The tile is 1.
        is_idle: The loop's bound is 1.
    """

    divides: tuple[bool, ...]
    is_one: tuple[bool, ...]
    is_idle: tuple[bool, ...]

    def meet(self, other: Facts) -> Facts:
        """What holds for both batches."""
        return Facts(
            *(
                tuple(a and b for a, b in zip(ours, theirs, strict=True))
                for ours, theirs in (
                    (self.divides, other.divides),
                    (self.is_one, other.is_one),
                    (self.is_idle, other.is_idle),
                )
            )
        )


def facts_of(nest: Nest, tiles: Sequence[float] | FloatArray) -> Facts:
    """Facts of one mapping (a float per loop) or of a batch [loops, batch]."""
    outer = [
        tiles[o] if o >= 0 else float(nest.op.sizes[loop.dim]) for o, loop in zip(nest.outer, nest.loops, strict=True)
    ]
    if not isinstance(tiles, np.ndarray):
        return Facts(
            tuple(x % t == 0.0 for x, t in zip(outer, tiles, strict=True)),
            tuple(t == 1.0 for t in tiles),
            tuple(x == t for x, t in zip(outer, tiles, strict=True)),
        )
    ratios = [x / t for x, t in zip(outer, tiles, strict=True)]
    return Facts(
        tuple(bool((np.floor(ratio) == ratio).all()) for ratio in ratios),
        tuple(bool((t == 1.0).all()) for t in tiles),
        tuple(bool((ratio == 1.0).all()) for ratio in ratios),
    )


def excess_of(extent: Amount, threshold: int) -> Amount:
    """`max(0, extent - threshold)` of an extent of at least 1."""
    return extent - 1.0 if threshold == 1 else larger(extent - float(threshold), 0.0)


Pattern = tuple[tuple[int, bool], ...]
"""Loops over one dim, outermost first, and whether each visits all its pieces or stays at the first, the largest."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """Pieces that some loops over a dim leave.

    Attributes:
        last: The innermost of these loops, or -1.
        size: Size of full pieces.
        num: How many there are.
        rest: (size, number) of other pieces; a size of 0 is no piece.
        is_whole: Whether all loops visit all pieces: sizes then add to the dim's.
    """

    last: int
    size: Amount
    num: Amount
    rest: tuple[tuple[Amount, Amount], ...]
    is_whole: bool


class Cuts:
    """Piece statistics of one mapping, of a batch, or of a batch to come (see `amounts.py`).

    Attributes:
        tiles: Tile of each loop.
        ratios: Tile that each loop cuts over its own tile.
        bounds: Bound of each loop: the ratio rounded up.
    """

    def __init__(self, nest: Nest, tiles: Sequence[Amount], facts: Facts) -> None:
        self.nest = nest
        self.facts = facts
        self.tiles: list[Amount] = []
        self.bounds: list[Amount] = []
        self.ratios: list[Amount] = []
        self._outer: list[int] = []
        self._loops: dict[str, list[int]] = {dim: [] for dim, _ in nest.op.dims}
        self._sizes = {dim: float(size) for dim, size in nest.op.dims}
        for idx, loop in enumerate(nest.loops):
            self._add_loop(idx, loop.dim, tiles[idx])
        self._excess: dict[int, Amount] = {}
        self._over: dict[tuple[str, int], tuple[int, ...]] = {}
        self._made_cuts: dict[tuple[str, Pattern], _Cut] = {}
        self._made_visits: dict[Pattern, Amount] = {}

    def _add_loop(self, idx: int, dim: str, tile: Amount) -> None:
        loops = self._loops[dim]
        outer = loops[-1] if loops else -1
        around = self.tiles[outer] if loops else self._sizes[dim]
        self._outer.append(outer)
        if self.facts.is_idle[idx]:
            self.tiles.append(around)
            self.ratios.append(1.0)
            self.bounds.append(1.0)
            return
        loops.append(idx)
        self.tiles.append(1.0 if self.facts.is_one[idx] else tile)
        self.ratios.append(around / self.tiles[idx])
        self.bounds.append(self.ratios[idx] if self.facts.divides[idx] else rounded_up(self.ratios[idx]))

    def over(self, dim: str, num_loops: int) -> tuple[int, ...]:
        """Loops over `dim` among the first `num_loops`, outermost first, less those known to be idle."""
        found = self._over.get((dim, num_loops))
        if found is None:
            found = self._over[dim, num_loops] = tuple(idx for idx in self._loops[dim] if idx < num_loops)
        return found

    def excess(self, idx: int) -> Amount:
        """0 where a loop's bound is 1, and out of reach of any count elsewhere."""
        found = self._excess.get(idx)
        if found is None:
            found = self._excess[idx] = (self.bounds[idx] - 1.0) * UNREACHED
        return found

    def extent(self, dim: str, num_loops: int) -> Amount:
        """Size of the largest piece of `dim` below the first `num_loops` loops."""
        loops = self.over(dim, num_loops)
        return self.tiles[loops[-1]] if loops else self._sizes[dim]

    def visits(self, dim: str, pattern: Pattern) -> Amount:
        """Pieces of `dim` that the loops of a pattern visit."""
        while pattern and not pattern[-1][1]:
            pattern = pattern[:-1]
        if not pattern:
            return 1.0
        found = self._made_visits.get(pattern)
        if found is None:
            found = self._made_visits[pattern] = self._count_pieces(dim, pattern)
        return found

    def pieces(self, dim: str, loops: tuple[int, ...]) -> Amount:
        """Pieces into which `loops` cut `dim`."""
        return self.visits(dim, tuple((idx, True) for idx in loops))

    def overhang(self, dim: str, loops: tuple[int, ...], threshold: int) -> Amount:
        """Sum over the pieces into which `loops` cut `dim` of `max(0, size - threshold)`."""
        if self._sizes[dim] <= threshold:
            return 0.0
        if threshold == 1:
            return self._sizes[dim] - self.pieces(dim, loops)
        cut = self._cut(dim, tuple((idx, True) for idx in loops))
        total = cut.num * larger(cut.size - float(threshold), 0.0)
        for size, num in cut.rest:
            total = total + num * larger(size - float(threshold), 0.0)
        return total

    def sliding_overhang(self, dim: str, loops: tuple[int, ...], threshold: int) -> Amount:
        """The same when the last of `loops` slides: each of its steps counts less what the step before held."""
        cut = self._cut(dim, tuple((idx, True) for idx in loops[:-1]))
        tile = self.tiles[loops[-1]]
        step = larger(tile + tile - float(threshold), 0.0) - larger(tile - float(threshold), 0.0)
        total: Amount = 0.0
        for size, num in ((cut.size, cut.num), *cut.rest):
            times = rounded_down(size / tile)
            # Steps of a whole tile after the first, and the first with what is left at the end.
            once = smaller(times, 1.0)
            ends = once * tile + (size - times * tile)
            total = total + num * ((times - once) * step + larger(ends - float(threshold), 0.0))
        return total

    def _count_pieces(self, dim: str, pattern: Pattern) -> Amount:
        """Pieces after a pattern that ends with a loop whose pieces are visited."""
        idx, _ = pattern[-1]
        cut = self._cut(dim, pattern[:-1])
        if self.facts.is_one[idx] and cut.is_whole:
            return self._sizes[dim]
        bound = self.bounds[idx] if cut.last == self._outer[idx] else rounded_up(cut.size / self.tiles[idx])
        total = cut.num * bound
        for size, num in cut.rest:
            total = total + num * rounded_up(size / self.tiles[idx])
        return total

    def _cut(self, dim: str, pattern: Pattern) -> _Cut:
        """Pieces that a pattern leaves."""
        if not pattern:
            return _Cut(-1, self._sizes[dim], 1.0, (), True)
        found = self._made_cuts.get((dim, pattern))
        if found is None:
            cut = self._cut(dim, pattern[:-1])
            idx, is_visited = pattern[-1]
            found = self._visit(dim, cut, idx) if is_visited else self._stay(cut, idx)
            self._made_cuts[dim, pattern] = found
        return found

    def _stay(self, cut: _Cut, idx: int) -> _Cut:
        """Each piece leaves its first piece under loop `idx`."""
        tile = self.tiles[idx]
        return _Cut(idx, tile, cut.num, tuple((smaller(size, tile), num) for size, num in cut.rest), False)

    def _visit(self, dim: str, cut: _Cut, idx: int) -> _Cut:
        """Each piece leaves all its pieces under loop `idx`."""
        tile = self.tiles[idx]
        if self.facts.is_one[idx] and cut.is_whole:
            return _Cut(idx, tile, self._sizes[dim], (), True)
        is_next = cut.last == self._outer[idx]
        ratio = self.ratios[idx] if is_next else cut.size / tile
        times = rounded_down(ratio)
        full = cut.num * times
        rest: list[tuple[Amount, Amount]] = []
        if not (is_next and self.facts.divides[idx]):
            rest.append((cut.size - times * tile, cut.num))
        for size, num in cut.rest:
            times = rounded_down(size / tile)
            full = full + num * times
            rest.append((size - times * tile, num))
        kept = () if self.facts.is_one[idx] else tuple(piece for piece in rest if not is_zero(piece[0]))
        return _Cut(idx, tile, full, kept, cut.is_whole)
