"""Activation functions on floats, in the operators of an opset."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Literal, TypeAlias

import numpy as np

from .arithmetic import Floats
from .builder import FloatTensor, GraphBuilder

Activation: TypeAlias = Literal["relu", "relu6", "sigmoid", "tanh", "hard_swish", "leaky_relu"]
FUSABLE: Final[tuple[Activation, ...]] = ("relu", "relu6")
"""Those that requantisation computes as limits; the first has no upper one."""
BY_TABLE: Final[tuple[Activation, ...]] = ("sigmoid", "tanh", "hard_swish", "leaky_relu")

LEAK: Final = 0.125


def activate(builder: GraphBuilder, kind: Activation, tensor: FloatTensor) -> FloatTensor:
    """A function of every element."""
    return _FUNCTIONS[kind](builder, tensor)


def _relu(builder: GraphBuilder, tensor: FloatTensor) -> FloatTensor:
    return builder.apply("Relu", [tensor], partial(np.maximum, np.float32(0)))


def _relu6(builder: GraphBuilder, tensor: FloatTensor) -> FloatTensor:
    def clip(array: Floats) -> Floats:
        return np.clip(array, np.float32(0), np.float32(6))

    if builder.opset < 11:
        return builder.apply("Clip", [tensor], clip, min=0.0, max=6.0)
    limits = [builder.add_constant(np.asarray(limit, np.float32), "limit") for limit in (0, 6)]
    return builder.apply("Clip", [tensor], clip, limits)


def _sigmoid(builder: GraphBuilder, tensor: FloatTensor) -> FloatTensor:
    def sigmoid(array: Floats) -> Floats:
        return np.reciprocal(1 + np.exp(-array))

    return builder.apply("Sigmoid", [tensor], sigmoid)


def _tanh(builder: GraphBuilder, tensor: FloatTensor) -> FloatTensor:
    return builder.apply("Tanh", [tensor], np.tanh)


def _hard_sigmoid(array: Floats) -> Floats:
    return np.clip(array / np.float32(6) + np.float32(0.5), np.float32(0), np.float32(1))


def _hard_swish(builder: GraphBuilder, tensor: FloatTensor) -> FloatTensor:
    def swish(array: Floats) -> Floats:
        return array * _hard_sigmoid(array)

    if builder.opset >= 14:
        return builder.apply("HardSwish", [tensor], swish)
    gate = builder.apply("HardSigmoid", [tensor], _hard_sigmoid, alpha=1 / 6, beta=0.5)
    return builder.apply("Mul", [tensor, gate], np.multiply)


def _leaky_relu(builder: GraphBuilder, tensor: FloatTensor) -> FloatTensor:
    def leak(array: Floats) -> Floats:
        return np.where(array < 0, array * np.float32(LEAK), array)

    return builder.apply("LeakyRelu", [tensor], leak, alpha=LEAK)


_FUNCTIONS: Final[dict[Activation, Callable[[GraphBuilder, FloatTensor], FloatTensor]]] = {
    "relu": _relu, "relu6": _relu6, "sigmoid": _sigmoid, "tanh": _tanh, "hard_swish": _hard_swish,
    "leaky_relu": _leaky_relu,
}  # fmt: skip
