"""Arithmetic: energy and area of adders, multipliers and multiply-accumulates by datatype.

An integer multiplier has bits^2 adder cells, an adder bits. A floating-point multiplier adds rounding and normalising
to the product of the significands; a floating-point adder is dominated by its shifters (energy ~ significand bits,
area ~ significand bits x log2). A floating-point product that goes into a fixed-point sum is shifted to its place and
added as an integer: half of a floating-point adder of the sum's width, which shifts twice, and an integer adder
(assumption; there is no published figure for the 8-bit formats). Registers around the unit are memories of their own and not priced here.

Leakage and the clock are left out. Inputs may be scalars or arrays that broadcast.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...archdsl import ModelError
from .technology import FloatArray, Numbers, logic_area_scale, logic_energy_scale, supply_factor

SIGNIFICAND_BITS = {"fp4": 2, "fp6": 4, "fp8": 4, "bf16": 8, "fp16": 11, "tf32": 11, "fp32": 24, "fp64": 53}
"""Bits of the significand with its hidden one: fp4 is e2m1, fp6 is e2m3, fp8 is e4m3."""

INTEGER_BITS = {"int2": 2, "int4": 4, "int8": 8, "int16": 16, "int32": 32}

FULL_ACCUMULATOR_BITS = 32
DOUBLE_ACCUMULATOR_BITS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MacConstants:
    """Constants at 45 nm, fitted by `calibration`.

    Attributes:
        int_add_pj_per_bit: Integer adder, energy per bit.
        int_multiply_pj_per_bit2: Integer multiplier, energy per squared bit.
        float_add_pj_per_bit: Floating-point adder, energy per significand bit.
        float_multiply_pj_per_bit2: Floating-point multiplier, energy per squared significand bit.
        float_multiply_pj_per_bit: Floating-point multiplier, energy per significand bit.
        int_add_um2_per_bit: Integer adder, area per bit.
        int_multiply_um2_per_bit2: Integer multiplier, area per squared bit.
        float_add_um2_per_shift_bit: Floating-point adder, area per significand bit and its log2.
        float_multiply_um2_per_bit2: Floating-point multiplier, area per squared significand bit.
        block_overhead: Area of placed logic relative to its cells.
    """

    int_add_pj_per_bit: float
    int_multiply_pj_per_bit2: float
    float_add_pj_per_bit: float
    float_multiply_pj_per_bit2: float
    float_multiply_pj_per_bit: float
    int_add_um2_per_bit: float
    int_multiply_um2_per_bit2: float
    float_add_um2_per_shift_bit: float
    float_multiply_um2_per_bit2: float
    block_overhead: float


# Fitted by calibration.fit_mac and calibration.fit_logic_overhead.
MAC = MacConstants(
    int_add_pj_per_bit=0.003125,
    int_multiply_pj_per_bit2=0.003027,
    float_add_pj_per_bit=0.0375,
    float_multiply_pj_per_bit2=0.004167,
    float_multiply_pj_per_bit=0.05417,
    int_add_um2_per_bit=4.281,
    int_multiply_um2_per_bit2=3.413,
    float_add_um2_per_shift_bit=38.02,
    float_multiply_um2_per_bit2=13.37,
    block_overhead=2.408,
)


def int_add_pj(bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Energy of an integer addition [pJ]."""
    return constants.int_add_pj_per_bit * np.asarray(bits, dtype=np.float64) * logic_energy_scale(node_nm)


