"""What serving needs to know of a system: equal GPUs, and how fast they reach one another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from ...archdsl import GpuArch, ModelError, System, load_arch, load_description, nearest_hint

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
        notes: What was assumed.
    """

    name: str
    arch: GpuArch
    num_chips: int
    domain_chips: int
    link_bytes_per_s: float
    link_latency_s: float
    outer_bytes_per_s: float
    outer_latency_s: float
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
        arch=arch,
        num_chips=num_chips,
        domain_chips=min(NODE_CHIPS, num_chips),
        link_bytes_per_s=SCALE_UP_BYTES_PER_S.get(generation, 1.0),
        link_latency_s=SCALE_UP_LATENCY_S,
        outer_bytes_per_s=SCALE_OUT_BYTES_PER_S,
        outer_latency_s=SCALE_OUT_LATENCY_S,
        notes=notes if num_chips > 1 else (),
    )


def fabric_of(system: System) -> Fabric:
    """Domains and links of a described system.

    Raises:
        ModelError: Its chips are not one kind of GPU, or some do not reach the others.
    """
    archs = {group.arch.name: group.arch for group in system.chips}
    gpus = [arch for arch in archs.values() if isinstance(arch, GpuArch)]
    if len(archs) != 1 or not gpus:
        raise ModelError(f"{system.name}: chips of {', '.join(archs)}; serving needs one kind of GPU")
    chips = system.chip_names
    if len(chips) == 1:
        return fabric_of_chips(gpus[0], 1)
    graph = system.graph()
    by_link: dict[str, float] = {}
    for _, _, link, data in graph.edges(chips[0], keys=True, data=True):
        by_link[link] = by_link.get(link, 0.0) + data["bandwidth_bytes_per_s"]
    if not by_link:
        raise ModelError(f"{system.name}: its chips have no links")
    fast = max(by_link, key=lambda link: by_link[link])
    domain = _domain(graph, chips[0], fast)
    num_domain = sum(1 for node in domain if graph.nodes[node]["kind"] == "chip")
    outer: dict[str, float] = {}
    for left, right, link, data in graph.edges(domain, keys=True, data=True):
        if link != fast and not (left in domain and right in domain):
            outer[link] = outer.get(link, 0.0) + data["bandwidth_bytes_per_s"] / num_domain
    if num_domain < len(chips) and not outer:
        raise ModelError(f"{system.name}: {chips[0]} reaches {num_domain} of {len(chips)} chips over its links")
    inside = next((node for node in chips[1:] if node in domain), None)
    outside = next((node for node in chips if node not in domain), None)
    inner_s = _path_latency_s(graph, chips[0], inside) if inside is not None else 0.0
    slow = max(outer, key=lambda link: outer[link]) if outer else fast
    return Fabric(
        name=system.name,
        arch=gpus[0],
        num_chips=len(chips),
        domain_chips=num_domain,
        link_bytes_per_s=by_link[fast],
        link_latency_s=inner_s,
        outer_bytes_per_s=outer.get(slow, by_link[fast]),
        outer_latency_s=_path_latency_s(graph, chips[0], outside) if outside is not None else inner_s,
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
