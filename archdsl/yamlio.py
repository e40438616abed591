"""Read YAML with positions, write YAML that reads back equal.

Scalars follow YAML 1.2: only `true` and `false` are truth values (`on`, `yes`, `N` are text) and `010` is text.
Tags are refused, so that no file can construct an object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import cast

import yaml

from .errors import ArchError, Diagnostic, ToolkitError
from .validation import nearest_hint, validate_document, validate_tree
from .yamltree import Document, Place, Plain, Source, YamlList, YamlMap, YamlScalar, YamlTree

__all__ = [
    "Document",
    "FlowMap",
    "dump_yaml",
    "nearest_hint",
    "parse_yaml",
    "read_yaml",
    "resolve_scalar",
    "validate_document",
    "validate_tree",
]

MAX_ALIASED_NODES = 50_000
"""Most nodes that a document's aliases may add when they are expanded."""

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Plain] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_STANDARD_TAG = "tag:yaml.org,2002:"
_KNOWN_TAGS = frozenset(
    _STANDARD_TAG + kind
    for kind in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)
# The C parser is ten times as fast; it is missing where PyYAML was built without libyaml.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_yaml(path: FilePath | str, error_type: type[ToolkitError] = ArchError, name: str | None = None) -> Document:
    """Read one YAML file.

    Args:
        path: File to read.
        error_type: Error to raise, by what the file describes.
        name: Name under which faults are reported; the path when left out.

    Raises:
        ToolkitError: Of `error_type`: the file cannot be read or is no YAML document; every fault is in its diagnostics.
    """
    shown = str(path) if name is None else name
    try:
        text = FilePath(path).read_text(encoding="utf-8-sig")
    except OSError as err:
        raise error_type("", [_fileless(shown, f"cannot read the file: {err.strerror or err}")]) from err
    except UnicodeDecodeError as err:
        raise error_type("", [_fileless(shown, f"not UTF-8 text: {err.reason} at byte {err.start}")]) from err
    return _parse(text, Source(shown, tuple(text.splitlines()), FilePath(path)), error_type)


def parse_yaml(text: str, name: str = "<string>", error_type: type[ToolkitError] = ArchError) -> Document:
    """Read a YAML document from a text.

    Raises:
        ToolkitError: Of `error_type`: the text is no YAML document.
    """
    return _parse(text, Source(name, tuple(text.splitlines())), error_type)


def _parse(text: str, source: Source, error_type: type[ToolkitError]) -> Document:
    try:
        node = _compose(text, _LOADER)
    except yaml.YAMLError as err:
        raise error_type("", [_syntax_fault(text, source, err)]) from err
    if node is None:
        raise error_type("", [_fileless(source.name, "the file is empty")])
    faults: list[Diagnostic] = []
    root = _Converter(source, faults).convert(node, ())
    if faults:
        raise error_type("", faults)
    return Document(root, source)


def _compose(text: str, loader: type) -> yaml.Node | None:
    return cast("yaml.Node | None", yaml.compose(text, loader))  # pyright: ignore[reportArgumentType, reportUnknownMemberType]


def _fileless(name: str, message: str) -> Diagnostic:
    return Diagnostic(file=name, line=0, column=0, path="", message=message)


def _syntax_fault(text: str, source: Source, err: yaml.YAMLError) -> Diagnostic:
    """The fault as the pure Python parser words it, so that the text is the same on every machine."""
    try:
        _compose(text, yaml.SafeLoader)
    except yaml.YAMLError as better:
        err = better
    if isinstance(err, yaml.MarkedYAMLError) and err.problem_mark is not None:
        mark = err.problem_mark
        if err.context == "expected a single document in the stream":
            message = "a second document starts here; a file holds one document, so split it"
        else:
            message = f"not valid YAML: {err.problem}" + (f" {err.context}" if err.context else "")
        return Place(source, mark.line + 1, mark.column + 1).diagnostic("", message)
    if isinstance(err, yaml.reader.ReaderError):
        before = text[: int(err.position)]
        line = before.count("\n")
        column = len(before) - (before.rfind("\n") + 1)
        message = f"not valid YAML: character {err.character!r} is not allowed"
        return Place(source, line + 1, column + 1).diagnostic("", message)
    return _fileless(source.name, f"not valid YAML: {err}")


