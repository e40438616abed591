"""Systems: graphs of the topology generators, racks, chips that name their architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pytest

from tileloom.archdsl import ArchError, GpuArch, Link, System, dump_system, list_systems, load_arch, load_system

nx: Any = networkx  # its type stubs leave most functions unknown

LINK = {"name": "link", "bandwidth": "25 GB/s", "latency": "0.5 us", "source": "assumption: test"}


def system(count: int, *topology: dict[str, Any], racks: list[dict[str, Any]] | None = None) -> System:
    return System.model_validate(
        {
            "schema_version": 1,
            "kind": "system",
            "name": "test",
            "chips": [{"name": "chip", "count": count, "arch": load_arch("ref16")}],
            "links": [LINK],
            "racks": racks or [],
            "topology": [{"link": "link", "members": ["chip"], **entry} for entry in topology],
        }
    )


def plain_graph(built: System) -> networkx.Graph[Any]:
    return networkx.Graph(built.graph())


@pytest.mark.parametrize(
    ("entry", "count", "wanted"),
    [
        ({"kind": "ring"}, 5, nx.cycle_graph(5)),
        ({"kind": "ring"}, 2, nx.path_graph(2)),
        ({"kind": "all_to_all"}, 6, nx.complete_graph(6)),
        ({"kind": "torus", "shape": [3, 4]}, 12, nx.grid_graph([3, 4], periodic=True)),
        ({"kind": "torus", "shape": [2, 3]}, 6, nx.grid_graph([2, 3], periodic=[False, True])),
        ({"kind": "torus", "shape": [3, 4, 5]}, 60, nx.grid_graph([3, 4, 5], periodic=True)),
        ({"kind": "torus", "shape": [3, 4], "wrap": False}, 12, nx.grid_graph([3, 4])),
        ({"kind": "switch", "name": "hub"}, 4, nx.star_graph(4)),
    ],
)
def test_generator_builds_its_graph(entry: dict[str, Any], count: int, wanted: networkx.Graph[Any]) -> None:
    assert nx.is_isomorphic(plain_graph(system(count, entry)), wanted)


def test_torus_neighbours_are_those_of_the_grid() -> None:
    graph = system(12, {"kind": "torus", "shape": [3, 4]}).graph()
    assert set(graph["chip.0"]) == {"chip.1", "chip.3", "chip.4", "chip.8"}


def test_torus_may_leave_directions_without_links() -> None:
    graph = system(12, {"kind": "torus", "shape": [3, 4], "wired": [1]}).graph()
    assert set(graph["chip.1"]) == {"chip.0", "chip.2"}
    with pytest.raises(ValueError, match="direction 2 is not in shape, which has directions 0 to 1"):
        system(12, {"kind": "torus", "shape": [3, 4], "wired": [0, 2]})


def test_edges_carry_the_links_numbers_and_parallel_links_add() -> None:
    graph = system(2, {"kind": "ring", "parallel_links": 18}).graph()
    assert graph.edges["chip.0", "chip.1", "link"] == {
        "link": "link",
        "num_links": 18,
        "bandwidth_bytes_per_s": 450e9,
        "latency_s": 0.5e-6,
        "energy_pj_per_byte": None,
    }


def test_every_rack_has_its_switch_and_a_spine_joins_them() -> None:
    built = system(
        6,
        {"kind": "switch", "name": "leaf", "per_rack": True},
        {"kind": "switch", "name": "spine", "members": ["leaf"]},
        racks=[{"name": "rack", "count": 2, "chips": {"chip": 3}}],
    )
    graph = built.graph()
    assert set(graph["leaf.1"]) == {"chip.3", "chip.4", "chip.5", "spine"}
    assert graph.nodes["chip.3"]["rack"] == "rack.1"
    assert nx.shortest_path_length(graph, "chip.0", "chip.5") == 4


def test_racks_take_the_chips_in_order() -> None:
    built = system(
        5, racks=[{"name": "big", "chips": {"chip": 3}}, {"name": "small", "count": 2, "chips": {"chip": 1}}]
    )
    assert built.rack_chips == {
        "big.0": ("chip.0", "chip.1", "chip.2"),
        "small.0": ("chip.3",),
        "small.1": ("chip.4",),
    }


def test_chip_knows_its_arch() -> None:
    built = system(2)
    assert built.arch_of("chip.1").name == "ref16"
    with pytest.raises(KeyError, match="test has no chip 'chip.2'; did you mean 'chip.1'"):
        built.arch_of("chip.2")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "mine.yaml").write_text("extends: tpe_16x16\nname: mine\nparameters: {cols: 4}\n")
    path = tmp_path / "system.yaml"
    path.write_text(
        "schema_version: 1\nkind: system\nname: pod\n"
        "parameters: {rows: 3, host: mine.yaml}\n"
        "chips:\n  - {name: gpu, count: '${rows}', arch: h100_sxm}\n  - {name: host, arch: '${host}'}\n"
        "override:\n  chips.gpu.arch.main_memory.capacity: 96 GB\n"
    )
    return path


def test_chips_name_presets_and_files_and_keep_their_own_parameters(file: Path) -> None:
    gpu, host = load_system(file).chips
    assert gpu.count == 3
    assert isinstance(gpu.arch, GpuArch)
    assert gpu.arch.main_memory.capacity_bytes == 96 * 10**9
    assert (host.arch.name, host.arch.num_pes if not isinstance(host.arch, GpuArch) else 0) == ("mine", 64)


def test_overrides_reach_into_a_chips_arch(file: Path) -> None:
    gpu, host = load_system(
        file, {"chips.gpu.arch.power.limit": "500 W", "chips.host.arch": "tpe_8x8", "parameters.rows": 2}
    ).chips
    assert isinstance(gpu.arch, GpuArch)
    assert (gpu.count, gpu.arch.power.limit_w, host.arch.name) == (2, 500, "tpe_8x8")


def test_fault_in_a_chips_file_is_reported_in_that_file(file: Path) -> None:
    mine = file.parent / "mine.yaml"
    mine.write_text("extends: tpe_16x16\nname: mine\nclock: 2\n")
    with pytest.raises(ArchError) as caught:
        load_system(file)
    assert [str(fault).splitlines()[0] for fault in caught.value.diagnostics] == [
        f"{mine}:3:8: chips.1.arch.clock: 2 has no unit; write '2 GHz'"
    ]


def test_dumped_system_stands_alone(file: Path, tmp_path: Path) -> None:
    built = load_system(file)
    alone = tmp_path / "alone.yaml"
    alone.write_text(dump_system(built))
    (tmp_path / "mine.yaml").unlink()
    assert load_system(alone) == built


@pytest.mark.parametrize("name", list_systems())
def test_preset_loads_and_its_dump_loads_back_equal(name: str, tmp_path: Path) -> None:
    built = load_system(name)
    alone = tmp_path / "alone.yaml"
    alone.write_text(dump_system(built), encoding="utf-8")
    assert built.name == name
    assert built.description
    assert load_system(alone) == built
    assert nx.is_connected(plain_graph(built))


@pytest.mark.parametrize(
    ("group_size", "ports", "num_groups", "per_pair"), [(8, 4, 9, 4), (8, 4, 33, 1), (4, 1, 5, 1), (2, 1, 3, 1), (3, 2, 1, 0)]
)  # fmt: skip
def test_dragonfly_joins_all_groups_evenly(group_size: int, ports: int, num_groups: int, per_pair: int) -> None:
    count = group_size * num_groups
    entry = {"kind": "dragonfly", "group_size": group_size, "global_ports": ports}
    built = system(count, entry)
    pairs = [(int(e.left.split(".")[1]), int(e.right.split(".")[1])) for e in built.edges()]
    local = [pair for pair in pairs if pair[0] // group_size == pair[1] // group_size]
    joined = [(a // group_size, b // group_size) for a, b in pairs if a // group_size != b // group_size]
    assert len(local) == num_groups * group_size * (group_size - 1) // 2
    assert {joined.count((a, b)) for a in range(num_groups) for b in range(a + 1, num_groups)} <= {per_pair}
    used = [sum(chip in pair for pair in pairs) - (group_size - 1) for chip in range(count)]
    assert max(used) <= ports
    assert max(used) - min(used) <= 1
    if num_groups > 1:
        assert nx.diameter(plain_graph(built)) <= 3


def test_dragonfly_has_a_link_of_its_own_between_groups() -> None:
    far = {**LINK, "name": "far", "latency": "1 us"}
    built = System.model_validate(
        {
            "schema_version": 1, "kind": "system", "name": "test",
            "chips": [{"name": "chip", "count": 6, "arch": load_arch("ref16")}],
            "links": [LINK, far],
            "topology": [
                {"kind": "dragonfly", "link": "link", "global_link": "far", "members": ["chip"], "group_size": 2, "global_ports": 1}
            ],
        }
    )  # fmt: skip
    assert sorted(edge.link for edge in built.edges()) == ["far"] * 3 + ["link"] * 3


def test_static_link_counts_cycles_upwards() -> None:
    link = Link.model_validate({**LINK, "latency": "0.35 us", "static": True, "clock": "1.2 GHz"})
    assert link.latency_cycles == 420
    assert Link.model_validate({**LINK, "latency": "1.1 ns", "static": True, "clock": "1 GHz"}).latency_cycles == 2
    with pytest.raises(ValueError, match="link 'link' is not static"):
        _ = Link.model_validate(LINK).latency_cycles


def test_switch_of_the_graph_says_what_it_does() -> None:
    graph = load_system("dgx_h100").graph()
    assert graph.nodes["nvswitch.0"] == {"kind": "switch", "latency_s": pytest.approx(0.2e-6), "reduces": True}
