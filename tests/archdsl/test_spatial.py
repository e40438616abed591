"""Spatial architectures: derived numbers, presets of the project's own PE array."""

from __future__ import annotations

import math

import pytest

from tileloom.archdsl import Bandwidth, Memory, SpatialArch, TensorRole, load_arch


def spatial(name: str, overrides: dict[str, object] | None = None) -> SpatialArch:
    arch = load_arch(name, overrides)
    assert isinstance(arch, SpatialArch)
    return arch


def memory(arch: SpatialArch, name: str) -> Memory:
    node = arch.node(name)
    assert isinstance(node, Memory)
    return node


def test_instances_multiply_down_the_hierarchy() -> None:
    arch = spatial("ref16", {"hierarchy.pe_array.axes.cols.size": 4})
    assert [arch.instances(node.name) for node in arch.hierarchy] == [1, 1, 1, 64, 64]
    assert arch.num_pes == 64


def test_unknown_node_names_the_nearest() -> None:
    with pytest.raises(KeyError, match="ref16 has no node 'scratchpat'; did you mean 'scratchpad'"):
        spatial("ref16").instances("scratchpat")
    with pytest.raises(KeyError, match="fan-out pe_array has no axis 'row'; did you mean 'rows'"):
        spatial("ref16").fanouts[0].axis("row")


def test_bandwidth_follows_from_width_banks_and_ports() -> None:
    ports = {"read": 2, "write": 1, "read_write": 1}
    arch = spatial("tpe_16x16", {"hierarchy.scratchpad.ports": ports})
    scratchpad = memory(arch, "scratchpad")
    assert arch.read_bytes_per_cycle(scratchpad) == 16 * 4 * 3
    assert arch.write_bytes_per_cycle(scratchpad) == 16 * 4 * 2


def test_given_bandwidth_wins_and_follows_the_clock() -> None:
    source = {"hierarchy.scratchpad.source": "assumption: test"}
    arch = spatial("tpe_16x16", {"clock": "2 GHz", "hierarchy.scratchpad.read_bandwidth": "64 GB/s", **source})
    assert arch.read_bytes_per_cycle(memory(arch, "scratchpad")) == 32
    assert arch.bytes_per_cycle(Bandwidth(8.0)) == 8
    assert math.isinf(arch.read_bytes_per_cycle(memory(spatial("ref16"), "register")))


def test_rate_defaults_to_the_intrinsic() -> None:
    arch = spatial("ref16", {"hierarchy.mac.intrinsic": {"m": 2, "n": 3, "k": 4}, "hierarchy.mac.datatypes.bf16": {}})
    assert arch.compute.macs_per_cycle("bf16") == 24
    slow = spatial("ref16", {"hierarchy.mac.datatypes.int8.macs_per_cycle": 0.5})
    assert slow.compute.macs_per_cycle("int8") == 0.5
    with pytest.raises(KeyError):
        arch.compute.macs_per_cycle("fp64")


def test_ref16_is_the_published_reference_design() -> None:
    arch = spatial("ref16")
    main, scratchpad, register = arch.memories
    assert (main.capacity_bytes, scratchpad.capacity_bytes, register.capacity_bytes) == (None, 256 * 1024, 4)
    assert [m.read_energy_pj_per_byte for m in arch.memories] == [64, 2, 0.1]
    assert [m.write_energy_pj_per_byte for m in arch.memories] == [64, 3, 0.15]
    assert [arch.read_bytes_per_cycle(m) for m in arch.memories] == [16, 64, math.inf]
    assert arch.compute.datatypes["int8"].energy_pj_per_mac == 0.2
    assert arch.num_pes == 256


@pytest.mark.parametrize(("side", "bus", "kib"), [(8, 8, 64), (16, 16, 256), (32, 32, 512)])
def test_tensor_pe_arrays_differ_only_in_size(side: int, bus: int, kib: int) -> None:
    arch = spatial(f"tpe_{side}x{side}")
    assert [axis.size for axis in arch.fanouts[0].axes] == [side, side]
    assert arch.read_bytes_per_cycle(memory(arch, "main_memory")) == bus
    assert memory(arch, "scratchpad").capacity_bytes == kib * 1024
    assert memory(arch, "scratchpad").keeps == (TensorRole.INPUT, TensorRole.WEIGHT)
    assert memory(arch, "accumulator").keeps == (TensorRole.OUTPUT,)
    assert (arch.compute.stationary, arch.compute.preload) == ("weight", "shadowed")
    sizes: dict[str, object] = {
        "name": arch.name,
        "description": arch.description,
        "parameters.rows": side,
        "parameters.cols": side,
        "parameters.bus_bytes": bus,
        "parameters.scratchpad": f"{kib} KiB",
    }
    assert spatial("tpe_16x16", sizes) == arch


def test_architectures_are_hashable_and_frozen() -> None:
    arch = spatial("ref16")
    assert hash(arch) == hash(spatial("ref16")) != hash(spatial("tpe_8x8"))
    with pytest.raises(ValueError, match="frozen"):
        arch.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
