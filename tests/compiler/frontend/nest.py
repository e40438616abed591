"""An op executed point by point on arrays, as its projections say."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from tileloom.archdsl import Op, Tensor

Array = npt.NDArray[np.float64]


def extents(op: Op, tensor: Tensor) -> tuple[int, ...]:
    """Size of every axis: one more than its largest coordinate."""
    return tuple(1 + sum(c * (op.sizes[dim] - 1) for dim, c in axis.terms) for axis in tensor.axes)


def execute(op: Op, inputs: Mapping[str, Array]) -> tuple[Array, dict[str, int], int]:
    """Run an op: output, distinct elements touched per tensor, multiply-accumulates done."""
    output = np.zeros(extents(op, op.output))
    touched: dict[str, set[tuple[int, ...]]] = {tensor.name: set() for tensor in op.tensors}
    names = [dim for dim, _ in op.dims]
    num_macs = 0
    for point in np.ndindex(*(size for _, size in op.dims)):
        at = dict(zip(names, point, strict=True))
        places = {
            tensor.name: tuple(sum(c * at[dim] for dim, c in axis.terms) for axis in tensor.axes)
            for tensor in op.tensors
        }
        for name, place in places.items():
            touched[name].add(place)
        output[places[op.output.name]] += math.prod(float(array[places[name]]) for name, array in inputs.items())
        num_macs += 1
    return output, {name: len(places) for name, places in touched.items()}, num_macs


def check_counts(op: Op, touched: Mapping[str, int], num_macs: int) -> None:
    """The op's own counts against what was touched."""
    assert op.macs == num_macs
    assert {tensor.name: op.elements(tensor) for tensor in op.tensors} == touched
