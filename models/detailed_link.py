"""One tensor between two memories: bytes moved, rows rounded up, and the caches on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..archdsl import DimClass, Op, Tensor, TensorAxis, TensorRole
from .counts import Counts, Transfer
from .detailed_array import time_steps
from .detailed_timing import LevelTiming, Timing
from .nest import FloatArray, Holder, Nest
from .pieces import Choice, Pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One tensor between two memories; times are cycles per refill, [batch].

    Attributes:
        child: Level that is refilled.
        is_output: Whether the tensor is the op's output.
        overlaps: Whether the refill hides behind computation.
        refills: How often, over the whole run.
        parent_in: Reading at the parent, or at a cache that stands for it.
        parent_out: Writing there.
        parent_shared: Both together, where reads and writes take turns; else 0.
        child_in: Writing at the child.
        child_out: Reading at the child.
        lanes: Passing the vector unit on the way out.
    """

    child: int
    is_output: bool
    overlaps: bool
    refills: FloatArray
    parent_in: FloatArray
    parent_out: FloatArray
    parent_shared: FloatArray
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
    rows = _rows(counts.nest, pieces, tensor, holder, parent, transfer.parent_bytes * 8 + zero)
    each = scale / refills
    taken = each * (transfer.sent_back if is_output else transfer.delivered)
    given = each * transfer.delivered if is_output else zero
    fetched = taken * transfer.parent_bytes
    stored = given * transfer.parent_bytes - transfer.narrowed_bytes / refills
    caches = [level for level in timing.levels[transfer.parent + 1 : transfer.child] if level.is_cache]
    served = _served(op, tensor, rows, fetched, stored, refills, parent, caches, warm_caches)
    times = [cycles / counts.instances[transfer.parent] for cycles in served]
    there = rows.scaled(transfer.child_bytes / transfer.parent_bytes)
    at_child = there.padding(child) * transfer.filled / transfer.delivered / counts.instances[transfer.child]
    at_child = at_child * transfer.child_bytes
    passes_lanes = timing.vector_lanes > 0 and transfer.parent == 0
    return Link(
        child=transfer.child,
        is_output=is_output,
        overlaps=child.double_buffered,
        refills=refills,
        parent_in=times[0],
        parent_out=times[1],
        parent_shared=times[2],
        child_in=taken * at_child / child.write_bytes_per_cycle,
        child_out=given * at_child / child.read_bytes_per_cycle,
        lanes=given / timing.vector_lanes if passes_lanes else zero,
    )


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a tile: its stretches of neighbours in memory.

    Attributes:
        length_bytes: Bytes of a row, [batch].
        step_bytes: What the rows' first bytes are multiples of, [batch]; 0 where all rows begin at a line.
    """

    length_bytes: FloatArray
    step_bytes: FloatArray

    def scaled(self, factor: FloatArray) -> Rows:
        """The same rows of wider or narrower elements."""
        return Rows(self.length_bytes * factor, np.floor(self.step_bytes * factor))

    def padding(self, level: LevelTiming) -> FloatArray:
        """Factor by which a row grows when it moves in whole lines of the level.

        Where the step is no multiple of the line, rows start anywhere: at multiples of `g`, their greatest
        common divisor, so that a row of `n` bytes touches `(n + line - g) / line` lines on average.
        """
        line = level.min_transfer_bytes
        if line == 1:
            return np.ones_like(self.length_bytes)
        step = np.gcd(self.step_bytes.astype(np.int64), line)
        lines = np.maximum(np.ceil(self.length_bytes / line), (self.length_bytes + line - step) / line)
        return lines * line / self.length_bytes


def has_cached_path(counts: Counts, timing: Timing) -> bool:
    """Whether a cache stands on the way of a transfer that the mapping does not place in it."""
    num_levels = len(timing.levels)
    return any(
        level.is_cache
        for transfer in counts.transfers
        for level in timing.levels[transfer.parent + 1 : min(transfer.child, num_levels)]
    )


def _served(
    op: Op,
    tensor: Tensor,
    rows: Rows,
    fetched: FloatArray,
    stored: FloatArray,
    refills: FloatArray,
    parent: LevelTiming,
    caches: Sequence[LevelTiming],
    warm_caches: bool,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Cycles per refill of reading, of writing, and of both at ports where they take turns.

    A tensor that a cache holds is served by it; each of its bytes comes from further out once, or not at all
    when the cache is warm. A tensor that none holds passes through, and what is written is fetched first
    (write-allocate). Requests are served in order, so that the times at different memories add.
    """
    zero = np.zeros_like(rows.length_bytes)
    cache = next((level for level in reversed(caches) if tensor.name in resident(op, level)), None)
    if cache is None:
        parts = [(parent, fetched + stored if caches else fetched, stored)]
    else:
        distinct = zero if warm_caches else zero + op.tensor_bytes(tensor) / refills
        first_in, first_out = np.minimum(distinct, fetched), np.minimum(distinct, stored)
        parts = [(cache, fetched - first_in, stored - first_out), (parent, first_in, first_out)]
    reads, writes, shared = zero, zero, zero
    for level, fetch, store in parts:
        wide = rows.padding(level)
        read = fetch * wide / level.read_bytes_per_cycle
        write = store * wide / level.write_bytes_per_cycle
        reads, writes = reads + read, writes + write
        shared = shared + (read + write if level.shares_port else 0.0)
    return reads, writes, shared


