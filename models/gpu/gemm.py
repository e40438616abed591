"""GEMM: the tile and the split of the reduction that cost least, and what they cost.

The model looks for the best way to make each product, among the tiles and the splits of the reduction that a library of kernels
has (`libraries`): a vendor's has all that the accumulators hold. `gemm_core` has the terms. What is not among the constants is a fact of chip or software, below.

Limits: one main loop without specialised warps is assumed for GPUs without clusters; fused epilogues cost nothing beyond the
store; sparse products are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ...archdsl import DATATYPE_BITS, GpuArch, ModelError, nearest_hint
from . import gemm_core as core
from .cache import hit_share
from .chip import Chip
from .energy import VOLTAGE_FLOOR, byte_energy_j, energy_notes, idle_power_w, op_energy_j, power_limit_w, with_energy
from .facts import LANES, SYNCHRONOUS_SHARE
from .libraries import Library, LibraryName, Menu, library_of, vendor_library_of
from .times import Floats, Ints, KernelTimes

Flags = npt.NDArray[np.bool_]

SIDES: Final = (16, 32, 64, 128, 256)
"""Sides of tiles that vendors' libraries offer. Source: CUTLASS profiler's default tile shapes."""
CLUSTER_SIDES: Final = (16, 32, 64, 128, 192, 256)
"""Those for GPUs with clusters, whose instructions are as wide as a multiple of 8. Source: PTX ISA, wgmma and tcgen05."""
LEAST_AREA: Final = 1024
"""Fewest results of a tile: a warp group of 128 threads with 8 accumulators each."""
WIDE_ROWS: Final = 64
"""Rows from which on an instruction reads shared memory itself. Source: PTX ISA, wgmma (64) and tcgen05 (128)."""
ACCUMULATOR_BYTES: Final = 4
"""Bytes of an accumulator; fp32."""
DEQUANTISE_INSTRUCTIONS: Final = 2.5
"""Instructions per weight from 8 or fewer bits to bf16.

