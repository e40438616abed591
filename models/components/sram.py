"""SRAM: energy of one access and area of one instance.

Energy of one access of `width` bits = width x fixed + (row + column x width) x sqrt(bits) x bank factor x port factor
x node scale. The first term is sensing, latching and driving out; the second is wordlines, bitlines and the tree of
wires to the bank, whose lengths go with the side of the memory. Splitting into banks shortens the wires inside a bank,
but not the tree that reaches them.

Area = (bits / array efficiency + banks x width x periphery) x bit cell x port factor^2 x block overhead.

Leakage is left out. Inputs may be scalars or arrays that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .technology import FloatArray, Numbers, array_energy_scale, bit_cell_um2, supply_factor

BITS_PER_BYTE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class SramConstants:
    """Constants at 45 nm, all fitted by `calibration`; no value is typed in twice.

    Attributes:
        fixed_pj_per_bit: Energy per bit moved that does not depend on size, nor (published macros) on the node.
        row_pj: Energy per access and square root of bits.
        column_pj_per_bit: Energy per bit moved and square root of bits.
        tree_fraction: Share of the wire energy that banks do not shorten.
        port_energy: Growth of wire energy per further port.
        write_ratio: Wire energy of a write relative to a read.
        array_efficiency: Share of the array's area that is bit cells.
        periphery_cells_per_bit: Bit cells' worth of area per bank and bit of width.
        port_side: Growth of a bit cell's side per further port.
        block_overhead: Area of a placed block relative to its macros: redundancy, test, routing, white space.
    """

    fixed_pj_per_bit: float
    row_pj: float
    column_pj_per_bit: float
    tree_fraction: float
    port_energy: float
    write_ratio: float
    array_efficiency: float
    periphery_cells_per_bit: float
    port_side: float
    block_overhead: float


# Fitted by calibration.fit_sram.
SRAM = SramConstants(
    fixed_pj_per_bit=0.1062,
    row_pj=0.01252,
    column_pj_per_bit=2.539e-4,
    tree_fraction=0.9875,
    port_energy=0.7392,
    write_ratio=0.9925,
    array_efficiency=0.7207,
    periphery_cells_per_bit=234.1,
    port_side=0.3821,
    block_overhead=1.952,
)


def extra_ports(read: Numbers, write: Numbers, read_write: Numbers) -> FloatArray:
    """Ports beyond the first, in full read-write ports; one that only reads or only writes counts half.

    A single-ended port adds one bitline to the cell, a full one adds two.
    """
    single = np.asarray(read, dtype=np.float64) + np.asarray(write, dtype=np.float64)
    full = np.asarray(read_write, dtype=np.float64)
    return np.where(full >= 1, full - 1 + single / 2, np.maximum(single - 1, 0) / 2)


def read_pj(
    capacity_bytes: Numbers,
    width_bits: Numbers,
    *,
    node_nm: Numbers,
    banks: Numbers = 1.0,
    further_ports: Numbers = 0.0,
    voltage_v: Numbers | None = None,
    constants: SramConstants = SRAM,
) -> FloatArray:
    """Energy of reading one word [pJ].

    Args:
        capacity_bytes: Capacity of one instance over all banks.
        width_bits: Bits of the word that one bank delivers.
        node_nm: Technology node, 2 to 180.
        banks: Banks of the instance.
        further_ports: As given by `extra_ports`.
        voltage_v: Supply; nominal when left out.
        constants: Fitted constants.

    Source: anchors.csv and cacti.csv; `benchmarks/component_anchors.py` prints the errors.
    """
    wire = _wire_pj(capacity_bytes, width_bits, node_nm, banks, further_ports, constants)
    return (constants.fixed_pj_per_bit * np.asarray(width_bits) + wire) * supply_factor(node_nm, voltage_v)


def write_pj(
    capacity_bytes: Numbers,
    width_bits: Numbers,
    *,
    node_nm: Numbers,
    banks: Numbers = 1.0,
    further_ports: Numbers = 0.0,
    voltage_v: Numbers | None = None,
    constants: SramConstants = SRAM,
) -> FloatArray:
    """Energy of writing one word [pJ]; arguments as `read_pj`."""
    wire = _wire_pj(capacity_bytes, width_bits, node_nm, banks, further_ports, constants) * constants.write_ratio
    return (constants.fixed_pj_per_bit * np.asarray(width_bits) + wire) * supply_factor(node_nm, voltage_v)


def _wire_pj(
    capacity_bytes: Numbers,
    width_bits: Numbers,
    node_nm: Numbers,
    banks: Numbers,
    further_ports: Numbers,
    constants: SramConstants,
) -> FloatArray:
    side = np.sqrt(np.asarray(capacity_bytes, dtype=np.float64) * BITS_PER_BYTE)
    in_bank = (1 - constants.tree_fraction) / np.sqrt(np.asarray(banks, dtype=np.float64))
    per_side = constants.row_pj + constants.column_pj_per_bit * np.asarray(width_bits, dtype=np.float64)
    ports = 1 + constants.port_energy * np.asarray(further_ports, dtype=np.float64)
    return side * (constants.tree_fraction + in_bank) * per_side * ports * array_energy_scale(node_nm)


def macro_area_mm2(
    capacity_bytes: Numbers,
    width_bits: Numbers,
    *,
    cell_um2: Numbers,
    banks: Numbers = 1.0,
    further_ports: Numbers = 0.0,
    constants: SramConstants = SRAM,
) -> FloatArray:
    """Area of the bare macros of one instance [mm^2], from the area of a bit cell.

    Args:
        capacity_bytes: Capacity of one instance over all banks.
        width_bits: Bits of the word that one bank delivers.
        cell_um2: Area of a single-ported bit cell [um^2].
        banks: Banks of the instance.
        further_ports: As given by `extra_ports`.
        constants: Fitted constants.
    """
    bits = np.asarray(capacity_bytes, dtype=np.float64) * BITS_PER_BYTE
    periphery = np.asarray(banks) * constants.periphery_cells_per_bit * np.asarray(width_bits, dtype=np.float64)
    ports = (1 + constants.port_side * np.asarray(further_ports, dtype=np.float64)) ** 2
    return (bits / constants.array_efficiency + periphery) * np.asarray(cell_um2) * ports * 1e-6


def area_mm2(
    capacity_bytes: Numbers,
    width_bits: Numbers,
    *,
    node_nm: Numbers,
    banks: Numbers = 1.0,
    further_ports: Numbers = 0.0,
    constants: SramConstants = SRAM,
) -> FloatArray:
    """Area of one instance as a placed block [mm^2]; arguments as `read_pj`.

    Source: macros shaped as CACTI's, published bit cells, and block overhead from the 256 KB scratchpad of Genc et al.,
    "Gemmini", DAC 2021, Fig. 6.
    """
    macro = macro_area_mm2(
        capacity_bytes,
        width_bits,
        cell_um2=bit_cell_um2(node_nm),
        banks=banks,
        further_ports=further_ports,
        constants=constants,
    )
    return macro * constants.block_overhead
