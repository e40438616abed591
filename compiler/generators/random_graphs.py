"""Small random quantised graphs: every one is valid, and its outputs are not saturated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from .builder import GraphBuilder, QuantisedTensor
from .quantisation import Scale
from .random_draws import Drawing
from .random_elements import random_activation, random_binary, random_pool
from .random_movement import random_concat, random_pad, random_reshape, random_slice, random_transpose
from .random_products import random_conv, random_grouped_conv, random_matmul, random_self_product

if TYPE_CHECKING:
    from onnx import ModelProto

NUM_SAMPLES: Final = 16
QDQ_OPSETS: Final = range(13, 22)
QOPERATOR_OPSETS: Final = range(10, 13)
"""`QLinearConv` and `QLinearMatMul` begin with opset 10."""

_STEPS: Final[tuple[Callable[[Drawing], QuantisedTensor | None], ...]] = (
    *[random_conv] * 8, *[random_matmul] * 3, *[random_binary] * 4, *[random_pool] * 3, *[random_activation] * 2,
    random_self_product, random_reshape, random_transpose, random_concat, random_slice, random_pad,
)  # fmt: skip
"""How often each is drawn."""


def random_quantised_graph(seed: int) -> ModelProto:
    """A chain or small graph of 2 to 8 nodes with odd shapes, scales and zero points.

    Convolutions with kernels of 1 to 5, unequal strides, dilations, groups and asymmetric padding; matrix products,
    element-wise arithmetic, pooling, activation functions, and movement. Activations are int8, or uint8 in a quarter of the
    graphs; weights have one scale or one per channel. Three quarters are in QDQ form in opsets 13 to 21, the others have
    products in QOperator form in opsets 10 to 12. What no node reads is an output.

    Args:
        seed: What alone decides.
    """
    rng = np.random.default_rng(seed)
    is_qoperator = rng.random() < 0.25
    builder = GraphBuilder(
        seed,
        opset=int(rng.choice(QOPERATOR_OPSETS if is_qoperator else QDQ_OPSETS)),
        dtype="uint8" if rng.random() < 0.25 else "int8",
        num_samples=NUM_SAMPLES,
        name=f"random_{seed}",
    )
    drawing = Drawing(builder, is_qoperator=is_qoperator)
    drawing.add(_random_input(drawing))
    num_nodes = drawing.draw(2, 8)
    while len(drawing.tensors) <= num_nodes:
        tensor = drawing.choose(_STEPS)(drawing)
        if tensor is not None:
            drawing.add(tensor)
    return builder.finish(drawing.unused())


def random_grouped_graph(seed: int) -> ModelProto:
    """One or two convolutions in groups behind each other, of 2 to 48 channels.

    Windows, forms and datatypes as of `random_quantised_graph`; groups narrower and wider than arrays, and of sizes that
    are no powers of two.

    Args:
        seed: What alone decides.
    """
    rng = np.random.default_rng(seed)
    is_qoperator = rng.random() < 0.25
    opset = int(rng.choice(QOPERATOR_OPSETS if is_qoperator else QDQ_OPSETS))
    dtype = "uint8" if rng.random() < 0.25 else "int8"
    builder = GraphBuilder(seed, opset=opset, dtype=dtype, num_samples=4, name=f"grouped_{seed}")
    drawing = Drawing(builder, is_qoperator=is_qoperator)
    channels = drawing.draw(1, 8) * drawing.draw(2, 6)
    shape = (drawing.choose([1, 1, 2]), channels, drawing.draw(3, 9), drawing.draw(3, 9))
    drawing.add(builder.add_input(shape, Scale(scale=float(np.float32(0.03)), zero_point=drawing.draw(0, 100))))
    for _ in range(drawing.draw(1, 2)):
        drawing.add(random_grouped_conv(drawing))
    return builder.finish(drawing.unused())


def _random_input(drawing: Drawing) -> QuantisedTensor:
    """Mostly an image of few channels, else a matrix."""
    builder = drawing.builder
    limits = np.iinfo(builder.dtype)
    scale = Scale(
        scale=float(np.float32(np.exp(builder.rng.uniform(-5, -1)))), zero_point=drawing.draw(limits.min, limits.max)
    )
    if drawing.flip(0.85):
        shape = (drawing.choose([1, 1, 1, 2]), drawing.draw(1, 9), drawing.draw(3, 12), drawing.draw(3, 12))
    else:
        shape = (drawing.draw(1, 5), drawing.draw(1, 40))
    return builder.add_input(shape, scale)