Source: FasterTransformer's interleaved converter: permute, subtract and pack, 10 instructions for 4 weights."""
FEW_WARPS: Final = 1.14
"""Times by which synchronous products take longer where a scheduler has one warp to issue from, which waits for its operands.

Source: names of kernels in libcublasLt 12.9 (`ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_tn` and alike), warps of 64 x 64; the value is
assumed, from rows of the A100 that no test holds back, which last as if tiles of 256 x 128 were taken where smaller ones fill the last wave better."""
MAX_REREADS: Final = 4.0
"""Times that operands are read from main memory at most: libraries reorder tiles before it gets worse."""
SCALED_BITS: Final = {"fp4": 4.5}
"""Bits of an element with its share of the block's scale: one of 8 bits per 16. Source: NVIDIA, NVFP4."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemms:
    """C[m, n] = A[m, k] B[n, k]^T, many of one datatype.

    Attributes:
        m: Rows of the result `[count]`.
        n: Columns of the result `[count]`.
        k: Length of the reduction `[count]`.
        batch: Products of that shape in one kernel `[count]`; 1 when left out.
        datatype: What is multiplied; on the vector units where the tensor cores do not know it.
        weight_bits: Bits of an element of B in memory, where it is not the datatype's; they are converted on the way.
        output_bits: Bits of an element of C.
        weights_in_cache: Whether B was used before, and may be in the cache `[count]`.
        inputs_in_cache: Whether A was just written, and may be in the cache `[count]`.
        reuse_bytes: Bytes touched from one use of B to the next `[count]`; those of the kernel when left out.
        input_bytes: Compulsory bytes of A where they are not m x k elements, as in a convolution `[count]`.
        library: Whose kernels multiply; it decides on tiles and splits.
    """

    m: Ints
    n: Ints
    k: Ints
    batch: Ints | None = None
    datatype: str
    weight_bits: float | None = None
    output_bits: int = 16
    weights_in_cache: Flags
    inputs_in_cache: Flags
    reuse_bytes: Floats | None = None
    input_bytes: Floats | None = None
    library: LibraryName = "vendor"

    def __len__(self) -> int:
        return len(self.m)

    def label(self, idx: int) -> str:
        """`bf16 1x4096x4096`: datatype, m, n and k; `8x` before them for a batch, `w4` behind for narrow weights."""
        batch = "" if self.batch is None or self.batch[idx] == 1 else f"{self.batch[idx]}x "
        narrow = "" if self.weight_bits is None else f" w{self.weight_bits:g}"
        return f"{self.datatype} {batch}{self.m[idx]}x{self.n[idx]}x{self.k[idx]}{narrow}"

    def times(self, chip: Chip) -> KernelTimes:
        """What each product costs.

        Raises:
            ModelError: The chip multiplies the datatype nowhere, or no library has that name.
        """
        library = self._library(chip)
        machine, shapes, element = self.machine(chip), self.columns(chip), self.element_bytes()
        splits = np.array(library.splits, dtype=np.float64)
        out, least_rows = np.zeros((len(self), core.NUM_COLUMNS)), 0.0
        for menu in library.menus:
            rows = np.flatnonzero((self.m > least_rows) & (self.m <= menu.most_rows))
            found, tiles = np.zeros((len(rows), core.NUM_COLUMNS)), _tiles(chip.arch, self._is_tensor(chip), menu)
            stepping = machine._replace(step_s=machine.step_s / menu.step_stages)
            core.best_ways(shapes[rows], tiles, splits, stepping, element, found)
            out[rows], least_rows = found, menu.most_rows
        return self._times(chip, out)

    def _library(self, chip: Chip) -> Library:
        if self.library != "vendor":
            return library_of(self.library)
        return library_of(vendor_library_of(self.datatype, self.output_bits, self._is_tensor(chip)))

    def _waits_for_operands(self, chip: Chip, instruction_rows: float) -> bool:
        """Whether it is the vendor's kernels that multiply, by synchronous instructions of the chip's own."""
        library = self._library(chip)
        return self.library == "vendor" and not library.is_ampere and self._is_tensor(chip) and instruction_rows == 0

    def _is_tensor(self, chip: Chip) -> bool:
        return self.datatype in chip.arch.tensor_cores.datatypes

    def element_bytes(self) -> Floats:
        """Bytes of an element of A, of B and of C `[3]`."""
        bits = bits_of(self.datatype)
        return np.array([bits, self.weight_bits or bits, self.output_bits], dtype=np.float64) / 8

    def columns(self, chip: Chip) -> Floats:
        """Columns as `best_ways` wants them."""
        a_bytes, b_bytes, c_bytes = self.element_bytes()
        count = np.ones(len(self)) if self.batch is None else self.batch.astype(np.float64)
        m, n, k = (side.astype(np.float64) for side in (self.m, self.n, self.k))
        reads_a = count * m * k * a_bytes if self.input_bytes is None else self.input_bytes
        reads_b, writes = count * n * k * b_bytes, count * m * n * c_bytes
        touched = reads_a + reads_b + writes
        between = touched if self.reuse_bytes is None else self.reuse_bytes
        weight_hits = np.where(self.weights_in_cache, hit_share(between, chip.arch.l2), 0.0)
        input_hits = np.where(self.inputs_in_cache, hit_share(touched, chip.arch.l2), 0.0)
        # Results stay in the cache, and are overwritten there, where the same buffers are used again and again.
        kept = np.where(self.inputs_in_cache, hit_share(np.maximum(between, touched), chip.arch.l2), 0.0)
        columns = (m, n, k, count, reads_a * (1 - input_hits), reads_b * (1 - weight_hits), writes * (1 - kept))
        return np.stack([*columns, np.full(len(self), MAX_REREADS)], axis=1)

    def machine(self, chip: Chip) -> core.Machine:
        """The chip as `best_ways` reads it.

        Raises:
            ModelError: It multiplies the datatype nowhere.
        """
        arch, constants, library = chip.arch, chip.constants, self._library(chip)
        macs, instruction_rows, reads_shared = _units_of(chip, self.datatype, library)
        is_narrow = self.weight_bits is not None and self.weight_bits < bits_of(self.datatype)
        idle_w = idle_power_w(chip)
        return core.Machine(
            num_sms=float(arch.num_sms),
            clock_hz=arch.max_clock_hz,
            macs_per_cycle=macs * constants["tensor_efficiency"],
            dequantise_rate=LANES / DEQUANTISE_INSTRUCTIONS if is_narrow else 0.0,
            bytes_per_s=chip.memory_bytes_per_s * constants["memory_efficiency"],
            cache_rate=constants["l2_bytes_per_cycle_sm"],
            cache_bytes=arch.l2.capacity_bytes / arch.l2.partitions,
            in_flight_bytes=float(arch.sm.shared_memory_bytes),
            launch_s=arch.launch.floor_s,
            start_s=constants["tile_overhead_s"],
            latency_s=constants["memory_latency_s"],
            tile_s=constants["tile_store_s"],
            step_s=constants["k_step_s"],
            unhidden_share=constants["unhidden_share"],
            split_s=constants["split_launches"] * arch.launch.floor_s,
            takes_turns=library.takes_turns,
            has_clusters=arch.sm.cluster_blocks > 1 and not library.is_ampere,
            is_serial=library.is_ampere,
            cluster_rows=float(library.cluster_rows),
            op_j=op_energy_j(chip, self.datatype),
            byte_j=byte_energy_j(chip),
            burst_w=power_limit_w(chip, "burst") - idle_w,
            sustained_w=power_limit_w(chip, "sustained") - idle_w,
            window_s=constants["power_window_s"],
            voltage_floor=VOLTAGE_FLOOR,
            few_warps=FEW_WARPS if self._waits_for_operands(chip, instruction_rows) else 1.0,
            instruction_rows=instruction_rows,
            reads_shared=reads_shared,
        )

    def _times(self, chip: Chip, out: Floats) -> KernelTimes:
        columns = out.T
        count = 1 if self.batch is None else self.batch
        main_loop = {
            "tensor cores" if self._is_tensor(chip) else "vector units": columns[core.TENSOR],
            "main memory": columns[core.MEMORY],
            "cache": columns[core.CACHE],
            "bytes in flight": columns[core.IN_FLIGHT],
            "k steps": columns[core.K_STEPS],
            "dequantising": columns[core.DEQUANTISE],
        }
        serial = {
            "launch": columns[core.LAUNCH],
            "filling and draining": columns[core.START],
            "first bytes": columns[core.FIRST_BYTES],
            "main loop": columns[core.MAIN_LOOP],
            "slower clock within the power limit": columns[core.POWER],
            "what does not overlap": columns[core.UNHIDDEN],
            "storing tiles": columns[core.STORING],
            "second pass of the split": columns[core.SPLIT],
        }
        loop = columns[core.MAIN_LOOP] + columns[core.POWER]
        is_compute = columns[core.TENSOR] + columns[core.POWER] >= np.maximum(columns[core.MEMORY], columns[core.CACHE])
        regime = np.where(is_compute, 0, 1)
        times = KernelTimes(
            serial_s=serial,
            overlapped_s={"main loop": main_loop},
            regime=np.where(loop < np.sum(list(serial.values()), axis=0) / 2, 2, regime),
            ops=2.0 * self.m.astype(np.float64) * self.n * self.k * count,
            main_memory_bytes=columns[core.TRAFFIC],
            choices=_choices(columns[core.ROWS], columns[core.COLS], columns[core.SPLITS]),
            notes=(*energy_notes(chip), *self._notes(chip)),
        )
        return with_energy(times, chip, self.datatype)

    def _notes(self, chip: Chip) -> tuple[str, ...]:
        if self._is_tensor(chip):
            return ()
        return (f"{chip.arch.name}: {self.datatype} products run on the vector units",)


def _choices(rows: Floats, cols: Floats, splits: Floats) -> tuple[str, ...]:
    """How each product is made; there are few ways, so that each is written once."""
    ways, inverse = np.unique((rows * 1024 + cols) * 1024 + splits, return_inverse=True)
    names = [f"tile {way // 1024**2:.0f} x {way // 1024 % 1024:.0f}, split {way % 1024:.0f}" for way in ways]
    return tuple(map(names.__getitem__, inverse.tolist()))


def bits_of(datatype: str) -> float:
    """Bits of an element in memory, with its share of a block's scale."""
    return SCALED_BITS.get(datatype, DATATYPE_BITS[datatype])


