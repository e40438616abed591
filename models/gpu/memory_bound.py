"""Memory-bound kernels: element-wise ops, norms, softmax, reductions, transposes, quantisation, embedding lookup.

Each op has a `Structure`: which bytes it moves and how its threads share the rows. From it come three times:

    stream   bytes / bandwidth, and the latency of main memory as far as the kernel fills the memory's queues
    rows     (where a block or warp walks a row) waves of rows x the dependent steps of one: trips to memory and reductions
    issue    instructions / (SMs x lanes x clock)

Element-wise kernels take the longest of them. Row kernels overlap them only in part: their blocks load, reduce and store in
turn, and blocks of a wave do so at the same time.

Limits: L2 hits only where the caller says that inputs are there, or within one op of several passes; no bank conflicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from ...archdsl import DATATYPE_BITS, ModelError, nearest_hint
from .chip import Chip
from .energy import with_energy
from .facts import CACHE_LATENCY_CYCLES, LANES
from .times import Floats, Ints, KernelTimes

MemoryOp = Literal[
    "copy", "fill", "add", "mul", "mul_row", "gelu", "silu_mul", "rope", "softmax", "layernorm", "rmsnorm", "rowsum", "transpose",
    "quantise", "embedding",
]  # fmt: skip
Flags = npt.NDArray[np.bool_]

DEPENDENT_CYCLES: Final = 4.5
"""Cycles from an instruction to one that needs its result.

