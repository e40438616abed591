"""Pass `quantise-intermediates`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..ir.attributes import names_attr, plain_value, shape_of, tensor_type, typed_like
from ..ir.data import ConstantOp
from ..ir.graph import GraphOp, is_op, is_static, made_by, make_op, owner_of
from ..ir.store import Array, DataStore
from ..quantisation.epilogues import epilogue_of
from ..quantisation.functions import function_of, is_computable
from ..quantisation.reals import Step, is_int8, quantised, quantised_constant, step_of
from .base import PassContext
from .convert_functions_to_qnn import quantised_values
from .rewriting import OPSET

NOTICES = "graph.notices"
"""Module attribute: what is approximated, one sentence each."""
CORES = ("Conv", "MatMul", "AveragePool", "GlobalAveragePool")
STEPS, LOW, HIGH = 254, -128, 127  # one step less than there are, as 0 must be one of them
SAMPLES = 1 << 15


@dataclass(frozen=True, slots=True)
class QuantiseIntermediates:
    """Quantises real numbers between two ops where the network does not say how, so that both have a form in integers.

    A product followed by a function that is no affine map gets the widest steps that still cover every value at which the
    function's own quantisation changes: below and above that range the result is the same, so that clipping there costs
    nothing, and the error is half a step. A product that is added to an activation gets what the sum needs of it. A function of an int8 activation in front of a product or a pool gets the range of
    its 256 values. Each place is noted in the module's attribute `graph.notices`.

    Before:
        %3 = "graph.conv"(%1, %2)
        %4 = "graph.hard_swish"(%3)
        %5 = "graph.quantize_linear"(%4, %scale, %zero)
    After:
        %3 = "graph.conv"(%1, %2)
        %6 = "graph.quantize_linear"(%3, %chosen_scale, %chosen_zero)
        %7 = "graph.dequantize_linear"(%6, %chosen_scale, %chosen_zero)
        %4 = "graph.hard_swish"(%7)
        %5 = "graph.quantize_linear"(%4, %scale, %zero)
    """

    name: ClassVar[str] = "quantise-intermediates"

    def run(self, module: ModuleOp, ctx: PassContext) -> ModuleOp:
        """See the class."""
        copy = module.clone()
        notices: list[str] = []
        for op in list(copy.body.block.ops):
            if not isinstance(op, GraphOp):
                continue
            if is_op(op, "QuantizeLinear") and is_int8(op.outputs[0]):
                notices += _after_product(op, ctx.store) or _before_sum(op, ctx.store)
            elif is_op(op, *CORES):
                notices += _before_core(op, ctx.store)
        if notices:
            known = copy.attributes.get(NOTICES)
            before = () if known is None else plain_value(known)
            copy.attributes[NOTICES] = names_attr([*before, *notices])
        return copy


def _after_product(op: GraphOp, store: DataStore) -> list[str]:
    """Quantises a product whose function is quantised by `op`."""
    function = function_of(op.inputs[0], store)
    if function is None or not function.ops:
        return []
    before = epilogue_of(function.source, store)
    core = made_by(before.source, *CORES)
    if core is None or epilogue_of(op.inputs[0], store).source == before.source or not is_computable(function):
        return []  # requantisation does it, or nobody can
    bound = float(np.abs(before.gain).max() * _bound(core, store) + np.abs(before.offset).max())
    low, high = _changing_range(lambda points: quantised_values(op, function.evaluate(points), store), bound)
    step = _covering(low, high)
    _insert(function.source, step, store)
    return [_notice(core, function.nodes, step)]


def _before_sum(op: GraphOp, store: DataStore) -> list[str]:
    """Quantises a product that is added to an int8 activation in front of a quantisation.

    What the sum can be before it saturates, less what the activation can be, is all that the product needs to reach.
    """
    epilogue = epilogue_of(op.inputs[0], store)
    total, step = made_by(epilogue.source, "Add"), step_of(op, store)
    if total is None or step is None or epilogue.gain.size != 1 or float(epilogue.gain.ravel()[0]) <= 0:
        return []
    terms = [quantised(value, store) for value in total.inputs]
    if (terms[0] is None) == (terms[1] is None):
        return []
    product, other = total.inputs[0 if terms[0] is None else 1], terms[0] or terms[1]
    before = epilogue_of(product, store)
    core = made_by(before.source, *CORES)
    if core is None or other is None or shape_of(product) != shape_of(total.outputs[0]):
        return []
    bound = float(np.abs(before.gain).max() * _bound(core, store) + np.abs(before.offset).max())
    ends = [
        ((end - step.zero_point) * step.scale - float(offset)) / float(epilogue.gain.ravel()[0])
        for end, offset in ((LOW, epilogue.offset.max()), (HIGH, epilogue.offset.min()))
    ]
    others = [(end - other.zero_point) * other.scale for end in (LOW, HIGH)]
    chosen = _covering(max(ends[0] - others[1], -bound), min(ends[1] - others[0], bound))
    _insert(product, chosen, store)
    return [_notice(core, total.node_names, chosen)]


def _before_core(op: GraphOp, store: DataStore) -> list[str]:
    """Quantises functions of int8 activations that `op` reads."""
    notices: list[str] = []
    for value in op.inputs[:2]:
        if quantised(value, store) is not None or quantised_constant(value, store) is not None:
            continue
        function = function_of(value, store) if is_static(shape_of(value)) else None
        source = None if function is None else quantised(function.source, store)
        if function is None or source is None or not function.ops or not is_computable(function):
            continue
        values = function.of_integers(source)
        if not np.all(np.isfinite(values)):
            continue
        step = _covering(float(values.min()), float(values.max()))
        _insert(value, step, store)
        notices.append(_notice(op, function.nodes, step))
    return notices


def _changing_range(quantise: Callable[[Array], Array], bound: float) -> tuple[float, float]:
    """The range outside of which a quantised function of one number does not change, within +-bound."""
    low, high = -bound, bound
    for _ in range(3):
        points = np.linspace(low, high, SAMPLES).astype(np.float32)
        changes = np.flatnonzero(np.diff(quantise(points).astype(np.int64)))
        if not changes.size:
            return 0.0, 0.0
        low, high = float(points[changes[0]]), float(points[changes[-1] + 1])
    return low, high


def _bound(core: GraphOp, store: DataStore) -> float:
    """No result of a product or mean is larger."""
    source = quantised(core.inputs[0], store)
    largest = 256 * source.scale if source is not None else 1e4
    weights = quantised_constant(core.inputs[1], store) if len(core.inputs) > 1 else None
    if core.op_type not in ("Conv", "MatMul"):
        return largest
    if weights is None:
        return 1e4
    real = np.abs(weights.centred * weights.scale)
    sums = real.reshape(real.shape[0], -1).sum(axis=1) if core.op_type == "Conv" else real.sum(axis=-2)
    return float(largest * sums.max()) + 1.0


def _covering(low: float, high: float) -> Step:
    """The finest step of 8 bits with which 0 and a range can be written, both of its ends included."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32((high - low) / STEPS)) or 1.0
    return Step(scale=scale, zero_point=int(np.clip(math.ceil(LOW - low / scale), LOW, HIGH)))


