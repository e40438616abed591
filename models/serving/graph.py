"""The kernels of one step of a language model on one chip, prompts and decoding together.

Every op's shape is a column over the steps, so that all layouts of a plan are one batch. A step's ops run one after
another; through a pipeline the step passes the stages in turn, so that each op runs in every layer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...archdsl import Experts, GroupedAttention, LanguageModel, LatentAttention
from ..gpu.times import Floats
from .numerics import Numerics
from .ops import Attention, ElementWise, Exchange, GroupedProduct, HeadShape, PartName, Product, StepOp
from .routing import experts_with_rows, rows_of_fullest_chip
from .steps import Steps

ROUTE_BYTES = 8
"""Bytes of one choice of a router: the expert's number and its weight, 4 each."""

DEFAULT_LOAD_IMBALANCE = 1.0
"""Rows of the chip with the most chosen experts over the mean, among chips that share experts: 1 is a router that chooses all
alike, with the spread of chance alone. assumption: served models are trained with load balancing and large deployments
replicate hot experts; the value is a parameter."""


def step_ops(
    model: LanguageModel, numerics: Numerics, steps: Steps, load_imbalance: float = DEFAULT_LOAD_IMBALANCE
) -> tuple[StepOp, ...]:
    """Every kernel of some steps.

    Args:
        model: The model.
        numerics: Its datatypes.
        steps: What the steps work on.
        load_imbalance: Rows of the fullest chip over the mean, among the chips that share experts.
    """
    graph = _Graph(model, numerics, steps, load_imbalance)
    return (*graph.edge_ops(), *graph.attention_ops(), *graph.feed_forward_ops())


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOps:
    """Kernels of some steps, by where they may run.

    Attributes:
        edges: Embedding, output projection, sampling.
        attention: Norms and attention of every layer.
        feed_forward: Feed-forward networks and experts of every layer.
    """

    edges: tuple[StepOp, ...]
    attention: tuple[StepOp, ...]
    feed_forward: tuple[StepOp, ...]


def split_ops(model: LanguageModel, numerics: Numerics, steps: Steps, load_imbalance: float) -> SplitOps:
    """Every kernel of some steps, attention apart from feed-forward networks."""
    graph = _Graph(model, numerics, steps, load_imbalance)
    return SplitOps(
        edges=tuple(graph.edge_ops()),
        attention=tuple(graph.attention_ops()),
        feed_forward=tuple(graph.feed_forward_ops()),
    )


