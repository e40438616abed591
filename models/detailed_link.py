"""One tensor between two memories: bytes moved, rows rounded up, and the caches on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..archdsl import Op, Tensor, TensorRole
from .counting import Counts, Transfer
from .detailed_array import time_steps
from .detailed_timing import LevelTiming, Timing
from .nest import FloatArray, Holder, Nest
from .pieces import Choice, Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One tensor between two memories; times are cycles per refill, [batch].

    Attributes:
        child: Level that is refilled.
        overlaps: Whether the refill hides behind computation.
        refills: How often, over the whole run.
        parent_in: Reading at the parent.
        parent_out: Writing at the parent.
        child_in: Writing at the child.
        child_out: Reading at the child.
        lanes: Passing the vector unit on the way out.
    """

    child: int
    overlaps: bool
    refills: FloatArray
    parent_in: FloatArray
    parent_out: FloatArray
    child_in: FloatArray
    child_out: FloatArray
    lanes: FloatArray


def link_of(
    counts: Counts, pieces: Pieces, timing: Timing, transfer: Transfer, holder: Holder, warm_caches: bool
) -> Link:
    """The link of one transfer between memories.

    Args:
        counts: Counts of the batch.
        pieces: Piece statistics of the batch.
        timing: The architecture.
        transfer: What moves.
        holder: The child's place in the nest.
        warm_caches: The op has just run once, so that a cache which holds all of it holds it already.
    """
    op = counts.nest.op
    tensor = op.tensors[transfer.tensor]
    parent, child = timing.levels[transfer.parent], timing.levels[transfer.child]
    zero = np.zeros(pieces.batch)
    is_output = tensor.role is TensorRole.OUTPUT
    refills, scale = transfer.refills, 1.0 + zero
    if not is_output and not (child.keeps_tiles and child.skips_holes):
        refills, moved = _moved_anew(counts.nest, pieces, tensor, holder, child, transfer.refills)
        scale = np.maximum(moved / transfer.filled, 1.0)
    row = _row_bytes(counts.nest, pieces, tensor, holder)
    each = scale * tensor.bits / 8 / refills
    fetched = each * (transfer.sent_back if is_output else transfer.delivered)
    stored = each * transfer.delivered if is_output else zero
    caches = [level for level in timing.levels[transfer.parent + 1 : transfer.child] if level.is_cache]
    parent_in, parent_out = _parent_cycles(
        op, row, fetched, stored, op.tensor_bytes(tensor) / refills, parent, caches, warm_caches
    )
    at_child = padding(row, child) * transfer.filled / transfer.delivered / counts.instances[transfer.child]
    passes_lanes = timing.vector_lanes > 0 and transfer.parent == 0
    return Link(
        child=transfer.child,
        overlaps=child.double_buffered,
        refills=refills,
        parent_in=parent_in / counts.instances[transfer.parent],
        parent_out=parent_out / counts.instances[transfer.parent],
        child_in=fetched * at_child / child.write_bytes_per_cycle,
        child_out=stored * at_child / child.read_bytes_per_cycle,
        lanes=stored * 8 / tensor.bits / timing.vector_lanes if passes_lanes else zero,
    )


def padding(row_bytes: FloatArray, level: LevelTiming) -> FloatArray:
    """Factor by which rows of a tile grow when each is rounded up to the level's least transfer."""
    least = level.min_transfer_bytes
    if least == 1:
        return np.ones_like(row_bytes)
    return np.ceil(row_bytes / least) * least / row_bytes


def has_cached_path(counts: Counts, timing: Timing) -> bool:
    """Whether a cache stands on the way of a transfer that the mapping does not place in it."""
    num_levels = len(timing.levels)
    return any(
        level.is_cache
        for transfer in counts.transfers
        for level in timing.levels[transfer.parent + 1 : min(transfer.child, num_levels)]
    )


