"""The simulator's walk over a nest, and who serves whom between two consecutive holders of a tensor."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tileloom import archdsl
from tileloom.archdsl import Keep, Op, Temporal, Tensor, TensorRole

Element = tuple[int, ...]
Time = tuple[int, ...]
Place = tuple[int, ...]
Box = dict[str, range]


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisRule:
    """What one fan-out axis can do for the instances along it."""

    multicast: bool = True
    reduction: bool = True


AxisRules = Mapping[tuple[str, str], AxisRule]


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One instance reaching one node (or the compute unit) at one time.

    Attributes:
        time: Index of every temporal loop above, outermost first.
        place: Index of every spatial loop above, outermost first.
        box: Range of every dim.
    """

    time: Time
    place: Place
    box: Box


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopInfo:
    """One loop with its largest trip count, at its place in the nest."""

    node_idx: int
    dim: str
    bound: int
    axis: tuple[str, str] | None


def tile_elements(tensor: Tensor, box: Box) -> frozenset[Element]:
    """Coordinates of `tensor` that the points of `box` touch, found by visiting every point."""
    per_axis: list[set[int]] = []
    for axis in tensor.axes:
        values: set[int] = set()
        for point in itertools.product(*(box[dim] for dim, _ in axis.terms)):
            values.add(sum(c * x for (_, c), x in zip(axis.terms, point, strict=True)))
        per_axis.append(values)
    return frozenset(itertools.product(*per_axis))


def points(box: Box) -> Iterator[dict[str, int]]:
    """Every point of a box of the iteration space."""
    for values in itertools.product(*box.values()):
        yield dict(zip(box, values, strict=True))


def project(tensor: Tensor, point: Mapping[str, int]) -> Element:
    """The element of `tensor` that one point touches."""
    return tuple(sum(c * point[dim] for dim, c in axis.terms) for axis in tensor.axes)


class Nest:
    """A mapping walked once: every visit of every node."""

    def __init__(self, op: Op, mapping: archdsl.Mapping) -> None:
        self.op = op
        self.nodes = mapping.nodes
        self.compute_idx = len(self.nodes)
        self.visits: dict[int, list[Visit]] = defaultdict(list)
        self._trips: dict[int, int] = defaultdict(int)
        self._walk(0, {dim: range(size) for dim, size in op.dims}, (), ())
        for visits in self.visits.values():
            visits.sort(key=lambda v: (v.time, v.place))
        self.loops = tuple(self._loop_infos())

    def _walk(self, node_idx: int, box: Box, time: Time, place: Place) -> None:
        if node_idx == self.compute_idx or isinstance(self.nodes[node_idx], Keep):
            self.visits[node_idx].append(Visit(time=time, place=place, box=box))
        if node_idx == self.compute_idx:
            return
        node = self.nodes[node_idx]
        if isinstance(node, Keep):
            self._walk(node_idx + 1, box, time, place)
            return
        current = box[node.dim]
        pieces = [current[at : at + node.tile] for at in range(0, len(current), node.tile)]
        self._trips[node_idx] = max(self._trips[node_idx], len(pieces))
        for j, piece in enumerate(pieces):
            inner = {**box, node.dim: piece}
            if isinstance(node, Temporal):
                self._walk(node_idx + 1, inner, (*time, j), place)
            else:
                self._walk(node_idx + 1, inner, time, (*place, j))

    def _loop_infos(self) -> Iterator[LoopInfo]:
        for idx, node in enumerate(self.nodes):
            if not isinstance(node, Keep):
                axis = None if isinstance(node, Temporal) else (node.fanout, node.axis)
                yield LoopInfo(node_idx=idx, dim=node.dim, bound=self._trips[idx], axis=axis)

    def by_time(self, node_idx: int) -> dict[Time, dict[Place, Box]]:
        """Boxes of all instances that reach a node, per time in order."""
        grouped: dict[Time, dict[Place, Box]] = defaultdict(dict)
        for visit in self.visits[node_idx]:
            grouped[visit.time][visit.place] = visit.box
        return grouped

    def temporal_above(self, node_idx: int) -> list[LoopInfo]:
        """Temporal loops above a node, in the order of `Visit.time`."""
        return [loop for loop in self.loops if loop.axis is None and loop.node_idx < node_idx]

    def spatial_above(self, node_idx: int) -> list[LoopInfo]:
        """Spatial loops above a node, in the order of `Visit.place`."""
        return [loop for loop in self.loops if loop.axis is not None and loop.node_idx < node_idx]

    def holders(self, tensor: Tensor) -> list[int]:
        """Indices of the `Keep` nodes of a tensor, outermost first."""
        return [i for i, n in enumerate(self.nodes) if isinstance(n, Keep) and tensor.name in n.tensors]

    def level(self, node_idx: int) -> str:
        """Name of the level of a `Keep` node."""
        node = self.nodes[node_idx]
        assert isinstance(node, Keep)
        return node.level


