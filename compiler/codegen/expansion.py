"""Unrolls a `tile` program into steps: finds places for what lives for a while, and what every step must wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import AffineMapAttr, IntegerAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineConstantExpr, AffineDimExpr, AffineExpr

from ...archdsl import CompileError, Infeasible, InfeasibleError, PeArray, ceil_div
from ..ir import tile
from ..ir.lifetimes import deaths_in
from .places import RollingAllocator
from .shadows import Range, Shadow
from .steps import Config, Load, Step, Store, Walk


@dataclass(slots=True)
class _Plan:
    """What is known of an op before any loop runs; reading it from the op each time would take longer than all else.

    Attributes:
        op: The op.
        numbers: Its numbers, by name.
        texts: Its texts, by name.
        maps: Its maps as constants and factors, by name.
        values: Its operands and results, by name.
        indices: What the maps are over.
        shape: Rows, bytes of a row and pitch of its input.
        dies: Places that nothing behind it uses.
        is_weights: Whether it is a place for weights.
        body: Of a loop, what is in it.
    """

    op: Operation
    numbers: dict[str, int]
    texts: dict[str, str]
    maps: dict[str, tuple[int, tuple[int, ...]]]
    values: dict[str, SSAValue | None]
    indices: tuple[SSAValue, ...]
    shape: tuple[int, int, int]
    dies: tuple[SSAValue, ...]
    is_weights: bool
    body: list[_Plan]

    def value(self, name: str) -> SSAValue:
        """An operand or result that is there."""
        found = self.values[name]
        assert found is not None
        return found


def expand(program: tile.ProgramOp, array: PeArray) -> list[Step]:
    """The steps of a program, in its order.

    Raises:
        InfeasibleError: What lives at the same time does not fit.
    """
    ops = list(program.body.block.ops)
    buffers = [op for op in ops if isinstance(op, tile.BufferOp)]
    return expand_kernels(buffers, [op for op in ops if isinstance(op, tile.KernelOp)], array)


def expand_kernels(buffers: Sequence[tile.BufferOp], kernels: Sequence[tile.KernelOp], array: PeArray) -> list[Step]:
    """The steps of kernels one after the other, over buffers of which they may use some.

    Raises:
        InfeasibleError: What lives at the same time does not fit.
    """
    packed: set[int] = set()
    while True:
        try:
            return _Expansion(buffers, kernels, array, frozenset(packed)).run()
        except _NoRoom as error:
            # Places in turn leave gaps; they are packed where there is no room for that.
            if error.kernel in packed:
                raise InfeasibleError(error.infeasible) from error
            packed.add(error.kernel)


class _NoRoom(Exception):
    """A kernel's places do not fit."""

    def __init__(self, kernel: int, infeasible: Infeasible) -> None:
        super().__init__(str(infeasible))
        self.kernel = kernel
        self.infeasible = infeasible


