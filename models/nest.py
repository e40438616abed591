"""A mapping's structure without its tile sizes: what a batch of mappings has in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..archdsl import Keep, Mapping, Op, Spatial, Tensor
from .hierarchy import AxisInfo, Hierarchy

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class NestLoop:
    """One loop; `axis` is None for a temporal one."""

    dim: str
    axis: AxisInfo | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One place where a tensor is held.

    Attributes:
        level: Index of the memory level; the number of levels stands for the compute unit.
        num_loops: How many of the nest's loops lie outside it.
    """

    level: int
    num_loops: int


@dataclass(frozen=True, slots=True)
class Nest:
    """Structure shared by a batch of mappings of one op.

    Attributes:
        op: The op.
        hierarchy: Levels and fan-outs.
        loops: All loops, outermost first.
        holders: Per tensor of the op its holders, outermost first; the compute unit is the last.
        outer: Per loop the index of the next outer loop over the same dim, or -1.
    """

    op: Op
    hierarchy: Hierarchy
    loops: tuple[NestLoop, ...]
    holders: tuple[tuple[Holder, ...], ...]
    outer: tuple[int, ...]

    def innermost(self, dim: str, num_loops: int) -> int:
        """Index of the innermost loop over `dim` among the first `num_loops`, or -1."""
        for idx in reversed(range(num_loops)):
            if self.loops[idx].dim == dim:
                return idx
        return -1

    def over(self, dim: str, num_loops: int) -> list[int]:
        """Indices of the loops over `dim` among the first `num_loops`, outermost first."""
        return [idx for idx in range(num_loops) if self.loops[idx].dim == dim]


def make_nest(
    op: Op,
    hierarchy: Hierarchy,
    loops: Sequence[NestLoop],
    holders: Sequence[Sequence[Holder]],
) -> Nest:
    """Builds a nest; the compute unit is appended to every tensor's holders."""
    outer: list[int] = []
    last: dict[str, int] = {}
    for idx, loop in enumerate(loops):
        outer.append(last.get(loop.dim, -1))
        last[loop.dim] = idx
    compute = Holder(level=len(hierarchy.levels), num_loops=len(loops))
    return Nest(op, hierarchy, tuple(loops), tuple((*chain, compute) for chain in holders), tuple(outer))


def nest_of(op: Op, mapping: Mapping, hierarchy: Hierarchy) -> tuple[Nest, FloatArray]:
    """Splits a mapping into its structure and its tile sizes.

    Args:
        op: The op.
        mapping: A legal mapping of it.
        hierarchy: The architecture's levels and fan-outs.

    Returns:
        The nest and the tile of each loop, shape [loops, 1].
    """
    loops: list[NestLoop] = []
    tiles: list[int] = []
    holders: dict[str, list[Holder]] = {tensor.name: [] for tensor in op.tensors}
    for node in mapping.nodes:
        if isinstance(node, Keep):
            for name in node.tensors:
                holders[name].append(Holder(level=hierarchy.level_idx(node.level), num_loops=len(loops)))
            continue
        axis = hierarchy.axis(node.fanout, node.axis) if isinstance(node, Spatial) else None
        loops.append(NestLoop(dim=node.dim, axis=axis))
        tiles.append(node.tile)
    nest = make_nest(op, hierarchy, loops, [holders[t.name] for t in op.tensors])
    return nest, np.array(tiles, dtype=np.float64).reshape(-1, 1)


def sliding_axes(tensor: Tensor) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """The tensor's axes with two dims, as ((dim, threshold), (dim, threshold)).

    The threshold of one dim is the other's coefficient over their greatest common divisor: the
    extent above which tiles of that dim begin to overlap (see `archdsl.touched`).
    """
    found: list[tuple[tuple[str, int], tuple[str, int]]] = []
    for axis in tensor.axes:
        if axis.is_sliding:
            (dim_a, coef_a), (dim_b, coef_b) = axis.terms
            common = int(np.gcd(coef_a, coef_b))
            found.append(((dim_a, coef_b // common), (dim_b, coef_a // common)))
    return found
