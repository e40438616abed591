"""Convolutions and matrix products on the PE array, tiled to any size that its memories take."""

from __future__ import annotations

from dataclasses import dataclass

from ...archdsl import CompileError, PeArray, ceil_div
from .builder import ProgramBuilder


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


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputTile:
    """A tile of outputs and the input rows that it needs.

    Attributes:
        y, x: Its first output.
        num_y, num_x: Rows and columns of outputs.
        first_row, num_rows: The input rows.
    """

    y: int
    x: int
    num_y: int
    num_x: int
    first_row: int
    num_rows: int


def output_tiles(array: PeArray, shape: ConvShape, layout: ConvLayout, slot_bytes: int) -> list[OutputTile]:
    """Tiles of outputs: as many rows as half the accumulators and an input slot have room for.

    Raises:
        CompileError: Not even one row of outputs fits.
    """
    most_vectors = array.accumulator_vectors // 2
    num_x = min(shape.output_width, most_vectors)
    reach = (shape.kernel_height - 1) * shape.dilation + 1
    most_rows = slot_bytes // layout.input_row_bytes
    if most_rows < min(reach, shape.height):
        raise CompileError(
            f"a row of outputs needs {reach} rows of inputs at once, {layout.input_row_bytes} B each, and one input tile has"
            f" {slot_bytes} B of the scratchpad; use a larger scratchpad, or split the op"
        )
    num_y = max(1, min(most_vectors // num_x, (most_rows - reach) // shape.stride + 1, shape.output_height))
    found: list[OutputTile] = []
    for y in range(0, shape.output_height, num_y):
        rows = min(num_y, shape.output_height - y)
        first = max(0, y * shape.stride - shape.pad_top)
        last = min(shape.height, (y + rows - 1) * shape.stride - shape.pad_top + reach)
        for x in range(0, shape.output_width, num_x):
            found.append(
                OutputTile(
                    y=y,
                    x=x,
                    num_y=rows,
                    num_x=min(num_x, shape.output_width - x),
                    first_row=min(first, shape.height - 1),
                    num_rows=max(1, last - first),
                )
            )
    return found


@dataclass(slots=True, kw_only=True)
class _Step:
    """One weight tile on one tile of outputs."""

    tile_idx: int
    tile: OutputTile
    output_tile: int
    tap_idx: int
    loaded_input: int = 0
    loaded_weights: int = 0
    release: int = 0


AHEAD = 3
"""Steps by which loads run ahead of computations; weights have one slot more."""


class ConvKernel:
    """Emits one convolution.

    Args:
        builder: Where to.
        shape: The convolution.
        layout: Its data in main memory.
        padding: Value of padded inputs.
        zero_point: Of the output.
        low, high: What outputs are clipped to; the format's least and greatest finite element unless given.
    """

    def __init__(
        self,
        builder: ProgramBuilder,
        shape: ConvShape,
        layout: ConvLayout,
        *,
        padding: int = 0,
        zero_point: int = 0,
        low: int | None = None,
        high: int | None = None,
    ) -> None:
        self.builder = builder
        self.array = builder.array
        self.shape = shape
        self.layout = layout
        self.padding = padding
        self.output = {
            "zero_point": zero_point,
            "low": self.array.format.low if low is None else low,
            "high": self.array.format.high if high is None else high,
        }
        self.taps = taps_of(self.array, shape, layout.pixel_bytes)
        self.num_output_tiles = ceil_div(shape.outputs, self.array.cols)
        # An input tile takes the place of the one before the last, whose computations must stand in front of its loads.
        self.ahead = min(AHEAD, self.num_output_tiles * len(self.taps))
        half = self.array.scratchpad_bytes // 2
        self.input_slot_bytes = half // 2
        self.weights_at = half
        self.weight_slot_bytes = (
            ceil_div(self.array.rows * self.array.cols, self.array.word_bytes) * self.array.word_bytes
        )
        if (self.ahead + 1) * self.weight_slot_bytes > half:
            raise CompileError(
                f"{self.ahead + 1} weight tiles of {self.weight_slot_bytes} B do not fit half the scratchpad ({half} B)"
            )
        self.local_row_bytes = layout.input_row_bytes
        if self.array.parameter_slots < 3:
            raise CompileError(f"the PE array has {self.array.parameter_slots} parameter slots; kernels need 3 or more")
        self.tiles = output_tiles(self.array, shape, layout, self.input_slot_bytes)

    def emit(self) -> None:
        """Emits loads, computations and stores, loads ahead of the computations that need them."""
        array, builder, layout = self.array, self.builder, self.layout
        builder.configure("CFG_WALK", {
            "x_step_bytes": self.shape.stride * layout.pixel_bytes, "y_step_rows": self.shape.stride, "padding": self.padding,
        })  # fmt: skip
        builder.configure(
            "CFG_ST", {"x_bytes": layout.output_pixel_bytes, "y_bytes": layout.output_row_bytes, **self.output}
        )
        steps = [
            _Step(tile_idx=idx, tile=tile, output_tile=output, tap_idx=tap)
            for idx, tile in enumerate(self.tiles)
            for output in range(self.num_output_tiles)
            for tap in range(len(self.taps))
        ]
        parameters: list[int] = []
        stores: list[int] = []
        firsts: list[int] = []  # the release of the first computation of each tile of sums
        num_slots = self.ahead + 1
        half = array.accumulator_vectors // 2
        for at in range(len(steps) + self.ahead):
            if at < len(steps):
                self._load_step(steps, at, num_slots)
            now = at - self.ahead
            # Channel parameters run ahead as far as their slots are known to be free.
            ahead = min(self.ahead, (array.parameter_slots - 2) * len(self.taps) - 1)
            group_idx, is_inside = divmod(now + ahead, len(self.taps))
            if not is_inside and 0 <= group_idx < len(self.tiles) * self.num_output_tiles:
                parameters.append(self._load_parameters(group_idx, firsts))
            if now < 0:
                continue
            step = steps[now]
            group = step.tile_idx * self.num_output_tiles + step.output_tile
            is_first, is_last = step.tap_idx == 0, step.tap_idx == len(self.taps) - 1
            tile, tap = step.tile, self.taps[step.tap_idx]
            builder.configure("CFG_TILE", {
                "address": step.tile_idx % 2 * self.input_slot_bytes, "row_bytes": self.local_row_bytes,
                "rows": tile.num_rows, "width_bytes": self.shape.width * layout.pixel_bytes,
            })  # fmt: skip
            builder.preload(
                {
                    "address": self.weights_at + now % num_slots * self.weight_slot_bytes,
                    "row_bytes": array.cols,
                    "rows": tap.count,
                },
                after=step.loaded_weights,
            )
            release, computed = builder.compute(
                {
                    "y": tile.y * self.shape.stride - self.shape.pad_top + tap.y * self.shape.dilation - tile.first_row,
                    "x": (tile.x * self.shape.stride - self.shape.pad_left) * layout.pixel_bytes + tap.x,
                    "destination": group % 2 * half,
                    "x_count": tile.num_x,
                    "y_count": tile.num_y,
                    "rows": tap.count,
                    "accumulate": int(not is_first),
                    "swap": 1,
                },
                after=max(step.loaded_input, parameters[group] if is_last else 0),
                after_store=stores[group - 2] if is_first and group >= 2 else 0,
                ends=is_last,
            )
            step.release = release
            if is_first:
                firsts.append(release)
            if is_last:
                stores.append(self._store(step, group, computed))

    def _load_step(self, steps: list[_Step], at: int, num_slots: int) -> None:
        """Loads the weights of a step, and the input when its tile begins."""
        step, array, layout = steps[at], self.array, self.layout
        step.loaded_input = steps[at - 1].loaded_input if at else 0
        first, last = self.input_beats(step.tap_idx) if step.output_tile == 0 else (0, 0)
        if last > first:
            tile = step.tile
            # The last step of the tile before the last, which stood in the same place.
            before = (step.tile_idx - 1) * self.num_output_tiles * len(self.taps) - 1
            step.loaded_input = self._rows(
                layout.input + tile.first_row * layout.input_row_bytes + first * array.bus_bytes,
                layout.input_row_bytes,
                step.tile_idx % 2 * self.input_slot_bytes + first * array.bus_bytes,
                tile.num_rows,
                last - first,
                steps[before].release if before >= 0 else 0,
            )
        step.loaded_weights = self._rows(
            layout.weights + step.output_tile * sum(layout.tap_bytes) + sum(layout.tap_bytes[: step.tap_idx]),
            0,
            self.weights_at + at % num_slots * self.weight_slot_bytes,
            1,
            layout.tap_bytes[step.tap_idx] // array.bus_bytes,
            steps[at - num_slots].release if at >= num_slots else 0,
        )

    def input_beats(self, tap_idx: int) -> tuple[int, int]:
        """The beats of every row of a tile that a tap is the first to need.

        A matrix product needs a few columns of its input at a time, and starts when the first of them are there.
        """
        bus_bytes, row_beats = self.array.bus_bytes, self.layout.input_row_bytes // self.array.bus_bytes
        if self.shape.width > 1:
            return 0, row_beats if tap_idx == 0 else 0
        # A window wider than the input reaches beyond its rows, and one of several rows comes back to their beginning.
        ends = [min(row_beats, ceil_div(tap.x + tap.count, bus_bytes)) for tap in self.taps[: tap_idx + 1]]
        return max(ends[:-1], default=0), max(ends)

    def _rows(self, address: int, stride: int, local: int, rows: int, beats: int, after: int) -> int:
        self.builder.configure(
            "CFG_LD", {"memory_row_bytes": stride, "local_row_bytes": self.local_row_bytes if stride else 0}
        )
        return self.builder.load(
            {"memory_address": address, "local_address": local, "rows": rows, "row_beats": beats}, after=after
        )

    def _load_parameters(self, group: int, firsts: list[int]) -> int:
        slots = self.array.parameter_slots
        # The slot's last store has ended when the first computation of two groups later has waited for it.
        after = firsts[group - slots + 2] if group >= slots else 0
        return self.builder.load(
            {
                "memory_address": self.layout.parameters + group % self.num_output_tiles * self.layout.parameter_bytes,
                "local_address": group % slots,
                "rows": 1,
                "row_beats": self.array.slot_beats,
                "space": 1,
            },
            after=after,
        )

    def _store(self, step: _Step, group: int, computed: int) -> int:
        tile, layout, cols = step.tile, self.layout, self.array.cols
        return self.builder.store(
            {
                "source": group % 2 * (self.array.accumulator_vectors // 2),
                "x_count": tile.num_x,
                "y_count": tile.num_y,
                "address": layout.output
                + tile.y * layout.output_row_bytes
                + tile.x * layout.output_pixel_bytes
                + step.output_tile * cols,
                "columns": min(cols, self.shape.outputs - step.output_tile * cols),
                "slot": group % self.array.parameter_slots,
            },
            after=computed,
        )
