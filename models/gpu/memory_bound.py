"""Memory-bound kernels: element-wise ops, norms, softmax, reductions, transposes, quantisation, embedding lookup.

Each op has a `Structure` (`memory_structures`). From it come four times:

    stream   bytes / bandwidth, by the mix of reads and writes
    cache    bytes / bandwidth of the L2; sectors where access is strided
    rows     (where a block or warp walks a row) waves of rows x the dependent steps of one: trips to memory and reductions
    issue    instructions / (SMs x lanes x clock)

Element-wise kernels take the longest of them, after the first bytes. Row kernels overlap them only in part: their blocks
load, reduce and store in turn, and blocks of a wave do so at the same time. A trip to memory takes the longer the more is
under way.

Limits: L2 hits only where the caller says that inputs are there, or within one op of several passes; no bank conflicts, and
no slower copies between buffers whose distance is a multiple of a large power of two.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ...archdsl import DATATYPE_BITS, ModelError, nearest_hint
from .cache import hit_share
from .chip import Chip
from .energy import with_energy
from .facts import CACHE_LATENCY_CYCLES, LANES
from .memory_structures import REDUCE_THREADS, MemoryOp, Structure, specials_of, structure_of
from .times import Floats, Ints, KernelTimes

Flags = npt.NDArray[np.bool_]

DEPENDENT_CYCLES: Final = 4.5
"""Cycles from an instruction to one that needs its result.

