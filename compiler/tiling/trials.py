"""Kernels on trial: what a tiling takes is known best once its loads, walks and stores are there to be timed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from xdsl.ir import Operation

from ...archdsl import InfeasibleError
from ...models import time_steps
from ..codegen.expansion import expand_kernels
from ..codegen.ordering import LOADS_AHEAD, with_loads_ahead
from ..codegen.timing import columns_of
from ..ir.tile import KernelOp
from .target import Target

T = TypeVar("T")


def fastest(target: Target, candidates: Sequence[T], ops_of: Callable[[T], Iterable[Operation]]) -> T:
    """The candidate whose kernel takes the fewest cycles by itself, by the models' recurrence over its steps; the first of equals.

    Args:
        target: What is made; `ops_of` may add buffers to it.
        candidates: At least one. Those whose places do not fit take part only where none fits.
        ops_of: The loops of a candidate's kernel.
    """
    if len(candidates) == 1:
        return candidates[0]
    best, least = candidates[0], float("inf")
    for candidate in candidates:
        cycles = _cycles_alone(target, list(ops_of(candidate)))
        if cycles < least:
            best, least = candidate, cycles
    return best


def _cycles_alone(target: Target, ops: list[Operation]) -> float:
    """Cycles of a kernel between others that do nothing; infinite where it does not fit."""
    kernel = KernelOp(
        "trial", "trial", ops, nodes=(), dims={}, macs=0, bound_cycles=0.0, compulsory_bytes=0, staging=target.staging
    )
    try:
        steps = expand_kernels(target.buffers.ops, [kernel], target.array)
    except InfeasibleError:
        return float("inf")
    return time_steps(target.array, columns_of(with_loads_ahead(steps, LOADS_AHEAD, target.array), target.array)).cycles