class _Expansion:
    def __init__(
        self,
        buffers: Sequence[tile.BufferOp],
        kernels: Sequence[tile.KernelOp],
        array: PeArray,
        packed: frozenset[int],
    ) -> None:
        self.kernels = kernels
        self.array = array
        self.packed = packed  # kernels whose places are packed
        self.granule = min(array.cols, array.bus_bytes)
        granule = max(array.bus_bytes, array.vector_bytes)
        self.places, self.weights = (RollingAllocator(0, array.scratchpad_bytes, granule=granule) for _ in range(2))
        self.is_split = False  # whether weights have their own part of what is staged
        self.sums = RollingAllocator(0, array.accumulator_vectors, num_banks=array.accumulator_banks)
        self.slots = RollingAllocator(0, array.parameter_slots)
        self.tables = RollingAllocator(0, max(1, array.table_slots))
        self.steps: list[Step] = []
        self.num = {Load: 0, Walk: 0, Store: 0}
        self.kernel = -1
        self.name = ""
        # Place of a buffer: byte, vector or slot.
        self.at: dict[SSAValue, int] = {op.result: int(op.address.value.data) for op in buffers}
        self.index: dict[SSAValue, int] = {}
        memory = _memory_bytes(buffers)
        pad = array.scratchpad_bytes
        self.pad_loads, self.pad_walks, self.pad_stores = (Shadow(pad, self.granule) for _ in range(3))
        self.sum_walks, self.sum_stores = (Shadow(array.accumulator_vectors) for _ in range(2))
        self.slot_loads, self.slot_stores = (Shadow(array.parameter_slots) for _ in range(2))
        self.table_loads, self.table_stores = (Shadow(max(1, array.table_slots)) for _ in range(2))
        self.memory_loads, self.memory_stores = (Shadow(memory, self.granule) for _ in range(2))
        self._actions: dict[type[Operation], Callable[[_Plan], None]] = {
            tile.PlaceOp: self._place,
            tile.ViewOp: self._view,
            tile.CopyOp: self._copy,
            tile.ParametersOp: self._parameters,
            tile.TableOp: self._table,
            tile.SumsOp: self._sums,
            tile.MatMulOp: self._matmul,
            tile.VectorOp: self._vector,
            tile.StoreOp: self._store,
        }

    def run(self) -> list[Step]:
        for op in self.kernels:
            self.kernel += 1
            self.name = op.kernel_name.data
            plans = _plans(op.body.block)
            self._bound(op, plans)
            for allocator in (self.places, self.sums):
                allocator.is_packed = self.kernel in self.packed
            self._run(plans)
        return self.steps

    def _bound(self, op: tile.KernelOp, plans: list[_Plan]) -> None:
        """Says where a kernel's places may be: weights in other banks than inputs, if there is room for the next ones of both.

        A bank gives one vector a cycle, and inputs come before weights, which would then wait for a walk to end.
        """
        begin, end = op.staging.get_values()
        sizes: dict[bool, list[int]] = {False: [], True: []}
        for plan in _walk(plans):
            if isinstance(plan.op, tile.PlaceOp):
                value = plan.value("result")
                sizes[plan.is_weights].append(tile.size_of(value)[0] * tile.pitch_of(value))
        inputs, weights = (min(2, len(some)) * max(some, default=0) for some in (sizes[False], sizes[True]))
        bank_bytes = self.array.scratchpad_bytes // self.array.scratchpad_banks
        split = ceil_div(begin + inputs, bank_bytes) * bank_bytes
        is_packed = self.kernel in self.packed
        self.is_split = inputs > 0 and weights > 0 and split + weights <= end and not is_packed
        self.places.bound(begin, split if self.is_split else end)
        self.weights.bound(split if self.is_split else begin, end)

    # ---- Loops.

    def _run(self, plans: list[_Plan]) -> None:
        for plan in plans:
            if isinstance(plan.op, tile.ForOp):
                index = plan.op.index
                for value in range(0, plan.numbers["upper"], plan.numbers["step"]):
                    self.index[index] = value
                    self._run(plan.body)
            else:
                self._actions[type(plan.op)](plan)
            for value in plan.dies:
                self._free(value)

    def _eval(self, plan: _Plan, name: str) -> int:
        constant, factors = plan.maps[name]
        for index, factor in zip(plan.indices, factors, strict=True):
            if factor:
                constant += factor * self.index[index]
        return constant

    # ---- Places.

    def _free(self, value: SSAValue) -> None:
        allocators = {
            tile.SCRATCHPAD: (self.places, self.weights), tile.ACCUMULATORS: (self.sums,),
            tile.PARAMETERS: (self.slots,), tile.TABLES: (self.tables,),
        }  # fmt: skip
        for allocator in allocators[tile.space_of(value)]:
            allocator.free(self.at[value])

    def _take(self, allocator: RollingAllocator, value: SSAValue, size: int, resource: str, unit: str) -> None:
        found = allocator.take(size)
        if found is None:
            terms = (("what is there", allocator.taken), ("what comes", size))
            raise _NoRoom(
                self.kernel,
                Infeasible(
                    resource=resource, demand=allocator.taken + size, limit=allocator.capacity, unit=unit, terms=terms,
                    levers=(f"more {unit}",), op=self.name,
                ),
            )  # fmt: skip
        self.at[value] = found

    def _place(self, plan: _Plan) -> None:
        value = plan.value("result")
        self._take(
            self.weights if plan.is_weights and self.is_split else self.places,
            value,
            tile.size_of(value)[0] * tile.pitch_of(value),
            "scratchpad capacity for what is staged",
            "bytes",
        )

    def _view(self, plan: _Plan) -> None:
        self.at[plan.value("result")] = self.at[plan.value("source")] + plan.numbers["offset"]

    def _sums(self, plan: _Plan) -> None:
        value = plan.value("result")
        self._take(self.sums, value, tile.size_of(value)[0], "accumulators", "vectors")

    # ---- Loads.

    def _copy(self, plan: _Plan) -> None:
        number = plan.numbers
        source = self.at[plan.value("source")] + self._eval(plan, "read_at")
        target = self.at[plan.value("target")] + self._eval(plan, "write_at")
        rows, row_bytes = number["rows"], number["row_bytes"]
        beats = ceil_div(row_bytes, self.array.bus_bytes)
        num_bytes = beats * self.array.bus_bytes
        read = (source, source + (rows - 1) * number["read_pitch"] + num_bytes)
        written = (target, target + (rows - 1) * number["write_pitch"] + num_bytes)
        load = Load(
            operands={"memory_address": source, "local_address": target, "rows": rows, "row_beats": beats},
            config={"memory_row_bytes": number["read_pitch"], "local_row_bytes": number["write_pitch"]}
            if rows > 1
            else {},
            kernel=self.kernel,
            after_walk=self.pad_walks.last(written),
            after_store=max(self.pad_stores.last(written), self.memory_stores.last(read)),
        )
        step = self._add(load)
        self.pad_loads.touch(written, step)
        self.memory_loads.touch(read, step)

    def _parameters(self, plan: _Plan) -> None:
        result = plan.value("result")
        self._take(self.slots, result, 1, "slots of channel parameters", "parameter_slots")
        source = self.at[plan.value("source")] + self._eval(plan, "read_at")
        self._slot_load(result, source, self.array.slot_beats, 1, self.slot_loads, self.slot_stores)

    def _table(self, plan: _Plan) -> None:
        result = plan.value("result")
        self._take(self.tables, result, 1, "slots of tables", "table_slots")
        source = self.at[plan.value("source")]
        self._slot_load(result, source, self.array.table_beats, 2, self.table_loads, self.table_stores)

    def _slot_load(self, value: SSAValue, source: int, beats: int, space: int, loads: Shadow, stores: Shadow) -> None:
        slot = self.at[value]
        load = Load(
            operands={
                "memory_address": source, "local_address": slot, "rows": 1, "row_beats": beats, "space": space
            },
            config={},
            kernel=self.kernel,
            after_store=stores.last((slot, slot + 1)),
        )  # fmt: skip
        loads.touch((slot, slot + 1), self._add(load))

    # ---- Walks.

    def _matmul(self, plan: _Plan) -> None:
        number = plan.numbers
        rows, pitch = number["rows"], number["weights_pitch"]
        weights = self.at[plan.value("weights")] + self._eval(plan, "weights_at")
        width = ceil_div(self.array.cols * number["weight_bits"], 8)
        weight_range = (weights, weights + (rows - 1) * pitch + width)
        operands, configs, inputs, sums = self._walked(plan, rows)
        operands |= {"rows": rows, "swap": 1}
        walk = Walk(
            name="COMPUTE",
            operands=operands,
            configs=configs,
            preload={"address": weights, "row_bytes": pitch, "rows": rows},
            kernel=self.kernel,
            after_load=self.pad_loads.last(inputs),
            after_store=max(self.pad_stores.last(inputs), self.sum_stores.last(sums)),
            preload_after_load=self.pad_loads.last(weight_range),
            preload_after_store=self.pad_stores.last(weight_range),
            input_banks=self._banks(inputs),
            weight_banks=self._banks(weight_range),
        )
        self._touch_walk(walk, sums, inputs, weight_range)

    def _vector(self, plan: _Plan) -> None:
        number, text = plan.numbers, plan.texts
        operands, configs, inputs, sums = self._walked(plan, ceil_div(number["columns"] * number["input_bits"], 8))
        ranges = [inputs]
        alu = {"scalar": number["scalar"], "address": 0, "step_bytes": 0, "shift": number["shift"]}
        second = plan.values["values"]
        if second is not None:
            values = self.at[second] + self._eval(plan, "values_at")
            is_sequence = text["operand"] == "sequence"
            num = number["x_count"] * number["y_count"] if is_sequence else 1
            ranges.append((values, values + (num - 1) * number["values_step"] + self.array.cols))
            alu |= {"address": values, "step_bytes": number["values_step"] if is_sequence else 0}
        operands |= {
            "columns": number["columns"],
            "operation": int(text["operation"] == "maximum"),
            "operand": ("scalar", "vector", "sequence").index(text["operand"]),
            "lanes": int(text["lanes"] == "combined"),
            "hold": number["hold"],
        }
        walk = Walk(
            name="ALU",
            operands=operands,
            configs=(*configs, ("CFG_ALU", alu)),
            preload=None,
            kernel=self.kernel,
            after_load=max(self.pad_loads.last(places) for places in ranges),
            after_store=max(self.sum_stores.last(sums), *(self.pad_stores.last(places) for places in ranges)),
        )
        self._touch_walk(walk, sums, *ranges)

    def _walked(self, plan: _Plan, lane_bytes: int) -> tuple[dict[str, int], tuple[Config, ...], Range, Range]:
        """Operands and configuration of a walk, the bytes that it reads, and the sums that it writes."""
        number, address = plan.numbers, self.at[plan.value("input")]
        rows, width, pitch = plan.shape
        y, x = self._eval(plan, "y"), self._eval(plan, "x")
        y_count, x_count = number["y_count"], number["x_count"]
        sums = self.at[plan.value("sums")] + self._eval(plan, "sums_at")
        operands = {
            "y": y, "x": x, "destination": sums, "x_count": x_count, "y_count": y_count,
            "accumulate": int(self._eval(plan, "accumulate") != 0),
        }  # fmt: skip
        bits = number.get("input_bits", 8)
        configs: tuple[Config, ...] = (
            ("CFG_TILE", {"address": address, "row_bytes": pitch, "rows": rows, "width_bytes": width}),
            ("CFG_WALK", {
                "x_step_bytes": number["x_step"], "y_step_rows": number["y_step"], "padding": number["padding"],
                "input_bits": {8: 0, 4: 1, 32: 2}[bits], "weight_bits": int(number.get("weight_bits", 8) == 4),
            }),
        )  # fmt: skip
        first = max(0, y)
        last = min(rows - 1, y + (y_count - 1) * number["y_step"])
        low, high = max(0, x), min(width, x + (x_count - 1) * number["x_step"] + lane_bytes)
        inputs = (address, address)
        if first <= last and low < high:
            inputs = (address + first * pitch + low, address + last * pitch + high)
        num = 1 if number.get("hold") else x_count * y_count
        return operands, configs, inputs, (sums, sums + num)

    def _banks(self, places: Range) -> int:
        """The banks of some bytes, a bit each."""
        low, high = places
        num_bytes = self.array.scratchpad_bytes // self.array.scratchpad_banks
        first, last = low // num_bytes, max(low, high - 1) // num_bytes
        return (1 << (last + 1)) - (1 << first)

    def _touch_walk(self, walk: Walk, sums: Range, *ranges: Range) -> None:
        step = self._add(walk)
        self.sum_walks.touch(sums, step)
        for places in ranges:
            self.pad_walks.touch(places, step)

    # ---- Stores.

    def _store(self, plan: _Plan) -> None:
        number, second = plan.numbers, plan.values["table"]
        y_count, x_count, columns = number["y_count"], number["x_count"], number["columns"]
        source = self.at[plan.value("sums")] + self._eval(plan, "sums_at")
        target = self.at[plan.value("target")] + self._eval(plan, "write_at")
        is_local = tile.space_of(plan.value("target")) == tile.SCRATCHPAD
        num_bytes = ceil_div(columns * number["bits"], 8)
        written = (
            target,
            target + (y_count - 1) * number["y_pitch"] + (x_count - 1) * number["x_pitch"] + num_bytes,
        )
        slot = self.at[plan.value("parameters")]
        loads = [self.slot_loads.last((slot, slot + 1))]
        table = None if second is None else self.at[second]
        if table is not None:
            loads.append(self.table_loads.last((table, table + 1)))
        loads.append((self.pad_loads if is_local else self.memory_loads).last(written))
        sums = (source, source + y_count * x_count)
        made = Store(
            operands={
                "source": source, "x_count": x_count, "y_count": y_count, "address": target, "columns": columns,
                "slot": slot, "format": {8: 0, 4: 1, 32: 2}[number["bits"]], "space": int(is_local),
                "lookup": 0 if table is None else table + 1,
            },
            config={
                "x_bytes": number["x_pitch"], "y_bytes": number["y_pitch"], "zero_point": number["zero_point"],
                "low": number["low"], "high": number["high"],
            },
            kernel=self.kernel,
            after_walk=max(self.sum_walks.last(sums), self.pad_walks.last(written) if is_local else 0),
            after_load=max(loads),
        )  # fmt: skip
        step = self._add(made)
        self.sum_stores.touch(sums, step)
        self.slot_stores.touch((slot, slot + 1), step)
        if table is not None:
            self.table_stores.touch((table, table + 1), step)
        (self.pad_stores if is_local else self.memory_stores).touch(written, step)

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        self.num[type(step)] += 1
        return self.num[type(step)]


