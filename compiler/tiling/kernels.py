"""Kernels of `qnn` ops: each op as loops over tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...archdsl import PassError
from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp
from ..ir.store import Array, DataStore
from ..ir.text import nodes_of
from .activations import axes_of
from .convolution import Convolution, Fetch, convolution_ops, packed_weights, taps_of
from .movement import StridedCopy, copy_ops, strides_of
from .streaming import streamed_ops
from .target import Output, Target
from .values import Values
from .vectors import Operation2d, Tap, VectorWork, channel_weights, vector_ops


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelMaker:
    """Makes kernels for the ops of one program.

    Attributes:
        values: The program's tensors, placed.
        target: What is made.
        store: Arrays of constants.
    """

    values: Values
    target: Target
    store: DataStore

    def ops(self, op: Operation) -> list[Operation]:
        """The loops of an op.

        Raises:
            PassError: There is no kernel for it, or it does not fit the array's memories.
        """
        makers: dict[type[Operation], Callable[[Operation], list[Operation]]] = {
            qnn.Conv2dOp: self._conv,
            qnn.DepthwiseConv2dOp: self._depthwise,
            qnn.MatMulOp: self._matmul,
            qnn.Pool2dOp: self._pool,
            qnn.AddOp: self._add,
            qnn.MultiplyOp: self._multiply,
            qnn.RescaleOp: self._rescale,
            qnn.LookupOp: self._lookup,
            qnn.ReshapeOp: self._reshape,
            qnn.TransposeOp: self._transpose,
            qnn.SliceOp: self._slice,
            qnn.ConcatOp: self._concat,
            qnn.PadOp: self._pad,
        }
        maker = makers.get(type(op))
        if maker is None:
            raise PassError(f"{op.name} has no kernel for the PE array")
        return maker(op)

    # ---- Inputs and outputs.

    def _output(self, op: Operation, table: SSAValue | None = None) -> Output:
        targets = self.values.targets(op.results[0])
        if isinstance(op, qnn.LookupOp):
            return Output(targets=targets, zero_point=0, low=qnn.LOW, high=qnn.HIGH, table=table)
        how = qnn.requantisation_of(cast(qnn.RequantisingOp, op))
        return Output(targets=targets, zero_point=how.zero_point, low=how.low, high=how.high, table=table)

    def _fetch(self, operand: SSAValue) -> Fetch | None:
        """Loads rows of an input of the program that is to stand in the scratchpad and is used for the first time."""
        tensor = self.values.tensor(operand)
        memory, local = tensor.memory, tensor.local
        total = tensor.format.images * tensor.format.height
        if memory is None or local is None or not tensor.is_input or tensor.fetched_rows >= total:
            return None

        def fetch(rows: int) -> list[Operation]:
            begin, end = tensor.fetched_rows, min(max(rows, 0), total)
            if end <= begin:
                return []
            tensor.fetched_rows = end
            return self.target.copied(memory, local, begin, end - begin)

        return fetch

    def _fetched(self, *operands: SSAValue) -> list[Operation]:
        """Loads all of some operands that are not there yet."""
        found: list[Operation] = []
        for operand in operands:
            fetch = self._fetch(operand)
            if fetch is not None:
                found += fetch(self.values.tensor(operand).format.images * self.values.tensor(operand).format.height)
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

    def _conv(self, op: Operation) -> list[Operation]:
        conv = cast(qnn.Conv2dOp, op)
        return self._convolution(op, conv.input, self._constant(conv.weights), qnn.window_of(conv))

    def _matmul(self, op: Operation) -> list[Operation]:
        matmul = cast(qnn.MatMulOp, op)
        weights = self._constant(matmul.weights)
        return self._convolution(op, matmul.input, weights[None, None], qnn.Window())

    def _convolution(self, op: Operation, operand: SSAValue, weights: Array, window: qnn.Window) -> list[Operation]:
        name = _name(op)
        source = self.values.activation(operand)
        format_ = source.format
        taps = taps_of(
            self.target.array.rows, format_.pixel_bytes, format_.channels, weights.shape[1], window.dilations[1]
        )
        packed = packed_weights(weights, taps, format_.pixel_bytes, self.target.array.cols)
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

    def _depthwise(self, op: Operation) -> list[Operation]:
        conv = cast(qnn.DepthwiseConv2dOp, op)
        weights = self._constant(conv.weights)
        height, width, channels = weights.shape
        window = qnn.window_of(conv)
        taps = tuple(
            Tap(
                y=y * window.dilations[0],
                x=x * window.dilations[1],
                weights_at=(y * width + x) * self.target.array.cols,
            )
            for y in range(height)
            for x in range(width)
        )
        return self._vectors(op, [conv.input], taps, window, weights=weights.reshape(-1, channels))

    def _pool(self, op: Operation) -> list[Operation]:
        pool = cast(qnn.Pool2dOp, op)
        window = qnn.window_of(pool)
        height, width = pool.kernel.get_values()
        taps = tuple(
            Tap(y=y * window.dilations[0], x=x * window.dilations[1]) for y in range(height) for x in range(width)
        )
        return self._vectors(op, [pool.input], taps, window, operation=cast(Operation2d, pool.operation.data))

    def _add(self, op: Operation) -> list[Operation]:
        add = cast(qnn.AddOp, op)
        taps = tuple(Tap(source=at, scalar=int(factor)) for at, factor in enumerate(add.factors.get_values()))
        return self._vectors(op, [add.first, add.second], taps, qnn.Window())

    def _multiply(self, op: Operation) -> list[Operation]:
        multiply = cast(qnn.MultiplyOp, op)
        first, second = multiply.zero_points.get_values()
        taps = [Tap(source=0, times=1)]
        taps += [Tap(source=0, scalar=-second)] * bool(second) + [Tap(source=1, scalar=-first)] * bool(first)
        return self._vectors(op, [multiply.first, multiply.second], tuple(taps), qnn.Window(), added=first * second)

    def _rescale(self, op: Operation) -> list[Operation]:
        rescale = cast(qnn.RescaleOp, op)
        return self._vectors(
            op, [rescale.input], (Tap(weights_at=0),), qnn.Window(), weights=self._constant(rescale.weights)[None]
        )

    def _lookup(self, op: Operation) -> list[Operation]:
        lookup = cast(qnn.LookupOp, op)
        table = self.target.constant(f"{_name(op)}.table", self._constant(lookup.table).view(np.uint8), "parameter")
        return self._vectors(op, [lookup.input], (Tap(),), qnn.Window(), table=table)

    def _vectors(
        self, op: Operation, operands: Sequence[SSAValue], taps: tuple[Tap, ...], window: qnn.Window, *,
        weights: Array | None = None, operation: Operation2d = "add", table: SSAValue | None = None, added: int = 0,
    ) -> list[Operation]:  # fmt: skip
        name = _name(op)
        inputs = [self.values.activation(operand) for operand in operands]
        output = self._output(op, table)
        images, height, width, channels = axes_of(shape_of(op.results[0]))
        cols = self.target.array.cols
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

    def _reshape(self, op: Operation) -> list[Operation]:
        """Elements in the same order: on one side at least they must lie side by side."""
        operand, result = op.operands[0], op.results[0]
        source, places = self.values.activation(operand).format, self.values.targets(result)
        if all(place.format.pixel_bytes == place.format.channels or place.format.pixels == 1 for place in places):
            shape = shape_of(operand)
            return self._moved(op, operand, shape, write_strides=_dense(shape))
        if source.pixel_bytes == source.channels and not source.has_gaps:
            shape = shape_of(result)
            return self._moved(op, operand, shape, read_strides=_dense(shape))
        raise PassError(
            f"a reshape from {list(shape_of(operand))} to {list(shape_of(result))}: pixels have gaps on both sides; pad the"
            f" channels to a multiple of {min(self.target.array.cols, self.target.array.bus_bytes)}"
        )

    def _transpose(self, op: Operation) -> list[Operation]:
        transpose = cast(qnn.TransposeOp, op)
        steps = strides_of(self.values.activation(transpose.input).format, shape_of(transpose.input))
        permuted = tuple(steps[axis] for axis in transpose.permutation.get_values())
        return self._moved(op, transpose.input, shape_of(op.results[0]), read_strides=permuted)

    def _slice(self, op: Operation) -> list[Operation]:
        some = cast(qnn.SliceOp, op)
        steps = strides_of(self.values.activation(some.input).format, shape_of(some.input))
        begin, strides = some.begin.get_values(), some.steps.get_values()
        return self._moved(
            op, some.input, shape_of(op.results[0]), read_at=sum(at * step for at, step in zip(begin, steps, strict=True)),
            read_strides=tuple(num * step for num, step in zip(strides, steps, strict=True)),
        )  # fmt: skip

    def _concat(self, op: Operation) -> list[Operation]:
        concat = cast(qnn.ConcatOp, op)
        axis, found, at = int(concat.axis.value.data), list[Operation](), 0
        for operand in concat.inputs:
            found += self._moved(op, operand, shape_of(operand), write_axis=(axis, at))
            at += shape_of(operand)[axis]
        return found

    def _pad(self, op: Operation) -> list[Operation]:
        pad = cast(qnn.PadOp, op)
        value, shape = int(pad.value.value.data), shape_of(op.results[0])
        found = self._moved(op, pad.input, shape, scalar=0, added=value, read_strides=(0,) * len(shape))
        return found + self._moved(op, pad.input, shape_of(pad.input), write_from=tuple(pad.before.get_values()))

    def _moved(
        self, op: Operation, operand: SSAValue, shape: Sequence[int], *, read_at: int = 0,
        read_strides: tuple[int, ...] | None = None, write_strides: tuple[int, ...] | None = None, write_axis: tuple[int, int] = (0, 0),
        write_from: tuple[int, ...] | None = None, scalar: int = 1, added: int = 0,
    ) -> list[Operation]:  # fmt: skip
        """A box of an operand to a box of the result that begins at `write_from`, or at an element of an axis."""
        source = self.values.activation(operand)
        if not source.is_local:
            raise PassError(f"{source.name} must fit the scratchpad to be moved ({source.format.num_bytes} B)")
        found = self._fetched(operand)
        ones = np.ones(self.target.array.cols, dtype=np.int64)
        parameters = self.target.channel_parameters("copy", ones * added, ones, ones * 0)
        for target in self.values.targets(op.results[0]):
            steps = strides_of(target.format, shape_of(op.results[0]))
            begin = write_from or tuple(write_axis[1] if axis == write_axis[0] else 0 for axis in range(len(steps)))
            copy = StridedCopy(
                source=source, target=target, shape=tuple(shape), read_at=read_at,
                read_strides=read_strides or strides_of(source.format, shape_of(operand)),
                write_at=sum(at * step for at, step in zip(begin, steps, strict=True)),
                write_strides=write_strides or steps, scalar=scalar,
            )  # fmt: skip
            found += copy_ops(self.target, copy, parameters)
        return found


def _of_image(fetch: Fetch, first: int, height: int) -> Fetch:
    """Loads rows of one image of several."""
    return lambda rows: fetch(first + min(rows, height))


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Bytes along each axis of elements side by side."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _name(op: Operation) -> str:
    names = nodes_of(op)
    return names[0] if names else op.name
