"""From an ONNX network to a module of the `graph` dialect, with the values of its weights beside it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.ir import Operation, SSAValue

from ...archdsl import CompileError
from ..ir.attributes import Tensor, tensor_type
from ..ir.data import ConstantOp, InputOp, OutputOp
from ..ir.graph import make_op
from ..ir.store import Array, DataStore
from .faults import workload_fault
from .flattening import flatten
from .graph import Graph, Node, Value
from .reading import check_model, read_model

if TYPE_CHECKING:
    from onnx import ModelProto


def read_network(
    source: str | os.PathLike[str] | ModelProto, *, shapes: Mapping[str, int] | None = None
) -> tuple[ModuleOp, DataStore]:
    """Reads a network as a module of `graph` and `data` ops: `read_graph` and `module_of` in one.

    Returns:
        The module, and the elements of its constants.
    """
    return module_of(read_graph(source, shapes=shapes))


def read_graph(source: str | os.PathLike[str] | ModelProto, *, shapes: Mapping[str, int] | None = None) -> Graph:
    """Reads a network with its weights; what was chosen for the user on the way stands in `Graph.notices`.

    Args:
        source: An `.onnx` file, or a model.
        shapes: Sizes of open dims, by name or as `INPUT[AXIS]`; an open batch dim is 1 unless given.

    Raises:
        WorkloadError: It is not a usable network, a dim is open, weights are missing, or its flow of control depends on
            data.
    """
    if isinstance(source, (str, os.PathLike)):
        file = os.fspath(source)
        model, folder = read_model(file), Path(file).parent
    else:
        model, folder = source, None
        file = model.graph.name or "model"
        check_model(model, file)
    return flatten(model, file, shapes, folder, keeps_weights=True)


def module_of(graph: Graph) -> tuple[ModuleOp, DataStore]:
    """A graph as a module of `graph` and `data` ops, and the elements of its constants.

    Operators that the dialect does not list come through as `graph.onnx`: passes decide what is supported.
    """
    return _Builder(file=graph.file).build(graph)


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Ops and values so far."""

    file: str
    store: DataStore = field(default_factory=DataStore)
    ops: list[Operation] = field(default_factory=list[Operation])
    values: dict[Value, SSAValue] = field(default_factory=dict[Value, SSAValue])

    def build(self, graph: Graph) -> tuple[ModuleOp, DataStore]:
        """The module of a graph."""
        for value in graph.inputs:
            op = InputOp(value.name, self.type_of(value))
            self.add(op, value, op.result)
        for node in graph.nodes:
            self.visit(node)
        for value in graph.outputs:
            self.ops.append(OutputOp(value.name, self.use(value)))
        return ModuleOp(self.ops), self.store

    def visit(self, node: Node) -> None:
        """Appends a node, unless its results are known already."""
        if node.bodies or node.count != 1:
            message = "its flow of control depends on data or repeats; unroll loops and fix conditions in the export"
            raise workload_fault(self.file, message, node=node.name, op_type=node.op_type)
        if node.given_outputs and all(_elements(value) is not None for value in node.given_outputs):
            return
        op = make_op(
            node.op_type,
            [None if value is None else self.use(value) for value in node.inputs],
            [None if value is None else self.type_of(value) for value in node.outputs],
            version=node.version,
            domain=node.domain,
            attributes=node.attributes,
            nodes=[node.name],
        )
        self.ops.append(op)
        self.values.update(zip(node.given_outputs, op.results, strict=True))

    def use(self, value: Value) -> SSAValue:
        """The value in the module; constants are made where they are first used."""
        found = self.values.get(value)
        if found is not None:
            return found
        array = _elements(value)
        if array is None:
            message = f"{value} has no elements; put the files with the weights beside the network"
            raise workload_fault(self.file, message, node=value.name)
        op = self.constant(array, value)
        self.add(op, value, op.result)
        return op.result

    def constant(self, array: Array, value: Value) -> ConstantOp:
        """The constant of an array; elements of fewer than 8 bits are kept one in a byte."""
        type_ = self.type_of(value)
        if array.dtype.name in ("int4", "uint4"):
            array = array.astype(np.dtype(array.dtype.name.replace("4", "8")))
        return ConstantOp(self.store.add(array), type_, [value.name])

    def add(self, op: Operation, value: Value, result: SSAValue) -> None:
        """Appends the op that makes a value."""
        self.ops.append(op)
        self.values[value] = result

    def type_of(self, value: Value) -> Tensor:
        """Its type in the module; sizes that depend on data stay open."""
        from onnx import helper

        if value.shape is None or not value.element_type:
            message = f"{value}: its type or rank is not known; run shape inference when exporting, or state it"
            raise workload_fault(self.file, message, node=value.name)
        shape = [DYNAMIC_INDEX if size is None else size for size in value.shape]
        try:
            return tensor_type(shape, helper.tensor_dtype_to_np_dtype(value.element_type))
        except (CompileError, KeyError) as error:
            message = f"its element type {value.element_type} has no counterpart in the IR; export with another"
            raise workload_fault(self.file, message, node=value.name) from error


def _elements(value: Value) -> Array | None:
    return value.data if value.stored is None else value.stored
