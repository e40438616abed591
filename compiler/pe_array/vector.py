"""Depthwise convolutions, pooling and residual additions: on the vector unit, one multiply-accumulate per column and cycle.

They have no reduction over channels that the array's rows could share: at best 1 / rows of its multipliers have
work. The vector unit does one vector of `cols` channels per cycle instead, and leaves the array and its weights alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ...archdsl import CompileError, PeArray, ceil_div
from .builder import ProgramBuilder, output_range
from .convolution import ConvLayout, ConvShape, layout_of
from .tiles import OutputTile, output_tiles

Operation = Literal["add", "maximum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTap:
    """One vector operation per output: an input at a place of the window times a value.

    Attributes:
        source: Which input.
        y, x: Place in the window.
        scalar: Factor of all channels, 16 bits; None for one weight per channel.
    """

    source: int = 0
    y: int = 0
    x: int = 0
    scalar: int | None = 1


def window_taps(shape: ConvShape, *, has_weights: bool) -> tuple[VectorTap, ...]:
    """All places of a window, row by row: with weights a depthwise convolution, without them a pooling."""
    return tuple(
        VectorTap(y=y, x=x, scalar=None if has_weights else 1)
        for y in range(shape.kernel_height)
        for x in range(shape.kernel_width)
    )


def addition_taps(first: int, second: int) -> tuple[VectorTap, ...]:
    """The sum of two inputs, each times a 16-bit factor: the ratio of their scales goes there."""
    return (VectorTap(source=0, scalar=first), VectorTap(source=1, scalar=second))


def vector_layout(array: PeArray, shape: ConvShape, taps: Sequence[VectorTap], *, base: int = 0) -> ConvLayout:
    """Lays a vector kernel's data out: its inputs one behind the other, weights as one vector per tap and tile of channels."""
    num_inputs = 1 + max(tap.source for tap in taps)
    plain = layout_of(array, shape, base=base)
    input_bytes = plain.weights - base
    num_tiles = ceil_div(shape.outputs, array.cols)
    num_weights = sum(tap.scalar is None for tap in taps)
    beats = ceil_div(num_weights * array.cols, array.bus_bytes)
    tap_bytes = (beats * array.bus_bytes,) if num_weights else ()
    weights = base + num_inputs * input_bytes
    parameters = weights + num_tiles * sum(tap_bytes)
    output = parameters + num_tiles * plain.parameter_bytes
    return replace(
        plain, weights=weights, tap_bytes=tap_bytes, parameters=parameters, output=output,
        end=output + shape.output_height * plain.output_row_bytes,
    )  # fmt: skip


