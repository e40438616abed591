"""Convolutions on the vector units: those that no tensor-core kernel takes, and depthwise ones.

What cuDNN has on tensor cores loads channels in pairs at least. For bf16 with an odd number of channels, as in the first layer
of image networks, it has no such kernel, and computes in fp32 on the vector units: blocks gather a tile of patches and one of
weights, element by element, and multiply them from shared memory:

    instructions of a step = multiply-adds x (1 + loads from shared memory) + gathered elements x instructions of each
    busiest SM             = first bytes + steps of its blocks, each at least a trip to the cache
    time                   = launch + tile_overhead_s + root of the sum of squares of the busiest SM and main memory

Depthwise convolutions have a thread per channel and column of an image, which walks down its rows with the weights in registers,
two rows a trip. Small batches of large images wait for these trips, whatever the bandwidth:

    walk = waves of threads x rows / 2 x latency;   time = launch + tile_overhead_s + max(walk, stream and instructions)

Limits: no dilation; the width and the rows of the last trip are not rounded up; energy is that of the tensor cores' ops.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .chip import Chip
from .facts import CACHE_LATENCY_CYCLES, LANES
from .memory_bound import loaded_latency_s, stream_time_s
from .times import Floats, Ints, KernelTimes

TILE_SIDE: Final = 32
"""Pixels and output channels of a block of the vector kernel.

Source: cuDNN 9's `convolve_common_engine_float_NHWC<__nv_bfloat16, __nv_bfloat16, 128, 5, 5, 3, 3, 3, ...>`: 128 threads, sides
of 2^5, steps of 2^3. Public profiles of bf16 networks by PyTorch show it for three input channels, on A100 and Blackwell."""
TILE_DEPTH: Final = 8
TILE_THREADS: Final = 128
TILE_REGISTERS: Final = 80
"""Registers of one of its threads (public profiles show 76)."""
THREAD_SIDE: Final = 4
"""Sides of what a thread keeps, for which it loads two vectors per step of the reduction (assumption)."""
GATHER_INSTRUCTIONS: Final = 10
"""Instructions per gathered element: place and bounds in two directions, load, conversion, store, loop (assumption)."""

TAP_INSTRUCTIONS: Final = 5
"""Instructions per tap of a depthwise output: bounds, two loads, conversion and multiply-add (assumption)."""
OUTPUT_INSTRUCTIONS: Final = 20
"""Instructions per depthwise output beside its taps: its place in four dimensions, conversion, store (assumption)."""
WALK_REGISTERS: Final = 72
"""Registers of a thread of `conv2d_c1_k1_nhwc_kernel_specialized`, cuDNN's kernel for depthwise convolutions of 3 x 3 to 7 x 7 taps.

Source: a public profile of PyTorch 2.11 in bf16 on an A100."""
ROWS_PER_TRIP: Final = 2
"""Rows that a thread of it has under way at once.

Source: the same profile. 16 images of 56 x 56 pixels take 15.5 us with 32 channels and 14.7 us with 64, a sixth of the warps being
resident: about 28 trips of the A100's latency beside the launch. That a thread walks down a column is an assumption that fits both."""


def vector_times(
    *, chip: Chip, m: Ints, n: Ints, k: Ints, groups: Ints, read_bytes: Floats, written_bytes: Floats
) -> KernelTimes:
    """Products of gathered patches and weights on the vector units.

    Args:
        chip: The chip.
        m: Output pixels of all images `[n]`.
        n: Output channels of a group `[n]`.
        k: Input channels of a group times taps `[n]`.
        groups: Products of that shape in one kernel `[n]`.
        read_bytes: Bytes read from main memory `[n]`.
        written_bytes: Bytes that go there `[n]`.
    """
    sm, clock_hz = chip.arch.sm, chip.arch.max_clock_hz
    blocks = groups * np.ceil(m / TILE_SIDE) * np.ceil(n / TILE_SIDE)
    of_sm = np.ceil(blocks / chip.arch.num_sms)
    resident = max(sm.register_file_bytes // (4 * TILE_REGISTERS * TILE_THREADS), 1)
    steps = np.ceil(k / TILE_DEPTH)
    multiplied = TILE_DEPTH * TILE_SIDE**2 * (1 + 2 / THREAD_SIDE**2)
    gathered = TILE_DEPTH * 2 * TILE_SIDE * GATHER_INSTRUCTIONS
    # A step's operands come while the one before is multiplied, of which the blocks of an SM have one each.
    step_cycles = np.maximum(
        of_sm * (multiplied + gathered) / LANES, np.ceil(of_sm / resident) * float(CACHE_LATENCY_CYCLES)
    )
    busiest = chip.constants["memory_latency_s"] + steps * step_cycles / clock_hz
    memory = stream_time_s(chip, read_bytes, written_bytes)
    return _of_work(chip, {"on vector units": np.hypot(busiest, memory)}, busiest > memory, read_bytes + written_bytes)


def depthwise_times(
    *,
    chip: Chip,
    batch: Ints,
    channels: Ints,
    out_size: Ints,
    taps: Ints,
    input_bytes: Floats,
    read_bytes: Floats,
    written_bytes: Floats,
) -> KernelTimes:
    """Depthwise convolutions.

    Args:
        chip: The chip.
        batch: Images `[n]`.
        channels: Output channels `[n]`.
        out_size: Rows and columns of the output `[n]`.
        taps: Taps in each direction `[n]`.
        input_bytes: Bytes of the input `[n]`.
        read_bytes: Bytes of it that come from main memory `[n]`.
        written_bytes: Bytes that go there `[n]`.
    """
    sm, sms, clock_hz = chip.arch.sm, chip.arch.num_sms, chip.arch.max_clock_hz
    columns = 1.0 * batch * channels * out_size
    issue = columns * out_size * (OUTPUT_INSTRUCTIONS + TAP_INSTRUCTIONS * taps**2) / (LANES * sms * clock_hz)
    stream = stream_time_s(chip, read_bytes, written_bytes)
    resident = sms * min(sm.register_file_bytes // (4 * WALK_REGISTERS), sm.max_threads)
    walkers = np.minimum(columns, resident)
    trips = np.maximum(out_size / ROWS_PER_TRIP, 1.0)
    cold = read_bytes / input_bytes
    trip = cold * loaded_latency_s(chip, walkers / columns * read_bytes / trips)
    trip += (1 - cold) * CACHE_LATENCY_CYCLES / clock_hz
    walk = np.maximum(columns / resident, 1.0) * trips * trip
    work = {"depthwise": np.maximum(walk, np.hypot(stream, issue))}
    return _of_work(chip, work, issue > stream, read_bytes + written_bytes)


def _of_work(chip: Chip, work: dict[str, Floats], is_issue: np.ndarray, moved_bytes: Floats) -> KernelTimes:
    around = np.full(len(moved_bytes), chip.constants["tile_overhead_s"])
    launch = np.full(len(moved_bytes), chip.arch.launch.floor_s)
    longest = np.sum(list(work.values()), axis=0)
    return KernelTimes(
        serial_s={"launch": launch, "filling and draining": around, **work},
        regime=np.where(longest < launch + around, 2, np.where(is_issue, 0, 1)),
        ops=np.zeros(len(moved_bytes)),
        main_memory_bytes=moved_bytes,
    )