class _Graph:
    """The ops of one batch of steps."""

    def __init__(self, model: LanguageModel, numerics: Numerics, steps: Steps, load_imbalance: float) -> None:
        self.model = model
        self.numerics = numerics
        self.steps = steps
        self.load_imbalance = load_imbalance
        self.tp: Floats = steps.layouts.tp.astype(np.float64)
        self.pp: Floats = steps.layouts.pp.astype(np.float64)
        # A step meets the slowest stage as often as there are stages: stages work in lockstep on steps of their own.
        self.stage_share: Floats = self.pp * np.ceil(model.num_layers / self.pp) / model.num_layers
        self.tokens: Floats = steps.tokens
        self.act = numerics.plain_bits / 8

    def edge_ops(self) -> Iterator[StepOp]:
        """What runs once a step, before and after the layers, and between stages."""
        hidden = self.model.hidden_size
        yield self._moved("embedding", self.tokens * hidden * 2 * self.act, np.ones_like(self.tp))
        yield from self._output()
        yield Exchange(
            name="to the next stage",
            part="between stages",
            kind="transfer",
            payload_bytes=self.tokens * hidden * self.act / self.tp,
            # An instance that does not fit in a node passes on between nodes.
            group=self.pp * self.tp,
            copies=self.pp - 1,
        )

    def attention_ops(self) -> Iterator[StepOp]:
        """Norms and attention of every layer."""
        model = self.model
        layers = model.num_layers * self.stage_share
        # Both norms of a layer add the residual as well: two vectors in, two out.
        yield self._moved("residual and norm", 4 * self.tokens * model.hidden_size * self.act, 2 * layers)
        if isinstance(model.attention, LatentAttention):
            yield from self._latent(model.attention, layers)
        else:
            yield from self._grouped(model.attention, layers)
        yield self._sum("after attention", layers)

    def feed_forward_ops(self) -> Iterator[StepOp]:
        """Dense networks and experts of every layer."""
        model = self.model
        if model.num_dense_layers:
            yield from self._feed_forward(model.intermediate_size, model.num_dense_layers * self.stage_share)
        if model.experts is not None:
            yield from self._experts(model.experts, model.num_expert_layers * self.stage_share)

    def _grouped(self, attention: GroupedAttention, layers: Floats) -> Iterator[StepOp]:
        hidden, dim = self.model.hidden_size, attention.head_dim
        heads = attention.num_heads / self.tp
        kv_heads = np.maximum(1.0, attention.num_kv_heads / self.tp)
        yield self._product("queries, keys and values", self.tokens, (heads + 2 * kv_heads) * dim, hidden, layers)
        width = self.tokens * (heads + kv_heads) * dim * 2 * self.act
        appended = self.tokens * 2 * kv_heads * dim * (self.act + self.numerics.kv_bits / 8)
        yield ElementWise(
            name="positions, append to the cache",
            part="element-wise",
            moved_bytes=width + appended,
            copies=layers,
            is_of_attention=True,
        )
        shape = HeadShape(
            query_heads=heads,
            kv_heads=kv_heads,
            head_dim=dim,
            value_dim=dim,
            kv_token_bytes=2 * kv_heads * dim * self.numerics.kv_bits / 8,
        )
        windowed = attention.num_windowed_layers * self.stage_share
        for window, copies in ((None, layers - windowed), (attention.window_tokens, windowed)):
            if np.any(copies > 0):
                yield self._prompt_attention(window, copies, shape)
                yield self._decode_attention(window, copies, shape)
        yield self._product("attention output", self.tokens, hidden, heads * dim, layers)

    def _latent(self, attention: LatentAttention, layers: Floats) -> Iterator[StepOp]:
        hidden, steps = self.model.hidden_size, self.steps
        heads = attention.num_heads / self.tp
        query = attention.nope_dim + attention.rope_dim
        latent = attention.kv_rank + attention.rope_dim
        first = attention.kv_rank + attention.rope_dim + (attention.query_rank or 0)
        yield self._product("compression", self.tokens, np.full_like(self.tp, first), hidden, layers)
        if attention.query_rank is None:
            yield self._product("queries", self.tokens, heads * query, hidden, layers)
        else:
            yield self._product("queries", self.tokens, heads * query, attention.query_rank, layers)
        moved = self.tokens * (2 * heads * query * self.act + latent * (self.act + self.numerics.kv_bits / 8))
        yield self._moved("positions, append to the cache", moved, layers)
        # Prompts expand keys and values (of past tokens as well); decoding multiplies queries and results by the
        # projections instead and attends to the latent vectors, which all heads and hence all chips share.
        expanded = steps.prompt_tokens + np.where(steps.prompt_tokens > 0, steps.num_prompts * steps.past_tokens, 0.0)
        outputs = heads * (attention.nope_dim + attention.value_dim)
        yield self._product("expansion of keys and values", expanded, outputs, attention.kv_rank, layers)
        decoded = steps.batch * steps.queries
        yield self._product("absorbed projections", decoded, outputs, attention.kv_rank, layers)
        expanded_heads = HeadShape(
            query_heads=heads,
            kv_heads=heads,
            head_dim=query,
            value_dim=attention.value_dim,
            kv_token_bytes=heads * (query + attention.value_dim) * self.act,
        )
        yield self._prompt_attention(None, layers, expanded_heads)
        shared = HeadShape(
            query_heads=heads,
            kv_heads=np.ones_like(self.tp),
            head_dim=latent,
            value_dim=attention.kv_rank,
            kv_token_bytes=np.full_like(self.tp, latent * self.numerics.kv_bits / 8),
        )
        yield self._decode_attention(None, layers, shared)
        yield self._product("attention output", self.tokens, hidden, heads * attention.value_dim, layers)

    def _prompt_attention(self, window: int | None, copies: Floats, heads: HeadShape) -> Attention:
        """Causal attention of prompts: each token attends to what came before, at most a window."""
        steps = self.steps
        each = np.divide(
            steps.prompt_tokens, steps.num_prompts, where=steps.num_prompts > 0, out=np.zeros_like(self.tp)
        )
        pairs = _causal_pairs(each, steps.past_tokens, window) * steps.num_prompts
        past = steps.past_tokens if window is None else np.minimum(steps.past_tokens, window)
        cached = np.where(each > 0, (past + each) * steps.num_prompts, 0.0)
        return Attention(
            name="attention of prompts",
            part="attention",
            sequences=np.where(each > 0, steps.num_prompts, 0.0),
            query_tokens=each,
            key_tokens=steps.past_tokens + each,
            heads=heads,
            window=window,
            ops=pairs * heads.pair_ops,
            kv_bytes=cached * heads.kv_token_bytes,
            other_bytes=steps.prompt_tokens * heads.token_elements * self.act,
            copies=copies,
            datatype=self.numerics.plain_datatype,
        )

    def _decode_attention(self, window: int | None, copies: Floats, heads: HeadShape) -> Attention:
        steps = self.steps
        context = steps.context_tokens if window is None else np.minimum(steps.context_tokens, window)
        return Attention(
            name="attention of decoding",
            part="attention",
            sequences=steps.batch,
            query_tokens=steps.queries,
            key_tokens=steps.context_tokens,
            heads=heads,
            window=window,
            ops=steps.batch * steps.queries * context * heads.pair_ops,
            kv_bytes=steps.batch * context * heads.kv_token_bytes,
            other_bytes=steps.batch * steps.queries * heads.token_elements * self.act,
            copies=copies,
            datatype=self.numerics.plain_datatype,
        )

    def _feed_forward(self, inner: int, layers: Floats) -> Iterator[StepOp]:
        hidden, width = self.model.hidden_size, inner / self.tp
        yield self._product("gate and up", self.tokens, 2 * width, hidden, layers)
        yield self._moved("gated activation", 3 * self.tokens * width * self.act, layers)
        yield self._product("down", self.tokens, hidden, width, layers)
        yield self._sum("after feed-forward", layers)

    def _experts(self, experts: Experts, layers: Floats) -> Iterator[StepOp]:
        hidden, layouts = self.model.hidden_size, self.steps.layouts
        groups, ep = layouts.expert_groups.astype(np.float64), layouts.ep.astype(np.float64)
        split = layouts.expert_chips / ep  # chips over which each expert is divided
        yield self._product("router", self.tokens, experts.num_experts, hidden, layers, is_quantised=False)
        together, held = self.tokens * groups, experts.num_experts / ep
        touched = experts_with_rows(held, experts.top_k, experts.num_experts, together)
        mean_rows = together * experts.top_k / ep * np.where(ep > 1, self.load_imbalance, 1.0)
        # No expert has a token twice.
        rows = np.minimum(rows_of_fullest_chip(mean_rows, ep), together * np.minimum(experts.top_k, held))
        width = experts.intermediate_size / split
        chosen = self.tokens * (experts.num_experts * self.act + experts.top_k * ROUTE_BYTES)
        yield self._moved("choice of experts", chosen, layers)
        yield self._moved("sort by expert, and back", 4 * rows * hidden * self.act, layers)
        yield from self._grouped_products(rows, touched, held, width, layers)
        if experts.num_shared:
            shared = experts.num_shared * experts.intermediate_size / self.tp
            yield self._product("gate and up of shared experts", self.tokens, 2 * shared, hidden, layers)
            yield self._product("down of shared experts", self.tokens, hidden, shared, layers)
        shares_tokens = groups > 1
        # Tokens travel to the chips of their experts and back; inside a tensor-parallel group all chips have them all.
        yield Exchange(
            name="tokens to experts and back",
            part="expert exchange",
            kind="all_to_all",
            payload_bytes=np.where(shares_tokens, self.tokens / self.tp * experts.top_k * hidden * self.act, 0.0),
            group=np.where(shares_tokens, layouts.expert_chips.astype(np.float64), 1.0),
            copies=2 * layers,
        )
        yield self._sum("after experts", layers, np.where(shares_tokens & (self.tp == 1), 1.0, self.tp))

    def _grouped_products(
        self, rows: Floats, touched: Floats, held: Floats, width: Floats, layers: Floats
    ) -> Iterator[StepOp]:
        hidden = np.full_like(self.tp, self.model.hidden_size)
        for name, n, k in (("gate and up of experts", 2 * width, hidden), ("down of experts", hidden, width)):
            yield GroupedProduct(
                name=name,
                part="experts",
                rows=rows,
                experts=touched,
                held=held,
                n=n,
                k=k,
                copies=layers,
                datatype=self.numerics.expert_datatype,
                weight_bits=self.numerics.expert_bits,
            )
        yield self._moved("gated activation of experts", 3 * rows * width * self.act, layers)

    def _output(self) -> Iterator[StepOp]:
        """Logits of the tokens that are sampled, and the choice among them."""
        steps, ones = self.steps, np.ones_like(self.tp)
        sampled = steps.batch * steps.queries + np.where(steps.prompt_tokens > 0, steps.num_prompts, 0.0)
        columns = self.model.vocabulary_size / self.tp
        hidden = self.model.hidden_size
        yield self._product("logits", sampled, columns, hidden, ones, is_quantised=False, part="output")
        yield Exchange(
            name="logits of all chips",
            part="output",
            kind="all_gather",
            payload_bytes=sampled * self.model.vocabulary_size * self.act,
            group=self.tp,
            copies=ones,
        )
        yield self._moved("sampling", 2 * sampled * self.model.vocabulary_size * 4, ones, part="output")

    def _product(
        self,
        name: str,
        m: Floats,
        n: Floats | float,
        k: Floats | float,
        copies: Floats,
        *,
        is_quantised: bool = True,
        part: PartName = "dense products",
    ) -> Product:
        numerics = self.numerics
        return Product(
            name=name,
            part=part,
            m=m,
            n=np.broadcast_to(np.asarray(n, dtype=np.float64), self.tp.shape),
            k=np.broadcast_to(np.asarray(k, dtype=np.float64), self.tp.shape),
            copies=copies,
            datatype=numerics.datatype if is_quantised else numerics.plain_datatype,
            weight_bits=numerics.weight_bits if is_quantised else numerics.plain_bits,
        )

    def _moved(self, name: str, moved_bytes: Floats, copies: Floats, part: PartName = "element-wise") -> ElementWise:
        return ElementWise(name=name, part=part, moved_bytes=moved_bytes, copies=copies)

    def _sum(self, name: str, layers: Floats, group: Floats | None = None) -> Exchange:
        payload = self.tokens * self.model.hidden_size * self.act
        chips = self.tp if group is None else group
        return Exchange(
            name=name, part="all-reduce", kind="all_reduce", payload_bytes=payload, group=chips, copies=layers
        )


def _causal_pairs(tokens: Floats, past: Floats, window: int | None) -> Floats:
    """Pairs of a query and a key when each of `tokens` attends to all before it and itself, at most to a window."""
    whole = tokens * past + tokens * (tokens + 1) / 2
    if window is None:
        return whole
    # The first tokens, before the window is full, see past + 1, past + 2, ...; the others see the window.
    growing = np.clip(window - past, 0.0, tokens)
    return growing * past + growing * (growing + 1) / 2 + (tokens - growing) * window
