"""Ops of dialect `qnn` that move elements and change none; `qnn` lists them with the others."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, attr_def, irdl_op_definition, operand_def, result_def, traits_def, var_operand_def
from xdsl.traits import Pure

from .attributes import Integer, Integers, Tensor, int_attr, ints_attr, names_attr, require, shape_of, tensor_type


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same elements in the same order under another shape."""

    name = "qnn.reshape"
    input = operand_def(Tensor)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, input_: SSAValue, shape: Sequence[int], *, nodes: Iterable[str] = ()) -> None:
        super().__init__(
            operands=[input_], attributes={"nodes": names_attr(nodes)}, result_types=[tensor_type(shape, "int8")]
        )

    def verify_(self) -> None:
        sizes = [math.prod(shape_of(value)) for value in (self.input, self.result)]
        require(self, sizes[0] == sizes[1], f"{sizes[0]} elements become {sizes[1]}")


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """Axes in another order: axis i of the result is axis permutation[i] of the input."""

    name = "qnn.transpose"
    input = operand_def(Tensor)
    permutation = attr_def(Integers)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, input_: SSAValue, permutation: Sequence[int], *, nodes: Iterable[str] = ()) -> None:
        shape = shape_of(input_)
        super().__init__(
            operands=[input_],
            attributes={"permutation": ints_attr(permutation), "nodes": names_attr(nodes)},
            result_types=[tensor_type([shape[axis] for axis in permutation], "int8")],
        )

    def verify_(self) -> None:
        permutation, shape = tuple(self.permutation.get_values()), shape_of(self.input)
        require(self, sorted(permutation) == list(range(len(shape))), f"permutation is {permutation}")
        expected = tuple(shape[axis] for axis in permutation)
        require(self, shape_of(self.result) == expected, f"the result must be {list(expected)}")


@irdl_op_definition
class ConcatOp(IRDLOperation):
    """Tensors of equal scale and zero point one behind the other along an axis."""

    name = "qnn.concat"
    inputs = var_operand_def(Tensor)
    axis = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, inputs: Sequence[SSAValue], axis: int, *, nodes: Iterable[str] = ()) -> None:
        shape = list(shape_of(inputs[0]))
        shape[axis] = sum(shape_of(value)[axis] for value in inputs)
        super().__init__(
            operands=[list(inputs)],
            attributes={"axis": int_attr(axis), "nodes": names_attr(nodes)},
            result_types=[tensor_type(shape, "int8")],
        )

    def verify_(self) -> None:
        axis = int(self.axis.value.data)
        shapes = [shape_of(value) for value in self.inputs]
        require(self, bool(shapes), "it needs an input")
        rests = {(*shape[:axis], *shape[axis + 1 :]) for shape in (*shapes, shape_of(self.result))}
        require(self, len(rests) == 1, "shapes differ beyond the axis")
        total = sum(shape[axis] for shape in shapes)
        require(self, shape_of(self.result)[axis] == total, f"the result must have {total} elements along axis {axis}")


@irdl_op_definition
class SliceOp(IRDLOperation):
    """A box of a tensor: `begin` of every axis, as many elements as the result has, `steps` apart."""

    name = "qnn.slice"
    input = operand_def(Tensor)
    begin = attr_def(Integers)
    steps = attr_def(Integers)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, begin: Sequence[int], sizes: Sequence[int], steps: Sequence[int] | None = None,
        *, nodes: Iterable[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(
            operands=[input_],
            attributes={
                "begin": ints_attr(begin), "steps": ints_attr(steps or [1] * len(begin)), "nodes": names_attr(nodes)
            },
            result_types=[tensor_type(sizes, "int8")],
        )  # fmt: skip

    def verify_(self) -> None:
        shape, sizes = shape_of(self.input), shape_of(self.result)
        begin, steps = tuple(self.begin.get_values()), tuple(self.steps.get_values())
        require(self, len(shape) == len(sizes) == len(begin) == len(steps), "ranks differ")
        for axis, size in enumerate(shape):
            end = begin[axis] + (sizes[axis] - 1) * steps[axis]
            require(self, 0 <= begin[axis] <= end < size, f"axis {axis} goes from {begin[axis]} to {end} of {size}")


@irdl_op_definition
class PadOp(IRDLOperation):
    """A tensor with a border: `before` and `after` elements of a value along every axis."""

    name = "qnn.pad"
    input = operand_def(Tensor)
    before = attr_def(Integers)
    after = attr_def(Integers)
    value = attr_def(Integer)
    nodes = attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(
        self, input_: SSAValue, before: Sequence[int], after: Sequence[int], value: int, *, nodes: Iterable[str] = ()
    ) -> None:
        shape = [sum(sizes) for sizes in zip(before, shape_of(input_), after, strict=True)]
        super().__init__(
            operands=[input_],
            attributes={
                "before": ints_attr(before), "after": ints_attr(after), "value": int_attr(value),
                "nodes": names_attr(nodes),
            },
            result_types=[tensor_type(shape, "int8")],
        )  # fmt: skip

    def verify_(self) -> None:
        parts = zip(self.before.get_values(), shape_of(self.input), self.after.get_values(), strict=True)
        expected = tuple(sum(sizes) for sizes in parts)
        require(self, shape_of(self.result) == expected, f"the result must be {list(expected)}")
