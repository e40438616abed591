"""What the mapper's tests share: architectures, results, and a checker of constraints that knows no search."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import replace

from tileloom.archdsl import Bandwidth, Keep, Mapping, Memory, Op, Spatial, SpatialArch, load_arch, parse_notation
from tileloom.compiler import Constraints, MappingResult, map_op
from tileloom.models import CONVENTIONS, Fidelity, count, hierarchy_of, nest_of

from ..random_cases import segments


def spatial_arch(preset: str, overrides: MappingOf[str, object] | None = None) -> SpatialArch:
    """A preset, which must be a spatial one."""
    arch = load_arch(preset, overrides)
    assert isinstance(arch, SpatialArch)
    return arch


def op_of(text: str) -> Op:
    """An op from its notation."""
    op = parse_notation(text)
    assert isinstance(op, Op)
    return op


def mapped(
    op: Op,
    arch: SpatialArch,
    objective: str = "energy",
    *,
    convention: str = "tileloom",
    fidelity: Fidelity = "throughput",
    constraints: Constraints | None = None,
) -> MappingResult:
    """What the mapper finds, which must be a mapping."""
    found = map_op(op, arch, objective, convention=convention, fidelity=fidelity, constraints=constraints)
    assert isinstance(found, MappingResult), str(found)
    return found


def with_memory(
    arch: SpatialArch,
    name: str,
    *,
    capacity_bytes: int | None = None,
    read_bandwidth: Bandwidth | None = None,
    write_bandwidth: Bandwidth | None = None,
) -> SpatialArch:
    """The architecture with another capacity or bandwidth of one memory."""
    changes = {
        "capacity_bytes": capacity_bytes,
        "read_bandwidth": read_bandwidth,
        "write_bandwidth": write_bandwidth,
    }
    given = {field: value for field, value in changes.items() if value is not None}
    hierarchy = tuple(node.model_copy(update=given) if node.name == name else node for node in arch.hierarchy)
    return arch.model_copy(update={"hierarchy": hierarchy})


def faster(bandwidth: Bandwidth | None, factor: float) -> Bandwidth | None:
    """A bandwidth times a factor."""
    return None if bandwidth is None else replace(bandwidth, amount=bandwidth.amount * factor)


def violations(mapping: Mapping, op: Op, arch: SpatialArch, constraints: Constraints) -> list[str]:
    """Which constraints a mapping breaks, one sentence each."""
    extents = op.sizes
    kept: set[tuple[str, str]] = set()
    found: list[str] = []
    allowed = dict(constraints.spatial)
    for node in mapping.nodes:
        if isinstance(node, Keep):
            kept |= {(node.level, name) for name in node.tensors}
            found += [
                f"{name} at {level} has {dim} {extents[dim]}, not {extent}"
                for name in node.tensors
                for level, dim, extent in constraints.tiles
                if level == node.level and dim in op.tensor(name).dims and extents[dim] != extent
            ]
            continue
        if isinstance(node, Spatial) and extents[node.dim] > node.tile:
            axis = f"{node.fanout}.{node.axis}"
            if axis in allowed and node.dim not in allowed[axis]:
                found.append(f"{node.dim} is spread over {axis}")
        extents[node.dim] = node.tile
    found += [f"{name} is kept at {level}" for level, name in sorted(kept & constraints.bypass)]
    found += [f"{name} is not kept at {level}" for level, name in sorted(constraints.keep - kept)]
    if constraints.stationary is not None:
        innermost = [names for names in segments(arch)[0] if names][-1]
        held = {name for level, name in kept if level in innermost}
        found += [] if held == {constraints.stationary} else [f"{sorted(held)} are held innermost"]
    hierarchy = hierarchy_of(arch)
    busy = float(count(*nest_of(op, mapping, hierarchy), CONVENTIONS["tileloom"]).instances[-1][0])
    num_units = 1
    for axis in hierarchy.axes:
        num_units *= axis.size
    if busy < constraints.min_utilization * num_units:
        found.append(f"{busy} of {num_units} units have work")
    return found


def memory_of(arch: SpatialArch, name: str) -> Memory:
    """The memory of that name."""
    return next(memory for memory in arch.memories if memory.name == name)
