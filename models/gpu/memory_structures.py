"""How the kernels of memory-bound ops are made: which bytes they move, and how their threads share the rows.

Facts of PyTorch's eager kernels unless the op says otherwise; instruction counts and chains of dependent cycles are assumptions,
counted from their sources or chosen on rows that fits may see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from ...archdsl import ModelError, nearest_hint
from .times import Ints

MemoryOp = Literal[
    "copy", "fill", "add", "mul", "mul_row", "gelu", "silu_mul", "rope", "softmax", "layernorm", "rmsnorm", "rowsum", "transpose",
    "quantise", "embedding",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """How an op's kernel is made.

    Attributes:
        reads: Elements read per element of the shape, compulsory.
        writes: Elements written per element of the shape, compulsory.
        writes_per_row: Elements written per row.
        output_bits: Bits of an element written where that is not the datatype's.
        rereads: Further passes over the input after the first; they hit in the L2 as far as it holds what they read.
        kernels: Kernels that follow one another.
        wait: Constant that says how long a block of such a kernel takes beside its bytes.
        instructions: Instructions per element.
        row_instructions: Instructions of each thread per row: reductions over the threads of the row.
        chain_cycles: Cycles per element of a thread that nothing overlaps when few rows are resident.
        row_threads: Threads that walk one row together; 0 where rows do not matter.
        vector: Elements that such a thread loads at once.
        loads_in_flight: Loads that such a thread has under way at once, on average.
        shares_block: Blocks of `REDUCE_THREADS` take as many rows as they have, up to what `row_threads` allow.
        head_trips: Trips to memory before the others in rows that are no multiple of `vector`: elements before the first vector.
        hits_per_load: Dependent trips to the cache for each load, beside the one to memory: a second pass.
        row_cycles: Dependent cycles of each row beside its elements and reductions: places of its elements, barriers.
        first_cycles: Cycles per element of a thread, once: fetching instructions that no loop repeats.
        most_threads: Threads that registers leave room for on an SM; 0 where only the SM's own limit counts.
        is_strided: Reads or writes of neighbouring threads are in different sectors.
    """

    reads: float = 1
    writes: float = 1
    writes_per_row: float = 0
    output_bits: int | None = None
    rereads: int = 0
    kernels: int = 1
    wait: Literal["tile_overhead_s", "quantise_block_s"] = "tile_overhead_s"
    instructions: float = 4
    row_instructions: float = 0
    chain_cycles: float = 0
    row_threads: int = 0
    vector: int = 1
    loads_in_flight: float = 1
    shares_block: bool = False
    head_trips: float = 0
    hits_per_load: float = 0
    row_cycles: float = 0
    first_cycles: float = 0
    most_threads: int = 0
    is_strided: bool = False


SOFTMAX_INSTRUCTIONS: Final = 66.0
"""Instructions per element: 34, and 4 of the special function units (two exponentials, a division), each the time of 8.

Source: counted (assumption); CUDA C++ Programming Guide, arithmetic throughput: 16 of them per cycle of an SM, 128 others."""

SOFTMAX_BARRIER_CYCLES: Final = 800.0
"""Cycles of two reductions over a block of 1,024 threads: 20 shuffles, 4 barriers and 4 trips to shared memory of about 30."""

STRUCTURES: Final[dict[MemoryOp, Structure]] = {
    # Vectorised element-wise kernels: 16-byte accesses, a few instructions per element; erf and exp take some twenty.
    "copy": Structure(instructions=2),
    "fill": Structure(reads=0, instructions=1),
    "add": Structure(reads=2, instructions=6),
    "mul": Structure(reads=2, instructions=6),
    "mul_row": Structure(instructions=6),  # by one row that stays in the cache: a weight, a scale, cosines
    "gelu": Structure(instructions=30),
    "silu_mul": Structure(reads=2, instructions=24),
    "rope": Structure(instructions=12),
    # Norms (`vectorized_layer_norm_kernel`): a block of 4 warps a row, vectors of 4 elements, statistics and then the
    # normalised row, which is read again. Layer norm's statistics are Welford's update, with a division per element in
    # sequence, and three values to reduce; RMS norm's are one sum.
    "layernorm": Structure(
        rereads=1, row_threads=128, vector=4, hits_per_load=1,
        instructions=20, row_instructions=240, chain_cycles=110,
    ),
    "rmsnorm": Structure(
        rereads=1, row_threads=128, vector=4, loads_in_flight=2, hits_per_load=1,
        instructions=10, row_instructions=140, chain_cycles=45,
    ),
    # `reduce_kernel`: blocks of up to 512 threads over up to 16 rows, eight 16-bit elements a load; loops unroll in part.
    "rowsum": Structure(
        writes=0, writes_per_row=1, row_threads=32, vector=8, loads_in_flight=1.5, head_trips=1, shares_block=True,
        instructions=4, row_instructions=60,
    ),
    # A block of 1,024 threads a row, which it keeps in shared memory: maximum, sum of exponentials, result, with barriers
    # between (`cunn_SoftMaxForwardSmem`).
    "softmax": Structure(
        row_threads=1024, vector=8,
        instructions=SOFTMAX_INSTRUCTIONS, row_instructions=80, row_cycles=SOFTMAX_BARRIER_CYCLES,
    ),
    "transpose": Structure(is_strided=True, instructions=20),
    # Per-tensor fp8: clear the maximum, find it, divide and convert.
    "quantise": Structure(output_bits=8, rereads=1, kernels=3, wait="quantise_block_s", instructions=10),
    "embedding": Structure(instructions=4),
}  # fmt: skip
"""Structure per op. Source: PyTorch 2.x, aten/src/ATen/native/cuda: Loops.cuh, layer_norm_kernel.cu, Reduce.cuh,
PersistentSoftmax.cuh and SoftMax.cu, Copy.cu; instruction counts and chains are assumptions, counted from those sources."""

WARP_SOFTMAX: Final = Structure(
    row_threads=32, vector=32, most_threads=1024,
    instructions=SOFTMAX_INSTRUCTIONS, row_instructions=60, first_cycles=160,
)  # fmt: skip
WIDE_WARP_SOFTMAX: Final = replace(WARP_SOFTMAX, vector=64, most_threads=512)
"""Short rows: a warp each, all elements loaded at once and kept in registers (PersistentSoftmax.cuh). Its code has no loop, so that a
first warp waits for instructions (assumption: half a kilobyte per element, a line of 128 bytes in 40 cycles)."""

REGISTER_SOFTMAX: Final = Structure(
    row_threads=1024, loads_in_flight=9, most_threads=2048,
    instructions=SOFTMAX_INSTRUCTIONS, row_instructions=80, row_cycles=SOFTMAX_BARRIER_CYCLES,
)  # fmt: skip
"""Rows of up to 9 elements for each thread of a block, which keep them in registers (SoftMax.cu, `cunn_SoftMaxForwardReg`)."""

LONE_REGISTER_SOFTMAX: Final = replace(REGISTER_SOFTMAX, most_threads=1024)
"""The same from 5 elements a thread on, which take more than the 32 registers that leave room for a second block.

