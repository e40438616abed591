"""Batch norms at inference, channels last: PyTorch's three kernels.

One converts the running means, one inverts the running deviations, and one scales and shifts. The last has blocks of 512
threads, 32 channels wide, over up to 128 slices of the pixels: a thread takes 4 pixels at once and then the next 4, so that
large images are walked in dependent trips whatever the bandwidth:

    trips = pixels / (slices x threads of a column x 4);   work = max(stream, trips x latency)

Source: PyTorch 2.10, aten/src/ATen/native/cuda/Normalization.cu (`batch_norm_cuda_out`) and Normalization.cuh
(`flexible_launch_configs`, `batch_norm_transform_input_channels_last_kernel`).

Limits: tensors whose channels come first have another kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...archdsl import DATATYPE_BITS
from .cache import hit_share
from .chip import Chip
from .energy import with_energy
from .facts import CACHE_LATENCY_CYCLES
from .memory_bound import loaded_latency_s, moving_time_s
from .times import Floats, Ints, KernelTimes

KERNELS: Final = 3
BLOCK_THREADS: Final = 512
BLOCK_CHANNELS: Final = 32
PIXELS_AT_ONCE: Final = 4
PIXELS_PER_THREAD: Final = 16
"""Pixels that a thread takes unless `MOST_SLICES` leaves it more."""
MOST_SLICES: Final = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchNorms:
    """Batch norms of one datatype.

    Attributes:
        pixels: Pixels of all images `[count]`.
        channels: Channels `[count]`.
        datatype: Datatype of input and output.
        inputs_in_cache: Whether the input was just written.
    """

    pixels: Ints
    channels: Ints
    datatype: str
    inputs_in_cache: bool = False

    def __len__(self) -> int:
        return len(self.pixels)

    def label(self, idx: int) -> str:
        """`batch norm bf16 3136x64`: datatype, pixels and channels."""
        return f"batch norm {self.datatype} {self.pixels[idx]}x{self.channels[idx]}"

    def times(self, chip: Chip) -> KernelTimes:
        """What each batch norm costs."""
        size = (1.0 * self.pixels * self.channels * DATATYPE_BITS[self.datatype] / 8).astype(np.float64)
        hits = hit_share(2 * size, chip.arch.l2) if self.inputs_in_cache else np.zeros(len(self))
        # Channels beyond those of a block make rows of blocks; fewer pixels than threads make a block wider instead.
        column = _power_of_2(np.ceil(self.pixels / PIXELS_PER_THREAD))
        column = np.minimum(column, BLOCK_THREADS / np.minimum(_power_of_2(self.channels), BLOCK_CHANNELS))
        slices = np.minimum(np.ceil(self.pixels / (column * PIXELS_PER_THREAD)), MOST_SLICES)
        walkers = slices * column
        trips = np.ceil(self.pixels / (walkers * PIXELS_AT_ONCE))
        in_flight = np.minimum(size, walkers * self.channels * PIXELS_AT_ONCE * DATATYPE_BITS[self.datatype] / 8)
        hit_s = CACHE_LATENCY_CYCLES / chip.arch.max_clock_hz
        trip = hits * hit_s + (1 - hits) * loaded_latency_s(chip, in_flight)
        read = size * (1 - hits)
        stream = moving_time_s(chip, read, size)
        floor, each = chip.arch.launch.floor_s, chip.constants["tile_overhead_s"]
        serial = {
            "launch": np.full(len(self), KERNELS * floor),
            "between kernels": np.full(len(self), KERNELS * each),
            # Weights and statistics are of one layer alone, so that they come from main memory.
            "weights": np.full(len(self), loaded_latency_s(chip, np.zeros(1))[0]),
            "scale and shift": np.maximum(stream, trips * trip),
        }
        times = KernelTimes(
            serial_s=serial,
            regime=np.where(serial["scale and shift"] < KERNELS * (floor + each), 2, 1),
            ops=2 * size,
            main_memory_bytes=read + size,
        )
        return with_energy(times, chip, "fp32")


def _power_of_2(values: Floats | Ints) -> Floats:
    """The largest power of 2 up to each value."""
    return 2.0 ** np.floor(np.log2(np.maximum(values, 1)))
