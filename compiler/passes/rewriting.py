"""How passes rewrite: local rules over a copy of the module, until none applies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern
from xdsl.traits import Pure

from ..ir.attributes import Tensor, plain_value
from ..ir.data import ConstantOp
from ..ir.graph import GraphOp, Plain, make_op
from ..ir.store import Array, DataStore

OPSET = 13
"""Version of the operator set of the graph ops that passes make."""
Rule: TypeAlias = Callable[[Operation, PatternRewriter], None]
"""Looks at one op, and replaces it through the rewriter where it applies."""


@dataclass(frozen=True, slots=True)
class _Rules(RewritePattern):
    """Rules in the order in which they are tried; the first that applies ends the try."""

    rules: tuple[Rule, ...]

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if op.has_trait(Pure) and not any(result.first_use for result in op.results):
            rewriter.erase(op)  # it would count as a reader of its operands
            return
        for rule in self.rules:
            rule(op, rewriter)
            if rewriter.has_done_action:
                return


def rewritten(module: ModuleOp, *rules: Rule, once: bool = False) -> ModuleOp:
    """A copy of a module, rewritten by rules.

    Args:
        module: The module; it is left as it was.
        rules: Tried in order on every op.
        once: Whether to go over the ops once only, for rules that would apply to what they made.
    """
    copy = module.clone()
    PatternRewriteWalker(_Rules(rules), apply_recursively=not once).rewrite_module(copy)
    return copy


@dataclass(frozen=True, slots=True)
class OpMaker:
    """Makes ops in front of the op that is rewritten.

    Attributes:
        rewriter: Of the rule.
        store: Where elements of constants go.
        nodes: Names of the ONNX nodes that what is made stands for.
    """

    rewriter: PatternRewriter
    store: DataStore
    nodes: tuple[str, ...] = ()

    def constant(self, array: Array) -> SSAValue:
        """A constant."""
        return self.rewriter.insert(ConstantOp.of(array, self.store, self.nodes)).result

    def graph(
        self,
        op_type: str,
        inputs: Sequence[SSAValue | None],
        result: Tensor,
        attributes: Mapping[str, Plain] | None = None,
        *,
        version: int = OPSET,
    ) -> SSAValue:
        """The result of a standard ONNX operator."""
        made = make_op(op_type, inputs, [result], version=version, attributes=attributes, nodes=self.nodes)
        return self.rewriter.insert(made).outputs[0]

    def insert(self, op: Operation) -> SSAValue:
        """The result of an op, which is put in place."""
        return self.rewriter.insert(op).results[0]


def maker_for(op: GraphOp, rewriter: PatternRewriter, store: DataStore) -> OpMaker:
    """A maker of ops that stand for the same ONNX nodes as an op."""
    return OpMaker(rewriter, store, op.node_names)


def names_of(op: Operation) -> tuple[str, ...]:
    """Names of the ONNX nodes that an op stands for."""
    found = op.attributes.get("nodes")
    return () if found is None else tuple(str(name) for name in plain_value(found))


def merged_names(*groups: Iterable[str]) -> tuple[str, ...]:
    """Names in order, each once."""
    return tuple(dict.fromkeys(name for group in groups for name in group))
