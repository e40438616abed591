"""How a chain is cut: bands of rows, weights that stay, and channels of second operands that are loaded together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...archdsl import ceil_div
from ..codegen.ordering import IDLE_FACTOR, LOADS_AHEAD
from .activations import Activation, aligned
from .bands import BandTiling, chain_ops, format_of, outside_rows, place_of
from .convolution import Convolution
from .inputs import staged_bytes
from .links import can_slice, rects_of
from .loops import equal_parts
from .stages import Chain, Rows, Stage, bands_of
from .target import PIECE_BEATS, Target
from .trials import timed
from .vectors import VectorWork

FINALISTS = 2
"""Tilings of a chain that are tried."""
TILES_IN_TURN = 3
"""Tiles of a convolution that stand on chip at once for the elementwise ops behind it: one is stored, one is read, one is
left for the next."""


def choose_band_tiling(target: Target, chain: Chain, most_cycles: float = math.inf) -> tuple[BandTiling, float] | None:
    """The fastest tiling of those that promise most and its cycles; chains of one shape are asked once.

    Args:
        target, chain: What is made.
        most_cycles: What must be promised at least.

    Returns:
        None where no tiling fits, or promises that.
    """
    key = key_of(target, chain)
    if key not in target.choices:
        tilings = [tiling for tiling in _tilings(target, chain) if tiling.cycles <= most_cycles]
        tilings.sort(key=lambda tiling: (tiling.cycles, -len(tiling.kept), -tiling.num_rows))
        chosen = None
        if tilings:
            chosen = timed(target, tilings[:FINALISTS], lambda tiling: chain_ops(target, chain, tiling))
        target.choices[key] = None if chosen is None or chosen[1] == math.inf else chosen
    return target.choices[key]


def key_of(target: Target, chain: Chain) -> object:
    """Equal for chains that differ only in their numbers and where they stand."""
    stages: list[object] = []
    for stage in chain.stages:
        work = stage.work
        inputs = tuple((place.format, place.is_local) for place in stage.inputs)
        outputs = tuple((place.format, place.is_local) for place in work.output.targets)
        sizes = work.output_height, work.output_width, stage.outputs, work.window
        if isinstance(work, Convolution):
            own: tuple[object, ...] = work.height, work.width, work.tiles, work.weight_bits
        else:
            own = len(work.taps), work.reach, work.operation, work.weight_bytes, work.output.table is None
        same = tuple(place_of(place) == place_of(chain.stages[0].inputs[0]) for place in stage.inputs)
        loads = tuple(absent and absent.first for absent in stage.absent)
        stages.append((inputs, stage.sources, same, loads, outputs, sizes, own))
    return ("chain", *stages, target.staging)


def _tilings(target: Target, chain: Chain) -> Iterator[BandTiling]:
    height = chain.stages[-1].work.output_height
    sizes = {
        equal_parts(height, num) for num in (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64, 128, 256) if num <= height
    }
    for num_rows in sorted({*sizes, height}):
        bands = bands_of(chain, num_rows)
        for group in _groups(target, chain, bands):
            room = target.staging_bytes - _places_bytes(target, chain, bands, group)
            for kept in _kept_sets(target, chain, len(bands), room):
                cycles = _cycles(target, chain, bands, kept, group)
                yield BandTiling(num_rows=num_rows, kept=kept, group=group, cycles=cycles)


def _kept_sets(target: Target, chain: Chain, num_bands: int, room: int) -> Iterator[frozenset[int]]:
    """Links whose weights stay: none, and the smallest as far as they fit beside those that stream."""
    sizes: dict[int, tuple[int, int]] = {}
    for idx, link in enumerate(chain.links):
        work = chain.stages[link.main].work
        if isinstance(work, Convolution):
            block = max(tile.weights_bytes for tile in work.tiles)
            sizes[idx] = work.weights_bytes, min(2, len(work.tiles)) * block
    order = sorted(sizes, key=lambda idx: sizes[idx])
    for num in range(len(order) + 1 if num_bands > 1 else 1):
        streaming = max((sizes[idx][1] for idx in order[num:]), default=0)
        if sum(sizes[idx][0] for idx in order[:num]) + streaming <= room:
            yield frozenset(order[:num])


def _groups(target: Target, chain: Chain, bands: Sequence[tuple[Rows, ...]]) -> list[int]:
    """All channels of second operands at once, or as few as keep the bus busy: rows as long as main memory's latency allows."""
    array = target.array
    if not any(_sides(chain, bands)):
        return [0]
    beats = ceil_div(array.latency_cycles, array.requests_in_flight * array.cycles_per_beat)
    least = max(2, ceil_div(beats * array.bus_bytes, target.columns))
    return [
        0,
        *(
            group
            for group in (least, 2 * least)
            if all(can_slice(target, side, group) for side in _sides(chain, bands))
        ),
    ]


