"""What random graphs draw from, and which of their tensors are still to be used."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from .activations import FUSABLE, activate
from .builder import FloatTensor, GraphBuilder, QuantisedTensor

Drawn = TypeVar("Drawn")
MAX_ELEMENTS = 6000
"""Of a tensor; nothing reads a larger one, so that graphs stay small."""

MAX_BEFORE_RELU6 = 15.0
"""Larger results would nearly all become 6."""


class Drawing:
    """A random graph under construction.

    Attributes:
        builder: What writes it.
        is_qoperator: Whether products are `QLinearConv` and `QLinearMatMul`, or stand between (de)quantisations.
    """

    def __init__(self, builder: GraphBuilder, *, is_qoperator: bool) -> None:
        self.builder = builder
        self.is_qoperator = is_qoperator
        self.tensors: list[QuantisedTensor] = []
        self._used: set[str] = set()

    def draw(self, low: int, high: int) -> int:
        """An integer from `low` to `high`."""
        return int(self.builder.rng.integers(low, high + 1))

    def flip(self, probability: float = 0.5) -> bool:
        """True that often."""
        return bool(self.builder.rng.random() < probability)

    def choose(self, options: Sequence[Drawn]) -> Drawn:
        """One of them."""
        return options[self.draw(0, len(options) - 1)]

    def add(self, tensor: QuantisedTensor) -> None:
        """A tensor that later nodes may read."""
        self.tensors.append(tensor)

    def use(self, tensor: QuantisedTensor) -> QuantisedTensor:
        """A tensor that is read, and so need not be an output."""
        self._used.add(tensor.name)
        return tensor

    def use_float(self, tensor: QuantisedTensor) -> FloatTensor:
        """The same as floats."""
        return self.builder.dequantise(self.use(tensor))

    def pick(self, fits: Callable[[QuantisedTensor], bool] = lambda _: True) -> QuantisedTensor | None:
        """A tensor that fits, mostly the latest; None if none does."""
        small = [tensor for tensor in self.tensors if math.prod(tensor.shape) <= MAX_ELEMENTS]
        fitting = [tensor for tensor in small if fits(tensor)]
        if not fitting:
            return None
        return fitting[-1] if self.flip(0.7) else self.choose(fitting)

    def unused(self) -> list[QuantisedTensor]:
        """The outputs: what nothing reads."""
        return [tensor for tensor in self.tensors if tensor.name not in self._used]

    def quantise(self, tensor: FloatTensor) -> QuantisedTensor:
        """Quantises a result, behind a ReLU of some kind or none."""
        if self.flip():
            fits = max(float(array.max()) for array in tensor.samples) < MAX_BEFORE_RELU6
            tensor = activate(self.builder, self.choose(FUSABLE if fits else FUSABLE[:1]), tensor)
        return self.builder.quantise(tensor)
