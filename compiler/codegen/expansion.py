"""Unrolls a `tile` program into steps: finds places for what lives for a while, and what every step must wait for."""

from __future__ import annotations

from array import array as flat
from collections.abc import Sequence

import numpy as np

from ...archdsl import Infeasible, InfeasibleError, PeArray, ceil_div
from ..ir import tile
from .places import RollingAllocator
from .plans import Plan, Planner, walk_plans
from .shadows import waits_for_effects
from .steps import ACCUMULATE, NUM_BASES, NUM_NUMBERS, Forms, Ints, Steps

KERNEL, FORM, SCOPE, BASES = range(4)
"""Columns of the trace: a step's kernel, its form, the row of what the indices around it are, and its base addresses."""
TRACE_WIDTH = BASES + NUM_BASES


def expand(program: tile.ProgramOp, array: PeArray) -> Steps:
    """The steps of a program, in its order.

    Raises:
        InfeasibleError: What lives at the same time does not fit.
    """
    ops = list(program.body.block.ops)
    buffers = [op for op in ops if isinstance(op, tile.BufferOp)]
    return expand_kernels(buffers, [op for op in ops if isinstance(op, tile.KernelOp)], array)


def expand_kernels(buffers: Sequence[tile.BufferOp], kernels: Sequence[tile.KernelOp], array: PeArray) -> Steps:
    """The steps of kernels one after the other, over buffers of which they may use some.

    Raises:
        InfeasibleError: What lives at the same time does not fit.
    """
    packed: set[int] = set()
    planner = Planner(array=array)
    plans = [planner.plans(op.body.block) for op in kernels]
    while True:
        trace = _Trace(buffers, kernels, planner, frozenset(packed))
        try:
            trace.run(plans)
        except _NoRoom as error:
            # Places in turn leave gaps; they are packed where there is no room for that.
            if error.kernel in packed:
                raise InfeasibleError(error.infeasible) from error
            packed.add(error.kernel)
        else:
            return _steps(trace, planner, _memory_bytes(buffers))


class _NoRoom(Exception):
    """A kernel's places do not fit."""

    def __init__(self, kernel: int, infeasible: Infeasible) -> None:
        super().__init__(str(infeasible))
        self.kernel = kernel
        self.infeasible = infeasible


