"""The tensor PE array: area of its PEs and of its post-processing, from what their RTL is made of.

Every term is a number of flip-flops, multiplexers, adder bits or multiplier bits that follows from the sizes of the
array, times the area of one as in `mac` and `register_file`. Those are published figures; none comes from synthesis of
this RTL. A comparison or an increment counts as an adder, a decoder as a multiplexer per output. A choice between two is
a multiplexer, a choice among many an AND-OR with a leg for each.

Trees are areas of cells. What `resolve` charges is placed, `MAC.block_overhead` times as large.
"""

from __future__ import annotations

import math

from ...archdsl import OUT_DEPTH, TABLE_BYTES, ModelError, PeArray, tensor_pe_array_isa
from ..parts import Part, sum_of
from . import mac, register_file
from .mac import MAC
from .technology import logic_area_scale

LEG_UM2 = 1.064
"""A leg of a choice among many at 45 nm: half an AOI22_X1 (1.330) and half a NAND2_X1 (0.798) that joins two of them.

Source: NanGate 45 nm open cell library, cell areas (recalled)."""
BITS_PER_BYTE = 8
SQUARE_UM_TO_MM = 1e-6
MULTIPLIER_BITS = 32
BIAS_BITS = 32
SHIFT_LEVELS = 6
"""A shift of 0 to 63 takes six levels of multiplexers."""
PARAMETER_BITS = BIAS_BITS + MULTIPLIER_BITS + SHIFT_LEVELS
"""Channel parameters of one column: bias, multiplier, shift."""
STORED_BITS = 8
LANE_ADDERS = 5
"""As wide as the product: the rest of the division, the rest against one half, rounding up, zero point, limits."""
RAW_STAGES = 4
"""Cycles for which sums that are stored as they are wait beside post-processing."""
STORES_UNDER_WAY = 4
"""Store instructions with their configuration that are held: one is read, two wait, one is written."""
ADDRESS_ADDERS = 6
"""Adders of the width of an address: accumulator vectors, vectors and rows in main memory, beats, and two counts."""


def pe_array_area(array: PeArray, *, node_nm: float) -> Part:
    """Cell area of all PEs [mm^2]: products, sums, weights, and the registers between PEs.

    Args:
        array: The PE array; its elements are integers.
        node_nm: Technology node, 2 to 180.

    Returns:
        A tree of three parts: `mac`; `register`, the weight and its shadow; `pe_pipeline`, what a PE hands on: its
        input with the swap to the right, of which the last column hands on none, and its sum downwards.

    Raises:
        ModelError: Elements are floating point.

    Limits: integers; the decoder that finds the row to preload is left out (less than 1 % of a PE).
    """
    _require_integers(array)
    sums = array.cols * sum(_sum_bits(array))
    inputs = array.rows * (array.cols - 1) * (array.element_bits + 1)
    weights = 2 * array.rows * array.cols * array.element_bits
    return _sum(
        "pe_array",
        _leaf("mac", _macs_um2(array, node_nm)),
        _leaf("register", weights * _enabled_bit_um2(node_nm)),
        _leaf("pe_pipeline", (inputs + sums) * _bit_um2(node_nm)),
    )


def post_processing_area(array: PeArray, *, node_nm: float) -> Part:
    """Cell area of post-processing with its store unit [mm^2].

    Args:
        array: The PE array.
        node_nm: Technology node, 2 to 180.

    Returns:
        A tree: `lanes`; and `store_unit` with the channel parameters, the tables, the registers of vectors under way,
        the output queue, the alignment to the bus and to scratchpad words, and control.

    Raises:
        ModelError: Elements are floating point.
    """
    _require_integers(array)
    return _sum(
        "post_processing",
        _leaf("lanes", array.post_lanes * _lane_um2(array, node_nm)),
        _sum(
            "store_unit",
            _leaf("channel_parameters", _parameters_um2(array, node_nm)),
            _leaf("tables", _tables_um2(array, node_nm)),
            _leaf("vectors", _vectors_um2(array, node_nm)),
            _leaf("queue", _queue_um2(array, node_nm)),
            _leaf("alignment", _alignment_um2(array, node_nm)),
            _leaf("control", _control_um2(node_nm)),
        ),
    )


