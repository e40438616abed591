"""The counting core: how many elements every level reads and writes, in closed form.

The definition is docs/counting.md. Everything factorises per dim: the number of pieces that a dim's
loops cut it into, and for sliding windows the sum over pieces of their overhang (`cuts.py`). What holds
for some mappings of a batch only is chosen by `min` and `max` alone: a gate is 1 where it is closed and
out of reach of any count where it is open, and what an open gate lets through is always the larger.

The core is written once for one mapping, a batch, and a batch to come (`amounts.py`). All three give the
same bits, because all counts are integers held exactly in float64 (below 2^53).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

from ..archdsl import Op, Tensor, TensorRole
from .amounts import Amount, larger, rounded_up, smaller
from .conventions import Convention
from .counts import Counts, Transfer
from .cuts import UNREACHED, Cuts, excess_of
from .hierarchy import AxisInfo, Hierarchy
from .nest import FloatArray, Holder, Nest, sliding_axes

OPEN, CLOSED = math.inf, 1.0
"""Gates that are the same for every mapping."""


def count_amounts(nest: Nest, cuts: Cuts, convention: Convention) -> Counts[Amount]:
    """Counts every access of mappings in any form; see `batches.count`."""
    return _Counter(nest, cuts, convention).run()


class _Info:
    """What is asked of a tensor again and again.

    Attributes:
        tensor: The tensor.
        is_output: Whether it is the op's output.
        dims: Dims that index it.
        others: Dims that do not, in the op's order, less those of size 1.
        sliding: Its sliding axes, see `sliding_axes`.
        partner: Per dim on a sliding axis both dims of that axis.
        plain: Elements along all other axes together.
        elements: Distinct elements.
        element_bytes: Bytes of one; may be a fraction.
    """

    def __init__(self, nest: Nest, tensor: Tensor) -> None:
        sizes = nest.op.sizes
        self.tensor = tensor
        self.is_output = tensor.role is TensorRole.OUTPUT
        self.dims = tensor.dims
        self.others = tuple(dim for dim, size in nest.op.dims if dim not in self.dims and size > 1)
        self.sliding = sliding_axes(tensor)
        self.partner = {dim: {a, b} for (a, _), (b, _) in self.sliding for dim in (a, b)}
        self.plain = float(math.prod(sizes[axis.terms[0][0]] for axis in tensor.axes if not axis.is_sliding))
        self.elements = float(nest.op.elements(tensor))
        self.element_bytes = tensor.bits / 8


@dataclass(frozen=True, slots=True)
class _Walk:
    """Which loops above a child refill its tile, and where its windows slide.

    Attributes:
        gates: Per loop a gate: open where each of its steps refills.
        blocks: Per loop over which windows may slide a gate that is closed where they do.
    """

    gates: dict[int, Amount]
    blocks: dict[int, Amount]


@dataclass(frozen=True, slots=True)
class _Move:
    """What moves of the output between two holders, in elements.

    Attributes:
        filled: Of the child's tile over all refills and instances.
        arrivals: That reach the parent.
        back: Partial sums that the parent reads.
        sent: Partial sums written into the child.
        refills: Steps in time at which the child's tile changes.
    """

    filled: Amount
    arrivals: Amount
    back: Amount
    sent: Amount
    refills: Amount


_Uncut = Mapping[str, Sequence[tuple[int, Amount]]]
"""Per dim the loops from which inward nothing cuts a window, with a gate that is closed where it is so."""


class _Counter:
    """Counts one form of mappings; holds what the transfers share."""

    def __init__(self, nest: Nest, cuts: Cuts, convention: Convention) -> None:
        self.nest = nest
        self.cuts = cuts
        self.convention = convention
        self.compute = len(nest.hierarchy.levels)
        self.sizes = {dim: float(size) for dim, size in nest.op.dims}
        self.infos = [_Info(nest, tensor) for tensor in nest.op.tensors]
        shape = (self.compute, len(self.infos))
        self.reads: list[list[Amount]] = [[0.0] * shape[1] for _ in range(shape[0])]
        self.writes: list[list[Amount]] = [[0.0] * shape[1] for _ in range(shape[0])]
        self.sum_bytes = sum_bytes_of(nest.op, nest.hierarchy, convention)

    def run(self) -> Counts[Amount]:
        held: list[list[Amount]] = [[0.0] * len(self.infos) for _ in range(self.compute)]
        transfers: list[Transfer[Amount]] = []
        for t_idx, info in enumerate(self.infos):
            pairs = list(itertools.pairwise(self.nest.holders[t_idx]))
            moves = self.output_moves(info, pairs) if info.is_output else []
            widths = self.widths(info, pairs, moves)
            for at, (parent, child) in enumerate(pairs):
                if child.level < self.compute:
                    tile = self.tile_elements(info, child) * widths[at + 1]
                    # Tiles of elements that are no whole number of bytes end at a byte.
                    tile = rounded_up(tile) if info.tensor.bits % 8 or self.sum_bytes % 1 else tile
                    held[child.level][t_idx] = held[child.level][t_idx] + tile
                if info.is_output:
                    transfers.append(self.output_transfer(t_idx, parent, child, moves[at], widths[at], widths[at + 1]))
                else:
                    transfers.append(self.input_transfer(t_idx, parent, child))
        return Counts(
            nest=self.nest,
            read_bytes=tuple(map(tuple, self.reads)),
            write_bytes=tuple(map(tuple, self.writes)),
            tile_bytes=tuple(map(tuple, held)),
            steps=self.steps(),
            instances=self.instances(),
            macs=self.nest.op.macs,
            transfers=tuple(transfers),
        )

    def widths(self, info: _Info, pairs: Sequence[tuple[Holder, Holder]], moves: Sequence[_Move]) -> list[Amount]:
        """Bytes of one element at every holder of a tensor, the compute unit last.

        A memory into which an output arrives in several goes holds sums that are not finished; one of accumulators always
        holds sums.
        """
        more = self.sum_bytes - info.element_bytes
        if not info.is_output or more <= 0:
            return [info.element_bytes] * (len(pairs) + 1)
        found: list[Amount] = []
        for (parent, _), move in zip(pairs, moves, strict=True):
            if self.nest.hierarchy.levels[parent.level].holds_sums:
                found.append(self.sum_bytes)
            else:
                is_partial = (move.arrivals - info.elements) * UNREACHED
                found.append(smaller(is_partial, more) + info.element_bytes)
        return [*found, found[-1]]

    def input_transfer(self, t_idx: int, parent: Holder, child: Holder) -> Transfer[Amount]:
        info = self.infos[t_idx]
        walk = self.walk(info, parent, child)
        shared = [idx for idx in self.spread(parent, child) if self.axis(idx).multicast]
        filled = self.moved(info, child, walk.gates, walk.blocks, {})
        delivered = filled
        if shared:
            gates = {**walk.gates, **dict.fromkeys(shared, CLOSED)}
            delivered = self.moved(info, child, gates, walk.blocks, self.side_by_side(info, child, shared))
        self.charge(self.reads, parent.level, t_idx, delivered)
        if child.level < self.compute:
            self.charge(self.writes, child.level, t_idx, filled)
        return Transfer(
            tensor=t_idx,
            parent=parent.level,
            child=child.level,
            filled=filled,
            delivered=delivered,
            sent_back=0.0,
            refills=self.refills(child, walk),
            parent_bytes=info.element_bytes,
            child_bytes=info.element_bytes,
            narrowed_bytes=0.0,
        )

    def output_moves(self, info: _Info, pairs: Sequence[tuple[Holder, Holder]]) -> list[_Move]:
        """What moves between the holders of the output, from the outside inward."""
        found: list[_Move] = []
        starts: Amount = info.elements
        for parent, child in pairs:
            found.append(self.output_move(info, parent, child, starts))
            starts = found[-1].filled - found[-1].sent
        return found

    def output_move(self, info: _Info, parent: Holder, child: Holder, starts: Amount) -> _Move:
        """What moves between two holders; `starts` elements start from nothing at the outer one."""
        walk = self.walk(info, parent, child)
        between = self.spread(parent, child)
        outside = [idx for idx in between if self.nest.loops[idx].dim not in info.dims]
        reduced = [idx for idx in outside if self.axis(idx).reduction]
        filled = arrivals = groups = self.moved(info, child, walk.gates, {}, {})
        if reduced:
            arrivals = self.moved(info, child, {**walk.gates, **dict.fromkeys(reduced, CLOSED)}, {}, {})
        if between:
            once = {**walk.gates, **dict.fromkeys(outside, CLOSED)}
            groups = self.moved(info, child, once, {}, self.side_by_side(info, child, between))
        first = self.first_instances(info, child)
        back, sent = returned_sums(self.convention, info.elements, filled, arrivals, groups, first, starts)
        return _Move(filled, arrivals, back, sent, self.refills(child, walk))

    def output_transfer(
        self, t_idx: int, parent: Holder, child: Holder, move: _Move, parent_bytes: Amount, child_bytes: Amount
    ) -> Transfer[Amount]:
        info = self.infos[t_idx]
        # Outputs are narrowed when they leave the memory in which they were finished: the outermost one is left by none.
        narrowed: Amount = 0.0
        if parent.level == 0 and self.sum_bytes > info.element_bytes:
            narrowed = (parent_bytes - info.element_bytes) * info.elements
        self.charge_bytes(self.writes, parent.level, t_idx, move.arrivals * parent_bytes - narrowed)
        self.charge_bytes(self.reads, parent.level, t_idx, move.back * parent_bytes)
        if child.level < self.compute:
            self.charge_bytes(self.writes, child.level, t_idx, move.sent * child_bytes)
            drained = move.filled if self.convention.final_drain_is_read else move.filled - info.elements
            self.charge_bytes(self.reads, child.level, t_idx, drained * child_bytes)
        return Transfer(
            tensor=t_idx,
            parent=parent.level,
            child=child.level,
            filled=move.filled,
            delivered=move.arrivals,
            sent_back=move.back,
            refills=move.refills,
            parent_bytes=parent_bytes,
            child_bytes=child_bytes,
            narrowed_bytes=narrowed,
        )

    def charge_bytes(self, table: list[list[Amount]], level: int, t_idx: int, num_bytes: Amount) -> None:
        table[level][t_idx] = table[level][t_idx] + num_bytes

    def charge(self, table: list[list[Amount]], level: int, t_idx: int, elements: Amount) -> None:
        table[level][t_idx] = table[level][t_idx] + elements * self.infos[t_idx].element_bytes

    def spread(self, parent: Holder, child: Holder) -> list[int]:
        """Spatial loops between two holders."""
        return [idx for idx in range(parent.num_loops, child.num_loops) if self.nest.loops[idx].axis is not None]

    def axis(self, idx: int) -> AxisInfo:
        """Axis of a spatial loop."""
        axis = self.nest.loops[idx].axis
        assert axis is not None
        return axis

    def walk(self, info: _Info, parent: Holder, child: Holder) -> _Walk:
        """Decides, from the child outward, which loops refill its tile and where windows slide."""
        is_compute = child.level == self.compute
        has_latch = self.convention.register_reads == "per_refill" and not info.is_output
        gates: dict[int, Amount] = dict.fromkeys(range(child.num_loops), OPEN)
        blocks: dict[int, Amount] = {}
        if is_compute and not has_latch:
            return _Walk(gates, blocks)
        gate: Amount = CLOSED
        for idx in reversed(range(child.num_loops)):
            loop = self.nest.loops[idx]
            if loop.axis is not None:
                continue
            if loop.dim not in info.dims:
                gates[idx] = gate
                continue
            if loop.dim in info.partner and not is_compute and not info.is_output and not is_open(gate):
                blocks[idx] = self.block(info, parent, child, idx, gate)
            gate = gate + self.cuts.excess(idx)
        return _Walk(gates, blocks)

    def block(self, info: _Info, parent: Holder, child: Holder, idx: int, gate: Amount) -> Amount:
        """A gate that is closed where windows slide over loop `idx`, from one that says whether it is outside the refill loop."""
        dim = self.nest.loops[idx].dim
        for other in range(child.num_loops):
            loop = self.nest.loops[other]
            is_between = other >= parent.num_loops and loop.dim in info.partner[dim]
            if loop.axis is not None and (is_between or (other > idx and loop.dim == dim)):
                gate = gate + self.cuts.excess(other)
        return gate

    def side_by_side(self, info: _Info, child: Holder, shared: Sequence[int]) -> _Uncut:
        """Where windows are not cut, because spatial neighbours that lie side by side share their overlap."""
        uncut: dict[str, list[tuple[int, Amount]]] = {}
        for dim in info.partner:
            loops = self.cuts.over(dim, child.num_loops)
            gate: Amount = CLOSED
            found = uncut[dim] = []
            for position in reversed(range(len(loops))):
                if loops[position] not in shared:
                    gate = gate + self.cuts.excess(loops[position])
                    continue
                if found and found[-1][1] is gate:
                    found.pop()
                found.append((position, gate))
        return uncut

    def moved(
        self, info: _Info, child: Holder, gates: Mapping[int, Amount], blocks: Mapping[int, Amount], uncut: _Uncut
    ) -> Amount:
        """Elements of the child's tile summed over the loops above it whose gates are open.

        Args:
            info: The tensor.
            child: Whose tile.
            gates: Per loop above the child whether its pieces are visited, or it stays at the first.
            blocks: Per loop a gate that is closed where it slides over windows.
            uncut: Where spatial loops do not cut windows.
        """
        total: Amount = info.plain
        for (dim_a, threshold_a), (dim_b, threshold_b) in info.sliding:
            overhang_a = self.overhang(dim_a, threshold_a, child, blocks, uncut.get(dim_a, ()))
            overhang_b = self.overhang(dim_b, threshold_b, child, blocks, uncut.get(dim_b, ()))
            total = total * (self.sizes[dim_a] * self.sizes[dim_b] - overhang_a * overhang_b)
        for dim in info.others:
            total = total * self.visits(dim, child.num_loops, gates)
        return total

    def overhang(
        self, dim: str, threshold: int, child: Holder, blocks: Mapping[int, Amount], uncut: Sequence[tuple[int, Amount]]
    ) -> Amount:
        """Overhang of the windows along one dim: of those that sliding and sharing leave, the largest holds."""
        cuts = self.cuts
        loops = cuts.over(dim, child.num_loops)
        sliding = [(position, blocks[idx]) for position, idx in enumerate(loops) if idx in blocks]
        if threshold == 1:
            # Windows that slide or are shared overlap as one: the loops do not cut. Of pieces, the fewest hold.
            num = cuts.pieces(dim, loops)
            for position, gate in (*sliding, *uncut):
                num = smaller(num, larger(cuts.pieces(dim, loops[:position]), gate))
            return self.sizes[dim] - num
        total = cuts.overhang(dim, loops, threshold)
        options = [(cuts.sliding_overhang(dim, loops[: position + 1], threshold), gate) for position, gate in sliding]
        options += [(cuts.overhang(dim, loops[:position], threshold), gate) for position, gate in uncut]
        for option, gate in options:
            # What a closed gate lets through here is the larger; an open one lets nothing through.
            total = larger(total, smaller(option, UNREACHED - gate))
        return total

    def visits(self, dim: str, num_loops: int, gates: Mapping[int, Amount]) -> Amount:
        """Pieces of `dim` that the first `num_loops` loops visit; gates never open from outside inward."""
        loops = self.cuts.over(dim, num_loops)
        pattern: list[tuple[int, bool]] = []
        gated: list[int] = []
        for position, idx in enumerate(loops):
            gate = gates[idx]
            pattern.append((idx, is_open(gate)))
            if not isinstance(gate, float):
                gated.append(position)
        total = self.cuts.visits(dim, tuple(pattern))
        for position, following in itertools.zip_longest(gated, gated[1:]):
            idx = loops[position]
            pattern[position] = (idx, True)
            if following is None or gates[loops[following]] is not gates[idx]:
                total = larger(total, smaller(self.cuts.visits(dim, tuple(pattern)), gates[idx]))
        return total

    def refills(self, child: Holder, walk: _Walk) -> Amount:
        """Steps in time at which the child's tile changes; at least 1."""
        spatial = [idx for idx in range(child.num_loops) if self.nest.loops[idx].axis is not None]
        return self.all_visits(child.num_loops, {**walk.gates, **dict.fromkeys(spatial, CLOSED)})

    def all_visits(self, num_loops: int, gates: Mapping[int, Amount]) -> Amount:
        """Product over all dims of their visits."""
        total: Amount = 1.0
        for dim in self.sizes:
            total = total * self.visits(dim, num_loops, gates)
        return total

    def tile_elements(self, info: _Info, holder: Holder) -> Amount:
        """Elements of the largest tile of a tensor at a holder."""
        total: Amount = 1.0
        for axis in info.tensor.axes:
            if not axis.is_sliding:
                total = total * self.cuts.extent(axis.terms[0][0], holder.num_loops)
        for (dim_a, threshold_a), (dim_b, threshold_b) in info.sliding:
            a, b = (self.cuts.extent(dim, holder.num_loops) for dim in (dim_a, dim_b))
            total = total * (a * b - excess_of(a, threshold_a) * excess_of(b, threshold_b))
        return total

    def steps(self) -> Amount:
        """Steps of the whole nest in time."""
        in_time: dict[int, Amount] = {
            idx: OPEN if loop.axis is None else CLOSED for idx, loop in enumerate(self.nest.loops)
        }
        return self.all_visits(len(self.nest.loops), in_time)

    def instances(self) -> tuple[Amount, ...]:
        """Instances in use of each level, and of the compute unit."""
        depths = [level.num_fanouts for level in self.nest.hierarchy.levels]
        depths.append(self.nest.hierarchy.num_fanouts)
        found: dict[int, Amount] = {}
        for depth in sorted(set(depths)):
            active: dict[int, Amount] = {
                idx: OPEN if loop.axis is not None and loop.axis.fanout_idx < depth else CLOSED
                for idx, loop in enumerate(self.nest.loops)
            }
            found[depth] = self.all_visits(len(self.nest.loops), active)
        return tuple(found[depth] for depth in depths)

    def first_instances(self, info: _Info, child: Holder) -> Amount:
        """Instances of a child along dims outside the tensor that have work in the first step."""
        spatial: dict[int, Amount] = {
            idx: OPEN if self.nest.loops[idx].axis is not None else CLOSED for idx in range(child.num_loops)
        }
        total: Amount = 1.0
        for dim in info.others:
            total = total * self.visits(dim, child.num_loops, spatial)
        return total


