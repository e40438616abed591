"""`qnn` ops that run without the host in between, as one program of `tile` kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...archdsl import CompileError, InfeasibleError, PeArray
from ..ir import qnn
from ..ir.attributes import int_attr, ints_attr, names_attr, shape_of
from ..ir.data import ConstantOp, InputOp
from ..ir.store import Array, DataStore
from ..ir.tile import MAIN, SCRATCHPAD, KernelOp, ProgramOp
from .activations import Activation, Buffers, Format, aligned, axes_of, given_format, stored_format
from .bounds import bounds_of
from .convolution import Convolution, Fetch, convolution_ops, packed_weights, taps_of
from .movement import StridedCopy, copy_ops, strides_of
from .partition import VIEWS, Part, source_of
from .planning import Lifetime, MemoryPlan, plan_memory
from .streaming import streamed_ops
from .target import Output, Target
from .vectors import Operation2d, Tap, VectorWork, channel_weights, vector_ops


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What can be chosen about a program.

    Attributes:
        staging_bytes: Room of the scratchpad for weights and what else is staged.
        keeps_layers: Whether every op's result is stored in main memory too.
        keeps_on_chip: Whether results may stand in the scratchpad until they are used.
    """

    staging_bytes: int
    keeps_layers: bool = False
    keeps_on_chip: bool = True


@dataclass(slots=True)
class _Value:
    """A tensor that kernels read or write: results of views are that of their source.

    Attributes:
        name: Unique.
        format: How it stands in memory.
        first, last: First and last kernel that touches it.
        reads: How many kernels read it.
        is_input, is_output: Whether the program is given it, or returns it.
    """

    name: str
    format: Format
    first: int
    last: int
    reads: int = 0
    is_input: bool = False
    is_output: bool = False
    memory: Activation | None = None
    local: Activation | None = None
    fetched_rows: int = 0


