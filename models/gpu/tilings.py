"""How a tiled GEMM kernel is made, what a block of it does in a step, and what it needs of an SM.

A kernel as a tile compiler such as Triton makes it: each thread block computes one tile of the result and walks the reduction
in steps of `tile_k`. Copies to shared memory (`cp.async`) run `stages - 1` steps ahead. Where nothing is known of the alignment of
rows, elements are loaded one by one and stored to shared memory, and no step runs ahead. Tiles with the rows of an asynchronous
instruction (wgmma: 64 per warp group) are multiplied from shared memory, which needs a buffer per stage; smaller ones, and all
on chips without such instructions, load registers first (`mma.sync`), which frees a buffer a step earlier.

Source: Triton 3.6, its passes for software pipelining (buffers) and accelerated products (warps over a tile, shapes of
instructions); counts of registers and instructions, and `SERIAL_COLS`: disassembly of the 85 tilings of the measured table that
it compiled for sm_90a, with and without known alignment.

Limits: a tiling whose accumulators do not fit the registers is refused, as nothing is known of kernels that spill those. Where
only the addresses of asynchronous copies do not fit, the compiler is taken to compute them again. A memory for accumulators
(tcgen05) is taken for registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...archdsl import GpuArch, Infeasible, Intrinsic
from .facts import SYNCHRONOUS_SHARE
from .gemm import WIDE_ROWS, Flags
from .times import Floats, Ints

COPY_BYTES: Final = 16
"""Bytes that a thread copies with one instruction, the most of `cp.async`. Source: PTX ISA."""
REGISTER_BYTES: Final = 4
REGISTER_STEP: Final = 8
"""Registers of a thread come in multiples of this. Source: CUDA occupancy calculator."""
BASE_REGISTERS: Final = 19
"""Registers of a thread beside accumulators and addresses; see Source above."""
FRAGMENT_REGISTERS: Final = 16
"""Registers for the operands of `mma.sync`; see Source above."""
ADDRESS_REGISTERS: Final = 2
"""Registers of the 64-bit address of each copy of a thread in a step."""
ELEMENT_REGISTERS: Final = 3.0
"""Registers of each element that a thread loads alone: its address and its value."""
UNIFORM_ELEMENTS: Final = 32
UNIFORM_REGISTERS: Final = 1.25
"""Up to so many elements of a thread, addresses are in the 63 uniform registers of the warp, and an element takes fewer."""
SAVED_REGISTERS: Final = 36
SPILL_ROUNDS: Final = 1.7
"""Registers that the compiler saves before it spills, and how often a spilled one is stored and loaded in a step."""
ELEMENT_INSTRUCTIONS: Final = 8
"""Instructions for each such element: load, two moves into place, store, and sums and bounds of addresses; see Source above."""
ALIGNED_ELEMENTS: Final = 16
"""Rows whose length is a multiple of this are known to be aligned. Source: Triton specialises integers divisible by 16."""
RESERVED_BYTES: Final = 1024
"""Shared memory that the system takes of every block. Source: CUDA C++ Programming Guide, from compute capability 8.0 on."""
LINE_BYTES: Final = 128
"""Bytes of a cache line where the description has none. Source: CUDA C++ Programming Guide."""
WARP_GROUP: Final = 4
"""Warps that issue an asynchronous instruction together. Source: PTX ISA, wgmma."""
WARP_SIDE: Final = 16
"""Rows, and columns, of the results of a warp below which a tile is not cut. Source: Triton, `warpsPerTileV2`."""
SERIAL_COLS: Final = 256
"""Columns of a tile from which on each asynchronous instruction waits for the one before, where several warp groups share it.

