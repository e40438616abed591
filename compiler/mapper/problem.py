"""The mapping problem of one op on one hierarchy, in the indices that the search computes with."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from ...archdsl import CompileError, Op, Tensor, TensorRole, nearest_hint
from ...models import AxisInfo, Convention, Hierarchy, LevelInfo, Prices, sliding_axes, sum_bytes_of

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor in dim indices.

    Attributes:
        tensor: The tensor.
        idx: Its position in the op.
        related: Dims that index it.
        unrelated: Dims that do not.
        sliding: Sliding axes as ((dim, threshold), (dim, threshold)); see `models.sliding_axes`.
        plain: Dims on axes of their own.
        plain_elements: Product of the sizes of `plain`.
        elements: Distinct elements of the whole tensor.
        element_bytes: Bytes of one element.
        sum_bytes: Bytes of one unfinished sum; those of an element for inputs and weights.
    """

    tensor: Tensor
    idx: int
    related: frozenset[int]
    unrelated: tuple[int, ...]
    sliding: tuple[tuple[tuple[int, int], tuple[int, int]], ...]
    plain: tuple[int, ...]
    plain_elements: float
    elements: float
    element_bytes: float
    sum_bytes: float

    @property
    def is_rounded(self) -> bool:
        """Whether its tiles may end within a byte, so that they take whole bytes."""
        return self.element_bytes % 1 != 0 or self.sum_bytes % 1 != 0

    @property
    def is_output(self) -> bool:
        """Whether it is the op's output."""
        return self.tensor.role is TensorRole.OUTPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What the user fixes of a mapping; everything else is searched.

    Attributes:
        spatial: Per axis (`fanout.axis`) the dims that may be spread over it.
        bypass: (level, tensor) pairs that may not be kept.
        keep: (level, tensor) pairs that must be kept.
        stationary: Tensor that alone is kept at the innermost level that can hold it.
        min_utilization: Least share of PEs that must have work, 0 to 1.
        tiles: (level, dim, extent): the extent that the dim must have in every tile held at that level whose
            tensor it indexes.
    """

    spatial: tuple[tuple[str, tuple[str, ...]], ...] = ()
    bypass: frozenset[tuple[str, str]] = frozenset()
    keep: frozenset[tuple[str, str]] = frozenset()
    stationary: str | None = None
    min_utilization: float = 0.0
    tiles: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One op, one hierarchy, one convention, one set of constraints.

    Under a convention that reads registers once per refill, operand latches at the compute unit are one more
    level: it keeps one element of every input and weight and costs nothing.
    """

    op: Op
    memories: Hierarchy
    convention: Convention
    constraints: Constraints = field(default=Constraints())

    @cached_property
    def latch(self) -> int | None:
        """Index of the operand latches' level, where there is one."""
        return len(self.memories.levels) if self.convention.register_reads == "per_refill" else None

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The memories' hierarchy, with the operand latches where there are any."""
        if self.latch is None:
            return self.memories
        roles = frozenset(TensorRole) - {TensorRole.OUTPUT}
        depth = self.memories.num_fanouts
        latch = LevelInfo(name="(operand latch)", num_fanouts=depth, keeps=roles, must_keep=roles)
        return replace(self.memories, levels=(*self.memories.levels, latch))

    def with_latch(self, prices: Prices) -> Prices:
        """Prices of the memories, with free operand latches where there are any."""
        if self.latch is None:
            return prices
        row = {"capacity_bytes": np.inf, "read_bytes_per_cycle": np.inf, "write_bytes_per_cycle": np.inf}
        grown = {
            name: np.concatenate([getattr(prices, name), np.full((1, 1), row.get(name, 0.0))])
            for name in Prices.__dataclass_fields__
            if getattr(prices, name).ndim == 2
        }
        return replace(prices, **grown)

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Dim names."""
        return tuple(dim for dim, _ in self.op.dims)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Dim sizes."""
        return tuple(size for _, size in self.op.dims)

    @cached_property
    def tensors(self) -> tuple[TensorInfo, ...]:
        """The op's tensors in dim indices."""
        at = {dim: idx for idx, dim in enumerate(self.dims)}
        sum_bytes = sum_bytes_of(self.op, self.memories, self.convention)
        found: list[TensorInfo] = []
        for t_idx, tensor in enumerate(self.op.tensors):
            plain = tuple(at[axis.terms[0][0]] for axis in tensor.axes if not axis.is_sliding)
            related = frozenset(at[dim] for dim in tensor.dims)
            found.append(
                TensorInfo(
                    tensor=tensor,
                    idx=t_idx,
                    related=related,
                    unrelated=tuple(d for d in range(len(at)) if d not in related and self.sizes[d] > 1),
                    sliding=tuple(((at[a], x), (at[b], y)) for (a, x), (b, y) in sliding_axes(tensor)),
                    plain=plain,
                    plain_elements=float(math.prod(self.sizes[d] for d in plain)),
                    elements=float(self.op.elements(tensor)),
                    element_bytes=tensor.bits / 8,
                    sum_bytes=sum_bytes if tensor.role is TensorRole.OUTPUT else tensor.bits / 8,
                )
            )
        return tuple(found)

    def least_width(self, info: TensorInfo, level: int) -> float:
        """Bytes of one element at a level, at least: those of a sum where it holds nothing else."""
        holds_sums = info.is_output and self.hierarchy.levels[level].holds_sums
        return info.sum_bytes if holds_sums else info.element_bytes

    def width(self, info: TensorInfo, level: int, arrivals: FloatArray | float) -> FloatArray | float:
        """Bytes of one element at a level into which so many of the output arrive (see docs/counting.md)."""
        least = self.least_width(info, level)
        if least == info.sum_bytes:
            return least
        if isinstance(arrivals, np.ndarray):
            return np.where(arrivals > info.elements, info.sum_bytes, least)
        return info.sum_bytes if arrivals > info.elements else least

    def narrowed(self, info: TensorInfo, level: int, width: FloatArray | float) -> FloatArray | float:
        """Bytes that finished outputs spare on their last way into the outermost level."""
        return (width - info.element_bytes) * info.elements if level == 0 else 0.0

    @cached_property
    def dim_classes(self) -> list[tuple[int, ...]]:
        """Dims grouped by the tensors that they index."""
        groups: dict[tuple[bool, ...], list[int]] = {}
        for dim in range(len(self.sizes)):
            groups.setdefault(tuple(dim in info.related for info in self.tensors), []).append(dim)
        return [tuple(dims) for dims in groups.values()]

    @cached_property
    def fixed_tiles(self) -> dict[tuple[int, int], int]:
        """(level, dim) to the extent that the user fixed there."""
        return {
            (self.hierarchy.level_idx(level), self.dims.index(dim)): tile for level, dim, tile in self.constraints.tiles
        }

    @cached_property
    def num_fanouts(self) -> int:
        """Fan-outs of the hierarchy."""
        return self.hierarchy.num_fanouts

    @cached_property
    def segment_of(self) -> tuple[int, ...]:
        """Per level how many fan-outs lie above it."""
        return tuple(level.num_fanouts for level in self.hierarchy.levels)

    def check_constraints(self) -> None:
        """Checks every name that the constraints use.

        Raises:
            CompileError: A dim, level, axis or tensor is not there.
        """
        fixed = self.constraints
        axes = [f"{axis.fanout}.{axis.name}" for axis in self.hierarchy.axes]
        levels = [level.name for level in self.hierarchy.levels]
        tensors = [tensor.name for tensor in self.op.tensors]
        wanted = [("axis", name, axes) for name, _ in fixed.spatial]
        wanted += [("dim", dim, list(self.dims)) for _, dims in fixed.spatial for dim in dims]
        wanted += [("level", level, levels) for level, _ in (*fixed.keep, *fixed.bypass)]
        wanted += [("tensor", tensor, tensors) for _, tensor in (*fixed.keep, *fixed.bypass)]
        wanted += [] if fixed.stationary is None else [("tensor", fixed.stationary, tensors)]
        wanted += [("level", level, levels) for level, _, _ in fixed.tiles]
        wanted += [("dim", dim, list(self.dims)) for _, dim, _ in fixed.tiles]
        faults = [
            f"unknown {kind} '{name}'{nearest_hint(name, known)}" for kind, name, known in wanted if name not in known
        ]
        faults += [
            f"tensor '{tensor}' cannot bypass {level}, the outermost memory"
            for level, tensor in sorted(fixed.bypass)
            if level == levels[0]
        ]
        if not 0 <= fixed.min_utilization <= 1:
            faults.append(f"min_utilization is {fixed.min_utilization}; it lies between 0 and 1")
        for level, dim, tile in fixed.tiles:
            segment = self.segment_of[self.hierarchy.level_idx(level)] if level in levels else 0
            if dim in self.dims and not 1 <= tile <= self.op.sizes[dim]:
                faults.append(f"tile {tile} of {dim} at {level}: lies between 1 and {self.op.sizes[dim]}")
            if 0 < segment < self.num_fanouts:
                faults.append(f"tile of {dim} at {level}: tiles between two fan-outs cannot be fixed")
        if faults:
            raise CompileError(f"op {self.op.name}: mapping constraints: " + "; ".join(faults))

    def axes_of(self, fanout: int) -> tuple[AxisInfo, ...]:
        """Axes of one fan-out."""
        return tuple(axis for axis in self.hierarchy.axes if axis.fanout_idx == fanout)

    def may_carry(self, axis: AxisInfo, dim: int) -> bool:
        """Whether a dim may be spread over an axis, by its class and the user's constraints."""
        if self.op.dim_class(self.dims[dim]) not in axis.dim_classes:
            return False
        allowed = dict(self.constraints.spatial).get(f"{axis.fanout}.{axis.name}")
        return allowed is None or self.dims[dim] in allowed


