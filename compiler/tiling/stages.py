"""Ops that are cut together, depth first: each with what it reads, and which rows of it are there when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .activations import Activation
from .convolution import Convolution
from .inputs import Span, span_of
from .vectors import VectorWork


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """An input of the program that is to stand in the scratchpad, and is not there yet.

    Attributes:
        memory, local: From where to where it is loaded.
        first: The first row that is not there.
    """

    memory: Activation
    local: Activation
    first: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One op of a chain, on one image.

    Attributes:
        work: What it computes.
        sources: Per input the earlier stage that makes it; None for what comes from outside.
        absent: Per input what must still be loaded, for what comes from outside.
    """

    work: Convolution | VectorWork
    sources: tuple[int | None, ...]
    absent: tuple[Absent | None, ...]

    @property
    def inputs(self) -> tuple[Activation, ...]:
        """Its inputs; those that other stages make have a format and no place."""
        return (self.work.input,) if isinstance(self.work, Convolution) else self.work.inputs

    @property
    def outputs(self) -> int:
        """Its output channels."""
        return self.work.outputs if isinstance(self.work, Convolution) else self.work.channels

    @property
    def is_elementwise(self) -> bool:
        """Whether each output is made of the inputs at its own place alone."""
        work = self.work
        return (
            isinstance(work, VectorWork) and work.reach == work.window.strides == (1, 1)
            and not any(work.window.pads) and work.operation == "add" and all(tap.times is None for tap in work.taps)
        )  # fmt: skip

    def rows_under(self, rows: Span) -> Span:
        """The rows of its inputs that some rows of its output need."""
        work, height = self.work, self.inputs[0].format.height
        if isinstance(work, Convolution):
            kernel, dilation = work.height, work.window.dilations[0]
        else:
            kernel, dilation = work.reach[0], 1
        return span_of(rows.first, rows.num, kernel, work.window.strides[0], dilation, work.window.pads[0], height)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A stage, and those behind it that take each tile of it at once.

    Attributes:
        main: Index of the stage.
        epilogues: Indices of elementwise stages behind a convolution.
    """

    main: int
    epilogues: tuple[int, ...] = ()

    @property
    def last(self) -> int:
        """The stage that makes its result."""
        return self.epilogues[-1] if self.epilogues else self.main


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Stages that are cut into the same bands of rows.

    Attributes:
        stages: In their order; the last one makes the result.
        links: The same, in groups.
    """

    stages: tuple[Stage, ...]
    links: tuple[Link, ...]

    @staticmethod
    def of(stages: Sequence[Stage]) -> Chain:
        """The chain of some stages."""
        readers = [sum(idx in stage.sources for stage in stages) for idx in range(len(stages))]
        links: list[Link] = []
        for idx, stage in enumerate(stages):
            last = links[-1].last if links else -1
            if (
                links and isinstance(stages[links[-1].main].work, Convolution) and stage.is_elementwise
                and stage.sources.count(last) == readers[last] == 1
            ):  # fmt: skip
                links[-1] = Link(main=links[-1].main, epilogues=(*links[-1].epilogues, idx))
            else:
                links.append(Link(main=idx))
        return Chain(stages=tuple(stages), links=tuple(links))

    def link_of(self, stage: int) -> int:
        """The link whose result a stage makes."""
        return next(idx for idx, link in enumerate(self.links) if link.last == stage)

    def main(self, link: int) -> Stage:
        """A link's first stage."""
        return self.stages[self.links[link].main]

    def readers(self, link: int) -> list[int]:
        """The links that read a link's result."""
        last = self.links[link].last
        return [
            idx for idx, other in enumerate(self.links)
            if any(last in self.stages[stage].sources for stage in (other.main, *other.epilogues)) and idx != link
        ]  # fmt: skip

    def is_kept(self, link: int) -> bool:
        """Whether all of what a link makes is stored beside its bands, so that no row may be left out."""
        some = (self.links[link].main, *self.links[link].epilogues)
        return any(self.stages[stage].work.output.targets for stage in some)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of a link's result for one band of the chain's result.

    Attributes:
        base: The row that stands first in the link's place.
        first, end: The rows that are computed; none where they are equal.
        stays: Rows from `base` on that are there from the band before.
        moved_from: The row that stood first until then.
    """

    base: int
    first: int
    end: int
    stays: int
    moved_from: int

    @property
    def num(self) -> int:
        """How many are computed."""
        return self.end - self.first

    @property
    def standing(self) -> int:
        """Rows that are there once they are computed."""
        return self.end - self.base


def bands_of(chain: Chain, num_rows: int) -> list[tuple[Rows, ...]]:
    """Per band of the result, the rows of every link: rows that two bands need are computed once, and stay.

    Args:
        chain: The chain.
        num_rows: Rows of a band of the result.
    """
    num, height = len(chain.links), chain.stages[-1].work.output_height
    readers = [chain.readers(link) for link in range(num)]
    kept = [chain.is_kept(link) for link in range(num)]
    done, base = [0] * num, [0] * num
    found: list[tuple[Rows, ...]] = []
    for begin in range(0, height, num_rows):
        band: dict[int, Rows] = {}
        for link in reversed(range(num)):
            full = chain.main(link).work.output_height
            if link == num - 1:
                low, first, end = begin, begin, min(begin + num_rows, height)
            else:
                spans = [_read(chain, link, reader, band[reader]) for reader in readers[link]]
                low = min((span.first for span in spans), default=base[link])
                end = max([done[link], *(span.first + span.num for span in spans if span.num)])
                if kept[link]:
                    low = min(low, done[link])
                    end = full if begin + num_rows >= height else end
                first = max(low, done[link])
            if end <= first:
                low, first, end = base[link], done[link], done[link]
            band[link] = Rows(
                base=low, first=first, end=end, stays=max(0, done[link] - low), moved_from=base[link]
            )  # fmt: skip
            done[link], base[link] = end, low
        found.append(tuple(band[link] for link in range(num)))
    return found


def _read(chain: Chain, link: int, reader: int, rows: Rows) -> Span:
    """The rows of a link's result that another link reads for some rows; none, from where it goes on, if there are no rows."""
    last, spans = chain.links[link].last, list[Span]()
    wanted = Span(first=rows.first, num=max(1, rows.num))
    if last in chain.main(reader).sources:
        spans.append(chain.main(reader).rows_under(wanted))
    if any(last in chain.stages[stage].sources for stage in chain.links[reader].epilogues):
        spans.append(wanted)
    first = min(span.first for span in spans)
    return Span(first=first, num=(max(span.first + span.num for span in spans) - first) * bool(rows.num))
