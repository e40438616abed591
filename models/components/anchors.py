"""What the models say at the published points, and by how much they are off."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np

from . import mac, main_memory, register_file, sram, wire
from .anchor_table import Anchor, Role, load_anchors, load_cacti

BITS_PER_BYTE = 8
SMALL_ARRAY_BYTES = 65536
"""Below it CACTI's arrays cost far less than published macros, which the model follows; reported apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorError:
    """One published point beside the model.

    Attributes:
        anchor: The published point.
        modelled: What the model gives, same unit.
    """

    anchor: Anchor
    modelled: float

    @property
    def relative(self) -> float:
        """Modelled over published, minus 1."""
        return self.modelled / self.anchor.published - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSummary:
    """Errors of one group of anchors.

    Attributes:
        group: Name of the group.
        role: Calibration or validation.
        count: Number of anchors.
        median: Median of the absolute relative errors.
        worst: Largest absolute relative error.
        bias: Geometric mean of modelled over published, minus 1.
    """

    group: str
    role: Role
    count: int
    median: float
    worst: float
    bias: float

    def __str__(self) -> str:
        return f"{self.role} on {self.count}: median {self.median:.0%}, worst {self.worst:.0%}, bias {self.bias:+.0%}"


def modelled(anchor: Anchor) -> float:
    """The model's value at an anchor's conditions, in the anchor's unit.

    Raises:
        KeyError: No model for that quantity.
    """
    return float(_MODELS[anchor.quantity](anchor))


def group_of(anchor: Anchor) -> str:
    """The group that an anchor's error is reported in."""
    component, _, quantity = anchor.quantity.partition(".")
    if component == "cacti" and quantity != "macro_mm2":
        size = "small" if anchor.capacity_bytes < SMALL_ARRAY_BYTES else "large"
        return f"{component}.{quantity} ({size})"
    if component in ("int_add", "int_multiply", "float_add", "float_multiply"):
        return "arithmetic energy" if quantity == "pj" else "arithmetic area"
    return anchor.quantity


@cache
def anchor_errors() -> tuple[AnchorError, ...]:
    """Every published point beside the model."""
    return tuple(AnchorError(anchor=anchor, modelled=modelled(anchor)) for anchor in (*load_anchors(), *load_cacti()))


def summarise(errors: Iterable[AnchorError]) -> tuple[ErrorSummary, ...]:
    """Errors by group, calibration and validation apart, in the order of first appearance."""
    groups: dict[tuple[str, Role], list[AnchorError]] = {}
    for error in errors:
        groups.setdefault((group_of(error.anchor), error.anchor.role), []).append(error)
    return tuple(
        ErrorSummary(
            group=group,
            role=role,
            count=len(members),
            median=float(np.median([abs(error.relative) for error in members])),
            worst=max(abs(error.relative) for error in members),
            bias=float(np.exp(np.mean([np.log1p(error.relative) for error in members])) - 1),
        )
        for (group, role), members in groups.items()
    )


@cache
def accuracy_note(*groups: str) -> str:
    """The errors of some groups in one clause each, for provenance."""
    notes = [f"{found.group} {found}" for found in summarise(anchor_errors()) if found.group in groups]
    return "; ".join(notes) if notes else "no published point"


def _sram_ports(anchor: Anchor) -> float:
    return float(sram.extra_ports(anchor.read_ports, anchor.write_ports, anchor.read_write_ports))


def _sram_read(anchor: Anchor) -> float:
    energy = sram.read_pj(
        anchor.capacity_bytes,
        anchor.width_bits,
        node_nm=anchor.node_nm,
        banks=anchor.banks,
        further_ports=_sram_ports(anchor),
    )
    return float(energy)


def _sram_write(anchor: Anchor) -> float:
    energy = sram.write_pj(
        anchor.capacity_bytes,
        anchor.width_bits,
        node_nm=anchor.node_nm,
        banks=anchor.banks,
        further_ports=_sram_ports(anchor),
    )
    return float(energy)


def _macro_area(anchor: Anchor) -> float:
    area = sram.macro_area_mm2(
        anchor.capacity_bytes,
        anchor.width_bits,
        cell_um2=anchor.cell_um2,
        banks=anchor.banks,
        further_ports=_sram_ports(anchor),
    )
    return float(area)


def _block_area(anchor: Anchor) -> float:
    area = sram.area_mm2(
        anchor.capacity_bytes,
        anchor.width_bits,
        node_nm=anchor.node_nm,
        banks=anchor.banks,
        further_ports=_sram_ports(anchor),
    )
    return float(area)


def _register_read(anchor: Anchor) -> float:
    return float(register_file.read_pj(anchor.capacity_bytes, anchor.width_bits, node_nm=anchor.node_nm))


def _pe_um2(anchor: Anchor) -> float:
    unit = mac.mac_mm2(anchor.datatype, node_nm=anchor.node_nm, accumulator_bits=int(anchor.bits))
    registers = register_file.area_mm2(anchor.capacity_bytes, node_nm=anchor.node_nm)
    return float(unit + registers) * 1e6


def _int_mac_pj(anchor: Anchor) -> float:
    product = mac.int_multiply_pj(anchor.bits, anchor.node_nm)
    return float(product + mac.int_add_pj(anchor.bits, anchor.node_nm))


def _main_memory_ratio(anchor: Anchor) -> float:
    access_pj = main_memory.pj_per_byte(anchor.technology) * anchor.bits / BITS_PER_BYTE
    return access_pj / _int_mac_pj(anchor)


_MODELS: dict[str, Callable[[Anchor], float]] = {
    "sram.read_pj": _sram_read,
    "sram.block_mm2": _block_area,
    "cacti.read_pj": _sram_read,
    "cacti.write_pj": _sram_write,
    "cacti.macro_mm2": _macro_area,
    "int_add.pj": lambda a: float(mac.int_add_pj(a.bits, a.node_nm)),
    "int_multiply.pj": lambda a: float(mac.int_multiply_pj(a.bits, a.node_nm)),
    "float_add.pj": lambda a: float(mac.float_add_pj(mac.SIGNIFICAND_BITS[a.datatype], a.node_nm)),
    "float_multiply.pj": lambda a: float(mac.float_multiply_pj(mac.SIGNIFICAND_BITS[a.datatype], a.node_nm)),
    "int_add.um2": lambda a: float(mac.int_add_um2(a.bits, a.node_nm)),
    "int_multiply.um2": lambda a: float(mac.int_multiply_um2(a.bits, a.node_nm)),
    "float_add.um2": lambda a: float(mac.float_add_um2(mac.SIGNIFICAND_BITS[a.datatype], a.node_nm)),
    "float_multiply.um2": lambda a: float(mac.float_multiply_um2(mac.SIGNIFICAND_BITS[a.datatype], a.node_nm)),
    "pe.um2": _pe_um2,
    "register_file.read_pj": _register_read,
    "ratio.register_file": lambda a: _register_read(a) / _int_mac_pj(a),
    "ratio.scratchpad": lambda a: _sram_read(a) * a.bits / a.width_bits / _int_mac_pj(a),
    "ratio.main_memory": _main_memory_ratio,
    "flip_flop.um2": lambda a: float(register_file.flip_flop_um2(a.node_nm)),
    "multiplexer.um2": lambda a: register_file.REGISTER_FILE.select_um2,
    "main_memory.pj_per_bit": lambda a: main_memory.pj_per_byte(a.technology) / BITS_PER_BYTE,
    "wire.pj_per_bit_mm": lambda a: float(wire.wire_pj_per_bit_mm(a.node_nm)),
}
