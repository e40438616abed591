"""The simulator's outputs: every partial sum with its value, moved up and down the holders step by step."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal, get_args

from .sim_nest import Box, Element, Link, Nest, Place, Time, points, project, tile_elements

PartialSumRefills = Literal["one", "every"]
REFILLS: tuple[PartialSumRefills, ...] = get_args(PartialSumRefills)


@dataclass(slots=True, kw_only=True)
class OutputMoves:
    """What moves of the output between one holder and the next, in elements.

    Attributes:
        arrived: Written into the parent, after spatial reduction.
        back: Read from the parent, to be sent down or to be added to.
        sent: Written into child instances when they are refilled.
        asked: What `sent` would be if every element had started already.
        drained: Read from child instances when their tiles leave.
        distinct: Different elements that arrived.
    """

    arrived: int = 0
    back: int = 0
    sent: int = 0
    asked: int = 0
    drained: int = 0
    distinct: int = 0


@dataclass(slots=True)
class _Partial:
    """One element at one holder instance.

    Attributes:
        macs: How many accumulations its value holds.
        is_started: Whether it holds a value at all, or starts from nothing.
        is_lent: Whether its value is with a child instance.
        is_continued: Whether it came from the parent, as a sum to go on with.
        turn: Place in the order of instances that hold the element one after the other.
    """

    macs: int = 0
    is_started: bool = False
    is_lent: bool = False
    is_continued: bool = False
    turn: int = 0


_Content = dict[Element, _Partial]


class _Accumulation:
    """The output's partial sums, moved up and down the holders step by step; the compute unit is the last holder."""

    def __init__(self, nest: Nest, links: list[Link], refills: PartialSumRefills) -> None:
        self.nest, self.tensor, self.links, self.refills = nest, links[0].tensor, links, refills
        # Outputs are accumulated at every step: the compute unit is refilled by all loops.
        at_compute = len(nest.temporal_above(nest.compute_idx))
        self.num_event_loops = [0, *(at_compute if link.is_compute else link.num_refill_loops for link in links)]
        self.content: list[dict[Place, _Content]] = [{} for _ in range(len(links) + 1)]
        self.moves = [OutputMoves() for _ in links]
        self.seen: list[set[Element]] = [set() for _ in links]

    def run(self) -> list[OutputMoves]:
        """Play all steps, then drain everything to the outermost holder and check the sums."""
        chain = [self.links[0].parent, *(link.child for link in self.links)]
        visits = [self.nest.by_time(node_idx) for node_idx in chain]
        depths = [len(self.nest.temporal_above(node_idx)) for node_idx in chain]
        outermost = tile_elements(self.tensor, visits[0][()][()])
        self.content[0][()] = {element: _Partial() for element in sorted(outermost)}
        inner_first = range(len(chain) - 1, 0, -1)
        last: Time | None = None
        for time, boxes in visits[-1].items():
            for h in inner_first:
                if last is not None and last[: self.num_event_loops[h]] != time[: self.num_event_loops[h]]:
                    self._drain(h)
            for h in range(1, len(chain)):
                self._fill(h, visits[h][time[: depths[h]]])
            for place, box in boxes.items():
                self._multiply(place, box)
            last = time
        for h in inner_first:
            self._drain(h)
            self.moves[h - 1].distinct = len(self.seen[h - 1])
        self._check_sums()
        return self.moves

    def _fill(self, h: int, boxes: dict[Place, Box]) -> None:
        """Give every instance without a tile its tile; a started sum goes to one instance of those that ask.

        Where windows overlap without being side by side the instances take turns: each but the first
        is sent what the one before has brought back.
        """
        link, moves = self.links[h - 1], self.moves[h - 1]
        turns: dict[tuple[Place, Element], dict[Place, int]] = defaultdict(dict)
        continuing: set[tuple[Place, Element, Place]] = set()
        for place, box in boxes.items():
            tile = tile_elements(self.tensor, box)
            if place in self.content[h]:
                assert self.content[h][place].keys() == tile, "a tile changed without a refill"
                continue
            parent, turn = link.parent_place(place), self._turn(link, place)
            mine = self.content[h][place] = {element: _Partial() for element in sorted(tile)}
            for element, partial in mine.items():
                above = self.content[h - 1][parent][element]
                order = turns[parent, element]
                is_first_of_turn = turn not in order
                partial.turn = order.setdefault(turn, len(order))
                if (is_first_of_turn and partial.turn > 0) or (above.is_started and not above.is_lent):
                    continuing.add((parent, element, turn))
                    partial.macs, partial.is_started, partial.is_continued = above.macs, True, True
                    above.macs, above.is_lent = 0, above.is_started
                    moves.back += 1
                    moves.sent += 1
                elif self.refills == "every" and (parent, element, turn) in continuing:
                    partial.is_started = True
                    moves.sent += 1
                moves.asked += is_first_of_turn or self.refills == "every"

    def _turn(self, link: Link, place: Place) -> Place:
        """Instances of one parent with unequal keys hold an element one after the other, not at once.

        With `every` all instances with other indices of the output's dims do, so that each instance that
        holds an element finds the sum that is there.
        """
        return link.apart_key(place) if self.refills == "one" else link.output_key(place)

    def _multiply(self, place: Place, box: Box) -> None:
        """One step of one compute instance."""
        for point in points(box):
            partial = self.content[-1][place][project(self.tensor, point)]
            partial.macs += 1
            partial.is_started = True

    def _drain(self, h: int) -> None:
        """Send all tiles of holder `h` to the parents; sums of one reduction group arrive as one."""
        link, moves = self.links[h - 1], self.moves[h - 1]
        arrivals: dict[tuple[Place, Place, Element], list[_Partial]] = defaultdict(list)
        for place, tile in sorted(self.content[h].items()):
            for element, partial in tile.items():
                assert partial.is_started, "an element leaves that no accumulation reached"
                moves.drained += 1
                arrivals[link.parent_place(place), link.reduction_key(place), element].append(partial)
        self.content[h] = {}
        for (parent, _, element), parts in sorted(arrivals.items(), key=_homecoming):
            above = self.content[h - 1][parent][element]
            is_return = any(part.is_continued for part in parts)
            assert is_return or not above.is_lent
            if above.is_started and not is_return:
                moves.back += 1
            moves.arrived += 1
            self.seen[h - 1].add(element)
            above.macs += sum(part.macs for part in parts)
            above.is_started, above.is_lent = True, False

    def _check_sums(self) -> None:
        """Every output element holds exactly the accumulations that belong to it."""
        whole = {dim: range(size) for dim, size in self.nest.op.dims}
        expected: dict[Element, int] = defaultdict(int)
        for point in points(whole):
            expected[project(self.tensor, point)] += 1
        got = {element: partial.macs for element, partial in self.content[0][()].items()}
        assert got == dict(expected), "a partial sum was lost or added twice"


def _homecoming(arrival: tuple[object, list[_Partial]]) -> tuple[int, bool]:
    """In order of turns; within one, what was lent comes first, or it would overwrite what the others brought."""
    _, parts = arrival
    return min(part.turn for part in parts), not any(part.is_continued for part in parts)


def accumulate(nest: Nest, links: list[Link], refills: PartialSumRefills) -> list[OutputMoves]:
    """Moves of the output between each holder and the next; the compute unit is the last.

    Args:
        nest: The walked mapping.
        links: The output's links, outermost first.
        refills: Whether a returning sum is written into one instance of a reduction group or into every one.
    """
    return _Accumulation(nest, links, refills).run()
