"""Turns a candidate of the search into a mapping with explicit loops."""

from __future__ import annotations

from collections.abc import Sequence

from ...archdsl import Keep, Mapping, MappingNode, Spatial, Temporal
from ...models import AxisInfo
from .candidates import Candidate
from .placement import Chain
from .problem import Problem
from .spatial import SpreadTable


def build_mapping(problem: Problem, table: SpreadTable, candidate: Candidate) -> Mapping:
    """Writes out loops and keeps, outermost first.

    Args:
        problem: The problem.
        table: The spread table that the candidate's row refers to.
        candidate: The candidate.
    """
    packing = table.packing(candidate.row)
    outermost = problem.hierarchy.levels[0].name
    nodes: list[MappingNode] = [Keep(level=outermost, tensors=tuple(info.tensor.name for info in problem.tensors))]
    writer = _Writer(problem, nodes)
    # Extents inward, in elements: of the outermost segment as they are, of others times what lies below.
    num_segments = problem.num_fanouts + 1
    below = _bottoms(problem, packing, candidate)
    writer.segment(candidate.outer.chain, candidate.outer.at, below[0])
    for segment in range(1, num_segments):
        axes = [entry for entry in packing if entry[0].fanout_idx == segment - 1]
        choice = candidate.inner[segment - 1]
        scale = below[segment]
        top = [t * s for t, s in zip(choice.top, scale, strict=True)]
        writer.spatial(axes, top)
        at = [tuple(x * s for x, s in zip(site, scale, strict=True)) for site in choice.at]
        writer.segment(choice.chain, at, below[segment])
    return Mapping(nodes=tuple(nodes))


def _bottoms(
    problem: Problem, packing: Sequence[tuple[AxisInfo, int, int]], candidate: Candidate
) -> list[tuple[int, ...]]:
    """Per segment the extents below it."""
    num_segments = problem.num_fanouts + 1
    found: list[tuple[int, ...]] = [()] * num_segments
    below = [1] * len(problem.sizes)
    for segment in range(num_segments - 1, 0, -1):
        found[segment] = tuple(below)
        below = [b * t for b, t in zip(below, candidate.inner[segment - 1].top, strict=True)]
        for axis, dim, factor in packing:
            if axis.fanout_idx == segment - 1:
                below[dim] *= factor
    found[0] = tuple(below)
    return found


class _Writer:
    """Appends nodes while tracking each dim's current extent."""

    def __init__(self, problem: Problem, nodes: list[MappingNode]) -> None:
        self.problem = problem
        self.nodes = nodes
        self.extents = list(problem.sizes)

    def segment(self, chain: Chain, at: Sequence[Sequence[int]], bottom: Sequence[int]) -> None:
        """Loops down to every holder of a segment, then to what lies below it."""
        for point, slides, extents in zip(chain.points, chain.slides, at, strict=True):
            info = self.problem.tensors[point.tensor]
            self._loops(extents, info.related, slides)
            if point.level != self.problem.latch and not point.is_raised:
                self._keep(self.problem.hierarchy.levels[point.level].name, info.tensor.name)
        self._loops(bottom, frozenset(), ())

    def _loops(self, extents: Sequence[int], related: frozenset[int], slides: tuple[int, ...]) -> None:
        """Temporal loops: those that do not index the tensor outside, the sliding one innermost."""
        order = sorted(range(len(extents)), key=lambda dim: (dim in slides, dim in related, dim))
        for dim in order:
            if extents[dim] < self.extents[dim]:
                self.nodes.append(Temporal(dim=self.problem.dims[dim], tile=extents[dim]))
                self.extents[dim] = extents[dim]

    def _keep(self, level: str, tensor: str) -> None:
        last = self.nodes[-1]
        if isinstance(last, Keep) and last.level == level:
            self.nodes[-1] = Keep(level=level, tensors=(*last.tensors, tensor))
        else:
            self.nodes.append(Keep(level=level, tensors=(tensor,)))

    def spatial(self, axes: Sequence[tuple[AxisInfo, int, int]], top: Sequence[int]) -> None:
        """Spatial loops of one fan-out; axes that do not share what they carry stand outside."""
        for axis, dim, factor in sorted(axes, key=lambda entry: (entry[0].multicast, entry[0].reduction)):
            inner = self._inside(axes, axis, dim, top)
            if self.extents[dim] > inner:
                self.nodes.append(Spatial(dim=self.problem.dims[dim], tile=inner, fanout=axis.fanout, axis=axis.name))
                self.extents[dim] = inner
            del factor

    def _inside(self, axes: Sequence[tuple[AxisInfo, int, int]], axis: AxisInfo, dim: int, top: Sequence[int]) -> int:
        """Extent of a dim inside one of its spatial loops."""
        ordered = sorted(axes, key=lambda entry: (entry[0].multicast, entry[0].reduction))
        at = next(i for i, entry in enumerate(ordered) if entry[0] == axis and entry[1] == dim)
        extent = top[dim]
        for _, other, factor in ordered[at + 1 :]:
            if other == dim:
                extent *= factor
        return extent