@lru_cache(maxsize=4096)
def quotients(size: int) -> tuple[int, ...]:
    """Tile sizes that matter for a dim: the least one for each number of tiles, ascending.

    Every `ceil(size / k)`. A tile size outside this set needs more room than the next smaller one in it
    and gives the same number of tiles. Since `ceil(ceil(n/a)/b) = ceil(n/(a b))`, the factors of nested
    tilings too can be taken from the quotients of the whole size.
    """
    return tuple(sorted({-(-size // k) for k in range(1, size + 1)}))


def distinct(columns: npt.NDArray[np.int64] | FloatArray) -> tuple[IntArray, IntArray]:
    """Which columns of a table are different.

    Columns are compared by a 64-bit hash first, since sorting whole columns is slow; should two different ones
    share a hash, they are sorted after all.

    Args:
        columns: [rows, columns], integers or floats without negative zeros.

    Returns:
        The first of each kind of equal columns, and per column which of these it equals.
    """
    codes = np.zeros(columns.shape[1], dtype=np.uint64)
    for row in columns:
        bits = np.ascontiguousarray(row).view(np.uint64)
        codes = (codes ^ bits ^ (bits >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
        codes ^= codes >> np.uint64(32)
    _, first, inverse = np.unique(codes, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    if (columns != columns[:, first[inverse]]).any():
        _, first, inverse = np.unique(columns, axis=1, return_index=True, return_inverse=True)
    return first, inverse.reshape(-1)
