"""Emits convolutions and matrix products as they are planned."""

from __future__ import annotations

from .builder import ProgramBuilder, output_range
from .convolution import ConvLayout, ConvShape
from .schedule import PARAMETERS, parameter_turns, plan_kernel
from .tiles import InputTile, input_pitch, input_strides, input_tile
from .tiling import input_slot_bytes


class ConvKernel:
    """Emits one convolution.

    Args:
        builder: Where to.
        shape: The convolution.
        layout: Its data in main memory.
        padding: Value of padded inputs.
        zero_point: Of the output.
        low, high: What outputs are clipped to; the format's least and greatest finite element unless given.

    Raises:
        CompileError: It does not fit the array's memories, or sums may not be exact.
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
        self.plan = plan_kernel(builder.array, shape, layout)
        self.padding = padding
        self.output = output_range(builder.array, zero_point, low, high)
        self._loaded: list[int] = []  # per load the token that computations wait for
        self._stored: list[int] = []  # per group the token of its last store

    def emit(self) -> None:
        """Emits loads, computations and stores."""
        plan, builder, layout = self.plan, self.builder, self.plan.problem.layout
        pixel_bytes = layout.pixel_bytes if plan.tiling.num_chunks == 1 else plan.tiling.chunk_bytes
        memory_row_bytes, local_row_bytes = input_strides(plan.problem, plan.tiling)
        builder.configure("CFG_WALK", {
            "x_step_bytes": plan.problem.shape.stride * pixel_bytes, "y_step_rows": plan.problem.shape.stride,
            "padding": self.padding,
        })  # fmt: skip
        builder.configure(
            "CFG_ST", {"x_bytes": layout.output_pixel_bytes, "y_bytes": layout.output_row_bytes, **self.output}
        )
        builder.configure("CFG_LD", {"memory_row_bytes": memory_row_bytes, "local_row_bytes": local_row_bytes})
        given = {0, *plan.waits.weights.tolist(), *plan.waits.inputs.tolist(), *plan.waits.parameters.tolist()}
        release = 0
        for unit, loads_end in enumerate(plan.waits.loads_end.tolist()):
            for load in range(len(self._loaded), loads_end):
                self._load(load, release, gives=load + 1 in given)
                release = 0
            release = self._compute(unit)

    def _load(self, idx: int, after: int, *, gives: bool) -> None:
        loads = self.plan.loads
        operands = {
            "memory_address": int(loads.memory[idx]),
            "local_address": int(loads.local[idx]),
            "rows": int(loads.rows[idx]),
            "row_beats": int(loads.beats[idx]),
        }
        if loads.kind[idx] == PARAMETERS:
            operands["space"] = 1
        self._loaded.append(self.builder.load(operands, after=after, gives=gives))

    def _token(self, load: int) -> int:
        return self._loaded[load - 1] if load else 0

    def _compute(self, unit: int) -> int:
        """The computations of a unit, and the stores behind it; what loads can wait for."""
        plan, builder = self.plan, self.builder
        problem, tiling, units, waits = plan.problem, plan.tiling, plan.units, plan.waits
        array, shape = problem.array, problem.shape
        tile, group = plan.tiles[int(units.tile[unit])], int(units.group[unit])
        inputs = input_tile(problem, tiling, tile, int(units.chunk[unit]))
        builder.configure("CFG_TILE", {
            "address": int(units.block[unit]) % 2 * input_slot_bytes(array, tiling.weights_at),
            "row_bytes": input_pitch(problem, tiling), "rows": tile.num_rows, "width_bytes": inputs.width_bytes,
        })  # fmt: skip
        first, num = int(units.first_tap[unit]), int(units.num_taps[unit])
        weights_at = int(units.weights_at[unit])
        stored = int(waits.stored[unit])
        release = computed = 0
        for idx in range(num):
            tap, is_first, is_last = plan.taps[first + idx], idx == 0, idx == num - 1
            builder.preload(
                {"address": weights_at, "row_bytes": array.cols, "rows": tap.count},
                after=self._token(int(waits.weights[unit])) if is_first else 0,
            )
            weights_at += problem.weight_bytes(tap)
            loads = [int(waits.inputs[unit])] * is_first + [int(waits.parameters[unit])] * is_last
            release, computed = builder.compute(
                {
                    "y": tile.y * shape.stride - shape.pad_top + tap.y * shape.dilation - tile.first_row,
                    "x": self._column(tile.x, tap.x, inputs),
                    "destination": self._sums_at(group, int(units.place[unit])),
                    "x_count": tile.num_x,
                    "y_count": tile.num_y,
                    "rows": tap.count,
                    "accumulate": int(first + idx > 0),
                    "swap": 1,
                },
                after=max(map(self._token, loads), default=0),
                after_store=self._stored[stored - 1] if is_first and stored else 0,
                frees=is_last and bool(waits.frees[unit]),
                ends=is_last and bool(units.ends_group[unit]),
            )
        if units.ends_group[unit]:
            self._store(unit, computed)
        return release

    def _column(self, x: int, tap_x: int, inputs: InputTile) -> int:
        """Where in the input tile's rows a tap of an output begins."""
        shape, layout = self.plan.problem.shape, self.plan.problem.layout
        column, channel = divmod(tap_x, layout.pixel_bytes)
        column += x * shape.stride - shape.pad_left
        return column * inputs.pixel_bytes - inputs.first_byte + channel - inputs.first_channel

    def _sums_at(self, group: int, place: int) -> int:
        tiling = self.plan.tiling
        return group % 2 * (self.plan.problem.array.accumulator_vectors // 2) + place * tiling.num_y * tiling.num_x

    def _store(self, unit: int, computed: int) -> None:
        """Stores the sums of a group."""
        plan, units = self.plan, self.plan.units
        array, layout = plan.problem.array, plan.problem.layout
        tile, group, last = plan.tiles[int(units.tile[unit])], int(units.group[unit]), int(units.place[unit])
        token = 0
        for place in range(last + 1):
            output = int(units.output[unit]) - last + place
            token = self.builder.store(
                {
                    "source": self._sums_at(group, place),
                    "x_count": tile.num_x,
                    "y_count": tile.num_y,
                    "address": layout.output
                    + tile.y * layout.output_row_bytes
                    + tile.x * layout.output_pixel_bytes
                    + output * array.cols,
                    "columns": min(array.cols, plan.problem.shape.outputs - output * array.cols),
                    "slot": group % parameter_turns(array, plan.tiling) * plan.tiling.group + place,
                },
                after=computed,
                gives=place == last,
            )
        self._stored.append(token)
