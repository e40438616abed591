"""The figures by which chips are compared: units, rate, memory on the chip, main memory bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ...archdsl import Arch, GpuArch
from .style import quantity_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchTotals:
    """The figures by which chips are compared.

    Attributes:
        num_units: PEs of a spatial architecture, SMs of a GPU.
        unit: `PE` or `SM`.
        node_nm: Technology node; None where the file gives none.
        onchip_bytes: All memories on the chip together; None when one is unbounded.
        main_memory_bytes_per_s: Read bandwidth of the main memory; infinite when unbounded.
        peak_ops_per_s: Dense rate per datatype, 2 per multiply-accumulate.
    """

    num_units: int
    unit: Literal["PE", "SM"]
    node_nm: float | None
    onchip_bytes: int | None
    main_memory_bytes_per_s: float
    peak_ops_per_s: dict[str, float]

    @property
    def units_text(self) -> str:
        """E.g. `168 PEs`."""
        return f"{self.num_units:,} {self.unit}{'' if self.num_units == 1 else 's'}"

    @property
    def onchip_text(self) -> str:
        """E.g. `28.0 MiB`."""
        return "unbounded" if self.onchip_bytes is None else quantity_text(self.onchip_bytes, "bytes")

    @property
    def main_memory_text(self) -> str:
        """E.g. `32.2 GB/s`."""
        if math.isinf(self.main_memory_bytes_per_s):
            return "unbounded"
        return quantity_text(self.main_memory_bytes_per_s, "bytes/s")

    @property
    def fastest(self) -> tuple[str, float]:
        """Datatype of the highest rate, the first of equals, and that rate."""
        name = max(self.peak_ops_per_s, key=lambda datatype: self.peak_ops_per_s[datatype])
        return name, self.peak_ops_per_s[name]


def totals_of(arch: Arch) -> ArchTotals:
    """The figures by which chips are compared."""
    if isinstance(arch, GpuArch):
        return ArchTotals(
            num_units=arch.num_sms,
            unit="SM",
            node_nm=None if arch.technology is None else arch.technology.node_nm,
            onchip_bytes=arch.l2.capacity_bytes
            + arch.num_sms * (arch.sm.register_file_bytes + arch.sm.shared_memory_bytes),
            main_memory_bytes_per_s=arch.main_memory.bandwidth.bytes_per_s(arch.clock_hz),
            peak_ops_per_s={name: kind.dense_ops_per_s for name, kind in arch.tensor_cores.datatypes.items()},
        )
    onchip = [m for m in arch.memories if m.memory_class != "main_memory"]
    sizes = [m.capacity_bytes for m in onchip]
    known = [size * arch.instances(m.name) for size, m in zip(sizes, onchip, strict=True) if size is not None]
    rate = 2 * arch.num_pes * arch.clock_hz
    return ArchTotals(
        num_units=arch.num_pes,
        unit="PE",
        node_nm=arch.technology.node_nm,
        onchip_bytes=None if None in sizes else sum(known),
        main_memory_bytes_per_s=arch.read_bytes_per_cycle(arch.memories[0]) * arch.clock_hz,
        peak_ops_per_s={name: arch.compute.macs_per_cycle(name) * rate for name in arch.compute.datatypes},
    )
