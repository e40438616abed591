"""Random nodes that only move elements, on integers or between (de)quantisations of one scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .arithmetic import Floats
from .builder import QuantisedTensor
from .random_draws import MAX_ELEMENTS, Drawing

INPUTS_OPSET = 11
"""From here on `Pad` takes its sizes as inputs."""


def random_reshape(drawing: Drawing) -> QuantisedTensor | None:
    """`Flatten`, or a `Reshape` that joins or splits axes."""
    tensor = drawing.pick()
    if tensor is None:
        return None
    shape = tensor.shape
    if drawing.flip(0.3):
        axis = drawing.draw(1, len(shape) - 1)
        rows = math.prod(shape[:axis])
        return _move(drawing, tensor, "Flatten", lambda array: array.reshape(rows, -1), axis=axis)
    wanted = drawing.choose(_other_shapes(shape))
    given = [-1 if at == len(wanted) - 1 and drawing.flip(0.3) else size for at, size in enumerate(wanted)]
    return _move(drawing, tensor, "Reshape", lambda array: array.reshape(wanted), [np.asarray(given, np.int64)])


def random_transpose(drawing: Drawing) -> QuantisedTensor | None:
    """Any order of axes."""
    tensor = drawing.pick()
    if tensor is None:
        return None
    order = tuple(int(axis) for axis in drawing.builder.rng.permutation(len(tensor.shape)))
    return _move(drawing, tensor, "Transpose", lambda array: array.transpose(order), perm=order)


def random_concat(drawing: Drawing) -> QuantisedTensor | None:
    """Two or three tensors that differ along one axis at most, in a scale of their own."""
    tensor = drawing.pick()
    if tensor is None:
        return None
    axis = drawing.draw(0, len(tensor.shape) - 1)

    def rest(found: QuantisedTensor) -> tuple[int, ...]:
        return (*found.shape[:axis], -1, *found.shape[axis + 1 :])

    same_rank = [found for found in drawing.tensors if len(found.shape) == len(tensor.shape)]
    fitting = [found for found in same_rank if rest(found) == rest(tensor)]
    inputs = [tensor, *(drawing.choose(fitting) for _ in range(drawing.draw(1, 2)))]

    def join(*arrays: Floats) -> Floats:
        return np.concatenate(arrays, axis=axis)

    floats = [drawing.use_float(found) for found in inputs]
    return drawing.quantise(drawing.builder.apply("Concat", floats, join, axis=axis))


def random_slice(drawing: Drawing) -> QuantisedTensor | None:
    """A box along one or two axes, with steps."""
    tensor = drawing.pick(lambda found: max(found.shape) > 1)
    if tensor is None:
        return None
    long = [axis for axis, size in enumerate(tensor.shape) if size > 1]
    axes = sorted({drawing.choose(long) for _ in range(drawing.draw(1, 2))})
    cuts = [slice(None)] * len(tensor.shape)
    for axis in axes:
        begin = drawing.draw(0, tensor.shape[axis] - 1)
        cuts[axis] = slice(begin, drawing.draw(begin + 1, tensor.shape[axis]), drawing.choose([1, 1, 2]))
    parts = [[cuts[axis].start for axis in axes], [cuts[axis].stop for axis in axes], axes]
    parts.append([cuts[axis].step for axis in axes])
    constants = [np.asarray(part, np.int64) for part in parts]
    return _move(drawing, tensor, "Slice", lambda array: array[tuple(cuts)], constants)


def random_pad(drawing: Drawing) -> QuantisedTensor | None:
    """A border of zeros along the last axes."""
    tensor = drawing.pick(lambda found: math.prod(size + 3 for size in found.shape) <= MAX_ELEMENTS)
    if tensor is None:
        return None
    rank = len(tensor.shape)
    padded = range(rank - min(rank, 2), rank)
    before, after = ([drawing.draw(0, 2) if axis in padded else 0 for axis in range(rank)] for _ in range(2))

    def pad(array: Floats) -> Floats:
        return np.pad(array, list(zip(before, after, strict=True)))

    builder, sizes = drawing.builder, [*before, *after]
    if builder.opset < INPUTS_OPSET:
        result = builder.apply("Pad", [drawing.use_float(tensor)], pad, pads=sizes)
        return builder.quantise(result, tensor.scale)
    amounts = builder.add_constant(np.asarray(sizes, np.int64), "pads")
    if drawing.flip():
        zero = builder.add_constant(np.asarray(tensor.scale.zero_point, builder.dtype), "zero")
        return builder.move("Pad", drawing.use(tensor), pad, [amounts, zero])
    result = builder.apply("Pad", [drawing.use_float(tensor)], pad, [amounts])
    return builder.quantise(result, tensor.scale)


def _other_shapes(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Shapes of as many elements: two axes joined, or one split."""
    joined = [(*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]) for at in range(len(shape) - 1)]
    split = [
        (*shape[:at], part, size // part, *shape[at + 1 :])
        for at, size in enumerate(shape)
        for part in range(1, size + 1)
        if size % part == 0 and len(shape) < 4
    ]
    return [found for found in (*joined, *split) if len(found) >= 2] or [tuple(shape)]


def _move(
    drawing: Drawing,
    tensor: QuantisedTensor,
    op_type: str,
    function: Callable[[Floats], Floats],
    constants: Sequence[np.ndarray[Any, Any]] = (),
    **attributes: Any,
) -> QuantisedTensor:
    """A node that moves elements, on integers or on floats."""
    builder = drawing.builder
    names = [builder.add_constant(array, "sizes") for array in constants]
    if drawing.flip():
        return builder.move(op_type, drawing.use(tensor), function, names, **attributes)
    result = builder.apply(op_type, [drawing.use_float(tensor)], function, names, **attributes)
    return builder.quantise(result, tensor.scale)
