"""GEMM on tensor cores: tile and wave quantisation, main-memory traffic, the time around the main loop."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...archdsl import DATATYPE_BITS
from .chip import Chip
from .times import Floats, Ints, KernelTimes

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemms:
    """C[m, n] = A[m, k] B[n, k]^T, many of one datatype.

    Attributes:
        m: Rows of the result `[count]`.
        n: Columns of the result `[count]`.
        k: Length of the reduction `[count]`.
        datatype: What the tensor cores multiply.
        weight_bits: Bits of an element of B in memory, where it is not the datatype's.
        output_bits: Bits of an element of C.
        weights_in_cache: Whether B is in the cache already `[count]`.
        inputs_in_cache: Whether A is in the cache already `[count]`.
        batch: Products of that shape in one kernel `[count]`; 1 when left out.
        input_bytes: Compulsory bytes of A where they are not m x k elements, as in a convolution `[count]`.
    """

    m: Ints
    n: Ints
    k: Ints
    datatype: str
    weight_bits: int | None = None
    output_bits: int = 16
    weights_in_cache: Flags
    inputs_in_cache: Flags
    batch: Ints | None = None
    input_bytes: Floats | None = None

    def __len__(self) -> int:
        return len(self.m)

    def label(self, idx: int) -> str:
        """`bf16 1x4096x4096`: datatype, m, n and k."""
        return f"{self.datatype} {self.m[idx]}x{self.n[idx]}x{self.k[idx]}"

    def times(self, chip: Chip) -> KernelTimes:
        """What each product costs.

        Raises:
            ModelError: The tensor cores do not multiply the datatype.
        """
        count = np.ones(len(self)) if self.batch is None else self.batch
        ops: Floats = (2.0 * self.m * self.n * self.k * count).astype(np.float64)
        waves = np.ceil(count * np.ceil(self.m / 128) * np.ceil(self.n / 128) / chip.arch.num_sms)
        padded_ops = waves * chip.arch.num_sms * 128 * 128 * 2.0 * self.k
        is_tensor = self.datatype in chip.arch.tensor_cores.datatypes
        rate = chip.tensor_ops_per_s(self.datatype) if is_tensor else chip.vector_ops_per_s(self.datatype)
        compute = padded_ops / (rate * chip.constants["tensor_efficiency"])
        moved = self._bytes()
        memory = moved / (chip.memory_bytes_per_s * chip.constants["memory_efficiency"])
        serial: dict[str, Floats] = {
            "launch": np.full(len(self), chip.arch.launch.floor_s),
            "around the main loop": np.full(len(self), chip.constants["tile_overhead_s"]),
            "main loop": np.maximum(compute, memory),
        }
        return KernelTimes(
            serial_s=serial,
            overlapped_s={"main loop": {"tensor cores": compute, "main memory": memory}},
            regime=np.where(compute > memory, 0, 1),
            ops=ops,
            main_memory_bytes=moved,
        )

    def _bytes(self) -> Floats:
        bits = DATATYPE_BITS[self.datatype]
        count = np.ones(len(self)) if self.batch is None else self.batch
        reads = count * self.m * self.k * bits / 8 if self.input_bytes is None else self.input_bytes
        inputs = np.where(self.inputs_in_cache, 0, reads)
        weights = np.where(self.weights_in_cache, 0, count * self.n * self.k * (self.weight_bits or bits) / 8)
        return inputs + weights + count * self.m * self.n * self.output_bits / 8
