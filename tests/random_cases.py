"""Small random ops, architectures and mappings from a random generator: the ground for comparisons.

Everything takes a `random.Random`, so that a fixed seed gives fixed cases and hypothesis can pass its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

from tileloom.archdsl import (
    DimClass,
    Keep,
    Mapping,
    MappingNode,
    Op,
    Spatial,
    SpatialArch,
    Temporal,
    Tensor,
    TensorAxis,
    TensorRole,
)

ROLES = tuple(TensorRole)
SOURCE = "assumption: test"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One op with an architecture and a legal mapping."""

    op: Op
    arch: SpatialArch
    mapping: Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisSpec:
    """A fan-out axis as the architecture has it; intrinsic dims of the compute unit are axes too."""

    fanout: str
    name: str
    size: int
    dim_classes: tuple[DimClass, ...]


def tensor(name: str, role: TensorRole, bits: int, *axes: tuple[tuple[str, int], ...] | str) -> Tensor:
    """A tensor from its axes: a dim's name, or (dim, coefficient) terms."""
    terms = tuple(((axis, 1),) if isinstance(axis, str) else axis for axis in axes)
    return Tensor(name=name, role=role, bits=bits, axes=tuple(TensorAxis(terms=t) for t in terms))


def gemm(m: int, n: int, k: int, bits: tuple[int, int, int] = (8, 8, 8), b: int | None = None) -> Op:
    """`Z[m,n] += A[m,k] W[k,n]`, each with a leading batch dim when `b` is given."""
    lead = () if b is None else ("B",)
    dims = (*((("B", b),) if b is not None else ()), ("M", m), ("N", n), ("K", k))
    return Op(
        name="gemm",
        kind="gemm",
        dims=dims,
        datatype="int8",
        tensors=(
            tensor("A", TensorRole.INPUT, bits[0], *lead, "M", "K"),
            tensor("W", TensorRole.WEIGHT, bits[1], *lead, "K", "N"),
            tensor("Z", TensorRole.OUTPUT, bits[2], *lead, "M", "N"),
        ),
    )


def conv(
    sizes: dict[str, int],
    stride: tuple[int, int] = (1, 1),
    dilation: tuple[int, int] = (1, 1),
    bits: tuple[int, int, int] = (8, 8, 8),
) -> Op:
    """Convolution over dims B G K C OY OX FY FX; sizes left out are 1."""
    dims = tuple((dim, sizes.get(dim, 1)) for dim in ("B", "G", "K", "C", "OY", "OX", "FY", "FX"))
    row = (("OY", stride[0]), ("FY", dilation[0]))
    col = (("OX", stride[1]), ("FX", dilation[1]))
    return Op(
        name="conv",
        kind="conv",
        dims=dims,
        datatype="int8",
        tensors=(
            tensor("I", TensorRole.INPUT, bits[0], "B", "G", "C", row, col),
            tensor("W", TensorRole.WEIGHT, bits[1], "G", "K", "C", "FY", "FX"),
            tensor("O", TensorRole.OUTPUT, bits[2], "B", "G", "K", "OY", "OX"),
        ),
    )


def transposed_conv(
    sizes: dict[str, int], stride: int = 2, dilation: int = 1, bits: tuple[int, int, int] = (8, 8, 8)
) -> Op:
    """Transposed 1-D convolution: the output slides, `O[K, stride*IX + dilation*FX] += I[C, IX] W[C, K, FX]`."""
    return Op(
        name="transposed",
        kind="conv_transposed",
        dims=tuple((dim, sizes.get(dim, 1)) for dim in ("K", "C", "IX", "FX")),
        datatype="int8",
        tensors=(
            tensor("I", TensorRole.INPUT, bits[0], "C", "IX"),
            tensor("W", TensorRole.WEIGHT, bits[1], "C", "K", "FX"),
            tensor("O", TensorRole.OUTPUT, bits[2], "K", (("IX", stride), ("FX", dilation))),
        ),
    )


