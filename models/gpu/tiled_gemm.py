"""GEMM kernels whose tiling is given: what a compiler's or a user's choice of tile, stages and warps costs.

`gemm` asks how fast a library that looks for the best way is; here the way is given, so that ways can be ranked (`ranking`).
Blocks run in waves: an SM holds as many at once as its registers and shared memory allow (`tilings`), and the last wave is as
long as if its blocks were spread evenly. With r blocks on the busiest SM, four parties take part in a step of the reduction:

    issue     = max(r x copy, pipeline)     copy      = bytes / 128 per cycle + lines x copy_cycles_per_line
                                            pipeline  = max(copy + stall, (latency + copy + stall) / (stages - 1))
    multiply  = max(r x tensor, r x shared) tensor    = macs / rate
                                            shared    = bytes copied and bytes read by products / 128 per cycle
    cache     = blocks x bytes / (SMs x l2_bytes_per_cycle_sm)
    memory    = the step's share of the kernel's bytes / bandwidth

    step      = (issue^p + multiply^p + cache^p + memory^p)^(1/p)

`pipeline` is one block's own walk. Copies of a step are issued after the products of the step before have been handed to the
tensor cores, which take `queued_instructions` of a block ahead; `stall` is what the block waits for the rest of them, or for
all of them where instructions are serial or synchronous. By Little's law at most stages - 1 steps are on their way at once.
The exponent p (`overlap_exponent`) says how much limits that are alike add up, since turns are not perfectly interleaved.

Rows that are not known to be aligned are loaded by elements: a block waits for memory, stores to shared memory and multiplies,
one after another. Copies then also take issue slots and load units, and each value that registers do not hold a trip to the
cache.

    time = launch + tile_overhead_s + latency of later waves + copies of the first stages + steps + last products + stores

Operands come from main memory once, and again in later waves if they exceed the cache: a wave reads what the rows and columns
of its tiles in grouped order span.

Limits: no TMA, no specialised warps, no split of the reduction, no persistent blocks. Address arithmetic of asynchronous copies
(about 40 instructions of a warp and 7 per copy in each step) hides behind the other limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...archdsl import ModelError, nearest_hint
from ..compiled import compiled, elementwise
from . import gemm_core as core
from .chip import Chip
from .energy import energy_notes, with_energy
from .facts import CACHE_LATENCY_CYCLES, LANES, LOAD_LANES
from .gemm import Flags, Gemms
from .tiled_waves import Walk, Wave, walk_of
from .tilings import (
    ALIGNED_ELEMENTS,
    ELEMENT_INSTRUCTIONS,
    BlockNeeds,
    Blocks,
    BlockSteps,
    Tiling,
    blocks_of,
    refusal_of,
)
from .times import REGIMES, Floats, Ints, KernelTimes, Regime

LIMITS: Final[Mapping[str, Regime]] = {
    "tensor cores": "compute",
    "shared memory": "compute",
    "copies": "memory",
    "cache": "memory",
    "main memory": "memory",
    "pipeline": "latency",
}
"""What may limit a step, and the regime that it makes."""
PARTIES: Final = (("copies", "pipeline"), ("tensor cores", "shared memory"), ("cache",), ("main memory",))
"""Limits of one party: the longest counts. Different parties get in each other's way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledGemms:
    """C[m, n] = A[m, k] B[n, k]^T by kernels whose tiling is given.

    Attributes:
        products: What is multiplied; without narrow weights.
        tilings: How each is made `[count]`.
    """

    products: Gemms
    tilings: tuple[Tiling, ...]

    def __len__(self) -> int:
        return len(self.products)

    def label(self, idx: int) -> str:
        """The product's label, without its tiling: all ways to make a product are on one side of a split."""
        return self.products.label(idx)

    def times(self, chip: Chip) -> KernelTimes:
        """What each kernel costs.

        Raises:
            ModelError: A tiling fits on no SM, or the tensor cores do not multiply the datatype.
        """
        blocks, machine = self.blocks(chip), self.products.machine(chip)
        for idx in np.flatnonzero(blocks.needs.resident == 0):
            raise ModelError(f"{chip.arch.name}: {refusal_of(self.tilings[idx], blocks.needs, int(idx), chip.arch)}")
        walk = walk_of(self.products, self.products.columns(chip), blocks, machine)
        alone = _times_alone(blocks, walk.cold_share, machine, chip.constants)
        loops, together = _main_loop(walk, alone, blocks.steps, machine, chip.constants["overlap_exponent"])
        limited = np.zeros_like(together)
        _within_power(loops["tensor cores"], together, 2 * walk.macs, walk.traffic_bytes, machine, limited)
        main_loop = np.max(list(loops.values()), axis=0)
        serial = {
            "launch": np.full_like(together, machine.launch_s),
            "main loop": main_loop,
            "limits in each other's way": together - main_loop,
            "slower clock within the power limit": limited - together,
            **_around(walk, alone, blocks, machine),
        }
        times = KernelTimes(
            serial_s=serial,
            overlapped_s={"main loop": loops},
            regime=_regimes(loops, limited < np.sum(list(serial.values()), axis=0) / 2),
            ops=2 * walk.macs,
            main_memory_bytes=walk.traffic_bytes,
            choices=tuple(map(str, self.tilings)),
            notes=(*energy_notes(chip), *_notes(chip, blocks.steps)),
        )
        return with_energy(times, chip, self.products.datatype)

    def blocks(self, chip: Chip) -> Blocks:
        """What blocks do in a step, and what they need of an SM.

        Raises:
            ModelError: The tensor cores do not multiply the datatype, or weights are narrow.
        """
        datatype, known = self.products.datatype, chip.arch.tensor_cores.datatypes
        if datatype not in known:
            hint = nearest_hint(datatype, known)
            raise ModelError(f"{chip.arch.name}: tiled kernels need tensor cores, which multiply no '{datatype}'{hint}")
        if self.products.weight_bits is not None:
            raise ModelError("tiled kernels with narrow weights are not modelled; leave weight_bits out")
        return blocks_of(self.tilings, self.products.k, chip.arch, datatype, self.products.element_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alone:
    """What a step of a block takes with nothing else on the chip; every attribute is `[count]` [s].

    Attributes:
        copy_s: To issue its copies.
        product_s: For its products on the tensor cores.
        pipeline_s: From one step to the next.
    """

    copy_s: Floats
    product_s: Floats
    pipeline_s: Floats


def _times_alone(blocks: Blocks, cold_share: Floats, machine: core.Machine, constants: Mapping[str, float]) -> _Alone:
    """What a step of a block takes with nothing else on the chip."""
    steps, needs, stages = blocks.steps, blocks.needs, blocks.tilings.stages
    product = steps.macs / machine.macs_per_cycle / steps.rate_share
    lines = steps.copied_bytes / core.SMEM_BYTES_PER_CYCLE + steps.lines * constants["copy_cycles_per_line"]
    copy = lines + np.where(steps.is_ahead, 0.0, _element_cycles(steps, needs))
    queued = np.minimum(constants["queued_instructions"] / np.maximum(steps.instructions, 1.0), 1.0)
    is_queued = steps.is_wide & steps.is_ahead & ~steps.is_serial
    read = np.where(steps.is_wide, 0.0, steps.read_bytes / core.SMEM_BYTES_PER_CYCLE)
    # With all registers taken, a spilled value cannot be loaded ahead of its use: each is a trip to the cache.
    own_walk = copy + np.where(is_queued, product * (1 - queued), product + read) + needs.spills * CACHE_LATENCY_CYCLES
    latency = np.maximum(CACHE_LATENCY_CYCLES, machine.latency_s * machine.clock_hz * cold_share)
    under_way = np.where(steps.is_ahead, np.maximum(stages - 1, 1), 1)
    pipeline = np.maximum(own_walk, (latency + own_walk) / under_way)
    hz = machine.clock_hz
    return _Alone(copy_s=copy / hz, product_s=product / hz, pipeline_s=pipeline / hz)


def _element_cycles(steps: BlockSteps, needs: BlockNeeds) -> Floats:
    """Cycles of an SM to load the elements of a step one by one and to store them to shared memory `[count]`."""
    issued = ELEMENT_INSTRUCTIONS * steps.copies * needs.threads / LANES
    loads_and_stores = 2 * steps.copies * needs.threads / LOAD_LANES
    return np.maximum(issued, loads_and_stores)


def _limits(wave: Wave, walk: Walk, alone: _Alone, steps: BlockSteps, machine: core.Machine) -> dict[str, Floats]:
    """What each limit alone makes of a step in a wave, by the names of `LIMITS`, `[count]` [s]."""
    shared = (steps.copied_bytes + steps.read_bytes) / core.SMEM_BYTES_PER_CYCLE / machine.clock_hz
    cache = steps.copied_bytes / machine.cache_rate / machine.clock_hz
    step_bytes = walk.traffic_bytes / walk.num_steps * wave.blocks / walk.num_blocks
    columns = (
        wave.resident * alone.product_s,
        wave.resident * shared,
        wave.resident * alone.copy_s,
        wave.blocks / machine.num_sms * cache,
        step_bytes / machine.bytes_per_s,
        alone.pipeline_s,
    )
    return dict(zip(LIMITS, columns, strict=True))


def _main_loop(
    walk: Walk, alone: _Alone, steps: BlockSteps, machine: core.Machine, exponent: float
) -> tuple[dict[str, Floats], Floats]:
    """Times of all steps but each block's last: by each limit alone, and with them in each other's way, `[count]` [s]."""
    loops = {name: np.zeros_like(walk.macs) for name in LIMITS}
    together = np.zeros_like(walk.macs)
    for wave in walk.waves:
        num = wave.num * (walk.num_steps - 1)
        limits = _limits(wave, walk, alone, steps, machine)
        loops = {name: loops[name] + num * limits[name] for name in LIMITS}
        parties = [np.max([limits[name] for name in names], axis=0) for names in PARTIES]
        together = together + num * _in_each_others_way(*parties, exponent)
    # Rounding must not make the sum of several limits less than one of them.
    return loops, np.maximum(together, np.max(list(loops.values()), axis=0))


@elementwise
def _in_each_others_way(issue: float, multiply: float, cache: float, memory: float, exponent: float) -> float:
    """Norm of the parties' times: the longest for a large exponent, their sum for 1."""
    longest = max(max(issue, multiply), max(cache, memory))
    if longest == 0:
        return 0.0
    shares = (issue / longest) ** exponent + (multiply / longest) ** exponent
    shares += (cache / longest) ** exponent + (memory / longest) ** exponent
    return longest * shares ** (1 / exponent)


def _around(walk: Walk, alone: _Alone, blocks: Blocks, machine: core.Machine) -> dict[str, Floats]:
    """What a kernel does around its steps, `[count]` [s]."""
    in_turn = np.sum([wave.num * wave.resident for wave in walk.waves], axis=0)
    num_waves = np.sum([wave.num for wave in walk.waves], axis=0)
    tilings = blocks.tilings
    ahead = np.where(blocks.steps.is_ahead, np.minimum(tilings.stages - 1, walk.num_steps), 0)
    return {
        "filling and draining": np.full_like(in_turn, machine.start_s),
        "first bytes of later waves": (num_waves - 1) * machine.latency_s * walk.cold_share,
        "copies of the first stages": in_turn * ahead * alone.copy_s,
        "last products": in_turn * alone.product_s,
        "storing tiles": in_turn * machine.tile_s * tilings.tile_m * tilings.tile_n / core.TILE_AREA,
    }


@compiled
def _within_power(
    tensor: Floats, loop: Floats, ops: Floats, traffic: Floats, machine: core.Machine, out: Floats
) -> None:
    """Fill in the times of main loops within the power that kernels of their length may draw; columns are `[count]`."""
    for row in range(len(loop)):
        if loop[row] > 0:
            out[row] = core.within_power(tensor[row], loop[row], ops[row], traffic[row], machine)


def _regimes(loops: Mapping[str, Floats], is_short: Flags) -> Ints:
    """What limits each kernel: its longest limit, or latency where the loop is less than half of the time, `[count]`."""
    longest = np.argmax(list(loops.values()), axis=0)
    regime = np.array([REGIMES.index(LIMITS[name]) for name in loops])[longest]
    return np.where(is_short, REGIMES.index("latency"), regime)


def _notes(chip: Chip, steps: BlockSteps) -> tuple[str, ...]:
    """What is approximated."""
    notes: list[str] = []
    if chip.arch.tensor_cores.accumulator_memory_bytes is not None:
        notes.append(f"{chip.arch.name}: tiled kernels are priced as if accumulators were in registers")
    if not steps.is_ahead.all():
        notes.append(
            f"rows of k elements, no multiple of {ALIGNED_ELEMENTS}, are taken to be loaded element by element"
        )
    return tuple(notes)
