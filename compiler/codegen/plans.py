"""What is known of `tile` ops before any loop runs; reading it from an op each time would take longer than all else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import AffineMapAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from ...archdsl import CompileError, PeArray
from ..ir import tile
from ..ir.lifetimes import deaths_in
from .forms import FORMS, form_of
from .steps import ACCUMULATE, FIRST, FOURTH, NUM_BASES, SECOND, THIRD, Form, X, Y

NOWHERE = 0
"""Number of a value that is not there; its address is 0."""
OWN: Mapping[type[Operation], Sequence[tuple[int, str | None, str | None]]] = {
    tile.CopyOp: ((FIRST, "source", "read_at"), (SECOND, "target", "write_at")),
    tile.ParametersOp: ((FIRST, "source", "read_at"), (SECOND, "result", None)),
    tile.TableOp: ((FIRST, "source", None), (SECOND, "result", None)),
    tile.MatMulOp: (
        (FIRST, "sums", "sums_at"), (SECOND, "input", None), (THIRD, "weights", "weights_at"), (Y, None, "y"), (X, None, "x"),
        (ACCUMULATE, None, "accumulate"),
    ),
    tile.VectorOp: (
        (FIRST, "sums", "sums_at"), (SECOND, "input", None), (THIRD, "values", "values_at"), (Y, None, "y"), (X, None, "x"),
        (ACCUMULATE, None, "accumulate"),
    ),
    tile.StoreOp: (
        (FIRST, "sums", "sums_at"), (SECOND, "target", "write_at"), (THIRD, "parameters", None), (FOURTH, "table", None),
    ),
}  # fmt: skip
"""What a step's own numbers are, by op: column, the value whose address counts, and the map whose value is added to it."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """An op.

    Attributes:
        op: It.
        form: Index of its form; -1 where it makes no steps.
        bases: Numbers of the values whose addresses its steps' numbers begin from.
        result: Number of what it makes; `NOWHERE` for nothing.
        size: Places that its result takes.
        is_weights: Whether its result is a place for weights.
        source, offset: Of a view: number of what it shows, and where it begins there.
        dies: Values that nothing behind it uses: number and memory space.
        counts: Of a loop the values of its index.
        body: Of a loop, what is in it.
    """

    op: Operation
    form: int = -1
    bases: tuple[int, ...] = (NOWHERE,) * NUM_BASES
    result: int = NOWHERE
    size: int = 0
    is_weights: bool = False
    source: int = NOWHERE
    offset: int = 0
    dies: Sequence[tuple[int, str]] = ()
    counts: range = range(0)
    body: Sequence[Plan] = ()


@dataclass(slots=True, kw_only=True)
class Planner:
    """Reads ops.

    Attributes:
        array: The PE array.
        forms: Those of the ops so far.
        maps: Of each form per map: column, constant, and a factor per loop around it, from outside.
        depth: The deepest nest of loops.
    """

    array: PeArray
    forms: list[Form] = field(default_factory=list[Form])
    maps: list[list[tuple[int, int, list[int]]]] = field(default_factory=list[list[tuple[int, int, list[int]]]])
    depth: int = 0
    _numbers: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])

    @property
    def num_values(self) -> int:
        """How many values have numbers."""
        return len(self._numbers)

    def number(self, value: SSAValue) -> int:
        """A value's number, from 1 on."""
        return self._numbers.setdefault(value, len(self._numbers) + 1)

    def plans(self, block: Block, loops: tuple[SSAValue, ...] = ()) -> list[Plan]:
        """Plans of a block's ops, inside some loops with these indices."""
        self.depth = max(self.depth, len(loops))
        dies = deaths_in(block)
        return [self._plan(op, loops, dies.get(op, ())) for op in block.ops]

    def _plan(self, op: Operation, loops: tuple[SSAValue, ...], dies: Sequence[SSAValue]) -> Plan:
        plan = Plan(op=op, dies=[(self.number(value), tile.space_of(value)) for value in dies])
        if isinstance(op, tile.ForOp):
            plan.counts = range(0, op.upper.value.data, op.step.value.data)
            plan.body = self.plans(op.body.block, (*loops, op.index))
            return plan
        if op.results:
            plan.result = self.number(op.results[0])
        if isinstance(op, tile.PlaceOp):
            plan.size = tile.size_of(op.result)[0] * tile.pitch_of(op.result)
            plan.is_weights = _holds_weights(op)
        elif isinstance(op, tile.SumsOp):
            plan.size = tile.size_of(op.result)[0]
        elif isinstance(op, tile.ViewOp):
            plan.source, plan.offset = self.number(op.source), op.offset.value.data
        if type(op) in FORMS:
            plan.form = len(self.forms)
            self.forms.append(form_of(op, self.array))
            plan.bases = self._own(op, loops)
        return plan

    def _own(self, op: Operation, loops: tuple[SSAValue, ...]) -> tuple[int, ...]:
        """Notes the maps of an op's own numbers; returns the numbers of the values that they begin from."""
        bases, maps = [NOWHERE] * NUM_BASES, list[tuple[int, int, list[int]]]()
        positions = [loops.index(index) for index in getattr(op, "indices", ())]
        for column, base, name in OWN[type(op)]:
            value: SSAValue | None = getattr(op, base) if base is not None else None
            if value is not None:
                bases[column] = self.number(value)
            elif base is not None:
                continue  # an operand that is not there
            if name is not None:
                attr = op.attributes[name]
                assert isinstance(attr, AffineMapAttr)
                factors = [0] * len(loops)
                maps.append((column, _linear(attr.data.results[0], 1, positions, factors), factors))
            elif base == "table":
                maps.append((column, 1, []))  # a lookup is the table's slot, counted from 1
        self.maps.append(maps)
        return tuple(bases)


def walk_plans(plans: Sequence[Plan]) -> Iterator[Plan]:
    """Plans and those inside of them."""
    for plan in plans:
        yield plan
        yield from walk_plans(plan.body)


def _holds_weights(op: tile.PlaceOp) -> bool:
    """Whether products read it as their weights."""
    users = [use.operation for use in op.result.uses]
    return any(isinstance(user, tile.MatMulOp) and user.weights is op.result for user in users)


def _linear(expr: AffineExpr, scale: int, positions: Sequence[int], factors: list[int]) -> int:
    """Adds an expression's factors, by the loops in which its dims stand; returns its constant."""
    if isinstance(expr, AffineConstantExpr):
        return scale * expr.value
    if isinstance(expr, AffineDimExpr):
        factors[positions[expr.position]] += scale
        return 0
    assert isinstance(expr, AffineBinaryOpExpr)
    if expr.kind == AffineBinaryOpKind.Add:
        return _linear(expr.lhs, scale, positions, factors) + _linear(expr.rhs, scale, positions, factors)
    if expr.kind == AffineBinaryOpKind.Mul and isinstance(expr.rhs, AffineConstantExpr):
        return _linear(expr.lhs, scale * expr.rhs.value, positions, factors)
    raise CompileError(f"{expr} is not linear in the indices")