def _units_of(chip: Chip, datatype: str, library: Library) -> tuple[float, float, bool]:
    """MACs per cycle of an SM, rows of its instruction where it reads shared memory itself, and whether it does."""
    arch = chip.arch
    if datatype in arch.tensor_cores.datatypes:
        rows = arch.tensor_cores.datatypes[datatype].shape.m
        if library.is_ampere and rows >= WIDE_ROWS:
            return arch.macs_per_cycle(datatype) * SYNCHRONOUS_SHARE, 0.0, True
        # Smaller instructions read registers, which a warp fills from shared memory for 64 x 64 results.
        return arch.macs_per_cycle(datatype), float(rows if rows >= WIDE_ROWS else 0), True
    known = {**arch.tensor_cores.datatypes, **arch.vector_units.ops_per_s}
    if datatype not in known:
        raise ModelError(f"{arch.name}: it multiplies no '{datatype}'{nearest_hint(datatype, known)}")
    macs = chip.vector_ops_per_s(datatype) / 2 / arch.max_clock_hz / arch.num_sms
    return macs * library.issued_share, 0.0, False


@lru_cache(maxsize=64)
def _tiles(arch: GpuArch, is_tensor: bool, menu: Menu) -> Floats:
    """Tiles of a menu, or all that accumulators hold and instructions fill `[tiles, 2]`."""
    if menu.tiles:
        return np.array(menu.tiles, dtype=np.float64)
    held = arch.tensor_cores.accumulator_memory_bytes or arch.sm.register_file_bytes // 2
    instruction_rows = max(one.shape.m for one in arch.tensor_cores.datatypes.values())
    step = instruction_rows if is_tensor and instruction_rows >= WIDE_ROWS else 1
    sides = CLUSTER_SIDES if arch.sm.cluster_blocks > 1 else SIDES
    found = [
        (a, b)
        for a in sides
        for b in sides
        if LEAST_AREA <= a * b <= held // ACCUMULATOR_BYTES and max(a, b) >= 64 and (a % step == 0 or b % step == 0)
    ]
    return np.array(found, dtype=np.float64)