Source: ptxas of CUDA 12.8, whose note C7515 ("wgmma instructions are serialized") is on all such kernels of Triton 3.6 and on
no other of those compiled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """One way to make a tiled GEMM kernel.

    Attributes:
        tile_m: Rows of a block's tile; a power of two, as all tile compilers want it.
        tile_n: Columns of it; a power of two.
        tile_k: Elements of the reduction in a step; a power of two.
        stages: Steps that are under way at once, the one that is multiplied among them.
        warps: Warps of a block; a power of two.
        group_m: Rows of tiles that consecutive blocks go down before the next column of tiles.

    Raises:
        ValueError: One of them is below 1, or no power of two where it must be one.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    stages: int
    warps: int
    group_m: int = 8

    def __post_init__(self) -> None:
        for name in ("stages", "group_m"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it counts from 1")
        for name in ("tile_m", "tile_n", "tile_k", "warps"):
            if not is_power_of_two(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)}; it is a power of two")

    def __str__(self) -> str:
        return f"tile {self.tile_m} x {self.tile_n} x {self.tile_k}, {self.stages} stages, {self.warps} warps"


@dataclass(frozen=True, slots=True, kw_only=True)
class TilingColumns:
    """Tilings as columns; every attribute is `[count]` and as in `Tiling`."""

    tile_m: Floats
    tile_n: Floats
    tile_k: Floats
    stages: Floats
    warps: Floats
    group_m: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSteps:
    """What a block does in one step of the reduction; every attribute is `[count]`.

    Attributes:
        is_wide: Whether asynchronous instructions multiply from shared memory.
        rate_share: Share of the tensor cores' rate that the instructions reach.
        is_serial: Whether each asynchronous instruction waits for the one before.
        is_ahead: Whether copies run ahead of the products, 16 bytes at once; else they are loads and stores of elements.
        instructions: Asynchronous instructions of all warp groups; 0 where there are none.
        macs: Multiply-accumulates.
        copied_bytes: Bytes copied to shared memory.
        lines: Lines of the cache that these are in.
        copies: Copies of a thread.
        read_bytes: Bytes read from shared memory for the products.
    """

    is_wide: Flags
    rate_share: Floats
    is_serial: Flags
    is_ahead: Flags
    instructions: Floats
    macs: Floats
    copied_bytes: Floats
    lines: Floats
    copies: Floats
    read_bytes: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockNeeds:
    """What a block needs of an SM; every attribute is `[count]`.

    Attributes:
        threads: Its threads.
        accumulators: Registers of a thread for its results.
        registers: Registers of a thread, within the limit.
        spills: Times in a step that a thread stores a value and loads it again, for want of registers.
        register_limit: Most that a thread of such a block may have.
        shared_bytes: Shared memory for its buffers [bytes].
        resident: Blocks that an SM holds at once; 0 where not even one fits.
    """

    threads: Floats
    accumulators: Floats
    registers: Floats
    spills: Floats
    register_limit: Floats
    shared_bytes: Floats
    resident: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Blocks of a batch of kernels: how they are made, what they do in a step, what they need."""

    tilings: TilingColumns
    steps: BlockSteps
    needs: BlockNeeds


def is_power_of_two(value: int) -> bool:
    """Whether a number is 1, 2, 4 and so on."""
    return value > 0 and value & (value - 1) == 0


def blocks_of(tilings: Sequence[Tiling], k: Ints, arch: GpuArch, datatype: str, element_bytes: Floats) -> Blocks:
    """What blocks do in a step, and what they need of an SM.

    Args:
        tilings: How the kernels are made.
        k: Length of the rows of A and B `[count]`.
        arch: The GPU; its tensor cores multiply the datatype.
        datatype: What is multiplied.
        element_bytes: Bytes of an element of A and of B `[2]`.
    """
    columns = TilingColumns(
        tile_m=np.array([one.tile_m for one in tilings], dtype=np.float64),
        tile_n=np.array([one.tile_n for one in tilings], dtype=np.float64),
        tile_k=np.array([one.tile_k for one in tilings], dtype=np.float64),
        stages=np.array([one.stages for one in tilings], dtype=np.float64),
        warps=np.array([one.warps for one in tilings], dtype=np.float64),
        group_m=np.array([one.group_m for one in tilings], dtype=np.float64),
    )
    steps = _steps_of(columns, k, arch, datatype, element_bytes)
    return Blocks(tilings=columns, steps=steps, needs=_needs_of(columns, steps, arch))


