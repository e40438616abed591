"""Per-dim statistics of a batch of tilings: into how many pieces loops cut a dim, and how big.

`AlignedPieces` serves batches in which every tile divides the next outer one, where products of loop
bounds suffice. `RaggedPieces` follows the exact multiset of piece sizes: after n loops there are at
most n + 1 different sizes. Both give the same numbers on aligned tilings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from .nest import FloatArray, Nest

BoolArray = npt.NDArray[np.bool_]
Choice = bool | BoolArray
"""A yes or no for the whole batch, or one per mapping."""


def either(a: Choice, b: Choice) -> Choice:
    """`a or b`."""
    if a is True or b is True:
        return True
    if a is False:
        return b
    return a if b is False else a | b


class Pieces(Protocol):
    """Piece statistics of one batch.

    Attributes:
        tiles: Tile of each loop, [loops, batch].
        bounds: Bound of each loop, [loops][batch].
        batch: Number of mappings.
    """

    tiles: FloatArray
    bounds: Sequence[FloatArray]
    batch: int

    def visits(self, loops: Sequence[int], dim: str, counted: Mapping[int, Choice]) -> FloatArray | float:
        """Pieces of `dim` that `loops` (outermost first) visit.

        A loop that is not counted stays at its first piece, which is the largest.
        """
        ...

    def overhang(
        self, loops: Sequence[int], dim: str, merged: Mapping[int, Choice], threshold: int
    ) -> FloatArray | float:
        """Sum over pieces of `max(0, size - threshold)`; merged loops do not cut."""
        ...

    def sliding_overhang(self, loops: Sequence[int], dim: str, threshold: int) -> FloatArray | float:
        """The same when the last of `loops` slides: each of its steps counts less what the step before held."""
        ...


class AlignedPieces:
    """Statistics when every tile divides the next outer one."""

    def __init__(
        self, nest: Nest, tiles: FloatArray, outer: Sequence[FloatArray | float], bounds: Sequence[FloatArray]
    ) -> None:
        self.nest = nest
        self.tiles = tiles
        self.outer = outer
        self.bounds = bounds
        self.batch: int = tiles.shape[1]

    def visits(self, loops: Sequence[int], dim: str, counted: Mapping[int, Choice]) -> FloatArray | float:
        """See `Pieces.visits`."""
        total: FloatArray | float = 1.0
        for idx in loops:
            choice = counted[idx]
            if choice is True:
                total = total * self.bounds[idx]
            elif choice is not False:
                total = total * np.where(choice, self.bounds[idx], 1.0)
        return total

    def overhang(
        self, loops: Sequence[int], dim: str, merged: Mapping[int, Choice], threshold: int
    ) -> FloatArray | float:
        """See `Pieces.overhang`."""
        size = float(self.nest.op.sizes[dim])
        extent: FloatArray | float = size
        for idx in loops:
            keep = merged.get(idx, False)
            if keep is False:
                extent = self.tiles[idx]
            elif keep is not True:
                extent = np.where(keep, extent, self.tiles[idx])
        return size / extent * np.maximum(extent - threshold, 0.0)

    def sliding_overhang(self, loops: Sequence[int], dim: str, threshold: int) -> FloatArray | float:
        """See `Pieces.sliding_overhang`."""
        slide = loops[-1]
        first, step = _slide_terms(self.tiles[slide], self.tiles[slide], threshold)
        num_sweeps = self.nest.op.sizes[dim] / (self.tiles[slide] * self.bounds[slide])
        return num_sweeps * (first + (self.bounds[slide] - 1) * step)


class RaggedPieces(AlignedPieces):
    """Statistics with the exact sizes of ragged pieces."""

    def visits(self, loops: Sequence[int], dim: str, counted: Mapping[int, Choice]) -> FloatArray | float:
        """See `Pieces.visits`."""
        pieces = self._start(dim)
        for idx in loops:
            pieces = self._cut(pieces, self.tiles[idx], counted[idx])
        total: FloatArray = np.zeros(self.batch)
        for _, num in pieces:
            total = total + num
        return total

    def overhang(
        self, loops: Sequence[int], dim: str, merged: Mapping[int, Choice], threshold: int
    ) -> FloatArray | float:
        """See `Pieces.overhang`."""
        pieces = self._start(dim)
        for idx in loops:
            keep = merged.get(idx, False)
            if keep is True:
                continue
            # A merged loop cuts nothing: its tile is as large as any piece.
            tile = self.tiles[idx] if keep is False else np.where(keep, np.inf, self.tiles[idx])
            pieces = self._cut(pieces, tile, True)
        total: FloatArray = np.zeros(self.batch)
        for size, num in pieces:
            total = total + num * np.maximum(size - threshold, 0.0)
        return total

    def sliding_overhang(self, loops: Sequence[int], dim: str, threshold: int) -> FloatArray | float:
        """See `Pieces.sliding_overhang`."""
        pieces = self._start(dim)
        for idx in loops[:-1]:
            pieces = self._cut(pieces, self.tiles[idx], True)
        tile = self.tiles[loops[-1]]
        first, step = _slide_terms(tile, tile, threshold)
        total: FloatArray = np.zeros(self.batch)
        for size, num in pieces:
            times = np.floor(size / tile)
            left = size - times * tile
            whole = first + (times - 1) * step + np.where(left > 0, _slide_terms(tile, left, threshold)[1], 0.0)
            alone: FloatArray = np.maximum(left - threshold, 0.0)
            total = total + num * np.where(times > 0, whole, alone)
        return total

    def _start(self, dim: str) -> list[tuple[FloatArray, FloatArray]]:
        return [(np.full(self.batch, float(self.nest.op.sizes[dim])), np.ones(self.batch))]

    @staticmethod
    def _cut(
        pieces: list[tuple[FloatArray, FloatArray]], tile: FloatArray, counted: Choice
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Cuts (size, number) pieces by `tile`; where not counted only each first piece is kept."""
        num_full: FloatArray = np.zeros_like(tile)
        rest: list[tuple[FloatArray, FloatArray]] = []
        for size, num in pieces:
            times = np.floor(size / tile)
            left = np.where(np.isinf(tile), size, size - np.where(np.isinf(tile), 0.0, tile) * times)
            if counted is not True:
                once = np.minimum(times, 1.0)
                times = once if counted is False else np.where(counted, times, once)
                gone = (once > 0) if counted is False else (once > 0) & ~counted
                left = np.where(gone, 0.0, left)
            num_full = num_full + num * times
            rest.append((left, np.where(left > 0, num, 0.0)))
        return [(np.where(np.isinf(tile), 0.0, tile), num_full), *rest]


def _slide_terms(tile: FloatArray, following: FloatArray, threshold: int) -> tuple[FloatArray, FloatArray]:
    """Overhang of a tile, and what a following tile beside it adds to the overhang of the two together."""
    first = np.maximum(tile - threshold, 0.0)
    return first, np.maximum(tile + following - threshold, 0.0) - first
