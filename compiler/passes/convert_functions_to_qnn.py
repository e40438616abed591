"""Pass `convert-functions-to-qnn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..interpreters.graph import run_graph_op
from ..ir import qnn
from ..ir.graph import GraphOp, is_op
from ..ir.store import Array, DataStore
from ..quantisation.epilogues import epilogue_of
from ..quantisation.functions import function_of, is_computable
from ..quantisation.reals import constant_of, is_int8, quantised, step_of
from .base import PassContext
from .rewriting import OpMaker, merged_names, rewritten


@dataclass(frozen=True, slots=True)
class ConvertFunctionsToQnn:
    """Turns functions of one int8 activation, of however many ops, into tables of their 256 values.

    Affine maps are left to `convert-elementwise-to-qnn`.

    Before:
        %3 = "graph.dequantize_linear"(%0, %scale, %zero)
        %4 = "graph.sigmoid"(%3)
        %5 = "graph.mul"(%3, %4)
        %6 = "graph.quantize_linear"(%5, %y_scale, %y_zero)
    After:
        %6 = "qnn.lookup"(%0, %table)
    """

    name: ClassVar[str] = "convert-functions-to-qnn"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""

        def convert(op: Operation, rewriter: PatternRewriter) -> None:
            if isinstance(op, GraphOp) and is_op(op, "QuantizeLinear") and is_int8(op.outputs[0]):
                found = _converted(op, rewriter, ctx.store)
                if found is not None:
                    rewriter.replace(op, [], [found])

        return rewritten(module, convert)


def _converted(op: GraphOp, rewriter: PatternRewriter, store: DataStore) -> SSAValue | None:
    function, step = function_of(op.inputs[0], store), step_of(op, store)
    source = None if function is None else quantised(function.source, store)
    if function is None or source is None or step is None or not is_computable(function):
        return None
    if epilogue_of(op.inputs[0], store).source == function.source:
        return None
    maker = OpMaker(rewriter, store, merged_names(function.nodes, op.node_names))
    table = maker.constant(table_of(quantised_values(op, function.of_integers(source), store)))
    return maker.insert(
        qnn.LookupOp(source.value, table, scale=step.scale, zero_point=step.zero_point, nodes=maker.nodes)
    )  # fmt: skip


def quantised_values(op: GraphOp, values: Array, store: DataStore) -> Array:
    """Real numbers as a `quantize_linear` of one scale has them."""
    parameters = [constant_of(value, store) for value in op.inputs[1:]]
    return run_graph_op(op, [values, *(array.reshape(()) for array in parameters if array is not None)])[0]


def table_of(values: Array) -> Array:
    """A table for `qnn.lookup` from the results for -128 to 127."""
    return np.roll(values, 128).astype(np.int8)
