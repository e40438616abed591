"""A whole module: `graph` ops by onnx's reference, `qnn` ops in exact integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from ...archdsl import CompileError, Rounding
from ..ir import pe, tile
from ..ir.attributes import dtype_of, shape_of
from ..ir.data import ConstantOp, InputOp, OutputOp
from ..ir.graph import GraphOp
from ..ir.qnn import ROUNDING
from ..ir.store import Array, DataStore
from .graph import run_graph_op
from .qnn import run_qnn_op
from .tile import run_tile_program

RunProgram = Callable[[pe.ProgramOp, list[Array]], list[Array]]
"""Runs a program on one array per operand; returns one per result."""


def interpret(
    module: ModuleOp,
    store: DataStore,
    inputs: Mapping[str, Array],
    *,
    values: dict[SSAValue, Array] | None = None,
    run_program: RunProgram | None = None,
) -> dict[str, Array]:
    """Runs a network.

    Args:
        module: Ops of the dialects `data`, `graph` and `qnn`.
        store: Elements of its constants.
        inputs: One array for every `data.input`, by its name.
        values: Filled with every value of the module, where given.
        run_program: What runs a `pe.program`, which has no meaning without an architecture.

    Returns:
        One array for every `data.output`, by its name.

    Raises:
        CompileError: An input is missing or of another shape or type, or an op cannot be run.
    """
    found: dict[SSAValue, Array] = {} if values is None else values
    outputs: dict[str, Array] = {}
    rounding = rounding_of(module)
    for op in module.body.block.ops:
        if isinstance(op, OutputOp):
            outputs[op.output_name.data] = found[op.value]
            continue
        if isinstance(op, pe.ProgramOp):
            if run_program is None:
                raise CompileError(f"{op.program_name.data}: a pe.program needs something that runs it")
            results = run_program(op, [found[value] for value in op.inputs])
        else:
            results = _run(op, store, inputs, found, rounding)
        found.update(zip(op.results, results, strict=True))
    return outputs


def rounding_of(module: ModuleOp) -> Rounding:
    """What a module says about ties; half to even where it says nothing."""
    stated = module.attributes.get(ROUNDING)
    return cast(Rounding, stated.data) if isinstance(stated, StringAttr) else "half_to_even"


def _run(
    op: Operation, store: DataStore, inputs: Mapping[str, Array], found: Mapping[SSAValue, Array], rounding: Rounding
) -> list[Array]:
    if isinstance(op, InputOp):
        return [_checked_input(op, inputs)]
    if isinstance(op, ConstantOp):
        return [op.array(store)]
    operands = [found[value] for value in op.operands]
    if isinstance(op, GraphOp):
        return run_graph_op(op, operands)
    if isinstance(op, tile.ProgramOp):
        return run_tile_program(op, store, operands, rounding)
    return [run_qnn_op(op, operands, rounding)]


def _checked_input(op: InputOp, inputs: Mapping[str, Array]) -> Array:
    name = op.input_name.data
    if name not in inputs:
        raise CompileError(f"input {name!r} is missing; given are {sorted(inputs)}")
    array = np.asarray(inputs[name])
    shape, dtype = shape_of(op.result), dtype_of(op.result)
    if array.shape != shape or array.dtype != dtype:
        raise CompileError(f"input {name!r} is {array.dtype} {list(array.shape)}; it must be {dtype} {list(shape)}")
    return array
