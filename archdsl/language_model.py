"""Language models as data: sizes of a decoder-only transformer, from which weights, caches and work follow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from .fields import ArchName, Count, DatatypeName, Flag, NumOrZero, SourceText
from .spec import Fault, Spec


class GroupedAttention(Spec):
    """Attention whose query heads share fewer pairs of keys and values (MHA and MQA are its ends)."""

    kind: Literal["grouped"] = Field(description="Marks attention over cached keys and values.")
    num_heads: Count = Field(validation_alias="heads", serialization_alias="heads", description="Query heads.")
    num_kv_heads: Count = Field(
        validation_alias="kv_heads", serialization_alias="kv_heads", description="Heads of keys and values."
    )
    head_dim: Count = Field(description="Elements of one head.")
    has_input_bias: Flag = Field(
        default=False,
        validation_alias="input_bias",
        serialization_alias="input_bias",
        description="Queries, keys and values have biases.",
    )
    has_output_bias: Flag = Field(
        default=False,
        validation_alias="output_bias",
        serialization_alias="output_bias",
        description="The output projection has a bias.",
    )
    has_head_norms: Flag = Field(
        default=False,
        validation_alias="head_norms",
        serialization_alias="head_norms",
        description="Queries and keys are normalised per head, with one weight per element of a head each.",
    )
    has_sinks: Flag = Field(
        default=False,
        validation_alias="sinks",
        serialization_alias="sinks",
        description="Every query head has a learned logit that takes part in its softmax.",
    )
    window_tokens: Count | None = Field(
        default=None,
        validation_alias="window",
        serialization_alias="window",
        description="Newest tokens that windowed layers attend to and keep.",
    )
    num_windowed_layers: NumOrZero = Field(
        default=0,
        validation_alias="windowed_layers",
        serialization_alias="windowed_layers",
        description="Layers that keep a window; the others keep all tokens.",
    )

    def faults(self) -> Iterator[Fault]:
        if self.num_heads % self.num_kv_heads:
            message = f"heads {self.num_heads} is no multiple of kv_heads {self.num_kv_heads}"
            yield Fault(("heads",), message)
        if (self.window_tokens is None) != (self.num_windowed_layers == 0):
            yield Fault(("window",), "window and windowed_layers belong together: give both or neither")


class LatentAttention(Spec):
    """Multi-head latent attention: what is cached is one compressed vector per token, shared by all heads.

    Source: DeepSeek-AI, DeepSeek-V2, 2024, section 2.1.
    """

    kind: Literal["latent"] = Field(description="Marks attention over a compressed cache.")
    num_heads: Count = Field(validation_alias="heads", serialization_alias="heads", description="Query heads.")
    query_rank: Count | None = Field(default=None, description="Width of the compressed query; none when left out.")
    kv_rank: Count = Field(description="Width of the compressed keys and values.")
    nope_dim: Count = Field(description="Elements of a head's query and key without position.")
    rope_dim: Count = Field(description="Elements of a head's query with position; keys share theirs.")
    value_dim: Count = Field(description="Elements of a head's value.")

    @property
    def num_windowed_layers(self) -> int:
        """No layer keeps a window."""
        return 0


class Experts(Spec):
    """A mixture of experts in place of the feed-forward network."""

    num_experts: Count = Field(validation_alias="count", serialization_alias="count", description="Routed experts.")
    top_k: Count = Field(description="Routed experts that a token goes to.")
    intermediate_size: Count = Field(
        validation_alias="intermediate", serialization_alias="intermediate", description="Inner width of one expert."
    )
    num_shared: NumOrZero = Field(
        default=0,
        validation_alias="shared",
        serialization_alias="shared",
        description="Experts of the same width that every token goes to.",
    )
    num_dense_layers: NumOrZero = Field(
        default=0,
        validation_alias="dense_layers",
        serialization_alias="dense_layers",
        description="First layers that have a dense feed-forward network instead.",
    )
    has_bias: Flag = Field(
        default=False,
        validation_alias="bias",
        serialization_alias="bias",
        description="Experts and router have biases.",
    )
    has_router_correction: Flag = Field(
        default=False,
        validation_alias="router_correction",
        serialization_alias="router_correction",
        description="The router has one weight per expert that only steers the choice.",
    )
    weight_bits: Annotated[float, Field(gt=0, le=64, strict=False)] | None = Field(
        default=None,
        description="Bits of an expert's weight as published, scales included; those of the others when left out.",
    )

    def faults(self) -> Iterator[Fault]:
        if self.top_k > self.num_experts:
            yield Fault(("top_k",), f"top_k {self.top_k} is above count {self.num_experts}")


class LanguageModel(Spec):
    """A decoder-only transformer that generates text."""

    schema_version: Literal[1] = Field(description="Version of this format.")
    kind: Literal["language_model"] = Field(description="Marks a language model.")
    name: ArchName = Field(description="Name, for reports.")
    description: str = Field(default="", strict=True, description="One sentence for listings.")
    num_layers: Count = Field(validation_alias="layers", serialization_alias="layers", description="Layers.")
    hidden_size: Count = Field(
        validation_alias="hidden", serialization_alias="hidden", description="Width between the layers."
    )
    intermediate_size: NumOrZero = Field(
        default=0,
        validation_alias="intermediate",
        serialization_alias="intermediate",
        description="Inner width of the dense feed-forward network; 0 when every layer has experts.",
    )
    vocabulary_size: Count = Field(
        validation_alias="vocabulary", serialization_alias="vocabulary", description="Rows of the embedding."
    )
    has_tied_embeddings: Flag = Field(
        default=False,
        validation_alias="tied_embeddings",
        serialization_alias="tied_embeddings",
        description="The output projection is the embedding.",
    )
    has_feed_forward_bias: Flag = Field(
        default=False,
        validation_alias="feed_forward_bias",
        serialization_alias="feed_forward_bias",
        description="The dense feed-forward network has biases.",
    )
    max_tokens: Count | None = Field(default=None, description="Longest context that the model was made for.")
    attention: Annotated[GroupedAttention | LatentAttention, Field(discriminator="kind")] = Field(
        description="Attention of every layer."
    )
    experts: Experts | None = Field(default=None, description="Mixture of experts; none when left out.")
    datatype: DatatypeName = Field(default="bf16", description="Datatype of the weights as published.")
    source: SourceText = Field(description="Where the sizes come from.")
    notes: tuple[str, ...] = Field(default=(), description="What the description leaves out.")

    @property
    def num_expert_layers(self) -> int:
        """Layers with a mixture of experts."""
        return 0 if self.experts is None else self.num_layers - self.experts.num_dense_layers

    @property
    def num_dense_layers(self) -> int:
        """Layers with a dense feed-forward network."""
        return self.num_layers - self.num_expert_layers

    @property
    def num_windowed_layers(self) -> int:
        """Layers that keep only a window of tokens."""
        return self.attention.num_windowed_layers

    def faults(self) -> Iterator[Fault]:
        if self.experts is not None and self.experts.num_dense_layers > self.num_layers:
            yield Fault(("experts", "dense_layers"), f"more dense_layers than layers ({self.num_layers})")
        elif self.num_dense_layers and not self.intermediate_size:
            message = "missing field 'intermediate': some layers have a dense feed-forward network"
            yield Fault(("intermediate",), message)
        if self.attention.num_windowed_layers > self.num_layers:
            yield Fault(("attention", "windowed_layers"), f"more windowed_layers than layers ({self.num_layers})")
