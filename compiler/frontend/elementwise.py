"""Element-wise nodes, normalisation and reductions: vector work over whole tensors.

`passes` is the number of vector operations per element. A table look-up or a hardware function
(exponential, square root, division) counts as one, as an addition does: what a vector unit takes for
each is a fact of the architecture, not of the network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from .attention import SOFTMAX_PASSES
from .graph import Node, Value
from .lowering import Context, Lowered, Lowering, NotModelled, build_vector, known, main_output, needed, value_bytes

ONE_PASS = """
    Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CastLike Ceil Cos
    Cosh Div Equal Erf Exp Floor Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual Log Mod Mul Neg Not Or Pow
    Reciprocal Relu Round Sigmoid Sign Sin Sinh Sqrt Sub Tan Tanh Where Xor
    Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike
    BlackmanWindow HammingWindow HannWindow OneHot Range
    ArgMax ArgMin CumProd CumSum ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
"""
# Vector operations per element of what takes more than one, as the operator's definition spells it out.
MORE_PASSES: Mapping[str, int] = {
    "BatchNormalization": 2,  # at inference one multiplication and one addition
    "Celu": 4,
    "Clip": 2,
    "DynamicQuantizeLinear": 4,  # minimum, maximum, divide, round
    "Elu": 3,
    "Gelu": 4,
    "GroupNormalization": 7,
    "HardSigmoid": 3,
    "HardSwish": 4,
    "Hardmax": 2,
    "InstanceNormalization": 7,  # mean, subtract, square, add, divide, scale, shift
    "LayerNormalization": 7,
    "LeakyRelu": 2,
    "LogSoftmax": SOFTMAX_PASSES + 1,
    "LpNormalization": 3,
    "MeanVarianceNormalization": 5,
    "Mish": 4,
    "NegativeLogLikelihoodLoss": 2,
    "PRelu": 2,
    "RMSNormalization": 4,  # square, add, divide, scale
    "ReduceL1": 2,
    "ReduceL2": 2,
    "ReduceLogSumExp": 4,
    "ReduceSumSquare": 2,
    "Selu": 4,
    "Shrink": 3,
    "Softmax": SOFTMAX_PASSES,
    "SoftmaxCrossEntropyLoss": SOFTMAX_PASSES + 2,
    "Softplus": 3,
    "Softsign": 3,
    "SwiGLU": 3,
    "Swish": 2,
    "ThresholdedRelu": 2,
}
PASSES: Mapping[str, int] = dict.fromkeys(ONE_PASS.split(), 1) | MORE_PASSES


def lower_elementwise(node: Node, ctx: Context) -> Lowered:
    """A node with a fixed number of vector operations per element."""
    return _build(node, ctx, PASSES[node.op_type])


def lower_variadic(node: Node, ctx: Context) -> Lowered:
    """`Sum`, `Mean`, `Max`, `Min` of any number of tensors."""
    return _build(node, ctx, max(1, len(node.given_inputs) - 1))


def lower_cast(node: Node, ctx: Context) -> Lowered:
    """`Cast`; free when both types are stored alike."""
    source, result = needed(node, 0), main_output(node)
    if ctx.datatype(source) == ctx.datatype(result):
        return []
    return _build(node, ctx, 1)


def lower_lrn(node: Node, ctx: Context) -> Lowered:
    """`LRN`: square, sum over the window, scale, power and divide."""
    return _build(node, ctx, node.int_attribute("size", 1) + 4)


def lower_top_k(node: Node, ctx: Context) -> Lowered:
    """`TopK`: counted as a sort by merging, one pass per halving of the axis."""
    shape = known(needed(node, 0))
    axis = node.int_attribute("axis", -1)
    return _build(node, ctx, max(1, math.ceil(math.log2(max(2, shape[axis] if shape else 1)))))


def lower_quantize(node: Node, ctx: Context) -> Lowered:
    """`QuantizeLinear`: free where the producer writes the quantised tensor itself."""
    if node in ctx.storage.free:
        return []
    kind = "requantize" if needed(node, 0) in ctx.storage.quantised else "quantize"
    return _build(node, ctx, 2, kind)  # scale, round


def lower_dequantize(node: Node, ctx: Context) -> Lowered:
    """`DequantizeLinear`: free unless the network returns the float tensor."""
    if node in ctx.storage.free:
        return []
    result = main_output(node)
    known(result)
    # the value is held quantised, yet this node writes it as float
    written = result.elements * ctx.replaced(result.datatype).bits // 8
    return build_vector(node, ctx, passes=2, kind="dequantize", writes=[(result.name, written)])


def lower_det(node: Node, ctx: Context) -> Lowered:
    """`Det`: neither a product nor work per element."""
    raise NotModelled("a determinant is neither a loop nest nor element-wise work")


def _build(node: Node, ctx: Context, passes: int, kind: str = "") -> Lowered:
    for value in node.given_inputs:
        known(value)
    known(main_output(node))
    reads = value_bytes((value for idx, value in enumerate(node.inputs) if value and not _is_setting(value, idx)), ctx)
    return build_vector(node, ctx, passes=passes, kind=kind, reads=reads)


def _is_setting(value: Value, idx: int) -> bool:
    """Whether an input is a list of axes or a depth, which the instruction holds."""
    return idx > 0 and value.data is not None and value.datatype.name == "int64"


ELEMENTWISE: Mapping[str, Lowering] = {
    **dict.fromkeys(PASSES, lower_elementwise),
    **dict.fromkeys(("Max", "Mean", "Min", "Sum"), lower_variadic),
    "Cast": lower_cast,
    "DequantizeLinear": lower_dequantize,
    "Det": lower_det,
    "LRN": lower_lrn,
    "QuantizeLinear": lower_quantize,
    "TopK": lower_top_k,
}