def int_multiply_pj(bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Energy of an integer multiplication of two operands of that width [pJ]."""
    return constants.int_multiply_pj_per_bit2 * np.asarray(bits, dtype=np.float64) ** 2 * logic_energy_scale(node_nm)


def float_add_pj(significand_bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Energy of a floating-point addition [pJ]; the hidden bit counts."""
    significand = np.asarray(significand_bits, dtype=np.float64)
    return constants.float_add_pj_per_bit * significand * logic_energy_scale(node_nm)


def float_multiply_pj(significand_bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Energy of a floating-point multiplication [pJ]; the hidden bit counts."""
    significand = np.asarray(significand_bits, dtype=np.float64)
    product = constants.float_multiply_pj_per_bit2 * significand**2
    return (product + constants.float_multiply_pj_per_bit * significand) * logic_energy_scale(node_nm)


def int_add_um2(bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Area of an integer adder's cells [um^2]."""
    return constants.int_add_um2_per_bit * np.asarray(bits, dtype=np.float64) * logic_area_scale(node_nm)


def int_multiply_um2(bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Area of an integer multiplier's cells [um^2]."""
    return constants.int_multiply_um2_per_bit2 * np.asarray(bits, dtype=np.float64) ** 2 * logic_area_scale(node_nm)


def float_add_um2(significand_bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Area of a floating-point adder's cells [um^2]."""
    significand = np.asarray(significand_bits, dtype=np.float64)
    return constants.float_add_um2_per_shift_bit * significand * np.log2(significand) * logic_area_scale(node_nm)


def float_multiply_um2(significand_bits: Numbers, node_nm: Numbers, constants: MacConstants = MAC) -> FloatArray:
    """Area of a floating-point multiplier's cells [um^2]."""
    significand = np.asarray(significand_bits, dtype=np.float64)
    return constants.float_multiply_um2_per_bit2 * significand**2 * logic_area_scale(node_nm)


def is_float(datatype: str) -> bool:
    """Whether a datatype is floating point.

    Raises:
        ModelError: The arithmetic model does not know the datatype.
    """
    if datatype in SIGNIFICAND_BITS:
        return True
    if datatype in INTEGER_BITS:
        return False
    known = ", ".join([*INTEGER_BITS, *SIGNIFICAND_BITS])
    raise ModelError(f"the arithmetic model has no datatype '{datatype}'; it has {known}")


def default_accumulator_bits(datatype: str) -> int:
    """Width of the sum when the architecture gives none: 32 bits, 64 for fp64."""
    is_float(datatype)
    return DOUBLE_ACCUMULATOR_BITS if datatype == "fp64" else FULL_ACCUMULATOR_BITS


def mac_pj(
    datatype: str,
    *,
    node_nm: Numbers,
    accumulator_bits: int | None = None,
    fixed_point_sum: bool = False,
    voltage_v: Numbers | None = None,
    constants: MacConstants = MAC,
) -> FloatArray:
    """Energy of one multiply-accumulate [pJ]: the product of two operands plus the addition to the sum.

    Args:
        datatype: Datatype of the operands, e.g. `int8` or `bf16`.
        node_nm: Technology node, 2 to 180.
        accumulator_bits: Width of the sum; 16, 32 or 64 for a floating-point one. Default: `default_accumulator_bits`.
        fixed_point_sum: Whether floating-point products are summed as fixed-point numbers.
        voltage_v: Supply; nominal when left out.
        constants: Fitted constants.

    Raises:
        ModelError: Unknown datatype, or no floating-point format of the accumulator's width.

    Source: anchors.csv (operation energies of Horowitz, ISSCC 2014).
    """
    sum_bits = accumulator_bits or default_accumulator_bits(datatype)
    if is_float(datatype) and fixed_point_sum:
        total = int_multiply_pj(SIGNIFICAND_BITS[datatype], node_nm, constants)
        total = total + float_add_pj(sum_bits, node_nm, constants) / 2 + int_add_pj(sum_bits, node_nm, constants)
    elif is_float(datatype):
        product = float_multiply_pj(SIGNIFICAND_BITS[datatype], node_nm, constants)
        total = product + float_add_pj(_sum_significand_bits(datatype, sum_bits), node_nm, constants)
    else:
        total = int_multiply_pj(INTEGER_BITS[datatype], node_nm, constants) + int_add_pj(sum_bits, node_nm, constants)
    return total * supply_factor(node_nm, voltage_v)


def mac_mm2(
    datatype: str,
    *,
    node_nm: Numbers,
    accumulator_bits: int | None = None,
    fixed_point_sum: bool = False,
    constants: MacConstants = MAC,
) -> FloatArray:
    """Area of one placed multiply-accumulate unit [mm^2], without its registers; arguments as `mac_pj`."""
    sum_bits = accumulator_bits or default_accumulator_bits(datatype)
    if is_float(datatype) and fixed_point_sum:
        cells = int_multiply_um2(SIGNIFICAND_BITS[datatype], node_nm, constants)
        cells = cells + float_add_um2(sum_bits, node_nm, constants) / 2 + int_add_um2(sum_bits, node_nm, constants)
    elif is_float(datatype):
        cells = float_multiply_um2(SIGNIFICAND_BITS[datatype], node_nm, constants)
        cells = cells + float_add_um2(_sum_significand_bits(datatype, sum_bits), node_nm, constants)
    else:
        cells = int_multiply_um2(INTEGER_BITS[datatype], node_nm, constants) + int_add_um2(sum_bits, node_nm, constants)
    return cells * constants.block_overhead * 1e-6


def vector_pj(*, is_floating: bool, node_nm: Numbers, voltage_v: Numbers | None = None) -> FloatArray:
    """Energy of one element-wise operation [pJ] (assumption: a 32-bit addition)."""
    energy = float_add_pj(SIGNIFICAND_BITS["fp32"], node_nm) if is_floating else int_add_pj(32, node_nm)
    return energy * supply_factor(node_nm, voltage_v)


def vector_lane_mm2(*, is_floating: bool, node_nm: Numbers) -> FloatArray:
    """Area of one vector lane [mm^2] (assumption: a 32-bit multiplier and adder)."""
    return mac_mm2("fp32" if is_floating else "int32", node_nm=node_nm)


def _sum_significand_bits(datatype: str, sum_bits: int) -> int:
    widths = {16: SIGNIFICAND_BITS["fp16"], 32: SIGNIFICAND_BITS["fp32"], 64: SIGNIFICAND_BITS["fp64"]}
    if sum_bits not in widths:
        raise ModelError(
            f"datatype {datatype}: no floating-point sum of {sum_bits} bits is modelled; accumulator_bits may be "
            f"{', '.join(map(str, widths))}; else set fixed_point_sum, or give the energy and area explicitly"
        )
    return widths[sum_bits]
