"""Attention in a network of ops: products and the softmax between them, which one kernel computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...archdsl import DimClass, Op, VectorOp

FLASH_DATATYPES: Final = ("fp16", "bf16")
"""Types that FlashAttention 2 computes in. Source: Dao, FlashAttention-2, 2023, and its README."""

FLASH_HEAD_DIM: Final = 256
"""Most elements of a head there; same source."""

MAX_BETWEEN: Final = 4
"""Most element-wise ops between the products: scale, cap, mask and softmax."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionOp:
    """softmax(Q K^T) V of some heads in place of the ops that a network spells it out in.

    Attributes:
        name: Name of the first of them.
        kind: `attention`.
        datatype: Datatype of all tensors.
        heads: Heads of all sequences that share nothing.
        query_len: Queries of one head.
        kv_len: Keys of one head.
        head_dim: Elements of a head.
        count: How many times the network runs it.
        nodes: Names of the network's nodes that it stands for.
        num_ops: Ops that it takes the place of.
    """

    name: str
    kind: str = "attention"
    datatype: str
    heads: int
    query_len: int
    kv_len: int
    head_dim: int
    count: int = 1
    nodes: tuple[str, ...] = ()
    num_ops: int = 3

    @property
    def macs(self) -> int:
        """Multiply-accumulates of both products."""
        return 2 * self.heads * self.query_len * self.kv_len * self.head_dim


KernelOp = Op | VectorOp | AttentionOp
"""What one kernel computes."""


def extent(op: Op, dim_class: DimClass) -> int:
    """Size of all dims of a class together."""
    return math.prod(size for dim, size in op.dims if op.dim_class(dim) is dim_class)


def join_attention(ops: Sequence[Op | VectorOp]) -> tuple[KernelOp, ...]:
    """Ops with attention joined where a network spells it out in ops that follow one another.

    The pattern is a batched product, up to `MAX_BETWEEN` element-wise ops on all of its results, a softmax among them, and
    a product of the same batch that reduces over its columns; in a datatype and with heads that FlashAttention 2 has.
    Anything else is left as it is.
    """
    found: list[KernelOp] = []
    idx = 0
    while idx < len(ops):
        joined = _attention_at(ops, idx)
        found.append(ops[idx] if joined is None else joined)
        idx += 1 if joined is None else joined.num_ops
    return tuple(found)


def _attention_at(ops: Sequence[Op | VectorOp], start: int) -> AttentionOp | None:
    scores = ops[start]
    if not isinstance(scores, Op) or scores.datatype not in FLASH_DATATYPES or not _is_product(scores):
        return None
    between: list[VectorOp] = []
    for op in ops[start + 1 : start + 1 + MAX_BETWEEN]:
        if not isinstance(op, VectorOp):
            break
        between.append(op)
    end = start + 1 + len(between)
    values = ops[end] if end < len(ops) else None
    if not isinstance(values, Op) or not _is_attention(scores, between, values):
        return None
    members = (scores, *between, values)
    return AttentionOp(
        name=scores.name,
        datatype=scores.datatype,
        heads=extent(scores, DimClass.GROUP),
        query_len=extent(scores, DimClass.PIXEL),
        kv_len=extent(scores, DimClass.OUTPUT_CHANNEL),
        head_dim=extent(scores, DimClass.REDUCTION),
        count=scores.count,
        nodes=tuple(dict.fromkeys(node for op in members for node in op.nodes)),
        num_ops=len(members),
    )


def _is_attention(scores: Op, between: Sequence[VectorOp], values: Op) -> bool:
    """Whether the sizes of the ops fit together as softmax(Q K^T) V."""
    heads, queries = extent(scores, DimClass.GROUP), extent(scores, DimClass.PIXEL)
    keys, head_dim = extent(scores, DimClass.OUTPUT_CHANNEL), extent(scores, DimClass.REDUCTION)
    sides = (DimClass.GROUP, DimClass.PIXEL, DimClass.REDUCTION, DimClass.OUTPUT_CHANNEL)
    return (
        _is_product(values)
        and values.datatype == scores.datatype
        and tuple(extent(values, side) for side in sides) == (heads, queries, keys, head_dim)
        and head_dim <= FLASH_HEAD_DIM
        and any(op.kind == "softmax" for op in between)
        and all(op.elements == heads * queries * keys for op in between)
        and {op.count for op in (scores, *between, values)} == {scores.count}
    )


def _is_product(op: Op) -> bool:
    return len(op.tensors) == 3 and not any(axis.is_sliding for tensor in op.tensors for axis in tensor.axes)