def tile_size(array: PeArray, shape: ConvShape, layout: ConvLayout, slot_bytes: int) -> tuple[int, int]:
    """Rows and columns of a tile of outputs: as many as half the accumulators and an input slot have room for.

    Raises:
        CompileError: Not even one row of outputs fits.
    """
    most_vectors = array.accumulator_vectors // 2
    num_x = min(shape.output_width, most_vectors)
    most_rows = slot_bytes // layout.input_row_bytes
    if most_rows < min(shape.reach_y, shape.height):
        raise CompileError(
            f"a row of outputs needs {shape.reach_y} rows of inputs at once, {layout.input_row_bytes} B each, and one input tile"
            f" has {slot_bytes} B of the scratchpad; use a larger scratchpad, or split the op"
        )
    most_y = (most_rows - shape.reach_y) // shape.stride + 1
    return max(1, min(most_vectors // num_x, most_y, shape.output_height)), num_x


class VectorKernel:
    """Emits one vector kernel.

    Args:
        builder: Where to.
        shape: The window; as many outputs as channels.
        layout: See `vector_layout`.
        taps: What is combined.
        operation: How.
        padding: Value of inputs outside; the least for a maximum.
        zero_point: Of the output.
        low, high: What outputs are clipped to; the format's least and greatest finite element unless given.

    Raises:
        CompileError: Channels and outputs differ, or something does not fit.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        shape: ConvShape,
        layout: ConvLayout,
        taps: Sequence[VectorTap],
        operation: Operation = "add",
        *,
        padding: int = 0,
        zero_point: int = 0,
        low: int | None = None,
        high: int | None = None,
    ) -> None:
        self.builder = builder
        self.array = builder.array
        if shape.channels != shape.outputs:
            raise CompileError(f"a vector kernel keeps its channels: {shape.channels} in and {shape.outputs} out")
        if self.array.parameter_slots < 4:
            raise CompileError(f"the PE array has {self.array.parameter_slots} parameter slots; vector kernels need 4")
        self.shape = shape
        self.layout = layout
        self.taps = tuple(taps)
        self.operation = operation
        self.padding = padding
        self.output = output_range(self.array, zero_point, low, high)
        self.num_inputs = 1 + max(tap.source for tap in taps)
        half = self.array.scratchpad_bytes // 2
        self.slot_bytes = half // 2 // self.num_inputs // self.array.word_bytes * self.array.word_bytes
        self.weights_at = half
        self.weight_bytes = sum(layout.tap_bytes)
        if 2 * self.weight_bytes > half:
            raise CompileError(
                f"weights of {self.weight_bytes} B do not fit a quarter of the scratchpad ({half // 2} B)"
            )
        self.num_channel_tiles = ceil_div(shape.outputs, self.array.cols)
        self.tiles = output_tiles(shape, *tile_size(self.array, shape, layout, self.slot_bytes))
        self._inputs: list[int] = []  # per tile the token of its loads
        self._weights: list[int] = []  # per group
        self._parameters: list[int] = []
        self._firsts: list[int] = []  # per group the release of its first operation
        self._lasts: list[int] = []
        self._computed: list[int] = []  # per group the token of its sums
        self._stores: list[int] = []

    def emit(self) -> None:
        """Emits loads, vector operations and stores; loads run one group ahead."""
        self.builder.configure("CFG_WALK", {
            "x_step_bytes": self.shape.stride * self.layout.pixel_bytes, "y_step_rows": self.shape.stride,
            "padding": self.padding,
        })  # fmt: skip
        self.builder.configure(
            "CFG_ST",
            {"x_bytes": self.layout.output_pixel_bytes, "y_bytes": self.layout.output_row_bytes, **self.output},
        )
        num_groups = len(self.tiles) * self.num_channel_tiles
        self._load(0)
        for group in range(num_groups):
            if group + 1 < num_groups:
                self._load(group + 1)
            self._combine(group)
            self._store(group)

    def _load(self, group: int) -> None:
        """Loads what a group needs and its predecessor did not."""
        layout, bus_bytes = self.layout, self.array.bus_bytes
        tile_idx, channel_tile = divmod(group, self.num_channel_tiles)
        if not channel_tile:
            tile = self.tiles[tile_idx]
            before = group - self.num_channel_tiles - 1  # the last group of the tile before the last
            after = self._lasts[before] if before >= 0 else 0
            self.builder.configure(
                "CFG_LD", {"memory_row_bytes": layout.input_row_bytes, "local_row_bytes": layout.input_row_bytes}
            )
            input_bytes = (layout.weights - layout.input) // self.num_inputs
            loaded = 0
            for source in range(self.num_inputs):
                loaded = self.builder.load(
                    {
                        "memory_address": layout.input + source * input_bytes + tile.first_row * layout.input_row_bytes,
                        "local_address": self._input_address(tile_idx, source),
                        "rows": tile.num_rows,
                        "row_beats": layout.input_row_bytes // bus_bytes,
                    },
                    after=after,
                )
            self._inputs.append(loaded)
        if self.weight_bytes:
            operands = {
                "memory_address": layout.weights + channel_tile * self.weight_bytes,
                "local_address": self._weight_address(group),
                "rows": 1,
                "row_beats": self.weight_bytes // bus_bytes,
            }
            self._weights.append(self.builder.load(operands, after=self._lasts[group - 2] if group >= 2 else 0))
        # The slot's last store has ended when the first operation of two groups later has waited for it.
        slots = self.array.parameter_slots
        operands = {
            "memory_address": layout.parameters + channel_tile * layout.parameter_bytes,
            "local_address": group % slots,
            "rows": 1,
            "row_beats": self.array.slot_beats,
            "space": 1,
        }
        after = self._firsts[group - slots + 2] if group >= slots else 0
        self._parameters.append(self.builder.load(operands, after=after))

    def _combine(self, group: int) -> None:
        tile_idx, channel_tile = divmod(group, self.num_channel_tiles)
        tile, shape, layout = self.tiles[tile_idx], self.shape, self.layout
        weight_idx = release = computed = 0
        for idx, tap in enumerate(self.taps):
            self._configure(tile, self._input_address(tile_idx, tap.source))
            if tap.scalar is None:
                address = self._weight_address(group) + weight_idx * self.array.cols
                self.builder.configure("CFG_ALU", {"scalar": 0, "address": address})
                weight_idx += 1
            else:
                self.builder.configure("CFG_ALU", {"scalar": tap.scalar, "address": 0})
            column = tile.x * shape.stride - shape.pad_left + tap.x * shape.dilation
            release, computed = self.builder.vector(
                {
                    "y": tile.y * shape.stride - shape.pad_top + tap.y * shape.dilation - tile.first_row,
                    "x": column * layout.pixel_bytes + channel_tile * self.array.cols,
                    "destination": self._sums_at(group),
                    "x_count": tile.num_x,
                    "y_count": tile.num_y,
                    "columns": self._columns(channel_tile),
                    "accumulate": int(idx > 0),
                    "operation": int(self.operation == "maximum"),
                    "operand": int(tap.scalar is None),
                },
                after=max(self._inputs[tile_idx], self._parameters[group], *self._weights[group : group + 1]),
                after_store=self._stores[group - 2] if idx == 0 and group >= 2 else 0,
                ends=idx == len(self.taps) - 1,
            )
            if idx == 0:
                self._firsts.append(release)
        self._lasts.append(release)
        self._computed.append(computed)

    def _store(self, group: int) -> None:
        tile_idx, channel_tile = divmod(group, self.num_channel_tiles)
        tile, layout = self.tiles[tile_idx], self.layout
        operands = {
            "source": self._sums_at(group),
            "x_count": tile.num_x,
            "y_count": tile.num_y,
            "address": layout.output
            + tile.y * layout.output_row_bytes
            + tile.x * layout.output_pixel_bytes
            + channel_tile * self.array.cols,
            "columns": self._columns(channel_tile),
            "slot": group % self.array.parameter_slots,
        }
        self._stores.append(self.builder.store(operands, after=self._computed[group]))

    def _configure(self, tile: OutputTile, address: int) -> None:
        self.builder.configure(
            "CFG_TILE",
            {
                "address": address,
                "row_bytes": self.layout.input_row_bytes,
                "rows": tile.num_rows,
                "width_bytes": self.shape.width * self.layout.pixel_bytes,
            },
        )

    def _input_address(self, tile_idx: int, source: int) -> int:
        return (tile_idx % 2 * self.num_inputs + source) * self.slot_bytes

    def _weight_address(self, group: int) -> int:
        return self.weights_at + group % 2 * self.weight_bytes

    def _sums_at(self, group: int) -> int:
        return group % 2 * (self.array.accumulator_vectors // 2)

    def _columns(self, channel_tile: int) -> int:
        return min(self.array.cols, self.shape.outputs - channel_tile * self.array.cols)
