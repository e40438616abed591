"""Main memory of one chip: weights, cache, activations, and what is kept free."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...archdsl import (
    GroupedAttention,
    Infeasible,
    LanguageModel,
    WeightRole,
    WeightTensor,
    kept_tokens,
    kv_elements_per_token,
    weight_tensors,
)
from ..gpu.times import Floats, Ints
from ..parts import Part, sum_of
from .fabric import Fabric
from .numerics import Numerics, weight_bytes
from .parallel import Layout, Layouts

RESERVED_SHARE = 0.1
"""Share of main memory that is left to the driver, collectives and fragments. Source: vLLM, default of
`gpu_memory_utilization`, 0.9."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryColumns:
    """Bytes of the fullest chip of each layout `[n]`.

    Attributes:
        weights: Weights.
        kv_per_sequence: Cache of one sequence of one attention group.
        activations: Results between kernels in the largest step.
        reserved: What is kept free.
        capacity: Main memory of a chip.
    """

    weights: Floats
    kv_per_sequence: Floats
    activations: Floats
    reserved: float
    capacity: float

    def needed(self, sequences: Floats) -> Floats:
        """Bytes needed with so many sequences of each group in the cache `[n]`."""
        return self.weights + sequences * self.kv_per_sequence + self.activations + self.reserved

    def take(self, rows: Ints) -> MemoryColumns:
        """Some of them, in that order."""
        return replace(
            self,
            weights=self.weights[rows],
            kv_per_sequence=self.kv_per_sequence[rows],
            activations=self.activations[rows],
        )

    @property
    def max_sequences(self) -> Floats:
        """Most sequences of one group that fit `[n]`; 0 when not even the weights fit."""
        left = self.capacity - self.weights - self.activations - self.reserved
        return np.maximum(0.0, np.floor(left / self.kv_per_sequence))


def memory_of(
    model: LanguageModel,
    numerics: Numerics,
    fabric: Fabric,
    layouts: Layouts,
    *,
    sequence_tokens: int,
    step_tokens: int,
    sampled: Floats | float,
    without: frozenset[WeightRole] = frozenset(),
) -> MemoryColumns:
    """What one chip holds.

    Args:
        model: The model.
        numerics: Its datatypes.
        fabric: The system.
        layouts: Layouts to look at.
        sequence_tokens: Tokens of a sequence when it is longest.
        step_tokens: Most tokens of a step of one group.
        sampled: Tokens whose logits are computed in a step.
        without: Roles whose weights are elsewhere.
    """
    capacity = fabric.arch.main_memory.capacity_bytes
    return MemoryColumns(
        weights=weights_per_chip(model, numerics, layouts, without),
        kv_per_sequence=_kv_per_sequence(model, numerics, layouts, sequence_tokens),
        activations=_activations(model, numerics, layouts, step_tokens, sampled),
        reserved=RESERVED_SHARE * capacity,
        capacity=float(capacity),
    )


def weights_per_chip(
    model: LanguageModel, numerics: Numerics, layouts: Layouts, without: frozenset[WeightRole] = frozenset()
) -> Floats:
    """Bytes of weights on the fullest chip `[n]`.

    Matrices of attention and feed-forward networks are divided over `tp`, experts over the chips that share them; norms and
    routers are on every chip. Keys' and values' matrices are copied where there are fewer heads than chips. The first
    stage has the embedding and the last the output projection, each divided over `tp`.
    """
    tp, pp = layouts.tp.astype(np.float64), layouts.pp.astype(np.float64)
    stage_share = np.ceil(model.num_layers / pp) / model.num_layers
    total = np.zeros(len(layouts))
    for tensor in weight_tensors(model):
        bits = numerics.bits_of(tensor.role, is_matrix=len(tensor.shape) > 1)
        whole = tensor.num_weights * bits / 8
        if tensor.role in ("embedding", "head") or tensor.role in without:
            continue
        total += whole * stage_share / _divisor(model, tensor, layouts)
    vocabulary = weight_bytes(model, numerics, frozenset({"embedding"})) / tp
    is_whole = (pp == 1) & (not model.has_tied_embeddings)
    return total + vocabulary * np.where(is_whole, 2.0, 1.0)