Source: Luo et al., IPDPSW 2024: 4 cycles for fp32 FMA on Ampere and Hopper, more for conversions and special functions."""

DEPENDENT_SHARE: Final = 0.5
"""Instructions of a reduction that need the result of the one before (assumption): values of a pair are combined side by side."""

UNLOADED_SHARE: Final = 0.7
"""Latency of an idle main memory, addresses not yet translated, over that under load, which `memory_latency_s` is (assumption)."""

OVERLAP_POWER: Final = 2.5
"""Power of the mean by which times add up that overlap in part (assumption): 1 is one after another, more is at once."""

READ_LOSS: Final = 0.5
"""Share of the peak that consecutive reads lose, over what `memory_efficiency` leaves of it."""
WRITE_LOSS: Final = 0.2
"""The same for writes."""
TURNAROUND_LOSS: Final = 0.4
"""Share that is lost besides when as much is read as is written."""

BLOCK_BYTES: Final = 2048
"""Bytes that a block of 256 threads loads at once, 8 each. Source: PyTorch, aten/src/ATen/native/cuda/thread_constants.h."""

SECTOR_BYTES: Final = 32
"""Bytes that the L2 delivers at least; a strided access moves two. Source: CUDA C++ Best Practices Guide, coalesced access to global memory."""


STRIDED_BLOCK_ELEMENTS: Final = 512
"""Elements of a block that copies between different strides: 4 for each of 128 threads. Source: PyTorch, CUDALoops.cuh, `elementwise_kernel`."""

STRIDED_TRIPS: Final = 4
"""Trips of a thread of such a block, one after another: a store that may hit what is loaded next keeps the loads in order (`elementwise_kernel`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Walk:
    """How threads walk rows: time of the dependent steps of one row [s] and what of it is waiting for others' bytes [s], time that
    only the first row takes [s], waves of rows, share of the rows that is in step with the others on its SM, threads of a row."""

    chain_s: Floats
    queueing_s: Floats
    once_s: Floats
    waves: Floats
    in_step: Floats
    threads: Floats


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
        times = self._times_of(structure, chip)
        for rows, special in reversed(specials_of(self.op, self.cols)):
            if rows.any():
                # Some rows are made in another way: both are priced and each row takes its own.
                times = _chosen(rows, self._times_of(special, chip), times)
        return with_energy(times, chip, "fp32")

    def _times_of(self, structure: Structure, chip: Chip) -> KernelTimes:
        elements = (1.0 * self.rows * self.cols).astype(np.float64)
        per_cycle = chip.arch.num_sms * chip.arch.max_clock_hz
        walk = self._rows(structure, chip)
        threads = walk.threads
        cold, warm, read = self._bytes(structure, chip, threads)
        cached, lookups, again = cold + warm, np.zeros(len(self)), np.zeros(len(self))
        if structure.is_strided:
            strided = (self.rows > 1) & (self.cols > 1)
            all_cached, all_lookups = self._strided()
            cached, lookups = np.where(strided, all_cached, cached), np.where(strided, all_lookups, 0.0)
            again = strided * (STRIDED_TRIPS - 1) * CACHE_LATENCY_CYCLES / chip.arch.max_clock_hz
        issued = elements * structure.instructions + self.rows * threads * structure.row_instructions
        inside: dict[str, Floats] = {
            "main memory": moving_time_s(chip, read, cold - read),
            "cache": (cached / chip.constants["l2_bytes_per_cycle_sm"] + lookups) / per_cycle,
            "issue": issued / (LANES * per_cycle),
            "rows": walk.chain_s * np.maximum(walk.waves, 1.0) + walk.once_s,
        }
        times = np.array(list(inside.values()))
        longest = times.max(axis=0)
        together = longest if not structure.row_threads else _row_time_s(inside, walk)
        floor = np.full(len(self), chip.arch.launch.floor_s * structure.kernels)
        # A kernel of several waits for the last block of the one before, and for that one's result.
        waits = structure.kernels * chip.constants[structure.wait] if structure.kernels > 1 else 0.0
        # Threads that walk rows wait in the course of these.
        first = (
            np.zeros(len(self))
            if structure.row_threads
            else first_bytes_time_s(chip, np.maximum(read, cached - cold) if structure.is_strided else read) + again
        )
        serial = {
            "launch": floor,
            "between kernels": np.full(len(self), waits),
            "first bytes": first,
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
        bits = DATATYPE_BITS[self.datatype]
        elements = 1.0 * self.rows * self.cols
        read = elements * structure.reads * bits / 8
        written = (elements * structure.writes + self.rows * structure.writes_per_row) * (
            (structure.output_bits or bits) / 8
        )
        hits = hit_share(read + written, chip.arch.l2)
        first = np.where(self.inputs_in_cache, (1 - hits) * read, read)
        if structure.row_threads:
            # A second pass reads what the resident rows have just read, half of them being written meanwhile.
            resident = np.minimum(1.0, _resident_rows(chip, structure, threads) / self.rows)
            hits = hit_share((read + written / 2) * resident, chip.arch.l2)
        again = structure.rereads * elements * structure.reads * bits / 8
        cold_read = first + again * (1 - hits)
        return cold_read + written, read - first + again * hits, cold_read

    def _strided(self) -> tuple[Floats, Floats]:
        """Bytes that a strided copy gets from the L2 and writes there, and cycles of its lookups in the first-level cache.

        A load of 32 elements in as many rows looks up a line for each. Blocks go through the result in order, of which a row is
        as long as there are rows: where a block covers several, the columns of one sector come to the same SM.
        """
        element_bytes = DATATYPE_BITS[self.datatype] / 8
        elements = (1.0 * self.rows * self.cols).astype(np.float64)
        reused = np.clip(STRIDED_BLOCK_ELEMENTS / self.rows, 1.0, max(SECTOR_BYTES / element_bytes, 1.0))
        return elements * (SECTOR_BYTES / reused + element_bytes), elements

    def _rows(self, structure: Structure, chip: Chip) -> _Walk:
        """How threads walk the rows."""
        if not structure.row_threads:
            none = np.zeros(len(self))
            return _Walk(chain_s=none, queueing_s=none, once_s=none, waves=none + 1, in_step=none, threads=none)
        threads = np.full(len(self), float(structure.row_threads))
        if structure.shares_block:
            width = 2 ** np.floor(np.log2(np.maximum(self.cols / structure.vector, threads)))
            threads = np.minimum(
                REDUCE_THREADS / np.minimum(2 ** np.floor(np.log2(self.rows)), REDUCE_THREADS / threads), width
            )
        loads = np.maximum(self.cols / (threads * structure.vector), 1.0)
        in_flight = np.minimum(loads, structure.loads_in_flight) * structure.vector * DATATYPE_BITS[self.datatype] / 8
        held = _resident_rows(chip, structure, threads)
        waves = self.rows / held
        hit_s = CACHE_LATENCY_CYCLES / chip.arch.max_clock_hz
        memory_s = loaded_latency_s(
            chip, np.minimum(self.rows, held) * np.minimum(threads * in_flight, self._row_bytes)
        )
        first_s = np.where(self.inputs_in_cache, hit_s, memory_s)
        num_trips = np.maximum(loads / structure.loads_in_flight, 1.0)
        num_trips += np.where(self.cols % structure.vector == 0, 0.0, structure.head_trips)
        trips = num_trips * (first_s + structure.hits_per_load * hit_s)
        queueing_s = np.where(self.inputs_in_cache, 0.0, np.maximum(memory_s - chip.constants["memory_latency_s"], 0.0))
        steps = np.ceil(self.cols / threads)
        reducing = structure.row_instructions * DEPENDENT_SHARE * DEPENDENT_CYCLES
        cycles = steps * structure.chain_cycles + reducing + structure.row_cycles
        return _Walk(
            chain_s=trips + cycles / chip.arch.max_clock_hz,
            queueing_s=num_trips * queueing_s,
            once_s=steps * structure.first_cycles / chip.arch.max_clock_hz,
            waves=waves,
            # A block alone on its SM has nothing beside it whenever it waits.
            in_step=np.where(held > chip.arch.num_sms, 1 / np.maximum(waves, 1.0), 1.0),
            threads=threads,
        )

    @property
    def _row_bytes(self) -> Floats:
        return (1.0 * self.cols * DATATYPE_BITS[self.datatype] / 8).astype(np.float64)


def loaded_latency_s(chip: Chip, in_flight_bytes: Floats) -> Floats:
    """Latency of main memory with so many bytes under way [s].

    It grows until they fill the memory's queues, and from there on as long as it takes to move them (Little's law).
    """
    loaded_s = chip.constants["memory_latency_s"]
    load = in_flight_bytes / (chip.memory_bytes_per_s * loaded_s)
    return loaded_s * np.maximum(UNLOADED_SHARE + (1 - UNLOADED_SHARE) * load, load)


def _row_time_s(inside: Mapping[str, Floats], walk: _Walk) -> Floats:
    """Time of kernels that walk rows [s].

    What a thread does takes turns with its waiting. Rows of the first wave start at once, so that none computes while others
    wait; later ones have drifted apart.

    Args:
        inside: Times by what they are spent on.
        walk: How the rows are walked.
    """
    memory, issue, rows = inside["main memory"], inside["issue"], inside["rows"]
    # Whose bytes come later than others' computes later as well.
    alone = rows - walk.queueing_s * np.maximum(walk.waves, 1.0)
    turns = np.maximum(_partly_overlapped(memory, alone + issue), rows)
    return turns * walk.in_step + _partly_overlapped(memory, issue, rows) * (1 - walk.in_step)


def _partly_overlapped(*times: Floats) -> Floats:
    return (np.array(times) ** OVERLAP_POWER).sum(axis=0) ** (1 / OVERLAP_POWER)


def _resident_rows(chip: Chip, structure: Structure, threads: Floats) -> Floats:
    most = min(chip.arch.sm.max_threads, structure.most_threads or chip.arch.sm.max_threads)
    return chip.arch.num_sms * np.maximum(np.floor(most / threads), 1.0)


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


def cache_hit_share(footprint_bytes: Floats, capacity_bytes: float) -> Floats:
    """Share of accesses that hit when a footprint is gone through again and again.

    Least-recently-used replacement keeps all of what fits and nothing of what does not; as addresses are hashed over sets
    and over the two halves of the cache, the one gradually becomes the other.

    Source: assumption: from 55 % to 140 % of the capacity.
    """
    return np.clip((1.4 - footprint_bytes / capacity_bytes) / 0.85, 0.0, 1.0)


def stream_time_s(chip: Chip, read_bytes: Floats, written_bytes: Floats) -> Floats:
    """Time of reading and writing main memory, with the wait for the first bytes [s]."""
    return moving_time_s(chip, read_bytes, written_bytes) + first_bytes_time_s(chip, read_bytes)


def moving_time_s(chip: Chip, read_bytes: Floats, written_bytes: Floats) -> Floats:
    """Time that main memory moves bytes [s].

    What keeps it from its peak hits streams in part: reads of consecutive bytes half as much as tiles from many pages,
    writes hardly, as the cache collects them and passes on what belongs together; each change of direction costs besides.

    Source: JEDEC HBM3 (JESD238) states write-to-read and read-to-write turnaround times; the shares are assumptions.
    """
    both = read_bytes + written_bytes
    written = written_bytes / np.maximum(both, 1.0)
    lost = READ_LOSS * (1 - written) + WRITE_LOSS * written + TURNAROUND_LOSS * 4 * written * (1 - written)
    efficiency = 1 - (1 - chip.constants["memory_efficiency"]) * lost
    return both / (chip.memory_bytes_per_s * efficiency)


def first_bytes_time_s(chip: Chip, read_bytes: Floats) -> Floats:
    """Time until the first bytes arrive [s]: the latency as far as loads fill the memory's queues, half of it when each
    SM has one block's."""
    return chip.constants["memory_latency_s"] * read_bytes / (read_bytes + chip.arch.num_sms * BLOCK_BYTES)