def sum_bytes_of(op: Op, hierarchy: Hierarchy, convention: Convention) -> float:
    """Bytes of an unfinished sum of an op; may be a fraction."""
    return (hierarchy.sum_bits(op) if convention.partial_sums == "accumulator" else op.output.bits) / 8


def is_open(gate: Amount) -> bool:
    """Whether a gate is known to be open for every mapping."""
    return isinstance(gate, float) and gate > CLOSED


@overload
def returned_sums(
    convention: Convention,
    elements: float,
    filled: FloatArray | float,
    arrivals: FloatArray | float,
    groups: FloatArray | float,
    first_instances: FloatArray | float,
    starts: FloatArray | float,
) -> tuple[FloatArray | float, FloatArray | float]: ...
@overload
def returned_sums(
    convention: Convention,
    elements: float,
    filled: Amount,
    arrivals: Amount,
    groups: Amount,
    first_instances: Amount,
    starts: Amount,
) -> tuple[Amount, Amount]: ...
def returned_sums(
    convention: Convention,
    elements: float,
    filled: Amount,
    arrivals: Amount,
    groups: Amount,
    first_instances: Amount,
    starts: Amount,
) -> tuple[Amount, Amount]:
    """Partial sums that the parent reads, and those written into the child.

    Args:
        convention: The counting convention.
        elements: Distinct elements of the output.
        filled: Elements of the child's tile over all refills and instances.
        arrivals: Elements that reach the parent.
        groups: Elements per fill step with each reduction group counted once.
        first_instances: Instances of the child along dims outside the output that have work in the first step.
        starts: Elements that start from nothing at the parent.
    """
    is_one = convention.partial_sum_refills == "one"
    if not convention.first_accumulation_reads:
        return arrivals - starts, groups - starts if is_one else filled - elements * first_instances
    # Open where the output is accumulated in several goes.
    gate = (arrivals - elements) * UNREACHED
    return smaller(arrivals, gate), smaller(groups if is_one else filled, gate)
