"""The stages of `qnn` ops on rows."""

from __future__ import annotations

from ..ir import qnn
from ..ir.attributes import shape_of
from .layer_norm import layer_norm_stages
from .softmax import softmax_stages
from .steps import Stages


def stages_of(op: qnn.SoftmaxOp | qnn.LayerNormOp) -> Stages:
    """What each row of the op's input goes through."""
    channels = shape_of(op.input)[-1]
    if isinstance(op, qnn.SoftmaxOp):
        return softmax_stages(channels)
    return layer_norm_stages(channels, float(op.epsilon.value.data))
