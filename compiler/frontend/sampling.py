"""Pooling, resizing and sampling: vector work of one operation per tap.

A tap is one input element that contributes to one output element; `passes` spreads the taps over the
larger of input and output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from ...archdsl import ceil_div
from .graph import Node, Value
from .lowering import Context, Lowered, Lowering, NotModelled, build_vector, known, main_output, needed, value_bytes

# Taps along one axis that changes its size.
INTERPOLATION_TAPS = {"nearest": 1, "linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}


def lower_pool(node: Node, ctx: Context) -> Lowered:
    """`MaxPool`, `AveragePool`, `LpPool`: one tap per window element."""
    window = node.ints_attribute("kernel_shape") or (1,)
    return _build_taps(node, ctx, [needed(node, 0)], math.prod(window))


def lower_global_pool(node: Node, ctx: Context) -> Lowered:
    """`GlobalMaxPool`, `GlobalAveragePool`, `GlobalLpPool`: each input element once."""
    shape = known(needed(node, 0))
    return _build_taps(node, ctx, [needed(node, 0)], math.prod(shape[2:]))


def lower_resize(node: Node, ctx: Context) -> Lowered:
    """`Resize` and `Upsample`: taps along the axes whose size changes."""
    source, result = needed(node, 0), main_output(node)
    num_axes = sum(a != b for a, b in zip(known(source), known(result, len(source.dims)), strict=True))
    if num_axes == 0:
        return []
    return _build_taps(
        node, ctx, [source], INTERPOLATION_TAPS.get(node.text_attribute("mode", "nearest"), 1) ** num_axes
    )


def lower_grid_sample(node: Node, ctx: Context) -> Lowered:
    """`GridSample`: taps along every spatial axis at positions that it reads."""
    source, grid = needed(node, 0), needed(node, 1)
    num_axes = len(known(source)) - 2
    taps = INTERPOLATION_TAPS.get(node.text_attribute("mode", "linear"), 2) ** num_axes
    return _build_taps(node, ctx, [source, grid], taps)


def lower_roi_align(node: Node, ctx: Context) -> Lowered:
    """`RoiAlign`: four taps per sample; the number of samples must be fixed."""
    ratio = node.int_attribute("sampling_ratio", 0)
    if ratio < 1:
        raise NotModelled("its number of samples depends on the regions (sampling_ratio is 0)")
    return _build_taps(node, ctx, list(node.given_inputs), 4 * ratio * ratio)


def lower_affine_grid(node: Node, ctx: Context) -> Lowered:
    """`AffineGrid`: one small affine map per grid position."""
    theta = needed(node, 0)
    return _build_taps(node, ctx, [theta], known(theta, 3)[-1])


def lower_fold(node: Node, ctx: Context) -> Lowered:
    """`Col2Im` and `MaxUnpool`: each input element is added or put into the output once."""
    source = needed(node, 0)
    known(source)
    return build_vector(node, ctx, passes=1, reads=value_bytes([v for v in node.given_inputs if v.data is None], ctx))


def lower_max_roi_pool(node: Node, ctx: Context) -> Lowered:
    """`MaxRoiPool`: the windows are data."""
    raise NotModelled("its windows depend on the regions")


def _build_taps(node: Node, ctx: Context, sources: list[Value], taps: int) -> Lowered:
    result = main_output(node)
    known(result)
    for source in sources:
        known(source)
    elements = max(sources[0].elements, result.elements)
    if elements == 0:
        return []
    return build_vector(
        node,
        ctx,
        passes=max(1, ceil_div(result.elements * taps, elements)),
        reads=value_bytes(sources, ctx),
        elements=elements,
    )


SAMPLING: Mapping[str, Lowering] = {
    **dict.fromkeys(("AveragePool", "LpPool", "MaxPool"), lower_pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"), lower_global_pool),
    **dict.fromkeys(("Resize", "Upsample"), lower_resize),
    **dict.fromkeys(("Col2Im", "MaxUnpool"), lower_fold),
    "AffineGrid": lower_affine_grid,
    "GridSample": lower_grid_sample,
    "MaxRoiPool": lower_max_roi_pool,
    "RoiAlign": lower_roi_align,
}
