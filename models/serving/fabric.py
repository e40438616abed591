"""What serving needs to know of a system: equal GPUs, and how fast they reach one another."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ...archdsl import (
    Bandwidth,
    ChipGroup,
    GpuArch,
    Link,
    ModelError,
    Rack,
    SpatialArch,
    Switch,
    System,
    counted,
    load_arch,
    load_description,
    nearest_hint,
)

if TYPE_CHECKING:
    import networkx as nx

SCALE_UP_BYTES_PER_S: dict[str, float] = {"ampere": 300e9, "hopper": 450e9, "blackwell": 900e9}
"""Bandwidth of all NVLinks of a GPU per direction, by generation. Source: NVIDIA data sheets of A100 SXM (600 GB/s both
ways), H100 SXM (900) and HGX B200 (1,800)."""
SCALE_UP_LATENCY_S = 1.0e-6
"""assumption: one write through the switch and its visibility to the reader; a System says its own."""
NODE_CHIPS = 8
SCALE_OUT_BYTES_PER_S = 50e9
SCALE_OUT_LATENCY_S = 5e-6
"""One 400 Gb/s InfiniBand adapter per GPU, as in DGX H100 (its data sheet); latency: assumption."""

_NOTATION = re.compile(r"([0-9]+)x([A-Za-z_][A-Za-z0-9_.\-/]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """Chips of another kind in the same system, which may do feed-forward networks.

    Attributes:
        arch: The chip.
        num_chips: How many there are.
        link_bytes_per_s: The slowest link on the way from the first GPU to the first of them, per direction [B/s].
        link_latency_s: Time of the first byte there [s].
    """

    arch: SpatialArch
    num_chips: int
    link_bytes_per_s: float
    link_latency_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """Equal GPUs in domains of fast links, the domains connected by slower ones.

    Attributes:
        name: Name of the system.
        arch: The GPU.
        num_chips: How many there are.
        domain_chips: How many reach one another over the fast links.
        link_bytes_per_s: What one chip sends over its fast links [B/s].
        link_latency_s: Time of the first byte there [s].
        outer_bytes_per_s: What one chip sends out of its domain [B/s].
        outer_latency_s: Time of the first byte there [s].
        system: The system as it is described; collectives are priced on its graph.
        neighbours: Chips of another kind beside the GPUs; None where there are none.
        notes: What was assumed.
    """

    name: str
    system: System
    arch: GpuArch
    num_chips: int
    domain_chips: int
    link_bytes_per_s: float
    link_latency_s: float
    outer_bytes_per_s: float
    outer_latency_s: float
    neighbours: Neighbours | None = None
    notes: tuple[str, ...] = ()


def load_fabric(text: str) -> Fabric:
    """A system from its file or preset, from `8xh100_sxm`, or one GPU by its name.

    Raises:
        ToolkitError: Unknown, or not made of one kind of GPU.
    """
    if found := _NOTATION.fullmatch(text):
        return fabric_of_chips(_gpu(found[2]), int(found[1]))
    described = load_description(text if not Path(text).is_file() else Path(text))
    if isinstance(described, System):
        return fabric_of(described)
    if isinstance(described, GpuArch):
        return fabric_of_chips(described, 1)
    raise ModelError(f"{described.name} is of kind {described.kind}; language models are served on GPUs")


def fabric_of_chips(arch: GpuArch, num_chips: int) -> Fabric:
    """So many GPUs in nodes of eight, with the links of their generation.

    Raises:
        ModelError: The links of that generation are not known, and there is more than one chip.
    """
    if num_chips < 1:
        raise ModelError(f"{num_chips} chips of {arch.name}; a system has at least 1")
    generation = arch.generation or ""
    if num_chips > 1 and generation not in SCALE_UP_BYTES_PER_S:
        raise ModelError(
            f"{arch.name}: the links of generation '{generation}' are not known{nearest_hint(generation, SCALE_UP_BYTES_PER_S)}; "
            "describe the system in a file of kind system"
        )
    notes = ("links between chips: NVLink of the generation, nodes of 8, one 400 Gb/s adapter a GPU",)
    return Fabric(
        name=f"{num_chips}x{arch.name}",
        system=_system_of_chips(arch, num_chips),
        arch=arch,
        num_chips=num_chips,
        domain_chips=min(NODE_CHIPS, num_chips),
        link_bytes_per_s=SCALE_UP_BYTES_PER_S.get(generation, 1.0),
        link_latency_s=SCALE_UP_LATENCY_S,
        outer_bytes_per_s=SCALE_OUT_BYTES_PER_S,
        outer_latency_s=SCALE_OUT_LATENCY_S,
        notes=notes if num_chips > 1 else (),
    )


def _system_of_chips(arch: GpuArch, num_chips: int) -> System:
    """Nodes of switched GPUs, the nodes behind one more switch."""
    group = ChipGroup(name="gpu", count=num_chips, arch=arch)
    name = f"{arch.name}_x{num_chips}"
    if num_chips == 1:
        return System(schema_version=1, kind="system", name=name, chips=(group,))
    bandwidth = Bandwidth(SCALE_UP_BYTES_PER_S[arch.generation or ""], "second")
    source = "assumption: NVLink of the generation, and SCALE_UP_LATENCY_S over both links to and from the switch"
    nvlink = Link(
        name="nvlink", bandwidth=bandwidth, latency_s=SCALE_UP_LATENCY_S / 2, technology="nvlink", source=source
    )
    node = min(NODE_CHIPS, num_chips)
    if num_chips == node:
        switch = Switch(kind="switch", name="nvswitch", link="nvlink", members=("gpu",))
        return System(schema_version=1, kind="system", name=name, chips=(group,), links=(nvlink,), topology=(switch,))
    rail = Link(
        name="rail",
        bandwidth=Bandwidth(SCALE_OUT_BYTES_PER_S, "second"),
        latency_s=SCALE_OUT_LATENCY_S / 2,
        technology="infiniband",
        source="one 400 Gb/s adapter a GPU; latency: assumption",
    )
    racks = [Rack(name="node", count=num_chips // node, chips={"gpu": node})]
    if num_chips % node:
        racks.append(Rack(name="last_node", chips={"gpu": num_chips % node}))
    return System(
        schema_version=1,
        kind="system",
        name=name,
        chips=(group,),
        links=(nvlink, rail),
        racks=tuple(racks),
        topology=(
            Switch(kind="switch", name="nvswitch", link="nvlink", members=("gpu",), per_rack=True),
            Switch(kind="switch", name="spine", link="rail", members=("gpu",)),
        ),
    )


def fabric_of(system: System) -> Fabric:
    """Domains and links of a described system.

    Raises:
        ModelError: Its chips are not one kind of GPU and at most one other kind after it, or some do not reach the others.
    """
    gpu, other = _kinds(system)
    num_gpus = sum(group.count for group in system.chips if group.arch.name == gpu.name)
    chips = system.chip_names[:num_gpus]
    if len(system.chip_names) == 1:
        return fabric_of_chips(gpu, 1)
    graph = system.graph()
    neighbours = None if other is None else _neighbours(system, graph, other, num_gpus)
    if num_gpus == 1:
        return replace(fabric_of_chips(gpu, 1), name=system.name, system=system, neighbours=neighbours)
    by_link: dict[str, float] = {}
    for _, _, link, data in graph.edges(chips[0], keys=True, data=True):
        by_link[link] = by_link.get(link, 0.0) + data["bandwidth_bytes_per_s"]
    if not by_link:
        raise ModelError(f"{system.name}: its chips have no links")
    fast = max(by_link, key=lambda link: by_link[link])
    domain = _domain(graph, chips[0], fast)
    num_domain = len(domain & set(chips))
    outer: dict[str, float] = {}
    for left, right, link, data in graph.edges(domain, keys=True, data=True):
        if link != fast and not (left in domain and right in domain):
            outer[link] = outer.get(link, 0.0) + data["bandwidth_bytes_per_s"] / num_domain
    if num_domain < len(chips) and not outer:
        raise ModelError(
            f"{system.name}: {chips[0]} reaches {num_domain} of {counted(len(chips), 'chips')} over its links"
        )
    inside = next((node for node in chips[1:] if node in domain), None)
    outside = next((node for node in chips if node not in domain), None)
    inner_s = _path_latency_s(graph, chips[0], inside) if inside is not None else 0.0
    slow = max(outer, key=lambda link: outer[link]) if outer else fast
    return Fabric(
        name=system.name,
        system=system,
        arch=gpu,
        num_chips=len(chips),
        domain_chips=num_domain,
        link_bytes_per_s=by_link[fast],
        link_latency_s=inner_s,
        outer_bytes_per_s=outer.get(slow, by_link[fast]),
        outer_latency_s=_path_latency_s(graph, chips[0], outside) if outside is not None else inner_s,
        neighbours=neighbours,
    )


def _kinds(system: System) -> tuple[GpuArch, SpatialArch | None]:
    """The GPU of a system, and the other kind of chip beside it."""
    archs = {group.arch.name: group.arch for group in system.chips}
    kinds = list(archs.values())
    if not kinds or not isinstance(kinds[0], GpuArch) or any(isinstance(arch, GpuArch) for arch in kinds[1:]):
        raise ModelError(
            f"{system.name}: chips of {', '.join(archs)}; serving needs one kind of GPU, listed first, "
            "and at most one other kind of chip after it"
        )
    others = [arch for arch in kinds[1:] if isinstance(arch, SpatialArch)]
    if len(others) > 1:
        raise ModelError(
            f"{system.name}: {', '.join(one.name for one in others)} beside its GPUs; at most one other kind"
        )
    return kinds[0], others[0] if others else None


def _neighbours(system: System, graph: nx.MultiGraph[str], arch: SpatialArch, num_gpus: int) -> Neighbours:
    """Chips beside the GPUs, and the way to them.

    Raises:
        ModelError: No links lead there.
    """
    import networkx as nx

    start, end = system.chip_names[0], system.chip_names[num_gpus]
    if not nx.has_path(graph, start, end):
        raise ModelError(
            f"{system.name}: no links lead from {start} to {end}; add a switch or links between both kinds"
        )
    path = nx.bidirectional_shortest_path(graph, start, end)
    slowest = min(
        sum(float(data["bandwidth_bytes_per_s"]) for data in graph[left][right].values())
        for left, right in pairwise(path)
    )
    return Neighbours(
        arch=arch,
        num_chips=len(system.chip_names) - num_gpus,
        link_bytes_per_s=slowest,
        link_latency_s=_path_latency_s(graph, start, end),
    )


def _path_latency_s(graph: nx.MultiGraph[str], start: str, end: str) -> float:
    """Time of the first byte over the links and switches between two chips, by the way with the fewest [s]."""
    import networkx as nx

    path = nx.bidirectional_shortest_path(graph, start, end)
    total = sum(float(graph.nodes[node].get("latency_s", 0.0)) for node in path[1:-1])
    for left, right in pairwise(path):
        total += min(float(data["latency_s"]) for data in graph[left][right].values())
    return total


def _domain(graph: nx.MultiGraph[str], chip: str, link: str) -> set[str]:
    """Chips and switches that one chip reaches over one kind of link."""
    import networkx as nx

    same: nx.Graph[str] = nx.Graph([(left, right) for left, right, name in graph.edges(keys=True) if name == link])
    return set(nx.node_connected_component(same, chip))


def _gpu(name: str) -> GpuArch:
    arch = load_arch(name)
    if not isinstance(arch, GpuArch):
        raise ModelError(f"{arch.name} is of kind {arch.kind}; language models are served on GPUs")
    return arch
