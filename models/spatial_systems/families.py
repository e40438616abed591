"""Networks of which only some facts were published, as the family of all networks that have those facts.

One network made up to fill the gaps would give one number, whose error says as much of the filling as of the model. A
family gives a range: each thing that was not published is an axis with its possible values, and every member is predicted.
Nothing here is chosen by a measured rate.

Source: Jouppi et al., "In-datacenter performance analysis of a tensor processing unit", ISCA 2017: Table 1 and its caption
    (layers of each kind, weights, batch; "one CNN is Inception"), section 2 (units of the chip), section 3 ("one of our CNNs
    derives from Inception V2"), section 4 (CNN1's four fully connected layers run at an intensity of 32), section 7 (LSTM1's
    600 x 600 matrices); Ioffe and Szegedy, "Batch normalization", ICML 2015, Figure 5 (Inception V2).
Limits: Ops follow one another; transfers to the host are left out.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from ...archdsl import Op, VectorOp, Workload
from .array import TapPacking, TiledArray, array_times
from .inception import Convolution, Pool, inception_v2, weights_of
from .published import APPLICATIONS, conv_op, gemm_op

ClassifierShape = Literal["chain", "heads", "flattened"]
"""Four fully connected layers: equal widths after the last pool, all on its result, or on what it would have pooled."""
CLASSIFIERS: Final[tuple[ClassifierShape, ...]] = ("chain", "heads", "flattened")
PACKINGS: Final[tuple[TapPacking, ...]] = ("kernel", "kernel row", "tap")
POOL_PASSES: Final = (0, 1, 9)
"""Times that the vector unit handles each value of a pool: hidden behind other ops, once, or once per place of the window."""
EXTRA_SIDES: Final = (0, 28, 14, 7)
"""Sides of the stage where further convolutions stand; 0: nowhere."""
NUM_LSTM_SAMPLES: Final = 100
SEED: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One network of a family, and what of the chip is open with it.

    Attributes:
        workload: The network.
        packing: How taps of convolutions share the rows of the array.
        exposes_borders: Whether each op waits for the results of the one before.
        choices: What was chosen on each axis of the network.
    """

    workload: Workload
    packing: TapPacking = "kernel"
    exposes_borders: bool = False
    choices: tuple[str, ...] = ()

    def ops_per_s(self, array: TiledArray) -> float:
        """The rate that the model gives [op/s]."""
        chip = replace(array, tap_packing=self.packing, exposes_borders=self.exposes_borders)
        return array_times(chip, self.workload).ops_per_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Rates of a family's members [op/s]."""

    least: float
    median: float
    most: float
    num_members: int

    def has(self, rate: float) -> bool:
        """Whether a rate lies within."""
        return self.least <= rate <= self.most


def spread_of(members: tuple[Member, ...], array: TiledArray) -> Spread:
    """The range of a family on one chip."""
    rates = [member.ops_per_s(array) for member in members]
    return Spread(least=min(rates), median=statistics.median(rates), most=max(rates), num_members=len(rates))


def lstm1_family() -> tuple[Member, ...]:
    """Networks of 37 layers with 34 million weights, some of which are 600 x 600 (drawn with a fixed seed).

    Open: how many layers are one matrix of 600 x 600 (at least one), how the other weights divide (a broken stick), and the
    form of each other layer: 600 inputs or results, since it reads or makes a state of that width; a square; or several
    matrices of 600 x 600 that are cut into tiles each by itself, as the gates of a cell may be.
    """
    draw = random.Random(SEED)
    networks = [_lstm1(draw) for _ in range(NUM_LSTM_SAMPLES)]
    return tuple(replace(one, exposes_borders=exposes) for one in networks for exposes in (False, True))


def _lstm1(draw: random.Random) -> Member:
    facts = next(one for one in APPLICATIONS if one.name == "LSTM1")
    side = facts.width
    num_squares = draw.randint(1, facts.num_fc - 1)
    num_others = facts.num_fc - num_squares
    rest = facts.num_weights - num_squares * side**2
    cuts = sorted(draw.random() for _ in range(num_others - 1))
    shares = [end - start for start, end in itertools.pairwise((0.0, *cuts, 1.0))]
    layers = [[(side, side)]] * num_squares + [_lstm_layer(draw, share * rest, side) for share in shares]
    ops = tuple(
        gemm_op(f"fc{layer_idx}.{idx}", facts.batch, reduction, channels, facts.activation_bits)
        for layer_idx, layer in enumerate(layers)
        for idx, (reduction, channels) in enumerate(layer)
    )
    return Member(
        workload=Workload(name="LSTM1", ops=ops, notices=("assumption: one of many divisions of its weights",)),
        choices=(f"{num_squares} layers of {side} x {side}",),
    )


