"""Layers of networks as sequences of eager kernels: every operator is a kernel, nothing is fused across operators.

A Llama layer is written as in Hugging Face's `modeling_llama.py`, with joint projections (Q, K and V; gate and up) and
torch's fused `rms_norm`; rotary embedding is `x * cos + rotate_half(x) * sin`: negate, concatenate, two products and a sum,
for Q and for K. What a kernel writes is in the cache for the next one as far as it fits; weights and the KV cache are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .attention import Attentions, BackendName
from .gemm import Gemms
from .memory_bound import MemoryKernels
from .memory_structures import MemoryOp
from .sequence import KernelSequence, Step
from .times import Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaShape:
    """Sizes of a Llama layer.

    Attributes:
        hidden: Elements of a token's state.
        intermediate: Elements between the up and the down projection.
        query_heads: Heads of Q.
        kv_heads: Heads of K and V.
        head_dim: Elements of a head.
    """

    hidden: int
    intermediate: int
    query_heads: int
    kv_heads: int
    head_dim: int = 128


LLAMA_3_8B = LlamaShape(hidden=4096, intermediate=14336, query_heads=32, kv_heads=8)
LLAMA_3_70B = LlamaShape(hidden=8192, intermediate=28672, query_heads=64, kv_heads=8)
"""Source: Meta, Llama 3 model cards and configuration files."""


def llama_layer(
    shape: LlamaShape,
    labels: tuple[str, ...],
    batch: Ints,
    query_len: Ints,
    kv_len: Ints,
    datatype: str = "bf16",
    backend: BackendName = "flash",
) -> KernelSequence:
    """One layer, for many batches and lengths.

    Args:
        shape: Sizes of the layer.
        labels: One per row.
        batch: Sequences `[n]`.
        query_len: New tokens of a sequence `[n]`.
        kv_len: Tokens that they attend to, themselves included `[n]`.
        datatype: Datatype of weights, activations and KV cache.
        backend: Kernels of the attention.
    """
    tokens = batch * query_len
    queries, keys = shape.query_heads * shape.head_dim, shape.kv_heads * shape.head_dim

    def elementwise(name: str, op: MemoryOp, cols: int, repeats: int = 1) -> Step:
        return Step(name=name, kernels=_memory(op, datatype, tokens, cols), repeats=repeats)

    def product(name: str, outputs: int, inputs: int) -> Step:
        return Step(name=name, kernels=_product(datatype, tokens, outputs, inputs))

    attention = Attentions(
        batch=batch,
        query_heads=np.full(len(batch), shape.query_heads),
        kv_heads=np.full(len(batch), shape.kv_heads),
        head_dim=np.full(len(batch), shape.head_dim),
        query_len=query_len,
        kv_len=kv_len,
        window=np.zeros(len(batch), dtype=np.int64),
        datatype=datatype,
        is_causal=True,
        backend=backend,
    )
    return KernelSequence(
        labels=labels,
        steps=(
            elementwise("norms", "rmsnorm", shape.hidden, 2),
            product("Q, K and V", queries + 2 * keys, shape.hidden),
            *(
                step
                for cols in (queries, keys)
                for step in (
                    elementwise("rotary embedding", "copy", cols // 2),
                    elementwise("rotary embedding", "copy", cols),
                    elementwise("rotary embedding", "mul_row", cols, 2),
                    elementwise("rotary embedding", "add", cols),
                )
            ),
            elementwise("KV append", "copy", keys, 2),
            Step(name="attention", kernels=attention),
            product("output projection", shape.hidden, queries),
            product("gate and up", 2 * shape.intermediate, shape.hidden),
            elementwise("activation", "gelu", shape.intermediate),
            elementwise("activation", "mul", shape.intermediate),
            product("down", shape.hidden, shape.intermediate),
            elementwise("residuals", "add", shape.hidden, 2),
        ),
    )


def _memory(op: MemoryOp, datatype: str, rows: Ints, cols: int) -> MemoryKernels:
    return MemoryKernels(
        op=op,
        datatype=datatype,
        rows=rows,
        cols=np.full(len(rows), cols),
        inputs_in_cache=np.ones(len(rows), dtype=np.bool_),
    )


def _product(datatype: str, tokens: Ints, outputs: int, inputs: int) -> Gemms:
    return Gemms(
        m=tokens,
        n=np.full(len(tokens), outputs),
        k=np.full(len(tokens), inputs),
        datatype=datatype,
        weights_in_cache=np.zeros(len(tokens), dtype=np.bool_),
        inputs_in_cache=np.ones(len(tokens), dtype=np.bool_),
    )
