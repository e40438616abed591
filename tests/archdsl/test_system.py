"""Systems: graphs of the topology generators, racks, chips that name their architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx
import pytest

from tileloom.archdsl import ArchError, GpuArch, System, dump_system, load_arch, load_system

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
