"""Which ops are cut together, depth first: those where that takes fewer cycles than one op after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Operation

from ...archdsl import InfeasibleError, PassError, PeArray, ceil_div
from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.tile import KernelOp
from .activations import axes_of
from .band_tilings import choose_band_tiling, key_of
from .bounds import bounds_of
from .kernels import KernelMaker, has_one_matrix
from .trials import cycles_of, trial_kernel
from .values import Values, activations_of

MOST_STAGES = 6
"""Ops of a chain: a residual block with a convolution beside it, and one more."""
PROMISE = 0.985
"""A chain is tried where the busier of array and bus, all in all, takes less than this part of what its pieces take."""
GAIN = 0.01
"""Part of the cycles that a chain must save: kernels on trial stand alone, and what they save of each other's beginnings and
ends is not known to less."""

Segment = tuple[int, int]
"""First and last of some kernels."""


@dataclass(slots=True, kw_only=True)
class ChainSearch:
    """Looks for chains among the ops of a program, one kernel each, whose tensors have their places.

    Attributes:
        values: The tensors.
        maker: Makes kernels on trial.
        staging: First byte of the scratchpad that some kernels may use, and the first one behind.
    """

    values: Values
    maker: KernelMaker
    staging: Callable[[int, int], tuple[int, int]]
    _estimates: dict[Segment, float] = field(default_factory=dict[Segment, float])
    _ops: list[Operation] = field(default_factory=list[Operation])

    def find(self) -> list[Segment]:
        """Disjoint chains that save most together, in their order."""
        self._ops = [ops[0] for ops in self.values.kernels]
        gains = {segment: self._gain(*segment) for segment in self._promising()}
        best: list[tuple[float, Segment | None]] = [(0.0, None)]
        for end in range(len(self._ops)):
            options: list[tuple[float, Segment | None]] = [(best[end][0], None)]
            for first in range(max(0, end - MOST_STAGES + 1), end):
                gain = gains.get((first, end), 0.0)
                if gain > 0:
                    options.append((best[first][0] + gain, (first, end)))
            best.append(max(options, key=lambda option: option[0]))
        found: list[Segment] = []
        end = len(self._ops)
        while end > 0:
            segment = best[end][1]
            if segment is not None:
                found.append(segment)
            end = end - 1 if segment is None else segment[0]
        return found[::-1]

    # ---- Estimates.

    def _promising(self) -> list[Segment]:
        """Segments that by their estimates are better than any two parts of them."""
        found: list[Segment] = []
        known = {(idx, idx): self._estimate(idx, idx) for idx in range(len(self._ops))}
        for size in range(2, MOST_STAGES + 1):
            for first in range(len(self._ops) - size + 1):
                last = first + size - 1
                apart = min(known[first, cut] + known[cut + 1, last] for cut in range(first, last))
                known[first, last] = apart
                if self._is_chain(first, last):
                    together = self._estimate(first, last)
                    if together < PROMISE * apart:
                        found.append((first, last))
                        known[first, last] = together
        return found

    def _is_chain(self, first: int, last: int) -> bool:
        """Whether every op but the last makes something for one behind it that has no place on chip of its own."""
        if not all(can_be_stage(op) for op in self._ops[first : last + 1]):
            return False
        for before, op in zip((None, *self._ops[first:last]), self._ops[first : last + 1], strict=True):
            if is_elementwise(op) and (before is None or not self._takes_tiles(before, op)):
                return False
        for idx in range(first, last):
            result = self._ops[idx].results[0]
            if self.values.tensor(result).local is not None:
                return False
            # What somebody else needs too ends a chain: a band would wait in the store unit for what goes to main memory.
            if not self.values.keeps_layers and not self.values.is_between(result, self._ops[first : last + 1]):
                return False
            wanted = axes_of(shape_of(result))
            reads = [
                operand
                for op in self._ops[idx + 1 : last + 1]
                for operand in activations_of(op)
                if self.values.root(operand) is self.values.root(result)
            ]
            if not reads or any(axes_of(shape_of(operand)) != wanted for operand in reads):
                return False
        return True

    def _takes_tiles(self, before: Operation, op: Operation) -> bool:
        """Whether an elementwise op can take each tile of what is made before it: that of a product, or of one behind a product.

        On bands of its own its stores would take as long as its walks, and meet loads in the scratchpad's banks: no gain that
        the recurrence could tell.
        """
        reads = [self.values.root(operand) for operand in activations_of(op)]
        return reads.count(self.values.root(before.results[0])) == 1 and not isinstance(
            before, qnn.DepthwiseConv2dOp | qnn.Pool2dOp
        )

    def _estimate(self, first: int, last: int) -> float:
        """The busier of array and bus where what goes from one op to the next does not leave the chip."""
        ops, array = self._ops[first : last + 1], self.values.array
        compute = sum(array_cycles(op, array) for op in ops)
        moved, read = 0, set[int]()
        made = {self.values.root(op.results[0]) for op in ops}
        for op in ops:
            for operand in activations_of(op):
                root, tensor = self.values.root(operand), self.values.tensor(operand)
                if root not in made and tensor.local is None and id(root) not in read:
                    read.add(id(root))
                    moved += tensor.format.num_bytes
            tensor = self.values.tensor(op.results[0])
            if tensor.local is None and not self.values.is_between(op.results[0], ops):
                moved += tensor.format.num_bytes
            weights = getattr(op, "weights", None)
            if weights is not None and weights not in activations_of(op):
                groups = op.groups.value.data if isinstance(op, qnn.Conv2dOp) else 1
                moved += math.prod(shape_of(weights)) // groups  # weights between groups are 0, and mostly stay away
        return max(compute, moved * array.cycles_per_beat / array.bus_bytes)

    # ---- Trials.

    def _gain(self, first: int, last: int) -> float:
        """Cycles that a chain saves; 0 where that is too few to be sure."""
        ops, target = self._ops[first : last + 1], self.maker.target
        target.staging = self.staging(first, last)
        try:
            chain = self.maker.chain(ops)
            key = ("apart", key_of(target, chain))
            if key not in target.choices:
                target.choices[key] = self._cycles_apart(first, last)
            apart: float = target.choices[key]
            target.staging = self.staging(first, last)
            chosen = choose_band_tiling(target, chain, (1 - GAIN) * apart)
        except (InfeasibleError, PassError):
            return 0.0
        return 0.0 if chosen is None or chosen[1] > (1 - GAIN) * apart else apart - chosen[1]

    def _cycles_apart(self, first: int, last: int) -> float:
        """Cycles of the ops one after the other."""
        target, kernels = self.maker.target, list[KernelOp]()
        fetched = [(tensor, tensor.fetched_rows) for tensor in self.values.tensors]
        for idx in range(first, last + 1):
            target.staging = self.staging(idx, idx)
            kernels.append(trial_kernel(target, self.maker.ops(self._ops[idx])))
        for tensor, rows in fetched:
            tensor.fetched_rows = rows
        return cycles_of(target, kernels)[0]


def can_be_stage(op: Operation) -> bool:
    """Whether an op can be cut into bands of rows together with others."""
    if axes_of(shape_of(op.results[0]))[0] != 1:
        return False
    if isinstance(op, qnn.MatMulOp):
        return has_one_matrix(op)
    return isinstance(
        op, qnn.Conv2dOp | qnn.DepthwiseConv2dOp | qnn.Pool2dOp | qnn.AddOp | qnn.RescaleOp | qnn.LookupOp
    )


def is_elementwise(op: Operation) -> bool:
    """Whether each element of an op's result is made of elements at its place alone."""
    return isinstance(op, qnn.AddOp | qnn.RescaleOp | qnn.LookupOp)


def array_cycles(op: Operation, array: PeArray) -> int:
    """Cycles of the PE array or the vector unit, at least."""
    _, height, width, channels = axes_of(shape_of(op.results[0]))
    vectors = height * width * ceil_div(channels, array.cols)
    if isinstance(op, qnn.Pool2dOp):
        return vectors * math.prod(op.kernel.get_values())
    if isinstance(op, qnn.AddOp):
        return 2 * vectors
    return bounds_of(op, array).compute_cycles or vectors
