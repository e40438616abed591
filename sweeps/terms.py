"""Numbers of a resolved design by dotted path, as constraints and plots see them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from ..archdsl import (
    Bandwidth,
    Description,
    DescriptionTree,
    SpatialArch,
    Spec,
    field_names,
    find,
)
from .designs import WORKLOADS, Design, is_workload_path
from .quantities import BandwidthUnit, parse_quantity
from .store import InputValue


def bandwidth_unit(arch: Description) -> BandwidthUnit:
    """In what constraints and results see the bandwidths of a description."""
    return "bytes/cycle" if isinstance(arch, SpatialArch) else "bytes/s"


def input_term(value: InputValue) -> tuple[float, str] | None:
    """Canonical number and unit of an input value; None when it is no number, or one that needs the clock."""
    if isinstance(value, bool | int | float):
        return float(value), ""
    if isinstance(value, str):
        quantity = parse_quantity(value)
        if quantity is not None and quantity.canonical_unit != "bytes/s":
            return quantity.value, quantity.canonical_unit
    return None


def design_term(design: Design, path: str) -> float | None:
    """Number at a dotted path of a design, its workloads included; see `arch_term`."""
    if not is_workload_path(path):
        return arch_term(design.arch, path)
    _, name, section, term = (*path.split(".", 3), "", "", "")[:4]
    served = next((one for one in design.served if name in (one.name, str(one.index))), None)
    found = _child(served.terms, term) if served is not None and section == "serve" else None
    return float(found) if isinstance(found, bool | int | float) else None


def term_paths(design: Design) -> tuple[str, ...]:
    """Every dotted path of a design that has a number."""
    found = [*arch_paths(design.arch)]
    for served in design.served:
        paths = [f"{WORKLOADS}.{served.name}.serve.{term}" for term in type(served.terms).model_fields]
        found += [path for path in paths if design_term(design, path) is not None]
    return tuple(found)


def arch_term(arch: Description, path: str) -> float | None:
    """Number at a dotted path in YAML spelling, in canonical units; None when there is none.

    An unbounded capacity or bandwidth is infinite. Bandwidths are in `bandwidth_unit`.
    """
    node: object = arch
    clock_hz, last = _clock_hz(node, 0.0), ""
    for step in path.split("."):
        node = _child(node, step)
        clock_hz, last = _clock_hz(node, clock_hz), step
    return _number(node, last, clock_hz, bandwidth_unit(arch))


def arch_paths(arch: Description) -> tuple[str, ...]:
    """Every dotted path of an architecture or system that has a number."""
    unit = bandwidth_unit(arch)
    return tuple(
        path for path, name, value, clock_hz in _walk(arch, "", 0.0) if _number(value, name, clock_hz, unit) is not None
    )


def has_path(arch: Description, tree: DescriptionTree, path: str) -> bool:
    """Whether a dotted path leads to a field of an architecture, set or not, or to one of its parameters."""
    steps = path.split(".")
    if steps[0] == "parameters":
        return find(tree.root, tuple(steps)) is not None
    node: object = arch
    for step in steps:
        node = _child(node, step)
    return node is not _Nothing


def named_path(arch: Description, path: str) -> str:
    """A dotted path with list elements by name, so that two spellings of one field are equal."""
    node: object = arch
    steps: list[str] = []
    for step in path.split("."):
        node, parent = _child(node, step), node
        steps.append(str(getattr(node, "name", step)) if isinstance(parent, tuple) else step)
    return ".".join(steps)


def _clock_hz(node: object, above_hz: float) -> float:
    """Clock of the nearest chip that a field belongs to [Hz]; 0 where there is none."""
    return float(getattr(node, "clock_hz", None) or above_hz)


def _number(value: object, name: str, clock_hz: float, unit: BandwidthUnit) -> float | None:
    if isinstance(value, Bandwidth):
        return value.bytes_per_cycle(clock_hz) if unit == "bytes/cycle" else value.bytes_per_s(clock_hz)
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


def _walk(node: object, path: str, clock_hz: float) -> Iterator[tuple[str, str, object, float]]:
    """Path, last step, value and clock of every leaf; list elements by name."""
    clock_hz = _clock_hz(node, clock_hz)
    if isinstance(node, Spec):
        children = [(name, getattr(node, python_name)) for name, python_name in field_names(type(node)).items()]
    elif isinstance(node, Mapping):
        children = list(cast("Mapping[str, object]", node).items())
    elif isinstance(node, tuple):
        items = cast("Sequence[object]", node)
        children = [(str(getattr(item, "name", idx)), item) for idx, item in enumerate(items)]
    else:
        yield path, path.rpartition(".")[2], node, clock_hz
        return
    for name, child in children:
        yield from _walk(child, f"{path}.{name}" if path else name, clock_hz)