def _require_integers(array: PeArray) -> None:
    if array.format.is_float:
        raise ModelError(
            f"the area of the PE array's RTL is modelled for integers, not for {array.format.name}; take an architecture of"
            " datatype int8 (an estimate of this one charges its compute unit as for any architecture)"
        )


def mean_mac_mm2(array: PeArray, node_nm: float) -> float:
    """Placed area of a multiply-accumulate unit, on average over the array [mm^2]."""
    return _placed_mm2(_macs_um2(array, node_nm)) / (array.rows * array.cols)


def mean_pipeline_mm2(array: PeArray, node_nm: float) -> float:
    """Placed area of what a PE hands on, on average over the array [mm^2]."""
    (pipeline,) = (part for part in pe_array_area(array, node_nm=node_nm).parts if part.name == "pe_pipeline")
    return pipeline.amount * MAC.block_overhead / (array.rows * array.cols)


def lane_mm2(array: PeArray, node_nm: float) -> float:
    """Placed area of one lane of post-processing [mm^2]."""
    return _placed_mm2(_lane_um2(array, node_nm))


def store_unit_mm2(array: PeArray, node_nm: float) -> float:
    """Placed area of the store unit without its lanes [mm^2]."""
    (unit,) = (part for part in post_processing_area(array, node_nm=node_nm).parts if part.name == "store_unit")
    return unit.amount * MAC.block_overhead


def _sum_bits(array: PeArray) -> list[int]:
    """Bits of the partial sum of each row: a product, a sum of two, and from there on the accumulator's width.

    Above them the first two repeat the sign, which synthesis notices. A sum in the third row needs hardly more, but
    Yosys takes its width as it is written.
    """
    product_bits = 2 * array.element_bits
    first = [min(product_bits + row, array.accumulator_bits) for row in range(2)]
    return [*first, *[array.accumulator_bits] * (array.rows - 2)]


def _macs_um2(array: PeArray, node_nm: float) -> float:
    """Products of all PEs, and their sums but for the first row, which adds nothing."""
    product_um2 = float(mac.int_multiply_um2(float(array.element_bits), node_nm))
    column_um2 = array.rows * product_um2 + float(mac.int_add_um2(float(sum(_sum_bits(array)[1:])), node_nm))
    return array.cols * column_um2


def _lane_um2(array: PeArray, node_nm: float) -> float:
    """Bias, product, shift, rounding, zero point, clip; registers after the bias and the three steps."""
    biased_bits = max(array.accumulator_bits, BIAS_BITS) + 1
    product_bits = biased_bits + MULTIPLIER_BITS
    product_um2 = float(mac.int_multiply_um2(math.sqrt(biased_bits * MULTIPLIER_BITS), node_nm))
    adders_um2 = float(mac.int_add_um2(float(biased_bits + LANE_ADDERS * product_bits), node_nm))
    # To the right by the shift, back for the rest, one half of the last place; and the limits.
    muxes = (2 * SHIFT_LEVELS + 1) * product_bits + 2 * STORED_BITS
    bits = biased_bits + 2 * product_bits + STORED_BITS
    return product_um2 + adders_um2 + muxes * _mux_um2(node_nm) + bits * _bit_um2(node_nm)


def _parameters_um2(array: PeArray, node_nm: float) -> float:
    """All slots, and what selects a slot and from it the columns of the lanes."""
    bits = array.parameter_slots * array.cols * PARAMETER_BITS
    legs = bits - array.post_lanes * PARAMETER_BITS
    return bits * _enabled_bit_um2(node_nm) + legs * _leg_um2(node_nm)


