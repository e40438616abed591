"""Time of networks on weight-stationary arrays whose activations stay on the chip.

An op is a matrix product: rows of activations (pixels and batch) times a matrix of weights (reduction by output channels).
The matrix is cut into tiles of the array's size. A tile streams in while the one before it is used, and each row of
activations takes one cycle per tile, or more where operands are wider than the array's. So a tile lasts as long as its
rows or its weights, whichever take longer; several arrays of a chip share the tiles, and rows where tiles run out.

Two places of the weights: streamed from main memory for every use (TPU v1), or resident in the chip's memory (Groq TSP), where
every op also pays the way from memory through the array and back, since the next op needs its result.

Source: Jouppi et al., "In-datacenter performance analysis of a tensor processing unit", ISCA 2017, sections 2 and 7 (tiles,
    weight FIFO, half rate for 16-bit activations); Abts et al., "Think fast: a tensor streaming processor (TSP) for
    accelerating deep learning workloads", ISCA 2020 (four planes of 320 x 320, weights in 40 cycles).
Limits: Vector ops overlap unless they are ops of the workload; transfers to the host are left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from ...archdsl import DimClass, Fanout, Memory, ModelError, Op, SpatialArch, TensorRole, VectorOp, Workload
from ..parts import Part, max_of, sum_of

TapPacking = Literal["kernel", "kernel row", "tap"]
"""Taps of a convolution that may share a tile's rows: all, those of one row of the window, or none with another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledArray:
    """A chip as arrays that hold tiles of weights.

    Attributes:
        name: The chip.
        clock_hz: Its clock.
        rows: Elements of a row of activations that one array takes per cycle.
        cols: Results of one array per cycle.
        num_arrays: Arrays that work at once.
        operand_bits: Operands of these bits take one cycle; wider ones take as many as they have such parts, per operand.
        supply_bytes_per_cycle: Weights that reach all arrays together.
        accumulator_rows: Rows of results that are kept while tiles along the reduction follow one another.
        is_resident: Weights are in the chip's own memory.
        latency_cycles: From the memory through an array and back; paid by every op of a chip with resident weights.
        capacity_bytes: Bytes of the memory that holds weights.
        vector_lanes: Elements that the vector unit takes per cycle.
        tap_packing: Which taps of a convolution share the rows of the array.
        exposes_borders: Whether an op starts only when the results of the one before are stored, as it must where it reads
            them; else that wait is hidden by independent ops. It delays rows, while weights keep coming.
    """

    name: str
    clock_hz: float
    rows: int
    cols: int
    num_arrays: int
    operand_bits: int
    supply_bytes_per_cycle: float
    accumulator_rows: float
    is_resident: bool
    latency_cycles: int
    capacity_bytes: float
    vector_lanes: int
    tap_packing: TapPacking = "kernel"
    exposes_borders: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayTimes:
    """A network on one chip.

    Attributes:
        total: Cycles as a tree: the sum over ops; of each op the larger of rows and weights, and its latency.
        macs: Useful multiply-accumulates.
        clock_hz: The chip's clock.
    """

    total: Part
    macs: int
    clock_hz: float

    @property
    def time_s(self) -> float:
        """Time [s]."""
        return self.total.amount / self.clock_hz

    @property
    def ops_per_s(self) -> float:
        """Achieved rate, 2 per multiply-accumulate [op/s]."""
        return 2 * self.macs / self.time_s


def tiled_array_of(arch: SpatialArch) -> TiledArray:
    """The weight-stationary arrays of a description.

    The innermost fan-out with an axis that carries only reductions and one that carries only output channels is the array;
    fan-outs above it are copies of it. Weights are resident when the outermost memory is on the chip.

    Raises:
        ModelError: The chip has no such fan-out.
    """
    axes = None
    copies = 1
    for node in arch.hierarchy:
        if not isinstance(node, Fanout):
            continue
        by_class = {axis.dim_classes: axis for axis in node.axes}
        pair = by_class.get((DimClass.REDUCTION,)), by_class.get((DimClass.OUTPUT_CHANNEL,))
        if pair[0] is not None and pair[1] is not None:
            axes = (pair[0].size, pair[1].size)
        else:
            copies *= node.num_instances
    if axes is None:
        raise ModelError(
            f"{arch.name}: no fan-out with one axis that carries reduction alone and one that carries output_channel alone; "
            "only such weight-stationary arrays are modelled here"
        )
    outer = arch.memories[0]
    is_resident = outer.memory_class != "main_memory"
    *suppliers, weight_holder = [memory for memory in arch.memories if "weight" in memory.keeps]
    supply = min(arch.read_bytes_per_cycle(one) * arch.instances(one.name) for one in suppliers)
    loads = arch.write_bytes_per_cycle(weight_holder) * arch.instances(weight_holder.name)
    holders = [memory for memory in arch.memories if "output" in memory.keeps and memory is not outer]
    sums = holders[-1] if holders else outer
    bits = max(datatype.accumulator_bits or 32 for datatype in arch.compute.datatypes.values())
    rows_kept = held_bytes(sums) / (axes[1] * bits / 8)
    if sums.double_buffered:
        rows_kept = rows_kept // 2
    return TiledArray(
        name=arch.name,
        clock_hz=arch.clock_hz,
        rows=axes[0],
        cols=axes[1],
        num_arrays=copies,
        operand_bits=8,
        supply_bytes_per_cycle=min(supply, loads),
        accumulator_rows=rows_kept,
        is_resident=is_resident,
        latency_cycles=outer.latency_cycles if is_resident else 0,
        capacity_bytes=held_bytes(outer),
        vector_lanes=arch.compute.vector_lanes,
    )


