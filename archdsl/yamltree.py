"""YAML as a tree in which every node knows its file, line and column.

Trees are immutable, so that one read file can be overridden and resolved thousands of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Protocol, cast, runtime_checkable

from .errors import Diagnostic

Path = tuple[str | int, ...]
Plain = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Source:
    """A text that was read.

    Attributes:
        name: What the user called it; faults are reported under it.
        lines: The text.
        file: Where it stands; relative paths in it start there.
    """

    name: str
    lines: tuple[str, ...] = field(default=(), repr=False, compare=False)
    file: FilePath | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a source; line and column count from 1, and are 0 where there is no text."""

    source: Source
    line: int = 0
    column: int = 0

    def diagnostic(self, path: Path | str, message: str) -> Diagnostic:
        """A fault at this place."""
        text = self.source.lines[self.line - 1] if 0 < self.line <= len(self.source.lines) else ""
        return Diagnostic(
            file=self.source.name,
            line=self.line,
            column=self.column,
            path=path if isinstance(path, str) else dotted(path),
            message=message,
            source_line=text,
        )


@dataclass(frozen=True, slots=True)
class YamlScalar:
    """A text, number, truth value or null. `indent` is 1 where a quote precedes the text."""

    value: Plain
    place: Place
    indent: int = 0


@dataclass(frozen=True, slots=True)
class YamlList:
    """A sequence."""

    items: tuple[YamlTree, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class YamlMap:
    """A mapping; `key_places` says where each key stands."""

    entries: Mapping[str, YamlTree]
    key_places: Mapping[str, Place]
    place: Place

    def with_entry(self, key: str, value: YamlTree, key_place: Place | None = None) -> YamlMap:
        """A copy in which `key` has another value; a new key goes last."""
        places = self.key_places if key_place is None else {**self.key_places, key: key_place}
        return YamlMap({**self.entries, key: value}, places, self.place)

    def without(self, *keys: str) -> YamlMap:
        """A copy that lacks `keys`."""
        return YamlMap({k: v for k, v in self.entries.items() if k not in keys}, self.key_places, self.place)


YamlTree = YamlScalar | YamlList | YamlMap


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML file: its tree and the text that it came from."""

    root: YamlTree
    source: Source


@runtime_checkable
class SupportsItem(Protocol):
    """A NumPy scalar, as a sampler hands it out."""

    def item(self) -> object:
        """The Python number."""
        ...


def dotted(path: Path) -> str:
    """A path as the user writes it, e.g. `hierarchy.1.capacity`."""
    return ".".join(map(str, path))


def to_plain(tree: YamlTree) -> object:
    """The tree as dicts, lists and scalars."""
    if isinstance(tree, YamlScalar):
        return tree.value
    if isinstance(tree, YamlList):
        return [to_plain(item) for item in tree.items]
    return {key: to_plain(value) for key, value in tree.entries.items()}


def from_plain(value: object, place: Place) -> YamlTree:
    """Dicts, lists and scalars as a tree that stands at one place.

    Raises:
        TypeError: The value is none of these.
    """
    if value is None or isinstance(value, str | int | float | bool):
        return YamlScalar(value, place)
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value)
        entries = {str(key): from_plain(item, place) for key, item in items.items()}
        return YamlMap(entries, dict.fromkeys(entries, place), place)
    if isinstance(value, list | tuple):
        return YamlList(tuple(from_plain(item, place) for item in cast("list[object]", value)), place)
    if isinstance(value, SupportsItem):
        return from_plain(value.item(), place)
    raise TypeError(f"an override is a number, a text, a list or a dict, not {type(value).__name__}")


def scalars(tree: YamlTree, path: Path = ()) -> Iterator[tuple[Path, YamlScalar]]:
    """Every scalar of the tree with its path."""
    if isinstance(tree, YamlScalar):
        yield path, tree
    elif isinstance(tree, YamlList):
        for item_idx, item in enumerate(tree.items):
            yield from scalars(item, (*path, item_idx))
    else:
        for key, value in tree.entries.items():
            yield from scalars(value, (*path, key))


def element_name(tree: YamlTree) -> str | None:
    """The `name:` of a list's element, by which paths address it."""
    if isinstance(tree, YamlMap):
        name = tree.entries.get("name")
        if isinstance(name, YamlScalar) and isinstance(name.value, str):
            return name.value
    return None


def find(tree: YamlTree, path: Path) -> YamlTree | None:
    """The tree at a path, or None."""
    node: YamlTree | None = tree
    for step in path:
        if isinstance(node, YamlMap) and isinstance(step, str):
            node = node.entries.get(step)
        elif isinstance(node, YamlList) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def locate(tree: YamlTree, path: Path, key: bool = False) -> Place:
    """Where a path stands; the nearest enclosing place when it is not there.

    Args:
        tree: The tree.
        path: Path in it.
        key: Whether to point at the key rather than at its value. A value that starts on a later line than its
            key is always pointed at by its key.
    """
    if not path:
        return tree.place
    here = find(tree, path)
    if here is None:
        return locate(tree, path[:-1])
    parent, last = find(tree, path[:-1]), path[-1]
    if isinstance(parent, YamlMap) and isinstance(last, str):
        key_place = parent.key_places[last]
        is_below = key_place.source == here.place.source and key_place.line < here.place.line
        return key_place if key or is_below else here.place
    return here.place
