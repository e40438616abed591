"""Register files made of flip-flops: energy of one access and area of one instance.

Energy per bit = (word + select x sqrt(bits)) x port factor: the flip-flop with its clock, and the multiplexer tree with
its wires, whose length goes with the side of the file. Area per bit = flip-flop + one multiplexer leg per read port.

Leakage and the clock of idle words are left out. Inputs may be scalars or arrays that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .technology import FloatArray, Numbers, logic_area_scale, logic_energy_scale, supply_factor

BITS_PER_BYTE = 8
LARGEST_ANCHOR_BYTES = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterFileConstants:
    """Constants at 45 nm, fitted by `calibration` except where noted.

    Attributes:
        word_pj_per_bit: Energy per bit of a single word.
        select_pj_per_bit: Energy per bit and square root of the file's bits.
        port_energy: Growth per further port; taken from the SRAM model's bit cells (assumption: the same geometry).
        flip_flop_um2: Area of a flip-flop.
        select_um2: Area of a multiplexer leg per bit and read port.
        block_overhead: Area of placed logic relative to its cells.
    """

    word_pj_per_bit: float
    select_pj_per_bit: float
    port_energy: float
    flip_flop_um2: float
    select_um2: float
    block_overhead: float


# Fitted by calibration.fit_register_file and calibration.fit_logic_overhead.
REGISTER_FILE = RegisterFileConstants(
    word_pj_per_bit=0.008981,
    select_pj_per_bit=0.0006959,
    port_energy=0.3821,
    flip_flop_um2=4.522,
    select_um2=1.862,
    block_overhead=2.408,
)


def read_pj(
    capacity_bytes: Numbers,
    width_bits: Numbers,
    *,
    node_nm: Numbers,
    further_ports: Numbers = 0.0,
    voltage_v: Numbers | None = None,
    constants: RegisterFileConstants = REGISTER_FILE,
) -> FloatArray:
    """Energy of reading one word [pJ]; a write is taken to cost the same (assumption).

    Args:
        capacity_bytes: Capacity of one instance.
        width_bits: Bits of the word.
        node_nm: Technology node, 2 to 180.
        further_ports: As given by `sram.extra_ports`, beyond one read and one write port.
        voltage_v: Supply; nominal when left out.
        constants: Fitted constants.

    Source: anchors.csv (register_file.read_pj).

    Limits: the largest anchor holds 512 bytes; larger ones are built from SRAM in practice.
    """
    bits = np.asarray(capacity_bytes, dtype=np.float64) * BITS_PER_BYTE
    per_bit = constants.word_pj_per_bit + constants.select_pj_per_bit * np.sqrt(bits)
    ports = 1 + constants.port_energy * np.asarray(further_ports, dtype=np.float64)
    energy = per_bit * np.asarray(width_bits, dtype=np.float64) * ports
    return energy * logic_energy_scale(node_nm) * supply_factor(node_nm, voltage_v)


write_pj = read_pj


def further_ports(read: Numbers, write: Numbers, read_write: Numbers) -> FloatArray:
    """Ports beyond one read and one write port, which a flip-flop has anyway."""
    reads = np.asarray(read, dtype=np.float64) + np.asarray(read_write, dtype=np.float64)
    writes = np.asarray(write, dtype=np.float64) + np.asarray(read_write, dtype=np.float64)
    return np.maximum(reads - 1, 0) + np.maximum(writes - 1, 0)


def area_mm2(
    capacity_bytes: Numbers,
    *,
    node_nm: Numbers,
    further_ports: Numbers = 0.0,
    constants: RegisterFileConstants = REGISTER_FILE,
) -> FloatArray:
    """Area of one instance as placed logic [mm^2]; arguments as `read_pj`."""
    bits = np.asarray(capacity_bytes, dtype=np.float64) * BITS_PER_BYTE
    legs = 1 + np.asarray(further_ports, dtype=np.float64)
    cells_um2 = bits * (constants.flip_flop_um2 + constants.select_um2 * legs)
    return cells_um2 * logic_area_scale(node_nm) * constants.block_overhead * 1e-6


def flip_flop_um2(node_nm: Numbers, constants: RegisterFileConstants = REGISTER_FILE) -> FloatArray:
    """Area of one flip-flop as a standard cell [um^2]."""
    return constants.flip_flop_um2 * logic_area_scale(node_nm)
