"""Convolutions of one to three axes: plain, grouped, depthwise, transposed and quantised.

Dims: `B` batch, `G` group, `K` and `C` output and input channels of one group, `OZ OY OX` output
positions, `FZ FY FX` filter positions; a transposed convolution runs over the input's positions
`IZ IY IX` and its output is the sliding tensor. Multiplications with padding (and those into the
cropped edge of a transposed convolution) are counted as if it were stored. Depthwise is `K = C = 1`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from .graph import Node, Value
from .lowering import Axis, BadNode, Context, Lowered, Lowering, NotModelled, Operand, build_product, known, needed
from .lowering import main_output as output_of

SPATIAL_AXES = {1: ("X",), 2: ("Y", "X"), 3: ("Z", "Y", "X")}


def lower_conv(node: Node, ctx: Context) -> Lowered:
    """`Conv` and `ConvInteger`."""
    return _lower_conv(node, ctx, needed(node, 0), needed(node, 1))


def lower_qlinear_conv(node: Node, ctx: Context) -> Lowered:
    """`QLinearConv`: scales and zero points stand between its input and its weights."""
    return _lower_conv(node, ctx, needed(node, 0), needed(node, 3))


def lower_causal_conv(node: Node, ctx: Context) -> Lowered:
    """`CausalConvWithState`: depthwise over one axis, padded on the left by the carried state."""
    signal, weight = needed(node, 0), needed(node, 1)
    batch, channels, length = known(signal, 3)
    taps = known(weight, 3)[2]
    return _build_conv(node, ctx, signal, weight, (batch, channels, 1, 1), (length,), (taps,), (1,), (1,))


def lower_conv_transpose(node: Node, ctx: Context) -> Lowered:
    """`ConvTranspose`: every input position adds into a window of the output."""
    signal, weight = needed(node, 0), needed(node, 1)
    shape, taps = known(signal), known(weight)
    groups = node.int_attribute("group", 1)
    num_axes = len(shape) - 2
    if _is_misfit(shape, taps, groups) or shape[1] != taps[0] or shape[1] % groups:
        raise BadNode(f"input {signal} and weight {weight} with {groups} groups do not fit; check the export")
    inner = (groups, taps[1], shape[1] // groups)
    macs = shape[0] * math.prod((*inner, *shape[2:], *taps[2:])) * node.count
    letters = _letters(num_axes, macs)
    strides, dilations = _steps(node, "strides", num_axes), _steps(node, "dilations", num_axes)
    dims = _conv_dims(shape[0], inner, _named("I", letters, shape[2:]), _named("F", letters, taps[2:]))
    windows = [((f"I{x}", s), (f"F{x}", d)) for x, s, d in zip(letters, strides, dilations, strict=True)]
    return build_product(
        node,
        ctx,
        kind="conv_transpose",
        dims=dims,
        input=Operand(name="I", datatype=ctx.datatype(signal), axes=("B", "G", "C", *(f"I{x}" for x in letters))),
        weight=Operand(name="W", datatype=ctx.datatype(weight), axes=("G", "K", "C", *(f"F{x}" for x in letters))),
        output=Operand(name="O", datatype=ctx.datatype(output_of(node)), axes=("B", "G", "K", *windows)),
    )


def lower_deform_conv(node: Node, ctx: Context) -> Lowered:
    """`DeformConv`: its input positions are data, so that no affine projection describes them."""
    taps, result = known(needed(node, 1)), known(output_of(node))
    macs = math.prod(result) * math.prod(taps[1:]) * node.count
    raise NotModelled("its input positions depend on data", macs)


def _lower_conv(node: Node, ctx: Context, signal: Value, weight: Value) -> Lowered:
    shape, taps, result = known(signal), known(weight), known(output_of(node))
    groups = node.int_attribute("group", 1)
    num_axes = len(shape) - 2
    if _is_misfit(shape, taps, groups) or shape[1] != taps[1] * groups or taps[0] % groups:
        raise BadNode(f"input {signal} and weight {weight} with {groups} groups do not fit; check the export")
    channels = (shape[0], groups, taps[0] // groups, taps[1])
    strides, dilations = _steps(node, "strides", num_axes), _steps(node, "dilations", num_axes)
    return _build_conv(node, ctx, signal, weight, channels, result[2:], taps[2:], strides, dilations)


def _is_misfit(shape: Sequence[int], taps: Sequence[int], groups: int) -> bool:
    return len(taps) != len(shape) or len(shape) < 3 or groups < 1


def _build_conv(
    node: Node,
    ctx: Context,
    signal: Value,
    weight: Value,
    channels: tuple[int, int, int, int],
    positions: Sequence[int],
    taps: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> Lowered:
    batch, *inner = channels
    macs = math.prod((*channels, *positions, *taps)) * node.count
    letters = _letters(len(positions), macs)
    windows: list[Axis] = [((f"O{x}", s), (f"F{x}", d)) for x, s, d in zip(letters, strides, dilations, strict=True)]
    return build_product(
        node,
        ctx,
        kind="conv",
        dims=_conv_dims(batch, inner, _named("O", letters, positions), _named("F", letters, taps)),
        input=Operand(name="I", datatype=ctx.datatype(signal), axes=("B", "G", "C", *windows)),
        weight=Operand(name="W", datatype=ctx.datatype(weight), axes=("G", "K", "C", *(f"F{x}" for x in letters))),
        output=Operand(
            name="O", datatype=ctx.datatype(output_of(node)), axes=("B", "G", "K", *(f"O{x}" for x in letters))
        ),
    )


def _conv_dims(
    batch: int, inner: Sequence[int], positions: list[tuple[str, int]], taps: list[tuple[str, int]]
) -> list[tuple[str, int]]:
    return [("B", batch), *zip(("G", "K", "C"), inner, strict=True), *positions, *taps]


def _named(prefix: str, letters: Sequence[str], sizes: Sequence[int]) -> list[tuple[str, int]]:
    return [(prefix + letter, size) for letter, size in zip(letters, sizes, strict=True)]


def _letters(num_axes: int, macs: int) -> tuple[str, ...]:
    if num_axes not in SPATIAL_AXES:
        raise NotModelled(f"a convolution over {num_axes} axes; 1 to 3 are modelled", macs)
    return SPATIAL_AXES[num_axes]


def _steps(node: Node, name: str, num_axes: int) -> tuple[int, ...]:
    steps = node.ints_attribute(name) or (1,) * num_axes
    if len(steps) != num_axes or any(step < 1 for step in steps):
        raise BadNode(f"{name} is {list(steps)}; it takes {num_axes} positive numbers")
    return steps


CONVOLUTIONS: Mapping[str, Lowering] = {
    "CausalConvWithState": lower_causal_conv,
    "Conv": lower_conv,
    "ConvInteger": lower_conv,
    "ConvTranspose": lower_conv_transpose,
    "DeformConv": lower_deform_conv,
    "QLinearConv": lower_qlinear_conv,
}
