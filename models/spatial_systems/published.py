"""Networks as far as they were published, for comparison with published results of spatial processors.

Nothing here is a result: what was measured stands beside the comparison, never in a network.

Source: Jouppi et al., "In-datacenter performance analysis of a tensor processing unit", ISCA 2017, Table 1 (layers, weights,
    operations per weight byte, batch) and section 7 (LSTM1's 600 x 600 matrices); He et al., "Deep residual learning for
    image recognition", CVPR 2016, Table 1 (ResNet-50), with the stride in the 3 x 3 convolution.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ...archdsl import Op, TensorRole, VectorOp, Workload, parse_notation


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What Table 1 says of one application of TPU v1.

    Attributes:
        name: Its name.
        num_fc: Fully connected layers.
        num_conv: Convolutional layers.
        num_weights: Weights of all layers.
        batch: Batch size.
        macs_per_weight: Multiply-accumulates per byte of weights, of the whole network.
        activation_bits: Width of activations; LSTMs use 16 bits (section 7: half rate).
        width: Width of its matrices where the paper gives it, else 0: then all layers are equal squares.
    """

    name: str
    num_fc: int
    num_conv: int
    num_weights: float
    batch: int
    macs_per_weight: int
    activation_bits: int = 8
    width: int = 0


APPLICATIONS: Final = (
    Application(name="MLP0", num_fc=5, num_conv=0, num_weights=20e6, batch=200, macs_per_weight=200),
    Application(name="MLP1", num_fc=4, num_conv=0, num_weights=5e6, batch=168, macs_per_weight=168),
    Application(
        name="LSTM0", num_fc=24, num_conv=0, num_weights=52e6, batch=64, macs_per_weight=64, activation_bits=16
    ),
    Application(
        name="LSTM1",
        num_fc=37,
        num_conv=0,
        num_weights=34e6,
        batch=96,
        macs_per_weight=96,
        activation_bits=16,
        width=600,
    ),
    Application(name="CNN0", num_fc=0, num_conv=16, num_weights=8e6, batch=8, macs_per_weight=2888),
    Application(name="CNN1", num_fc=4, num_conv=72, num_weights=100e6, batch=32, macs_per_weight=1750),
)
"""The six applications of ISCA 2017."""


def workload_of(application: Application) -> Workload:
    """An application as ops; what was not published is filled by layers of equal weights, and that is said.

    Fully connected layers are squares (of the published width where there is one, then as many as hold the weights).
    Convolutions are 3 x 3 with equal channels, and their pixels follow from the operations per weight byte.
    """
    per_layer = application.num_weights / (application.num_fc + application.num_conv)
    width, num_fc = round(math.sqrt(per_layer)), application.num_fc
    if application.width:
        width = application.width
        num_fc = round(application.num_weights / width**2)
    ops: list[Op] = []
    fc = gemm_op("fc", application.batch, width, width, application.activation_bits)
    ops += [replace(fc, name=f"fc{idx}") for idx in range(num_fc)]
    if application.num_conv:
        macs = application.macs_per_weight * application.num_weights - num_fc * per_layer * application.batch
        rows = macs / (application.num_conv * per_layer)
        side = max(round(math.sqrt(rows / application.batch)), 1)
        channels = round(math.sqrt(per_layer / 9))
        conv = parse_notation(
            f"conv:B={application.batch},K={channels},C={channels},OY={side},OX={side},FY=3,FX=3,bits=8"
        )
        ops += [replace(conv, name=f"conv{idx}") for idx in range(application.num_conv)]
    filled = f"layers of equal weights: {width} wide" if num_fc else "3 x 3 convolutions of equal weights"
    return Workload(
        name=application.name, ops=tuple(ops), notices=(f"assumption: {filled}",), source="ISCA 2017, Table 1"
    )


def gemm_op(name: str, rows: int, reduction: int, channels: int, activation_bits: int = 8) -> Op:
    """A fully connected layer with 8-bit weights."""
    op = parse_notation(f"gemm:M={rows},N={channels},K={reduction},bits=8")
    tensors = tuple(
        replace(tensor, bits=activation_bits) if tensor.role is TensorRole.INPUT else tensor for tensor in op.tensors
    )
    return replace(op, name=name, tensors=tensors)


RESNET50_STAGES: Final = ((3, 64, 56), (4, 128, 28), (6, 256, 14), (3, 512, 7))
"""Blocks, channels of the 3 x 3 convolution, and side of the result, per stage."""


def resnet50(batch: int = 1) -> Workload:
    """ResNet-50 with 8-bit weights and activations, 224 x 224; additions and activations go with their convolutions."""
    return Workload(
        name="ResNet-50",
        ops=tuple(_resnet50_ops(batch)),
        notices=("additions of the shortcuts and activations are fused into convolutions",),
        source="He et al., CVPR 2016, Table 1",
    )


def _resnet50_ops(batch: int) -> Iterator[Op | VectorOp]:
    yield conv_op("conv1", batch, 64, 3, 112, 7, stride=2)
    yield VectorOp(name="maxpool", kind="maxpool", elements=batch * 64 * 56 * 56, passes=9)
    inside = 64
    for stage_idx, (num_blocks, channels, side) in enumerate(RESNET50_STAGES, start=2):
        for block_idx in range(num_blocks):
            name = f"stage{stage_idx}.{block_idx}"
            stride = 2 if block_idx == 0 and stage_idx > 2 else 1
            yield conv_op(f"{name}.1x1", batch, channels, inside, side * stride, 1)
            yield conv_op(f"{name}.3x3", batch, channels, channels, side, 3, stride=stride)
            yield conv_op(f"{name}.out", batch, 4 * channels, channels, side, 1)
            if block_idx == 0:
                yield conv_op(f"{name}.shortcut", batch, 4 * channels, inside, side, 1, stride=stride)
            inside = 4 * channels
    yield VectorOp(name="avgpool", kind="avgpool", elements=batch * inside, passes=49)
    yield gemm_op("fc", batch, inside, 1000)


def conv_op(name: str, batch: int, channels: int, inside: int, side: int, window: int, stride: int = 1) -> Op:
    """A convolution with 8-bit weights and activations, by the side of its result."""
    text = f"conv:B={batch},K={channels},C={inside},OY={side},OX={side},FY={window},FX={window},stride={stride},bits=8"
    return replace(parse_notation(text), name=name)
