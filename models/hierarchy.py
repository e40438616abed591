"""The part of an architecture that decides counts: levels, fan-outs and their order.

Counts depend on nothing else; capacities, bandwidths and energies price them afterwards. Two
architectures with equal `Hierarchy` share every count, which is what group evaluation rests on.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..archdsl import DimClass, Op, SpatialArch, TensorRole


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelInfo:
    """One memory level.

    Attributes:
        name: Name in the architecture.
        num_fanouts: Fan-outs above it: 0 for a chip-wide memory.
        keeps: Roles that it may hold.
        must_keep: Roles that may not bypass it.
        holds_sums: Whether it is a memory of accumulators: it keeps outputs alone, as sums, finished or not.
    """

    name: str
    num_fanouts: int
    keeps: frozenset[TensorRole]
    must_keep: frozenset[TensorRole]
    holds_sums: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisInfo:
    """One axis of a fan-out.

    Attributes:
        fanout: Name of its fan-out.
        name: Name within the fan-out.
        fanout_idx: Position of its fan-out, 0 for the outermost.
        size: Instances along it.
        multicast: One read serves every instance that asks for the same element.
        reduction: Partial sums are added on the way to the parent.
        dim_classes: Classes of dims that it may carry.
        alone_classes: Those that it carries only while the other axes of its fan-out carry nothing.
    """

    fanout: str
    name: str
    fanout_idx: int
    size: int
    multicast: bool
    reduction: bool
    dim_classes: frozenset[DimClass]
    alone_classes: frozenset[DimClass] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hierarchy:
    """Levels outermost first, and the axes of all fan-outs outermost first.

    Attributes:
        levels, axes: See above.
        compute: Name of the compute unit.
        accumulator_bits: Datatypes with the width of their accumulators, as far as the architecture states it.
    """

    levels: tuple[LevelInfo, ...]
    axes: tuple[AxisInfo, ...]
    compute: str
    accumulator_bits: tuple[tuple[str, int], ...] = ()

    def sum_bits(self, op: Op) -> int:
        """Width of an op's unfinished sums: the accumulator's, or the stored output's where that is wider or nothing is stated."""
        return max(dict(self.accumulator_bits).get(op.datatype, 0), op.output.bits)

    def level_idx(self, name: str) -> int:
        """Position of a level.

        Raises:
            KeyError: No level has that name.
        """
        for idx, level in enumerate(self.levels):
            if level.name == name:
                return idx
        raise KeyError(f"no memory level {name!r}; there are {[level.name for level in self.levels]}")

    def axis(self, fanout: str, name: str) -> AxisInfo:
        """Axis by the names of its fan-out and itself.

        Raises:
            KeyError: No axis has that name.
        """
        for axis in self.axes:
            if (axis.fanout, axis.name) == (fanout, name):
                return axis
        raise KeyError(f"no axis {fanout}.{name}; there are {[f'{a.fanout}.{a.name}' for a in self.axes]}")

    @property
    def num_fanouts(self) -> int:
        """How many fan-outs there are, the compute unit's intrinsic shape included."""
        return max((axis.fanout_idx for axis in self.axes), default=-1) + 1


def hierarchy_of(arch: SpatialArch) -> Hierarchy:
    """Reads the hierarchy out of an architecture.

    The intrinsic shape (m, n, k) of the compute unit becomes one more, innermost, fan-out that bears
    the compute unit's name, with free multicast and reduction.
    """
    levels: list[LevelInfo] = []
    axes: list[AxisInfo] = []
    num_fanouts = 0
    for node in arch.hierarchy:
        if node.kind == "memory":
            levels.append(
                LevelInfo(
                    name=node.name,
                    num_fanouts=num_fanouts,
                    keeps=frozenset(node.keeps),
                    must_keep=frozenset(node.must_keep),
                    holds_sums=bool(levels) and tuple(node.keeps) == (TensorRole.OUTPUT,),
                )
            )
        elif node.kind == "fanout":
            axes += [
                AxisInfo(
                    fanout=node.name,
                    name=axis.name,
                    fanout_idx=num_fanouts,
                    size=axis.size,
                    multicast=axis.multicast,
                    reduction=axis.reduction,
                    dim_classes=frozenset(axis.dim_classes),
                    alone_classes=frozenset(axis.alone_classes),
                )
                for axis in node.axes
            ]
            num_fanouts += 1
    return Hierarchy(
        levels=tuple(levels),
        axes=(*axes, *_intrinsic_axes(arch, num_fanouts)),
        compute=arch.compute.name,
        accumulator_bits=tuple(
            (name, kind.accumulator_bits)
            for name, kind in sorted(arch.compute.datatypes.items())
            if kind.accumulator_bits is not None
        ),
    )


def _intrinsic_axes(arch: SpatialArch, fanout_idx: int) -> list[AxisInfo]:
    shape = arch.compute.intrinsic
    classes = {
        "m": (shape.m, DimClass.PIXEL),
        "n": (shape.n, DimClass.OUTPUT_CHANNEL),
        "k": (shape.k, DimClass.REDUCTION),
    }
    return [
        AxisInfo(
            fanout=arch.compute.name,
            name=name,
            fanout_idx=fanout_idx,
            size=size,
            multicast=True,
            reduction=True,
            dim_classes=frozenset({dim_class}),
        )
        for name, (size, dim_class) in classes.items()
        if size > 1
    ]