class NetworkTiler:
    """Lowers one program.

    Args:
        part: Its ops, and what goes in and out.
        store: Arrays of its constants.
        array: The PE array.
        options: Choices.
    """

    def __init__(self, part: Part, store: DataStore, array: PeArray, options: Options) -> None:
        self.part = part
        self.store = store
        self.array = array
        self.options = options
        self.kernels = [op for op in part.ops if not isinstance(op, VIEWS)]
        self.values: dict[SSAValue, _Value] = {}
        self.target = Target(array=array, buffers=Buffers(), store=store, staging_bytes=options.staging_bytes)
        self._names: dict[str, int] = {}
        self._kernel_names: dict[str, int] = {}
        self._lowerings: dict[type[Operation], Callable[[Operation, int], list[Operation]]] = {
            qnn.Conv2dOp: self._conv,
            qnn.DepthwiseConv2dOp: self._depthwise,
            qnn.MatMulOp: self._matmul,
            qnn.Pool2dOp: self._pool,
            qnn.AddOp: self._add,
            qnn.MultiplyOp: self._multiply,
            qnn.RescaleOp: self._rescale,
            qnn.LookupOp: self._lookup,
            qnn.TransposeOp: self._transpose,
            qnn.SliceOp: self._slice,
            qnn.ConcatOp: self._concat,
            qnn.PadOp: self._pad,
        }

    def run(self, name: str) -> ProgramOp:
        """The program, with the part's inputs as operands.

        Args:
            name: Of the program.
        """
        self._collect()
        plan = self._place()
        kernels: list[Operation] = []
        for idx, op in enumerate(self.kernels):
            lower = self._lowerings.get(type(op))
            if lower is None:
                raise CompileError(f"{self._nodes(op)}: {op.name} has no kernel for the PE array")
            self.target.staging_bytes = self.array.scratchpad_bytes - self._staging_begin(idx)
            body = self._lowered(op, idx, lower)
            kernel = self._unique(self._nodes(op)[0] if self._nodes(op) else op.name, self._kernel_names)
            kind = op.name.removeprefix("qnn.")
            bounds = bounds_of(op, self.array)
            kernels.append(
                KernelOp(
                    kernel, kind, body, nodes=self._nodes(op), dims=_dims(op), macs=bounds.macs,
                    bound_cycles=bounds.cycles(self.array), compulsory_bytes=bounds.compulsory_bytes,
                    staging=(self._staging_begin(idx), self.array.scratchpad_bytes),
                )
            )  # fmt: skip
        ends = {"input": self.part.inputs, "output": self.part.outputs}
        attributes: dict[str, Attribute] = {
            "program_name": StringAttr(name),
            "live_bytes": int_attr(plan.live_bytes),
            **self._local_places(),
        }
        for what, values in ends.items():
            found = [self.values[source_of(value)] for value in values]
            attributes[f"{what}_names"] = names_attr(value.name for value in found)
            attributes[f"{what}_strides"] = ArrayAttr(
                [ints_attr(self._strides(value, shape_of(tensor))) for value, tensor in zip(found, values, strict=True)]
            )
        return ProgramOp(
            operands=[list(self.part.inputs)], attributes=attributes, result_types=[[value.type for value in self.part.outputs]],
            regions=[Region(Block([*self.target.buffers.ops, *kernels]))],
        )  # fmt: skip

    def _lowered(self, op: Operation, idx: int, lower: Callable[[Operation, int], list[Operation]]) -> list[Operation]:
        """The body of an op's kernel; what does not fit is told with the op's name."""
        try:
            return lower(op, idx)
        except InfeasibleError as error:
            name = ", ".join(self._nodes(op)) or op.name
            raise InfeasibleError(replace(error.infeasible, op=name)) from error

    def _local_places(self) -> dict[str, Attribute]:
        """What stands in the scratchpad, where, and for how long."""
        found = [(value, value.local) for value in self.values.values() if value.local is not None]
        found.sort(key=lambda item: (item[0].first, item[1].address))
        places = [(local.address, value.format.num_bytes, value.first, value.last) for value, local in found]
        return {
            "local_names": names_attr(value.name for value, _ in found),
            "local_places": ArrayAttr([ints_attr(place) for place in places]),
        }

    def _staging_begin(self, idx: int) -> int:
        """First byte of the scratchpad behind all activations that a kernel must leave alone."""
        ends = [
            value.local.address + value.format.num_bytes
            for value in self.values.values()
            if value.local is not None and value.first <= idx <= value.last
        ]
        unit = self.array.word_bytes
        return aligned(max(ends, default=0), unit)

    def _strides(self, value: _Value, shape: Sequence[int]) -> list[int]:
        """Bytes along each axis of a tensor that stands in main memory."""
        assert value.memory is not None
        return list(strides_of(self._viewed(value.memory, shape).format, shape))

    # ---- Values and their places.

    def _collect(self) -> None:
        """Finds all activations and their lifetimes."""
        for idx, op in enumerate(self.kernels):
            for operand in op.operands:
                if isinstance(source_of(operand).owner, ConstantOp):
                    continue
                value = self._value(operand, idx)
                value.last = max(value.last, idx)
                value.reads += 1
            self._value(op.results[0], idx)
        for value in self.part.outputs:
            self.values[source_of(value)].is_output = True

    def _value(self, value: SSAValue, idx: int) -> _Value:
        source = source_of(value)
        if source not in self.values:
            is_input = source in self.part.inputs
            form = given_format if is_input else stored_format
            shape = shape_of(value if is_input else source)
            self.values[source] = _Value(
                name=self._unique(_name(source), self._names),
                format=form(self.array, shape),
                first=idx,
                last=idx,
                is_input=is_input,
            )
        return self.values[source]

    def _place(self) -> MemoryPlan:
        unit = max(self.array.bus_bytes, min(self.array.cols, self.array.bus_bytes))
        for value in self.values.values():
            if value.is_input or value.is_output or self.options.keeps_layers:
                self._place_in_memory(value)
        capacity = self.array.scratchpad_bytes - self.options.staging_bytes
        wanted = [
            Lifetime(
                name=value.name, num_bytes=aligned(value.format.num_bytes, unit), first=value.first, last=value.last,
                traffic_bytes=value.format.num_bytes * (value.reads + (0 if value.is_input or value.is_output else 1)),
            )
            for value in self.values.values() if value.reads and self.options.keeps_on_chip
        ]  # fmt: skip
        plan = plan_memory(wanted, capacity, unit)
        for value in self.values.values():
            if value.name in plan.addresses:
                value.local = Activation(
                    name=f"{value.name}.local" if value.memory else value.name,
                    format=value.format,
                    space=SCRATCHPAD,
                    address=plan.addresses[value.name],
                )
            elif value.memory is None:
                self._place_in_memory(value)
        return plan

    def _place_in_memory(self, value: _Value) -> None:
        value.memory = Activation(
            name=value.name, format=value.format, space=MAIN, address=self.target.memory_bytes
        )  # fmt: skip
        self.target.memory_bytes += aligned(value.format.num_bytes, self.array.bus_bytes)
        role = "input" if value.is_input else "output" if value.is_output else "activation"
        self.target.buffers.of(value.memory, role)

    def _input(self, operand: SSAValue) -> Activation:
        """Where a kernel finds an operand, in the operand's own shape."""
        value = self.values[source_of(operand)]
        place = value.local or value.memory
        assert place is not None
        return self._viewed(place, shape_of(operand))

    def _viewed(self, activation: Activation, shape: Sequence[int]) -> Activation:
        """An activation under another shape: that of a view of it."""
        images, height, width, channels = axes_of(shape)
        format_ = activation.format
        if (images, height, width, channels) == (format_.images, format_.height, format_.width, format_.channels):
            return activation
        if format_.has_gaps:
            raise CompileError(f"{activation.name}: rows have gaps, so that it has no other shape")
        if channels == format_.channels:
            pixel = format_.pixel_bytes
        elif format_.pixel_bytes == format_.channels:
            pixel = channels
        else:
            raise CompileError(f"{activation.name}: pixels have gaps, so that its channels cannot be merged or split")
        return activation.view(
            Format(
                images=images, height=height, width=width, channels=channels, pixel_bytes=pixel, row_bytes=width * pixel
            )
        )

    def _output(self, op: Operation, table: SSAValue | None = None) -> Output:
        targets = self._targets(op)
        if isinstance(op, qnn.LookupOp):
            return Output(targets=targets, zero_point=0, low=qnn.LOW, high=qnn.HIGH, table=table)
        how = qnn.requantisation_of(cast(qnn.RequantisingOp, op))
        return Output(targets=targets, zero_point=how.zero_point, low=how.low, high=how.high, table=table)

    def _targets(self, op: Operation) -> tuple[Activation, ...]:
        """All places of an op's result."""
        value = self.values[op.results[0]]
        return tuple(place for place in (value.local, value.memory) if place is not None)

    def _fetch(self, operand: SSAValue) -> Fetch | None:
        """Loads rows of an operand that stands in main memory and is used for the first time."""
        value = self.values[source_of(operand)]
        if value.memory is None or value.local is None or not value.is_input:
            return None
        total = value.format.images * value.format.height
        if value.fetched_rows >= total:
            return None
        memory, local = value.memory, value.local

        def fetch(rows: int) -> list[Operation]:
            begin, end = value.fetched_rows, min(max(rows, 0), total)
            if end <= begin:
                return []
            value.fetched_rows = end
            return self.target.copied(memory, local, begin, end - begin)

        return fetch

    def _fetched(self, *operands: SSAValue) -> list[Operation]:
        """Loads all of some operands that are not there yet."""
        found: list[Operation] = []
        for operand in operands:
            fetch = self._fetch(operand)
            if fetch is not None:
                found += fetch(1 << 30)
        return found

    # ---- Kernels.

    def _constant(self, value: SSAValue) -> Array:
        owner = value.owner
        assert isinstance(owner, ConstantOp)
        return owner.array(self.store)

    def _parameters(self, op: Operation, name: str) -> SSAValue:
        how = qnn.requantisation_of(cast(qnn.RequantisingOp, op))
        bias, multiplier, shift = (self._constant(value) for value in how.operands)
        return self.target.channel_parameters(name, bias, multiplier, shift)

    def _conv(self, op: Operation, idx: int) -> list[Operation]:
        conv = cast(qnn.Conv2dOp, op)
        return self._convolution(op, conv.input, self._constant(conv.weights), qnn.window_of(conv))

    def _matmul(self, op: Operation, idx: int) -> list[Operation]:
        matmul = cast(qnn.MatMulOp, op)
        weights = self._constant(matmul.weights)
        return self._convolution(op, matmul.input, weights[None, None], qnn.Window())

    def _convolution(self, op: Operation, operand: SSAValue, weights: Array, window: qnn.Window) -> list[Operation]:
        name = self._nodes(op)[0] if self._nodes(op) else op.name
        source = self._input(operand)
        format_ = source.format
        taps = taps_of(self.array.rows, format_.pixel_bytes, format_.channels, weights.shape[1], window.dilations[1])
        packed = packed_weights(weights, taps, format_.pixel_bytes, self.array.cols)
        weight_buffer = self.target.constant(f"{name}.weights", packed, "weight")
        parameters = self._parameters(op, name)
        output = self._output(op)
        fetch = self._fetch(operand)
        found: list[Operation] = []
        _, height, width, channels = axes_of(shape_of(op.results[0]))
        for image in range(format_.images):
            targets = tuple(target.image(image) for target in output.targets)
            conv = Convolution(
                input=source.image(image), output=Output(targets=targets, zero_point=output.zero_point, low=output.low, high=output.high),
                height=weights.shape[0], width=weights.shape[1], window=window, outputs=channels, output_height=height,
                output_width=width, weights=weight_buffer, parameters=parameters,
            )  # fmt: skip
            first = image * format_.height
            if conv.input.is_local:
                found += convolution_ops(self.target, conv, fetch and _of_image(fetch, first, format_.height))
            else:
                found += streamed_ops(self.target, conv)
        return found

    def _depthwise(self, op: Operation, idx: int) -> list[Operation]:
        conv = cast(qnn.DepthwiseConv2dOp, op)
        weights = self._constant(conv.weights)
        height, width, channels = weights.shape
        window = qnn.window_of(conv)
        taps = tuple(
            Tap(y=y * window.dilations[0], x=x * window.dilations[1], weights_at=(y * width + x) * self.array.cols)
            for y in range(height)
            for x in range(width)
        )
        return self._vectors(op, [conv.input], taps, window, weights=weights.reshape(-1, channels))

    def _pool(self, op: Operation, idx: int) -> list[Operation]:
        pool = cast(qnn.Pool2dOp, op)
        window = qnn.window_of(pool)
        height, width = pool.kernel.get_values()
        taps = tuple(
            Tap(y=y * window.dilations[0], x=x * window.dilations[1]) for y in range(height) for x in range(width)
        )
        return self._vectors(op, [pool.input], taps, window, operation=cast(Operation2d, pool.operation.data))

    def _add(self, op: Operation, idx: int) -> list[Operation]:
        add = cast(qnn.AddOp, op)
        taps = tuple(Tap(source=at, scalar=int(factor)) for at, factor in enumerate(add.factors.get_values()))
        return self._vectors(op, [add.first, add.second], taps, qnn.Window())

    def _multiply(self, op: Operation, idx: int) -> list[Operation]:
        multiply = cast(qnn.MultiplyOp, op)
        first, second = multiply.zero_points.get_values()
        taps = [Tap(source=0, times=1)]
        taps += [Tap(source=0, scalar=-second)] * bool(second) + [Tap(source=1, scalar=-first)] * bool(first)
        return self._vectors(op, [multiply.first, multiply.second], tuple(taps), qnn.Window(), added=first * second)

    def _rescale(self, op: Operation, idx: int) -> list[Operation]:
        rescale = cast(qnn.RescaleOp, op)
        return self._vectors(
            op, [rescale.input], (Tap(weights_at=0),), qnn.Window(), weights=self._constant(rescale.weights)[None]
        )

    def _lookup(self, op: Operation, idx: int) -> list[Operation]:
        lookup = cast(qnn.LookupOp, op)
        table = self.target.constant(
            f"{self._nodes(op)[0]}.table", self._constant(lookup.table).view(np.uint8), "parameter"
        )
        return self._vectors(op, [lookup.input], (Tap(),), qnn.Window(), table=table)

    def _vectors(
        self, op: Operation, operands: Sequence[SSAValue], taps: tuple[Tap, ...], window: qnn.Window, *,
        weights: Array | None = None, operation: Operation2d = "add", table: SSAValue | None = None, added: int = 0,
    ) -> list[Operation]:  # fmt: skip
        name = self._nodes(op)[0] if self._nodes(op) else op.name
        inputs = [self._input(operand) for operand in operands]
        output = self._output(op, table)
        images, height, width, channels = axes_of(shape_of(op.results[0]))
        cols = self.array.cols
        packed = None
        if weights is not None:
            packed = self.target.constant(f"{name}.weights", channel_weights(weights, cols), "weight")
        if isinstance(op, qnn.LookupOp):
            ones, zeros = np.ones(channels, dtype=np.int64), np.zeros(channels, dtype=np.int64)
            parameters = self.target.channel_parameters(name, zeros, ones, zeros)
        else:
            how = qnn.requantisation_of(cast(qnn.RequantisingOp, op))
            bias, multiplier, shift = (self._constant(value) for value in how.operands)
            parameters = self.target.channel_parameters(name, bias.astype(np.int64) + added, multiplier, shift)
        found = self._fetched(*operands)
        is_elementwise = not isinstance(op, qnn.DepthwiseConv2dOp | qnn.Pool2dOp)
        if is_elementwise and not any(place.format.has_gaps for place in (*inputs, *output.targets)):
            inputs = [place.view(place.format.as_row()) for place in inputs]
            output = Output(
                targets=tuple(place.view(place.format.as_row()) for place in output.targets),
                zero_point=output.zero_point, low=output.low, high=output.high, table=output.table,
            )  # fmt: skip
            images, height, width = 1, 1, images * height * width
        for image in range(images):
            targets = tuple(target.image(image) for target in output.targets)
            work = VectorWork(
                inputs=tuple(place.image(image) for place in inputs),
                output=Output(targets=targets, zero_point=output.zero_point, low=output.low, high=output.high, table=output.table),
                taps=taps, operation=operation, window=window, channels=channels, output_height=height,
                output_width=width, weights=packed,
                weight_bytes=0 if weights is None else len(weights) * cols, parameters=parameters,
            )  # fmt: skip
            found += vector_ops(self.target, work)
        return found

    def _transpose(self, op: Operation, idx: int) -> list[Operation]:
        transpose = cast(qnn.TransposeOp, op)
        steps = strides_of(self._input(transpose.input).format, shape_of(transpose.input))
        permuted = tuple(steps[axis] for axis in transpose.permutation.get_values())
        return self._moved(op, transpose.input, shape_of(op.results[0]), read_strides=permuted)

    def _slice(self, op: Operation, idx: int) -> list[Operation]:
        some = cast(qnn.SliceOp, op)
        steps = strides_of(self._input(some.input).format, shape_of(some.input))
        begin, strides = some.begin.get_values(), some.steps.get_values()
        return self._moved(
            op, some.input, shape_of(op.results[0]), read_at=sum(at * step for at, step in zip(begin, steps, strict=True)),
            read_strides=tuple(num * step for num, step in zip(strides, steps, strict=True)),
        )  # fmt: skip

    def _concat(self, op: Operation, idx: int) -> list[Operation]:
        concat = cast(qnn.ConcatOp, op)
        axis, found, at = int(concat.axis.value.data), list[Operation](), 0
        for operand in concat.inputs:
            found += self._moved(op, operand, shape_of(operand), write_axis=(axis, at))
            at += shape_of(operand)[axis]
        return found

    def _pad(self, op: Operation, idx: int) -> list[Operation]:
        pad = cast(qnn.PadOp, op)
        value, shape = int(pad.value.value.data), shape_of(op.results[0])
        found = self._moved(op, pad.input, shape, scalar=0, added=value, read_strides=(0,) * len(shape))
        return found + self._moved(op, pad.input, shape_of(pad.input), write_from=tuple(pad.before.get_values()))

    def _moved(
        self, op: Operation, operand: SSAValue, shape: Sequence[int], *, read_at: int = 0,
        read_strides: tuple[int, ...] | None = None, write_axis: tuple[int, int] = (0, 0),
        write_from: tuple[int, ...] | None = None, scalar: int = 1, added: int = 0,
    ) -> list[Operation]:  # fmt: skip
        """A box of an operand to a box of the result that begins at `write_from`, or at an element of an axis."""
        source = self._input(operand)
        if not source.is_local:
            raise CompileError(f"{source.name} must fit the scratchpad to be moved ({source.format.num_bytes} B)")
        found = self._fetched(operand)
        ones = np.ones(self.array.cols, dtype=np.int64)
        parameters = self.target.channel_parameters("copy", ones * added, ones, ones * 0)
        for target in self._targets(op):
            steps = strides_of(target.format, shape_of(op.results[0]))
            begin = write_from or tuple(write_axis[1] if axis == write_axis[0] else 0 for axis in range(len(steps)))
            copy = StridedCopy(
                source=source, target=target, shape=tuple(shape), read_at=read_at,
                read_strides=read_strides or strides_of(source.format, shape_of(operand)),
                write_at=sum(at * step for at, step in zip(begin, steps, strict=True)), write_strides=steps, scalar=scalar,
            )  # fmt: skip
            found += copy_ops(self.target, copy, parameters)
        return found

    # ---- Names.

    def _nodes(self, op: Operation) -> list[str]:
        nodes = op.attributes.get("nodes")
        return [] if nodes is None else [node.data for node in nodes]  # pyright: ignore

    def _unique(self, name: str, names: dict[str, int]) -> str:
        names[name] = names.get(name, 0) + 1
        return name if names[name] == 1 else f"{name}#{names[name]}"


def _of_image(fetch: Fetch, first: int, height: int) -> Fetch:
    """Loads rows of one image of several."""
    return lambda rows: fetch(first + min(rows, height))


def _name(value: SSAValue) -> str:
    owner = value.owner
    if isinstance(owner, InputOp):
        return owner.input_name.data
    nodes = owner.attributes.get("nodes")  # pyright: ignore
    return nodes.data[-1].data if nodes is not None and nodes.data else owner.name  # pyright: ignore


def _dims(op: Operation) -> Mapping[str, int]:
    if isinstance(op, qnn.MatMulOp):
        shape, weights = shape_of(op.input), shape_of(op.weights)
        return {"M": int(np.prod(shape[:-1])), "N": weights[-1], "K": shape[-1]}
    images, height, width, channels = axes_of(shape_of(op.results[0]))
    dims = {"B": images, "K": channels, "OY": height, "OX": width}
    if isinstance(op, qnn.Conv2dOp):
        kernel = shape_of(op.weights)
        return dims | {"C": kernel[2], "FY": kernel[0], "FX": kernel[1]}
    return dims
