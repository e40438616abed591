"""Puts tensors where a kernel's layout says, and takes them from there."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...archdsl import PeArray, ceil_div
from .convolution import ConvLayout, ConvShape, taps_of

Bytes = npt.NDArray[np.uint8]
Int8 = npt.NDArray[np.int8]
Ints = npt.NDArray[np.int64]


def place_input(memory: Bytes, shape: ConvShape, layout: ConvLayout, values: Int8, source: int = 0) -> None:
    """Writes an input [height, width, channels]; of several, the one with the index `source`."""
    rows = values.reshape(shape.height, -1).view(np.uint8)
    first = layout.input + source * shape.height * layout.input_row_bytes
    for y, row in enumerate(rows):
        at = first + y * layout.input_row_bytes
        memory[at : at + len(row)] = row


def place_weights(memory: Bytes, array: PeArray, shape: ConvShape, layout: ConvLayout, weights: Int8) -> None:
    """Writes weights [kernel_height, kernel_width, channels, outputs], one tile per tap and tile of output channels."""
    num_tiles = ceil_div(shape.outputs, array.cols)
    padded = np.zeros((*weights.shape[:3], num_tiles * array.cols), dtype=np.int8)
    padded[..., : shape.outputs] = weights
    at = layout.weights
    for tile in range(num_tiles):
        columns = padded[..., tile * array.cols : (tile + 1) * array.cols]
        for tap, num_bytes in zip(taps_of(array, shape, layout.pixel_bytes), layout.tap_bytes, strict=True):
            x, channel = divmod(tap.x, layout.pixel_bytes * shape.dilation)
            run = columns[tap.y, x:].reshape(-1, array.cols)[channel : channel + tap.count]
            if shape.dilation == 1 or shape.kernel_width == 1:
                run = columns[tap.y].reshape(-1, array.cols)[tap.x : tap.x + tap.count]
            memory[at : at + run.size] = np.ascontiguousarray(run).view(np.uint8).reshape(-1)
            at += num_bytes


def place_channel_weights(memory: Bytes, array: PeArray, shape: ConvShape, layout: ConvLayout, weights: Int8) -> None:
    """Writes weights [taps, channels] of a vector kernel, one vector per tap for every tile of channels."""
    num_bytes = sum(layout.tap_bytes)
    for tile in range(ceil_div(shape.outputs, array.cols)):
        columns = np.zeros((len(weights), array.cols), dtype=np.int8)
        part = weights[:, tile * array.cols : (tile + 1) * array.cols]
        columns[:, : part.shape[1]] = part
        at = layout.weights + tile * num_bytes
        memory[at : at + columns.size] = columns.view(np.uint8).reshape(-1)


def place_parameters(
    memory: Bytes, array: PeArray, shape: ConvShape, layout: ConvLayout, bias: Ints, multiplier: Ints, shift: Ints
) -> None:
    """Writes bias, multiplier and shift per output channel, one set per tile of output channels."""
    for tile in range(ceil_div(shape.outputs, array.cols)):
        at = layout.parameters + tile * layout.parameter_bytes
        for values, kind, width in ((bias, "<i4", 4), (multiplier, "<i4", 4), (shift, "u1", 1)):
            some = np.zeros(array.cols, dtype=kind)
            part = values[tile * array.cols : (tile + 1) * array.cols]
            some[: len(part)] = part
            memory[at : at + array.cols * width] = some.view(np.uint8)
            at += array.cols * width


def take_output(memory: Bytes, shape: ConvShape, layout: ConvLayout) -> Int8:
    """Reads an output [output_height, output_width, outputs]."""
    found = np.empty((shape.output_height, shape.output_width, shape.outputs), dtype=np.int8)
    for y in range(shape.output_height):
        for x in range(shape.output_width):
            at = layout.output + y * layout.output_row_bytes + x * layout.output_pixel_bytes
            found[y, x] = memory[at : at + shape.outputs].view(np.int8)
    return found
