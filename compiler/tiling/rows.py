"""Ops on rows: stages on the vector unit, for as many rows at once as sums and the scratchpad hold.

Bytes of a row stand in all lanes of a vector, so that they are a second operand for any tile of channels. Words stand in main
memory between two stages, since stores of 32 bits go there alone; the next stage loads them and takes the first lane for all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...archdsl import PassError
from ..ir.store import Array
from ..ir.tile import MAIN, SCRATCHPAD, Linear, PlaceOp, StoreOp, VectorOp, ViewOp, bytes_memref, indexed
from ..rows.steps import INPUT, OUTPUT, Put, Stage, Stages, Term
from .activations import Activation, Format, aligned
from .loops import split
from .target import Output, Target

WORD_BYTES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RowWork:
    """An op on the rows of an activation.

    Attributes:
        name: Of the op, for its constants.
        input: The activation.
        output: How and where to its rows go.
        stages: What they go through.
        tables: [tables, 256].
        parameters: Per tile of channels the channel parameters of the output, in main memory.
    """

    name: str
    input: Activation
    output: Output
    stages: Stages
    tables: Array
    parameters: SSAValue


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """The rows of one pass: `y_count` by `x_count` of them, from a row of the output on.

    Attributes:
        y, x: The first one in the output.
        y_count, x_count: How many.
        source: The rows of the input, as rows of vectors in the scratchpad.
        source_y, source_x: The first one's row, and byte in the row, there.
    """

    y: Linear
    x: Linear
    y_count: int
    x_count: int
    source: SSAValue
    source_y: Linear
    source_x: Linear

    @property
    def num(self) -> int:
        """How many rows of channels."""
        return self.y_count * self.x_count


def row_ops(target: Target, work: RowWork) -> list[Operation]:
    """The loops of an op on rows.

    Raises:
        PassError: Not even one row fits, or the array has too few tables.
    """
    needed = _most_tables(work.stages)
    if needed > target.array.table_slots:
        raise PassError(
            f"it looks up in {needed} tables at once and the array has {target.array.table_slots}: set control.table_slots to"
            f" {needed} or more"
        )
    kernel = _Kernel(target=target, work=work)
    found = kernel.passes_of_lines() if work.input.format.has_gaps else kernel.passes_of_pixels()
    return [kernel.plain, *found]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    """A value in the scratchpad.

    Attributes:
        buffer: Where it stands.
        y, x: Row and byte in the row of the first vector.
        y_count, x_count, x_step: How its vectors are walked over.
        has_channels, is_word: What it is; a byte per row stands in all lanes.
    """

    buffer: SSAValue
    x_step: int
    x_count: int
    y: Linear = field(default_factory=Linear)
    x: Linear = field(default_factory=Linear)
    y_count: int = 1
    has_channels: bool = False
    is_word: bool = False


def _most_tables(stages: Stages) -> int:
    """Tables that one stage needs."""
    return max(
        sum(isinstance(action, Put) and action.table is not None for action in stage.actions) for stage in stages
    )


@dataclass(slots=True, kw_only=True)
class _Kernel:
    """Makes the loops of an op.

    Attributes:
        target: The array.
        work: The op.
        plain: Channel parameters that leave sums as they are.
    """

    target: Target
    work: RowWork
    plain: Operation = field(init=False)
    _memory: dict[str, Activation] = field(default_factory=dict[str, Activation])

    def __post_init__(self) -> None:
        self.plain = self.target.parameters_op(self._parameters(Put(name="plain")), Linear())

    # ---- Passes.

    def passes_of_lines(self) -> list[Operation]:
        """Passes over whole rows of pixels, where something stands between those."""
        format_ = self.work.input.format
        total, width = format_.images * format_.height, format_.width
        lines = self._most(total, width, format_.row_bytes, 1)

        def one(at: Linear, count: int) -> list[Operation]:
            found, source, first = self._source(at * lines, count * format_.row_bytes, format_.row_bytes)
            view = ViewOp(source, 0, first[1], width * format_.pixel_bytes, format_.row_bytes)
            rows = _Rows(
                y=at * lines, x=Linear(), y_count=count, x_count=width, source=view.result, source_y=first[0],
                source_x=Linear(),
            )  # fmt: skip
            return [*found, view, *self._stages(rows)]

        return split(total, lines, one)

    def passes_of_pixels(self) -> list[Operation]:
        """Passes over pixels side by side."""
        format_ = self.work.input.format
        pixel = format_.pixel_bytes
        # What is staged begins at a beat.
        unit = (
            1
            if self.work.input.is_local
            else self.target.array.bus_bytes // math.gcd(pixel, self.target.array.bus_bytes)
        )
        pixels = self._most(format_.pixels, 1, pixel, unit)

        def one(at: Linear, count: int) -> list[Operation]:
            found, source, first = self._source(at * pixels, count * pixel, pixel)
            num = first[1]
            view = ViewOp(source, 0, 1, num * pixel)
            rows = _Rows(
                y=Linear(), x=at * pixels, y_count=1, x_count=count, source=view.result, source_y=Linear(),
                source_x=first[0] * pixel,
            )  # fmt: skip
            return [*found, view, *self._stages(rows)]

        return split(format_.pixels, pixels, one)

    def _source(self, first: Linear, num_bytes: int, step: int) -> tuple[list[Operation], SSAValue, tuple[Linear, int]]:
        """Rows of the input in the scratchpad: what it takes, where they stand, the first one's number and how many stand there."""
        place = self.work.input
        buffer = self.target.buffers.of(place)
        if place.is_local:
            return [], buffer, (first, place.format.num_bytes // step)
        format_ = place.format
        total = format_.num_bytes
        row = place.view(Format(images=1, height=1, width=total, channels=1, pixel_bytes=1, row_bytes=total))
        staged, ops = self.target.staged(
            self.target.buffers.of(row), first * step, aligned(num_bytes, self.target.array.bus_bytes)
        )
        return ops, staged.result, (Linear(), num_bytes // step)

    def _most(self, total: int, width: int, step: int, unit: int) -> int:
        """The most steps of `width` rows each that fit: sums, what a pass puts, and its input where that is staged."""
        array, work = self.target.array, self.work
        channels = aligned(work.input.format.channels, array.vector_bytes)
        actions = [(stage, action) for stage in work.stages for action in stage.actions if isinstance(action, Put)]
        row_bytes = sum(
            self.word_step if action.is_word else channels if stage.has_channels else array.vector_bytes
            for stage, action in actions
            if action.name != OUTPUT
        )
        num_bytes = width * row_bytes + (0 if work.input.is_local else step)
        room = self.target.staging_bytes - len(actions) * array.word_bytes * 2
        most = min(total, self.target.most_vectors // width, room // num_bytes)
        if most < min(unit, total):
            raise PassError(
                f"{min(unit, total) * width} rows of {work.input.format.channels} channels at once need"
                f" {min(unit, total) * num_bytes} B of the scratchpad and {min(unit, total) * width} of {self.target.most_vectors}"
                f" accumulator vectors, and {room} B are free: use a larger scratchpad, or more accumulators"
            )
        return most if most == total else most // unit * unit

    # ---- Stages.

    @property
    def word_step(self) -> int:
        """Bytes from one row's word to the next one's: what stores to main memory begin at multiples of."""
        array = self.target.array
        return min(WORD_BYTES * array.vector_bytes, array.bus_bytes)

    def _stages(self, rows: _Rows) -> list[Operation]:
        format_ = self.work.input.format
        values = {
            INPUT: _Value(
                buffer=rows.source, y=rows.source_y, x=rows.source_x, y_count=rows.y_count, x_count=rows.x_count,
                x_step=format_.pixel_bytes, has_channels=True,
            )
        }  # fmt: skip
        return [op for stage in self.work.stages for op in self._stage(stage, rows, values)]

    def _stage(self, stage: Stage, rows: _Rows, values: dict[str, _Value]) -> list[Operation]:
        array = self.target.array
        found: list[Operation] = []
        made: dict[str, list[Operation]] = {}
        for put in stage.actions:
            if not isinstance(put, Put):
                continue
            if not put.is_word and put.name != OUTPUT:
                step = aligned(self.work.input.format.channels if stage.has_channels else 1, array.vector_bytes)
                place = PlaceOp.build(result_types=[bytes_memref(1, rows.num * step, SCRATCHPAD)])
                values[put.name] = _Value(
                    buffer=place.result, x_step=step, x_count=rows.num, has_channels=stage.has_channels
                )  # fmt: skip
                found.append(place)
            if stage.has_channels:  # once for all tiles of channels
                made[put.name] = self._constants(put)
                found += [op for op in made[put.name] if op is not self.plain]

        def actions(idx: Linear, columns: int) -> list[Operation]:
            sums = self.target.sums_op(rows.num)
            ops: list[Operation] = [sums]
            order = 0
            for action in stage.actions:
                if isinstance(action, Put):
                    ops += self._put(action, rows, values, made, sums.result, idx, columns)
                else:
                    ops += self._term(action, stage, values, sums.result, idx, columns, order)
                    order += 1
            return ops

        if stage.has_channels:
            return found + split(self.work.input.format.channels, array.cols, actions)
        found += actions(Linear(), array.cols)
        for put in stage.actions:
            if isinstance(put, Put) and put.is_word:
                memory = self._words(put.name, rows.num)
                place, ops = self.target.staged(
                    self.target.buffers.of(memory), Linear(), rows.num * self.word_step
                )  # fmt: skip
                values[put.name] = _Value(
                    buffer=place.result, x_step=self.word_step, x_count=rows.num, is_word=True
                )  # fmt: skip
                found += ops
        return found

    # ---- Terms.

    def _term(
        self, term: Term, stage: Stage, values: dict[str, _Value], sums: SSAValue, idx: Linear, columns: int, order: int
    ) -> list[Operation]:  # fmt: skip
        source = values[term.source]
        factor = None if term.by is None else values[term.by]
        if stage.has_channels or not source.has_channels:
            is_combined = source.is_word
            return [
                self._walk(term, source, factor, sums, idx, 1 if is_combined else columns, Linear(order), is_combined)
            ]
        return split(
            self.work.input.format.channels, self.target.array.cols,
            lambda tile, num: [
                self._walk(term, source, factor, sums, tile, num, Linear(order) if order else tile, True)
            ],
        )  # fmt: skip

    def _walk(
        self, term: Term, source: _Value, factor: _Value | None, sums: SSAValue, idx: Linear, columns: int,
        accumulate: Linear, is_combined: bool,
    ) -> Operation:  # fmt: skip
        cols = self.target.array.cols
        maps = {
            "y": source.y, "x": source.x + idx * cols if source.has_channels else source.x, "sums_at": Linear(),
            "values_at": idx * cols if factor is not None and factor.has_channels else Linear(),
            "accumulate": accumulate,
        }  # fmt: skip
        sizes: dict[str, int | str] = {
            "columns": columns, "y_count": source.y_count, "x_count": source.x_count, "y_step": 1,
            "x_step": source.x_step, "values_step": 0 if factor is None else factor.x_step, "padding": 0,
            "operation": term.operation, "operand": "scalar" if factor is None else "sequence",
            "scalar": term.scalar if factor is None else 0, "shift": term.shift,
            "lanes": "combined" if is_combined else "separate", "hold": 0, "input_bits": 32 if source.is_word else 8,
        }  # fmt: skip
        operands: list[SSAValue] = [] if factor is None else [factor.buffer]
        return VectorOp.build(**indexed([[source.buffer], operands, [sums]], maps, sizes))

    # ---- Puts.

    def _put(
        self, put: Put, rows: _Rows, values: dict[str, _Value], made: dict[str, list[Operation]],
        sums: SSAValue, idx: Linear, columns: int,
    ) -> list[Operation]:  # fmt: skip
        if put.name == OUTPUT:
            parameters = self.target.parameters_op(self.work.parameters, idx)
            stores = self.target.stores(
                self.work.output, sums, parameters.result, rows.y, rows.x, idx * self.target.array.cols,
                y_count=rows.y_count, x_count=rows.x_count, columns=columns,
            )  # fmt: skip
            return [parameters, *stores]
        constants = made.get(put.name) or self._constants(put)
        found = [op for op in constants if op is not self.plain and put.name not in made]
        slot, *tables = (op.results[0] for op in constants)
        if put.is_word:
            buffer, step = self.target.buffers.of(self._words(put.name, rows.num)), self.word_step
        else:
            buffer, step = values[put.name].buffer, values[put.name].x_step
        at = idx * self.target.array.cols if not put.is_word and values[put.name].has_channels else Linear()
        sizes = {
            "y_count": 1, "x_count": rows.num, "y_pitch": 0, "x_pitch": step, "columns": 1 if put.is_word else columns,
            "zero_point": put.zero_point, "low": -128, "high": 127, "bits": 32 if put.is_word else 8,
        }  # fmt: skip
        maps = {"sums_at": Linear(), "write_at": at}
        return [*found, StoreOp.build(**indexed([[sums], [slot], tables, [buffer]], maps, sizes))]

    def _constants(self, put: Put) -> list[Operation]:
        """Channel parameters of a put, and its table if it has one, in their slots."""
        is_plain = put.is_word or put.name == OUTPUT or (put.bias, put.multiplier, put.shift) == (0, 1, 0)
        found = [self.plain if is_plain else self.target.parameters_op(self._parameters(put), Linear())]
        if put.table is not None:
            content = np.ascontiguousarray(self.work.tables[put.table]).view(np.uint8)
            source = self.target.constant(f"{self.work.name}.tables", content, "parameter")
            found.append(self.target.table_op(source))
        return found

    def _parameters(self, put: Put) -> SSAValue:
        """Channel parameters that are the same in all lanes."""
        ones = np.ones(self.target.array.cols, dtype=np.int64)
        return self.target.channel_parameters(
            f"{self.work.name}.rows", ones * put.bias, ones * put.multiplier, ones * put.shift
        )

    def _words(self, name: str, num: int) -> Activation:
        """Where words stand in main memory: the same place for every pass."""
        known = self._memory.get(name)
        if known is None:
            step = self.word_step
            format_ = Format(images=1, height=1, width=num, channels=1, pixel_bytes=step, row_bytes=num * step)
            known = Activation(
                name=f"{self.work.name}.words", format=format_, space=MAIN, address=self.target.memory_bytes
            )  # fmt: skip
            self.target.memory_bytes += aligned(format_.num_bytes, self.target.array.bus_bytes)
            self._memory[name] = known
        return known
