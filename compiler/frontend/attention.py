"""The fused attention operators as the matrix products and vector work inside them.

The two products of scaled dot-product attention are batched over batch and key/value heads; query heads that share
a key/value head (grouped-query attention) are rows of one product, so that keys are read once for
all of them. Scores are counted as stored tensors: a fused kernel that never writes them is a matter
of mapping several ops together, which a workload does not describe. A causal mask does not shorten
the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .graph import Node, Value
from .lowering import (
    BadNode,
    Context,
    Lowered,
    Lowering,
    NotModelled,
    build_vector,
    known,
    main_output,
    needed,
    value_bytes,
)
from .products import Nest, build_nest

SOFTMAX_PASSES = 5  # maximum, subtract, exponential, sum, divide


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heads:
    """Sizes of an attention."""

    batch: int
    query_heads: int
    kv_heads: int
    queries: int
    keys: int
    head_size: int
    value_size: int

    @property
    def scores(self) -> int:
        return self.batch * self.query_heads * self.queries * self.keys

    def nest(self, *, cols: int, summed: int) -> Nest:
        rows = self.query_heads // self.kv_heads * self.queries
        return Nest(batch=self.batch * self.kv_heads, rows=rows, cols=cols, summed=summed)


def lower_attention(node: Node, ctx: Context) -> Lowered:
    """`Attention`: `softmax(Q K^T + mask) V`, with heads and a key/value cache."""
    query, key, value = needed(node, 0), needed(node, 1), needed(node, 2)
    heads = _find_heads(node, known(query), known(key), known(value))
    score_type = ctx.replaced(query.datatype)
    scores = heads.scores * score_type.bits // 8
    types = (ctx.datatype(query), ctx.datatype(key), ctx.datatype(value))
    ops = _append_cache(node, ctx, key, value)
    to_scores = heads.nest(cols=heads.keys, summed=heads.head_size)
    ops += build_nest(node, ctx, (types[0], types[1], score_type), to_scores, kind="matmul", part="scores")
    mask = node.input(3)
    num_extra = int(mask is not None) + 2 * int(bool(node.attributes.get("softcap")))
    ops += build_vector(
        node,
        ctx,
        passes=SOFTMAX_PASSES + 1 + num_extra,  # and the scale, the mask, the soft cap
        kind="softmax",
        reads=[("scores", scores), *([] if mask is None else value_bytes([mask], ctx))],
        writes=[("scores", scores)],
        elements=heads.scores,
        part="softmax",
    )
    to_values = heads.nest(cols=heads.value_size, summed=heads.keys)
    output = ctx.datatype(main_output(node))
    return ops + build_nest(node, ctx, (score_type, types[2], output), to_values, kind="matmul", part="values")


def lower_linear_attention(node: Node, ctx: Context) -> Lowered:
    """`LinearAttention`: a recurrence over tokens whose state no single loop nest holds."""
    query, key, value = (known(needed(node, idx), 3) for idx in range(3))
    query_heads, kv_heads = node.int_attribute("q_num_heads", 0), node.int_attribute("kv_num_heads", 0)
    if query_heads < 1 or kv_heads < 1:
        raise BadNode("it needs the attributes q_num_heads and kv_num_heads")
    per_state = (key[2] // kv_heads) * (value[2] // kv_heads)
    rule = node.text_attribute("update_rule", "gated_delta")
    num_state_products = 2 if "delta" in rule else 1
    macs = query[0] * query[1] * per_state * (kv_heads * num_state_products + query_heads) * node.count
    raise NotModelled(f"the recurrence of linear attention ({rule}) is not modelled", macs)


def lower_rotary_embedding(node: Node, ctx: Context) -> Lowered:
    """`RotaryEmbedding`: two multiplications and an addition; only the rows of the positions are read."""
    signal, cosine, sine = needed(node, 0), needed(node, 1), needed(node, 2)
    known(signal)
    rotated = signal.elements // 2
    reads = [(signal.name, ctx.num_bytes(signal))]
    for table in (cosine, sine):
        known(table)
        reads.append((table.name, ctx.num_bytes(table, min(table.elements, rotated))))
    return build_vector(node, ctx, passes=3, reads=reads, elements=signal.elements)


def _find_heads(node: Node, query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...]) -> _Heads:
    past = node.input(4)
    past_keys = known(past, 4)[2] if past is not None else 0
    if len(query) not in (3, 4) or not len(query) == len(key) == len(value):
        raise BadNode("query, key and value all have three axes, or all four; check the export")
    if len(query) == 4:
        query_heads, kv_heads = query[1], key[1]
        queries, keys, head_size, value_size = query[2], key[2], query[3], value[3]
    else:
        query_heads, kv_heads = node.int_attribute("q_num_heads", 0), node.int_attribute("kv_num_heads", 0)
        if query_heads < 1 or kv_heads < 1:
            raise BadNode("inputs with three axes need the attributes q_num_heads and kv_num_heads")
        queries, keys = query[1], key[1]
        head_size, value_size = query[2] // query_heads, value[2] // kv_heads
    if kv_heads < 1 or query_heads % kv_heads:
        raise BadNode(f"{query_heads} query heads do not share {kv_heads} key/value heads evenly")
    return _Heads(
        batch=query[0],
        query_heads=query_heads,
        kv_heads=kv_heads,
        queries=queries,
        keys=keys + past_keys,
        head_size=head_size,
        value_size=value_size,
    )


def _append_cache(node: Node, ctx: Context, key: Value, value: Value) -> Lowered:
    """New keys and values written behind the cached ones, which stay where they are."""
    if node.output(1) is None:
        return []
    moved = value_bytes([key, value], ctx)
    elements = key.elements + value.elements
    return build_vector(node, ctx, passes=0, kind="append", reads=moved, writes=moved, elements=elements, part="cache")


ATTENTION: Mapping[str, Lowering] = {
    "Attention": lower_attention,
    "LinearAttention": lower_linear_attention,
    "RotaryEmbedding": lower_rotary_embedding,
}
