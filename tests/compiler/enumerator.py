"""Every mapping of a tiny op on a tiny architecture, and the best of them; shares nothing with the mapper.

The space: per dim every chain of tiles whose outermost loop may be ragged and whose inner loops divide; every
order of loops; every tensor's keep nodes anywhere between them, or left out; every spread of the dims over
the axes, several dims on one axis and several axes for one dim; temporal loops outside, between and inside
spatial ones.

Left out is only what cannot lower the best value (`per_use` or `per_refill` at the compute unit):

1. Neighbouring keep nodes commute, and a keep node commutes with a temporal loop that does not index its
   tensor: neither its tile nor its refill loop changes. Each stands as far out as it can.
2. A temporal loop directly inside another over the same dim: the two as one loop refill no more.
3. Below the last keep node and spatial loop only the compute unit follows. With `per_use` it is served at
   every step, so that order is immaterial; with `per_refill`, of two loops over one dim the outer may move
   in to the inner: tensors that the dim indexes are refilled as before, others no more often.
4. A spatial loop commutes with temporal loops over other dims: it stands as far out as it can. Spatial loops
   over different dims commute.
5. A spatial loop directly inside another over the same dim on the same axis: the two as one take no more room.
6. Tiles that do not fit are dropped at their keep node: nothing further in changes them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from tileloom.archdsl import Keep, Mapping, MappingNode, Op, Spatial, SpatialArch, Temporal, ceil_div
from tileloom.models import (
    CONVENTIONS,
    Convention,
    Holder,
    Nest,
    NestLoop,
    count,
    hierarchy_of,
    make_nest,
    prices_of,
    resolve,
)

from ..random_cases import AxisSpec, segments

Objective = Literal["energy", "latency", "edp", "main_memory_bytes"]
FloatArray = npt.NDArray[np.float64]


class TooManyMappingsError(Exception):
    """The space is larger than the caller wants to walk."""


@dataclass(frozen=True, slots=True)
class KeepAt:
    """Tensor `tensor` is kept at level `level`; both are indices."""

    level: int
    tensor: int


@dataclass(frozen=True, slots=True)
class LoopOver:
    """A loop over a dim; `axis` is an index into the axes of all fan-outs, or None for a temporal loop."""

    dim: str
    tile: int
    axis: int | None = None


Step = KeepAt | LoopOver


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best mapping of the space.

    Attributes:
        value: Its objective.
        mapping: The first one found that has it.
        num_mappings: Mappings that were evaluated.
    """

    value: float
    mapping: Mapping
    num_mappings: int


@dataclass(slots=True)
class _State:
    """The nest built so far.

    Attributes:
        steps: Its nodes below the outermost memory's.
        extents: Extent of every dim.
        is_cut: Dims that have a loop already, so that their tiles must divide from now on.
        segment: Fan-outs passed: only levels below them may still be kept.
        kept_segment: Fan-outs outside the innermost level kept so far: their loops may not come any more.
        last_level: Innermost level that holds each tensor.
        free_bytes: Capacity left per level; None is unbounded.
        room: Instances left on each axis.
    """

    steps: list[Step]
    extents: dict[str, int]
    is_cut: set[str]
    segment: int
    kept_segment: int
    last_level: list[int]
    free_bytes: list[int | None]
    room: list[int]


