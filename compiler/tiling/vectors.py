"""Ops without a reduction over channels: on the vector unit, a tile of channels at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation, SSAValue

from ...archdsl import ceil_div
from ..ir.qnn import Window
from ..ir.tile import Linear, VectorOp, indexed
from .activations import Activation
from .loops import equal_parts, split
from .target import Output, Target

Operation2d = Literal["add", "maximum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """One vector operation per output: an input at a place of the window times a value.

    Attributes:
        source: Index of the input.
        y, x: Place in the window, in input rows and columns.
        scalar: Factor of all channels.
        weights_at: Byte of its weights within those of a tile of channels; None for none.
        times: Index of the input by whose element the input's is multiplied; None for none.
    """

    source: int = 0
    y: int = 0
    x: int = 0
    scalar: int = 1
    weights_at: int | None = None
    times: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorWork:
    """A vector op on one image.

    Attributes:
        inputs: Its inputs.
        output: How and where to its outputs go.
        taps: What is combined for an output.
        operation: How.
        window: Strides, pads and padding.
        channels: Channels.
        output_height, output_width: Of the output.
        weights: Per tile of channels its weights, `weight_bytes` each, in main memory; None for none.
        parameters: Per tile of channels its channel parameters, in main memory.
    """

    inputs: tuple[Activation, ...]
    output: Output
    taps: tuple[Tap, ...]
    operation: Operation2d
    window: Window
    channels: int
    output_height: int
    output_width: int
    weights: SSAValue | None
    weight_bytes: int
    parameters: SSAValue


def channel_weights(weights: npt.NDArray[np.int8], cols: int) -> npt.NDArray[np.uint8]:
    """Weights [taps, C] as bytes per tile of channels: a vector of `cols` per tap."""
    num_taps, channels = weights.shape
    num_tiles = ceil_div(channels, cols)
    padded = np.zeros((num_taps, num_tiles * cols), dtype=np.int8)
    padded[:, :channels] = weights
    return np.ascontiguousarray(padded.reshape(num_taps, num_tiles, cols).transpose(1, 0, 2)).view(np.uint8)


def vector_ops(target: Target, work: VectorWork) -> list[Operation]:
    """The loops of a vector op: tiles of channels outside, tiles of outputs inside."""
    cols = target.array.cols
    num_x = equal_parts(work.output_width, min(target.most_vectors, work.output_width))
    num_y = equal_parts(work.output_height, min(max(1, target.most_vectors // num_x), work.output_height))

    def channels(idx: Linear, columns: int) -> list[Operation]:
        parameters = target.parameters_op(work.parameters, idx)
        found: list[Operation] = [parameters]
        weights = None
        if work.weights is not None:
            weights, staged = target.staged(work.weights, idx * work.weight_bytes, work.weight_bytes)
            found += staged
        table = None if work.output.table is None else target.table_op(work.output.table)
        if table is not None:
            found.append(table)

        def outputs(y: Linear, x: Linear, y_count: int, x_count: int) -> list[Operation]:
            sums = target.sums_op(y_count * x_count)
            ops: list[Operation] = [sums]
            for order, tap in enumerate(work.taps):
                values = None if weights is None else weights.result
                ops.append(
                    _vector(
                        target, work, tap, values, sums.result, y, x, idx * cols, (y_count, x_count, columns), order
                    )
                )
            return ops + target.stores(
                work.output, sums.result, parameters.result, y, x, idx * cols, y_count=y_count, x_count=x_count,
                columns=columns, table=None if table is None else table.result,
            )  # fmt: skip

        return found + split(
            work.output_height, num_y,
            lambda y, y_count: split(
                work.output_width, num_x, lambda x, x_count: outputs(y * num_y, x * num_x, y_count, x_count)
            ),
        )  # fmt: skip

    return split(work.channels, cols, channels)


def _vector(
    target: Target, work: VectorWork, tap: Tap, weights: SSAValue | None, sums: SSAValue, y: Linear, x: Linear,
    channel: Linear, counts: Sequence[int], order: int,
) -> Operation:  # fmt: skip
    y_count, x_count, columns = counts
    source, window = work.inputs[tap.source], work.window
    pixel = source.format.pixel_bytes
    maps = {
        "y": y * window.strides[0] + (tap.y - window.pads[0]),
        "x": x * (window.strides[1] * pixel) + channel + (tap.x - window.pads[1]) * pixel,
        "values_at": 0,
        "sums_at": 0,
        "accumulate": order,
    }
    sizes: dict[str, int | str] = {
        "columns": columns, "y_count": y_count, "x_count": x_count, "y_step": window.strides[0],
        "x_step": window.strides[1] * pixel, "values_step": 0, "padding": window.padding, "operation": work.operation,
        "operand": "scalar", "scalar": tap.scalar, "shift": 0, "lanes": "separate", "hold": 0, "input_bits": 8,
    }  # fmt: skip
    values: list[SSAValue] = []
    if tap.times is not None:
        other = work.inputs[tap.times]
        values = [target.buffers.of(other)]
        sizes |= {"operand": "sequence", "scalar": 0, "values_step": other.format.pixel_bytes}
        maps["values_at"] = y * other.format.row_bytes + x * other.format.pixel_bytes + channel
    elif tap.weights_at is not None:
        assert weights is not None
        values = [weights]
        sizes |= {"operand": "vector", "scalar": 0}
        maps["values_at"] = Linear(tap.weights_at)
    return VectorOp.build(**indexed([[target.buffers.of(source)], values, [sums]], maps, sizes))
