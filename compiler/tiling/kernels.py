"""Kernels of `qnn` ops: each op as loops over tiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...archdsl import PassError
from ..ir import qnn
from ..ir.attributes import shape_of
from ..ir.data import ConstantOp
from ..ir.store import Array, DataStore
from ..ir.text import nodes_of
from ..ir.tile import Linear
from ..rows.programs import stages_of
from .activations import aligned, axes_of
from .channels import Grouping, channel_tiles, packed_weights
from .convolution import Convolution, Fetch, convolution_ops
from .limits import require_sums
from .movement import Box, copy_ops, copy_parameters, dense_strides, place_for, strides_of
from .products import ComputedProduct, product_ops
from .rows import RowWork, row_ops
from .stages import Absent, Chain, Stage
from .streaming import streamed_ops, without_holes
from .target import Output, Target
from .values import Values, activations_of
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
            qnn.DepthwiseConv2dOp: self._vectors,
            qnn.MatMulOp: self._matmul,
            qnn.Pool2dOp: self._vectors,
            qnn.AddOp: self._vectors,
            qnn.MultiplyOp: self._vectors,
            qnn.RescaleOp: self._vectors,
            qnn.LookupOp: self._vectors,
            qnn.SoftmaxOp: self._rows,
            qnn.LayerNormOp: self._rows,
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

    def chain(self, ops: Sequence[Operation]) -> Chain:
        """Ops that are cut into the same bands of rows, each made for one image.

        Raises:
            InfeasibleError: A sum of one of them may not fit an accumulator.
        """
        made: dict[SSAValue, int] = {}
        stages: list[Stage] = []
        for idx, op in enumerate(ops):
            is_product = isinstance(op, qnn.Conv2dOp | qnn.MatMulOp)
            work = self.convolution(op) if is_product else self.vector_work(op)
            operands = [op.operands[0]] if is_product else vector_operands(op)
            sources = tuple(made.get(self.values.root(operand)) for operand in operands)
            if self.values.is_between(op.results[0], ops):
                work = replace(work, output=replace(work.output, targets=()))
            if isinstance(work, Convolution) and sources[0] is None and not work.input.is_local:
                work = without_holes(self.target, work)
            absent = tuple(
                self._absent(operand) if source is None else None
                for operand, source in zip(operands, sources, strict=True)
            )
            stages.append(Stage(work=work, sources=sources, absent=absent))
            made[self.values.root(op.results[0])] = idx
        return Chain.of(stages)

    # ---- Inputs and outputs.

    def _output(self, op: Operation, table: SSAValue | None = None) -> Output:
        targets = self.values.targets(op.results[0])
        if isinstance(op, qnn.LookupOp):
            return Output(targets=targets, zero_point=0, low=qnn.LOW, high=qnn.HIGH, table=table)
        how = qnn.requantisation_of(cast(qnn.RequantisingOp, op))
        return Output(targets=targets, zero_point=how.zero_point, low=how.low, high=how.high, table=table)

    def _absent(self, operand: SSAValue) -> Absent | None:
        """What is missing of an input of the program that is to stand in the scratchpad."""
        tensor = self.values.tensor(operand)
        memory, local = tensor.memory, tensor.local
        is_there = tensor.fetched_rows >= tensor.format.images * tensor.format.height
        if memory is None or local is None or not tensor.is_input or is_there:
            return None
        return Absent(memory=memory, local=local, first=tensor.fetched_rows)

    def fetched(self, ops: Sequence[Operation]) -> None:
        """Says that what a chain reads is there."""
        for op in ops:
            for operand in activations_of(op):
                tensor = self.values.tensor(operand)
                tensor.fetched_rows = tensor.format.images * tensor.format.height

    def _fetch(self, operand: SSAValue) -> Fetch | None:
        """Loads rows of an input of the program that is to stand in the scratchpad and is used for the first time."""
        absent, tensor = self._absent(operand), self.values.tensor(operand)
        total = tensor.format.images * tensor.format.height
        if absent is None:
            return None

        def fetch(rows: int) -> list[Operation]:
            begin, end = tensor.fetched_rows, min(max(rows, 0), total)
            if end <= begin:
                return []
            tensor.fetched_rows = end
            return self.target.copied(absent.memory, absent.local, begin, end - begin)

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
        return self._convolution(op, cast(qnn.Conv2dOp, op).input)

    def _matmul(self, op: Operation) -> list[Operation]:
        matmul = cast(qnn.MatMulOp, op)
        return self._convolution(op, matmul.input) if has_one_matrix(matmul) else self._computed_matmul(matmul)

    def _computed_matmul(self, op: qnn.MatMulOp) -> list[Operation]:
        """A product of two activations: the rows of the second one are the rows of weights."""
        found, source = self._on_chip(op.input)
        ops, weights = self._on_chip(op.weights)
        found += ops
        shape, result = shape_of(op.input), op.results[0]
        require_sums(self.target.array, shape[-1] * 128 * 128)
        parameters, output = self._parameters(op, _name(op)), self._output(op)
        steps = [strides_of(place.format, shape_of(result)) for place in output.targets]
        for batch in np.ndindex(*shape[:-2]):

            def at(strides: Sequence[int], batch: tuple[int, ...] = batch) -> int:
                return sum(map(math.prod, zip(batch, strides, strict=False)))

            product = ComputedProduct(
                input=source.buffer, input_at=source.begin + at(source.strides), input_step=source.strides[-2],
                weights=weights.buffer, weights_at=weights.begin + at(weights.strides), weights_step=weights.strides[-2],
                rows=shape[-2], terms=shape[-1], columns=shape_of(result)[-1], parameters=parameters,
                writes=tuple((at(step), step[-2]) for step in steps),
            )  # fmt: skip
            found += product_ops(self.target, product, output)
        return found

    def convolution(self, op: Operation) -> Convolution:
        """A convolution, or a product with one matrix of constants, of all images of its input."""
        name, groups = _name(op), 1
        if isinstance(op, qnn.Conv2dOp):
            operand, weights, window = op.input, self._constant(op.weights), qnn.window_of(op)
            groups = int(op.groups.value.data)
        else:
            matmul = cast(qnn.MatMulOp, op)
            operand, weights, window = matmul.input, self._constant(matmul.weights), qnn.Window()
            weights = weights.reshape(1, 1, *weights.shape[-2:])
        require_sums(self.target.array, _most_sum(weights))
        source = self.values.activation(operand)
        format_ = source.format
        _, height, width, channels = axes_of(shape_of(op.results[0]))
        bits = 4 if self.target.has_int4 and weights.min() >= -8 and weights.max() <= 7 else 8
        tiles = channel_tiles(
            self.target,
            Grouping(
                inputs=weights.shape[2], outputs=channels, groups=groups, height=weights.shape[0], width=weights.shape[1],
                dilation=window.dilations[1], pixel_bytes=format_.pixel_bytes, weight_bits=bits,
            ),
        )  # fmt: skip
        packed = packed_weights(self.target, weights, tiles, format_.pixel_bytes, bits)
        weight_buffer = self.target.constant(f"{name}.weights", packed, "weight")
        parameters = self._parameters(op, name)
        return Convolution(
            input=source, output=self._output(op), height=weights.shape[0], width=weights.shape[1], window=window,
            tiles=tiles, output_height=height, output_width=width, weights=weight_buffer, parameters=parameters,
            weight_bits=bits,
        )  # fmt: skip

    def _convolution(self, op: Operation, operand: SSAValue) -> list[Operation]:
        whole = self.convolution(op)
        format_, fetch = whole.input.format, self._fetch(operand)
        found: list[Operation] = []
        for image in range(format_.images):
            targets = tuple(target.image(image) for target in whole.output.targets)
            conv = replace(
                whole, input=whole.input.image(image), output=replace(whole.output, targets=targets)
            )  # fmt: skip
            first = image * format_.height
            if conv.input.is_local:
                found += convolution_ops(self.target, conv, fetch and _of_image(fetch, first, format_.height))
            else:
                found += streamed_ops(self.target, conv)
        return found

    def _vectors(self, op: Operation) -> list[Operation]:
        """Ops of the vector unit, image by image; of elementwise ones all pixels are one row where there are no gaps."""
        work = self.vector_work(op)
        inputs, output, images = work.inputs, work.output, axes_of(shape_of(op.results[0]))[0]
        is_elementwise = not isinstance(op, qnn.DepthwiseConv2dOp | qnn.Pool2dOp)
        if is_elementwise and not any(place.format.has_gaps for place in (*inputs, *output.targets)):
            targets = tuple(place.view(place.format.as_row()) for place in output.targets)
            work = replace(
                work, inputs=tuple(place.view(place.format.as_row()) for place in inputs),
                output=replace(output, targets=targets), output_height=1,
                output_width=images * work.output_height * work.output_width,
            )  # fmt: skip
            images = 1
        found = self._fetched(*vector_operands(op))
        for image in range(images):
            targets = tuple(target.image(image) for target in work.output.targets)
            one = replace(
                work, inputs=tuple(place.image(image) for place in work.inputs),
                output=replace(work.output, targets=targets),
            )  # fmt: skip
            found += vector_ops(self.target, one)
        return found

    def vector_work(self, op: Operation) -> VectorWork:
        """An op of the vector unit, on all images."""
        match op:
            case qnn.DepthwiseConv2dOp():
                weights = self._constant(op.weights)
                height, width, channels = weights.shape
                window, cols = qnn.window_of(op), self.target.array.cols
                taps = tuple(
                    replace(tap, weights_at=idx * cols) for idx, tap in enumerate(_window_taps(height, width, window))
                )
                return self._work(op, taps, window, weights=weights.reshape(-1, channels))
            case qnn.Pool2dOp():
                window = qnn.window_of(op)
                height, width = op.kernel.get_values()
                taps = _window_taps(height, width, window)
                return self._work(op, taps, window, operation=cast(Operation2d, op.operation.data))
            case qnn.AddOp():
                taps = tuple(Tap(source=at, scalar=int(factor)) for at, factor in enumerate(op.factors.get_values()))
                return self._work(op, taps, qnn.Window())
            case qnn.MultiplyOp():
                first, second = op.zero_points.get_values()
                taps = [Tap(source=0, times=1)]
                taps += [Tap(source=0, scalar=-second)] * bool(second) + [Tap(source=1, scalar=-first)] * bool(first)
                return self._work(op, tuple(taps), qnn.Window(), added=first * second)
            case qnn.RescaleOp():
                return self._work(op, (Tap(weights_at=0),), qnn.Window(), weights=self._constant(op.weights)[None])
            case _:
                lookup = cast(qnn.LookupOp, op)
                content = self._constant(lookup.table).view(np.uint8)
                table = self.target.constant(f"{_name(op)}.table", content, "parameter")
                return self._work(op, (Tap(),), qnn.Window(), table=table)

    def _work(
        self, op: Operation, taps: tuple[Tap, ...], window: qnn.Window, *, weights: Array | None = None,
        operation: Operation2d = "add", table: SSAValue | None = None, added: int = 0,
    ) -> VectorWork:  # fmt: skip
        name = _name(op)
        factors = sum(
            16384 if tap.times is not None else 128 * abs(tap.scalar) for tap in taps if tap.weights_at is None
        )
        require_sums(self.target.array, (128 if operation == "maximum" else factors) + _most_sum(weights))
        _, height, width, channels = axes_of(shape_of(op.results[0]))
        packed, weight_bytes = None, 0
        if weights is not None:
            blocks = channel_weights(self.target, weights)
            packed, weight_bytes = self.target.constant(f"{name}.weights", blocks, "weight"), blocks.shape[1]
        if isinstance(op, qnn.LookupOp):
            ones, zeros = np.ones(channels, dtype=np.int64), np.zeros(channels, dtype=np.int64)
            parameters = self.target.channel_parameters(name, zeros, ones, zeros)
        else:
            how = qnn.requantisation_of(cast(qnn.RequantisingOp, op))
            bias, multiplier, shift = (self._constant(value) for value in how.operands)
            parameters = self.target.channel_parameters(name, bias.astype(np.int64) + added, multiplier, shift)
        return VectorWork(
            inputs=tuple(self.values.activation(operand) for operand in vector_operands(op)),
            output=self._output(op, table), taps=taps, operation=operation, window=window, channels=channels,
            output_height=height, output_width=width, weights=packed, weight_bytes=weight_bytes, parameters=parameters,
        )  # fmt: skip

    def _rows(self, op: Operation) -> list[Operation]:
        rows = cast("qnn.SoftmaxOp | qnn.LayerNormOp", op)
        name = _name(op)
        work = RowWork(
            name=name, input=self.values.activation(rows.input), output=self._output(op), stages=stages_of(rows),
            tables=self._constant(rows.tables), parameters=self._parameters(op, name),
        )  # fmt: skip
        return self._fetched(rows.input) + row_ops(self.target, work)

    # ---- Movement.

    def _reshape(self, op: Operation) -> list[Operation]:
        """Elements in the same order: through a place where they lie side by side."""
        operand, result = op.operands[0], op.results[0]
        shape, wanted = shape_of(operand), shape_of(result)
        found, source = self._on_chip(operand)
        between = place_for(self.target, math.prod(shape), "a tensor that is reshaped")
        dense = Box(buffer=between.result, begin=0, strides=dense_strides(shape))
        found += [between, *copy_ops(self.target, shape, source, dense, copy_parameters(self.target))]
        return found + self._delivered(
            op, [(wanted, replace(dense, strides=dense_strides(wanted)), (0,) * len(wanted))]
        )

    def _transpose(self, op: Operation) -> list[Operation]:
        transpose = cast(qnn.TransposeOp, op)
        found, source = self._on_chip(transpose.input)
        permuted = tuple(source.strides[axis] for axis in transpose.permutation.get_values())
        shape = shape_of(op.results[0])
        return found + self._delivered(op, [(shape, replace(source, strides=permuted), (0,) * len(shape))])

    def _slice(self, op: Operation) -> list[Operation]:
        some = cast(qnn.SliceOp, op)
        found, source = self._on_chip(some.input)
        begin, steps = some.begin.get_values(), some.steps.get_values()
        box = Box(
            buffer=source.buffer, begin=source.begin + sum(map(math.prod, zip(begin, source.strides, strict=True))),
            strides=tuple(map(math.prod, zip(steps, source.strides, strict=True))),
        )  # fmt: skip
        shape = shape_of(op.results[0])
        return found + self._delivered(op, [(shape, box, (0,) * len(shape))])

    def _concat(self, op: Operation) -> list[Operation]:
        concat = cast(qnn.ConcatOp, op)
        axis, at = int(concat.axis.value.data), 0
        found: list[Operation] = []
        boxes: list[tuple[tuple[int, ...], Box, tuple[int, ...]]] = []
        staged: dict[SSAValue, Box] = {}
        for operand in concat.inputs:
            shape = shape_of(operand)
            if operand not in staged:
                ops, staged[operand] = self._on_chip(operand)
                found += ops
            source = staged[operand]
            boxes.append((shape, source, tuple(at if idx == axis else 0 for idx in range(len(shape)))))
            at += shape[axis]
        return found + self._delivered(op, boxes)

    def _pad(self, op: Operation) -> list[Operation]:
        pad = cast(qnn.PadOp, op)
        found, source = self._on_chip(pad.input)
        boxes = [(shape_of(pad.input), source, tuple(pad.before.get_values()))]
        return found + self._delivered(op, boxes, fill=int(pad.value.value.data))

    def _on_chip(self, operand: SSAValue) -> tuple[list[Operation], Box]:
        """An operand in the scratchpad, as a whole: what it takes, and where it stands."""
        place, shape = self.values.activation(operand), shape_of(operand)
        strides = strides_of(place.format, shape)
        if place.is_local:
            return self._fetched(operand), Box(buffer=self.target.buffers.of(place), begin=0, strides=strides)
        staged = place_for(self.target, aligned(place.format.num_bytes, self.target.array.bus_bytes), place.name)
        row = place.view(
            replace(place.format, images=1, height=1, width=place.format.num_bytes, channels=1, pixel_bytes=1)
        )
        _, ops = self.target.staged(self.target.buffers.of(row), Linear(), place.format.num_bytes, staged)
        return ops, Box(buffer=staged.result, begin=0, strides=strides)

    def _delivered(
        self, op: Operation, boxes: Sequence[tuple[tuple[int, ...], Box, tuple[int, ...]]], fill: int | None = None
    ) -> list[Operation]:
        """Boxes of elements put together as the result: each one's shape, where it is read, and where in the result it begins.

        Stores reach every byte of the scratchpad, but not of main memory: what is to stand there is put together in the
        scratchpad first.
        """
        result = op.results[0]
        places, shape = self.values.targets(result), shape_of(result)
        format_ = places[0].format
        strides = strides_of(format_, shape)
        found: list[Operation] = []
        if places[0].is_local:
            made = self.target.buffers.of(places[0])
        else:
            place = place_for(self.target, aligned(format_.num_bytes, self.target.array.bus_bytes), places[0].name)
            found.append(place)
            made = place.result
        if fill is not None:
            nothing = replace(boxes[0][1], strides=(0,) * len(shape))  # any element: it is multiplied by 0
            whole = Box(buffer=made, begin=0, strides=strides)
            found += copy_ops(self.target, shape, nothing, whole, copy_parameters(self.target, fill), scalar=0)
        for box_shape, box, begin in boxes:
            write = Box(buffer=made, begin=sum(map(math.prod, zip(begin, strides, strict=True))), strides=strides)
            found += copy_ops(self.target, box_shape, box, write, copy_parameters(self.target))
        # As many bytes of a pixel as stores can reach; mostly that is all.
        rows, array = format_.images * format_.height, self.target.array
        pixel = min(format_.pixel_bytes, aligned(format_.channels, min(array.cols, array.bus_bytes)))
        bytes_, steps = (rows, format_.width * pixel), (format_.row_bytes, 1)
        if pixel < format_.pixel_bytes:
            bytes_, steps = (rows, format_.width, pixel), (format_.row_bytes, format_.pixel_bytes, 1)
        for place in places:
            if not place.is_local:
                read = Box(buffer=made, begin=0, strides=steps)
                found += copy_ops(
                    self.target, bytes_, read, replace(read, buffer=self.target.buffers.of(place)), copy_parameters(self.target)
                )  # fmt: skip
        return found


def has_one_matrix(op: qnn.MatMulOp) -> bool:
    """Whether a product's second factor is one matrix of constants."""
    return isinstance(op.weights.owner, ConstantOp) and math.prod(shape_of(op.weights)[:-2]) == 1


def vector_operands(op: Operation) -> list[SSAValue]:
    """The activations that an op of the vector unit reads."""
    return [op.first, op.second] if isinstance(op, qnn.AddOp | qnn.MultiplyOp) else [op.operands[0]]


def _window_taps(height: int, width: int, window: qnn.Window) -> tuple[Tap, ...]:
    """One tap per place of a window."""
    steps_y, steps_x = window.dilations
    return tuple(Tap(y=y * steps_y, x=x * steps_x) for y in range(height) for x in range(width))


def _most_sum(weights: Array | None) -> int:
    """The greatest magnitude of a sum of inputs times weights, the last axis of which is that of outputs."""
    if weights is None or not weights.size:
        return 0
    return 128 * int(np.abs(weights.astype(np.int64)).reshape(-1, weights.shape[-1]).sum(axis=0).max())


def _of_image(fetch: Fetch, first: int, height: int) -> Fetch:
    """Loads rows of one image of several."""
    return lambda rows: fetch(first + min(rows, height))


def _name(op: Operation) -> str:
    names = nodes_of(op)
    return names[0] if names else op.name