def resident(op: Op, cache: LevelTiming) -> frozenset[str]:
    """Tensors of an op that a cache holds whole: the smallest ones, as long as they fit together."""
    left = cache.capacity_bytes
    names: set[str] = set()
    for tensor in sorted(op.tensors, key=op.tensor_bytes):
        left -= op.tensor_bytes(tensor)
        if left >= 0:
            names.add(tensor.name)
    return frozenset(names)


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
            hang_a = pieces.overhang(nest.over(dim_a, holder.num_loops), dim_a, coef_b // common)
            hang_b = pieces.overhang(nest.over(dim_b, holder.num_loops), dim_b, coef_a // common)
            elements = elements * (float(nest.op.sizes[dim_a] * nest.op.sizes[dim_b]) - hang_a * hang_b)
            continue
        num_a, num_b = _num_pieces(nest, pieces, dim_a, holder), _num_pieces(nest, pieces, dim_b, holder)
        long_a, long_b = coef_a * float(nest.op.sizes[dim_a]), coef_b * float(nest.op.sizes[dim_b])
        # A box of whole strides: `stride * outputs + kernel - 1` columns where the dilation is 1.
        elements = elements * (long_a * num_b + long_b * num_a - min(coef_a, coef_b) * num_a * num_b)
    copies: FloatArray | float = 1.0
    for idx in range(holder.num_loops):
        if nest.loops[idx].axis is not None and nest.loops[idx].dim not in tensor.dims:
            copies = copies * pieces.bounds[idx]
    return refills, elements * copies * refills / own_steps


def _num_pieces(nest: Nest, pieces: Pieces, dim: str, holder: Holder) -> FloatArray | float:
    loops = nest.over(dim, holder.num_loops)
    return pieces.visits(loops, dim, dict.fromkeys(loops, True)) if loops else 1.0


@dataclass(frozen=True, slots=True)
class _Extent:
    """A tensor's axis.

    Attributes:
        tile: Extent of a tile, what a strided window jumps over included, [batch].
        starts: What the tiles' first places are multiples of, [batch]; 0 where there is one tile.
        size: Extent of the tensor.
    """

    tile: FloatArray
    starts: FloatArray
    size: int


def _rows(nest: Nest, pieces: Pieces, tensor: Tensor, holder: Holder, parent: LevelTiming, bits: FloatArray) -> Rows:
    """Rows of a tile as they stand in `parent`, in elements of some bits: along the last axis, unless the memory has a layout of its own."""
    scale, zero = bits / 8, np.zeros(pieces.batch)
    extents = [_extent(nest, pieces, axis, holder) for axis in tensor.axes]
    if parent.packs_weights and tensor.role is TensorRole.WEIGHT:
        return Rows(np.multiply.reduce([zero + scale, *(extent.tile for extent in extents)]), zero)
    if parent.channels_last and tensor.role is not TensorRole.WEIGHT:
        return _pixel_rows(nest.op, tensor, extents, bits)
    last = extents[-1] if extents else _Extent(zero + 1, zero, 1)
    return Rows(last.tile * scale, np.maximum(np.ceil(last.size * scale), 1.0))


def _pixel_rows(op: Op, tensor: Tensor, extents: Sequence[_Extent], element_bits: FloatArray) -> Rows:
    """Rows of an activation that stands channels last: neighbours along channels, then, where a tile has all, columns."""
    is_channel = [not axis.is_sliding and op.dim_class(axis.terms[0][0]) is not DimClass.PIXEL for axis in tensor.axes]
    channels = [extent for extent, is_one in zip(extents, is_channel, strict=True) if is_one]
    pixels = [extent for extent, is_one in zip(extents, is_channel, strict=True) if not is_one]
    zero = np.zeros_like(element_bits)
    length, is_whole, bits, step_bits = element_bits, zero == 0, element_bits.astype(np.int64), zero
    for extent in reversed(channels):
        step_bits = np.where(is_whole, extent.starts * bits, step_bits)
        length = np.where(is_whole, length * extent.tile, length)
        is_whole, bits = is_whole & (extent.tile >= extent.size), bits * extent.size
    # Rows that hold a part of the channels begin at some pixel.
    step_bits = np.where(is_whole, step_bits, np.gcd(step_bits.astype(np.int64), bits))
    if pixels:
        step_bits = np.where(is_whole, pixels[-1].starts * bits, step_bits)
        length = np.where(is_whole, length * pixels[-1].tile, length)
    return Rows(length / 8, np.where(step_bits > 0, np.maximum(np.floor(step_bits / 8), 1), 0))


def _extent(nest: Nest, pieces: Pieces, axis: TensorAxis, holder: Holder) -> _Extent:
    tile, starts, size = np.ones(pieces.batch), np.zeros(pieces.batch), 1
    for dim, coefficient in axis.terms:
        idx, whole = nest.innermost(dim, holder.num_loops), nest.op.sizes[dim]
        here = pieces.tiles[idx] if idx >= 0 else np.full(pieces.batch, float(whole))
        tile = tile + coefficient * (here - 1)
        step = np.where(here < whole, coefficient * here, 0).astype(np.int64)
        starts = np.gcd(starts.astype(np.int64), step).astype(np.float64)
        size += coefficient * (whole - 1)
    return _Extent(tile, starts, size)