class _Converter:
    """Turns PyYAML's nodes into a tree, collecting faults."""

    def __init__(self, source: Source, faults: list[Diagnostic]) -> None:
        self.source = source
        self.faults = faults
        self.open: set[int] = set()
        self.known: set[int] = set()
        self.num_aliased = 0

    def place(self, node: yaml.Node) -> Place:
        return Place(self.source, node.start_mark.line + 1, node.start_mark.column + 1)

    def fault(self, place: Place, path: tuple[str | int, ...], message: str) -> None:
        self.faults.append(place.diagnostic(path, message))

    def convert(self, node: yaml.Node, path: tuple[str | int, ...]) -> YamlTree:
        place = self.place(node)
        empty = YamlScalar(None, place)
        self.num_aliased += id(node) in self.known
        self.known.add(id(node))
        if self.num_aliased > MAX_ALIASED_NODES:
            if self.num_aliased == MAX_ALIASED_NODES + 1:
                self.fault(place, path, f"aliases add more than {MAX_ALIASED_NODES} nodes once they are expanded")
            return empty
        if node.tag not in _KNOWN_TAGS:
            self.fault(place, path, f"tag '{node.tag}' is not allowed; write plain maps, lists and scalars")
            return empty
        if id(node) in self.open:
            self.fault(place, path, "this alias stands inside its own anchor")
            return empty
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, place)
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                items = cast("list[yaml.Node]", node.value)
                return YamlList(tuple(self.convert(item, (*path, i)) for i, item in enumerate(items)), place)
            return self.mapping(cast("yaml.MappingNode", node), path)
        finally:
            self.open.discard(id(node))

    def scalar(self, node: yaml.ScalarNode, place: Place) -> YamlScalar:
        text = cast(str, node.value)
        if node.style in ("'", '"'):
            return YamlScalar(text, place, indent=1)
        value = resolve_scalar(text)
        # PyYAML takes 1e9 for text; whatever else it takes for text is text, or is marked `!!str`.
        is_text = node.style in ("|", ">") or (node.tag == _STANDARD_TAG + "str" and not isinstance(value, float))
        return YamlScalar(text if is_text else value, place)

    def mapping(self, node: yaml.MappingNode, path: tuple[str | int, ...]) -> YamlMap:
        entries: dict[str, YamlTree] = {}
        places: dict[str, Place] = {}
        merged: list[YamlTree] = []
        for key_node, value_node in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            key_place = self.place(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                self.fault(key_place, path, "a key must be a word, not a list or a map")
                continue
            key = cast(str, key_node.value)
            value = self.convert(value_node, (*path, key))
            if key_node.tag == _STANDARD_TAG + "merge":
                merged.extend(value.items if isinstance(value, YamlList) else (value,))
            elif key in entries:
                first = places[key].line
                self.fault(key_place, (*path, key), f"key '{key}' is given twice; the first is on line {first}")
            else:
                entries[key] = value
                places[key] = key_place
        for base in merged:
            if not isinstance(base, YamlMap):
                self.fault(base.place, (*path, "<<"), "only maps can be merged with '<<'")
                continue
            entries = {**base.entries, **entries}
            places = {**base.key_places, **places}
        return YamlMap(entries, places, self.place(node))


def resolve_scalar(text: str) -> Plain:
    """The value of an unquoted scalar: null, truth value, number or text."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text) and len(text) < 400:
        return int(text)
    if _FLOAT.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


class FlowMap(dict[str, object]):
    """A map that is written on one line."""


class _Dumper(yaml.SafeDumper):
    """Block style, flow style for lists of scalars, quotes wherever the reader would see another type."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    plain_tag = cast(str, dumper.resolve(yaml.ScalarNode, text, (True, False)))  # pyright: ignore[reportUnknownMemberType]
    is_text = isinstance(resolve_scalar(text), str) and plain_tag == _STANDARD_TAG + "str"
    return dumper.represent_scalar(_STANDARD_TAG + "str", text, None if is_text else '"')  # pyright: ignore[reportUnknownMemberType]


def _represent_list(dumper: yaml.SafeDumper, items: list[object]) -> yaml.Node:
    flow = all(not isinstance(item, Mapping | list) for item in items)
    return dumper.represent_sequence(_STANDARD_TAG + "seq", items, flow_style=flow)  # pyright: ignore[reportUnknownMemberType]


def _represent_map(dumper: yaml.SafeDumper, entries: dict[str, object]) -> yaml.Node:
    is_flow = isinstance(entries, FlowMap)
    return dumper.represent_mapping(_STANDARD_TAG + "map", entries.items(), flow_style=is_flow)  # pyright: ignore[reportUnknownMemberType]


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
_Dumper.add_representer(dict, _represent_map)
_Dumper.add_representer(FlowMap, _represent_map)


def dump_yaml(data: object) -> str:
    """Write dicts, lists and scalars as YAML that `parse_yaml` reads back equal; the same data gives the same text."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
