"""GEMMs whose activations are quantised just before, by a kernel of their own, as inference frameworks do.

The kernel gives each row a block of threads, which finds the row's (or its groups') maximum, scales and converts. It lasts as
long as the longest of

    blocks        waves of rows x passes of a block over its row x `quantise_block_s`
    main memory   as far as activations and result do not stay in the cache from one run to the next
    cache         all bytes read and written

Limits: 16-bit activations; the maximum of the whole tensor (per-tensor scales) would need a pass more.
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
from .times import Floats, KernelTimes

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
class QuantisedGemms:
    """Products of a narrow datatype whose A arrives in 16 bits.

    Attributes:
        gemms: The products themselves.
        quantiser: Which kernel quantises A [m, k].
    """

    gemms: Gemms
    quantiser: QuantiserName

    def __len__(self) -> int:
        return len(self.gemms)

    def label(self, idx: int) -> str:
        """The product's own label."""
        return self.gemms.label(idx)

    def times(self, chip: Chip) -> KernelTimes:
        """What quantising and multiplying cost.

        Raises:
            ModelError: Unknown quantiser, or the chip does not multiply the datatype.
        """
        how = quantiser_of(self.quantiser)
        product = self.gemms.times(chip)
        read, written = self._bytes()
        cold = 1 - cache_hit_share(read + written, chip.arch.l2.capacity_bytes)
        cache_rate = chip.constants["l2_bytes_per_cycle_sm"] * chip.arch.num_sms * chip.arch.max_clock_hz
        inside = {
            "blocks": _block_passes(how, self.gemms, chip) * chip.constants["quantise_block_s"],
            "main memory": stream_time_s(chip, read * cold, written * cold),
            "cache": (read + written) / cache_rate,
        }
        quantising = np.max(list(inside.values()), axis=0)
        serial = {"launch of the quantiser": np.full(len(self), chip.arch.launch.floor_s), "quantising": quantising}
        times = replace(
            product,
            serial_s={**serial, **product.serial_s},
            overlapped_s={"quantising": inside, **product.overlapped_s},
            regime=np.where(quantising > product.time_s, 1, product.regime),
            main_memory_bytes=product.main_memory_bytes + (read + written) * cold,
        )
        return with_energy(times, chip, self.gemms.datatype)

    def _bytes(self) -> tuple[Floats, Floats]:
        """Bytes of A before and after."""
        elements = (1.0 * self.gemms.m * self.gemms.k).astype(np.float64)
        return elements * ACTIVATION_BYTES, elements * bits_of(self.gemms.datatype) / 8


def _block_passes(how: Quantiser, gemms: Gemms, chip: Chip) -> Floats:
    """Passes over rows that one place for a block makes, one after another."""
    wanted = np.ceil(gemms.k / how.elements)
    threads = np.clip(wanted, how.least_threads, how.most_threads)
    resident = np.minimum(chip.arch.sm.max_threads // threads, chip.arch.sm.max_blocks)
    return np.ceil(gemms.m / (resident * chip.arch.num_sms)) * np.ceil(wanted / threads)


def quantiser_of(name: QuantiserName) -> Quantiser:
    """A kernel that quantises, by name.

    Raises:
        ModelError: There is none of that name.
    """
    if name not in QUANTISERS:
        raise ModelError(f"unknown quantiser '{name}'{nearest_hint(name, QUANTISERS)}; known: {', '.join(QUANTISERS)}")
    return QUANTISERS[name]
