"""Nodes that move elements without computing: vector ops of no passes, priced as traffic.

Selections read what they select. Scatters write what they scatter: the tensor that they scatter into
is taken to be updated in place. A node that leaves every element where it is costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from .graph import Node, Value
from .lowering import Context, Lowered, Lowering, build_vector, known, main_output, needed, value_bytes


def lower_copy(node: Node, ctx: Context) -> Lowered:
    """A node that reads its tensors and writes them elsewhere; free when nothing moves."""
    result = main_output(node)
    known(result)
    sources = [value for value in node.given_inputs if value.data is None]
    for source in sources:
        known(source)
    if len(sources) == 1 and sources[0].elements == result.elements:
        return []
    return build_vector(node, ctx, passes=0, reads=value_bytes(sources, ctx))


def lower_transpose(node: Node, ctx: Context) -> Lowered:
    """`Transpose`; free when only axes of size 1 change places."""
    source = needed(node, 0)
    shape = known(source)
    order = node.ints_attribute("perm") or tuple(reversed(range(len(shape))))
    moved = [axis for axis in order if shape[axis] != 1]
    if moved == sorted(moved):
        return []
    return lower_rearrange(node, ctx)


def lower_rearrange(node: Node, ctx: Context) -> Lowered:
    """A node that reads its first input in full and writes its outputs."""
    source = needed(node, 0)
    known(source)
    known(main_output(node))
    return build_vector(node, ctx, passes=0, reads=value_bytes([source], ctx))


def lower_select(node: Node, ctx: Context) -> Lowered:
    """`Gather`, `GatherElements`, `GatherND`, `Slice`, `Split`: reads as much as it writes."""
    source, result = needed(node, 0), main_output(node)
    known(source)
    outputs = [value for value in node.given_outputs if value.is_known]
    known(result)
    selected = sum(value.elements for value in outputs)
    if node.op_type in ("Slice", "Split") and len(outputs) == 1 and selected == source.elements:
        return []
    indices: list[Value] = []
    if node.op_type not in ("Slice", "Split"):
        indices = [value for value in node.given_inputs[1:] if value.data is None]
    reads = [(source.name, ctx.num_bytes(source, selected)), *value_bytes(indices, ctx)]
    return build_vector(node, ctx, passes=0, reads=reads, elements=selected)


def lower_scatter(node: Node, ctx: Context) -> Lowered:
    """`Scatter*`: updates and indices are read, updates written in place."""
    indices, updates = needed(node, 1), needed(node, 2)
    return _lower_update(node, ctx, [indices], updates)


def lower_tensor_scatter(node: Node, ctx: Context) -> Lowered:
    """`TensorScatter`: new rows written into a cache in place."""
    positions = node.input(2)
    return _lower_update(node, ctx, [] if positions is None else [positions], needed(node, 1))


def _lower_update(node: Node, ctx: Context, indices: list[Value], updates: Value) -> Lowered:
    for value in (*indices, updates):
        known(value)
    is_reducing = node.text_attribute("reduction", "none") != "none"
    target = needed(node, 0)
    old = [(target.name, ctx.num_bytes(target, updates.elements))] if is_reducing else []
    return build_vector(
        node,
        ctx,
        passes=int(is_reducing),
        reads=[*old, *value_bytes([*indices, updates], ctx)],
        writes=[(main_output(node).name, ctx.num_bytes(target, updates.elements))],
        elements=updates.elements,
    )


MOVEMENT: Mapping[str, Lowering] = {
    **dict.fromkeys(("CenterCropPad", "Concat", "Expand", "Pad", "Tile"), lower_copy),
    **dict.fromkeys(("DepthToSpace", "EyeLike", "ReverseSequence", "SpaceToDepth", "Trilu"), lower_rearrange),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "Slice", "Split"), lower_select),
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), lower_scatter),
    "TensorScatter": lower_tensor_scatter,
    "Transpose": lower_transpose,
}