def _divisor(model: LanguageModel, tensor: WeightTensor, layouts: Layouts) -> Floats:
    """Chips of a stage over which a tensor is divided."""
    tp = layouts.tp.astype(np.float64)
    if tensor.role == "experts":
        return layouts.expert_chips.astype(np.float64)
    if tensor.role in ("norm", "router") or len(tensor.shape) == 1:
        return np.ones_like(tp)
    attention = model.attention
    if tensor.name == "keys and values" and isinstance(attention, GroupedAttention):
        return np.minimum(tp, attention.num_kv_heads)
    if tensor.name.startswith(("query compression", "compression of keys")):
        return np.ones_like(tp)
    return tp


def _kv_per_sequence(model: LanguageModel, numerics: Numerics, layouts: Layouts, tokens: int) -> Floats:
    tp, pp = layouts.tp.astype(np.float64), layouts.pp.astype(np.float64)
    whole = kept_tokens(model, tokens) * kv_elements_per_token(model) * numerics.kv_bits / 8
    stage_share = np.ceil(model.num_layers / pp) / model.num_layers
    attention = model.attention
    # All heads share the latent vectors, so every chip of the group keeps them all.
    heads = min(attention.num_kv_heads, math.inf) if isinstance(attention, GroupedAttention) else 1
    return whole * stage_share / np.minimum(tp, heads)


def _activations(
    model: LanguageModel, numerics: Numerics, layouts: Layouts, step_tokens: int, sampled: Floats | float
) -> Floats:
    """Largest live results of a layer: the residual and a norm's result, and both halves of the widest network, which
    are there at once before the gated activation; then logits in fp32."""
    tp = layouts.tp.astype(np.float64)
    width = float(model.intermediate_size) / tp
    if model.experts is not None:
        routed = model.experts.intermediate_size * model.experts.top_k / layouts.ep
        width = np.maximum(width, routed * layouts.expert_groups / (layouts.expert_chips / layouts.ep))
    tokens = step_tokens * (2 * model.hidden_size + 3 * width) * numerics.plain_bits / 8
    logits = np.asarray(sampled, dtype=np.float64) * model.vocabulary_size * 4 / tp
    return tokens + logits


def budget_part(memory: MemoryColumns, sequences: float, idx: int) -> Part:
    """The bytes of one layout's fullest chip as a tree."""
    return sum_of(
        "main memory of a chip",
        "bytes",
        [
            Part(name="weights", amount=float(memory.weights[idx]), unit="bytes"),
            Part(name="cache", amount=float(memory.kv_per_sequence[idx] * sequences), unit="bytes"),
            Part(name="activations", amount=float(memory.activations[idx]), unit="bytes"),
            Part(name="reserved", amount=memory.reserved, unit="bytes"),
        ],
    )


def memory_shortage(
    model: LanguageModel, fabric: Fabric, layout: Layout, memory: MemoryColumns, sequences: float, idx: int
) -> Infeasible | None:
    """Why a layout does not fit, or None when it does."""
    budget = budget_part(memory, sequences, idx)
    demand = sum(math.ceil(part.amount) for part in budget.parts)
    limit = int(memory.capacity)
    if demand <= limit:
        return None
    levers = [f"{demand - limit:,} bytes more per chip"]
    if layout.num_chips < fabric.num_chips:
        levers.append(f"more chips for one instance, of the {fabric.num_chips} of {fabric.name}: --tp, --pp or --ep")
    levers.append("fewer bits: --quantisation fp8 or int4_weights, --kv fp8")
    if budget.parts[1].amount > demand - limit:
        fit = int(memory.max_sequences[idx])
        if fit >= 1:
            levers.append(f"at most {fit:,} sequences in the cache of a chip")
    return Infeasible(
        resource=f"main memory of one {fabric.arch.name} ({layout})",
        demand=demand,
        limit=limit,
        unit="bytes",
        terms=tuple((part.name, math.ceil(part.amount)) for part in budget.parts),
        levers=tuple(levers),
        op=model.name,
    )
