"""A convolution on an array as tiling sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...archdsl import PeArray, ceil_div
from .convolution import ConvLayout, ConvShape, Tap, taps_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A shape on an array, and numbers that follow from it.

    Attributes:
        array, shape, layout: What is to be cut.
        num_taps: Taps of a window.
        tap_bytes: Bytes of a full tap's weights.
        num_outputs: Tiles of output channels.
        granule: What chunks of the channels are multiples of; 0 where the channels cannot be split.
    """

    array: PeArray
    shape: ConvShape
    layout: ConvLayout
    num_taps: int
    tap_bytes: int
    num_outputs: int
    granule: int

    def rows_of(self, num_y: int) -> int:
        """Input rows that some rows of outputs need."""
        return min(self.shape.height, (num_y - 1) * self.shape.stride + self.shape.reach_y)

    def columns_of(self, num_x: int) -> int:
        """Input columns that some columns of outputs need."""
        return min(self.shape.width, (num_x - 1) * self.shape.stride + self.shape.reach_x)

    def row_bytes(self, num_x: int) -> int:
        """Bytes of an input row, with all channels, that some columns of outputs need at most: whole beats."""
        needed = self.columns_of(num_x) * self.layout.pixel_bytes + self.array.bus_bytes - 1
        return min(self.layout.input_row_bytes, aligned(needed, self.array.bus_bytes))

    def weight_bytes(self, tap: Tap) -> int:
        """Bytes of a tap's weights: whole beats."""
        return aligned(tap.count * self.array.cols, self.array.bus_bytes)


def is_product(shape: ConvShape) -> bool:
    """Whether each tap needs channels of the input that no other tap needs: a computation can start with the first."""
    return shape.width == shape.kernel_width == shape.kernel_height == 1


def aligned(num_bytes: int, unit: int) -> int:
    """The next multiple of a unit."""
    return ceil_div(num_bytes, unit) * unit


def flattened(array: PeArray, shape: ConvShape, layout: ConvLayout) -> tuple[ConvShape, ConvLayout]:
    """A convolution that looks at every pixel alone as the matrix product that it is, where rows have no gaps.

    [height, width, channels] becomes [height * width, 1, channels], whose tiles need not be whole rows of an image.
    """
    is_pixelwise = shape.kernel_height == shape.kernel_width == shape.stride == 1 and shape.width > 1
    is_whole = (shape.output_height, shape.output_width) == (shape.height, shape.width)
    has_gaps = (
        layout.input_row_bytes != shape.width * layout.pixel_bytes
        or layout.output_row_bytes != shape.output_width * layout.output_pixel_bytes
    )
    if (
        not is_pixelwise
        or not is_whole
        or shape.pad_top
        or shape.pad_left
        or has_gaps
        or layout.pixel_bytes % array.bus_bytes
    ):
        return shape, layout
    num = shape.height * shape.width
    return (
        replace(shape, height=num, width=1, output_height=num, output_width=1),
        replace(layout, input_row_bytes=layout.pixel_bytes, output_row_bytes=layout.output_pixel_bytes),
    )


def problem_of(array: PeArray, shape: ConvShape, layout: ConvLayout) -> Problem:
    """What tiling needs to know of a convolution."""
    is_within_pixels = shape.kernel_width == 1 or shape.dilation > 1 or layout.pixel_bytes % array.rows == 0
    can_split = is_within_pixels and (shape.width == 1 or layout.pixel_bytes % array.bus_bytes == 0)
    return Problem(
        array=array,
        shape=shape,
        layout=layout,
        num_taps=len(taps_of(array, shape, layout.pixel_bytes)),
        tap_bytes=max(layout.tap_bytes),
        num_outputs=ceil_div(shape.outputs, array.cols),
        granule=math.lcm(array.rows, array.bus_bytes) if can_split else 0,
    )
