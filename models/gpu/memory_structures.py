"""How the kernels of memory-bound ops are made: which bytes they move, and how their threads share the rows.

Facts of PyTorch's eager kernels unless the op says otherwise; instruction counts and chains of dependent cycles are assumptions,
counted from their sources or chosen on rows that fits may see.
"""

from __future__ import annotations

from dataclasses import dataclass
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
        instructions: Instructions per element.
        row_instructions: Instructions of each thread per row: reductions over the threads of the row.
        chain_cycles: Cycles per element of a thread that nothing overlaps when few rows are resident.
        row_threads: Threads that walk one row together; 0 where rows do not matter.
        vector: Elements that such a thread loads at once.
        loads_in_flight: Loads that such a thread has under way at once, on average.
        shares_block: Blocks of `REDUCE_THREADS` take as many rows as they have, up to what `row_threads` allow.
        hits_per_load: Dependent trips to the cache for each load, beside the one to memory: a second pass.
        overlap: How times that overlap add up: `full` is the longest, `part` a mean between that and the sum, `none` the
            sum (few blocks with barriers between loading, computing and storing, or warps that all start at once).
        is_strided: Reads or writes of neighbouring threads are in different sectors.
    """

    reads: float = 1
    writes: float = 1
    writes_per_row: float = 0
    output_bits: int | None = None
    rereads: int = 0
    kernels: int = 1
    instructions: float = 4
    row_instructions: float = 0
    chain_cycles: float = 0
    row_threads: int = 0
    vector: int = 1
    loads_in_flight: float = 1
    shares_block: bool = False
    hits_per_load: float = 0
    overlap: Literal["full", "part", "none"] = "full"
    is_strided: bool = False


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
        rereads=1, row_threads=128, vector=4, hits_per_load=1, overlap="part",
        instructions=20, row_instructions=300, chain_cycles=120,
    ),
    "rmsnorm": Structure(
        rereads=1, row_threads=128, vector=4, loads_in_flight=2, hits_per_load=1, overlap="part",
        instructions=10, row_instructions=200, chain_cycles=45,
    ),
    # `reduce_kernel`: blocks of 512 threads over up to 16 rows, four elements a load; compilers unroll its loop.
    "rowsum": Structure(
        writes=0, writes_per_row=1, row_threads=32, vector=4, loads_in_flight=3, shares_block=True, overlap="part",
        instructions=4, row_instructions=60,
    ),
    # `cunn_SoftMaxForwardSmem`: a block of up to 1,024 threads a row, which it keeps in shared memory: maximum, sum of
    # exponentials, result, with barriers between.
    "softmax": Structure(
        row_threads=1024, vector=8, overlap="none",
        instructions=34, row_instructions=80,
    ),
    "transpose": Structure(is_strided=True, instructions=20),
    # Per-tensor fp8: clear the maximum, find it, divide and convert.
    "quantise": Structure(output_bits=8, rereads=1, kernels=3, instructions=10),
    "embedding": Structure(instructions=4),
}  # fmt: skip
"""Structure per op. Source: PyTorch 2.x, aten/src/ATen/native/cuda: Loops.cuh, layer_norm_kernel.cu, Reduce.cuh,
PersistentSoftmax.cuh and SoftMax.cu, Copy.cu; instruction counts and chains are assumptions, counted from those sources."""

WARP_SOFTMAX: Final = Structure(
    row_threads=32, vector=32, overlap="none", instructions=40, row_instructions=60, chain_cycles=180
)
"""Rows of at most 1,024 elements: a warp each, all elements loaded at once, kept in registers (PersistentSoftmax.cuh)."""

UNALIGNED_NORM: Final = Structure(
    rereads=1, kernels=2, row_threads=512, vector=1, hits_per_load=1, overlap="part",
    instructions=30, row_instructions=200, chain_cycles=20,
)  # fmt: skip
"""Norms of rows that are no multiple of 4: moments and result in two kernels, one element a load (layer_norm_kernel.cu)."""

BLOCK_SUM: Final = Structure(
    writes=0, writes_per_row=1, row_threads=512, vector=4, loads_in_flight=3, overlap="part",
    instructions=4, row_instructions=60,
)  # fmt: skip
"""Sums of rows with 256 elements or more for each thread of a warp: the block's warps share one row (Reduce.cuh)."""

BLOCK_SUM_COLS: Final = 256 * 32
"""Elements of the shortest such row (Reduce.cuh, `max_values_per_thread`)."""

SMALL_SOFTMAX_COLS: Final = 1024
"""Rows of at most so many elements are softmaxed by one warp that keeps them in registers (PersistentSoftmax.cuh)."""

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


def special_of(op: MemoryOp, cols: Ints) -> tuple[npt.NDArray[np.bool_], Structure] | None:
    """Which rows another kernel takes, and how that is made."""
    if op == "softmax":
        return cols <= SMALL_SOFTMAX_COLS, WARP_SOFTMAX
    if op == "rowsum":
        return cols >= BLOCK_SUM_COLS, BLOCK_SUM
    if op in ("layernorm", "rmsnorm"):
        return cols % 4 != 0, UNALIGNED_NORM
    return None
