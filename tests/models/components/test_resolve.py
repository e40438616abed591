"""Architectures as numbers: what is given wins, the rest is modelled, and every number says where it is from."""

import math
from collections.abc import Callable

import pytest

from tileloom.archdsl import Bandwidth, ModelError, SpatialArch, list_presets, load_arch
from tileloom.models import ArchNumbers, resolve
from tileloom.models.components import mac, sram

MakeArch = Callable[..., SpatialArch]


def spatial_presets() -> list[str]:
    return [name for name in list_presets() if isinstance(load_arch(name), SpatialArch)]


def test_levels_come_in_hierarchy_order_with_instances(make_arch: MakeArch) -> None:
    numbers = resolve(make_arch())
    assert [(level.name, level.instances) for level in numbers.levels] == [
        ("dram", 1),
        ("scratchpad", 1),
        ("register", 32),
    ]
    assert numbers.compute.instances == 32
    assert numbers.levels[0].capacity_bytes == math.inf


def test_bandwidth_follows_from_width_banks_and_ports(make_arch: MakeArch) -> None:
    level = resolve(make_arch()).level("scratchpad")
    assert level.read_bytes_per_cycle == 128 / 8 * 4
    assert level.write_bytes_per_cycle == 128 / 8 * 4
    assert not level.shares_port
    assert resolve(make_arch()).level("register").shares_port


def test_lacking_bandwidth_and_width_names_both(make_arch: MakeArch) -> None:
    arch = make_arch()
    memories = [
        node.model_copy(update={"width_bits": None}) if node.name == "dram" else node for node in arch.hierarchy
    ]
    broken = arch.model_copy(update={"hierarchy": tuple(memories)})
    with pytest.raises(ModelError, match="memory 'dram': give read_bandwidth .*, or the width from which it follows"):
        resolve(broken)


def test_model_numbers_are_the_component_models(make_arch: MakeArch) -> None:
    numbers = resolve(make_arch())
    ports = float(sram.extra_ports(1, 1, 0))
    word = sram.read_pj(256 * 1024.0, 128.0, node_nm=22.0, banks=4.0, further_ports=ports)
    assert math.isclose(numbers.level("scratchpad").read_pj_per_byte, float(word) / 16)
    assert math.isclose(numbers.mac_pj("int8"), float(mac.mac_pj("int8", node_nm=22.0)))
    assert numbers.source_of("scratchpad.read_pj_per_byte").origin == "model"


def test_given_values_win_over_models(make_arch: MakeArch) -> None:
    given = {
        "dram": {"read_energy_pj_per_byte": 64.0, "write_energy_pj_per_byte": 65.0, "source": "assumption: test"},
        "scratchpad": {"read_energy_pj_per_byte": 2.0, "area_mm2": 0.7, "source": "assumption: test"},
        "mac": {"datatypes": {"int8": {"energy_pj_per_mac": 0.2}}, "area_mm2": 0.001, "source": "assumption: test"},
    }
    numbers = resolve(make_arch(given))
    assert numbers.level("dram").read_pj_per_byte == 64.0
    assert numbers.level("dram").write_pj_per_byte == 65.0
    assert numbers.level("scratchpad").read_pj_per_byte == 2.0
    assert numbers.level("scratchpad").area_mm2 == 0.7
    assert numbers.source_of("scratchpad.write_pj_per_byte").origin == "model"
    assert numbers.mac_pj("int8") == 0.2
    assert numbers.compute.area_mm2 == 0.001
    given_now = numbers.source_of("dram.read_pj_per_byte")
    assert (given_now.origin, given_now.detail) == ("given", "assumption: test")


def test_missing_datatype_names_those_there_are(make_arch: MakeArch) -> None:
    numbers = resolve(make_arch())
    for ask in (numbers.mac_pj, numbers.macs_per_cycle, numbers.cycles_per_step, numbers.peak_macs_per_cycle):
        with pytest.raises(ModelError, match="compute 'mac' does not multiply fp32; its datatypes are int8, bf16"):
            ask("fp32")


def test_rates_per_step_and_chip(make_arch: MakeArch) -> None:
    numbers = resolve(make_arch({"mac": {"intrinsic": {"m": 1, "n": 2, "k": 4}}}))
    assert numbers.macs_per_cycle("int8") == 8
    assert numbers.cycles_per_step("int8") == 1
    assert numbers.cycles_per_step("bf16") == 16
    assert numbers.peak_macs_per_cycle("int8") == 8 * 32


def test_main_memory_without_type_or_energy_names_both(make_arch: MakeArch) -> None:
    with pytest.raises(ModelError, match=r"memory 'dram': give read_energy, or dram \(one of ddr3, ddr4"):
        resolve(make_arch({"dram": {"technology": None}}))


def test_unbounded_scratchpad_has_no_modelled_energy(make_arch: MakeArch) -> None:
    with pytest.raises(ModelError, match="memory 'scratchpad': give read_energy, or a capacity"):
        resolve(make_arch({"scratchpad": {"capacity_bytes": None}}))