def _parent_cycles(
    op: Op,
    row: FloatArray,
    fetched: FloatArray,
    stored: FloatArray,
    distinct: FloatArray,
    parent: LevelTiming,
    caches: Sequence[LevelTiming],
    warm_caches: bool,
) -> tuple[FloatArray, FloatArray]:
    """Cycles per refill of reading and writing at the parent, or at the cache that stands for it.

    A cache serves an op when all of its tensors fit; then each byte comes from the parent once, or not at
    all when the cache is warm. Otherwise it passes everything through, and a row written in part is fetched
    first (write-allocate).
    """
    footprint = sum(op.tensor_bytes(tensor) for tensor in op.tensors)
    wide = padding(row, parent)
    cache = next((level for level in reversed(caches) if level.capacity_bytes >= footprint), None)
    if cache is None:
        allocated = stored if caches else 0.0
        reads = (fetched + allocated) * wide / parent.read_bytes_per_cycle
        return reads, stored * wide / parent.write_bytes_per_cycle
    near = padding(row, cache)
    missed = 0.0 if warm_caches else distinct
    read_misses, write_misses = np.minimum(missed, fetched), np.minimum(missed, stored)
    reads = (fetched - read_misses) * near / cache.read_bytes_per_cycle
    writes = (stored - write_misses) * near / cache.write_bytes_per_cycle
    return (
        reads + read_misses * wide / parent.read_bytes_per_cycle,
        writes + write_misses * wide / parent.write_bytes_per_cycle,
    )


def _moved_anew(
    nest: Nest, pieces: Pieces, tensor: Tensor, holder: Holder, child: LevelTiming, refills: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Refills and elements moved when tiles are not kept, or are moved as whole boxes."""
    if not child.keeps_tiles:
        refills = time_steps(nest, pieces, holder.num_loops)
    elements: FloatArray | float = 1.0
    own_steps: FloatArray | float = 1.0
    for dim in sorted(tensor.dims):
        loops = nest.over(dim, holder.num_loops)
        in_time: dict[int, Choice] = {idx: nest.loops[idx].axis is None for idx in loops}
        own_steps = own_steps * pieces.visits(loops, dim, in_time)
    for axis in tensor.axes:
        if not axis.is_sliding:
            elements = elements * float(nest.op.sizes[axis.terms[0][0]])
            continue
        (dim_a, coef_a), (dim_b, coef_b) = axis.terms
        if child.skips_holes:
            common = int(np.gcd(coef_a, coef_b))
            hang_a = pieces.overhang(nest.over(dim_a, holder.num_loops), dim_a, {}, coef_b // common)
            hang_b = pieces.overhang(nest.over(dim_b, holder.num_loops), dim_b, {}, coef_a // common)
            elements = elements * (float(nest.op.sizes[dim_a] * nest.op.sizes[dim_b]) - hang_a * hang_b)
            continue
        num_a, num_b = _num_pieces(nest, pieces, dim_a, holder), _num_pieces(nest, pieces, dim_b, holder)
        long_a, long_b = coef_a * float(nest.op.sizes[dim_a]), coef_b * float(nest.op.sizes[dim_b])
        elements = elements * (long_a * num_b + long_b * num_a - (coef_a + coef_b - 1) * num_a * num_b)
    copies: FloatArray | float = 1.0
    for idx in range(holder.num_loops):
        if nest.loops[idx].axis is not None and nest.loops[idx].dim not in tensor.dims:
            copies = copies * pieces.bounds[idx]
    return refills, elements * copies * refills / own_steps


def _num_pieces(nest: Nest, pieces: Pieces, dim: str, holder: Holder) -> FloatArray | float:
    loops = nest.over(dim, holder.num_loops)
    return pieces.visits(loops, dim, dict.fromkeys(loops, True)) if loops else 1.0


def _row_bytes(nest: Nest, pieces: Pieces, tensor: Tensor, holder: Holder) -> FloatArray:
    """Bytes of a tile along the tensor's last axis, the one that is contiguous in memory."""
    length: FloatArray | float = 1.0
    for dim, coefficient in tensor.axes[-1].terms if tensor.axes else ():
        idx = nest.innermost(dim, holder.num_loops)
        extent = pieces.tiles[idx] if idx >= 0 else float(nest.op.sizes[dim])
        length = length + coefficient * (extent - 1)
    return np.broadcast_to(np.asarray(length * tensor.bits / 8), (pieces.batch,))
