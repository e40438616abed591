"""The counting core: how many elements every level reads and writes, in closed form over a batch.

The definition is docs/counting.md. Everything factorises per dim: the number of pieces that a dim's
loops cut it into, and for sliding windows the sum over pieces of their overhang. A batch is an array
of tile sizes for one loop structure; a single mapping is a batch of one and gives the same bits,
because all counts are integers held exactly in float64 (below 2^53).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from ..archdsl import Tensor, TensorRole
from .conventions import Convention
from .nest import FloatArray, Holder, Nest, sliding_axes
from .pieces import AlignedPieces, BoolArray, Choice, Pieces, RaggedPieces, either

BLOCK = 16384
"""Mappings evaluated together: intermediate arrays then stay in a core's second-level cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
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
    """

    tensor: int
    parent: int
    child: int
    filled: FloatArray
    delivered: FloatArray
    sent_back: FloatArray
    refills: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
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
    read_bytes: tuple[tuple[FloatArray, ...], ...]
    write_bytes: tuple[tuple[FloatArray, ...], ...]
    tile_bytes: tuple[tuple[FloatArray, ...], ...]
    steps: FloatArray
    instances: tuple[FloatArray, ...]
    macs: int
    transfers: tuple[Transfer, ...]


def count(nest: Nest, tiles: FloatArray, convention: Convention) -> Counts:
    """Counts every access of a batch of mappings.

    Args:
        nest: Structure of the mappings.
        tiles: Tile of each loop, shape [loops, batch]; a tile never exceeds the next outer one of its dim.
        convention: The counting convention.

    Returns:
        Counts with arrays of shape [batch].
    """
    pieces = make_pieces(nest, tiles)
    counter = _Counter(nest, pieces, convention)
    return counter.run()


def make_pieces(nest: Nest, tiles: FloatArray) -> Pieces:
    """Per-dim piece statistics of a batch, in the cheap form when no tile is ragged."""
    sizes = nest.op.sizes
    outer = [tiles[o] if o >= 0 else float(sizes[loop.dim]) for o, loop in zip(nest.outer, nest.loops, strict=True)]
    bounds = [np.ceil(x / t) for x, t in zip(outer, tiles, strict=True)]
    is_aligned = all(bool(np.all(b * t == x)) for b, t, x in zip(bounds, tiles, outer, strict=True))
    kind = AlignedPieces if is_aligned else RaggedPieces
    return kind(nest, tiles, outer, bounds)


class _Counter:
    """Evaluates one batch; holds what the transfers share."""

    def __init__(self, nest: Nest, pieces: Pieces, convention: Convention) -> None:
        self.nest = nest
        self.pieces = pieces
        self.convention = convention
        self.compute = len(nest.hierarchy.levels)
        self.zeros = np.zeros(pieces.batch)

    def run(self) -> Counts:
        op = self.nest.op
        shape = (self.compute, len(op.tensors))
        reads = [[self.zeros] * shape[1] for _ in range(shape[0])]
        writes = [[self.zeros] * shape[1] for _ in range(shape[0])]
        held = [[self.zeros] * shape[1] for _ in range(shape[0])]
        transfers: list[Transfer] = []
        for t_idx, tensor in enumerate(op.tensors):
            chain = self.nest.holders[t_idx]
            scale = tensor.bits / 8
            starts: FloatArray | float = float(op.elements(tensor))
            for parent, child in itertools.pairwise(chain):
                if child.level < self.compute:
                    tile = self.tile_elements(tensor, child) * scale
                    # Tiles of elements that are no whole number of bytes end at a byte.
                    held[child.level][t_idx] = held[child.level][t_idx] + (np.ceil(tile) if tensor.bits % 8 else tile)
                if tensor.role is TensorRole.OUTPUT:
                    moved, starts = self.output_transfer(t_idx, parent, child, starts, reads, writes)
                else:
                    moved = self.input_transfer(t_idx, parent, child)
                    _add(reads, parent.level, t_idx, moved.delivered, scale)
                    if child.level < self.compute:
                        _add(writes, child.level, t_idx, moved.filled, scale)
                transfers.append(moved)
        return Counts(
            nest=self.nest,
            read_bytes=tuple(map(tuple, reads)),
            write_bytes=tuple(map(tuple, writes)),
            tile_bytes=tuple(map(tuple, held)),
            steps=self.steps(),
            instances=self.instances(),
            macs=op.macs,
            transfers=tuple(transfers),
        )

    def input_transfer(self, t_idx: int, parent: Holder, child: Holder) -> Transfer:
        tensor = self.nest.op.tensors[t_idx]
        walk = self.walk(tensor, parent, child)
        shared = [
            idx
            for idx in range(parent.num_loops, child.num_loops)
            if (axis := self.nest.loops[idx].axis) is not None and axis.multicast
        ]
        filled = self.moved(tensor, child, walk.counted, walk.slides)
        delivered = filled
        if shared:
            counted = {**walk.counted, **dict.fromkeys(shared, False)}
            delivered = self.moved(tensor, child, counted, walk.slides, self.merge_shared(tensor, child, shared))
        return Transfer(
            tensor=t_idx,
            parent=parent.level,
            child=child.level,
            filled=filled,
            delivered=delivered,
            sent_back=self.zeros,
            refills=self.refills(tensor, child, walk.counted),
        )

    def output_transfer(
        self,
        t_idx: int,
        parent: Holder,
        child: Holder,
        starts: FloatArray | float,
        reads: list[list[FloatArray]],
        writes: list[list[FloatArray]],
    ) -> tuple[Transfer, FloatArray]:
        tensor = self.nest.op.tensors[t_idx]
        scale = tensor.bits / 8
        walk = self.walk(tensor, parent, child)
        between = [idx for idx in range(parent.num_loops, child.num_loops) if self.nest.loops[idx].axis is not None]
        reduced = [idx for idx in between if (axis := self.nest.loops[idx].axis) is not None and axis.reduction]
        filled = self.moved(tensor, child, walk.counted, walk.slides)
        arrivals = self._grouped(tensor, child, walk, reduced, filled)
        groups = self._groups(tensor, child, walk, between, reduced, arrivals)
        back, sent = returned_sums(self.convention, op_elements(self.nest, tensor), filled, arrivals, groups, starts)
        is_compute = child.level == self.compute
        _add(writes, parent.level, t_idx, arrivals, scale)
        _add(reads, parent.level, t_idx, back, scale)
        if not is_compute:
            _add(writes, child.level, t_idx, sent, scale)
            drained = filled if self.convention.final_drain_is_read else filled - op_elements(self.nest, tensor)
            _add(reads, child.level, t_idx, drained, scale)
        moved = Transfer(
            tensor=t_idx,
            parent=parent.level,
            child=child.level,
            filled=filled,
            delivered=arrivals,
            sent_back=back,
            refills=self.refills(tensor, child, walk.counted),
        )
        return moved, filled - sent

    def _grouped(self, tensor: Tensor, child: Holder, walk: _Walk, once: list[int], filled: FloatArray) -> FloatArray:
        """Elements moved when instances along the loops `once` count as one unless they index the tensor."""
        once = [idx for idx in once if self.nest.loops[idx].dim not in tensor.dims]
        if not once:
            return filled
        return self.moved(tensor, child, {**walk.counted, **dict.fromkeys(once, False)}, walk.slides)

    def _groups(
        self, tensor: Tensor, child: Holder, walk: _Walk, between: list[int], reduced: list[int], arrivals: FloatArray
    ) -> FloatArray:
        """Distinct output elements per fill step and parent instance."""
        merged = self.merge_shared(tensor, child, between)
        if not merged and len(reduced) == len(between):
            return arrivals
        once = [idx for idx in between if self.nest.loops[idx].dim not in tensor.dims]
        return self.moved(tensor, child, {**walk.counted, **dict.fromkeys(once, False)}, walk.slides, merged)

    def walk(self, tensor: Tensor, parent: Holder, child: Holder) -> _Walk:
        """Decides, from the child outward, which loops refill its tile and where windows slide."""
        nest, bounds = self.nest, self.pieces.bounds
        is_compute = child.level == self.compute
        has_latch = self.convention.register_reads == "per_refill" and tensor.role is not TensorRole.OUTPUT
        every_step = is_compute and not has_latch
        counted: dict[int, Choice] = {}
        slides: dict[int, Choice] = {}
        still: Choice = not every_step
        for idx in reversed(range(child.num_loops)):
            loop = nest.loops[idx]
            if loop.axis is not None or every_step:
                counted[idx] = True
                continue
            if loop.dim not in tensor.dims:
                counted[idx] = negate(still)
                continue
            counted[idx] = True
            if still is False:
                continue
            if not is_compute:
                slides[idx] = self._slide(tensor, parent, child, idx, still)
            still = narrow(still, bounds[idx] == 1)
        return _Walk(counted, slides)

    def _slide(self, tensor: Tensor, parent: Holder, child: Holder, idx: int, still: Choice) -> Choice:
        """Where loop `idx` is a refill loop whose windows slide."""
        dim = self.nest.loops[idx].dim
        axis_dims = next(({a, b} for (a, _), (b, _) in sliding_axes(tensor) if dim in (a, b)), None)
        if axis_dims is None or tensor.role is TensorRole.OUTPUT:
            return False
        bounds = self.pieces.bounds
        mask = narrow(still, bounds[idx] > 1)
        for other in range(child.num_loops):
            loop = self.nest.loops[other]
            is_between = other >= parent.num_loops and loop.dim in axis_dims
            if loop.axis is not None and (is_between or (other > idx and loop.dim == dim)):
                mask = narrow(mask, bounds[other] == 1)
        return mask

    def merge_shared(self, tensor: Tensor, child: Holder, shared: list[int]) -> dict[int, Choice]:
        """Which loops do not cut a window, because spatial neighbours that lie side by side share its overlap."""
        merged: dict[int, Choice] = {}
        for (dim_a, _), (dim_b, _) in sliding_axes(tensor):
            for dim in (dim_a, dim_b):
                side_by_side: Choice = True
                loops = self.nest.over(dim, child.num_loops)
                for idx in reversed(loops):
                    if idx not in shared:
                        side_by_side = narrow(side_by_side, self.pieces.bounds[idx] == 1)
                        continue
                    for inner in loops:
                        if inner >= idx:
                            merged[inner] = either(merged.get(inner, False), side_by_side)
        return merged

    def moved(
        self,
        tensor: Tensor,
        child: Holder,
        counted: dict[int, Choice],
        slides: dict[int, Choice],
        merged: dict[int, Choice] | None = None,
    ) -> FloatArray:
        """Elements of the child's tile summed over the counted loops.

        Args:
            tensor: The tensor.
            child: Whose tile.
            counted: Per loop above the child whether its pieces are visited or stay at the first.
            slides: Per loop where it slides over windows.
            merged: Per loop where it does not cut windows.
        """
        nest, sizes = self.nest, self.nest.op.sizes
        total: FloatArray | float = 1.0
        for (dim_a, over_a), (dim_b, over_b) in sliding_axes(tensor):
            overhang_a = self._overhang(dim_a, child, slides, merged or {}, over_a)
            overhang_b = self._overhang(dim_b, child, slides, merged or {}, over_b)
            total = total * (float(sizes[dim_a] * sizes[dim_b]) - overhang_a * overhang_b)
        plain = [axis.terms[0][0] for axis in tensor.axes if not axis.is_sliding]
        total = total * float(math.prod(sizes[dim] for dim in plain))
        for dim in sizes:
            if dim not in tensor.dims:
                loops = nest.over(dim, child.num_loops)
                if any(counted[idx] is not False for idx in loops):
                    total = total * self.pieces.visits(loops, dim, counted)
        return np.broadcast_to(np.asarray(total), (self.pieces.batch,))

    def _overhang(
        self, dim: str, child: Holder, slides: dict[int, Choice], merged: dict[int, Choice], threshold: int
    ) -> FloatArray | float:
        loops = self.nest.over(dim, child.num_loops)
        total = self.pieces.overhang(loops, dim, merged, threshold)
        for position, idx in enumerate(loops):
            where = slides.get(idx, False)
            if where is not False:
                total = np.where(where, self.pieces.sliding_overhang(loops[: position + 1], dim, threshold), total)
        return total

    def refills(self, tensor: Tensor, child: Holder, counted: dict[int, Choice]) -> FloatArray:
        """Steps in time at which the child's tile changes; at least 1."""
        in_time = {idx: choice if self.nest.loops[idx].axis is None else False for idx, choice in counted.items()}
        total: FloatArray = np.ones(self.pieces.batch)
        for dim, _ in self.nest.op.dims:
            loops = self.nest.over(dim, child.num_loops)
            if any(in_time[idx] is not False for idx in loops):
                total = total * self.pieces.visits(loops, dim, in_time)
        return total

    def tile_elements(self, tensor: Tensor, holder: Holder) -> FloatArray | float:
        """Elements of the largest tile of a tensor at a holder."""
        total: FloatArray | float = 1.0
        sliding = iter(sliding_axes(tensor))
        for axis in tensor.axes:
            if axis.is_sliding:
                (dim_a, over_a), (dim_b, over_b) = next(sliding)
                a, b = self._extent(dim_a, holder), self._extent(dim_b, holder)
                total = total * (a * b - np.maximum(a - over_a, 0) * np.maximum(b - over_b, 0))
            else:
                total = total * self._extent(axis.terms[0][0], holder)
        return total

    def _extent(self, dim: str, holder: Holder) -> FloatArray | float:
        idx = self.nest.innermost(dim, holder.num_loops)
        return self.pieces.tiles[idx] if idx >= 0 else float(self.nest.op.sizes[dim])

    def steps(self) -> FloatArray:
        in_time: dict[int, Choice] = {idx: loop.axis is None for idx, loop in enumerate(self.nest.loops)}
        total: FloatArray = np.ones(self.pieces.batch)
        for dim, _ in self.nest.op.dims:
            loops = self.nest.over(dim, len(self.nest.loops))
            if loops:
                total = total * self.pieces.visits(loops, dim, in_time)
        return total

    def instances(self) -> tuple[FloatArray, ...]:
        depths = [level.num_fanouts for level in self.nest.hierarchy.levels]
        depths.append(self.nest.hierarchy.num_fanouts)
        found: list[FloatArray] = []
        for depth in depths:
            active: dict[int, Choice] = {
                idx: loop.axis is not None and loop.axis.fanout_idx < depth for idx, loop in enumerate(self.nest.loops)
            }
            total: FloatArray = np.ones(self.pieces.batch)
            for dim, _ in self.nest.op.dims:
                loops = self.nest.over(dim, len(self.nest.loops))
                if any(active[idx] for idx in loops):
                    total = total * self.pieces.visits(loops, dim, active)
            found.append(total)
        return tuple(found)


