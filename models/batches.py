"""Large batches of one structure: traced once with symbols, then run block by block."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from .amounts import Amount, Symbol, SymbolGraph, rounded_up
from .conventions import Convention
from .counting import count_amounts
from .counts import Counts, as_arrays
from .cuts import Cuts, Facts, facts_of
from .nest import FloatArray, Nest
from .pricing import PriceAmounts, Priced, Prices, price, priced_amounts
from .programs import BoundProgram, Condition, ConditionBroken, Program, Value, compile_program

BLOCK = 4096
"""Mappings evaluated together: their intermediate results then stay in a core's second-level cache."""

LEAST_TRACED = 2048
"""Smaller batches are computed as they are: tracing would cost more than it saves."""

_SPECIAL = (0.0, 1.0, math.inf)
"""Prices that save operations: programs are made for them, and take all others as inputs."""

_Known = tuple[tuple[float | None, ...], ...]


def count(nest: Nest, tiles: FloatArray, convention: Convention) -> Counts:
    """Counts every access of a batch of mappings.

    Args:
        nest: Structure of the mappings.
        tiles: Tile of each loop, shape [loops, batch]; a tile never exceeds the next outer one of its dim.
        convention: The counting convention.

    Returns:
        Counts with arrays of shape [batch].
    """
    batch = tiles.shape[1]
    if batch == 1:
        return as_arrays(count_one(nest, tiles[:, 0].tolist(), convention), batch)
    facts = facts_of(nest, tiles)
    if batch < LEAST_TRACED:
        return as_arrays(count_amounts(nest, Cuts(nest, list(tiles), facts), convention), batch)
    counts, symbols, program = _count_program(nest, convention, facts)
    found = np.empty((len(symbols), batch))
    bound: BoundProgram | None = None
    for at in _blocks(batch):
        if bound is None or bound.length != at.stop - at.start:
            bound = BoundProgram(program, at.stop - at.start, {})
        _run_block(bound, tiles, at, found)
    return as_arrays(counts, batch, dict(zip(symbols, found, strict=True)))


def count_one(nest: Nest, tiles: Sequence[float], convention: Convention) -> Counts[Amount]:
    """Counts every access of one mapping, given the tile of each loop; all amounts are plain floats, which is quick."""
    return count_amounts(nest, Cuts(nest, tiles, facts_of(nest, tiles)), convention)


def estimate_batch(nest: Nest, tiles: FloatArray, prices: Prices, convention: Convention) -> Priced:
    """Energy and throughput latency of a batch of mappings of one structure.

    Args:
        nest: Structure of the mappings.
        tiles: Tile of each loop, [loops, batch].
        prices: Prices of one architecture, or one per mapping of the batch.
        convention: The counting convention.

    Returns:
        Arrays of shape [batch]; entry i has the bits that a batch of mapping i alone has.
    """
    batch = tiles.shape[1]
    if batch < LEAST_TRACED:
        return price(count(nest, tiles, convention), prices)
    columns = [np.atleast_2d(getattr(prices, name)) for name in Prices.__dataclass_fields__]
    rows = [*tiles, *(row for column in columns for row in column)]
    scalars = {idx: float(row[0]) for idx, row in enumerate(rows) if row.shape[0] == 1}
    known = tuple(tuple(_known(row) for row in column) for column in columns)
    # Facts that the first block bears out are taken to hold for all. A block that breaks one weakens them, which
    # can happen only so often.
    facts = facts_of(nest, tiles[:, :BLOCK])
    # One array, because the system hands out large ones in large pages.
    found = np.empty((4 + len(nest.hierarchy.levels), batch))
    bound: BoundProgram | None = None
    for at in _blocks(batch):
        while True:
            if bound is None or bound.length != at.stop - at.start:
                bound = BoundProgram(_price_program(nest, convention, facts, known), at.stop - at.start, scalars)
            try:
                _run_block(bound, rows, at, found)
                break
            except ConditionBroken:
                facts, bound = facts.meet(facts_of(nest, tiles[:, at])), None
    energy, latency, room, compute, *level_cycles = found
    return Priced(
        energy_pj=energy,
        latency_cycles=latency,
        level_cycles=tuple(level_cycles),
        compute_cycles=compute,
        fits=room >= 0,
    )


def _blocks(batch: int) -> Iterator[slice]:
    for start in range(0, batch, BLOCK):
        yield slice(start, min(start + BLOCK, batch))


def _run_block(bound: BoundProgram, rows: Sequence[FloatArray] | FloatArray, at: slice, found: FloatArray) -> None:
    for idx, place in bound.rows:
        place[:] = rows[idx][at]
    for whole, part in zip(found, bound.run(), strict=True):
        whole[at] = part


def _known(price: FloatArray) -> float | None:
    return float(price[0]) if price.shape[0] == 1 and price[0] in _SPECIAL else None


@lru_cache(maxsize=64)
def _count_program(
    nest: Nest, convention: Convention, facts: Facts
) -> tuple[Counts[Amount], tuple[Symbol, ...], Program]:
    """Counts as symbols, the symbols in them, and the program that computes these from all tiles."""
    graph = SymbolGraph()
    tiles = [graph.input(is_integer=True) for _ in nest.loops]
    counts = count_amounts(nest, Cuts(nest, tiles, facts), convention)
    symbols = tuple(dict.fromkeys(amount for amount in counts.numbers() if isinstance(amount, Symbol)))
    return counts, symbols, compile_program(symbols, ())


@lru_cache(maxsize=64)
def _price_program(nest: Nest, convention: Convention, facts: Facts, known: _Known) -> Program:
    """The program that counts and prices mappings; its inputs are all tiles, then all prices."""
    graph = SymbolGraph()
    tiles = [graph.input(is_integer=True) for _ in nest.loops]
    columns: list[list[Amount]] = []
    for column in known:
        inputs = [graph.input() for _ in column]
        columns.append([x if price is None else price for x, price in zip(inputs, column, strict=True)])
    cuts = Cuts(nest, tiles, facts)
    found = priced_amounts(count_amounts(nest, cuts, convention), PriceAmounts(*columns))
    outputs = [found.energy_pj, found.latency_cycles, found.room_bytes, found.compute_cycles, *found.level_cycles]
    return compile_program([_value(output) for output in outputs], _conditions(cuts, tiles))


def _conditions(cuts: Cuts, tiles: Sequence[Symbol]) -> list[Condition]:
    """What a batch must keep to for the facts to hold."""
    found: list[Condition] = []
    for idx, tile in enumerate(tiles):
        if cuts.facts.is_one[idx]:
            found.append((tile, 1.0))
        if cuts.facts.is_idle[idx]:
            found.append((tile, _value(cuts.tiles[idx])))
        elif cuts.facts.divides[idx] and isinstance(ratio := cuts.ratios[idx], Symbol) and not ratio.is_integer:
            found.append((ratio, _value(rounded_up(ratio))))
    return found


def _value(amount: Amount) -> Value:
    assert not isinstance(amount, np.ndarray), "symbols and floats give no arrays"
    return amount
