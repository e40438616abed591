"""What the detailed latency needs to know of an architecture, read out of it once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..archdsl import Compute, DimClass, Fanout, Memory, ModelError, Op, SpatialArch, TensorRole
from .hierarchy import hierarchy_of
from .pricing import Prices


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelTiming:
    """One memory.

    Attributes:
        name: Name in the architecture.
        is_cache: Managed by hardware; also holds tensors that a mapping does not place in it.
        capacity_bytes: Of one instance; infinite when unbounded.
        read_bytes_per_cycle: Of one instance; may be infinite.
        write_bytes_per_cycle: Likewise.
        shares_port: Reads and writes take turns.
        double_buffered: Transfers of the next tile overlap computation on this one.
        latency_cycles: From request to first data.
        min_transfer_bytes: Shorter rows are rounded up.
        keeps_tiles: An unchanged tile is not moved again.
        skips_holes: What a strided window jumps over is not moved.
        channels_last: Activations stand channels last, rows of pixels from a line on.
        packs_weights: A tile of weights stands side by side.
    """

    name: str
    is_cache: bool
    capacity_bytes: float
    read_bytes_per_cycle: float
    write_bytes_per_cycle: float
    shares_port: bool
    double_buffered: bool
    latency_cycles: int
    min_transfer_bytes: int
    keeps_tiles: bool
    skips_holes: bool
    channels_last: bool
    packs_weights: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTiming:
    """The PE array.

    Attributes:
        stationary: Role of the tensor that stays in the PEs; None when nothing does.
        is_shadowed: The next stationary tile is loaded behind the current one, and passes follow one another
            without a gap; otherwise every pass loads, fills and drains by itself.
        skew_cycles: Steps between the first and the last PE along the systolic axes.
        load_cycles: Cycles to shift one stationary element per PE into the array.
        instruction_steps: Most steps of one instruction; None for a whole pass.
        min_instruction_cycles: Least cycles between the starts of two instructions.
        max_in_flight: Instructions that may be in the array at once; None for no limit.
    """

    stationary: TensorRole | None
    is_shadowed: bool
    skew_cycles: int
    load_cycles: int
    instruction_steps: int | None
    min_instruction_cycles: int
    max_in_flight: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """An architecture as the detailed latency sees it.

    Attributes:
        levels: Memories, outermost first.
        array: The PE array.
        compute: Name of the compute unit.
        vector_lanes: Elements per cycle of the unit that outputs pass on their way to the outermost memory; 0 if none.
        cycles_per_step: Cycles of one step of the compute unit, per datatype.
    """

    levels: tuple[LevelTiming, ...]
    array: ArrayTiming
    compute: str
    vector_lanes: int
    cycles_per_step: tuple[tuple[str, float], ...]

    def step_cycles(self, datatype: str) -> float:
        """Cycles of one step.

        Raises:
            ModelError: The compute unit lacks the datatype.
        """
        for name, cycles in self.cycles_per_step:
            if name == datatype:
                return cycles
        there = ", ".join(name for name, _ in self.cycles_per_step)
        raise ModelError(f"compute '{self.compute}' does not multiply {datatype}; its datatypes are {there}")


def timing_of(arch: SpatialArch) -> Timing:
    """Reads the timing facts out of an architecture."""
    compute = arch.compute
    return Timing(
        levels=tuple(_level(arch, memory) for memory in arch.memories),
        array=_array(arch.fanouts, compute),
        compute=compute.name,
        vector_lanes=compute.vector_lanes,
        cycles_per_step=tuple(
            (name, compute.intrinsic.macs / compute.macs_per_cycle(name)) for name in sorted(compute.datatypes)
        ),
    )


def with_pass_times(prices: Prices, arch: SpatialArch, op: Op) -> Prices:
    """Prices under which `throughput` knows that a PE array's pass lasts no shorter than its stationary tiles' loading.

    The registers of the stationary tensor become as slow to write as the array is to load: one element per PE in
    `load_cycles`. The result is still a lower bound of the detailed latency, and a far sharper one where few
    vectors pass per tile. An array whose registers hold other tensors too, or read and write on one port, keeps
    its prices.
    """
    array, hierarchy = _array(arch.fanouts, arch.compute), hierarchy_of(arch)
    levels, alone = hierarchy.levels, frozenset[DimClass]().union(*(axis.alone_classes for axis in hierarchy.axes))
    if any(size > 1 and op.dim_class(dim) in alone for dim, size in op.dims):
        return prices  # What passes the array by loads nothing.
    idx = len(levels) - 1
    held = next((tensor for tensor in op.tensors if tensor.role == array.stationary), None)
    is_alone = held is not None and levels[idx].keeps == frozenset({held.role}) and not prices.shares_port[idx].any()
    is_inside = levels[idx].num_fanouts > 0 and array.load_cycles > 0
    if held is None or not (is_alone and is_inside):
        return prices
    rates = prices.write_bytes_per_cycle.copy()
    bits = hierarchy.sum_bits(op) if held.role is TensorRole.OUTPUT else held.bits
    rates[idx] = np.minimum(rates[idx], bits / 8 / array.load_cycles)
    return replace(prices, write_bytes_per_cycle=rates)


def _level(arch: SpatialArch, memory: Memory) -> LevelTiming:
    return LevelTiming(
        name=memory.name,
        is_cache=memory.memory_class == "cache",
        capacity_bytes=float("inf") if memory.capacity_bytes is None else float(memory.capacity_bytes),
        read_bytes_per_cycle=arch.read_bytes_per_cycle(memory),
        write_bytes_per_cycle=arch.write_bytes_per_cycle(memory),
        shares_port=memory.ports.read_write > 0,
        double_buffered=memory.double_buffered,
        latency_cycles=memory.latency_cycles,
        min_transfer_bytes=memory.min_transfer_bytes,
        keeps_tiles=memory.keeps_tiles,
        skips_holes=memory.skips_holes,
        channels_last=memory.channels_last,
        packs_weights=memory.packs_weights,
    )


def _array(fanouts: tuple[Fanout, ...], compute: Compute) -> ArrayTiming:
    """Skew and load time of the systolic axes.

    A stationary tile enters along the axis that carries the reduction: one row of PEs per cycle. Outputs
    that stay are not loaded; draining them takes as long, and only hides when shadowed.
    """
    systolic = [axis for fanout in fanouts for axis in fanout.axes if axis.network == "systolic"]
    inward = next((axis for axis in systolic if DimClass.REDUCTION in axis.dim_classes), None)
    entry = inward if inward is not None else next(iter(systolic), None)
    is_shadowed = compute.preload == "shadowed"
    loads_nothing = compute.stationary == "output" and not is_shadowed
    return ArrayTiming(
        stationary=None if compute.stationary == "none" else TensorRole(compute.stationary),
        is_shadowed=is_shadowed,
        skew_cycles=sum(axis.size - 1 for axis in systolic),
        load_cycles=0 if entry is None or loads_nothing or compute.stationary == "none" else entry.size,
        instruction_steps=compute.instruction_steps,
        min_instruction_cycles=compute.min_instruction_cycles,
        max_in_flight=compute.max_in_flight,
    )