def _insert(value: SSAValue, step: Step, store: DataStore) -> None:
    """Quantises and dequantises a value for all who read it."""
    owner = owner_of(value)
    assert isinstance(owner, GraphOp)
    scale = ConstantOp.of(np.array(step.scale, np.float32), store)
    zero = ConstantOp.of(np.array(step.zero_point, np.int8), store)
    kinds = tensor_type(shape_of(value), "int8"), typed_like(value, shape_of(value))
    readers = [(use.operation, use.index) for use in value.uses]
    parameters = (scale.result, zero.result)
    quantise = make_op("QuantizeLinear", [value, *parameters], [kinds[0]], version=OPSET, nodes=owner.node_names)
    back = make_op(
        "DequantizeLinear", [quantise.outputs[0], *parameters], [kinds[1]], version=OPSET, nodes=owner.node_names
    )  # fmt: skip
    Rewriter.insert_op([scale, zero, quantise, back], InsertPoint.after(owner))
    for reader, idx in readers:
        reader.operands[idx] = back.outputs[0]


def _notice(core: GraphOp, others: Sequence[str], step: Step) -> str:
    names = ", ".join(core.node_names), ", ".join(others)
    digits = max(0, 2 - math.floor(math.log10(step.scale)))
    return (
        f"{names[0]}: between it and {names[1]} the network states no scale; 8 bits of {step.scale:.{digits}f} are used"
    )
