"""Weights of a language model, tensor by tensor, and the bytes that its cache takes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .language_model import Experts, GroupedAttention, LanguageModel, LatentAttention

WeightRole = Literal["embedding", "head", "attention", "feed_forward", "experts", "shared_experts", "router", "norm"]
WEIGHT_ROLES: tuple[WeightRole, ...] = (
    "embedding",
    "head",
    "attention",
    "feed_forward",
    "experts",
    "shared_experts",
    "router",
    "norm",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightTensor:
    """Equal tensors of weights.

    Attributes:
        name: What it is.
        role: What it belongs to; how weights are divided over chips and quantised depends on it.
        shape: Its dims; matrices are [outputs, inputs].
        copies: How many there are in the model.
    """

    name: str
    role: WeightRole
    shape: tuple[int, ...]
    copies: int

    @property
    def num_weights(self) -> int:
        """Weights of all copies."""
        return math.prod(self.shape) * self.copies


def weight_tensors(model: LanguageModel) -> tuple[WeightTensor, ...]:
    """Every tensor of weights of a model."""
    return tuple(_tensors(model))


def num_weights(model: LanguageModel, role: WeightRole | None = None) -> int:
    """Weights of a model, or of one role."""
    return sum(tensor.num_weights for tensor in weight_tensors(model) if role in (None, tensor.role))


def num_active_weights(model: LanguageModel) -> int:
    """Weights that one token meets: of the routed experts only its own; the embedding is one row, not counted."""
    whole = num_weights(model) - (0 if model.has_tied_embeddings else num_weights(model, "embedding"))
    if model.experts is None:
        return whole
    routed = num_weights(model, "experts")
    return whole - routed + routed * model.experts.top_k // model.experts.num_experts


def kv_elements_per_token(model: LanguageModel) -> int:
    """Elements that one layer caches per token."""
    attention = model.attention
    if isinstance(attention, LatentAttention):
        return attention.kv_rank + attention.rope_dim
    return 2 * attention.num_kv_heads * attention.head_dim


def kept_tokens(model: LanguageModel, num_tokens: int) -> int:
    """Tokens that all layers together keep of a sequence: windowed layers keep their window only."""
    windowed = model.num_windowed_layers
    attention = model.attention
    window = attention.window_tokens if isinstance(attention, GroupedAttention) else None
    kept = num_tokens if window is None else min(num_tokens, window)
    return (model.num_layers - windowed) * num_tokens + windowed * kept


def kv_bytes(model: LanguageModel, num_tokens: int, kv_bits: int) -> int:
    """Bytes that one sequence of so many tokens takes in the cache."""
    return (kept_tokens(model, num_tokens) * kv_elements_per_token(model) * kv_bits + 7) // 8


def _tensors(model: LanguageModel) -> Iterator[WeightTensor]:
    hidden = model.hidden_size
    yield _tensor("embedding", "embedding", (model.vocabulary_size, hidden), 1)
    if not model.has_tied_embeddings:
        yield _tensor("output projection", "head", (model.vocabulary_size, hidden), 1)
    yield _tensor("norms of the layers", "norm", (hidden,), 2 * model.num_layers)
    yield _tensor("last norm", "norm", (hidden,), 1)
    if isinstance(model.attention, LatentAttention):
        yield from _latent_tensors(model, model.attention)
    else:
        yield from _grouped_tensors(model, model.attention)
    if model.num_dense_layers:
        yield from _feed_forward_tensors(model)
    if model.experts is not None:
        yield from _expert_tensors(model, model.experts)


def _grouped_tensors(model: LanguageModel, attention: GroupedAttention) -> Iterator[WeightTensor]:
    layers, hidden = model.num_layers, model.hidden_size
    queries, keys = attention.num_heads * attention.head_dim, attention.num_kv_heads * attention.head_dim
    yield _tensor("queries", "attention", (queries, hidden), layers)
    yield _tensor("keys and values", "attention", (keys, hidden), 2 * layers)
    yield _tensor("attention output", "attention", (hidden, queries), layers)
    if attention.has_input_bias:
        yield _tensor("biases of queries, keys and values", "attention", (queries + 2 * keys,), layers)
    if attention.has_output_bias:
        yield _tensor("bias of the attention output", "attention", (hidden,), layers)
    if attention.has_head_norms:
        yield _tensor("norms of queries and keys", "norm", (attention.head_dim,), 2 * layers)
    if attention.has_sinks:
        yield _tensor("sinks", "attention", (attention.num_heads,), layers)


def _latent_tensors(model: LanguageModel, attention: LatentAttention) -> Iterator[WeightTensor]:
    layers, hidden, heads = model.num_layers, model.hidden_size, attention.num_heads
    queries = heads * (attention.nope_dim + attention.rope_dim)
    if attention.query_rank is None:
        yield _tensor("queries", "attention", (queries, hidden), layers)
    else:
        yield _tensor("query compression", "attention", (attention.query_rank, hidden), layers)
        yield _tensor("norm of the compressed query", "norm", (attention.query_rank,), layers)
        yield _tensor("queries", "attention", (queries, attention.query_rank), layers)
    yield _tensor(
        "compression of keys and values", "attention", (attention.kv_rank + attention.rope_dim, hidden), layers
    )
    yield _tensor("norm of the compressed keys and values", "norm", (attention.kv_rank,), layers)
    yield _tensor("keys", "attention", (heads * attention.nope_dim, attention.kv_rank), layers)
    yield _tensor("values", "attention", (heads * attention.value_dim, attention.kv_rank), layers)
    yield _tensor("attention output", "attention", (hidden, heads * attention.value_dim), layers)


def _feed_forward_tensors(model: LanguageModel) -> Iterator[WeightTensor]:
    layers, hidden, inner = model.num_dense_layers, model.hidden_size, model.intermediate_size
    yield _tensor("gate and up", "feed_forward", (inner, hidden), 2 * layers)
    yield _tensor("down", "feed_forward", (hidden, inner), layers)
    if model.has_feed_forward_bias:
        yield _tensor("biases of gate, up and down", "feed_forward", (2 * inner + hidden,), layers)


def _expert_tensors(model: LanguageModel, experts: Experts) -> Iterator[WeightTensor]:
    layers, hidden, inner = model.num_expert_layers, model.hidden_size, experts.intermediate_size
    yield _tensor("router", "router", (experts.num_experts, hidden), layers)
    if experts.has_bias:
        yield _tensor("biases of the router", "router", (experts.num_experts,), layers)
        yield _tensor("biases of the experts", "experts", (2 * inner + hidden,), layers * experts.num_experts)
    if experts.has_router_correction:
        yield _tensor("correction of the router", "router", (experts.num_experts,), layers)
    yield _tensor("gate and up of the experts", "experts", (inner, hidden), 2 * layers * experts.num_experts)
    yield _tensor("down of the experts", "experts", (hidden, inner), layers * experts.num_experts)
    if experts.num_shared:
        copies = layers * experts.num_shared
        yield _tensor("gate and up of the shared experts", "shared_experts", (inner, hidden), 2 * copies)
        yield _tensor("down of the shared experts", "shared_experts", (hidden, inner), copies)


def _tensor(name: str, role: WeightRole, shape: tuple[int, ...], copies: int) -> WeightTensor:
    return WeightTensor(name=name, role=role, shape=shape, copies=copies)