def test_area_of_unbounded_memory_is_left_out_and_named(make_arch: MakeArch) -> None:
    energies = {"read_energy_pj_per_byte": 1.0, "write_energy_pj_per_byte": 1.0, "source": "assumption: test"}
    numbers = resolve(make_arch({"scratchpad": {"capacity_bytes": None, **energies}}))
    assert numbers.level("scratchpad").area_mm2 == 0
    assert "area of memory 'scratchpad', whose capacity is unbounded" in numbers.left_out


def test_area_is_the_sum_of_its_parts(make_arch: MakeArch) -> None:
    numbers = resolve(make_arch({"mac": {"vector_lanes": 8}}))
    assert [part.name for part in numbers.area.parts] == ["dram", "scratchpad", "register", "mac", "vector_unit"]
    assert math.isclose(numbers.area_mm2, sum(part.amount for part in numbers.area.parts))
    assert numbers.level("dram").area_mm2 == 0
    register = numbers.level("register")
    assert math.isclose(numbers.area.parts[2].amount, register.area_mm2 * 32)


def test_unit_is_as_large_as_its_largest_datatype(make_arch: MakeArch) -> None:
    both = resolve(make_arch()).compute.area_mm2
    only_int8 = resolve(make_arch({"mac": {"datatypes": {"int8": {}}}})).compute.area_mm2
    assert only_int8 < both
    assert math.isclose(both, float(mac.mac_mm2("bf16", node_nm=22.0)) * 0.5)


def test_hops_cost_what_the_architecture_says_else_nothing(make_arch: MakeArch) -> None:
    free = resolve(make_arch()).fanouts[0].axes[0]
    assert free.hop_pj_per_byte == 0 and free.wire_pj_per_byte > 0
    axes = [{"name": "rows", "size": 4, "hop_energy_pj_per_byte": 0.5}, {"name": "cols", "size": 8}]
    priced = resolve(make_arch({"array": {"axes": axes, "source": "assumption: test"}}))
    assert priced.fanouts[0].axes[0].hop_pj_per_byte == 0.5
    assert priced.source_of("array.rows.hop_pj_per_byte").origin == "given"
    assert priced.source_of("array.cols.hop_pj_per_byte").origin == "left out"


def test_supply_and_node_reach_the_models(make_arch: MakeArch) -> None:
    base = resolve(make_arch(node_nm=45.0))
    low = resolve(make_arch(node_nm=45.0, voltage_v=0.45))
    assert math.isclose(low.level("scratchpad").read_pj_per_byte, base.level("scratchpad").read_pj_per_byte / 4)
    assert math.isclose(low.mac_pj("int8"), base.mac_pj("int8") / 4)
    assert low.level("dram").read_pj_per_byte == base.level("dram").read_pj_per_byte
    small = resolve(make_arch(node_nm=5.0))
    assert small.area_mm2 < base.area_mm2
    assert "extrapolated below 7 nm" in small.source_of("mac.int8.mac_pj").detail


def test_provenance_states_the_models_errors(make_arch: MakeArch) -> None:
    numbers = resolve(make_arch())
    detail = numbers.source_of("scratchpad.read_pj_per_byte").detail
    assert "SRAM of 262144 B, width 128 bit, 4 banks, 22 nm" in detail
    assert "calibration on 4: median 14%" in detail and "validation on 2" in detail
    assert "leakage and idle power" in numbers.left_out


def test_width_for_energy_follows_from_bandwidth(make_arch: MakeArch) -> None:
    bandwidth = Bandwidth(64.0)
    scratchpad = {"width_bits": None, "read_bandwidth": bandwidth, "write_bandwidth": bandwidth}
    by_bandwidth = resolve(make_arch({"scratchpad": {**scratchpad, "source": "assumption: test"}}))
    by_width = resolve(make_arch())
    assert by_bandwidth.level("scratchpad").read_bytes_per_cycle == 64
    assert by_bandwidth.level("scratchpad").read_pj_per_byte == by_width.level("scratchpad").read_pj_per_byte


@pytest.mark.parametrize("preset", spatial_presets())
def test_every_spatial_preset_resolves_with_full_provenance(preset: str) -> None:
    arch = load_arch(preset)
    assert isinstance(arch, SpatialArch)
    numbers = resolve(arch)
    assert numbers == resolve(arch)
    assert numbers.area_mm2 > 0
    assert_every_number_has_a_source(numbers)


def assert_every_number_has_a_source(numbers: ArchNumbers) -> None:
    for level in numbers.levels:
        for name in (
            "read_pj_per_byte",
            "write_pj_per_byte",
            "read_bytes_per_cycle",
            "write_bytes_per_cycle",
            "area_mm2",
        ):
            value = getattr(level, name)
            assert value >= 0 and not math.isnan(value)
            assert numbers.source_of(f"{level.name}.{name}").detail
    for kind in numbers.compute.datatypes:
        assert kind.mac_pj > 0
        assert numbers.source_of(f"{numbers.compute.name}.{kind.name}.mac_pj").detail
    assert numbers.source_of(f"{numbers.compute.name}.area_mm2").detail
    for fanout in numbers.fanouts:
        for axis in fanout.axes:
            assert numbers.source_of(f"{fanout.name}.{axis.name}.hop_pj_per_byte").detail