def held_bytes(memory: Memory) -> float:
    """Bytes that a memory holds; infinite when unbounded."""
    return math.inf if memory.capacity_bytes is None else memory.capacity_bytes


def array_times(array: TiledArray, workload: Workload) -> ArrayTimes:
    """Cycles of a network on one chip, op after op.

    Raises:
        ModelError: Nothing to compute.
    """
    parts: list[Part] = []
    for op in workload.ops:
        one = op_cycles(array, op) if isinstance(op, Op) else _vector_cycles(array, op)
        parts += [one] * op.count
    if not parts:
        raise ModelError(f"{workload.name}: no ops to run on {array.name}")
    return ArrayTimes(total=sum_of(workload.name, "cycles", parts), macs=workload.macs, clock_hz=array.clock_hz)


def op_cycles(array: TiledArray, op: Op, num_shares: int = 1) -> Part:
    """Cycles of one op as a tree.

    Args:
        array: The chip.
        op: The op.
        num_shares: Chips among which its output channels are divided; this is one of them.
    """
    rows, reduction, channels, groups = matrix_of(op)
    channels = math.ceil(channels / num_shares)
    num_reads = _separate_reads(array, op)
    tiles = groups * num_reads * math.ceil(reduction / num_reads / array.rows) * math.ceil(channels / array.cols)
    slowdown = 1
    for tensor in op.tensors:
        if tensor.role is not TensorRole.OUTPUT:
            slowdown *= math.ceil(tensor.bits / array.operand_bits)
    tile_bytes = array.rows * array.cols * _weight_bits(op) / 8
    num_passes = math.ceil(rows / array.accumulator_rows) if not array.is_resident else 1
    streaming = math.ceil(tiles * rows * slowdown / array.num_arrays)
    loading = tiles * num_passes * tile_bytes / array.supply_bytes_per_cycle
    moving = max_of(
        "array",
        "cycles",
        [
            Part(name="rows", amount=float(streaming + _border_cycles(array, rows)), unit="cycles"),
            Part(name="weights", amount=loading, unit="cycles"),
        ],
    )
    if not array.is_resident:
        return sum_of(op.name, "cycles", [moving])
    # The first tiles have nothing to hide behind.
    first = min(tiles, array.num_arrays) * tile_bytes / array.supply_bytes_per_cycle
    return sum_of(
        op.name,
        "cycles",
        [
            moving,
            Part(name="first weights", amount=first, unit="cycles"),
            Part(name="latency", amount=float(array.latency_cycles), unit="cycles"),
        ],
    )


def _separate_reads(array: TiledArray, op: Op) -> int:
    """Parts of the reduction that share no tile: taps of the window, by how they are packed."""
    if array.tap_packing == "kernel":
        return 1
    apart = ("FZ", "FY") if array.tap_packing == "kernel row" else ("FZ", "FY", "FX")
    return math.prod(size for dim, size in op.dims if dim in apart)


def _border_cycles(array: TiledArray, rows: int) -> int:
    """Until the last results are stored: through rows and columns of the array, then the rows that are still held."""
    if not array.exposes_borders:
        return 0
    held = array.accumulator_rows
    last = rows - held * (math.ceil(rows / held) - 1) if math.isfinite(held) else rows
    return array.rows + array.cols + math.ceil(last)


def matrix_of(op: Op) -> tuple[int, int, int, int]:
    """Rows of activations, length of the reduction, output channels and groups of an op as a matrix product."""
    found = {DimClass.PIXEL: 1, DimClass.REDUCTION: 1, DimClass.OUTPUT_CHANNEL: 1, DimClass.GROUP: 1}
    for dim, size in op.dims:
        found[op.dim_class(dim)] *= size
    return found[DimClass.PIXEL], found[DimClass.REDUCTION], found[DimClass.OUTPUT_CHANNEL], found[DimClass.GROUP]


def weight_bytes(op: Op) -> int:
    """Bytes of an op's weights."""
    return sum(op.tensor_bytes(tensor) for tensor in op.tensors if tensor.role is TensorRole.WEIGHT)


def _weight_bits(op: Op) -> int:
    return max((tensor.bits for tensor in op.tensors if tensor.role is TensorRole.WEIGHT), default=8)


def _vector_cycles(array: TiledArray, op: VectorOp) -> Part:
    cycles = math.ceil(op.elements * op.passes / array.vector_lanes)
    parts = [Part(name="vector unit", amount=float(cycles), unit="cycles")]
    if array.is_resident:
        parts.append(Part(name="latency", amount=float(array.latency_cycles), unit="cycles"))
    return sum_of(op.name, "cycles", parts)