def _sizes(rng: Random, dims: tuple[str, ...], most: int) -> dict[str, int]:
    """Random sizes whose product is at most `most`."""
    sizes = dict.fromkeys(dims, 1)
    for _ in range(3):
        for dim in rng.sample(dims, len(dims)):
            room = most // (math.prod(sizes.values()) // sizes[dim])
            sizes[dim] = max(sizes[dim], rng.randint(1, max(1, min(room, 7))))
    return sizes


def random_op(rng: Random, most_macs: int = 150) -> Op:
    """A small op: (batched) matrix product, convolution of some kind, or transposed convolution."""
    bits = (rng.choice((4, 8, 16)), rng.choice((4, 8, 8)), rng.choice((8, 16, 32)))
    kind = rng.choice(("gemm", "batched", "conv1d", "conv2d", "grouped", "depthwise", "transposed"))
    steps = rng.randint(1, 3), rng.randint(1, 3)
    dilations = rng.randint(1, 3), rng.randint(1, 3)
    match kind:
        case "gemm":
            s = _sizes(rng, ("M", "N", "K"), most_macs)
            return gemm(s["M"], s["N"], s["K"], bits)
        case "batched":
            s = _sizes(rng, ("B", "M", "N", "K"), most_macs)
            return gemm(s["M"], s["N"], s["K"], bits, b=s["B"])
        case "conv1d":
            s = _sizes(rng, ("OX", "FX", *rng.sample(("K", "C"), rng.randint(0, 2))), most_macs)
        case "conv2d":
            s = _sizes(rng, ("OX", "FX", "OY", "FY", *rng.sample(("K", "C", "B"), rng.randint(0, 2))), most_macs)
        case "grouped":
            s = _sizes(rng, ("G", "K", "C", "OX", "FX"), most_macs)
        case "depthwise":
            s = _sizes(rng, ("G", "OY", "OX", "FY", "FX"), most_macs)
        case _:
            s = _sizes(rng, ("IX", "FX", *rng.sample(("K", "C"), rng.randint(0, 2))), most_macs)
            return transposed_conv(s, stride=steps[0], dilation=dilations[0], bits=bits)
    return conv(s, steps, dilations, bits)


def _memory(rng: Random, name: str, is_outermost: bool, is_priced: bool) -> dict[str, object]:
    keeps = list(ROLES) if is_outermost or rng.random() < 0.6 else rng.sample(ROLES, rng.randint(1, 3))
    energy = rng.choice((0.5, 1.0, 2.0, 3.0, 8.0)) * (16 if is_outermost else 1)
    return {
        "kind": "memory",
        "name": name,
        "memory_class": "main_memory" if is_outermost else "scratchpad",
        "capacity_bytes": None,
        "keeps": keeps,
        "read_bandwidth": f"{rng.choice((1, 2, 4, 8))} B/cycle" if is_priced else "unbounded",
        "write_bandwidth": f"{rng.choice((1, 2, 4, 8))} B/cycle" if is_priced else "unbounded",
        "read_energy_pj_per_byte": energy,
        "write_energy_pj_per_byte": energy * rng.choice((1.0, 1.25, 1.5)),
        "area_mm2": 0.1,
        "double_buffered": rng.random() < 0.2 and not is_outermost,
        "source": SOURCE,
    }


def _fanout(rng: Random, name: str) -> dict[str, object]:
    axes = [
        {
            "name": axis,
            "size": rng.choice((1, 2, 3, 4, 6)),
            "multicast": rng.random() < 0.7,
            "reduction": rng.random() < 0.7,
            "dim_classes": list(DimClass) if rng.random() < 0.7 else rng.sample(tuple(DimClass), 2),
        }
        for axis in ("x", "y")[: rng.randint(1, 2)]
    ]
    return {"kind": "fanout", "name": name, "axes": axes}


