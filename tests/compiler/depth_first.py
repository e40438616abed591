"""Networks whose layers may be cut together."""

from __future__ import annotations

from random import Random

from onnx import ModelProto

from tileloom.compiler.generators.builder import GraphBuilder, QuantisedTensor
from tileloom.compiler.generators.layers import add, conv, max_pool
from tileloom.compiler.generators.quantisation import Scale

KERNELS = ((1, 1), (3, 3), (1, 3), (5, 3), (2, 2))


def residual(*, size: int, channels: int, wide: int) -> ModelProto:
    """A convolution whose result is added to what was there before."""
    builder = GraphBuilder(0, num_samples=1)
    image = builder.add_input((1, 8, size, size), Scale(scale=0.02, zero_point=1))
    before = conv(builder, image, wide, (1, 1))
    inner = conv(builder, before, channels, (1, 1))
    return builder.finish([add(builder, conv(builder, inner, wide, (1, 1), has_relu=False), before)])


def bottleneck(*, size: int, narrow: int, wide: int, groups: int = 1) -> ModelProto:
    """1 x 1, 3 x 3 (in groups) and 1 x 1 windows, and an addition."""
    builder = GraphBuilder(0, num_samples=1)
    image = builder.add_input((1, 8, size, size), Scale(scale=0.02, zero_point=1))
    before = conv(builder, image, wide, (1, 1))
    inner = conv(builder, conv(builder, before, narrow, (1, 1)), narrow, (3, 3), groups=groups)
    return builder.finish([add(builder, conv(builder, inner, wide, (1, 1), has_relu=False), before)])


def random_layers(seed: int) -> ModelProto:
    """Convolutions, pools and additions of any sizes, one behind the other, with branches."""
    rng, builder = Random(seed), GraphBuilder(seed, num_samples=2)
    shape = (1, rng.choice((3, 5, 8, 16, 24, 32)), rng.randint(3, 14), rng.randint(3, 14))
    known = [builder.add_input(shape, Scale(scale=0.02, zero_point=rng.randint(-5, 5)))]
    for _ in range(rng.randint(3, 9)):
        tensor = known[-1] if rng.random() < 0.8 else rng.choice(known)
        known += _layer(rng, builder, tensor, known)
    outputs = [known[-1], *([rng.choice(known[1:])] if rng.random() < 0.3 else [])]
    return builder.finish(list({id(tensor): tensor for tensor in outputs}.values()))


def _layer(
    rng: Random, builder: GraphBuilder, tensor: QuantisedTensor, known: list[QuantisedTensor]
) -> list[QuantisedTensor]:
    kernel, stride, has_relu = rng.choice(KERNELS), rng.choice((1, 1, 1, 2)), rng.random() < 0.5
    if kernel[0] > tensor.shape[2] or kernel[1] > tensor.shape[3]:
        kernel = (1, 1)
    match rng.choice(("conv", "conv", "conv", "depthwise", "pool", "add", "add")):
        case "depthwise":
            filters = tensor.shape[1]
            return [conv(builder, tensor, filters, kernel, stride=stride, groups=filters, has_relu=has_relu)]
        case "pool" if min(tensor.shape[2:]) >= 3:
            return [max_pool(builder, tensor, (3, 3), stride=stride, pads=(1, 1, 1, 1))]
        case "add":
            same = [other for other in known if other.shape == tensor.shape and other is not tensor]
            made = [] if same else [conv(builder, tensor, tensor.shape[1], (1, 1), has_relu=False)]
            return [*made, add(builder, tensor, rng.choice(same or made), has_relu=has_relu)]
        case _:
            filters = rng.choice((4, 8, 16, 20, 33, 48))
            return [conv(builder, tensor, filters, kernel, stride=stride, has_relu=has_relu)]
