"""A quantised transformer block with random weights: attention, normalisation, two layers between residual connections.

Source: Vaswani et al., "Attention is all you need", NeurIPS 2017, section 3, with normalisation behind each residual connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .arithmetic import Floats, softmax
from .builder import GraphBuilder, QuantisedTensor
from .layers import SOFTMAX_SCALE, add, dense
from .quantisation import Scale

if TYPE_CHECKING:
    from onnx import ModelProto

OPSET = 17
"""The first with layer normalisation."""
EPSILON = 1e-5
GAIN_SPREAD, OFFSET_SPREAD = 0.2, 0.3


def quantised_transformer(
    seed: int, *, tokens: int = 12, width: int = 32, heads: int = 2, hidden: int = 64, blocks: int = 1, classes: int = 4
) -> ModelProto:
    """Blocks over [tokens, width] embeddings; returns logits of `classes` per token.

    Args:
        seed: Of the weights.
        tokens: Length of the sequence.
        width: Of an embedding; a multiple of `heads`.
        heads: Of attention.
        hidden: Units between the two layers of a block.
        blocks: Number of blocks.
        classes: Per token.

    Raises:
        ValueError: `heads` does not divide `width`.
    """
    if width % heads:
        raise ValueError(f"heads {heads} must divide width {width}")
    builder = GraphBuilder(seed, opset=OPSET, name="transformer")
    tensor = builder.add_input((tokens, width), Scale(scale=float(np.float32(0.021)), zero_point=3))
    for _ in range(blocks):
        tensor = layer_norm(builder, add(builder, tensor, _attention(builder, tensor, heads), has_relu=False))
        inner = dense(builder, dense(builder, tensor, hidden, has_relu=True), width)
        tensor = layer_norm(builder, add(builder, tensor, inner, has_relu=False))
    return builder.finish([dense(builder, tensor, classes)])


def layer_norm(builder: GraphBuilder, tensor: QuantisedTensor) -> QuantisedTensor:
    """Normalisation over the last axis with random gain and bias."""
    channels = tensor.shape[-1]
    gain = (1 + GAIN_SPREAD * builder.rng.standard_normal(channels)).astype(np.float32)
    bias = (OFFSET_SPREAD * builder.rng.standard_normal(channels)).astype(np.float32)

    def normalise(array: Floats) -> Floats:
        centred = array - array.mean(axis=-1, keepdims=True)
        return (centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + EPSILON) * gain + bias).astype(np.float32)

    constants = [builder.add_constant(gain, "gain"), builder.add_constant(bias, "bias")]
    result = builder.apply(
        "LayerNormalization", [builder.dequantise(tensor)], normalise, constants, axis=-1, epsilon=EPSILON
    )
    return builder.quantise(result)


def _attention(builder: GraphBuilder, tensor: QuantisedTensor, heads: int) -> QuantisedTensor:
    tokens, width = tensor.shape
    query, key, value = (_by_head(builder, dense(builder, tensor, width), heads, is_key) for is_key in (0, 1, 0))
    scores = builder.quantise(
        builder.apply("MatMul", [builder.dequantise(query), builder.dequantise(key)], np.matmul)
    )  # fmt: skip
    scale = np.asarray(1 / np.sqrt(width // heads), np.float32)

    def scaled_by(array: Floats) -> Floats:
        return array * scale

    scaled = builder.apply(
        "Mul", [builder.dequantise(scores)], scaled_by, [builder.add_constant(scale, "scale")]
    )  # fmt: skip
    likely = builder.apply("Softmax", [builder.dequantise(builder.quantise(scaled))], softmax, axis=-1)
    weights = builder.quantise(likely, SOFTMAX_SCALE)
    context = builder.quantise(
        builder.apply("MatMul", [builder.dequantise(weights), builder.dequantise(value)], np.matmul)
    )  # fmt: skip
    joined = builder.move("Transpose", context, lambda array: array.transpose(1, 0, 2), perm=(1, 0, 2))
    return dense(builder, _reshaped(builder, joined, (tokens, width)), width)


def _by_head(builder: GraphBuilder, tensor: QuantisedTensor, heads: int, is_key: int) -> QuantisedTensor:
    """[tokens, width] becomes [heads, tokens, width / heads], or for keys [heads, width / heads, tokens]."""
    tokens, width = tensor.shape
    order = (1, 2, 0) if is_key else (1, 0, 2)
    split = _reshaped(builder, tensor, (tokens, heads, width // heads))
    return builder.move("Transpose", split, lambda array: array.transpose(order), perm=order)


def _reshaped(builder: GraphBuilder, tensor: QuantisedTensor, shape: tuple[int, ...]) -> QuantisedTensor:
    constant = builder.add_constant(np.asarray(shape, np.int64), "shape")
    return builder.move("Reshape", tensor, lambda array: array.reshape(shape), [constant])