def _tables_um2(array: PeArray, node_nm: float) -> float:
    """All tables, what selects one of them, and from it an element per lane: by its bits, in a tree of multiplexers."""
    table_bits = TABLE_BYTES * BITS_PER_BYTE
    legs = (array.table_slots if array.table_slots > 1 else 0) * table_bits
    # Beside the tree, a lane takes what was looked up, or what it looked up by.
    muxes = array.post_lanes * TABLE_BYTES * STORED_BITS
    registers_um2 = array.table_slots * table_bits * _enabled_bit_um2(node_nm)
    return registers_um2 + legs * _leg_um2(node_nm) + muxes * _mux_um2(node_nm)


def _vectors_um2(array: PeArray, node_nm: float) -> float:
    """The vector that lanes take columns from, its copies that are stored as they are, and bytes that lanes have done."""
    vector_bits = array.cols * array.accumulator_bits
    held_bits = vector_bits + array.cols * STORED_BITS
    registers_um2 = held_bits * _enabled_bit_um2(node_nm) + RAW_STAGES * vector_bits * _bit_um2(node_nm)
    # As it comes or as it was held; then the columns of the lanes.
    legs = (array.cols - array.post_lanes) * array.accumulator_bits
    return registers_um2 + vector_bits * _mux_um2(node_nm) + legs * _leg_um2(node_nm)


def _queue_um2(array: PeArray, node_nm: float) -> float:
    """The choice of the stored format (32, 8 or 4 bits), the output queue and what reads it."""
    vector_bits = array.cols * array.accumulator_bits
    format_muxes = vector_bits + 2 * array.cols * STORED_BITS
    read_um2 = (OUT_DEPTH - 1) * vector_bits * _leg_um2(node_nm)
    return OUT_DEPTH * vector_bits * _enabled_bit_um2(node_nm) + format_muxes * _mux_um2(node_nm) + read_um2


def _alignment_um2(array: PeArray, node_nm: float) -> float:
    """Shifts to the byte in a beat and in a scratchpad word, the choice of the beat; data with a strobe per byte."""
    vector_bits, bus_bits = array.cols * 32, array.bus_bytes * BITS_PER_BYTE
    to_bus = (vector_bits + bus_bits) * math.log2(array.bus_bytes) + vector_bits
    to_scratchpad = array.word_bytes * BITS_PER_BYTE * math.log2(array.word_bytes)
    return (to_bus + to_scratchpad) * (1 + 1 / BITS_PER_BYTE) * _mux_um2(node_nm)


def _control_um2(node_nm: float) -> float:
    """Store instructions under way, addresses, and the product of a store's two counts; the same for all sizes."""
    isa = tensor_pe_array_isa().by_name
    bits = {field.name: field.bits for kind in ("CFG_ST", "ST") for field in isa[kind].fields}
    adders_um2 = float(mac.int_add_um2(float(ADDRESS_ADDERS * bits["address"]), node_nm))
    counts_um2 = float(mac.int_multiply_um2(float(bits["x_count"]), node_nm))
    return STORES_UNDER_WAY * sum(bits.values()) * _enabled_bit_um2(node_nm) + adders_um2 + counts_um2


def _bit_um2(node_nm: float) -> float:
    return float(register_file.flip_flop_um2(node_nm))


def _mux_um2(node_nm: float) -> float:
    return register_file.REGISTER_FILE.select_um2 * float(logic_area_scale(node_nm))


def _leg_um2(node_nm: float) -> float:
    return LEG_UM2 * float(logic_area_scale(node_nm))


def _enabled_bit_um2(node_nm: float) -> float:
    """A flip-flop with a multiplexer that keeps its value until it is written."""
    return _bit_um2(node_nm) + _mux_um2(node_nm)


def _placed_mm2(cells_um2: float) -> float:
    return cells_um2 * MAC.block_overhead * SQUARE_UM_TO_MM


def _leaf(name: str, area_um2: float) -> Part:
    return Part(name=name, amount=area_um2 * SQUARE_UM_TO_MM, unit="mm^2")


def _sum(name: str, *parts: Part) -> Part:
    return sum_of(name, "mm^2", parts)
