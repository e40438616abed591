"""Recurrent cells: the input's part as one product over all steps, the state's part step by step.

The input of every step is known beforehand, so that its product runs once with the steps as rows and
the gates of both directions as columns. The state's product depends on the step before: it is one op
that runs once per step and direction, and reads its weights each time.
"""

from __future__ import annotations

from collections.abc import Mapping

from .graph import Node
from .lowering import BadNode, Context, Lowered, Lowering, build_vector, known, main_output, needed
from .products import Nest, build_nest

# Vector operations per gate element: add the two products, apply the gate's function, and its share of
# combining the gates into the new state (LSTM: 2 multiplications, addition, function and product over 4
# gates; GRU: 3 multiplications or additions over 3 gates; plain: none).
GATE_PASSES = {"LSTM": 4, "GRU": 3, "RNN": 2}
NUM_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def lower_recurrent(node: Node, ctx: Context) -> Lowered:
    """`LSTM`, `GRU` and `RNN`."""
    signal, weight, recurrence = needed(node, 0), needed(node, 1), needed(node, 2)
    steps, batch, size = known(signal, 3)
    if node.int_attribute("layout", 0):
        steps, batch = batch, steps
    directions, gates, input_size = known(weight, 3)
    hidden = known(recurrence, 3)[2]
    if input_size != size or gates != NUM_GATES[node.op_type] * hidden:
        raise BadNode(f"input {signal}, weight {weight} and recurrence {recurrence} do not fit; check the export")
    results = [value for value in node.given_outputs if value.is_known]
    output = ctx.datatype(results[0] if results else main_output(node))
    gate_type = ctx.replaced(signal.datatype)
    inputs = Nest(rows=steps * batch, cols=directions * gates, summed=size)
    types = (ctx.datatype(signal), ctx.datatype(weight), gate_type)
    ops = build_nest(node, ctx, types, inputs, kind="gemm", part="input")
    state = Nest(rows=batch, cols=gates, summed=hidden)
    types = (output, ctx.datatype(recurrence), gate_type)
    runs = steps * directions
    ops += build_nest(node, ctx, types, state, kind="gemm", part="recurrent", runs=runs)
    gate_bytes = batch * gates * gate_type.bits // 8
    state_bytes = batch * hidden * output.bits // 8
    return ops + build_vector(
        node,
        ctx,
        passes=GATE_PASSES[node.op_type],
        kind=f"{node.op_type.lower()}_gates",
        reads=[("input", gate_bytes), ("recurrent", gate_bytes), ("state", state_bytes)],
        writes=[("state", state_bytes)],
        elements=batch * gates,
        part="gates",
        runs=runs,
    )


RECURRENT: Mapping[str, Lowering] = {"GRU": lower_recurrent, "LSTM": lower_recurrent, "RNN": lower_recurrent}