def _memory_bytes(buffers: Sequence[tile.BufferOp]) -> int:
    ends = [
        int(op.address.value.data) + tile.size_of(op.result)[0] * tile.pitch_of(op.result)
        for op in buffers
        if tile.space_of(op.result) == tile.MAIN
    ]
    return max(ends, default=0)


NAMES = ("source", "target", "input", "weights", "values", "sums", "parameters", "table", "result")


def _plans(block: Block) -> list[_Plan]:
    """What is known of the ops of a block."""
    dies = deaths_in(block)
    return [_plan(op, dies.get(op, ())) for op in block.ops]


def _plan(op: Operation, dies: Sequence[SSAValue]) -> _Plan:
    attributes = op.attributes.items()
    values = {name: getattr(op, name) for name in NAMES if hasattr(op, name)}
    source = values.get("input")
    return _Plan(
        op=op,
        numbers={name: int(attr.value.data) for name, attr in attributes if isinstance(attr, IntegerAttr)},
        texts={name: attr.data for name, attr in attributes if isinstance(attr, StringAttr)},
        maps={name: _linear(attr) for name, attr in attributes if isinstance(attr, AffineMapAttr)},
        values=values,
        indices=tuple(getattr(op, "indices", ())),
        shape=(0, 0, 0)
        if source is None
        else (tile.size_of(source)[0], tile.size_of(source)[1], tile.pitch_of(source)),
        dies=tuple(dies),
        is_weights=isinstance(op, tile.PlaceOp) and _holds_weights(op),
        body=_plans(op.body.block) if isinstance(op, tile.ForOp) else [],
    )


