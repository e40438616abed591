"""What no program can be much faster than: the yardstick of code quality, layer by layer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from xdsl.ir import Operation

from ...archdsl import PARAMETER_BYTES, PeArray, ceil_div
from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Of one op.

    Attributes:
        macs: Multiply-accumulates.
        compute_cycles: Cycles of the PE array with weights switched without a gap, or of the vector unit; 0 for ops
            without multiply-accumulates.
        compulsory_bytes: Inputs, output, weights and channel parameters, each once.
    """

    macs: int
    compute_cycles: int
    compulsory_bytes: int

    def cycles(self, array: PeArray) -> float:
        """The busier of array and bus."""
        return max(self.compute_cycles, self.compulsory_bytes / array.bus_bytes * array.cycles_per_beat)


def bounds_of(op: Operation, array: PeArray) -> Bounds:
    """Of a `qnn` op on an array.

    A convolution passes ceil(FY FX C / rows) * ceil(K / cols) tiles of weights, one of groups as `least_tiles` says, each in
    as many cycles as there are output positions and at least in those that loading its rows takes; a depthwise one has cols
    multiplications per cycle.
    """
    result = shape_of(op.results[0])
    outputs = math.prod(result)
    num_bytes = outputs
    groups = op.groups.value.data if isinstance(op, qnn.Conv2dOp) else 1
    for name in ("input", "weights", "tables", "first", "second"):
        value = getattr(op, name, None)
        if value is not None:
            num_bytes += math.prod(shape_of(value)) // (groups if name == "weights" else 1)
    if isinstance(op, qnn.ConcatOp):
        num_bytes += sum(math.prod(shape_of(value)) for value in op.inputs)
    if hasattr(op, "multiplier"):
        num_bytes += PARAMETER_BYTES * result[-1]
    if isinstance(op, qnn.LookupOp) and isinstance(op.table.owner, ConstantOp):
        num_bytes += 256
    if isinstance(op, qnn.Conv2dOp | qnn.MatMulOp):
        weights = shape_of(op.weights)
        terms = math.prod(weights[:-1]) if isinstance(op, qnn.Conv2dOp) else weights[-2]
        positions = outputs // result[-1]
        terms //= groups  # weights between groups are 0
        tiles = least_tiles(terms, result[-1] // groups, groups, array)
        return Bounds(
            macs=outputs * terms, compute_cycles=tiles * max(positions, array.rows), compulsory_bytes=num_bytes
        )
    if isinstance(op, qnn.DepthwiseConv2dOp):
        macs = outputs * math.prod(shape_of(op.weights)[:2])
        return Bounds(macs=macs, compute_cycles=ceil_div(macs, array.cols), compulsory_bytes=num_bytes)
    return Bounds(macs=0, compute_cycles=0, compulsory_bytes=num_bytes)


@cache
def least_tiles(terms: int, outputs: int, groups: int, array: PeArray) -> int:
    """The fewest tiles of weights of `rows` x `cols` that hold all weights of a grouped product.

    Columns are given to outputs that are neighbours, each set to one tile or several below each other; a set has as many
    terms as the groups together that it touches.

    Args:
        terms: Products summed for one output: those of its group.
        outputs: Of one group.
        groups: Number of groups.
        array: The PE array.
    """
    if groups == 1 or outputs % array.cols == 0:
        return groups * ceil_div(terms, array.rows) * ceil_div(outputs, array.cols)
    least = [0]
    for end in range(1, groups * outputs + 1):
        last = (end - 1) // outputs
        # Of all sets that touch the same groups the widest one leaves the fewest outputs to others.
        first = max(0, end - array.cols)
        begins = [first, *(group * outputs for group in range(first // outputs + 1, last + 1))]
        least.append(min(least[at] + ceil_div((last - at // outputs + 1) * terms, array.rows) for at in begins))
    return least[-1]
