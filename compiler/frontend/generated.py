"""Networks that are generated here, so that no file is needed to try one.

Weights are zeros made in the graph (`ConstantOfShape`): the files are small and an ONNX runtime runs
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, TensorProto

BlockDatatype = Literal["fp32", "fp16", "bf16", "int8"]
OPSET = 20  # the first with Gelu
IR_VERSION = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerBlock:
    """Sizes of one pre-norm transformer block.

    Attributes:
        hidden: Width of the residual stream.
        heads: Query heads.
        kv_heads: Key/value heads; 0 for as many as `heads`.
        seq: Tokens that enter the block.
        past: Tokens whose keys and values are cached (decoding: `seq=1,past=1023`).
        ffn: Width of the feed-forward part; 0 for four times `hidden`.
        batch: Sequences.
        causal: 1 for a decoder (each token sees those before it), 0 for an encoder.
        dtype: Datatype; `int8` quantises every tensor between nodes. ONNX does not list `bf16` for
            Einsum: this front end reads such a graph all the same, a runtime may refuse it.
    """

    hidden: int = 768
    heads: int = 12
    kv_heads: int = 0
    seq: int = 128
    past: int = 0
    ffn: int = 0
    batch: int = 1
    causal: int = 1
    dtype: BlockDatatype = "int8"

    def __post_init__(self) -> None:
        for name in ("hidden", "heads", "seq", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it is at least 1")
        if self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} does not divide into {self.heads} heads")
        if self.heads % self.num_kv_heads:
            raise ValueError(f"{self.heads} heads do not share {self.num_kv_heads} kv_heads evenly")
        if self.causal not in (0, 1):
            raise ValueError(f"causal is {self.causal}; it is 0 or 1")
        if self.dtype not in get_args(BlockDatatype):
            raise ValueError(f"dtype {self.dtype!r} is unknown; known are {', '.join(get_args(BlockDatatype))}")

    @property
    def num_kv_heads(self) -> int:
        """Key/value heads."""
        return self.kv_heads or self.heads

    @property
    def ffn_size(self) -> int:
        """Width of the feed-forward part."""
        return self.ffn or 4 * self.hidden

    @property
    def head_size(self) -> int:
        """Width of one head."""
        return self.hidden // self.heads


def transformer_block(sizes: TransformerBlock) -> ModelProto:
    """One pre-norm block: attention and feed-forward, each with its residual connection.

    Biases are left out, and the scale of the scores is taken to be folded into the query weights.
    Attention is two Einsums, so that no tensor is transposed; query heads that share a key/value head
    are rows of one product. Cached keys and values (`[batch, past, kv_heads, head_size]`) are inputs,
    the grown ones outputs. In `int8` every tensor between two nodes is quantised.

    Args:
        sizes: Its sizes.

    Returns:
        The model, with every shape fixed.
    """
    return _Builder(sizes).build()


@dataclass(slots=True)
class _Builder:
    """Nodes and constants so far."""

    sizes: TransformerBlock
    nodes: list[NodeProto] = field(default_factory=list["NodeProto"])
    constants: list[TensorProto] = field(default_factory=list["TensorProto"])

    def build(self) -> ModelProto:
        """The whole model."""
        from onnx import helper

        s = self.sizes
        stream, cache = [s.batch, s.seq, s.hidden], [s.batch, s.past, s.num_kv_heads, s.head_size]
        grown = [s.batch, s.past + s.seq, s.num_kv_heads, s.head_size]
        self._add_scale()
        inputs, outputs = {"x": stream}, {"y": stream}
        if s.past:
            inputs |= {"past_key": cache, "past_value": cache}
            outputs |= {"present_key": grown, "present_value": grown}
        entered = self.enter("x")
        attended = self.quantised(
            self.add("Add", [entered, self._attention(self._norm(entered, "attention_norm"))], "attended")
        )
        self.leave(self.add("Add", [attended, self._feed_forward(self._norm(attended, "ffn_norm"))], "block"), "y")
        graph = helper.make_graph(
            self.nodes,
            "transformer_block",
            [helper.make_tensor_value_info(name, self.stored_type, shape) for name, shape in inputs.items()],
            [helper.make_tensor_value_info(name, self.stored_type, shape) for name, shape in outputs.items()],
            self.constants,
        )
        opset = helper.make_opsetid("", OPSET)
        return helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION, producer_name="tileloom")

    @property
    def is_quantised(self) -> bool:
        """Whether tensors between nodes are int8."""
        return self.sizes.dtype == "int8"

    @property
    def float_type(self) -> int:
        """ONNX type that nodes compute in."""
        from onnx import TensorProto

        types = {"fp16": TensorProto.FLOAT16, "bf16": TensorProto.BFLOAT16}
        return int(types.get(self.sizes.dtype, TensorProto.FLOAT))

    @property
    def stored_type(self) -> int:
        """ONNX type of tensors outside the block."""
        from onnx import TensorProto

        return int(TensorProto.INT8) if self.is_quantised else self.float_type

    def add(
        self, op_type: str, inputs: list[str], out: str, attributes: Mapping[str, int | float | str] | None = None
    ) -> str:
        """Append a node named after its output."""
        from onnx import helper

        node = helper.make_node(op_type, inputs, [out], name=out)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in (attributes or {}).items())
        self.nodes.append(node)
        return out

    def zeros(self, name: str, shape: list[int], element_type: int) -> str:
        """A weight."""
        from onnx import TensorProto, helper

        self.constants.append(helper.make_tensor(f"{name}_shape", TensorProto.INT64, [len(shape)], shape))
        node = helper.make_node("ConstantOfShape", [f"{name}_shape"], [name], name=name)
        node.attribute.append(helper.make_attribute("value", helper.make_tensor("", element_type, [1], [0])))
        self.nodes.append(node)
        return name

    def quantised(self, name: str) -> str:
        """The tensor as the next node gets it: through int8 where the block is quantised."""
        if not self.is_quantised:
            return name
        self.add("QuantizeLinear", [name, "scale", "zero_point"], f"{name}_q")
        return self.add("DequantizeLinear", [f"{name}_q", "scale", "zero_point"], f"{name}_dq")

    def enter(self, name: str) -> str:
        """A tensor from outside as nodes compute with it."""
        return self.add("DequantizeLinear", [name, "scale", "zero_point"], f"{name}_dq") if self.is_quantised else name

    def leave(self, name: str, out: str) -> None:
        """Return a tensor under the name `out`."""
        if self.is_quantised:
            self.add("QuantizeLinear", [name, "scale", "zero_point"], out)
        else:
            self.add("Identity", [name], out)

    def _add_scale(self) -> None:
        from onnx import TensorProto, helper

        if self.is_quantised:
            self.constants.append(helper.make_tensor("scale", TensorProto.FLOAT, [], [0.05]))
            self.constants.append(helper.make_tensor("zero_point", TensorProto.INT8, [], [0]))

    def _norm(self, name: str, out: str) -> str:
        gain = self.zeros(f"{out}_gain", [self.sizes.hidden], self.float_type)
        return self.quantised(self.add("LayerNormalization", [name, gain], out))

    def _project(self, name: str, out: str, rows: int, cols: int) -> str:
        weight = self.zeros(f"{out}_weight", [rows, cols], self.stored_type)
        return self.quantised(self.add("MatMul", [name, self.enter(weight)], out))

    def _split_heads(self, name: str, shape: list[int]) -> str:
        from onnx import TensorProto, helper

        self.constants.append(helper.make_tensor(f"{name}_heads_shape", TensorProto.INT64, [len(shape)], shape))
        return self.add("Reshape", [name, f"{name}_heads_shape"], f"{name}_heads")

    def _attention(self, name: str) -> str:
        s = self.sizes
        kv_width, group = s.num_kv_heads * s.head_size, s.heads // s.num_kv_heads
        query = self._split_heads(
            self._project(name, "query", s.hidden, s.hidden), [s.batch, s.seq, s.num_kv_heads, group, s.head_size]
        )
        key, value = (
            self._grow_cache(
                self._split_heads(
                    self._project(name, out, s.hidden, kv_width), [s.batch, s.seq, s.num_kv_heads, s.head_size]
                ),
                out,
            )
            for out in ("key", "value")
        )
        scores = self.add("Einsum", [query, key], "scores", {"equation": "bskgd,btkd->bkgst"})
        masked = self.quantised(self._mask(scores))
        weights = self.quantised(self.add("Softmax", [masked], "attention_weights", {"axis": -1}))
        context = self.add("Einsum", [weights, value], "context", {"equation": "bkgst,btkd->bskgd"})
        merged = self._split_heads(self.quantised(context), [s.batch, s.seq, s.hidden])
        return self._project(merged, "projected", s.hidden, s.hidden)

    def _grow_cache(self, name: str, out: str) -> str:
        if not self.sizes.past:
            return name
        grown = self.add("Concat", [self.enter(f"past_{out}"), name], f"grown_{out}", {"axis": 1})
        self.leave(grown, f"present_{out}")
        return grown

    def _mask(self, scores: str) -> str:
        s = self.sizes
        if not s.causal or s.seq == 1:  # a lone token sees all that came before
            return scores
        from onnx import TensorProto, helper

        mask = self.zeros("mask_full", [s.seq, s.past + s.seq], self.float_type)
        self.nodes[-1].attribute[0].t.CopyFrom(helper.make_tensor("", self.float_type, [1], [-10000.0]))
        self.constants.append(helper.make_tensor("mask_diagonal", TensorProto.INT64, [], [s.past + 1]))
        self.add("Trilu", [mask, "mask_diagonal"], "mask", {"upper": 1})
        return self.add("Add", [scores, "mask"], "masked")

    def _feed_forward(self, name: str) -> str:
        s = self.sizes
        raised = self._project(name, "raised", s.hidden, s.ffn_size)
        active = self.quantised(self.add("Gelu", [raised], "active"))
        return self._project(active, "lowered", s.ffn_size, s.hidden)
