"""Numbers of a resolved architecture by dotted path, as constraints and plots see them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from ..archdsl import Arch, Bandwidth, DescriptionTree, Spec, field_names, find
from .quantities import parse_quantity
from .store import InputValue


def input_term(value: InputValue) -> tuple[float, str] | None:
    """Canonical number and unit of an input value; None when it is no number, or one that needs the clock."""
    if isinstance(value, bool | int | float):
        return float(value), ""
    if isinstance(value, str):
        quantity = parse_quantity(value)
        if quantity is not None and quantity.canonical_unit != "bytes/s":
            return quantity.value, quantity.canonical_unit
    return None


def arch_term(arch: Arch, path: str) -> float | None:
    """Number at a dotted path in YAML spelling, in canonical units; None when there is none.

    An unbounded capacity or bandwidth is infinite. Bandwidths are bytes per cycle.
    """
    node: object = arch
    last = ""
    for step in path.split("."):
        node = _child(node, step)
        last = step
    return _number(node, last, arch.clock_hz)


def arch_paths(arch: Arch) -> tuple[str, ...]:
    """Every dotted path of an architecture that has a number."""
    return tuple(path for path, name, value in _walk(arch, "") if _number(value, name, arch.clock_hz) is not None)


def has_path(arch: Arch, tree: DescriptionTree, path: str) -> bool:
    """Whether a dotted path leads to a field of an architecture, set or not, or to one of its parameters."""
    steps = path.split(".")
    if steps[0] == "parameters":
        return find(tree.root, tuple(steps)) is not None
    node: object = arch
    for step in steps:
        node = _child(node, step)
    return node is not _Nothing


def named_path(arch: Arch, path: str) -> str:
    """A dotted path with list elements by name, so that two spellings of one field are equal."""
    node: object = arch
    steps: list[str] = []
    for step in path.split("."):
        node, parent = _child(node, step), node
        steps.append(str(getattr(node, "name", step)) if isinstance(parent, tuple) else step)
    return ".".join(steps)


def _number(value: object, name: str, clock_hz: float) -> float | None:
    if isinstance(value, Bandwidth):
        return value.bytes_per_cycle(clock_hz)
    if isinstance(value, bool | int | float):
        return float(value)
    return math.inf if value is None and name == "capacity" else None


def _child(node: object, step: str) -> object:
    if isinstance(node, Spec):
        python_name = field_names(type(node)).get(step)
        return getattr(node, python_name) if python_name else _Nothing
    if isinstance(node, Mapping):
        return cast("Mapping[str, object]", node).get(step, _Nothing)
    if isinstance(node, tuple):
        items = cast("Sequence[object]", node)
        for item in items:
            if getattr(item, "name", None) == step:
                return item
        return items[int(step)] if step.isdecimal() and int(step) < len(items) else _Nothing
    return _Nothing


class _Nothing:
    """What a path that leads nowhere leads to; null is a value."""


def _walk(node: object, path: str) -> Iterator[tuple[str, str, object]]:
    """Path, last step and value of every leaf; list elements by name."""
    if isinstance(node, Spec):
        children = [(name, getattr(node, python_name)) for name, python_name in field_names(type(node)).items()]
    elif isinstance(node, Mapping):
        children = list(cast("Mapping[str, object]", node).items())
    elif isinstance(node, tuple):
        items = cast("Sequence[object]", node)
        children = [(str(getattr(item, "name", idx)), item) for idx, item in enumerate(items)]
    else:
        yield path, path.rpartition(".")[2], node
        return
    for name, child in children:
        yield from _walk(child, f"{path}.{name}" if path else name)
