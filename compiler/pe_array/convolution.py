"""Convolutions and matrix products: their shapes, the weights that one PRELOAD takes, and where data stand in main memory."""

from __future__ import annotations

from dataclasses import dataclass

from ...archdsl import PeArray, ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvShape:
    """A convolution over [height, width, channels] with `outputs` output channels; a matrix product has width 1.

    Attributes:
        height, width, channels: Of the input.
        outputs: Output channels.
        kernel_height, kernel_width: Of the window.
        stride, dilation: Of the window, both ways.
        pad_top, pad_left: Rows and columns of padding in front.
        output_height, output_width: Of the output.
    """

    height: int
    width: int
    channels: int
    outputs: int
    kernel_height: int = 1
    kernel_width: int = 1
    stride: int = 1
    dilation: int = 1
    pad_top: int = 0
    pad_left: int = 0
    output_height: int
    output_width: int

    @property
    def reach_y(self) -> int:
        """Input rows under a window."""
        return (self.kernel_height - 1) * self.dilation + 1

    @property
    def reach_x(self) -> int:
        """Input columns under a window."""
        return (self.kernel_width - 1) * self.dilation + 1

    @property
    def macs(self) -> int:
        """Multiply-accumulates."""
        window = self.kernel_height * self.kernel_width * self.channels
        return self.output_height * self.output_width * self.outputs * window


def gemm_shape(m: int, k: int, n: int) -> ConvShape:
    """A matrix product [m, k] x [k, n] as a convolution: every row of the input is a pixel."""
    return ConvShape(height=m, width=1, channels=k, outputs=n, output_height=m, output_width=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tap:
    """Weights that one PRELOAD takes: `count` input bytes in a row of the window.

    Attributes:
        y: Row of the window.
        x: First byte in the row, counted from the window's first column.
        count: Bytes.
    """

    y: int
    x: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLayout:
    """Where a convolution's data stand in main memory, in bytes.

    Attributes:
        input: [height][width * pixel_bytes], rows apart by `input_row_bytes`.
        pixel_bytes: Bytes of a pixel.
        weights: Per tile of output channels and tap, [count, cols]; each begins at a beat.
        parameters: Per tile of output channels one set of channel parameters.
        output: [output_height][output_width * output_pixel_bytes], rows apart by `output_row_bytes`.
        end: First byte behind all of it.
    """

    input: int
    input_row_bytes: int
    pixel_bytes: int
    weights: int
    tap_bytes: tuple[int, ...]
    parameters: int
    parameter_bytes: int
    output: int
    output_pixel_bytes: int
    output_row_bytes: int
    end: int


def taps_of(array: PeArray, shape: ConvShape, pixel_bytes: int) -> tuple[Tap, ...]:
    """The taps of a window: where its columns are neighbours, several share the rows of the array."""
    if shape.dilation == 1 or shape.kernel_width == 1:
        runs = [(y, 0, shape.kernel_width * pixel_bytes) for y in range(shape.kernel_height)]
    else:
        runs = [
            (y, x * shape.dilation * pixel_bytes, pixel_bytes)
            for y in range(shape.kernel_height)
            for x in range(shape.kernel_width)
        ]
    return tuple(
        Tap(y=y, x=x + low, count=min(array.rows, num - low)) for y, x, num in runs for low in range(0, num, array.rows)
    )


def layout_of(array: PeArray, shape: ConvShape, *, base: int = 0) -> ConvLayout:
    """Lays a convolution's data out in main memory."""

    def aligned(num_bytes: int) -> int:
        return ceil_div(num_bytes, array.bus_bytes) * array.bus_bytes

    pixel_bytes = shape.channels
    row_bytes = aligned(shape.width * pixel_bytes)
    weights = base + aligned(shape.height * row_bytes)
    tap_bytes = tuple(aligned(tap.count * array.cols) for tap in taps_of(array, shape, pixel_bytes))
    num_tiles = ceil_div(shape.outputs, array.cols)
    parameters = weights + num_tiles * sum(tap_bytes)
    slot_bytes = array.slot_beats * array.bus_bytes
    output = parameters + num_tiles * slot_bytes
    # A vector of outputs begins at a multiple of its own bytes, or of the bus where that is less.
    unit = min(array.cols, array.bus_bytes)
    output_pixel = ceil_div(shape.outputs, unit) * unit
    output_row = aligned(shape.output_width * output_pixel)
    return ConvLayout(
        input=base,
        input_row_bytes=row_bytes,
        pixel_bytes=pixel_bytes,
        weights=weights,
        tap_bytes=tap_bytes,
        parameters=parameters,
        parameter_bytes=slot_bytes,
        output=output,
        output_pixel_bytes=output_pixel,
        output_row_bytes=output_row,
        end=output + shape.output_height * output_row,
    )
