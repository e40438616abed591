"""GEMMs whose activations are quantised just before, by a kernel of their own, as inference frameworks do.

Per-tensor scales need the maximum of all activations first: `memory_bound` has that kernel (`quantise`). Where each row, or each
group within a row, has its own scale, a block of threads takes a row, finds the maxima, scales and converts. Such a kernel lasts
as long as the longest of

    blocks        waves of rows x passes of a block over its row x `quantise_block_s`
    main memory   as far as activations and result do not stay in the cache from one run to the next
    cache         all bytes read and written

Limits: 16-bit activations, in the cache if they fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from ...archdsl import ModelError, nearest_hint
from .chip import Chip
from .energy import with_energy
from .gemm import Gemms, bits_of
from .memory_bound import cache_hit_share, stream_time_s
from .times import Floats, Ints, Kernels, KernelTimes

QuantiserName = Literal["block_scaled", "scaled_fp8"]

ACTIVATION_BYTES: Final = 2
"""Bytes of an element before it is quantised: bf16 or fp16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiser:
    """How a kernel spreads rows over threads.

    Attributes:
        elements: Elements that a thread takes in one pass of its block over the row.
        least_threads: Threads that a block has even for short rows.
        most_threads: Threads that a block has at most.
    """

    elements: int
    least_threads: int
    most_threads: int


QUANTISERS: Final[dict[QuantiserName, Quantiser]] = {
    # TensorRT-LLM, quantization.cuh: a thread per 8 elements, at most 512; scales of groups of 16 come from two threads.
    "block_scaled": Quantiser(elements=8, least_threads=32, most_threads=512),
    # vLLM, fp8/common.cu: blocks of 1,024 threads with a reduction in shared memory, whatever the length of the row.
    "scaled_fp8": Quantiser(elements=8, least_threads=1024, most_threads=1024),
}
"""Kernels that quantise. Source: recalled from those files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuantisations:
    """Activations [rows, cols] of 16 bits, quantised with scales of each row's own.

    Attributes:
        quantiser: Which kernel.
        datatype: What they become.
        rows: Rows `[count]`.
        cols: Elements of a row `[count]`.
    """

    quantiser: QuantiserName
    datatype: str
    rows: Ints
    cols: Ints

    def __len__(self) -> int:
        return len(self.rows)

    def label(self, idx: int) -> str:
        """`quantise fp4 1024x4096`: datatype of the result, rows and elements of a row."""
        return f"quantise {self.datatype} {self.rows[idx]}x{self.cols[idx]}"

    def times(self, chip: Chip) -> KernelTimes:
        """What each costs.

        Raises:
            ModelError: Unknown quantiser.
        """
        elements = (1.0 * self.rows * self.cols).astype(np.float64)
        read, written = elements * ACTIVATION_BYTES, elements * bits_of(self.datatype) / 8
        cold = 1 - cache_hit_share(read + written, chip.arch.l2.capacity_bytes)
        cache_rate = chip.constants["l2_bytes_per_cycle_sm"] * chip.arch.num_sms * chip.arch.max_clock_hz
        inside = {
            "blocks": self._block_passes(chip) * chip.constants["quantise_block_s"],
            "main memory": stream_time_s(chip, read * cold, written * cold),
            "cache": (read + written) / cache_rate,
        }
        work = np.max(list(inside.values()), axis=0)
        times = KernelTimes(
            serial_s={"launch": np.full(len(self), chip.arch.launch.floor_s), "work": work},
            overlapped_s={"work": inside},
            regime=np.where(inside["blocks"] < work, 1, 2),
            ops=elements,
            main_memory_bytes=(read + written) * cold,
        )
        return with_energy(times, chip, "fp32")

    def _block_passes(self, chip: Chip) -> Floats:
        """Passes over rows that one place for a block makes, one after another."""
        how = quantiser_of(self.quantiser)
        wanted = np.ceil(self.cols / how.elements)
        threads = np.clip(wanted, how.least_threads, how.most_threads)
        resident = np.minimum(chip.arch.sm.max_threads // threads, chip.arch.sm.max_blocks)
        return np.ceil(self.rows / (resident * chip.arch.num_sms)) * np.ceil(wanted / threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantisedGemms:
    """Products whose A is quantised first.

    Attributes:
        gemms: The products, of the narrow datatype.
        quantising: The kernel before each of them.
    """

    gemms: Gemms
    quantising: Kernels

    def __len__(self) -> int:
        return len(self.gemms)

    def label(self, idx: int) -> str:
        """The product's own label."""
        return self.gemms.label(idx)

    def times(self, chip: Chip) -> KernelTimes:
        """What quantising and multiplying cost together.

        Raises:
            ModelError: As the kernels' own.
        """
        before, product = self.quantising.times(chip), self.gemms.times(chip)
        return replace(
            product,
            serial_s={"quantising": before.time_s, **product.serial_s},
            regime=np.where(before.time_s > product.time_s, before.regime, product.regime),
            main_memory_bytes=before.main_memory_bytes + product.main_memory_bytes,
            energy_j=_sum_of(before.energy_j, product.energy_j),
            notes=tuple(dict.fromkeys((*before.notes, *product.notes))),
        )


def _sum_of(one: Floats | None, other: Floats | None) -> Floats | None:
    return None if one is None or other is None else one + other


def quantiser_of(name: QuantiserName) -> Quantiser:
    """A kernel that quantises, by name.

    Raises:
        ModelError: There is none of that name.
    """
    if name not in QUANTISERS:
        raise ModelError(f"unknown quantiser '{name}'{nearest_hint(name, QUANTISERS)}; known: {', '.join(QUANTISERS)}")
    return QUANTISERS[name]