Source: Luo et al., IPDPSW 2024: 4 cycles for fp32 FMA on Ampere and Hopper, more for conversions and special functions."""

UNLOADED_SHARE: Final = 0.5
"""Latency of an idle main memory over that under load, which `memory_latency_s` is; see its source."""

BLOCK_BYTES: Final = 2048
"""Bytes that a block of 256 threads loads at once, 8 each. Source: PyTorch, aten/src/ATen/native/cuda/thread_constants.h."""

SECTOR_BYTES: Final = 32
"""Bytes that the L2 delivers at least; a strided access moves two. Source: CUDA C++ Best Practices Guide, coalesced access to global memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """How an op's kernel is made; facts of PyTorch's kernels unless the op says otherwise.

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
        loads_in_flight: Loads that such a thread has under way at once.
        hits_per_load: Dependent trips to the cache for each load, beside the one to memory: a second pass.
        overlap: How times that overlap add up: `full` is the longest, `part` the root of the sum of squares, `none` the
            sum (a few blocks with barriers between loading, computing and storing).
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
    loads_in_flight: int = 1
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
        rereads=1, row_threads=128, vector=4, hits_per_load=1, overlap="part",
        instructions=10, row_instructions=200, chain_cycles=45,
    ),
    # `reduce_kernel`: blocks of 512 threads over up to 16 rows, vectors of 4 elements.
    "rowsum": Structure(
        writes=0, writes_per_row=1, row_threads=32, vector=4, loads_in_flight=2, overlap="part",
        instructions=4, row_instructions=60,
    ),
    # `cunn_SoftMaxForward`: a block of up to 1,024 threads a row: maximum, sum of exponentials, result, with barriers.
    "softmax": Structure(
        row_threads=1024, vector=8, hits_per_load=2, overlap="none",
        instructions=42, row_instructions=60,
    ),
    "transpose": Structure(is_strided=True, instructions=20),
    # Per-tensor fp8: clear the maximum, find it, divide and convert.
    "quantise": Structure(output_bits=8, rereads=1, kernels=3, instructions=10),
    "embedding": Structure(instructions=4),
}  # fmt: skip
"""Structure per op. Source: PyTorch 2.x, aten/src/ATen/native/cuda: Loops.cuh, layer_norm_kernel.cu, Reduce.cuh,
PersistentSoftmax.cuh and SoftMax.cu, Copy.cu; instruction counts and chains are assumptions, counted from those sources."""

WARP_SOFTMAX: Final = Structure(
    row_threads=32, vector=32, overlap="part", instructions=40, row_instructions=60, chain_cycles=180
)
"""Rows of at most 1,024 elements: a warp each, all elements loaded at once, kept in registers (PersistentSoftmax.cuh)."""

UNALIGNED_NORM: Final = Structure(
    rereads=1, kernels=2, row_threads=512, vector=1, hits_per_load=1, overlap="part",
    instructions=30, row_instructions=400, chain_cycles=60,
)  # fmt: skip
"""Norms of rows that are no multiple of 4: moments and result in two kernels, one element a load (layer_norm_kernel.cu)."""

SMALL_SOFTMAX_COLS: Final = 1024
"""Rows of at most so many elements are softmaxed by one warp that keeps them in registers (PersistentSoftmax.cuh)."""

REDUCE_THREADS: Final = 512
"""Threads of a block of `reduce_kernel`, over up to 16 rows (Reduce.cuh, `max_reduce_threads`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryKernels:
    """One op on many shapes.

    Attributes:
        op: What is done.
        datatype: Datatype of the elements.
        rows: Rows `[count]`.
        cols: Elements of a row `[count]`.
        inputs_in_cache: Whether the inputs are in the L2 already `[count]`.
    """

    op: MemoryOp
    datatype: str
    rows: Ints
    cols: Ints
    inputs_in_cache: Flags

    def __len__(self) -> int:
        return len(self.rows)

    def label(self, idx: int) -> str:
        """`softmax bf16 1024x4096`: op, datatype, rows and elements of a row."""
        return f"{self.op} {self.datatype} {self.rows[idx]}x{self.cols[idx]}"

    def times(self, chip: Chip) -> KernelTimes:
        """What each kernel costs.

        Raises:
            ModelError: Unknown op or datatype.
        """
        structure = structure_of(self.op)
        if self.datatype not in DATATYPE_BITS:
            raise ModelError(f"unknown datatype '{self.datatype}'{nearest_hint(self.datatype, DATATYPE_BITS)}")
        special, times = _special(self.op, self.cols), self._times_of(structure, chip)
        if special is not None and special[0].any():
            # Some rows are made in another way: both are priced and each row takes its own.
            times = _chosen(special[0], self._times_of(special[1], chip), times)
        return with_energy(times, chip, "fp32")

    def _times_of(self, structure: Structure, chip: Chip) -> KernelTimes:
        elements = (1.0 * self.rows * self.cols).astype(np.float64)
        per_cycle = chip.arch.num_sms * chip.arch.max_clock_hz
        chain, waves, threads = self._rows(structure, chip)
        cold, warm, read = self._bytes(structure, chip, threads)
        cached = cold + warm
        if structure.is_strided:
            cached = elements * 2 * SECTOR_BYTES
        issued = elements * structure.instructions + self.rows * threads * structure.row_instructions
        inside: dict[str, Floats] = {
            "main memory": stream_time_s(chip, read, cold - read),
            "cache": cached / (chip.constants["l2_bytes_per_cycle_sm"] * per_cycle),
            "issue": issued / (LANES * per_cycle),
            "rows": chain * np.maximum(waves, 1.0),
        }
        times = np.array(list(inside.values()))
        longest = times.max(axis=0)
        work = np.array([inside[name] for name in ("main memory", "issue", "rows")])
        together = {"full": longest, "part": np.sqrt((work**2).sum(axis=0)), "none": work.sum(axis=0)}[
            structure.overlap
        ]
        floor = np.full(len(self), chip.arch.launch.floor_s * structure.kernels)
        # A kernel of several waits for the last block of the one before, and for that one's result.
        waits = structure.kernels * chip.constants["tile_overhead_s"] if structure.kernels > 1 else 0.0
        serial = {
            "launch": floor,
            "between kernels": np.full(len(self), waits),
            "work": longest,
            "what does not overlap": np.maximum(together - longest, 0.0),
        }
        limit = times.argmax(axis=0)
        return KernelTimes(
            serial_s=serial,
            overlapped_s={"work": inside},
            regime=np.where((floor > longest) | (limit == 3), 2, np.where(limit == 2, 0, 1)),
            ops=elements,
            main_memory_bytes=cold,
        )

    def _bytes(self, structure: Structure, chip: Chip, threads: Floats) -> tuple[Floats, Floats, Floats]:
        """Bytes of main memory, bytes that hit in the L2, and bytes of main memory that are read."""
        bits, capacity = DATATYPE_BITS[self.datatype], chip.arch.l2.capacity_bytes
        elements = 1.0 * self.rows * self.cols
        read = elements * structure.reads * bits / 8
        written = (elements * structure.writes + self.rows * structure.writes_per_row) * (
            (structure.output_bits or bits) / 8
        )
        hits = cache_hit_share(read + written, capacity)
        first = np.where(self.inputs_in_cache, (1 - hits) * read, read)
        if structure.row_threads:
            # A second pass reads what the resident rows have just read.
            resident = np.minimum(1.0, _resident_rows(chip, threads) / self.rows)
            hits = cache_hit_share((read + written) * resident, capacity)
        again = structure.rereads * elements * structure.reads * bits / 8
        cold_read = first + again * (1 - hits)
        return cold_read + written, read - first + again * hits, cold_read

    def _rows(self, structure: Structure, chip: Chip) -> tuple[Floats, Floats, Floats]:
        """Time of the dependent steps of one row, waves of rows, and threads of a row."""
        if not structure.row_threads:
            return np.zeros(len(self)), np.ones(len(self)), np.zeros(len(self))
        threads = np.full(len(self), float(structure.row_threads))
        if self.op == "rowsum":
            threads = REDUCE_THREADS / np.minimum(2 ** np.floor(np.log2(self.rows)), REDUCE_THREADS / 32)
        loads = np.ceil(self.cols / (threads * structure.vector))
        hit_s = CACHE_LATENCY_CYCLES / chip.arch.max_clock_hz
        first_s = np.where(self.inputs_in_cache, hit_s, UNLOADED_SHARE * chip.constants["memory_latency_s"])
        trips = np.ceil(loads / structure.loads_in_flight) * (first_s + structure.hits_per_load * hit_s)
        cycles = np.ceil(self.cols / threads) * structure.chain_cycles + structure.row_instructions * DEPENDENT_CYCLES
        return trips + cycles / chip.arch.max_clock_hz, self.rows / _resident_rows(chip, threads), threads


def _resident_rows(chip: Chip, threads: Floats) -> Floats:
    return chip.arch.num_sms * np.floor(chip.arch.sm.max_threads / threads)


def _special(op: MemoryOp, cols: Ints) -> tuple[Flags, Structure] | None:
    """Which rows another kernel takes, and how that is made."""
    if op == "softmax":
        return cols <= SMALL_SOFTMAX_COLS, WARP_SOFTMAX
    if op in ("layernorm", "rmsnorm"):
        return cols % 4 != 0, UNALIGNED_NORM
    return None


def _chosen(first: Flags, one: KernelTimes, other: KernelTimes) -> KernelTimes:
    """Row by row, one of two batches with the same parts."""
    return KernelTimes(
        serial_s={name: np.where(first, column, other.serial_s[name]) for name, column in one.serial_s.items()},
        overlapped_s={
            part: {name: np.where(first, column, other.overlapped_s[part][name]) for name, column in inside.items()}
            for part, inside in one.overlapped_s.items()
        },
        regime=np.where(first, one.regime, other.regime),
        ops=one.ops,
        main_memory_bytes=np.where(first, one.main_memory_bytes, other.main_memory_bytes),
    )


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


def cache_hit_share(footprint_bytes: Floats, capacity_bytes: float) -> Floats:
    """Share of accesses that hit when a footprint is gone through again and again.

    Least-recently-used replacement keeps all of what fits and nothing of what does not; as addresses are hashed over sets
    and over the two halves of the cache, the one gradually becomes the other.

    Source: assumption: from 55 % to 140 % of the capacity.
    """
    return np.clip((1.4 - footprint_bytes / capacity_bytes) / 0.85, 0.0, 1.0)


def stream_time_s(chip: Chip, read_bytes: Floats, written_bytes: Floats) -> Floats:
    """Time of reading and writing main memory [s].

    A stream in one direction only has no turnaround of the bus and loses half as much of the peak. The latency of the
    first loads shows as far as there are loads to fill the memory's queues: half of it when each SM has one block's.

    Source: assumption for the half; JEDEC HBM3 (JESD238) states write-to-read and read-to-write turnaround times.
    """
    both = read_bytes + written_bytes
    one_way = np.abs(read_bytes - written_bytes) / np.maximum(both, 1.0)
    efficiency = chip.constants["memory_efficiency"]
    bandwidth = chip.memory_bytes_per_s * (efficiency + (1 - efficiency) / 2 * one_way**4)
    latency = chip.constants["memory_latency_s"]
    waiting = latency * read_bytes / np.maximum(both + chip.arch.num_sms * BLOCK_BYTES, 1.0)
    return both / bandwidth + waiting
