"""Networks over chips with resident weights: contiguous stages in a pipeline, output channels divided within a stage."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...archdsl import Infeasible, ModelError, Op, SpatialArch, System, VectorOp, Workload, counted
from ..parts import Part, sum_of
from .array import TiledArray, op_cycles, tiled_array_of, weight_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Consecutive ops on the chips of one stage.

    Attributes:
        ops: The ops, in order.
        chips: Chips that share them: each makes its part of the output channels of every op.
        cycles: What one chip takes for them, as a tree.
        weight_bytes: Bytes of weights on each chip.
        op_output_bytes: Bytes of the result of each op, of all chips together.
    """

    ops: tuple[Op | VectorOp, ...]
    chips: tuple[str, ...]
    cycles: Part
    weight_bytes: int
    op_output_bytes: tuple[int, ...]

    @property
    def output_bytes(self) -> int:
        """Bytes that the stage hands on."""
        return self.op_output_bytes[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A network on the chips of a system.

    Attributes:
        workload: The network.
        array: The chips.
        stages: Its stages, in order.
    """

    workload: Workload
    array: TiledArray
    stages: tuple[Stage, ...]

    @property
    def slowest(self) -> Stage:
        """The stage that sets the rate of the pipeline."""
        return max(self.stages, key=lambda stage: stage.cycles.amount)


def place(workload: Workload, system: System, *, num_stages: int, tensor_parallel: int = 1) -> Placement | Infeasible:
    """Divide a network into stages so that the slowest is as fast as can be and all weights fit.

    Args:
        workload: The network; its ops follow one another.
        system: The system; the first `num_stages * tensor_parallel` chips are taken.
        num_stages: Stages of the pipeline.
        tensor_parallel: Chips of one stage.

    Returns:
        The placement, or what is missing: bytes of SRAM.

    Raises:
        ModelError: Too few chips or ops, or chips of several kinds or without resident weights.
    """
    ops = [one for op in workload.ops for one in [op] * op.count]
    num_chips = num_stages * tensor_parallel
    if not 1 <= num_stages <= len(ops):
        raise ModelError(f"{workload.name} has {len(ops)} ops; it divides into 1 to that many stages, not {num_stages}")
    if tensor_parallel < 1 or num_chips > len(system.chip_names):
        raise ModelError(
            f"{system.name} has {counted(len(system.chip_names), 'chips')}; {num_stages} x {tensor_parallel} are asked for"
        )
    names = system.chip_names[:num_chips]
    array = _array_of(system, names)
    cycles = [_cycles(array, op, tensor_parallel).amount for op in ops]
    held = [math.ceil(weight_bytes(op) / tensor_parallel) if isinstance(op, Op) else 0 for op in ops]
    cuts = _cuts(cycles, held, num_stages, array.capacity_bytes)
    if cuts is None:
        return _shortage(workload, array, held, num_stages, tensor_parallel)
    stages: list[Stage] = []
    for idx, (start, end) in enumerate(cuts):
        chips = names[idx * tensor_parallel : (idx + 1) * tensor_parallel]
        parts = [_cycles(array, op, tensor_parallel) for op in ops[start:end]]
        stages.append(
            Stage(
                ops=tuple(ops[start:end]),
                chips=chips,
                cycles=sum_of(f"stage {idx}", "cycles", parts),
                weight_bytes=sum(held[start:end]),
                op_output_bytes=tuple(_output_bytes(op, array) for op in ops[start:end]),
            )
        )
    return Placement(workload=workload, array=array, stages=tuple(stages))


def _array_of(system: System, names: tuple[str, ...]) -> TiledArray:
    groups = {name.rpartition(".")[0] for name in names}
    first, *others = [group.arch for group in system.chips if group.name in groups]
    if any(other != first for other in others):
        raise ModelError(f"{system.name}: the chips differ ({', '.join(sorted(groups))}); a pipeline takes equal ones")
    arch = first
    if not isinstance(arch, SpatialArch):
        raise ModelError(f"{system.name}: {arch.name} is a GPU; weights are resident on spatial chips only")
    array = tiled_array_of(arch)
    if not array.is_resident:
        raise ModelError(f"{system.name}: {arch.name} streams its weights from main memory; they are not resident")
    return array


def _cycles(array: TiledArray, op: Op | VectorOp, num_shares: int) -> Part:
    if isinstance(op, Op):
        return op_cycles(array, op, num_shares)
    amount = math.ceil(op.elements * op.passes / num_shares / array.vector_lanes) + array.latency_cycles
    return Part(name=op.name, amount=float(amount), unit="cycles")


def _output_bytes(op: Op | VectorOp, array: TiledArray) -> int:
    """Bytes of a result as it is handed on: requantised to the width of the operands."""
    if isinstance(op, VectorOp):
        return sum(amount for _, amount in op.write_bytes) or op.elements * array.operand_bits // 8
    return math.ceil(op.elements(op.output) * array.operand_bits / 8)


def _cuts(
    cycles: list[float], held: list[int], num_stages: int, capacity_bytes: float
) -> tuple[tuple[int, int], ...] | None:
    """Where to cut so that the slowest stage is least, among those that fit; None when none fits."""
    limits = sorted(
        {sum(cycles[start:end]) for start in range(len(cycles)) for end in range(start + 1, len(cycles) + 1)}
    )
    low, high = 0, len(limits) - 1
    best: tuple[tuple[int, int], ...] | None = None
    while low <= high:
        middle = (low + high) // 2
        found = _packed(cycles, held, limits[middle], capacity_bytes)
        if found is not None and len(found) <= num_stages:
            best, high = found, middle - 1
        else:
            low = middle + 1
    return None if best is None else _refined(best, num_stages)


def _packed(
    cycles: list[float], held: list[int], limit: float, capacity_bytes: float
) -> tuple[tuple[int, int], ...] | None:
    """Fewest stages of at most so many cycles and bytes, filled in order."""
    found: list[tuple[int, int]] = []
    start, used, kept = 0, 0.0, 0
    for idx, (amount, size) in enumerate(zip(cycles, held, strict=True)):
        if amount > limit or size > capacity_bytes:
            return None
        if used + amount > limit or kept + size > capacity_bytes:
            found.append((start, idx))
            start, used, kept = idx, 0.0, 0
        used, kept = used + amount, kept + size
    return (*found, (start, len(cycles)))


def _refined(cuts: tuple[tuple[int, int], ...], num_stages: int) -> tuple[tuple[int, int], ...]:
    """As many stages as wanted: the longest ones are cut in two, which makes none slower."""
    found = list(cuts)
    while len(found) < num_stages:
        at = max(range(len(found)), key=lambda idx: found[idx][1] - found[idx][0])
        start, end = found[at]
        middle = (start + end) // 2
        found[at : at + 1] = [(start, middle), (middle, end)]
    return tuple(found)


def _shortage(
    workload: Workload, array: TiledArray, held: list[int], num_stages: int, tensor_parallel: int
) -> Infeasible:
    """The least largest stage by weights, and what would make it fit."""
    sums = sorted({sum(held[start:end]) for start in range(len(held)) for end in range(start + 1, len(held) + 1)})
    needed = next(
        limit
        for limit in sums
        if (found := _packed([0.0] * len(held), held, 0.0, limit)) is not None and len(found) <= num_stages
    )
    total = sum(held) * tensor_parallel
    capacity = int(array.capacity_bytes)
    least = math.ceil(total / capacity)
    return Infeasible(
        resource=f"SRAM of one {array.name}",
        demand=needed,
        limit=capacity,
        unit="bytes",
        terms=(("weights of the fullest stage", needed),),
        levers=(
            f"at least {least} chips instead of {num_stages * tensor_parallel}: {workload.name} has {total:,} bytes of weights",
            f"more chips per stage than {tensor_parallel} (tensor_parallel), or more stages than {num_stages}",
            "weights of fewer bits",
        ),
        op=workload.name,
    )
