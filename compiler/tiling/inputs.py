"""Where a tile of outputs finds its inputs: in an activation that is on chip as a whole, or in a staged part of it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from ..ir.qnn import Window
from ..ir.tile import SCRATCHPAD, CopyOp, Linear, PlaceOp, bytes_memref, indexed
from .activations import Activation, aligned
from .target import PIECE_BEATS, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class InputTile:
    """Inputs of a tile of outputs.

    Attributes:
        buffer: Where they stand.
        first_row, first_byte: The activation's row and byte in a row that stand first there; where channels of it are
            staged in a loop, the byte depends on the loop's index.
        pixel_bytes: From one pixel to the next there, where it is another than the activation's; else 0.
    """

    buffer: SSAValue
    first_row: int = 0
    first_byte: int | Linear = 0
    pixel_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Inputs under a span of outputs along one axis: first and number, at least one."""

    first: int
    num: int


def span_of(output: int, num: int, kernel: int, stride: int, dilation: int, pad: int, size: int) -> Span:
    """The inputs under the windows of `num` outputs from `output` on."""
    low = min(max(0, output * stride - pad), size - 1)
    high = min(size, (output + num - 1) * stride - pad + (kernel - 1) * dilation + 1)
    return Span(first=low, num=max(1, high - low))


def most_span(num: int, kernel: int, stride: int, dilation: int, size: int) -> int:
    """The most inputs under the windows of `num` outputs."""
    return min(size, (num - 1) * stride + (kernel - 1) * dilation + 1)


def window_spans(
    activation: Activation, window: Window, kernel: tuple[int, int], y: tuple[int, int], x: tuple[int, int]
) -> tuple[Span, Span]:
    """Rows and columns of an activation that outputs `y` (first, number) by `x` need."""
    sizes = activation.format.height, activation.format.width
    rows, columns = (
        span_of(*at, kernel[axis], window.strides[axis], window.dilations[axis], window.pads[axis], sizes[axis])
        for axis, at in ((0, y), (1, x))
    )
    return rows, columns


def staged_bytes(target: Target, activation: Activation, rows: int, columns: int) -> int:
    """The most room that some rows and columns of an activation take when they are staged."""
    if _is_sparse(target, activation):
        return rows * columns * _dense_bytes(target, activation)
    return rows * _row_bytes(target, activation, columns)


def _dense_bytes(target: Target, activation: Activation) -> int:
    """Bytes of a pixel without what is behind its channels."""
    return aligned(activation.format.channels, target.array.bus_bytes)


def begins_at_beats(target: Target, activation: Activation) -> bool:
    """Whether every pixel begins at a beat, so that it can be loaded by itself."""
    format_, bus = activation.format, target.array.bus_bytes
    return format_.pixel_bytes % bus == format_.row_bytes % bus == 0


def _is_sparse(target: Target, activation: Activation) -> bool:
    """Whether pixels have beats between them that need not be staged."""
    format_, unit = activation.format, max(target.array.bus_bytes, target.columns)
    return begins_at_beats(target, activation) and format_.pixel_bytes > aligned(format_.channels, unit)


def _row_bytes(target: Target, activation: Activation, columns: int) -> int:
    format_, bus = activation.format, target.array.bus_bytes
    most = aligned(columns * format_.pixel_bytes + bus - 1, bus)
    return min(aligned(format_.width * format_.pixel_bytes, bus), most)


def staged_slice(
    target: Target, activation: Activation, rows: Span, columns: Span, channels: Span, moved: Linear | None = None
) -> tuple[InputTile, list[Operation]]:
    """Stages some channels of some rows and columns of an activation; pixels and channels must begin at beats.

    Args:
        target, activation, rows, columns, channels: What is staged.
        moved: Added to the first channel: what depends on loops.
    """
    format_, num_bytes, moved = activation.format, channels.num, moved or Linear()
    place = PlaceOp.build(result_types=[bytes_memref(rows.num, columns.num * num_bytes, SCRATCHPAD)])
    tile = InputTile(
        buffer=place.result, first_row=rows.first, first_byte=moved + (columns.first * num_bytes + channels.first),
        pixel_bytes=num_bytes,
    )  # fmt: skip
    found: list[Operation] = [place]
    source = target.buffers.of(activation)
    most = max(1, PIECE_BEATS * target.array.bus_bytes // num_bytes)
    num_rows, num_columns = rows.num, columns.num
    if columns.num == format_.width and not format_.has_gaps:
        num_rows, num_columns = 1, rows.num * columns.num  # whole rows are one
    for row in range(num_rows):
        for column in range(0, num_columns, most):
            begin = (columns.first + column) * format_.pixel_bytes + channels.first
            maps = {
                "read_at": moved + ((rows.first + row) * format_.row_bytes + begin),
                "write_at": (row * num_columns + column) * num_bytes,
            }
            sizes = {
                "rows": min(most, num_columns - column), "row_bytes": num_bytes, "read_pitch": format_.pixel_bytes,
                "write_pitch": num_bytes,
            }  # fmt: skip
            found.append(CopyOp.build(**indexed([source, place.result], maps, sizes)))
    return tile, found


def staged_tile(target: Target, activation: Activation, rows: Span, columns: Span) -> tuple[InputTile, list[Operation]]:
    """Stages some rows and columns of an activation in main memory: where they stand, and the ops that it takes."""
    if _is_sparse(target, activation):
        channels = Span(first=0, num=_dense_bytes(target, activation))
        return staged_slice(target, activation, rows, columns, channels)
    format_, bus = activation.format, target.array.bus_bytes
    first = columns.first * format_.pixel_bytes // bus * bus
    end = (columns.first + columns.num) * format_.pixel_bytes
    pitch = aligned(end - first, bus)
    place = PlaceOp.build(result_types=[bytes_memref(rows.num, end - first, SCRATCHPAD, pitch)])
    tile = InputTile(buffer=place.result, first_row=rows.first, first_byte=first)
    found: list[Operation] = [place]
    source = target.buffers.of(activation)
    most_rows = max(1, PIECE_BEATS * bus // pitch)
    most_bytes = max(PIECE_BEATS, min(1024, PIECE_BEATS * 4)) * bus
    for row in range(0, rows.num, most_rows):
        for byte in range(0, pitch, most_bytes):
            maps = {
                "read_at": (rows.first + row) * format_.row_bytes + first + byte, "write_at": row * pitch + byte,
            }  # fmt: skip
            sizes = {
                "rows": min(most_rows, rows.num - row), "row_bytes": min(most_bytes, pitch - byte),
                "read_pitch": format_.row_bytes, "write_pitch": pitch,
            }  # fmt: skip
            found.append(CopyOp.build(**indexed([source, place.result], maps, sizes)))
    return tile, found
