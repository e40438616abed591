"""What counting gives: bytes per level and tensor, and what moves between holders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic

import numpy as np
from typing_extensions import TypeVar

from .amounts import Amount, Symbol
from .nest import FloatArray, Nest

Number = TypeVar("Number", default=FloatArray)
"""What counts are made of: arrays over a batch, floats for one mapping, or amounts while they are worked out."""

Other = TypeVar("Other")


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Generic[Number]):
    """What moves between two consecutive holders of a tensor; arrays over the batch, in elements.

    Attributes:
        tensor: Index of the tensor in the op.
        parent: Level index of the outer holder.
        child: Level index of the inner holder; the number of levels stands for the compute unit.
        filled: Elements of the child's tile over all refills and instances.
        delivered: Elements crossing at the parent: reads of inputs after multicast, arrivals of
            partial sums after spatial reduction.
        sent_back: Partial sums that the parent reads again (0 for inputs).
        refills: Steps in time at which the child's tile changes.
        parent_bytes: Bytes of one element at the parent: more than the stored ones where it holds unfinished sums.
        child_bytes: Bytes of one element at the child; the parent's for the compute unit.
        narrowed_bytes: What finished outputs take less than `parent_bytes` says on their last way into the
            outermost memory, all together.
    """

    tensor: int
    parent: int
    child: int
    filled: Number
    delivered: Number
    sent_back: Number
    refills: Number
    parent_bytes: Number
    child_bytes: Number
    narrowed_bytes: Number

    def converted(self, convert: Callable[[Number], Other]) -> Transfer[Other]:
        """The same transfer with every number converted."""
        return Transfer(
            tensor=self.tensor,
            parent=self.parent,
            child=self.child,
            filled=convert(self.filled),
            delivered=convert(self.delivered),
            sent_back=convert(self.sent_back),
            refills=convert(self.refills),
            parent_bytes=convert(self.parent_bytes),
            child_bytes=convert(self.child_bytes),
            narrowed_bytes=convert(self.narrowed_bytes),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts(Generic[Number]):
    """Counts of a batch of mappings; arrays have shape [batch].

    Attributes:
        nest: The structure that was counted.
        read_bytes: Bytes read, [levels][tensors]; zeros where a level does not hold the tensor.
        write_bytes: Bytes written, likewise.
        tile_bytes: Bytes that the level must hold per instance, likewise; 0 at the outermost level.
        steps: Steps of the whole nest in time; a step is one point per active instance.
        instances: Instances of each level in use, [levels], and of the compute unit, last.
        macs: Multiply-accumulates; the same for the whole batch.
        transfers: Transfers between holders, for the latency model.
    """

    nest: Nest
    read_bytes: tuple[tuple[Number, ...], ...]
    write_bytes: tuple[tuple[Number, ...], ...]
    tile_bytes: tuple[tuple[Number, ...], ...]
    steps: Number
    instances: tuple[Number, ...]
    macs: int
    transfers: tuple[Transfer[Number], ...]

    def numbers(self) -> list[Number]:
        """All numbers in these counts."""
        found: list[Number] = []

        def note(number: Number) -> Number:
            found.append(number)
            return number

        self.converted(note)
        return found

    def converted(self, convert: Callable[[Number], Other]) -> Counts[Other]:
        """The same counts with every number converted."""

        def table(rows: tuple[tuple[Number, ...], ...]) -> tuple[tuple[Other, ...], ...]:
            return tuple(tuple(map(convert, row)) for row in rows)

        return Counts(
            nest=self.nest,
            read_bytes=table(self.read_bytes),
            write_bytes=table(self.write_bytes),
            tile_bytes=table(self.tile_bytes),
            steps=convert(self.steps),
            instances=tuple(map(convert, self.instances)),
            macs=self.macs,
            transfers=tuple(moved.converted(convert) for moved in self.transfers),
        )


def as_arrays(
    counts: Counts[Amount] | Counts[float], batch: int, values: Mapping[Symbol, FloatArray] = MappingProxyType({})
) -> Counts:
    """The counts of a batch, every number as an array of shape [batch].

    Args:
        counts: The counts.
        batch: Number of mappings.
        values: Values of the symbols in them.
    """
    constants: dict[float, FloatArray] = {}

    def array(amount: Amount) -> FloatArray:
        if isinstance(amount, Symbol):
            return values[amount]
        if isinstance(amount, np.ndarray):
            return amount
        if amount not in constants:
            constants[amount] = np.array([amount]) if batch == 1 else np.full(batch, amount)
        return constants[amount]

    return counts.converted(array)
