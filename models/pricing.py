"""Prices a batch of counts: energy, time and capacity from the numbers of one or many architectures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from .amounts import Amount, as_array, larger, smaller
from .counts import Counts
from .nest import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Numbers that turn counts into energy and time, per memory level, outermost first.

    Each array has shape [levels, 1] for one architecture, or [levels, batch] to price every mapping
    of a batch on its own architecture.

    Attributes:
        read_pj: Energy of reading a byte [pJ].
        write_pj: Energy of writing a byte [pJ].
        read_bytes_per_cycle: Read bandwidth of one instance; may be infinite.
        write_bytes_per_cycle: Write bandwidth of one instance; may be infinite.
        shares_port: Whether reads and writes take turns, so that their times add.
        capacity_bytes: Bytes that tiles may take in one instance: half of it where double-buffered.
        mac_pj: Energy of one multiply-accumulate [pJ], shape [1] or [batch].
        cycles_per_step: Cycles of one step of a compute unit, likewise.
    """

    read_pj: FloatArray
    write_pj: FloatArray
    read_bytes_per_cycle: FloatArray
    write_bytes_per_cycle: FloatArray
    shares_port: FloatArray
    capacity_bytes: FloatArray
    mac_pj: FloatArray
    cycles_per_step: FloatArray


def stack_prices(many: list[Prices]) -> Prices:
    """Joins the prices of several architectures along the batch axis."""
    joined = {
        name: np.concatenate([getattr(prices, name) for prices in many], axis=-1)
        for name in Prices.__dataclass_fields__
    }
    return Prices(**joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Energy and throughput latency of a batch.

    Attributes:
        energy_pj: Total energy, [batch].
        latency_cycles: The largest of `level_cycles` and `compute_cycles`, [batch].
        level_cycles: Time of each level's traffic, [levels][batch].
        compute_cycles: Time of the compute units, [batch].
        fits: Whether every tile fits, [batch].
    """

    energy_pj: FloatArray
    latency_cycles: FloatArray
    level_cycles: tuple[FloatArray, ...]
    compute_cycles: FloatArray
    fits: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PriceAmounts:
    """The same numbers as amounts, per level or one; `amounts.py` says what an amount may be."""

    read_pj: Sequence[Amount]
    write_pj: Sequence[Amount]
    read_bytes_per_cycle: Sequence[Amount]
    write_bytes_per_cycle: Sequence[Amount]
    shares_port: Sequence[Amount]
    capacity_bytes: Sequence[Amount]
    mac_pj: Sequence[Amount]
    cycles_per_step: Sequence[Amount]


def price_amounts_of(prices: Prices) -> PriceAmounts:
    """Floats for one architecture, arrays for one per mapping."""
    columns = [np.atleast_2d(getattr(prices, name)) for name in Prices.__dataclass_fields__]
    return PriceAmounts(*([*column[:, 0].tolist()] if column.shape[1] == 1 else [*column] for column in columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class PricedAmounts:
    """What `Priced` holds, as amounts; `room_bytes` is what the fullest level has left, below 0 where a tile does not fit."""

    energy_pj: Amount
    latency_cycles: Amount
    level_cycles: tuple[Amount, ...]
    compute_cycles: Amount
    room_bytes: Amount


def price(counts: Counts, prices: Prices) -> Priced:
    """Energy = counts x table; latency = maximum over components, everything overlapped.

    Levels below a fan-out work in parallel: their traffic is shared out evenly over the instances in
    use. Limits: leakage, network energy and refresh are left out; the `detailed` fidelity adds fill,
    drain and exposed transfers.
    """
    found = priced_amounts(counts, price_amounts_of(prices))
    return Priced(
        energy_pj=as_array(found.energy_pj),
        latency_cycles=as_array(found.latency_cycles),
        level_cycles=tuple(map(as_array, found.level_cycles)),
        compute_cycles=as_array(found.compute_cycles),
        fits=as_array(found.room_bytes) >= 0,
    )


def priced_amounts(counts: Counts | Counts[Amount], prices: PriceAmounts) -> PricedAmounts:
    """Prices counts in any form; see `price`."""
    energy: Amount = float(counts.macs) * prices.mac_pj[0]
    compute = counts.steps * prices.cycles_per_step[0]
    latency = compute
    room: Amount = math.inf
    level_cycles: list[Amount] = []
    for idx in range(len(counts.read_bytes)):
        reads, writes = total(counts.read_bytes[idx]), total(counts.write_bytes[idx])
        energy = energy + (reads * prices.read_pj[idx] + writes * prices.write_pj[idx])
        cycles = port_cycles(reads, writes, prices, idx) / counts.instances[idx]
        level_cycles.append(cycles)
        latency = larger(latency, cycles)
        room = smaller(room, prices.capacity_bytes[idx] - total(counts.tile_bytes[idx]))
    return PricedAmounts(
        energy_pj=energy,
        latency_cycles=latency,
        level_cycles=tuple(level_cycles),
        compute_cycles=compute,
        room_bytes=room,
    )


def port_cycles(read_bytes: Amount, write_bytes: Amount, prices: PriceAmounts, level: int) -> Amount:
    """Cycles that one level's ports take for that traffic, were it a single instance."""
    read = read_bytes / prices.read_bytes_per_cycle[level]
    write = write_bytes / prices.write_bytes_per_cycle[level]
    # Both together where they share a port; otherwise the longer of the two, which is never longer than both.
    return larger(larger(read, write), (read + write) * prices.shares_port[level])


@overload
def total(per_tensor: Sequence[FloatArray]) -> FloatArray: ...
@overload
def total(per_tensor: Sequence[Amount]) -> Amount: ...
def total(per_tensor: Sequence[FloatArray] | Sequence[Amount]) -> Amount:
    """Sum over tensors, in the op's order so that equal batches give equal bits."""
    found: Amount = per_tensor[0]
    for amount in per_tensor[1:]:
        found = found + amount
    return found
