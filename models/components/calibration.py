"""Fits the constants of the component models to the calibration anchors, and to no other.

The constants stand as literals in their modules; a test checks that they are what these functions give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from . import mac, register_file, sram
from .anchor_table import Anchor, load_anchors, load_cacti
from .mac import MAC, SIGNIFICAND_BITS, MacConstants
from .register_file import REGISTER_FILE, RegisterFileConstants
from .sram import SRAM, SramConstants
from .technology import (
    REFERENCE_NODE_NM,
    SMALLEST_PUBLISHED_SCALING_NM,
    FloatArray,
    array_energy_scale,
    bit_cell_um2,
    logic_energy_scale,
)

FIT_STEPS = 200
SMALLEST_MOVE = 1e-9


def fit_logic_exponent() -> float:
    """Power of the published energy scaling that 32-bit operations followed from 45 to 7 nm."""
    shrinks: list[float] = []
    for quantity in ("int_add.pj", "int_multiply.pj", "float_add.pj", "float_multiply.pj"):
        wide = [anchor for anchor in _calibration(quantity) if anchor.bits == 32 or anchor.datatype == "fp32"]
        at_node = {anchor.node_nm: anchor.published for anchor in wide}
        shrinks.append(math.log(at_node[SMALLEST_PUBLISHED_SCALING_NM] / at_node[REFERENCE_NODE_NM]))
    return float(np.mean(shrinks)) / math.log(float(array_energy_scale(SMALLEST_PUBLISHED_SCALING_NM)))


def fit_mac() -> MacConstants:
    """Arithmetic at 45 nm; block overhead as it stands."""
    fp32, fp16 = SIGNIFICAND_BITS["fp32"], SIGNIFICAND_BITS["fp16"]
    products = np.array([[fp32**2, fp32], [fp16**2, fp16]], dtype=np.float64)
    energies = np.array([_at_reference("float_multiply.pj", "fp32"), _at_reference("float_multiply.pj", "fp16")])
    per_bit2, per_bit = np.linalg.solve(products, energies)
    return MacConstants(
        int_add_pj_per_bit=_at_reference("int_add.pj", 32) / 32,
        int_multiply_pj_per_bit2=_at_reference("int_multiply.pj", 32) / 32**2,
        float_add_pj_per_bit=_at_reference("float_add.pj", "fp32") / fp32,
        float_multiply_pj_per_bit2=float(per_bit2),
        float_multiply_pj_per_bit=float(per_bit),
        int_add_um2_per_bit=_at_reference("int_add.um2", 32) / 32,
        int_multiply_um2_per_bit2=_at_reference("int_multiply.um2", 32) / 32**2,
        float_add_um2_per_shift_bit=_at_reference("float_add.um2", "fp32") / (fp32 * math.log2(fp32)),
        float_multiply_um2_per_bit2=_at_reference("float_multiply.um2", "fp32") / fp32**2,
        block_overhead=MAC.block_overhead,
    )


def fit_register_file() -> RegisterFileConstants:
    """Register files at 45 nm: one word and one file give the two energies; block overhead as it stands."""
    word, file = _calibration("register_file.read_pj")
    sides = np.array([[1.0, math.sqrt(anchor.capacity_bytes * 8)] for anchor in (word, file)])
    per_bit = [a.published / a.width_bits / float(logic_energy_scale(a.node_nm)) for a in (word, file)]
    word_pj, select_pj = np.linalg.solve(sides, np.array(per_bit))
    return replace(
        REGISTER_FILE,
        word_pj_per_bit=float(word_pj),
        select_pj_per_bit=float(select_pj),
        port_energy=fit_sram().port_side,
        flip_flop_um2=_calibration("flip_flop.um2")[0].published,
        select_um2=_calibration("multiplexer.um2")[0].published,
    )


def fit_logic_overhead() -> float:
    """Area of placed logic over its cells, from a published PE."""
    (anchor,) = _calibration("pe.um2")
    cells = mac.mac_mm2(
        anchor.datatype,
        node_nm=anchor.node_nm,
        accumulator_bits=int(anchor.bits),
        constants=replace(fit_mac(), block_overhead=1.0),
    )
    registers = register_file.area_mm2(
        anchor.capacity_bytes, node_nm=anchor.node_nm, constants=replace(fit_register_file(), block_overhead=1.0)
    )
    return anchor.published / (float(cells + registers) * 1e6)


def fit_sram() -> SramConstants:
    """SRAM at 45 nm: shapes from CACTI, levels from published macros, block overhead from a published chip."""
    reads, writes, areas = (_cacti(name) for name in ("cacti.read_pj", "cacti.write_pj", "cacti.macro_mm2"))

    def wires(values: FloatArray) -> SramConstants:
        row, column, tree, port = values
        shape = replace(SRAM, fixed_pj_per_bit=0.0, row_pj=row, column_pj_per_bit=column)
        return replace(shape, tree_fraction=tree, port_energy=port)

    start = [SRAM.row_pj, SRAM.column_pj_per_bit, 0.9, SRAM.port_energy]
    shape = wires(_fit(lambda v: _log_errors(reads, lambda a: _read(a, wires(v))), start))
    ratios = [math.log(w.published / r.published) for w, r in zip(writes, reads, strict=True)]

    def levels(values: FloatArray) -> SramConstants:
        fixed, level = values
        column = shape.column_pj_per_bit * level
        return replace(shape, fixed_pj_per_bit=fixed, row_pj=shape.row_pj * level, column_pj_per_bit=column)

    macros = _calibration("sram.read_pj")
    energy = levels(_fit(lambda v: _log_errors(macros, lambda a: _read(a, levels(v))), [SRAM.fixed_pj_per_bit, 1.0]))

    def cells(values: FloatArray) -> SramConstants:
        efficiency, periphery, side = values
        base = replace(energy, array_efficiency=efficiency, periphery_cells_per_bit=periphery)
        return replace(base, port_side=side, block_overhead=1.0)

    first = [SRAM.array_efficiency, SRAM.periphery_cells_per_bit, SRAM.port_side]
    area = cells(_fit(lambda v: _log_errors(areas, lambda a: _macro(a, cells(v), a.cell_um2)), first))
    (block,) = _calibration("sram.block_mm2")
    bare = _macro(block, area, float(bit_cell_um2(block.node_nm)))
    return replace(area, write_ratio=math.exp(float(np.mean(ratios))), block_overhead=block.published / bare)


def fit_wire() -> float:
    """Energy of one bit over one millimetre at 40 nm [pJ]."""
    (anchor,) = _calibration("wire.pj_per_bit_mm")
    return anchor.published


def _calibration(quantity: str) -> list[Anchor]:
    return [a for a in load_anchors() if a.quantity == quantity and a.role == "calibration"]


def _cacti(quantity: str) -> list[Anchor]:
    return [a for a in load_cacti() if a.quantity == quantity and a.role == "calibration"]


def _at_reference(quantity: str, which: int | str) -> float:
    """The calibration figure of one width or datatype at 45 nm."""
    (anchor,) = (a for a in _calibration(quantity) if which in (a.bits, a.datatype) and a.node_nm == REFERENCE_NODE_NM)
    return anchor.published


def _read(anchor: Anchor, constants: SramConstants) -> float:
    energy = sram.read_pj(
        anchor.capacity_bytes,
        anchor.width_bits,
        node_nm=anchor.node_nm,
        banks=anchor.banks,
        further_ports=sram.extra_ports(anchor.read_ports, anchor.write_ports, anchor.read_write_ports),
        constants=constants,
    )
    return float(energy)


def _macro(anchor: Anchor, constants: SramConstants, cell_um2: float) -> float:
    area = sram.macro_area_mm2(
        anchor.capacity_bytes,
        anchor.width_bits,
        cell_um2=cell_um2,
        banks=anchor.banks,
        further_ports=sram.extra_ports(anchor.read_ports, anchor.write_ports, anchor.read_write_ports),
        constants=constants,
    )
    return float(area)


def _log_errors(anchors: list[Anchor], model: Callable[[Anchor], float]) -> FloatArray:
    return np.array([math.log(model(anchor) / anchor.published) for anchor in anchors])


def _fit(errors: Callable[[FloatArray], FloatArray], start: list[float]) -> FloatArray:
    """Positive parameters of least squared error, by damped Gauss-Newton on their logarithms."""
    logs = np.log(np.array(start))
    damping, step = 1e-3, 1e-6
    identity = np.eye(len(start))
    best = errors(np.exp(logs))
    for _ in range(FIT_STEPS):
        slopes = np.stack([(errors(np.exp(logs + step * axis)) - best) / step for axis in identity], axis=1)
        move = np.linalg.solve(slopes.T @ slopes + damping * identity, -slopes.T @ best)
        if float(np.abs(move).max()) < SMALLEST_MOVE:
            break
        trial = errors(np.exp(logs + move))
        if float(trial @ trial) < float(best @ best):
            logs, best, damping = logs + move, trial, damping / 3
        else:
            damping *= 4
    return np.exp(logs)
