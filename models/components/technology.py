"""How energy and area change with the technology node.

Published figures are in `technology.csv`; between nodes they are interpolated on logarithmic axes, below the smallest
node the last slope goes on (and `is_extrapolated` says so).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...archdsl import ModelError

FloatArray = NDArray[np.float64]
Numbers = float | FloatArray

REFERENCE_NODE_NM = 45.0
SMALLEST_NODE_NM = 2.0
LARGEST_NODE_NM = 180.0
SMALLEST_PUBLISHED_SCALING_NM = 7.0

# Fitted by calibration.fit_logic_exponent.
LOGIC_EXPONENT = 0.3324


@dataclass(frozen=True, slots=True, kw_only=True)
class _Curve:
    """A published quantity over nodes, ascending, as logarithms."""

    log_node: FloatArray
    log_value: FloatArray

    def at(self, node_nm: Numbers) -> FloatArray:
        """Value at a node; the outermost slopes go on beyond the table."""
        x = np.log(np.asarray(node_nm, dtype=np.float64))
        inside = np.interp(x, self.log_node, self.log_value)
        low = (self.log_value[1] - self.log_value[0]) / (self.log_node[1] - self.log_node[0])
        high = (self.log_value[-1] - self.log_value[-2]) / (self.log_node[-1] - self.log_node[-2])
        below = np.minimum(x - self.log_node[0], 0.0) * low
        above = np.maximum(x - self.log_node[-1], 0.0) * high
        return np.exp(inside + below + above)


@cache
def _curves() -> dict[str, _Curve]:
    text = (Path(__file__).parent / "technology.csv").read_text(encoding="utf-8")
    rows = sorted(csv.DictReader(text.splitlines()), key=lambda row: float(row["node_nm"]))
    points: dict[str, list[tuple[float, float]]] = {"energy": [], "supply_v": [], "logic_area": [], "bit_cell_um2": []}
    for row in rows:
        node = float(row["node_nm"])
        for name in ("supply_v", "logic_area", "bit_cell_um2"):
            if row[name]:
                points[name].append((node, float(row[name])))
        if row["energy_supply_v"]:
            volt = float(row["energy_supply_v"])
            energy = float(row["energy_a2"]) * volt**2 + float(row["energy_a1"]) * volt + float(row["energy_a0"])
            points["energy"].append((node, energy))
    return {
        name: _Curve(log_node=np.log([node for node, _ in pairs]), log_value=np.log([value for _, value in pairs]))
        for name, pairs in points.items()
    }


def check_node(node_nm: Numbers) -> None:
    """Refuse nodes that no table reaches.

    Raises:
        ModelError: A node lies outside 2 nm to 180 nm.
    """
    node = np.atleast_1d(np.asarray(node_nm, dtype=np.float64))
    bad = node[(node < SMALLEST_NODE_NM) | (node > LARGEST_NODE_NM) | np.isnan(node)]
    if bad.size:
        raise ModelError(
            f"technology node {bad[0]:g} nm is outside the component models' "
            f"{SMALLEST_NODE_NM:g} nm to {LARGEST_NODE_NM:g} nm; give energies and areas explicitly"
        )


def is_extrapolated(node_nm: float) -> bool:
    """Whether energy and logic area at a node lie beyond the published scaling table."""
    return node_nm < SMALLEST_PUBLISHED_SCALING_NM


def array_energy_scale(node_nm: Numbers) -> FloatArray:
    """Energy of a memory array relative to 45 nm, each node at its nominal supply.

    Source: Stillmaker and Baas, Integration 58 (2017), Table 5 (energy polynomials), high-performance devices from
    45 nm down. SRAM arrays follow it: CACTI's nodes and the 1 MB figures of Jouppi et al. (ISCA 2021).
    """
    check_node(node_nm)
    curve = _curves()["energy"]
    return curve.at(node_nm) / curve.at(REFERENCE_NODE_NM)


def logic_energy_scale(node_nm: Numbers) -> FloatArray:
    """Energy of arithmetic and registers relative to 45 nm, each node at its nominal supply.

    Above 45 nm as `array_energy_scale`. Below, arithmetic in products improved much less than the inverter chains of
    that table (2.6 instead of 18 times down to 7 nm), so that the same curve is taken to a fitted power.

    Source: shape Stillmaker and Baas 2017; exponent from the 32-bit operations of Jouppi et al., "Ten Lessons From
    Three Generations Shaped Google's TPUv4i", ISCA 2021, Table 2.
    """
    scale = array_energy_scale(node_nm)
    return np.where(scale < 1.0, scale**LOGIC_EXPONENT, scale)


def logic_area_scale(node_nm: Numbers) -> FloatArray:
    """Area of placed logic relative to 45 nm.

    Source: Stillmaker and Baas, Integration 58 (2017), Table 4.
    """
    check_node(node_nm)
    return _curves()["logic_area"].at(node_nm)


def bit_cell_um2(node_nm: Numbers) -> FloatArray:
    """Area of a published six-transistor SRAM bit cell [um^2]; sources per node in `technology.csv`."""
    check_node(node_nm)
    return _curves()["bit_cell_um2"].at(node_nm)


def nominal_supply_v(node_nm: Numbers) -> FloatArray:
    """Supply at which the energies of a node are meant [V].

    Assumption: 0.9 V at 45 nm as in Horowitz (ISSCC 2014), elsewhere the nominal supply of the node.
    """
    check_node(node_nm)
    return _curves()["supply_v"].at(node_nm)


def supply_factor(node_nm: Numbers, voltage_v: Numbers | None) -> FloatArray:
    """Factor on every on-chip energy for a supply other than nominal: (V / V nominal)^2; 1 when it is not given.

    Limits: near the threshold voltage energy falls more slowly.
    """
    nominal = nominal_supply_v(node_nm)
    if voltage_v is None:
        return np.ones_like(nominal)
    return (np.asarray(voltage_v, dtype=np.float64) / nominal) ** 2
