"""Kinds of kernels that steps are made of; every number is a column over the steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..gpu.times import Floats

PartName = Literal[
    "dense products",
    "experts",
    "attention",
    "element-wise",
    "output",
    "all-reduce",
    "expert exchange",
    "between stages",
]
PARTS: tuple[PartName, ...] = (
    "dense products",
    "experts",
    "attention",
    "element-wise",
    "output",
    "all-reduce",
    "expert exchange",
    "between stages",
)
"""What the time of a step is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A matrix product with weights: [m, k] x [k, n].

    Attributes:
        name: Which one.
        part: Part of the step that it counts to.
        m: Rows `[n]`.
        n: Columns `[n]`.
        k: Reduction `[n]`.
        copies: Times that it runs in a step on the chips that the step passes, one after another `[n]`.
        datatype: What the tensor cores multiply.
        weight_bits: Bits of a weight in memory.
    """

    name: str
    part: PartName
    m: Floats
    n: Floats
    k: Floats
    copies: Floats
    datatype: str
    weight_bits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedProduct:
    """Products of the tokens of each expert with its weights, in one kernel.

    Attributes:
        name: Which one.
        part: Part of the step that it counts to.
        rows: Rows of all experts of one chip together `[n]`.
        experts: Experts of one chip that have any rows, expected `[n]`.
        held: Experts of one chip `[n]`.
        n: Columns `[n]`.
        k: Reduction `[n]`.
        copies: Times that it runs in a step `[n]`.
        datatype: What the tensor cores multiply.
        weight_bits: Bits of a weight in memory, scales included.
    """

    name: str
    part: PartName
    rows: Floats
    experts: Floats
    held: Floats
    n: Floats
    k: Floats
    copies: Floats
    datatype: str
    weight_bits: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadShape:
    """Heads of attention on one chip.

    Attributes:
        query_heads: Heads of queries `[n]`.
        kv_heads: Heads of keys and values `[n]`; 1 where all share latent vectors.
        head_dim: Elements of a head's query.
        value_dim: Elements of a head's value.
        kv_token_bytes: Bytes of the cache that one token takes in a layer `[n]`.
    """

    query_heads: Floats
    kv_heads: Floats
    head_dim: int
    value_dim: int
    kv_token_bytes: Floats

    @property
    def pair_ops(self) -> Floats:
        """Arithmetic of one pair of query and key tokens over all heads `[n]`."""
        return 2 * self.query_heads * (self.head_dim + self.value_dim)

    @property
    def token_elements(self) -> Floats:
        """Elements of a token's queries and results `[n]`."""
        return self.query_heads * (self.head_dim + self.value_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Scores, softmax and weighted values in one kernel.

    Attributes:
        name: Which one.
        part: Part of the step that it counts to.
        sequences: Sequences that attend `[n]`.
        query_tokens: Tokens of one that attend `[n]`.
        key_tokens: Tokens of one that may be attended to, those that attend included `[n]`.
        heads: Heads of one chip.
        window: Newest tokens that each attends to; None for all.
        ops: Arithmetic of both products on one chip `[n]`.
        kv_bytes: Bytes of the cache read `[n]`.
        other_bytes: Bytes of queries and results `[n]`.
        copies: Times that it runs in a step `[n]`.
        datatype: What the tensor cores multiply.
    """

    name: str
    part: PartName
    sequences: Floats
    query_tokens: Floats
    key_tokens: Floats
    heads: HeadShape
    window: int | None
    ops: Floats
    kv_bytes: Floats
    other_bytes: Floats
    copies: Floats
    datatype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementWise:
    """A kernel limited by the bytes that it moves.

    Attributes:
        name: Which one.
        part: Part of the step that it counts to.
        moved_bytes: Bytes read and written on one chip `[n]`.
        copies: Times that it runs in a step `[n]`.
        is_of_attention: Whether attention kernels of frameworks do it along the way.
    """

    name: str
    part: PartName
    moved_bytes: Floats
    copies: Floats
    is_of_attention: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A collective or a transfer between chips.

    Attributes:
        name: Which one.
        part: Part of the step that it counts to.
        kind: What is exchanged: sums, slices, tokens of experts, or one transfer to the next stage.
        payload_bytes: Bytes of the vector that one chip holds `[n]` (of `all_to_all`: that it sends out in all).
        group: Chips that take part `[n]`.
        copies: Times that it runs in a step `[n]`.
    """

    name: str
    part: PartName
    kind: Literal["all_reduce", "all_gather", "all_to_all", "transfer"]
    payload_bytes: Floats
    group: Floats
    copies: Floats


StepOp = Product | GroupedProduct | Attention | ElementWise | Exchange