def arch_of(hierarchy: list[dict[str, object]], intrinsic: tuple[int, int, int] = (1, 1, 1)) -> SpatialArch:
    """An architecture from its memories and fan-outs; the compute unit is added."""
    m, n, k = intrinsic
    compute = {
        "kind": "compute",
        "name": "mac",
        "intrinsic": {"m": m, "n": n, "k": k},
        "datatypes": {"int8": {"energy_pj_per_mac": 0.25}},
        "area_mm2": 0.01,
        "source": SOURCE,
    }
    return SpatialArch.model_validate(
        {
            "schema_version": 1,
            "kind": "spatial",
            "name": "small",
            "clock_hz": 1e9,
            "technology": {"node_nm": 45.0, "source": SOURCE},
            "hierarchy": [*hierarchy, compute],
            "source": SOURCE,
        }
    )


def random_arch(rng: Random, most_levels: int = 4) -> SpatialArch:
    """An architecture of 2 to 4 memory levels and 0 to 2 fan-outs, with unbounded capacities."""
    num_levels = rng.randint(2, most_levels)
    places = sorted(rng.sample(range(1, num_levels + 1), rng.randint(0, min(2, num_levels))))
    hierarchy: list[dict[str, object]] = []
    for level in range(num_levels):
        hierarchy += [_fanout(rng, f"fan{places.index(level)}")] if level in places else []
        hierarchy.append(_memory(rng, f"L{level}", level == 0, is_priced=rng.random() < 0.8))
    hierarchy += [_fanout(rng, f"fan{places.index(num_levels)}")] if num_levels in places else []
    intrinsic = (rng.choice((1, 2)), 1, rng.choice((1, 3))) if rng.random() < 0.15 else (1, 1, 1)
    return arch_of(hierarchy, intrinsic)


def segments(arch: SpatialArch) -> tuple[list[list[str]], list[list[AxisSpec]]]:
    """Levels between the fan-outs, and the axes of the fan-outs; `segments[i]` lies outside `axes[i]`."""
    levels: list[list[str]] = [[]]
    axes: list[list[AxisSpec]] = []
    for node in arch.hierarchy:
        if node.kind == "memory":
            levels[-1].append(node.name)
        elif node.kind == "fanout":
            specs = [AxisSpec(fanout=node.name, name=a.name, size=a.size, dim_classes=a.dim_classes) for a in node.axes]
            axes.append(specs)
            levels.append([])
        else:
            shape = node.intrinsic
            one = {"m": (shape.m, DimClass.PIXEL), "n": (shape.n, DimClass.OUTPUT_CHANNEL)}
            sizes = {**one, "k": (shape.k, DimClass.REDUCTION)}
            specs = [
                AxisSpec(fanout=node.name, name=name, size=size, dim_classes=(dim_class,))
                for name, (size, dim_class) in sizes.items()
                if size > 1
            ]
            if specs:
                axes.append(specs)
                levels.append([])
    return levels, axes


def _keep_nodes(rng: Random, op: Op, arch: SpatialArch, levels: list[str], bypass: float) -> list[Keep]:
    """Keep nodes of one segment in random order; every tensor's stay in hierarchy order."""
    outermost = arch.memories[0].name
    queues: list[list[Keep]] = []
    for t in op.tensors:
        memories = [m for m in arch.memories if m.name in levels and m.name != outermost and t.role in m.keeps]
        kept = [m.name for m in memories if t.role in m.must_keep or rng.random() >= bypass]
        queues.append([Keep(level=name, tensors=(t.name,)) for name in kept])
    nodes: list[Keep] = []
    while any(queues):
        queue = rng.choice([q for q in queues if q])
        nodes.append(queue.pop(0))
    return nodes


@dataclass(slots=True)
class _Loop:
    """A loop whose tile is still to be chosen; `axis` is None for a temporal one."""

    dim: str
    axis: AxisSpec | None = None


def _skeleton(rng: Random, op: Op, arch: SpatialArch, bypass: float, num_loops: int) -> list[Keep | _Loop]:
    """Keep nodes with loops sprinkled between them, spatial ones on their fan-out's side."""
    levels, axes = segments(arch)
    first = Keep(level=arch.memories[0].name, tensors=tuple(t.name for t in op.tensors))
    nodes: list[Keep | _Loop] = [first]
    dims = [dim for dim, size in op.dims if size > 1] or [op.dims[0][0]]
    for segment_idx, segment in enumerate(levels):
        nodes += _keep_nodes(rng, op, arch, segment, bypass)
        if segment_idx == len(axes):
            break
        for axis in rng.sample(axes[segment_idx], len(axes[segment_idx])):
            fitting = [d for d in dims if op.dim_class(d) in axis.dim_classes]
            nodes += [_Loop(rng.choice(fitting), axis) for _ in range(rng.choice((0, 1, 1, 2))) if fitting]
    for _ in range(num_loops):
        nodes.insert(rng.randint(1, len(nodes)), _Loop(rng.choice(dims)))
    return nodes


