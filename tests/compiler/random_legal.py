"""Random legal mappings of ops of any size: tiles are cut until they fit, arrays are filled where it works out."""

from __future__ import annotations

from random import Random

from tileloom.archdsl import Keep, Mapping, MappingNode, Op, Spatial, SpatialArch, Temporal, ceil_div

from ..random_cases import AxisSpec, segments


class _Draft:
    """A mapping under construction, from the outside in."""

    def __init__(self, rng: Random, op: Op, arch: SpatialArch) -> None:
        self.rng, self.op, self.arch = rng, op, arch
        self.extents = op.sizes
        outermost = Keep(level=arch.memories[0].name, tensors=tuple(t.name for t in op.tensors))
        self.nodes: list[MappingNode] = [outermost]
        self.free: dict[str, int | None] = {}
        for memory in arch.memories:
            usable = memory.capacity_bytes
            self.free[memory.name] = usable // 2 if usable is not None and memory.double_buffered else usable

    def cut(self, dim: str) -> None:
        """A temporal loop over a dim: by a divisor, or by any tile when it is the first over the dim."""
        extent = self.extents[dim]
        tiles = [t for t in range(1, extent // 2 + 1) if extent % t == 0]
        if extent == self.op.sizes[dim] and self.rng.random() < 0.2:
            tiles = [ceil_div(extent, k) for k in range(2, min(extent, 64) + 1)]
        # Mostly mild cuts: they leave tiles that fill their memory.
        tile = self.rng.choice(tiles) if self.rng.random() < 0.3 else tiles[-1]
        self.nodes.append(Temporal(dim=dim, tile=tile))
        self.extents[dim] = tile

    def sprinkle(self) -> None:
        """Some temporal loops, or none."""
        for _ in range(self.rng.choice((0, 0, 0, 1, 2))):
            open_dims = [dim for dim, extent in self.extents.items() if extent > 1]
            if open_dims:
                self.cut(self.rng.choice(open_dims))

    def keep(self, level: str, tensor_idx: int, is_needed: bool) -> None:
        """Keeps a tensor, after as many cuts as make it fit; leaves it out when even one element does not."""
        tensor = self.op.tensors[tensor_idx]
        room = self.free[level]
        needed = self.tile_bytes(tensor_idx)
        while room is not None and needed > room:
            open_dims = [dim for dim in sorted(tensor.dims) if self.extents[dim] > 1]
            if not open_dims:
                assert not is_needed, f"{level} cannot hold one element of {tensor.name}"
                return
            self.cut(self.rng.choice(open_dims))
            needed = self.tile_bytes(tensor_idx)
        self.nodes.append(Keep(level=level, tensors=(tensor.name,)))
        self.free[level] = None if room is None else room - needed

    def tile_bytes(self, tensor_idx: int) -> int:
        tensor = self.op.tensors[tensor_idx]
        return ceil_div(self.op.elements(tensor, self.extents) * tensor.bits, 8)

    def spread(self, axis: AxisSpec) -> None:
        """One or two dims on an axis, mostly as wide as they go."""
        room = axis.size
        for _ in range(self.rng.choice((0, 1, 1, 1, 2))):
            fitting = [d for d, x in self.extents.items() if x > 1 and self.op.dim_class(d) in axis.dim_classes]
            if not fitting or room < 2:
                return
            dim = self.rng.choice(fitting)
            extent = self.extents[dim]
            tiles = [t for t in range(ceil_div(extent, room), extent) if extent % t == 0]
            if extent == self.op.sizes[dim] and self.rng.random() < 0.3:
                tiles = [ceil_div(extent, room)]
            if not tiles:
                continue
            tile = tiles[0] if self.rng.random() < 0.7 else self.rng.choice(tiles)
            self.nodes.append(Spatial(dim=dim, tile=tile, fanout=axis.fanout, axis=axis.name))
            room //= ceil_div(extent, tile)
            self.extents[dim] = tile


def random_legal_mapping(rng: Random, op: Op, arch: SpatialArch) -> Mapping:
    """A legal mapping, capacities included, in the mapper's space: only the outermost loop of a dim is ragged."""
    draft = _Draft(rng, op, arch)
    levels, axes = segments(arch)
    bypass = rng.choice((0.0, 0.2, 0.5))
    for segment_idx, segment in enumerate(levels):
        memories = [m for m in arch.memories if m.name in segment and m.name != arch.memories[0].name]
        for memory in memories:
            for idx in rng.sample(range(len(op.tensors)), len(op.tensors)):
                role = op.tensors[idx].role
                is_needed = role in memory.must_keep
                if role in memory.keeps and (is_needed or rng.random() >= bypass):
                    draft.sprinkle()
                    draft.keep(memory.name, idx, is_needed)
        if segment_idx < len(axes):
            draft.sprinkle()
            for axis in rng.sample(axes[segment_idx], len(axes[segment_idx])):
                draft.spread(axis)
    for dim in rng.sample(sorted(draft.extents), len(draft.extents)):
        if draft.extents[dim] > 1:
            draft.nodes.append(Temporal(dim=dim, tile=1))
    return Mapping(nodes=tuple(draft.nodes))