Source: bandwidth of PyTorch's softmax on a B200 falls by a third from 4,096 to 4,224 elements (published measurements)."""

UNALIGNED_NORM: Final = Structure(
    rereads=1, kernels=2, row_threads=512, vector=1, hits_per_load=1,
    instructions=30, row_instructions=200, chain_cycles=20,
)  # fmt: skip
"""Norms of rows that are no multiple of 4: moments and result in two kernels, one element a load (layer_norm_kernel.cu)."""

BLOCK_SUM: Final = Structure(
    writes=0, writes_per_row=1, row_threads=512, vector=8, loads_in_flight=1.5, head_trips=1,
    instructions=4, row_instructions=60,
)  # fmt: skip
"""Sums of rows with 256 elements or more for each thread of a warp: the block's warps share one row (Reduce.cuh)."""

BLOCK_SUM_COLS: Final = 256 * 32
"""Elements of the shortest such row (Reduce.cuh, `max_values_per_thread`)."""

WARP_SOFTMAX_COLS: Final = 1024
"""Elements of the longest row that one warp softmaxes in a thread's 32 registers."""
WIDE_WARP_SOFTMAX_COLS: Final = 2048
"""Elements of the longest row that one warp softmaxes (PyTorch 2.10, SoftMax.cu, `host_softmax`; 1,024 in earlier versions)."""
SHARED_REGISTER_COLS: Final = 4 * 1024
"""Elements of the longest row whose block leaves room for another on its SM."""
REGISTER_SOFTMAX_COLS: Final = 9 * 1024
"""Elements of the longest row that a block's registers keep (SoftMax.cu, `potential_register_count` below 10)."""

REDUCE_THREADS: Final = 512
"""Threads of a block of `reduce_kernel`, over up to 16 rows (Reduce.cuh, `max_reduce_threads`)."""


def structure_of(op: MemoryOp) -> Structure:
    """How an op's kernel is made.

    Raises:
        ModelError: Unknown op.
    """
    if op not in STRUCTURES:
        raise ModelError(
            f"unknown memory-bound op '{op}'{nearest_hint(op, STRUCTURES)}; known: {', '.join(STRUCTURES)}"
        )
    return STRUCTURES[op]


def specials_of(op: MemoryOp, cols: Ints) -> tuple[tuple[npt.NDArray[np.bool_], Structure], ...]:
    """Which rows other kernels take, and how these are made; the first that takes a row makes it."""
    if op == "softmax":
        return (
            (cols <= WARP_SOFTMAX_COLS, WARP_SOFTMAX),
            (cols <= WIDE_WARP_SOFTMAX_COLS, WIDE_WARP_SOFTMAX),
            (cols <= SHARED_REGISTER_COLS, REGISTER_SOFTMAX),
            (cols <= REGISTER_SOFTMAX_COLS, LONE_REGISTER_SOFTMAX),
        )
    if op == "rowsum":
        return ((cols >= BLOCK_SUM_COLS, BLOCK_SUM),)
    if op in ("layernorm", "rmsnorm"):
        return ((cols % 4 != 0, UNALIGNED_NORM),)
    return ()