class Link:
    """A parent holder, its child (a holder or the compute unit) and how tiles go from one to the other."""

    def __init__(self, nest: Nest, tensor: Tensor, parent: int, child: int, axes: AxisRules) -> None:
        self.nest, self.tensor, self.parent, self.child = nest, tensor, parent, child
        self.is_compute = child == nest.compute_idx
        self.num_parent_spatial = len(nest.spatial_above(parent))
        self.between = nest.spatial_above(child)[self.num_parent_spatial :]
        self.axes = axes
        above = nest.temporal_above(child)
        relevant = [i for i, loop in enumerate(above) if loop.dim in tensor.dims and loop.bound > 1]
        self.num_refill_loops = relevant[-1] + 1 if relevant else 0
        self.refill_loop = above[relevant[-1]] if relevant else None
        self.slides = self._slides()

    def _sliding_dims(self, dim: str) -> set[str]:
        """Dims on the sliding axis that `dim` indexes; none when its axis has that one dim."""
        for axis in self.tensor.axes:
            dims = {d for d, _ in axis.terms}
            if dim in dims and len(dims) > 1:
                return dims
        return set()

    def _slides(self) -> bool:
        """Whether a step of the refill loop fetches only what the step before did not leave."""
        if self.is_compute or self.refill_loop is None or self.tensor.role is TensorRole.OUTPUT:
            return False
        dims = self._sliding_dims(self.refill_loop.dim)
        spread = [loop for loop in self.between if loop.dim in dims]
        spread += [
            loop
            for loop in self.nest.spatial_above(self.child)
            if loop.dim == self.refill_loop.dim and loop.node_idx > self.refill_loop.node_idx
        ]
        return bool(dims) and all(loop.bound == 1 for loop in spread)

    def _is_apart(self, loop: LoopInfo) -> bool:
        """Whether the windows of neighbours along a spatial loop are not side by side."""
        inner = self.nest.temporal_above(self.child)
        if self.tensor.role is not TensorRole.OUTPUT:
            inner += [x for x in self.between if x.axis is not None and not self.axes[x.axis].multicast]
        same = [x for x in inner if x.dim == loop.dim and x.node_idx > loop.node_idx and x.bound > 1]
        return bool(same) and bool(self._sliding_dims(loop.dim))

    def apart_key(self, place: Place) -> Place:
        """Instances of one parent with unequal keys hold windows that are not side by side."""
        inner = zip(self.between, place[self.num_parent_spatial :], strict=True)
        return tuple(j for loop, j in inner if self._is_apart(loop))

    def multicast_key(self, place: Place) -> Place:
        """Instances of one parent with equal keys are served by one read."""
        key: list[int] = []
        for loop, j in zip(self.between, place[self.num_parent_spatial :], strict=True):
            assert loop.axis is not None
            if self._is_apart(loop) or not self.axes[loop.axis].multicast:
                key.append(j)
        return tuple(key)

    def reduction_key(self, place: Place) -> Place:
        """Instances of one parent with equal keys have their partial sums added on the way."""
        key: list[int] = []
        for loop, j in zip(self.between, place[self.num_parent_spatial :], strict=True):
            assert loop.axis is not None
            if loop.dim in self.tensor.dims or not self.axes[loop.axis].reduction:
                key.append(j)
        return tuple(key)

    def output_key(self, place: Place) -> Place:
        """Instances of one parent with unequal keys differ in a dim that indexes the tensor."""
        inner = zip(self.between, place[self.num_parent_spatial :], strict=True)
        return tuple(j for loop, j in inner if loop.dim in self.tensor.dims)

    def parent_place(self, place: Place) -> Place:
        """The parent instance of a child instance."""
        return place[: self.num_parent_spatial]