@dataclass(slots=True, kw_only=True)
class Enumerator:
    """Walks all nests of one op on one architecture.

    Attributes:
        op: The op.
        arch: The architecture.
        orders_matter: Whether the order of the innermost loops matters (`per_refill`).
        is_nested: Whether levels below a fan-out are kept inside those above it even when no loop is
            spread over that fan-out.
        most: Stop with `TooManyMappingsError` above this many mappings.
    """

    op: Op
    arch: SpatialArch
    orders_matter: bool = False
    is_nested: bool = True
    most: int = 1_000_000
    num_found: int = 0
    segment_of: list[int] = field(default_factory=list[int])
    axes: list[AxisSpec] = field(default_factory=list[AxisSpec])
    fanout_of: list[int] = field(default_factory=list[int])
    must_keep: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])
    tensor_dims: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    axis_dims: list[list[str]] = field(default_factory=list[list[str]])
    dims: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        levels, axes = segments(self.arch)
        self.segment_of = [idx for idx, names in enumerate(levels) for _ in names]
        self.axes = [axis for fan in axes for axis in fan]
        self.fanout_of = [idx for idx, fan in enumerate(axes) for _ in fan]
        self.dims = [dim for dim, size in self.op.dims if size > 1]
        self.tensor_dims = [tensor.dims for tensor in self.op.tensors]
        self.axis_dims = [[d for d in self.dims if self.op.dim_class(d) in axis.dim_classes] for axis in self.axes]
        self.must_keep = {
            (level, idx)
            for level, memory in enumerate(self.arch.memories)
            for idx, tensor in enumerate(self.op.tensors)
            if level > 0 and tensor.role in memory.must_keep
        }

    def walk(self) -> Iterator[list[Step]]:
        """Every nest, as the steps below the outermost memory's keep node. The list is reused."""
        capacities: list[int | None] = []
        for memory in self.arch.memories:
            usable = memory.capacity_bytes
            capacities.append(usable // 2 if usable is not None and memory.double_buffered else usable)
        state = _State(
            steps=[],
            extents=self.op.sizes,
            is_cut=set(),
            segment=0,
            kept_segment=0,
            last_level=[0] * len(self.op.tensors),
            free_bytes=capacities,
            room=[axis.size for axis in self.axes],
        )
        yield from self._extend(state)

    def _extend(self, state: _State) -> Iterator[list[Step]]:
        last = state.steps[-1] if state.steps else None
        if not (isinstance(last, LoopOver) and last.axis is None):
            yield from self._finish(state)
        yield from self._keeps(state, last)
        yield from self._temporals(state, last)
        yield from self._spatials(state, last)

    def _finish(self, state: _State) -> Iterator[list[Step]]:
        if not self._keeps_what_it_must(state):
            return
        rest = [LoopOver(dim, 1) for dim, extent in state.extents.items() if extent > 1]
        for order in itertools.permutations(rest) if self.orders_matter else [rest]:
            self.num_found += 1
            if self.num_found > self.most:
                raise TooManyMappingsError
            state.steps.extend(order)
            yield state.steps
            del state.steps[len(state.steps) - len(rest) :]

    def _keeps_what_it_must(self, state: _State) -> bool:
        kept = {(step.level, step.tensor) for step in state.steps if isinstance(step, KeepAt)}
        return self.must_keep <= kept

    def _keeps(self, state: _State, last: Step | None) -> Iterator[list[Step]]:
        loop = next((step for step in reversed(state.steps) if isinstance(step, LoopOver)), None)
        for level, memory in enumerate(self.arch.memories):
            if level == 0 or self.segment_of[level] < state.segment:
                continue
            for idx, tensor in enumerate(self.op.tensors):
                if tensor.role not in memory.keeps or level <= state.last_level[idx]:
                    continue
                if isinstance(last, KeepAt) and (level, idx) <= (last.level, last.tensor):
                    continue
                if not self._is_keep_furthest_out(state, loop, level, idx):
                    continue
                room = state.free_bytes[level]
                needed = ceil_div(self.op.elements(tensor, state.extents) * tensor.bits, 8)
                if room is not None and needed > room:
                    continue
                yield from self._with_keep(state, KeepAt(level, idx), needed)

    def _is_keep_furthest_out(self, state: _State, loop: LoopOver | None, level: int, tensor_idx: int) -> bool:
        if loop is None or loop.axis is not None or loop.dim in self.tensor_dims[tensor_idx]:
            return True
        run = itertools.takewhile(lambda step: isinstance(step, KeepAt), reversed(state.steps))
        held = [self.segment_of[step.level] for step in run if isinstance(step, KeepAt)]
        return self.is_nested and any(segment < self.segment_of[level] for segment in held)

    def _with_keep(self, state: _State, step: KeepAt, needed: int) -> Iterator[list[Step]]:
        segment, kept_segment = state.segment, state.kept_segment
        holder, room = state.last_level[step.tensor], state.free_bytes[step.level]
        state.steps.append(step)
        if self.is_nested:
            state.segment = self.segment_of[step.level]
        state.kept_segment = max(kept_segment, self.segment_of[step.level])
        state.last_level[step.tensor] = step.level
        state.free_bytes[step.level] = None if room is None else room - needed
        yield from self._extend(state)
        state.steps.pop()
        state.segment, state.kept_segment = segment, kept_segment
        state.last_level[step.tensor], state.free_bytes[step.level] = holder, room

    def _tiles(self, state: _State, dim: str) -> list[int]:
        extent = state.extents[dim]
        return [t for t in range(1, extent) if dim not in state.is_cut or extent % t == 0]

    def _temporals(self, state: _State, last: Step | None) -> Iterator[list[Step]]:
        for dim in self.dims:
            if isinstance(last, LoopOver) and last.axis is None and last.dim == dim:
                continue
            for tile in self._tiles(state, dim):
                yield from self._with_loop(state, LoopOver(dim, tile))

    def _spatials(self, state: _State, last: Step | None) -> Iterator[list[Step]]:
        for axis_idx, dims in enumerate(self.axis_dims):
            fanout = self.fanout_of[axis_idx]
            if fanout + 1 < state.segment or fanout < state.kept_segment:
                continue
            for dim in dims:
                if not self._is_furthest_out(last, dim, axis_idx):
                    continue
                for tile in self._tiles(state, dim):
                    if ceil_div(state.extents[dim], tile) <= state.room[axis_idx]:
                        yield from self._with_loop(state, LoopOver(dim, tile, axis_idx))

    def _is_furthest_out(self, last: Step | None, dim: str, axis_idx: int) -> bool:
        if not isinstance(last, LoopOver):
            return True
        if last.axis is None:
            return last.dim == dim
        if last.dim == dim:
            return last.axis != axis_idx and self.fanout_of[last.axis] <= self.fanout_of[axis_idx]
        return (last.axis, last.dim) < (axis_idx, dim)

    def _with_loop(self, state: _State, step: LoopOver) -> Iterator[list[Step]]:
        extent, was_cut, segment = state.extents[step.dim], step.dim in state.is_cut, state.segment
        state.steps.append(step)
        state.extents[step.dim] = step.tile
        state.is_cut.add(step.dim)
        if step.axis is not None:
            room = state.room[step.axis]
            state.room[step.axis] = room // ceil_div(extent, step.tile)
            state.segment = self.fanout_of[step.axis] + 1
            yield from self._extend(state)
            state.room[step.axis] = room
        else:
            yield from self._extend(state)
        state.steps.pop()
        state.extents[step.dim], state.segment = extent, segment
        if not was_cut:
            state.is_cut.discard(step.dim)

    def mapping(self, steps: list[Step]) -> Mapping:
        """Steps as a mapping."""
        nodes: list[MappingNode] = [
            Keep(level=self.arch.memories[0].name, tensors=tuple(t.name for t in self.op.tensors))
        ]
        for step in steps:
            if isinstance(step, KeepAt):
                level, tensor = self.arch.memories[step.level].name, self.op.tensors[step.tensor].name
                nodes.append(Keep(level=level, tensors=(tensor,)))
            elif step.axis is None:
                nodes.append(Temporal(dim=step.dim, tile=step.tile))
            else:
                axis = self.axes[step.axis]
                nodes.append(Spatial(dim=step.dim, tile=step.tile, fanout=axis.fanout, axis=axis.name))
        return Mapping(nodes=tuple(nodes))


_Run = tuple[int, str, tuple[LoopOver, ...], tuple[LoopOver, ...]]


def _dim(loop: LoopOver) -> str:
    return loop.dim


@dataclass(slots=True)
class _Table:
    """Traffic per tensor of many nests, [rows, levels], with the steps and instances of each."""

    read: FloatArray
    write: FloatArray
    instances: FloatArray
    held: FloatArray
    steps: FloatArray


class _Evaluator:
    """Prices nests. A tensor's traffic depends on the loops and its own keep nodes alone, so it is counted once for
    all nests that have these in common.
    """

    def __init__(self, walker: Enumerator, convention: Convention) -> None:
        self.walker, self.convention = walker, convention
        self.hierarchy = hierarchy_of(walker.arch)
        self.rows: dict[tuple[int, tuple[_Run, ...]], int] = {}
        self.nest_of_row: list[tuple[int, tuple[Step, ...]]] = []
        self.nests: list[tuple[Step, ...]] = []
        self.parts: list[list[int]] = []

    def add(self, steps: list[Step]) -> None:
        """Takes a nest."""
        self.nests.append(tuple(steps))
        parts: list[int] = []
        for idx in range(len(self.walker.op.tensors)):
            own = tuple(step for step in steps if isinstance(step, LoopOver) or step.tensor == idx)
            key = idx, self._runs(own, idx)
            if key not in self.rows:
                self.rows[key] = len(self.rows)
                self.nest_of_row.append((idx, own))
            parts.append(self.rows[key])
        self.parts.append(parts)

    def _runs(self, steps: tuple[Step, ...], tensor_idx: int) -> tuple[_Run, ...]:
        """The loops between the keep nodes of a tensor, in an order of their own where order does not matter to it.

        What matters is the order of loops over one dim, the last temporal loop of a run that indexes the
        tensor (it refills what is kept next), and which loops come after it.
        """
        runs: list[_Run] = []
        run: list[LoopOver] = []
        for step in (*steps, None):
            if isinstance(step, LoopOver):
                run.append(step)
                continue
            matters = step is not None or self.walker.orders_matter
            relevant = (i for i, x in enumerate(run) if x.axis is None and x.dim in self.walker.tensor_dims[tensor_idx])
            refill = max(relevant, default=-1) if matters else -1
            level = len(self.hierarchy.levels) if step is None else step.level
            outside, inside = sorted(run[: refill + 1], key=_dim), sorted(run[refill + 1 :], key=_dim)
            runs.append((level, run[refill].dim if refill >= 0 else "", tuple(outside), tuple(inside)))
            run = []
        return tuple(runs)

    def _count(self) -> _Table:
        shape = len(self.rows), len(self.hierarchy.levels)
        table = _Table(np.zeros(shape), np.zeros(shape), np.ones(shape), np.zeros(shape), np.zeros(len(self.rows)))
        batches: dict[tuple[int, tuple[object, ...]], list[int]] = defaultdict(list)
        for row, (tensor, steps) in enumerate(self.nest_of_row):
            batches[tensor, tuple((s.dim, s.axis) if isinstance(s, LoopOver) else s for s in steps)].append(row)
        for (tensor, _), rows in batches.items():
            nests = [self.nest_of_row[row][1] for row in rows]
            tiles = np.array([[s.tile for s in steps if isinstance(s, LoopOver)] for steps in nests], dtype=np.float64)
            tiles = np.ascontiguousarray(tiles.reshape(len(rows), -1).T)
            counts = count(self._nest(nests[0]), tiles, self.convention)
            for level in range(shape[1]):
                table.read[rows, level] = counts.read_bytes[level][tensor]
                table.write[rows, level] = counts.write_bytes[level][tensor]
                table.instances[rows, level] = counts.instances[level]
                table.held[rows, level] = counts.tile_bytes[level][tensor]
            table.steps[rows] = counts.steps
        return table

    def _nest(self, steps: tuple[Step, ...]) -> Nest:
        names = [(axis.fanout, axis.name) for axis in self.walker.axes]
        holders = [[Holder(level=0, num_loops=0)] for _ in self.walker.op.tensors]
        loops: list[NestLoop] = []
        for step in steps:
            if isinstance(step, KeepAt):
                holders[step.tensor].append(Holder(level=step.level, num_loops=len(loops)))
            else:
                axis = None if step.axis is None else self.hierarchy.axis(*names[step.axis])
                loops.append(NestLoop(dim=step.dim, axis=axis))
        return make_nest(self.walker.op, self.hierarchy, loops, holders)

    def scores(self) -> dict[Objective, FloatArray]:
        """Every objective of every nest taken, `throughput` latency; infinite where unfinished sums do not fit.

        The walk knows of capacities what finished outputs take.
        """
        table, parts = self._count(), np.array(self.parts).T
        prices = prices_of(resolve(self.walker.arch), self.walker.op.datatype)
        read, write = np.sum(table.read[parts], axis=0), np.sum(table.write[parts], axis=0)
        steps, instances = table.steps[parts[0]], np.max(table.instances[parts], axis=0)
        energy = self.walker.op.macs * prices.mac_pj + read @ prices.read_pj[:, 0] + write @ prices.write_pj[:, 0]
        into: FloatArray = read / prices.read_bytes_per_cycle[:, 0]
        out: FloatArray = write / prices.write_bytes_per_cycle[:, 0]
        times: FloatArray = np.where(prices.shares_port[:, 0] > 0, into + out, np.maximum(into, out)) / instances
        latency: FloatArray = np.maximum(steps * prices.cycles_per_step, np.max(times, axis=1))
        held = np.sum(table.held[parts], axis=0)
        short = np.any(held > prices.capacity_bytes[:, 0], axis=1)
        values: dict[Objective, FloatArray] = {
            "energy": energy,
            "latency": latency,
            "edp": energy * latency,
            "main_memory_bytes": read[:, 0] + write[:, 0],
        }
        return {objective: np.where(short, np.inf, value) for objective, value in values.items()}


def find_optima(
    op: Op,
    arch: SpatialArch,
    convention: str = "tileloom",
    *,
    is_nested: bool = True,
    most: int = 1_000_000,
) -> dict[Objective, Optimum]:
    """The best of all mappings under every objective; empty when no mapping fits.

    Args:
        op: The op.
        arch: The architecture.
        convention: Name of the counting convention.
        is_nested: See `Enumerator`.
        most: See `Enumerator`.

    Raises:
        TooManyMappingsError: There are more than `most`.
    """
    rules = CONVENTIONS[convention]
    walker = Enumerator(
        op=op, arch=arch, orders_matter=rules.register_reads == "per_refill", is_nested=is_nested, most=most
    )
    evaluator = _Evaluator(walker, rules)
    for steps in walker.walk():
        evaluator.add(steps)
    if not evaluator.nests:
        return {}
    best: dict[Objective, Optimum] = {}
    for objective, values in evaluator.scores().items():
        at = int(np.argmin(values))
        if np.isinf(values[at]):
            return {}
        mapping = walker.mapping(list(evaluator.nests[at]))
        best[objective] = Optimum(value=float(values[at]), mapping=mapping, num_mappings=walker.num_found)
    return best