def _lstm_layer(draw: random.Random, num_weights: float, side: int) -> list[tuple[int, int]]:
    """Matrices of one layer as lengths of reduction and output channels."""
    other = max(round(num_weights / side), 1)
    form = draw.choice(("reads", "makes", "square", "gates"))
    if form == "square":
        root = max(round(math.sqrt(num_weights)), 1)
        return [(root, root)]
    if form == "gates":
        # The last gate takes what is left, so that the weights are still those of the share.
        return [(side, min(side, other - start)) for start in range(0, other, side)]
    return [(side, other) if form == "reads" else (other, side)]


def cnn1_family(side: int = 224, width: float = 1.0) -> tuple[Member, ...]:
    """Inception V2 with four fully connected layers, which hold what of 100 million weights its convolutions do not.

    Open: the form of the classifier; where the three convolutions stand that Inception V2 has less than CNN1's 72 (or none);
    how taps share rows of the array; whether a layer's end is hidden by independent layers; how long pools take.

    Args:
        side: Side of the images [pixels], 224 as published for Inception V2.
        width: Factor on all channels, 1 as published.
    """
    networks = [
        Member(
            workload=_cnn1(side, width, classifier, extra_side, passes),
            choices=(classifier, f"extra at {extra_side}", f"{passes} passes of pools"),
        )
        for classifier, extra_side, passes in itertools.product(CLASSIFIERS, EXTRA_SIDES, POOL_PASSES)
    ]
    return tuple(
        replace(one, packing=packing, exposes_borders=exposes)
        for one in networks
        for packing in PACKINGS
        for exposes in (False, True)
    )


def _cnn1(side: int, width: float, classifier: ClassifierShape, extra_side: int, passes: int) -> Workload:
    facts = next(one for one in APPLICATIONS if one.name == "CNN1")
    layers = inception_v2(side, width)
    convolutions = [layer for layer in layers if isinstance(layer, Convolution)]
    extra = _extra(layers, round(extra_side * side / 224), facts.num_conv - len(convolutions)) if extra_side else []
    ops: list[Op | VectorOp] = []
    for layer in (*layers, *extra):
        if isinstance(layer, Convolution):
            ops.append(
                conv_op(layer.name, facts.batch, layer.channels, layer.inside, layer.side, layer.window, layer.stride)
            )
        elif passes:
            # A row of the vector unit holds one pixel, whose channels seldom fill it.
            rows = facts.batch * layer.side**2 * math.ceil(layer.channels / 256)
            ops.append(
                VectorOp(name=layer.name, kind=layer.kind, elements=rows * 256, passes=min(passes, layer.window**2))
            )
    rest = facts.num_weights - weights_of((*convolutions, *extra))
    features = layers[-1].channels
    for idx, (reduction, channels) in enumerate(_classifier(classifier, rest, features)):
        ops.append(gemm_op(f"fc{idx}", facts.batch, reduction, channels))
    return Workload(name="CNN1", ops=tuple(ops), notices=("assumption: Inception V2's layers",))


def _extra(layers: tuple[Convolution | Pool, ...], side: int, count: int) -> list[Convolution]:
    """1 x 1 convolutions as wide as the last module of a stage."""
    inside = next(layer.inside for layer in reversed(layers) if isinstance(layer, Convolution) and layer.side == side)
    return [
        Convolution(name=f"extra{idx}", side=side, channels=inside, inside=inside, window=1) for idx in range(count)
    ]


def _classifier(shape: ClassifierShape, num_weights: float, features: int) -> Iterator[tuple[int, int]]:
    if shape == "heads":
        yield from [(features, round(num_weights / 4 / features))] * 4
        return
    inputs = features * 49 if shape == "flattened" else features
    # inputs w + 3 w^2 = num_weights
    width = round((math.sqrt(inputs**2 + 12 * num_weights) - inputs) / 6)
    yield inputs, width
    yield from [(width, width)] * 3