def _steps_of(tilings: TilingColumns, k: Ints, arch: GpuArch, datatype: str, element_bytes: Floats) -> BlockSteps:
    """What blocks do in a step; see `blocks_of`."""
    instruction = arch.tensor_cores.datatypes[datatype].shape
    tile_m, tile_n, warps = tilings.tile_m, tilings.tile_n, tilings.warps
    groups = np.maximum(warps // WARP_GROUP, 1)
    is_wide = (tile_m >= instruction.m) & (warps % WARP_GROUP == 0) & (instruction.m >= WIDE_ROWS)
    is_ahead = k % ALIGNED_ELEMENTS == 0
    instructions, wide_bytes = _wide_products(tilings, groups, instruction, element_bytes)
    row_bytes, col_bytes = tilings.tile_k * element_bytes[0], tilings.tile_k * element_bytes[1]
    copied = tile_m * row_bytes + tile_n * col_bytes
    each_bytes = np.where(is_ahead, COPY_BYTES, copied / ((tile_m + tile_n) * tilings.tile_k))
    line_bytes = float(arch.l2.line_bytes or LINE_BYTES)
    warps_m, warps_n = _warps_over(tile_m, tile_n, warps)
    return BlockSteps(
        is_wide=is_wide,
        rate_share=np.where(is_wide | (instruction.m < WIDE_ROWS), 1.0, SYNCHRONOUS_SHARE),
        is_serial=is_wide & (tile_n >= SERIAL_COLS) & (groups > 1),
        is_ahead=is_ahead,
        instructions=np.where(is_wide, instructions, 0.0),
        macs=tile_m * tile_n * tilings.tile_k,
        copied_bytes=copied,
        lines=tile_m * np.ceil(row_bytes / line_bytes) + tile_n * np.ceil(col_bytes / line_bytes),
        copies=copied / each_bytes / (warps * arch.sm.warp_threads),
        read_bytes=np.where(is_wide, wide_bytes, tile_m * row_bytes * warps_n + tile_n * col_bytes * warps_m),
    )


def _needs_of(tilings: TilingColumns, steps: BlockSteps, arch: GpuArch) -> BlockNeeds:
    """What blocks need of an SM, and how many it holds."""
    sm = arch.sm
    threads = tilings.warps * sm.warp_threads
    accumulators = tilings.tile_m * tilings.tile_n / threads
    wanted = accumulators + BASE_REGISTERS
    each = np.where(steps.copies <= UNIFORM_ELEMENTS, UNIFORM_REGISTERS, ELEMENT_REGISTERS)
    wanted = wanted + np.where(steps.is_ahead, ADDRESS_REGISTERS, each) * steps.copies
    wanted = wanted + np.where(steps.is_wide, 0, FRAGMENT_REGISTERS)
    file_registers = sm.register_file_bytes / REGISTER_BYTES
    limit = np.minimum(sm.max_registers_per_thread, file_registers // threads)
    # Asynchronous products pin their accumulators; around synchronous ones the compiler loads elements later instead.
    spilled = np.where(steps.is_wide & ~steps.is_ahead, np.maximum(wanted - limit - SAVED_REGISTERS, 0), 0.0)
    registers = np.minimum(np.ceil(wanted / REGISTER_STEP) * REGISTER_STEP, limit)
    buffers = np.where(steps.is_wide, tilings.stages, np.maximum(tilings.stages - 1, 1))
    shared = np.where(steps.is_ahead, buffers, 1) * steps.copied_bytes
    held = np.minimum(sm.max_threads // threads, sm.max_blocks)
    held = np.minimum(held, file_registers // np.maximum(registers * threads, 1))
    held = np.minimum(held, sm.shared_memory_bytes // (shared + RESERVED_BYTES))
    does_fit = (shared <= sm.shared_memory_per_block_bytes) & (accumulators + BASE_REGISTERS <= limit)
    return BlockNeeds(
        threads=threads,
        accumulators=accumulators,
        registers=registers,
        spills=SPILL_ROUNDS * spilled,
        register_limit=limit,
        shared_bytes=shared,
        resident=np.where(does_fit & (threads <= sm.max_threads_per_block), held, 0),
    )


def refusal_of(tiling: Tiling, needs: BlockNeeds, idx: int, arch: GpuArch) -> Infeasible | None:
    """Why a block of a tiling fits on no SM; None where it does.

    Args:
        tiling: The tiling.
        needs: Needs of a batch of tilings.
        idx: Its place there.
        arch: The GPU.
    """
    if needs.resident[idx] > 0:
        return None
    threads, limit = int(needs.threads[idx]), arch.sm.max_threads_per_block
    if threads > limit:
        return Infeasible(
            op=str(tiling), resource="threads of a block", demand=threads, limit=limit, unit="threads",
            levers=(f"at most {limit // arch.sm.warp_threads} warps",),
        )  # fmt: skip
    shared, room = int(needs.shared_bytes[idx]), arch.sm.shared_memory_per_block_bytes
    if shared > room:
        return Infeasible(
            op=str(tiling), resource="shared memory of a block", demand=shared, limit=room, unit="bytes",
            levers=("fewer stages", "a smaller tile, or shorter steps"),
        )  # fmt: skip
    accumulators = int(needs.accumulators[idx])
    return Infeasible(
        op=str(tiling), resource="registers of a thread", demand=accumulators + BASE_REGISTERS,
        limit=int(needs.register_limit[idx]), unit="registers",
        terms=(("accumulators", accumulators), ("others", BASE_REGISTERS)), levers=("more warps", "a smaller tile"),
    )  # fmt: skip


def _wide_products(
    tilings: TilingColumns, groups: Floats, instruction: Intrinsic, element_bytes: Floats
) -> tuple[Floats, Floats]:
    """Asynchronous instructions of a step, and bytes that they read from shared memory `[count]`.

    Warp groups share the rows of a tile, and its columns once each has the rows of one instruction.
    """
    groups_m = np.minimum(groups, np.maximum(tilings.tile_m // instruction.m, 1))
    cols = np.minimum(float(instruction.n), tilings.tile_n * groups_m / groups)
    num = (tilings.tile_m / instruction.m) * (tilings.tile_n / cols) * (tilings.tile_k / instruction.k)
    return num, num * instruction.k * (instruction.m * element_bytes[0] + cols * element_bytes[1])


def _warps_over(tile_m: Floats, tile_n: Floats, warps: Floats) -> tuple[Floats, Floats]:
    """Warps along the rows and the columns of a tile that `mma.sync` multiplies, the longer side cut first."""
    along_m, along_n = np.ones_like(warps), np.ones_like(warps)
    for _ in range(int(np.log2(warps.max(initial=1)))):
        is_left = along_m * along_n < warps
        is_tall = (tile_m / WARP_SIDE / along_m >= tile_n / WARP_SIDE / along_n) & (tile_m > WARP_SIDE * along_m)
        along_m = np.where(is_left & is_tall, 2 * along_m, along_m)
        along_n = np.where(is_left & ~is_tall, 2 * along_n, along_n)
    return along_m, along_n