def _random_tile(rng: Random, size: int, least: int, may_be_ragged: bool) -> int:
    """A tile of `least` to `size`; one that divides, or half of the time any when it may be ragged."""
    divisors = [t for t in range(least, size + 1) if size % t == 0]
    return rng.randint(least, size) if may_be_ragged and rng.random() < 0.5 else rng.choice(divisors)


def random_mapping(
    rng: Random, op: Op, arch: SpatialArch, bypass: float = 0.4, is_ragged_inside: bool = True
) -> Mapping:
    """A legal mapping (capacities aside): ragged tiles, several loops per dim and dims per axis, any order.

    Args:
        rng: Source of randomness.
        op: The op.
        arch: The architecture.
        bypass: Share of (level, tensor) pairs that are not kept.
        is_ragged_inside: Whether any loop may be ragged, and not just the outermost one of a dim.
    """
    skeleton = _skeleton(rng, op, arch, bypass, num_loops=rng.randint(2, 6))
    sizes = op.sizes
    room = {(a.fanout, a.name): a.size for fan in segments(arch)[1] for a in fan}
    nodes: list[MappingNode] = []
    for node in skeleton:
        if isinstance(node, Keep):
            nodes.append(node)
            continue
        size = sizes[node.dim]
        may_be_ragged = is_ragged_inside or size == op.sizes[node.dim]
        if node.axis is None:
            tile = _random_tile(rng, size, 1, may_be_ragged)
            nodes.append(Temporal(dim=node.dim, tile=tile))
        else:
            key = node.axis.fanout, node.axis.name
            tile = _random_tile(rng, size, -(-size // room[key]), may_be_ragged)
            room[key] //= -(-size // tile)
            nodes.append(Spatial(dim=node.dim, tile=tile, fanout=node.axis.fanout, axis=node.axis.name))
        sizes[node.dim] = tile
    for dim, rest in rng.sample(sorted(sizes.items()), len(sizes)):
        if rest > 1:
            last = max((i for i, n in enumerate(nodes) if not isinstance(n, Keep) and n.dim == dim), default=0)
            nodes.insert(rng.randint(last + 1, len(nodes)), Temporal(dim=dim, tile=1))
    return Mapping(nodes=tuple(_merged(rng, nodes)))


def _merged(rng: Random, nodes: list[MappingNode]) -> list[MappingNode]:
    """Now and then writes neighbouring keep nodes of one level as one."""
    merged: list[MappingNode] = []
    for node in nodes:
        last = merged[-1] if merged else None
        if isinstance(node, Keep) and isinstance(last, Keep) and last.level == node.level and rng.random() < 0.5:
            merged[-1] = Keep(level=node.level, tensors=(*last.tensors, *node.tensors))
        else:
            merged.append(node)
    return merged


def random_case(rng: Random, most_macs: int = 150) -> Case:
    """A random op on a random architecture under a random mapping."""
    op = random_op(rng, most_macs)
    arch = random_arch(rng)
    return Case(op=op, arch=arch, mapping=random_mapping(rng, op, arch))


def with_accumulator_bits(arch: SpatialArch, bits: int) -> SpatialArch:
    """An architecture that states the width of its accumulators."""
    kinds = {name: kind.model_copy(update={"accumulator_bits": bits}) for name, kind in arch.compute.datatypes.items()}
    compute = arch.compute.model_copy(update={"datatypes": kinds})
    nodes = tuple(compute if node.kind == "compute" else node for node in arch.hierarchy)
    return arch.model_copy(update={"hierarchy": nodes})
