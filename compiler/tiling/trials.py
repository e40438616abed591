"""Kernels on trial: what a tiling takes is known best once its loads, walks and stores are there to be timed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, TypeVar

from xdsl.ir import Operation

from ...archdsl import InfeasibleError
from ...models import time_steps
from ..codegen.collecting import paused_collector
from ..codegen.expansion import expand_kernels
from ..codegen.ordering import LOADS_AHEAD, with_loads_ahead
from ..codegen.timing import columns_of
from ..ir.tile import KernelOp
from .target import Target


class Candidate(Protocol):
    """A way to cut something.

    Attributes:
        cycles: Roughly what it takes, and mostly less: the busier of PE array and bus.
    """

    @property
    def cycles(self) -> float: ...


T = TypeVar("T", bound=Candidate)


CLOSE = 1.005
"""Of candidates that are this close to the fastest, the one with the fewest steps is taken: its program is the shortest."""


def fastest(target: Target, candidates: Sequence[T], ops_of: Callable[[T], Iterable[Operation]]) -> T:
    """The candidate whose kernel takes the fewest cycles by itself, by the models' recurrence over its steps.

    Args:
        target: What is made; `ops_of` may add buffers to it.
        candidates: At least one, most promising first. Those whose places do not fit take part only where none fits.
        ops_of: The loops of a candidate's kernel.
    """
    if len(candidates) == 1:
        return candidates[0]
    return timed(target, candidates, ops_of)[0]


def timed(target: Target, candidates: Sequence[T], ops_of: Callable[[T], Iterable[Operation]]) -> tuple[T, float]:
    """What `fastest` returns, and its cycles: infinite where no candidate's places fit.

    What promises no more than another one takes is not tried.
    """
    tried: list[tuple[float, int, T]] = []
    least = math.inf
    with paused_collector():
        for candidate in candidates:
            if candidate.cycles < least:
                tried.append((*cycles_of(target, [trial_kernel(target, ops_of(candidate))]), candidate))
                least = min(least, tried[-1][0])
    close = [each for each in tried if each[0] <= least * CLOSE]
    chosen = min(close, key=lambda each: each[1])
    return chosen[2], chosen[0]


def trial_kernel(target: Target, ops: Iterable[Operation]) -> KernelOp:
    """A kernel that is only timed."""
    return KernelOp(
        "trial", "trial", list(ops), nodes=(), dims={}, macs=0, bound_cycles=0.0, compulsory_bytes=0, staging=target.staging
    )  # fmt: skip


def cycles_of(target: Target, kernels: Sequence[KernelOp]) -> tuple[float, int]:
    """Cycles of kernels between others that do nothing, infinite where one does not fit, and their steps."""
    try:
        steps = expand_kernels(target.buffers.ops, kernels, target.array)
    except InfeasibleError:
        return float("inf"), 0
    steps = with_loads_ahead(steps, LOADS_AHEAD, target.array)
    return time_steps(target.array, columns_of(steps, target.array)).cycles, len(steps)
