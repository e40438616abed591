"""Dialect `data`: what enters and leaves a network, and its constants. All levels share it.

A module is one network: a flat list of ops whose inputs are `data.input`, whose outputs are `data.output`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    attr_def,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .attributes import Float, Integer, Tensor, dtype_of, names_attr, tensor_type
from .store import Array, DataStore


@irdl_op_definition
class InputOp(IRDLOperation):
    """What the network is given at run time.

    Attributes:
        input_name: Its name.
        scale, zero_point: What its integers stand for, where that is known.
    """

    name = "data.input"
    input_name = attr_def(StringAttr)
    scale = opt_attr_def(Float)
    zero_point = opt_attr_def(Integer)
    result = result_def(Tensor)

    def __init__(self, input_name: str, type_: Tensor) -> None:
        super().__init__(attributes={"input_name": StringAttr(input_name)}, result_types=[type_])

    def verify_(self) -> None:
        if self.zero_point is None:
            return
        value, dtype = int(self.zero_point.value.data), dtype_of(self.result)
        if dtype.kind not in "iu":
            raise VerifyException(f"{self.name}: {self.input_name.data} is of {dtype}, which has no zero_point")
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise VerifyException(f"{self.name}: zero_point is {value}; it must be from {limits.min} to {limits.max}")


@irdl_op_definition
class OutputOp(IRDLOperation):
    """What the network returns."""

    name = "data.output"
    output_name = attr_def(StringAttr)
    value = operand_def(Tensor)

    def __init__(self, output_name: str, value: SSAValue) -> None:
        super().__init__(attributes={"output_name": StringAttr(output_name)}, operands=[value])


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """An array of the `DataStore`, by the hash of its content.

    Attributes:
        sha256: Its key.
        nodes: Where in the ONNX network it comes from.
    """

    name = "data.constant"
    sha256 = attr_def(StringAttr)
    nodes = opt_attr_def(ArrayAttr[StringAttr])
    result = result_def(Tensor)
    traits = traits_def(Pure())

    def __init__(self, sha256: str, type_: Tensor, nodes: Iterable[str] = ()) -> None:
        super().__init__(attributes={"sha256": StringAttr(sha256), "nodes": names_attr(nodes)}, result_types=[type_])

    @classmethod
    def of(cls, array: Array, store: DataStore, nodes: Iterable[str] = ()) -> ConstantOp:
        """A constant with the elements of an array, which the store keeps."""
        return cls(store.add(array), tensor_type(array.shape, array.dtype), nodes)

    def array(self, store: DataStore) -> Array:
        """Its elements."""
        return store[self.sha256.data]

    def verify_(self) -> None:
        if len(self.sha256.data) != 64:
            raise VerifyException(f"{self.name}: sha256 has {len(self.sha256.data)} digits; it must have 64")


Data = Dialect("data", [InputOp, OutputOp, ConstantOp], [])
