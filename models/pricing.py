"""Prices a batch of counts: energy, time and capacity from the numbers of one or many architectures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .counting import Counts
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
    fits: FloatArray


def price(counts: Counts, prices: Prices) -> Priced:
    """Energy = counts x table; latency = maximum over components, everything overlapped.

    Levels below a fan-out work in parallel: their traffic is shared out evenly over the instances in
    use. Limits: leakage, network energy and refresh are left out; the `detailed` fidelity adds fill,
    drain and exposed transfers.
    """
    energy: FloatArray = counts.macs * prices.mac_pj
    compute = counts.steps * prices.cycles_per_step
    latency = compute
    fits = np.ones(compute.shape, dtype=bool)
    level_cycles: list[FloatArray] = []
    for idx in range(len(counts.read_bytes)):
        reads, writes = total(counts.read_bytes[idx]), total(counts.write_bytes[idx])
        energy = energy + (reads * prices.read_pj[idx] + writes * prices.write_pj[idx])
        cycles = port_cycles(reads, writes, prices, idx) / counts.instances[idx]
        level_cycles.append(cycles)
        latency = np.maximum(latency, cycles)
        fits = fits & (total(counts.tile_bytes[idx]) <= prices.capacity_bytes[idx])
    return Priced(
        energy_pj=energy, latency_cycles=latency, level_cycles=tuple(level_cycles), compute_cycles=compute, fits=fits
    )


def port_cycles(read_bytes: FloatArray, write_bytes: FloatArray, prices: Prices, level: int) -> FloatArray:
    """Cycles that one level's ports take for that traffic, were it a single instance."""
    read = read_bytes / prices.read_bytes_per_cycle[level]
    write = write_bytes / prices.write_bytes_per_cycle[level]
    shares = prices.shares_port[level]
    if shares.all():
        return read + write
    larger: FloatArray = np.maximum(read, write)
    return np.where(shares > 0, read + write, larger)


def total(per_tensor: tuple[FloatArray, ...]) -> FloatArray:
    """Sum over tensors, in the op's order so that equal batches give equal bits."""
    found = per_tensor[0]
    for amount in per_tensor[1:]:
        found = found + amount
    return found
