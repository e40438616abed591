"""`extends`, parameters, overrides from a file and from Python, presets."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from tileloom.archdsl import (
    ArchError,
    GpuArch,
    Memory,
    SpatialArch,
    System,
    arch_from_tree,
    dump_arch,
    load_arch,
    load_description,
    load_tree,
)


def spatial(path: str | Path, overrides: dict[str, object] | None = None) -> SpatialArch:
    arch = load_arch(path, overrides)
    assert isinstance(arch, SpatialArch)
    return arch


def memory(arch: SpatialArch, name: str) -> Memory:
    node = arch.node(name)
    assert isinstance(node, Memory)
    return node


def faults_of(path: str | Path, overrides: dict[str, object]) -> list[str]:
    with pytest.raises(ArchError) as caught:
        load_arch(path, overrides)
    return [str(fault).splitlines()[0] for fault in caught.value.diagnostics]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "middle.yaml").write_text(
        "extends: tpe_16x16\nname: middle\nparameters: {rows: 4}\ntechnology: {voltage: 1 V}\n"
        "override:\n  hierarchy.scratchpad.banks: 2\n  hierarchy.pe_array.axes.cols.network: broadcast\n"
    )
    (tmp_path / "child.yaml").write_text(
        "extends: parts/middle.yaml\nname: child\nparameters: {cols: 32}\n"
        "override:\n  hierarchy.scratchpad: {banks: 8, latency: 3 cycles, source: 'assumption: test'}\n"
        "  hierarchy.pe_array.axes.0.multicast: false\n"
    )
    return tmp_path


def test_extends_chain_merges_maps_parameters_and_overrides(folder: Path) -> None:
    arch = spatial(folder / "child.yaml")
    rows, cols = arch.fanouts[0].axes
    assert arch.name == "child"
    assert (rows.size, cols.size) == (4, 32)
    assert cols.network == "broadcast"
    assert not rows.multicast
    assert memory(arch, "scratchpad").banks == 8
    assert memory(arch, "scratchpad").latency_cycles == 3
    assert arch.technology.node_nm == 45
    assert arch.technology.voltage_v == 1
    assert memory(spatial(folder / "parts" / "middle.yaml"), "scratchpad").banks == 2


def test_paths_are_relative_to_the_file_not_to_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder / "parts")
    assert load_arch("../child.yaml").name == "child"


def test_override_of_a_parameter_moves_all_that_depends_on_it() -> None:
    arch = spatial("tpe_16x16", {"parameters.cols": 64, "parameters.scratchpad": "1 MiB"})
    assert arch.fanouts[0].axis("cols").size == 64
    assert memory(arch, "accumulator").capacity_bytes == 512 * 64 * 4
    assert memory(arch, "scratchpad").capacity_bytes == 2**20
    assert arch.compute.vector_lanes == 64


def test_override_may_use_parameters_and_nest() -> None:
    arch = spatial("tpe_16x16", {"hierarchy": {"scratchpad": {"capacity": "${rows * 3} KiB"}}})
    assert memory(arch, "scratchpad").capacity_bytes == 48 * 1024


def test_override_with_null_takes_a_map_away() -> None:
    arch = load_arch("tpe_8x8", {"hierarchy.mac.datatypes": {"int8": None, "int4": {"macs_per_cycle": 2}}})
    assert isinstance(arch, SpatialArch)
    assert list(arch.compute.datatypes) == ["int4"]


def test_override_with_null_gives_a_constant_back_to_the_component_model() -> None:
    arch = spatial("ref16", {"hierarchy.scratchpad.read_energy": None})
    assert memory(arch, "scratchpad").read_energy_pj_per_byte is None


def test_override_takes_numpy_scalars() -> None:
    arch = spatial("ref16", {"hierarchy.pe_array.axes.rows.size": np.int64(8)})
    assert arch.fanouts[0].axis("rows").size == 8


def test_overrides_do_not_touch_the_tree() -> None:
    tree = load_tree("ref16")
    changed = arch_from_tree(tree, {"hierarchy.scratchpad.capacity": "1 KiB"})
    assert changed != arch_from_tree(tree)
    assert arch_from_tree(tree) == load_arch("ref16")


def test_fault_of_an_override_is_reported_at_the_override() -> None:
    overrides: dict[str, object] = {
        "hierarchy.scratchpad.capacity": 65536,
        "hierarchy.scratchpad.capcity": "1 KiB",
        "hierarchy.scrachpad.banks": 2,
        "hierarchy.pe_array.axes.rows.size": 0,
        "parameters.rows": 8,
    }
    assert faults_of("ref16", overrides) == [
        "<override>: hierarchy.scrachpad.banks: hierarchy has no element 'scrachpad'; did you mean 'scratchpad'?",
        "<override>: parameters.rows: the file has no parameters",
        "<override>: hierarchy.1.capacity: 65536 has no unit; write '64 KiB'",
        "<override>: hierarchy.1.capcity: unknown field; did you mean 'capacity'?",
        "<override>: hierarchy.2.axes.0.size: must be at least 1, not 0",
    ]


def test_fault_of_a_parameter_is_reported_where_it_is_used() -> None:
    (fault,) = faults_of("tpe_8x8", {"parameters.scratchpad": "64 KB"})
    assert fault.startswith("preset:tpe_16x16:")
    assert "hierarchy.1.capacity: unknown unit 'KB'" in fault


def test_override_of_an_odd_type_is_an_error() -> None:
    with pytest.raises(ArchError, match="an override is a number, a text, a list or a dict, not object"):
        load_arch("ref16", {"name": object()})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ref61", "unknown preset 'ref61'; did you mean 'ref16'? (a file's name ends in .yaml)"),
        ("no/such.yaml", "no/such.yaml: no such file"),
    ],
)
def test_unknown_preset_or_file_is_named(name: str, message: str) -> None:
    with pytest.raises(ArchError) as caught:
        load_arch(name)
    assert str(caught.value) == message


def test_description_is_loaded_by_its_kind(tmp_path: Path) -> None:
    system = tmp_path / "system.yaml"
    system.write_text("schema_version: 1\nkind: system\nname: one\nchips: [{name: gpu, arch: h100_sxm}]\n")
    assert isinstance(load_description(system), System)
    assert isinstance(load_description("h100_sxm"), GpuArch)
    assert isinstance(load_description("ref16"), SpatialArch)
    with pytest.raises(ArchError, match="unknown kind 'system'; known are spatial, gpu"):
        load_arch(system)


def test_literal_dollar_brace_survives(tmp_path: Path) -> None:
    arch = spatial("ref16", {"notes": "costs $${x}"})
    assert arch.notes == "costs ${x}"
    path = tmp_path / "arch.yaml"
    path.write_text(dump_arch(arch))
    assert load_arch(path) == arch


def test_a_design_point_takes_about_a_millisecond() -> None:
    tree = load_tree("tpe_16x16")
    arch_from_tree(tree)
    start = time.process_time()
    for cols in range(1, 101):
        arch_from_tree(tree, {"parameters.cols": cols, "hierarchy.scratchpad.capacity": "64 KiB"})
    assert (time.process_time() - start) / 100 < 5e-3
