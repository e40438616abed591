"""Whether a mapping is legal for an op and an architecture: every fault at once, each at its node."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from .errors import MappingError
from .mapping import Keep, Mapping, MappingNode, Spatial, Temporal
from .spatial import Fanout, Memory, SpatialArch
from .spec import nearest_hint
from .workload import DimClass, Op, Tensor, TensorAxis, TensorRole, ceil_div, touched

_INTRINSIC_CLASSES = {"m": DimClass.PIXEL, "n": DimClass.OUTPUT_CHANNEL, "k": DimClass.REDUCTION}


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingFault:
    """One reason why a mapping is illegal.

    Attributes:
        node_idx: Index of the mapping's node that is at fault.
        node: That node in words; empty when the mapping has no nodes.
        message: What is wrong and what would be right.
    """

    node_idx: int
    node: str
    message: str

    def __str__(self) -> str:
        return f"node {self.node_idx} ({self.node}): {self.message}" if self.node else self.message


def check_mapping(
    mapping: Mapping, op: Op, arch: SpatialArch, *, has_wide_sums: bool = True
) -> tuple[MappingFault, ...]:
    """Everything that makes `mapping` illegal for `op` on `arch`, in the order of its nodes.

    Checked are names, tiles, that every dim reaches 1, what axes hold and carry, the order of holders,
    the side of its fan-out on which each level is kept, roles that a level must or may not keep, and capacities.

    Args:
        mapping: The mapping.
        op: The op.
        arch: The architecture.
        has_wide_sums: Whether unfinished sums take the width of the accumulator that the architecture states.

    Returns:
        The faults; none when the mapping is legal.
    """
    check = _Check(mapping, op, arch, has_wide_sums=has_wide_sums)
    found = [*check.first_node(), *check.walk(), *check.unfinished_dims(), *check.bypasses(), *check.capacities()]
    return tuple(sorted(found, key=lambda fault: fault.node_idx))


def require_legal(mapping: Mapping, op: Op, arch: SpatialArch, *, has_wide_sums: bool = True) -> None:
    """Stops on an illegal mapping; see `check_mapping`.

    Raises:
        MappingError: With every fault, one a line.
    """
    faults = check_mapping(mapping, op, arch, has_wide_sums=has_wide_sums)
    if faults:
        raise MappingError("\n  ".join([f"mapping of {op.name} on {arch.name} is illegal:", *map(str, faults)]))


@dataclass(frozen=True, slots=True)
class _AxisFacts:
    size: int
    dim_classes: tuple[DimClass, ...]
    alone_classes: tuple[DimClass, ...] = ()


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tensor held by a level: at which node, and the extents of all dims there."""

    node_idx: int
    tensor: Tensor
    extents: dict[str, int]


@dataclass(slots=True)
class _State:
    """What the nodes walked so far have done."""

    extents: dict[str, int]
    used: dict[tuple[str, str], list[tuple[str, int]]] = field(
        default_factory=dict[tuple[str, str], list[tuple[str, int]]]
    )
    holder: dict[str, str] = field(default_factory=dict[str, str])
    innermost: tuple[int, str, int] | None = None
    entered: tuple[int, str, int] | None = None


