"""Quantisations as the places where one qnn op ends: what is quantised, by which map, to which step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ..ir.graph import REASON, GraphOp, is_op, owner_of
from ..ir.store import DataStore
from ..passes.rewriting import OpMaker, merged_names, rewritten
from .epilogues import Epilogue, epilogue_of
from .reals import Step, is_int8, step_of
from .requantising import Unsuitable


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """One quantisation and what stands before it.

    Attributes:
        op: The `quantize_linear`.
        core: What makes the value that the epilogue starts from.
        epilogue: Bias, activation and other affine maps before the quantisation.
        step: Scale and zero point of the result.
        maker: Makes ops in front of it.
        store: Elements of constants.
    """

    op: GraphOp
    core: GraphOp
    epilogue: Epilogue
    step: Step
    maker: OpMaker
    store: DataStore

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the ONNX nodes that one op now stands for; the last one quantises its result."""
        core = () if self.core.op_type == "DequantizeLinear" else self.core.node_names
        return merged_names(core, self.epilogue.nodes, self.op.node_names)


Conversion: TypeAlias = Callable[[Root], SSAValue]
"""Makes the int8 value of a root, or raises `Unsuitable`."""


def root_of(op: Operation, rewriter: PatternRewriter, store: DataStore) -> Root | None:
    """The root that an op is; None where it is none, or its parameters are no constants."""
    if not isinstance(op, GraphOp) or not is_op(op, "QuantizeLinear") or not is_int8(op.outputs[0]):
        return None
    step = step_of(op, store)
    if step is None:
        return None
    epilogue = epilogue_of(op.inputs[0], store)
    core = owner_of(epilogue.source)
    if not isinstance(core, GraphOp):
        return None
    root = Root(op=op, core=core, epilogue=epilogue, step=step, maker=OpMaker(rewriter, store), store=store)
    maker = OpMaker(rewriter, store, root.nodes)
    return Root(op=op, core=core, epilogue=epilogue, step=step, maker=maker, store=store)


def convert_roots(module: ModuleOp, store: DataStore, conversions: Mapping[str, Conversion]) -> ModuleOp:
    """A module in which roots are converted.

    Args:
        module: The module.
        store: Elements of constants.
        conversions: What converts a root, by the operator of its core. Where it cannot, the core says why.
    """

    def convert(op: Operation, rewriter: PatternRewriter) -> None:
        root = root_of(op, rewriter, store)
        conversion = None if root is None or root.core.domain else conversions.get(root.core.op_type)
        if root is None or conversion is None:
            return
        try:
            made = conversion(root)
        except Unsuitable as reason:
            root.core.attributes[REASON] = StringAttr(str(reason))
            return
        rewriter.replace(root.op, [], [made])

    return rewritten(module, convert, once=True)
