"""Routes and contention against brute force on small graphs."""

from __future__ import annotations

import itertools
from typing import Any

import networkx
import pytest

from tileloom.archdsl import ModelError, System, load_arch, load_system
from tileloom.models.systems import Wiring, wiring_of

nx: Any = networkx  # its type stubs leave most functions unknown

SHAPES = [
    {"kind": "ring"},
    {"kind": "torus", "shape": [2, 3]},
    {"kind": "torus", "shape": [2, 3], "wrap": False},
    {"kind": "all_to_all"},
    {"kind": "switch", "name": "hub", "latency": "0.1 us", "source": "assumption: test"},
    {"kind": "dragonfly", "group_size": 2, "global_ports": 1},
]


def system(count: int, *topology: dict[str, Any]) -> System:
    return System.model_validate(
        {
            "schema_version": 1,
            "kind": "system",
            "name": "test",
            "chips": [{"name": "chip", "count": count, "arch": load_arch("ref16")}],
            "links": [{"name": "link", "bandwidth": "10 GB/s", "latency": "1 us", "source": "assumption: test"}],
            "topology": [{"link": "link", "members": ["chip"], **entry} for entry in topology],
        }
    )


def is_shortest(wiring: Wiring, graph: Any, left: str, right: str) -> bool:
    """The route is connected, and no simple path has less latency."""
    route = wiring.route(left, right)
    assert [route[0].sender, *(hop.receiver for hop in route)][-1] == right
    assert all(a.receiver == b.sender for a, b in itertools.pairwise(route))

    def latency(path: list[str]) -> float:
        return sum(1e-6 + graph.nodes[node].get("latency_s", 0.0) for node in path[1:])

    return wiring.latency_s(left, right) == pytest.approx(min(map(latency, nx.all_simple_paths(graph, left, right))))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["kind"])
def test_route_is_the_shortest_of_all_paths(shape: dict[str, Any]) -> None:
    built = system(6, shape)
    graph = networkx.Graph(built.graph())
    for left, right in itertools.permutations(built.chip_names, 2):
        assert is_shortest(wiring_of(built), graph, left, right)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["kind"])
def test_step_costs_its_busiest_link(shape: dict[str, Any]) -> None:
    built = system(6, shape)
    wiring = wiring_of(built)
    transfers = [(left, right, 0.25) for left, right in itertools.permutations(built.chip_names, 2)]
    carried: dict[tuple[str, str], float] = {}
    for left, right, share in transfers:
        for hop in wiring.route(left, right):
            carried[hop.sender, hop.receiver] = carried.get((hop.sender, hop.receiver), 0.0) + share
    cost = wiring.step(transfers)
    assert cost.s_per_byte == pytest.approx(max(carried.values()) / 10e9)
    assert cost.latency_s == pytest.approx(max(wiring.latency_s(left, right) for left, right, _ in transfers))


def test_opposite_directions_do_not_share_a_link() -> None:
    wiring = wiring_of(system(2, {"kind": "ring"}))
    one = wiring.step([("chip.0", "chip.1", 1.0)])
    assert wiring.step([("chip.0", "chip.1", 1.0), ("chip.1", "chip.0", 1.0)]).s_per_byte == one.s_per_byte


def test_nodes_are_what_no_network_separates() -> None:
    wiring = wiring_of(load_system("ib_cluster"))
    nodes = wiring.domains(wiring.system.chip_names)
    assert [len(node) for node in nodes] == [8, 8, 8, 8]
    assert nodes[1][0] == "gpu.8"
    assert len(wiring_of(load_system("pcie_box")).domains(load_system("pcie_box").chip_names)) == 1


def test_ring_through_a_mesh_follows_its_links() -> None:
    built = system(6, {"kind": "torus", "shape": [2, 3], "wrap": False})
    wiring = wiring_of(built)
    shuffled = ("chip.0", "chip.5", "chip.1", "chip.4", "chip.2", "chip.3")
    order = wiring.ring_order(shuffled)
    assert sorted(order) == sorted(shuffled)
    assert all(
        wiring.latency_s(a, b) == pytest.approx(1e-6) for a, b in zip(order, (*order[1:], order[0]), strict=True)
    )


def test_cards_behind_different_pcie_switches_share_the_root() -> None:
    wiring = wiring_of(load_system("pcie_box"))
    near = wiring.step([("gpu.0", "gpu.1", 1.0), ("gpu.2", "gpu.3", 1.0)])
    far = wiring.step([("gpu.0", "gpu.4", 1.0), ("gpu.1", "gpu.5", 1.0)])
    assert far.s_per_byte == pytest.approx(2 * near.s_per_byte)
    assert far.busiest in ("left > host", "host > right")


def test_unconnected_chips_are_named() -> None:
    built = system(2)
    with pytest.raises(ModelError, match=r"test: no links lead from chip\.0 to chip\.1"):
        wiring_of(built).route("chip.0", "chip.1")
    with pytest.raises(ModelError, match=r"test has no chip 'chip\.7'"):
        wiring_of(built).route("chip.0", "chip.7")