class _Check:
    """One mapping under check."""

    def __init__(self, mapping: Mapping, op: Op, arch: SpatialArch, *, has_wide_sums: bool) -> None:
        self.nodes, self.op, self.arch = mapping.nodes, op, arch
        kind = arch.compute.datatypes.get(op.datatype)
        stated = kind.accumulator_bits if kind is not None and has_wide_sums else None
        self.sum_bits = max(stated or 0, op.output.bits)
        self.names = [node.name for node in arch.hierarchy]
        self.tensors = {tensor.name: tensor for tensor in op.tensors}
        self.tiles: dict[str, dict[str, _Tile]] = {memory.name: {} for memory in arch.memories}
        self.state = _State(extents=op.sizes)
        self.last_loop: dict[str, int] = {}

    def fault(self, node_idx: int, message: str) -> MappingFault:
        node = node_text(self.nodes[node_idx]) if self.nodes else ""
        return MappingFault(node_idx=node_idx, node=node, message=message)

    def first_node(self) -> Iterator[MappingFault]:
        """The first node must keep everything at the outermost memory."""
        outermost = self.arch.memories[0].name
        need = f"the first node must keep all tensors ({', '.join(self.tensors)}) at {outermost}"
        first = self.nodes[0] if self.nodes else None
        if not isinstance(first, Keep) or first.level != outermost:
            yield self.fault(0, need)
            return
        lacking = [name for name in self.tensors if name not in first.tensors]
        if lacking:
            yield self.fault(0, f"{need}; {', '.join(lacking)} is missing")

    def walk(self) -> Iterator[MappingFault]:
        """Every node against those outside it."""
        for node_idx, node in enumerate(self.nodes):
            if isinstance(node, Keep):
                yield from self._keep(node_idx, node)
            else:
                yield from self._loop(node_idx, node)

    def _keep(self, node_idx: int, node: Keep) -> Iterator[MappingFault]:
        memories = {memory.name: memory for memory in self.arch.memories}
        if node.level not in memories:
            kind = f"{node.level} is a {self._kind(node.level)}, not a memory" if node.level in self.names else ""
            yield self.fault(node_idx, (kind or f"unknown level '{node.level}'") + nearest_hint(node.level, memories))
            return
        position = self.names.index(node.level)
        entered = self.state.entered
        if entered is not None and position < entered[0]:
            message = f"{node.level} is outside fan-out {entered[1]}, over which node {entered[2]} has already spread the nest"
            yield self.fault(node_idx, f"{message}; keep it further out")
        if self.state.innermost is None or position > self.state.innermost[0]:
            self.state.innermost = position, node.level, node_idx
        for tensor_idx, name in enumerate(node.tensors):
            if name in node.tensors[:tensor_idx]:
                yield self.fault(node_idx, f"tensor {name} is named twice")
            elif name not in self.tensors:
                yield self.fault(node_idx, f"unknown tensor '{name}'{nearest_hint(name, self.tensors)}")
            else:
                yield from self._hold(node_idx, memories[node.level], self.tensors[name])

    def _hold(self, node_idx: int, memory: Memory, tensor: Tensor) -> Iterator[MappingFault]:
        if tensor.role not in memory.keeps:
            kept = ", ".join(memory.keeps)
            yield self.fault(
                node_idx, f"{memory.name} does not keep {tensor.role} tensors such as {tensor.name}; it keeps {kept}"
            )
            return
        earlier = self.tiles[memory.name].get(tensor.name)
        if earlier is not None:
            yield self.fault(node_idx, f"{memory.name} keeps {tensor.name} already since node {earlier.node_idx}")
            return
        outer = self.state.holder.get(tensor.name)
        if outer is not None and self.names.index(outer) > self.names.index(memory.name):
            message = f"{memory.name} lies outside {outer}, which already holds {tensor.name}"
            yield self.fault(node_idx, f"{message}; holders follow the hierarchy from the outside in")
        else:
            self.state.holder[tensor.name] = memory.name
        self.tiles[memory.name][tensor.name] = _Tile(node_idx, tensor, dict(self.state.extents))

    def _loop(self, node_idx: int, node: Temporal | Spatial) -> Iterator[MappingFault]:
        extent = self.state.extents.get(node.dim)
        if extent is None:
            yield self.fault(node_idx, f"unknown dim '{node.dim}'{nearest_hint(node.dim, self.state.extents)}")
        else:
            self.last_loop[node.dim] = node_idx
            if not 1 <= node.tile <= extent:
                yield self.fault(node_idx, f"tile {node.tile} of {node.dim} must be 1 to {extent}, its extent there")
            self.state.extents[node.dim] = max(1, min(node.tile, extent))
        if isinstance(node, Spatial):
            yield from self._spread(node_idx, node, extent)

    def _spread(self, node_idx: int, node: Spatial, extent: int | None) -> Iterator[MappingFault]:
        axes = self._axes(node.fanout)
        if not axes:
            yield self.fault(node_idx, self._no_fanout(node.fanout))
            return
        yield from self._side(node_idx, node.fanout)
        if node.axis not in axes:
            yield self.fault(node_idx, f"{node.fanout} has no axis '{node.axis}'{nearest_hint(node.axis, axes)}")
            return
        if extent is None:
            return
        axis = axes[node.axis]
        dim_class = self.op.dim_class(node.dim)
        if dim_class not in axis.dim_classes:
            carried = ", ".join(axis.dim_classes)
            message = (
                f"{node.fanout}.{node.axis} does not carry {dim_class} dims such as {node.dim}; it carries {carried}"
            )
            yield self.fault(node_idx, message)
        used = self.state.used.setdefault((node.fanout, node.axis), [])
        used.append((node.dim, ceil_div(extent, self.state.extents[node.dim])))
        needed = math.prod(times for _, times in used)
        if needed > axis.size:
            parts = " x ".join(f"{dim} {times}" for dim, times in used)
            message = f"{node.fanout}.{node.axis} needs {needed} instances ({parts}) and has {axis.size}"
            yield self.fault(node_idx, message)
        if used[-1][1] > 1:
            yield from self._alone(node_idx, node, axes)

    def _alone(self, node_idx: int, node: Spatial, axes: dict[str, _AxisFacts]) -> Iterator[MappingFault]:
        """A dim that its axis carries only alone beside one on another axis of the fan-out; one of both is the node's."""
        for name in axes:
            for dim, times in self.state.used.get((node.fanout, name), []):
                if name == node.axis or times == 1:
                    continue
                for (axis, carried), (other, beside) in itertools.permutations(((node.axis, node.dim), (name, dim))):
                    if self.op.dim_class(carried) in axes[axis].alone_classes:
                        message = f"{node.fanout}.{axis} carries {self.op.dim_class(carried)} dims such as {carried} only alone"
                        yield self.fault(
                            node_idx, f"{message}, and {node.fanout}.{other} carries {beside}; run one of them in time"
                        )

    def _side(self, node_idx: int, fanout: str) -> Iterator[MappingFault]:
        """A fan-out's loops stand inside the levels above it, and outside those below it and their fan-outs."""
        position = self.names.index(fanout)
        innermost, entered = self.state.innermost, self.state.entered
        if innermost is not None and innermost[0] > position:
            message = f"fan-out {fanout} is outside {innermost[1]}, which node {innermost[2]} keeps further out"
            yield self.fault(node_idx, f"{message}; move the loop outside that node")
        if entered is None or position > entered[0]:
            self.state.entered = position, fanout, node_idx
        elif position < entered[0]:
            yield self.fault(
                node_idx, f"fan-out {fanout} is outside {entered[1]}, over which node {entered[2]} loops further out"
            )

    def _axes(self, fanout: str) -> dict[str, _AxisFacts]:
        """Axes of a fan-out, or of the compute unit's intrinsic; none when there is no such node."""
        for node in self.arch.fanouts:
            if node.name == fanout:
                return {axis.name: _AxisFacts(axis.size, axis.dim_classes, axis.alone_classes) for axis in node.axes}
        compute = self.arch.compute
        if compute.name != fanout:
            return {}
        sizes = {"m": compute.intrinsic.m, "n": compute.intrinsic.n, "k": compute.intrinsic.k}
        return {name: _AxisFacts(size, (_INTRINSIC_CLASSES[name],)) for name, size in sizes.items() if size > 1}

    def _no_fanout(self, name: str) -> str:
        fanouts = [node.name for node in self.arch.fanouts]
        if name == self.arch.compute.name:
            return f"{name} multiplies one point at a time, so no loop can be spread over it"
        if name in self.names:
            return f"{name} is a {self._kind(name)}, not a fan-out{nearest_hint(name, fanouts)}"
        return f"unknown fan-out '{name}'{nearest_hint(name, fanouts)}"

    def _kind(self, name: str) -> str:
        node = self.arch.node(name)
        return "fan-out" if isinstance(node, Fanout) else "memory" if isinstance(node, Memory) else "compute unit"

    def unfinished_dims(self) -> Iterator[MappingFault]:
        """Dims that no loop takes down to 1."""
        for dim, extent in self.state.extents.items():
            if extent > 1:
                where = self.last_loop.get(dim, max(0, len(self.nodes) - 1))
                message = f"{dim} ends at {extent} instead of 1: a factor of {extent} is missing"
                yield self.fault(where, f"{message}; add a loop over {dim} with tile 1")

    def bypasses(self) -> Iterator[MappingFault]:
        """Roles that a level must keep and does not."""
        for memory in self.arch.memories[1:]:
            for tensor in self.op.tensors:
                if tensor.role in memory.must_keep and tensor.name not in self.tiles[memory.name]:
                    outer = [m.name for m in self.arch.memories if tensor.name in self.tiles[m.name]]
                    before = [name for name in outer if self.names.index(name) < self.names.index(memory.name)]
                    where = self.tiles[before[-1]][tensor.name].node_idx if before else 0
                    message = f"{tensor.name} bypasses {memory.name}, which must keep {tensor.role} tensors"
                    yield self.fault(where, f"{message}; add a node that keeps {tensor.name} at {memory.name}")

    def capacities(self) -> Iterator[MappingFault]:
        """Levels whose tiles do not fit."""
        for memory in self.arch.memories:
            tiles = list(self.tiles[memory.name].values())
            if memory.capacity_bytes is None or not tiles:
                continue
            parts = {tile.tensor.name: self._tile_bytes(tile) for tile in tiles}
            sums = [tile.tensor.name for tile in tiles if self._bits_of(tile) > tile.tensor.bits]
            copies = 2 if memory.double_buffered else 1
            needed = copies * sum(parts.values())
            if needed <= memory.capacity_bytes:
                continue
            listed = " + ".join(f"{name} {amount:,}" for name, amount in parts.items())
            twice = ", twice for double buffering" if copies == 2 else ""
            wide = f", {sums[0]} as sums of {self.sum_bits} bit" if sums else ""
            message = f"{memory.name} needs {needed:,} bytes ({listed}{wide}{twice}) and has {memory.capacity_bytes:,}"
            remedy = self._remedy(tiles, memory.capacity_bytes // copies)
            yield self.fault(max(tile.node_idx for tile in tiles), f"{message}; {remedy}")

    def _tile_bytes(self, tile: _Tile, dim: str | None = None, most: int = 0) -> int:
        """Bytes of a tile, with the extent of `dim` cut to `most` when it is given."""
        extents = tile.extents if dim is None else {**tile.extents, dim: min(most, tile.extents[dim])}
        return ceil_div(self.op.elements(tile.tensor, extents) * self._bits_of(tile), 8)

    def _bits_of(self, tile: _Tile) -> int:
        """Width of one element of a tile: the accumulator's where sums are not finished when they arrive there.

        A memory that keeps outputs alone is one of accumulators, which holds sums in any case.
        """
        tensor = tile.tensor
        if tensor.role is not TensorRole.OUTPUT or self.sum_bits == tensor.bits:
            return tensor.bits
        keep = self.nodes[tile.node_idx]
        assert isinstance(keep, Keep)
        memory = next(memory for memory in self.arch.memories if memory.name == keep.level)
        holds_sums = memory.keeps == (TensorRole.OUTPUT,) and memory != self.arch.memories[0]
        return self.sum_bits if holds_sums or self._arrives_in_parts(tensor, tile.node_idx) else tensor.bits

    def _arrives_in_parts(self, tensor: Tensor, begin: int) -> bool:
        """Whether an output arrives in more than one sum per element at its keep node `begin` (see docs/counting.md)."""
        inner = (idx for idx in range(begin + 1, len(self.nodes)) if _keeps(self.nodes[idx], tensor))
        end = next(inner, len(self.nodes))
        extents, loops = self.op.sizes, list[tuple[int, Temporal | Spatial]]()
        pieces = {dim: Counter({size: 1}) for dim, size in extents.items()}
        for idx, node in enumerate(self.nodes[:end]):
            if isinstance(node, Keep) or node.dim not in extents:
                continue
            tile = max(1, min(node.tile, extents[node.dim]))
            if tile < extents[node.dim]:
                loops.append((idx, node))
                pieces[node.dim] = _cut(pieces[node.dim], tile)
            extents[node.dim] = tile
        # The compute unit adds to its sums at every step; a memory gives its tile away when a loop over it steps.
        is_given = end == len(self.nodes)
        for idx, node in reversed(loops):
            if isinstance(node, Spatial):
                is_reduced = idx > begin and self._reduces(node)
                if node.dim not in tensor.dims and not is_reduced:
                    return True
            elif node.dim in tensor.dims:
                is_given = True
            elif is_given:
                return True
        return any(_overlaps(axis, self.op.sizes, pieces) for axis in tensor.axes if axis.is_sliding)

    def _reduces(self, node: Spatial) -> bool:
        """Whether the axis of a spatial loop adds sums up on their way."""
        if node.fanout == self.arch.compute.name:
            return True
        found = (axis for fanout in self.arch.fanouts if fanout.name == node.fanout for axis in fanout.axes)
        return any(axis.name == node.axis and axis.reduction for axis in found)

    def _remedy(self, tiles: list[_Tile], room: int) -> str:
        """The mildest cut of one dim's tiles that makes all fit."""
        best: tuple[float, str, int, int] | None = None
        for dim in self.op.sizes:
            extent = max(tile.extents[dim] for tile in tiles)
            most = _largest(extent - 1, lambda x, d=dim: sum(self._tile_bytes(t, d, x) for t in tiles) <= room)
            if most and (best is None or most / extent > best[0]):
                best = most / extent, dim, most, extent
        if best is None:
            return "no cut of a single dim makes it fit"
        _, dim, most, extent = best
        return f"it fits with {dim} cut to {most} there instead of {extent}"


def _keeps(node: MappingNode, tensor: Tensor) -> bool:
    return isinstance(node, Keep) and tensor.name in node.tensors


def _cut(pieces: Counter[int], tile: int) -> Counter[int]:
    """Pieces of a dim, by extent, after one more loop has cut them."""
    found: Counter[int] = Counter()
    for extent, num in pieces.items():
        found[tile] += num * (extent // tile)
        found[extent % tile] += num
    del found[0]
    return found


def _overlaps(axis: TensorAxis, sizes: dict[str, int], pieces: dict[str, Counter[int]]) -> bool:
    """Whether pieces of a sliding axis share elements."""
    (dim_a, _), (dim_b, _) = axis.terms
    coefficients = dict(axis.terms)
    num = sum(
        touched([(coefficients[dim_a], a), (coefficients[dim_b], b)]) * times_a * times_b
        for a, times_a in pieces[dim_a].items()
        for b, times_b in pieces[dim_b].items()
    )
    return num > touched([(coefficient, sizes[dim]) for dim, coefficient in axis.terms])


def _largest(most: int, fits: Callable[[int], bool]) -> int:
    """Largest x in 1..most that fits, for a test that fails from some x on; 0 when none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def node_text(node: MappingNode) -> str:
    """A mapping node in words, for messages."""
    match node:
        case Keep():
            return f"keep {', '.join(node.tensors)} at {node.level}"
        case Temporal():
            return f"for {node.dim}, tile {node.tile}"
        case Spatial():
            return f"spatial {node.dim} on {node.fanout}.{node.axis}, tile {node.tile}"
