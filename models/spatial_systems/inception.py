"""Inception V2's convolutions and pools.

Source: Ioffe and Szegedy, "Batch normalization: accelerating deep network training by reducing internal covariate shift",
    ICML 2015, Figure 5. Its row 4c projects the pool to 128 channels and gives 576 in all, row 4d likewise; 96 make the sum
    576, as in the authors' TensorFlow code (research/slim/nets/inception_v2.py).
Limits: The first convolution is taken as an ordinary one; the paper makes it a separable one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

PUBLISHED_SIDE: Final = 224


@dataclass(frozen=True, slots=True, kw_only=True)
class Convolution:
    """A convolution: side of its result, channels of result and input, side of its window."""

    name: str
    side: int
    channels: int
    inside: int
    window: int
    stride: int = 1

    @property
    def num_weights(self) -> int:
        """Its weights."""
        return self.channels * self.inside * self.window**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool: side of its result, its channels, side of its window."""

    name: str
    kind: Literal["maxpool", "avgpool"]
    side: int
    channels: int
    window: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """A row of Figure 5; 0 means that the branch is absent, or that the pool is passed through."""

    name: str
    side: int
    direct: int
    single_reduce: int
    single: int
    double_reduce: int
    double: int
    pool: Literal["maxpool", "avgpool"]
    projection: int
    stride: int = 1


def _row(
    name: str, side: int, counts: tuple[int, ...], pool: Literal["maxpool", "avgpool"], projection: int
) -> _Module:
    direct, single_reduce, single, double_reduce, double = counts
    return _Module(
        name=name, side=side, direct=direct, single_reduce=single_reduce, single=single, double_reduce=double_reduce,
        double=double, pool=pool, projection=projection, stride=1 if projection else 2,
    )  # fmt: skip


MODULES: Final = (
    _row("3a", 28, (64, 64, 64, 64, 96), "avgpool", 32),
    _row("3b", 28, (64, 64, 96, 64, 96), "avgpool", 64),
    _row("3c", 28, (0, 128, 160, 64, 96), "maxpool", 0),
    _row("4a", 14, (224, 64, 96, 96, 128), "avgpool", 128),
    _row("4b", 14, (192, 96, 128, 96, 128), "avgpool", 128),
    _row("4c", 14, (160, 128, 160, 128, 160), "avgpool", 96),
    _row("4d", 14, (96, 128, 192, 160, 192), "avgpool", 96),
    _row("4e", 14, (0, 128, 192, 192, 256), "maxpool", 0),
    _row("5a", 7, (352, 192, 320, 160, 224), "avgpool", 128),
    _row("5b", 7, (352, 192, 320, 192, 224), "maxpool", 128),
)


def inception_v2(side: int = PUBLISHED_SIDE, width: float = 1.0) -> tuple[Convolution | Pool, ...]:
    """Its layers in order, for images of another side or with all channels times a factor."""
    return tuple(_layers(side / PUBLISHED_SIDE, width))


def weights_of(convolutions: tuple[Convolution, ...]) -> int:
    """Weights of convolutions."""
    return sum(layer.num_weights for layer in convolutions)


def module_values() -> tuple[int, ...]:
    """Values per image of each module's input and result together."""
    inside = 192
    found: list[int] = []
    for module in MODULES:
        outside = module.direct + module.single + module.double + (module.projection or inside)
        found.append(module.side**2 * inside + (module.side // module.stride) ** 2 * outside)
        inside = outside
    return tuple(found)


def _layers(scale: float, width: float) -> Iterator[Convolution | Pool]:
    stem = round(64 * width)
    inside = round(192 * width)
    large, small = round(112 * scale), round(56 * scale)
    yield Convolution(name="conv1", side=large, channels=stem, inside=3, window=7, stride=2)
    yield Pool(name="pool1", kind="maxpool", side=small, channels=stem, window=3)
    yield Convolution(name="conv2.reduce", side=small, channels=stem, inside=stem, window=1)
    yield Convolution(name="conv2", side=small, channels=inside, inside=stem, window=3)
    yield Pool(name="pool2", kind="maxpool", side=round(28 * scale), channels=inside, window=3)
    for module in MODULES:
        yield from _module(module, inside, scale, width)
        branches = sum(round(one * width) for one in (module.direct, module.single, module.double))
        inside = branches + (round(module.projection * width) or inside)
    yield Pool(name="pool", kind="avgpool", side=1, channels=inside, window=7)


def _module(module: _Module, inside: int, scale: float, width: float) -> Iterator[Convolution | Pool]:
    side, last = round(module.side * scale), round(module.side * scale / module.stride)

    def conv(name: str, of: int, channels: int, window: int, stride: int = 1) -> Convolution:
        at = last if stride > 1 else side
        name = f"{module.name}.{name}"
        return Convolution(name=name, side=at, channels=channels, inside=of, window=window, stride=stride)

    direct, single_reduce, single, double_reduce, double, projection = (
        round(one * width)
        for one in (
            module.direct, module.single_reduce, module.single, module.double_reduce, module.double, module.projection,
        )
    )  # fmt: skip
    if direct:
        yield conv("direct", inside, direct, 1)
    yield conv("single.reduce", inside, single_reduce, 1)
    yield conv("single", single_reduce, single, 3, module.stride)
    yield conv("double.reduce", inside, double_reduce, 1)
    yield conv("double.1", double_reduce, double, 3)
    yield conv("double.2", double, double, 3, module.stride)
    yield Pool(name=f"{module.name}.pool", kind=module.pool, side=last, channels=inside, window=3)
    if projection:
        yield conv("project", inside, projection, 1)
