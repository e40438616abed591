"""Kernels of chains: ops cut into the same bands of rows, whose intermediates stand on chip for a while, band by band."""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.ir import Operation, SSAValue

from ..ir.tile import SCRATCHPAD, Linear, PlaceOp, ViewOp, bytes_memref
from .activations import Activation, Format, stored_format
from .convolution import Convolution
from .inputs import InputTile, Span, staged_tile
from .links import ConvLink, rects_of, vector_link
from .movement import Box, copy_ops, copy_parameters
from .stages import Absent, Chain, Link, Rows, Stage, bands_of
from .target import Band, Target

Place = tuple[str, int, Format]
"""Memory, first byte and form of an activation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandTiling:
    """How a chain is cut.

    Attributes:
        num_rows: Rows of a band of the result.
        kept: Links whose weights stay in the scratchpad; those of the others come with every band.
        group: Tiles of channels of which second operands from main memory are loaded together; 0 for all.
        cycles: Roughly what it takes; by this tilings are chosen for a trial.
    """

    num_rows: int
    kept: frozenset[int]
    group: int
    cycles: float = 0.0


def format_of(target: Target, stage: Stage) -> Format:
    """How a stage's result stands."""
    return stored_format(
        target.array, (1, stage.work.output_height, stage.work.output_width, stage.outputs)
    )  # fmt: skip


def place_of(activation: Activation) -> Place:
    """What tells activations from each other."""
    return activation.space, activation.address, activation.format


def outside_rows(chain: Chain, band: tuple[Rows, ...]) -> dict[Place, tuple[Activation, Span]]:
    """What a band reads from main memory, all channels of it, and its rows: what the main stages of links read, each once."""
    found: dict[Place, tuple[Activation, Span]] = {}
    for link, rows in zip(chain.links, band, strict=True):
        stage = chain.stages[link.main]
        for activation, source in zip(stage.inputs, stage.sources, strict=True):
            if source is None and not activation.is_local and rows.num:
                span = stage.rows_under(Span(first=rows.first, num=rows.num))
                _add_rows(found, activation, span)
    for link, rows in zip(chain.links, band, strict=True):
        for idx in link.epilogues:
            stage = chain.stages[idx]
            for activation, source in zip(stage.inputs, stage.sources, strict=True):
                if source is None and place_of(activation) in found and rows.num:
                    _add_rows(found, activation, Span(first=rows.first, num=rows.num))
    return found


def _add_rows(found: dict[Place, tuple[Activation, Span]], activation: Activation, span: Span) -> None:
    _, known = found.get(place_of(activation), (activation, span))
    first, end = min(known.first, span.first), max(known.first + known.num, span.first + span.num)
    found[place_of(activation)] = activation, Span(first=first, num=end - first)


def chain_ops(target: Target, chain: Chain, tiling: BandTiling) -> list[Operation]:
    """The loops of a chain: bands of rows outside, then link by link its channels."""
    return _ChainWriter(target, chain, tiling).ops()


