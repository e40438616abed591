"""ResNet-50 as a sequence of eager kernels: convolutions, batch norms, activations and sums, each a kernel."""

from __future__ import annotations

from typing import Final

import numpy as np

from .batch_norm import BatchNorms
from .convolution import Convolutions
from .gemm import Gemms
from .memory_bound import MemoryKernels
from .memory_structures import MemoryOp
from .sequence import KernelSequence, Step
from .times import Ints

STAGES: Final = ((64, 3, 56, 1), (128, 4, 56, 2), (256, 6, 28, 2), (512, 3, 14, 2))
"""Width, blocks, input size and first stride of each stage; outputs have four times the width.

Source: He et al., Deep Residual Learning, CVPR 2016, Table 1; the stride is on the 3 x 3 convolution as in torchvision."""

EXPANSION: Final = 4
CLASSES: Final = 1000


def resnet50(labels: tuple[str, ...], batch: Ints, datatype: str = "bf16") -> KernelSequence:
    """Inference of 224 x 224 images.

    Args:
        labels: One per row.
        batch: Images `[n]`.
        datatype: Datatype of weights and activations.
    """
    steps = [
        _convolution(datatype, batch, 3, 64, 7, 2, 224),
        _norm(datatype, batch, 64, 112),
        _pointwise("activation", "copy", datatype, batch, 64, 112),
        _pointwise("pooling", "copy", datatype, batch, 64, 112),
    ]
    channels = 64
    for width, blocks, size, stride in STAGES:
        for block in range(blocks):
            first = block == 0
            steps += _bottleneck(
                datatype, batch, channels, width, size if first else size // stride, stride if first else 1
            )
            channels = EXPANSION * width
    steps += [
        _pointwise("pooling", "rowsum", datatype, batch, channels, 7),
        Step(name="classifier", kernels=_classifier(datatype, batch, channels)),
    ]
    return KernelSequence(labels=labels, steps=tuple(steps))


def _bottleneck(datatype: str, batch: Ints, channels: int, width: int, size: int, stride: int) -> list[Step]:
    after, outputs = size // stride, EXPANSION * width
    steps = [
        _convolution(datatype, batch, channels, width, 1, 1, size),
        _norm(datatype, batch, width, size),
        _pointwise("activation", "copy", datatype, batch, width, size),
        _convolution(datatype, batch, width, width, 3, stride, size),
        _norm(datatype, batch, width, after),
        _pointwise("activation", "copy", datatype, batch, width, after),
        _convolution(datatype, batch, width, outputs, 1, 1, after),
        _norm(datatype, batch, outputs, after),
    ]
    if channels != outputs:
        steps += [
            _convolution(datatype, batch, channels, outputs, 1, stride, size),
            _norm(datatype, batch, outputs, after),
        ]
    steps += [
        _pointwise("residuals", "add", datatype, batch, outputs, after),
        _pointwise("activation", "copy", datatype, batch, outputs, after),
    ]
    return steps


def _convolution(datatype: str, batch: Ints, inputs: int, outputs: int, kernel: int, stride: int, size: int) -> Step:
    def column(value: int) -> Ints:
        return np.full(len(batch), value)

    convolutions = Convolutions(
        batch=batch,
        in_channels=column(inputs),
        out_channels=column(outputs),
        kernel=column(kernel),
        stride=column(stride),
        in_size=column(size),
        groups=column(1),
        datatype=datatype,
        inputs_in_cache=True,
    )
    return Step(name="convolutions", kernels=convolutions)


def _norm(datatype: str, batch: Ints, channels: int, size: int) -> Step:
    norms = BatchNorms(
        pixels=batch * size**2, channels=np.full(len(batch), channels), datatype=datatype, inputs_in_cache=True
    )
    return Step(name="batch norms", kernels=norms)


def _pointwise(name: str, op: MemoryOp, datatype: str, batch: Ints, channels: int, size: int) -> Step:
    kernels = MemoryKernels(
        op=op,
        datatype=datatype,
        rows=batch * size**2,
        cols=np.full(len(batch), channels),
        inputs_in_cache=np.ones(len(batch), dtype=np.bool_),
    )
    return Step(name=name, kernels=kernels)


def _classifier(datatype: str, batch: Ints, channels: int) -> Gemms:
    return Gemms(
        m=batch,
        n=np.full(len(batch), CLASSES),
        k=np.full(len(batch), channels),
        datatype=datatype,
        weights_in_cache=np.zeros(len(batch), dtype=np.bool_),
        inputs_in_cache=np.ones(len(batch), dtype=np.bool_),
    )