def _sides(chain: Chain, bands: Sequence[tuple[Rows, ...]]) -> Iterator[Activation]:
    """Second operands in main memory that nothing else of the chain stages."""
    staged = outside_rows(chain, bands[0])
    for link in chain.links:
        for number in link.epilogues:
            stage = chain.stages[number]
            for place, source in zip(stage.inputs, stage.sources, strict=True):
                if source is None and not place.is_local and place_of(place) not in staged:
                    yield place


def _side_bytes(target: Target, chain: Chain, bands: Sequence[tuple[Rows, ...]], rows: int, group: int) -> int:
    total = 0
    for place in _sides(chain, bands):
        whole = staged_bytes(target, place, rows, place.format.width)
        total += min(whole, rows * place.format.width * group * target.columns) if group else whole
    return total


def _places_bytes(target: Target, chain: Chain, bands: Sequence[tuple[Rows, ...]], group: int) -> int:
    """Room for all but weights of convolutions: what is loaded twice over, so that the next is on its way."""
    copies, total = 2 if len(bands) > 1 else 1, 0
    most: dict[object, int] = {}
    for band in bands:
        for place, (activation, span) in outside_rows(chain, band).items():
            most[place] = max(most.get(place, 0), staged_bytes(target, activation, span.num, activation.format.width))
    total += copies * sum(most.values())
    rows = max(band[-1].num for band in bands)
    total += max(copies, 2 if group else 1) * _side_bytes(target, chain, bands, rows, group)
    weights = 0
    for idx, link in enumerate(chain.links):
        stage, last = chain.stages[link.main], chain.stages[link.last]
        if idx < len(chain.links) - 1:
            total += max(band[idx].standing for band in bands) * format_of(target, last).row_bytes
        if link.epilogues:
            vectors = max(
                rect.y_count * rect.x_count
                for band in bands if band[idx].num
                for rect in rects_of(target, band[idx], stage.work.output_width)
            )  # fmt: skip
            total += TILES_IN_TURN * vectors * target.columns
        for number in (link.main, *link.epilogues):
            work = chain.stages[number].work
            weights = max(weights, 2 * work.weight_bytes if isinstance(work, VectorWork) else 0)
    return aligned(total + weights, target.array.vector_bytes)


def _cycles(
    target: Target, chain: Chain, bands: Sequence[tuple[Rows, ...]], kept: frozenset[int], group: int
) -> float:  # fmt: skip
    """The busier of array and bus, and what the array waits for all of what is needed at once.

    Loads run some way ahead of what needs them, and what is longer than that way is waited for. Loads keep their order, so that
    weights that come tile by tile stand behind second operands that are not needed yet.
    """
    array, compute, moved, waited = target.array, 0, 0, 0
    ahead = LOADS_AHEAD * IDLE_FACTOR * PIECE_BEATS * array.bus_bytes
    for band in bands:
        staged = sum(
            staged_bytes(target, activation, span.num, activation.format.width)
            for activation, span in outside_rows(chain, band).values()
        )
        moved, waited = moved + staged, waited + max(0, staged - ahead)
        for idx, link in enumerate(chain.links):
            if not band[idx].num:
                continue
            width, main = chain.stages[link.main].work.output_width, chain.stages[link.main].work
            vectors = [rect.y_count * rect.x_count for rect in rects_of(target, band[idx], width)]
            for number in (link.main, *link.epilogues):
                stage = chain.stages[number]
                compute += walk_cycles(target, stage, vectors, is_behind=number != link.main)
                stored = sum(not place.is_local for place in stage.work.output.targets)
                moved += stored * band[idx].num * width * stage.outputs
                moved += ceil_div(stage.outputs, target.columns) * target.slot_bytes
            if link.epilogues:
                sides = _side_bytes(target, chain, bands, band[idx].num, 0)
                num = ceil_div(ceil_div(chain.stages[link.main].outputs, target.columns), group) if group else 1
                moved += sides
                waited += max(0, sides - ahead * num) if idx in kept else sides
            if isinstance(main, Convolution) and (idx not in kept or band is bands[0]):
                moved += main.weights_bytes
                waited += max(0, main.weights_bytes - ahead) if idx in kept else 0
    beat = array.cycles_per_beat / array.bus_bytes
    return max(compute + waited * beat, moved * beat)


def walk_cycles(target: Target, stage: Stage, vectors: Sequence[int], *, is_behind: bool = False) -> int:
    """Cycles of the array or the vector unit for tiles of so many vectors, for all channels.

    Args:
        target, stage: What is computed.
        vectors: Of each tile.
        is_behind: Whether the vector unit takes turns with the array, and each time waits until that is empty.
    """
    array, work = target.array, stage.work
    if isinstance(work, Convolution):
        return work.num_vectors(array.rows) * sum(max(one, array.rows + 1) for one in vectors)
    empty = (array.rows + array.cols + 1) * is_behind
    return ceil_div(stage.outputs, target.columns) * sum(len(work.taps) * one + empty for one in vectors)