def op_elements(nest: Nest, tensor: Tensor) -> float:
    """Distinct elements of a whole tensor."""
    return float(nest.op.elements(tensor))


@overload
def returned_sums(
    convention: Convention,
    elements: float,
    filled: FloatArray,
    arrivals: FloatArray,
    groups: FloatArray,
    starts: FloatArray | float,
) -> tuple[FloatArray, FloatArray]: ...
@overload
def returned_sums(
    convention: Convention,
    elements: float,
    filled: FloatArray | float,
    arrivals: FloatArray | float,
    groups: FloatArray | float,
    starts: FloatArray | float,
) -> tuple[FloatArray | float, FloatArray | float]: ...
def returned_sums(
    convention: Convention,
    elements: float,
    filled: FloatArray | float,
    arrivals: FloatArray | float,
    groups: FloatArray | float,
    starts: FloatArray | float,
) -> tuple[FloatArray | float, FloatArray | float]:
    """Partial sums that the parent reads, and those written into the child.

    Args:
        convention: The counting convention.
        elements: Distinct elements of the output.
        filled: Elements of the child's tile over all refills and instances.
        arrivals: Elements that reach the parent.
        groups: Elements per fill step with each reduction group counted once.
        starts: Elements that start from nothing at the parent.
    """
    back = arrivals - starts
    is_one = convention.partial_sum_refills == "one"
    if not convention.first_accumulation_reads:
        return back, groups - starts if is_one else filled - starts * filled / arrivals
    is_partial = arrivals > elements
    return np.where(is_partial, arrivals, 0.0), np.where(is_partial, groups if is_one else filled, 0.0)


@dataclass(frozen=True, slots=True)
class _Walk:
    """Which loops refill a child's tile, and over which its windows slide."""

    counted: dict[int, Choice]
    slides: dict[int, Choice]


def _add(table: list[list[FloatArray]], level: int, tensor: int, elements: FloatArray, scale: float) -> None:
    table[level][tensor] = table[level][tensor] + elements * scale


def negate(choice: Choice) -> Choice:
    """The opposite of a choice."""
    return (not choice) if isinstance(choice, bool) else ~choice


def narrow(choice: Choice, mask: BoolArray) -> Choice:
    """`choice and mask`, folded to False or True where it is so for the whole batch."""
    if choice is False:
        return False
    both: npt.NDArray[np.bool_] = mask if choice is True else mask & choice
    if not both.any():
        return False
    return True if both.all() else both