def _walk(plans: Sequence[_Plan]) -> Iterator[_Plan]:
    for plan in plans:
        yield plan
        yield from _walk(plan.body)


def _holds_weights(op: tile.PlaceOp) -> bool:
    """Whether products read it as their weights."""
    users = [use.operation for use in op.result.uses]
    return any(isinstance(user, tile.MatMulOp) and user.weights is op.result for user in users)


def _linear(attr: AffineMapAttr) -> tuple[int, tuple[int, ...]]:
    """An affine map of one result as its constant and a factor per dim."""
    map_ = attr.data
    factors = [0] * map_.num_dims
    constant = _collect(map_.results[0], 1, factors)
    return constant, tuple(factors)


def _collect(expr: AffineExpr, scale: int, factors: list[int]) -> int:
    """Adds an expression's factors; returns its constant."""
    if isinstance(expr, AffineConstantExpr):
        return scale * expr.value
    if isinstance(expr, AffineDimExpr):
        factors[expr.position] += scale
        return 0
    assert isinstance(expr, AffineBinaryOpExpr)
    if expr.kind == AffineBinaryOpKind.Add:
        return _collect(expr.lhs, scale, factors) + _collect(expr.rhs, scale, factors)
    if expr.kind == AffineBinaryOpKind.Mul and isinstance(expr.rhs, AffineConstantExpr):
        return _collect(expr.lhs, scale * expr.rhs.value, factors)
    raise CompileError(f"{expr} is not linear in the indices")