class _ChainWriter:
    """Writes the kernel of a chain.

    Attributes:
        bands: Rows of every link, band by band.
        found: The ops so far.
        places: Where a link's result stands, for links whose place has been made.
        weights: Weights that stay, for links whose weights have been staged.
        loaded: Rows of inputs of the program that are there, by their address.
    """

    def __init__(self, target: Target, chain: Chain, tiling: BandTiling) -> None:
        self.target, self.chain, self.tiling = target, chain, tiling
        self.bands = bands_of(chain, tiling.num_rows)
        self.formats = [format_of(target, chain.stages[link.last]) for link in chain.links]
        self.found: list[Operation] = []
        self.places: dict[int, SSAValue] = {}
        self.weights: dict[int, SSAValue] = {}
        self.loaded: dict[int, int] = {}

    def ops(self) -> list[Operation]:
        for band in self.bands:
            staged: dict[Place, InputTile] = {}
            for place, (activation, rows) in outside_rows(self.chain, band).items():
                staged[place], ops = staged_tile(
                    self.target, activation, rows, Span(first=0, num=activation.format.width)
                )  # fmt: skip
                self.found += ops
            for idx, link in enumerate(self.chain.links):
                if band[idx].num:
                    self._link(idx, link, band, staged)
        for absent in (absent for stage in self.chain.stages for absent in stage.absent if absent is not None):
            self._load(absent, absent.local.format.height)  # others may read what no band has needed
        return self.found

    def _link(self, idx: int, link: Link, band: tuple[Rows, ...], staged: dict[Place, InputTile]) -> None:
        rows, stage = band[idx], self.chain.stages[link.main]
        inputs = {
            number: self._inputs(number, link, rows, band, staged) for number in (link.main, *link.epilogues)
        }  # fmt: skip
        output_band = self._output_band(idx, rows)
        rects = rects_of(self.target, rows, stage.work.output_width)
        if isinstance(stage.work, Convolution):
            writer = ConvLink(
                target=self.target, chain=self.chain, link=link, rows=rows, rects=rects, inputs=inputs, band=output_band,
                weights=self._kept_weights(idx, stage.work), group=self.tiling.group,
            )  # fmt: skip
            self.found += writer.ops()
            return
        work = replace(stage.work, output=replace(stage.work.output, band=output_band))
        there = [tile for tile in inputs[link.main] if tile is not None]
        self.found += vector_link(self.target, work, there, rects)

    def _output_band(self, idx: int, rows: Rows) -> Band | None:
        """The place of a link's result, with the rows that stay moved to its beginning."""
        if idx == len(self.chain.links) - 1 or not self.chain.readers(idx):
            return None
        format_ = self.formats[idx]
        if idx not in self.places:
            most, row_bytes = max(band[idx].standing for band in self.bands), format_.width * format_.pixel_bytes
            place = PlaceOp.build(result_types=[bytes_memref(most, row_bytes, SCRATCHPAD, format_.row_bytes)])
            self.found.append(place)
            self.places[idx] = place.result
        buffer, pitch = self.places[idx], format_.row_bytes
        if rows.stays and rows.base > rows.moved_from:
            read = Box(buffer=buffer, begin=(rows.base - rows.moved_from) * pitch, strides=(1,))
            write = Box(buffer=buffer, begin=0, strides=(1,))
            self.found += copy_ops(self.target, (rows.stays * pitch,), read, write, copy_parameters(self.target))
        return Band(buffer=buffer, pixel_bytes=format_.pixel_bytes, row_bytes=pitch, first_row=rows.base)

    def _kept_weights(self, idx: int, conv: Convolution) -> SSAValue | None:
        if idx not in self.tiling.kept:
            return None
        if idx not in self.weights:
            place, ops = self.target.staged(conv.weights, Linear(), conv.weights_bytes)
            self.found += ops
            self.weights[idx] = place.result
        return self.weights[idx]

    # ---- Inputs.

    def _inputs(
        self, number: int, link: Link, rows: Rows, band: tuple[Rows, ...], staged: dict[Place, InputTile]
    ) -> list[InputTile | None]:
        """Where a stage finds its inputs; None for those that come tile by tile."""
        stage, found = self.chain.stages[number], list[InputTile | None]()
        for activation, source, absent in zip(stage.inputs, stage.sources, stage.absent, strict=True):
            if source is not None:
                is_there = source not in (link.main, *link.epilogues)
                found.append(self._made(self.chain.link_of(source), band) if is_there else None)
            elif activation.is_local:
                if absent is not None:
                    span = stage.rows_under(Span(first=rows.first, num=rows.num))
                    is_viewed = activation.format.height != absent.local.format.height
                    self._load(absent, absent.local.format.height if is_viewed else span.first + span.num)
                found.append(InputTile(buffer=self.target.buffers.of(activation)))
            else:
                found.append(staged.get(place_of(activation)))
        return found

    def _load(self, absent: Absent, end: int) -> None:
        """Loads an input of the program up to some row."""
        first = self.loaded.get(absent.local.address, absent.first)
        if end > first:
            self.found += self.target.copied(absent.memory, absent.local, first, end - first)
            self.loaded[absent.local.address] = end

    def _made(self, idx: int, band: tuple[Rows, ...]) -> InputTile:
        """What a link has made; rows behind those that are there are outside, as they are behind the whole result."""
        rows, format_, buffer = band[idx], self.formats[idx], self.places[idx]
        most = max(other[idx].standing for other in self.bands)
        if rows.standing < most:
            view = ViewOp(buffer, 0, rows.standing, format_.width * format_.pixel_bytes, format_.row_bytes)
            self.found.append(view)
            buffer = view.result
        return InputTile(buffer=buffer, first_row=rows.base)
