"""On-chip wires: energy of moving bits over a distance."""

from __future__ import annotations

from .technology import FloatArray, Numbers, nominal_supply_v, supply_factor

# Fitted by calibration.fit_wire.
WIRE_PJ_PER_BIT_MM_AT_40_NM = 0.1211
WIRE_REFERENCE_NODE_NM = 40.0


def wire_pj_per_bit_mm(node_nm: Numbers, voltage_v: Numbers | None = None) -> FloatArray:
    """Energy of moving one bit over one millimetre of repeated wire [pJ].

    Capacitance per length hardly changes between nodes, so that only the supply does: energy ~ V^2.

    Args:
        node_nm: Technology node, 2 to 180.
        voltage_v: Supply; nominal when left out.

    Source: anchors.csv (wire.pj_per_bit_mm): Keckler et al., IEEE Micro 31(5), 2011, Table 1.
    """
    ratio = nominal_supply_v(node_nm) / nominal_supply_v(WIRE_REFERENCE_NODE_NM)
    return WIRE_PJ_PER_BIT_MM_AT_40_NM * ratio**2 * supply_factor(node_nm, voltage_v)