class _Trace:
    """Runs loops and finds places; of each step only what it cannot be told from its form and the indices around it.

    Attributes:
        steps: [steps, `TRACE_WIDTH`], flat.
        scopes: [iterations of all loops, depth] indices of the loops around, flat.
    """

    def __init__(
        self,
        buffers: Sequence[tile.BufferOp],
        kernels: Sequence[tile.KernelOp],
        planner: Planner,
        packed: frozenset[int],
    ) -> None:
        array = planner.array
        self.kernels = kernels
        self.array = array
        self.depth = planner.depth
        self.packed = packed  # kernels whose places are packed
        granule = max(array.bus_bytes, array.vector_bytes)
        self.places, self.weights = (RollingAllocator(0, array.scratchpad_bytes, granule=granule) for _ in range(2))
        self.is_split = False  # whether weights have their own part of what is staged
        self.sums = RollingAllocator(0, array.accumulator_vectors, num_banks=array.accumulator_banks)
        self.slots = RollingAllocator(0, array.parameter_slots)
        self.tables = RollingAllocator(0, max(1, array.table_slots))
        self.allocators = {
            tile.SCRATCHPAD: (self.places, self.weights), tile.ACCUMULATORS: (self.sums,),
            tile.PARAMETERS: (self.slots,), tile.TABLES: (self.tables,),
        }  # fmt: skip
        self.kernel = -1
        self.steps, self.scopes = flat("q"), flat("q")
        self.num_scopes = 0
        # Place of a value by its number: byte, vector or slot.
        self.at = [0] * (planner.num_values + len(buffers) + 1)
        for op in buffers:
            self.at[planner.number(op.result)] = int(op.address.value.data)

    def run(self, plans: Sequence[Sequence[Plan]]) -> None:
        """Runs kernels."""
        for op, own in zip(self.kernels, plans, strict=True):
            self.kernel += 1
            self._bound(op, own)
            for allocator in (self.places, self.sums):
                allocator.is_packed = self.kernel in self.packed
            self._run(own, ())

    def _bound(self, op: tile.KernelOp, plans: Sequence[Plan]) -> None:
        """Says where a kernel's places may be: weights in other banks than inputs, if there is room for the next ones of both.

        A bank gives one vector a cycle, and inputs come before weights, which would then wait for a walk to end.
        """
        begin, end = op.staging.get_values()
        sizes: dict[bool, list[int]] = {False: [], True: []}
        for plan in walk_plans(plans):
            if isinstance(plan.op, tile.PlaceOp):
                sizes[plan.is_weights].append(plan.size)
        inputs, weights = (min(2, len(some)) * max(some, default=0) for some in (sizes[False], sizes[True]))
        bank_bytes = self.array.scratchpad_bytes // self.array.scratchpad_banks
        split = ceil_div(begin + inputs, bank_bytes) * bank_bytes
        is_packed = self.kernel in self.packed
        self.is_split = inputs > 0 and weights > 0 and split + weights <= end and not is_packed
        self.places.bound(begin, split if self.is_split else end)
        self.weights.bound(split if self.is_split else begin, end)

    def _run(self, plans: Sequence[Plan], indices: tuple[int, ...]) -> None:
        """Runs ops inside loops with these indices."""
        scope, kernel, at, steps = self.num_scopes, self.kernel, self.at, self.steps
        self.num_scopes += 1
        self.scopes.extend((*indices, *(0,) * (self.depth - len(indices))))
        for plan in plans:
            for value in plan.counts:
                self._run(plan.body, (*indices, value))
            if plan.result:
                at[plan.result] = at[plan.source] + plan.offset if plan.source else self._take(plan)
            if plan.form >= 0:
                first, second, third, fourth = plan.bases
                steps.extend((kernel, plan.form, scope, at[first], at[second], at[third], at[fourth]))
            for number, space in plan.dies:
                for allocator in self.allocators[space]:
                    allocator.free(at[number])

    def _take(self, plan: Plan) -> int:
        """A place for what an op makes."""
        size, op = plan.size, plan.op
        if isinstance(op, tile.PlaceOp):
            allocator = self.weights if plan.is_weights and self.is_split else self.places
            resource, unit = "scratchpad capacity for what is staged", "bytes"
        elif isinstance(op, tile.SumsOp):
            allocator, resource, unit = self.sums, "accumulators", "vectors"
        elif isinstance(op, tile.ParametersOp):
            allocator, size, resource, unit = self.slots, 1, "slots of channel parameters", "parameter_slots"
        else:
            allocator, size, resource, unit = self.tables, 1, "slots of tables", "table_slots"
        found = allocator.take(size)
        if found is None:
            terms = (("what is there", allocator.taken), ("what comes", size))
            raise _NoRoom(
                self.kernel,
                Infeasible(
                    resource=resource, demand=allocator.taken + size, limit=allocator.capacity, unit=unit, terms=terms,
                    levers=(f"more {unit}",), op=self.kernels[self.kernel].kernel_name.data,
                ),
            )  # fmt: skip
        return found


def _steps(trace: _Trace, planner: Planner, memory_bytes: int) -> Steps:
    """What was traced, with what is the same for all steps of a form, and with their waits."""
    rows = np.array(trace.steps, dtype=np.int64).reshape(-1, TRACE_WIDTH)
    scopes = np.array(trace.scopes, dtype=np.int64).reshape(trace.num_scopes, trace.depth)
    constants, factors = _maps(planner)
    form, scope = rows[:, FORM].copy(), rows[:, SCOPE]
    numbers = constants[form]
    numbers[:, :NUM_BASES] += rows[:, BASES:]
    for loop in range(trace.depth):
        numbers += factors[loop][form] * scopes[scope, loop][:, None]
    numbers[:, ACCUMULATE] = numbers[:, ACCUMULATE] != 0
    forms = Forms.of(planner.forms)
    waits = waits_for_effects(forms.facts, form, numbers, planner.array, memory_bytes)
    return Steps(forms=forms, form=form, kernel=rows[:, KERNEL].copy(), numbers=numbers, waits=waits)


def _maps(planner: Planner) -> tuple[Ints, Ints]:
    """Of steps' own numbers the constants, [forms, numbers], and the factors, [loops, forms, numbers]."""
    constants = np.zeros((len(planner.forms), NUM_NUMBERS), dtype=np.int64)
    factors = np.zeros((planner.depth, len(planner.forms), NUM_NUMBERS), dtype=np.int64)
    for form, maps in enumerate(planner.maps):
        for column, constant, own in maps:
            constants[form, column] = constant
            for loop, factor in enumerate(own):
                factors[loop, form, column] = factor
    return constants, factors


def _memory_bytes(buffers: Sequence[tile.BufferOp]) -> int:
    ends = [
        int(op.address.value.data) + tile.size_of(op.result)[0] * tile.pitch_of(op.result)
        for op in buffers
        if tile.space_of(op.result) == tile.MAIN
    ]
    return max(ends, default=0)
