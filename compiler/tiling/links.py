"""Parts of a chain's kernel: a convolution with the elementwise ops that take each tile of it, and ops of the vector unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from ..ir.tile import SCRATCHPAD, Linear, PlaceOp, bytes_memref
from .activations import Activation
from .channels import TilePlace, over_sets, places_of
from .convolution import Convolution, OutputTile, section_ops
from .inputs import InputTile, Span, begins_at_beats, staged_slice, staged_tile
from .loops import equal_parts
from .stages import Chain, Link, Rows
from .target import Band, Output, Target
from .vectors import VectorTile, VectorWork, over_channels, vector_op


@dataclass(frozen=True, slots=True, kw_only=True)
class Rect:
    """A tile of outputs: its first row and column, and its rows and columns."""

    y: int
    x: int
    y_count: int
    x_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """A tile of sums: some channels of a tile of outputs.

    Attributes:
        rect: The outputs.
        at: The tile of channels.
        parameters: Of the convolution, in their slot.
        weights: Of the convolution, and their first byte there.
    """

    rect: Rect
    at: TilePlace
    parameters: SSAValue
    weights: tuple[SSAValue, Linear]


def rects_of(target: Target, rows: Rows, width: int) -> list[Rect]:
    """Rows as tiles whose sums fit half of the accumulators."""
    num_x = equal_parts(width, min(target.most_vectors, width))
    num_y = equal_parts(rows.num, min(max(1, target.most_vectors // num_x), rows.num))
    return [
        Rect(y=y, x=x, y_count=min(num_y, rows.end - y), x_count=min(num_x, width - x))
        for y in range(rows.first, rows.end, num_y)
        for x in range(0, width, num_x)
    ]


def can_slice(target: Target, activation: Activation, group: int) -> bool:
    """Whether some tiles of channels of an activation can be loaded by themselves."""
    return group * target.columns % target.array.bus_bytes == 0 and begins_at_beats(target, activation)


def vector_link(
    target: Target, work: VectorWork, inputs: Sequence[InputTile], rects: Sequence[Rect]
) -> list[Operation]:
    """An op of the vector unit on some tiles of outputs, whose inputs are there."""
    tiles = [
        VectorTile(y=Linear(r.y), x=Linear(r.x), y_count=r.y_count, x_count=r.x_count, inputs=tuple(inputs)) for r in rects
    ]  # fmt: skip
    return over_channels(target, work, lambda pass_tile: [op for tile in tiles for op in pass_tile(tile)])


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvLink:
    """Writes a convolution on some rows, with the elementwise ops behind it.

    The array computes a tile ahead of the one that the elementwise ops are at, so that they need not wait for its store.

    Attributes:
        target, chain, link: What is made.
        rows, rects: The rows, and their tiles.
        inputs: By stage where its inputs stand; None for what the stage before makes, and for what is loaded in groups.
        band: Where the result goes beside its targets.
        weights: All weights, where they stay.
        group: Tiles of channels of which second operands are loaded together; 0 for all.
    """

    target: Target
    chain: Chain
    link: Link
    rows: Rows
    rects: Sequence[Rect]
    inputs: dict[int, list[InputTile | None]]
    band: Band | None
    weights: SSAValue | None
    group: int

    @property
    def conv(self) -> Convolution:
        """The convolution."""
        work = self.chain.stages[self.link.main].work
        assert isinstance(work, Convolution)
        return work

    def ops(self) -> list[Operation]:
        """The loops over groups of tiles of channels, and over these."""
        places = places_of(self.conv.tiles)
        full = [place for place in places if place.tile.outputs == self.target.columns]
        found: list[Operation] = []
        for some in (full, places[len(full) :]):  # the last tile may have fewer channels
            found += over_sets(some, self.group or max(1, len(some)), self._group)
        return found

    def _group(self, places: Sequence[TilePlace]) -> list[Operation]:
        """Some tiles of channels, one or two in a turn: two where one alone would leave nothing to compute ahead."""
        found, sides = self._sides(places[0].output, len(places))
        step = 2 if self.link.epilogues and len(self.rects) == 1 and len(places) > 1 else 1
        return found + over_sets(places, step, lambda turn: self._turn(turn, sides))

    def _sides(self, first: Linear, num: int) -> tuple[list[Operation], dict[tuple[int, int], InputTile]]:
        """Stages second operands: so many tiles of channels of the rows, from a channel on."""
        found: list[Operation] = []
        sides: dict[tuple[int, int], InputTile] = {}
        rows, width = Span(first=self.rows.first, num=self.rows.num), Span(first=0, num=self.conv.output_width)
        for number in self.link.epilogues:
            stage = self.chain.stages[number]
            for at, (activation, source) in enumerate(zip(stage.inputs, stage.sources, strict=True)):
                if source is None and self.inputs[number][at] is None:
                    if num * self.target.columns >= activation.format.channels or not can_slice(
                        self.target, activation, num
                    ):
                        tile, ops = staged_tile(self.target, activation, rows, width)
                    else:
                        some = Span(first=0, num=num * self.target.columns)
                        tile, ops = staged_slice(self.target, activation, rows, width, some, first)
                    sides[number, at] = tile
                    found += ops
        return found, sides

    def _turn(self, places: Sequence[TilePlace], sides: dict[tuple[int, int], InputTile]) -> list[Operation]:
        """Tiles of sums one after the other, with the elementwise ops of each behind the convolution of the next."""
        found: list[Operation] = []
        before: tuple[Tile, InputTile] | None = None
        for at in places:
            parameters = self.target.parameters_op(self.conv.parameters, at.idx)
            ops, weights = self._weights(at)
            found += [parameters, *ops]
            for rect in self.rects:
                tile = Tile(rect=rect, at=at, parameters=parameters.result, weights=weights)
                ops, made = self._convolved(tile)
                found += ops
                if before is not None:
                    found += self._epilogues(*before, sides)
                before = (tile, made) if made is not None else None
        return found + (self._epilogues(*before, sides) if before is not None else [])

    def _weights(self, at: TilePlace) -> tuple[list[Operation], tuple[SSAValue, Linear]]:
        if self.weights is not None:
            return [], (self.weights, at.weights_at)
        place, ops = self.target.staged(self.conv.weights, at.weights_at, at.tile.weights_bytes)
        return ops, (place.result, Linear())

    def _convolved(self, tile: Tile) -> tuple[list[Operation], InputTile | None]:
        """The convolution of a tile, stored; where it stands for the elementwise ops behind it, if there are any."""
        conv, rect, target = self.conv, tile.rect, self.target
        (source,) = self.inputs[self.link.main]
        assert source is not None
        sums = target.sums_op(rect.y_count * rect.x_count)
        outputs = OutputTile(
            y=Linear(rect.y), x=Linear(rect.x), y_count=rect.y_count, x_count=rect.x_count, sums=sums.result, input=source,
            channels=tile.at,
        )  # fmt: skip
        weights, begin = tile.weights
        found: list[Operation] = [sums]
        found += section_ops(target, conv, outputs, weights, 0, tile.at.tile.num_rows, begin)
        place, made, band = None, None, self.band
        if self.link.epilogues:
            place, band, made = self._tile_place(tile)
            found.append(place)
        return found + self._stored(tile, conv.output, band, sums.result, tile.parameters), made

    def _tile_place(self, tile: Tile) -> tuple[PlaceOp, Band, InputTile]:
        """A place for a tile's elements: as a target, and as an input."""
        rect, pixel = tile.rect, self.target.columns
        place = PlaceOp.build(result_types=[bytes_memref(rect.y_count, rect.x_count * pixel, SCRATCHPAD)])
        first = tile.at.output + rect.x * pixel
        band = Band(
            buffer=place.result, pixel_bytes=pixel, row_bytes=rect.x_count * pixel, first_row=rect.y, first_byte=first
        )  # fmt: skip
        return place, band, InputTile(buffer=place.result, first_row=rect.y, first_byte=first, pixel_bytes=pixel)

    def _epilogues(self, tile: Tile, made: InputTile, sides: dict[tuple[int, int], InputTile]) -> list[Operation]:
        """The elementwise ops on a tile, each on what the one before has made."""
        target, rect, found = self.target, tile.rect, list[Operation]()
        for number in self.link.epilogues:
            stage = self.chain.stages[number]
            work = stage.work
            assert isinstance(work, VectorWork)
            inputs = tuple(known or sides.get((number, at), made) for at, known in enumerate(self.inputs[number]))
            parameters = target.parameters_op(work.parameters, tile.at.idx)
            sums = target.sums_op(rect.y_count * rect.x_count)
            found += [parameters, sums]
            weights = table = None
            if work.weights is not None:
                weights, ops = target.staged(work.weights, tile.at.idx * work.weight_bytes, work.weight_bytes)
                found += ops
            if work.output.table is not None:
                table = target.table_op(work.output.table)
                found.append(table)
            outputs = VectorTile(
                y=Linear(rect.y), x=Linear(rect.x), y_count=rect.y_count, x_count=rect.x_count, inputs=inputs
            )
            channel, values = tile.at.output, None if weights is None else weights.result
            for order, tap in enumerate(work.taps):
                found.append(
                    vector_op(target, work, tap, values, sums.result, outputs, channel, tile.at.tile.outputs, order)
                )  # fmt: skip
            band = self.band
            if number != self.link.last:
                place, band, made = self._tile_place(tile)
                found.append(place)
            looked_up = None if table is None else table.result
            found += self._stored(tile, work.output, band, sums.result, parameters.result, looked_up)
        return found

    def _stored(
        self, tile: Tile, output: Output, band: Band | None, sums: SSAValue, parameters: SSAValue, table: SSAValue | None = None
    ) -> list[Operation]:  # fmt: skip
        rect = tile.rect
        return self.target.stores(
            replace(output, band=band), sums, parameters, Linear(rect.y), Linear(rect.x), tile.at.output,
            y_count=rect.y_count, x_count=rect.x_count, columns=tile.at.tile.outputs, table=table,
        )  # fmt: skip
