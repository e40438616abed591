"""Piece statistics of a batch where choices differ between its mappings: what the detailed latency asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from .amounts import Amount, Symbol
from .cuts import Cuts, facts_of
from .nest import FloatArray, Nest

BoolArray = npt.NDArray[np.bool_]
Choice = bool | BoolArray
"""A yes or no for the whole batch, or one per mapping."""


def negate(choice: Choice) -> Choice:
    """The opposite of a choice."""
    return (not choice) if isinstance(choice, bool) else ~choice


def narrow(choice: Choice, mask: BoolArray) -> Choice:
    """`choice and mask`, folded to False or True where it is so for the whole batch."""
    if choice is False:
        return False
    both: BoolArray = mask if choice is True else mask & choice
    if not both.any():
        return False
    return True if both.all() else both


class Pieces:
    """Piece statistics of one batch.

    Attributes:
        tiles: Tile of each loop, [loops, batch].
        bounds: Bound of each loop, [loops][batch].
        batch: Number of mappings.
    """

    def __init__(self, nest: Nest, tiles: FloatArray) -> None:
        self.tiles = tiles
        self.batch: int = tiles.shape[1]
        rows: list[float] | FloatArray = tiles[:, 0].tolist() if self.batch == 1 else tiles
        self._cuts = Cuts(nest, list(rows), facts_of(nest, rows))
        self.bounds = [np.broadcast_to(_values(bound), (self.batch,)) for bound in self._cuts.bounds]

    def visits(self, loops: Sequence[int], dim: str, counted: Mapping[int, Choice]) -> FloatArray | float:
        """Pieces of `dim` that `loops` (outermost first) visit.

        A loop that is not counted stays at its first piece, which is the largest.
        """
        for idx in loops:
            choice = counted[idx]
            if not isinstance(choice, bool):
                visited, stayed = (self.visits(loops, dim, {**counted, idx: is_it}) for is_it in (True, False))
                return np.where(choice, visited, stayed)
        return _values(self._cuts.visits(dim, tuple((idx, bool(counted[idx])) for idx in self._cutting(loops))))

    def overhang(self, loops: Sequence[int], dim: str, threshold: int) -> FloatArray | float:
        """Sum over the pieces into which `loops` cut `dim` of `max(0, size - threshold)`."""
        return _values(self._cuts.overhang(dim, self._cutting(loops), threshold))

    def _cutting(self, loops: Sequence[int]) -> tuple[int, ...]:
        return tuple(idx for idx in loops if not self._cuts.facts.is_idle[idx])


def _values(amount: Amount) -> FloatArray | float:
    assert not isinstance(amount, Symbol), "arrays and floats give no symbols"
    return amount
