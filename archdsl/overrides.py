"""Merge YAML trees: `extends`, `override` and overrides from Python, all by dotted path."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as AbstractMapping

from .errors import ArchError, Diagnostic
from .spec import nearest_hint
from .yamltree import Path, Place, Source, YamlList, YamlMap, YamlScalar, YamlTree, element_name, from_plain

OVERRIDE_SOURCE = Source("<override>")


class OverrideFault(Exception):
    """An override whose path leads nowhere; the message says where it breaks off."""


def merge_base(base: YamlMap, child: YamlMap) -> YamlMap:
    """A file over the file that it extends: maps merge, everything else is replaced whole."""
    merged = base
    for key, value in child.entries.items():
        old = base.entries.get(key)
        if isinstance(old, YamlMap) and isinstance(value, YamlMap):
            value = merge_base(old, value)
        merged = merged.with_entry(key, value, child.key_places[key])
    return YamlMap(merged.entries, merged.key_places, child.place)


def apply_overrides(root: YamlMap, overrides: YamlMap, path: Path, faults: list[Diagnostic]) -> YamlMap:
    """The tree with every override applied.

    Args:
        root: Tree to change.
        overrides: Dotted paths and their values; maps may nest instead. In place of a map, null takes it away.
        path: Path of `overrides` itself, for messages.
        faults: Faults are added here, where the override stands.
    """
    for steps, value, place in _flatten(overrides, ()):
        try:
            changed = _set(root, steps, value, place, ())
        except OverrideFault as err:
            faults.append(place.diagnostic((*path, *steps), str(err)))
            continue
        assert isinstance(changed, YamlMap)
        root = changed
    return root


def overrides_from_python(overrides: AbstractMapping[str, object]) -> YamlMap:
    """Overrides from Python as a tree; faults are reported at `<override>`.

    Raises:
        ArchError: A value is no number, text, list or dict.
    """
    try:
        tree = from_plain(overrides, Place(OVERRIDE_SOURCE))
    except TypeError as err:
        raise ArchError("", [Place(OVERRIDE_SOURCE).diagnostic("", str(err))]) from err
    assert isinstance(tree, YamlMap)
    return tree


def _flatten(overrides: YamlMap, prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], YamlTree, Place]]:
    for key, value in overrides.entries.items():
        steps = (*prefix, *key.split("."))
        if isinstance(value, YamlMap) and value.entries:
            yield from _flatten(value, steps)
        else:
            yield steps, value, overrides.key_places[key]


def _set(tree: YamlTree, steps: tuple[str, ...], value: YamlTree, place: Place, done: tuple[str, ...]) -> YamlTree:
    if not steps:
        return value
    step, rest, here = steps[0], steps[1:], ".".join(done) or "the file"
    if isinstance(tree, YamlList):
        item_idx = list_index(tree, step)
        if item_idx is None:
            names = [element_name(item) or str(i) for i, item in enumerate(tree.items)]
            raise OverrideFault(f"{here} has no element '{step}'{nearest_hint(step, names)}")
        new = _set(tree.items[item_idx], rest, value, place, (*done, step))
        return YamlList((*tree.items[:item_idx], new, *tree.items[item_idx + 1 :]), tree.place)
    if isinstance(tree, YamlScalar):
        raise OverrideFault(f"{here} is a single value and has no '{step}'")
    if done[-1:] == ("parameters",) and step not in tree.entries:
        raise OverrideFault(f"unknown parameter '{step}'{nearest_hint(step, tree.entries)}")
    old = tree.entries.get(step)
    if old is None:
        if step == "parameters":
            raise OverrideFault(f"{here} has no parameters")
        # Whether the field exists is for validation to say; it points at `place`.
        old = YamlMap({}, {}, place)
        key_place = place
    elif not rest and isinstance(old, YamlMap) and isinstance(value, YamlScalar) and value.value is None:
        return tree.without(step)
    else:
        key_place = tree.key_places[step] if rest else place
    return tree.with_entry(step, _set(old, rest, value, place, (*done, step)), key_place)


def list_index(tree: YamlList, step: str) -> int | None:
    """Index of the element that has a name, or that a number counts."""
    for item_idx, item in enumerate(tree.items):
        if element_name(item) == step:
            return item_idx
    if step.isdecimal() and int(step) < len(tree.items):
        return int(step)
    return None
