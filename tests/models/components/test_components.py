"""Component models: they grow and shrink with what they should, and arrays equal scalars."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tileloom.archdsl import DATATYPE_BITS, ModelError
from tileloom.models.components import mac, main_memory, register_file, sram, technology, wire

CAPACITIES = st.floats(min_value=64, max_value=2**28)
WIDTHS = st.floats(min_value=8, max_value=4096)
BANKS = st.integers(min_value=1, max_value=256).map(float)
PORTS = st.floats(min_value=0, max_value=6)
NODES = st.floats(min_value=2, max_value=180)
GROWTH = st.floats(min_value=1, max_value=64)
SLACK = 1 + 1e-12


@given(CAPACITIES, WIDTHS, BANKS, PORTS, NODES, GROWTH)
def test_sram_energy_grows_with_capacity_width_and_ports(
    capacity: float, width: float, banks: float, ports: float, node: float, growth: float
) -> None:
    def energy(capacity: float, width: float, ports: float) -> tuple[float, float]:
        read = sram.read_pj(capacity, width, node_nm=node, banks=banks, further_ports=ports)
        write = sram.write_pj(capacity, width, node_nm=node, banks=banks, further_ports=ports)
        return float(read), float(write)

    for base, larger in zip(energy(capacity, width, ports), energy(capacity * growth, width, ports), strict=True):
        assert 0 < base <= larger * SLACK
    for base, larger in zip(energy(capacity, width, ports), energy(capacity, width * growth, ports), strict=True):
        assert base <= larger * SLACK
        assert larger / growth <= base * SLACK  # a byte of a wider word never costs more
    for base, larger in zip(energy(capacity, width, ports), energy(capacity, width, ports + growth), strict=True):
        assert base <= larger * SLACK


@given(CAPACITIES, WIDTHS, BANKS, NODES, st.integers(min_value=2, max_value=16))
def test_more_banks_cost_area_and_no_energy(
    capacity: float, width: float, banks: float, node: float, factor: int
) -> None:
    few = float(sram.read_pj(capacity, width, node_nm=node, banks=banks))
    many = float(sram.read_pj(capacity, width, node_nm=node, banks=banks * factor))
    assert many <= few * SLACK
    small = float(sram.area_mm2(capacity, width, node_nm=node, banks=banks))
    large = float(sram.area_mm2(capacity, width, node_nm=node, banks=banks * factor))
    assert small < large


@given(CAPACITIES, WIDTHS, BANKS, PORTS, NODES, GROWTH)
def test_sram_area_grows_with_capacity_width_and_ports(
    capacity: float, width: float, banks: float, ports: float, node: float, growth: float
) -> None:
    base = float(sram.area_mm2(capacity, width, node_nm=node, banks=banks, further_ports=ports))
    assert base > 0
    for larger in (
        sram.area_mm2(capacity * growth, width, node_nm=node, banks=banks, further_ports=ports),
        sram.area_mm2(capacity, width * growth, node_nm=node, banks=banks, further_ports=ports),
        sram.area_mm2(capacity, width, node_nm=node, banks=banks, further_ports=ports + growth),
    ):
        assert base <= float(larger) * SLACK


@given(NODES, NODES)
def test_everything_on_chip_shrinks_with_the_node(first: float, second: float) -> None:
    small, large = sorted((first, second))

    def all_numbers(node: float) -> list[float]:
        values = [
            sram.read_pj(65536.0, 64.0, node_nm=node),
            sram.write_pj(65536.0, 64.0, node_nm=node),
            sram.area_mm2(65536.0, 64.0, node_nm=node),
            register_file.read_pj(64.0, 16.0, node_nm=node),
            register_file.area_mm2(64.0, node_nm=node),
            wire.wire_pj_per_bit_mm(node),
            *(mac.mac_pj(datatype, node_nm=node) for datatype in DATATYPE_BITS),
            *(mac.mac_mm2(datatype, node_nm=node) for datatype in DATATYPE_BITS),
        ]
        return [float(value) for value in values]

    for shrunk, grown in zip(all_numbers(small), all_numbers(large), strict=True):
        assert 0 < shrunk <= grown * SLACK


@given(st.floats(min_value=1, max_value=4096), st.floats(min_value=1, max_value=512), NODES, PORTS, GROWTH)
def test_register_files_grow_with_capacity_width_and_ports(
    capacity: float, width: float, node: float, ports: float, growth: float
) -> None:
    base = float(register_file.read_pj(capacity, width, node_nm=node, further_ports=ports))
    for larger in (
        register_file.read_pj(capacity * growth, width, node_nm=node, further_ports=ports),
        register_file.read_pj(capacity, width * growth, node_nm=node, further_ports=ports),
        register_file.read_pj(capacity, width, node_nm=node, further_ports=ports + growth),
    ):
        assert 0 < base <= float(larger) * SLACK
    area = float(register_file.area_mm2(capacity, node_nm=node, further_ports=ports))
    assert area <= float(register_file.area_mm2(capacity * growth, node_nm=node, further_ports=ports)) * SLACK
    assert area <= float(register_file.area_mm2(capacity, node_nm=node, further_ports=ports + growth)) * SLACK


def test_wider_integers_and_significands_cost_more() -> None:
    integers = [float(mac.mac_pj(f"int{bits}", node_nm=7.0)) for bits in (2, 4, 8, 16, 32)]
    floats = [float(mac.mac_pj(name, node_nm=7.0)) for name in ("fp8", "bf16", "fp16", "fp32", "fp64")]
    assert integers == sorted(integers)
    assert floats == sorted(floats)
    assert float(mac.mac_mm2("bf16", node_nm=7.0)) < float(mac.mac_mm2("fp32", node_nm=7.0))


def test_wider_accumulator_costs_more() -> None:
    assert mac.mac_pj("int8", node_nm=45.0, accumulator_bits=24) < mac.mac_pj("int8", node_nm=45.0)
    assert mac.mac_pj("fp16", node_nm=45.0, accumulator_bits=16) < mac.mac_pj("fp16", node_nm=45.0)


def test_exact_sums_cost_by_their_width() -> None:
    exact = [
        float(mac.mac_pj("fp8", node_nm=45.0, accumulator_bits=bits, fixed_point_sum=True)) for bits in (40, 53, 77)
    ]
    assert exact == sorted(exact)
    # More than an integer product of the significands with its sum, less than with two shifters.
    assert exact[1] > float(mac.mac_pj("int4", node_nm=45.0, accumulator_bits=53))
    areas = [
        float(mac.mac_mm2("fp8", node_nm=45.0, accumulator_bits=bits, fixed_point_sum=True)) for bits in (40, 53, 77)
    ]
    assert areas == sorted(areas)


def test_every_datatype_of_the_architecture_language_is_priced() -> None:
    assert {*mac.INTEGER_BITS, *mac.SIGNIFICAND_BITS} == set(DATATYPE_BITS)


def test_arrays_give_what_scalars_give() -> None:
    capacity, width = np.array([2.0**13, 2.0**18, 2.0**20]), np.array([32.0, 64.0, 512.0])
    node, banks = np.array([45.0, 16.0, 5.0]), np.array([1.0, 4.0, 16.0])
    arrays = (
        sram.read_pj(capacity, width, node_nm=node, banks=banks),
        sram.area_mm2(capacity, width, node_nm=node, banks=banks),
        register_file.read_pj(capacity, width, node_nm=node),
        mac.mac_pj("fp16", node_nm=node),
        wire.wire_pj_per_bit_mm(node),
    )
    for at in range(3):
        scalars = (
            sram.read_pj(capacity[at], width[at], node_nm=node[at], banks=banks[at]),
            sram.area_mm2(capacity[at], width[at], node_nm=node[at], banks=banks[at]),
            register_file.read_pj(capacity[at], width[at], node_nm=node[at]),
            mac.mac_pj("fp16", node_nm=node[at]),
            wire.wire_pj_per_bit_mm(node[at]),
        )
        np.testing.assert_allclose([array[at] for array in arrays], scalars, rtol=1e-14)


def test_energies_have_the_scale_of_picojoules() -> None:
    assert 0.05 < float(mac.mac_pj("int8", node_nm=45.0)) < 1
    assert 1 < float(sram.read_pj(2.0**15, 64.0, node_nm=45.0)) / 8 < 10
    assert 0.05 < float(register_file.read_pj(4.0, 8.0, node_nm=45.0)) < 0.5
    assert 20 < main_memory.pj_per_byte("hbm2") < main_memory.pj_per_byte("ddr3") < 300


def test_supply_scales_energy_by_its_square() -> None:
    nominal = float(technology.nominal_supply_v(45.0))

    def energies(volt: float | None) -> list[float]:
        values = (
            sram.read_pj(65536.0, 64.0, node_nm=45.0, voltage_v=volt),
            register_file.read_pj(8.0, 8.0, node_nm=45.0, voltage_v=volt),
            mac.mac_pj("int8", node_nm=45.0, voltage_v=volt),
            wire.wire_pj_per_bit_mm(45.0, volt),
        )
        return [float(value) for value in values]

    np.testing.assert_allclose(energies(nominal), energies(None))
    np.testing.assert_allclose(energies(nominal / 2), np.array(energies(None)) / 4)


@pytest.mark.parametrize("node", [1.0, 250.0, float("nan")])
def test_nodes_beyond_the_tables_are_refused(node: float) -> None:
    with pytest.raises(ModelError, match=r"technology node .* nm is outside the component models' 2 nm to 180 nm"):
        technology.array_energy_scale(np.array([45.0, node]))


def test_published_nodes_are_hit_exactly() -> None:
    assert math.isclose(float(technology.logic_area_scale(7.0)), 0.059)
    assert math.isclose(float(technology.bit_cell_um2(22.0)), 0.092)
    assert technology.is_extrapolated(5.0) and not technology.is_extrapolated(7.0)


@pytest.mark.parametrize(
    ("ports", "extra"),
    [((0, 0, 1), 0.0), ((0, 0, 2), 1.0), ((1, 1, 0), 0.5), ((1, 0, 1), 0.5), ((2, 1, 0), 1.0)],
)
def test_single_ended_ports_count_half(ports: tuple[int, int, int], extra: float) -> None:
    assert float(sram.extra_ports(*ports)) == extra


def test_unknown_datatype_names_those_there_are() -> None:
    with pytest.raises(ModelError, match="no datatype 'int7'; it has int2, int4, int8"):
        mac.mac_pj("int7", node_nm=45.0)


def test_float_sum_of_odd_width_is_refused() -> None:
    with pytest.raises(ModelError, match="no floating-point sum of 24 bits is modelled; accumulator_bits may be 16"):
        mac.mac_pj("bf16", node_nm=45.0, accumulator_bits=24)


def test_unknown_main_memory_names_those_there_are() -> None:
    with pytest.raises(ModelError, match="no energy for main memory of type 'rram'; there are ddr3, ddr4"):
        main_memory.pj_per_byte("rram")
