"""What differs between two architectures, by dotted path."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from ..archdsl import Arch

PROSE_FIELDS = frozenset({"source", "notes", "description"})
"""Fields for people, which no model reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which two architectures differ.

    Attributes:
        path: Dotted path, with elements of the hierarchy by name, as overrides and sweeps write it.
        left: Value in the first architecture, in YAML's spelling; None when it has no such field.
        right: Value in the second.
    """

    path: str
    left: str | None
    right: str | None

    @property
    def is_prose(self) -> bool:
        """Whether the field is for people only."""
        return self.path.rpartition(".")[2] in PROSE_FIELDS


def arch_differences(left: Arch, right: Arch) -> tuple[Difference, ...]:
    """Every field in which two architectures differ, defaults included, in the order of the files.

    A node that only one of them has counts as one difference, not as one per field.
    """
    one, two = _fields(left), _fields(right)
    found = [
        Difference(path=path, left=one.get(path), right=two.get(path))
        for path in dict.fromkeys((*one, *two))
        if one.get(path) != two.get(path)
    ]
    lonely = {d.path for d in found if d.path in _nodes(one) ^ _nodes(two)}
    return tuple(d for d in found if not any(d.path.startswith(f"{node}.") for node in lonely))


def _fields(arch: Arch) -> dict[str, str]:
    data = cast("dict[str, object]", arch.model_dump(mode="json", by_alias=True))
    return dict(_flatten(data, ""))


def _nodes(fields: dict[str, str]) -> set[str]:
    """Paths that stand for a whole element of a list or for a map that may be absent."""
    return {path for path in fields if any(other.startswith(f"{path}.") for other in fields)}


def _flatten(data: object, path: str) -> Iterator[tuple[str, str]]:
    """Dotted path and text of every field; a named list element also has a line of its own.

    Values that are left out (None) have none, so that giving one shows as an addition.
    """
    if isinstance(data, dict):
        for key, value in cast("dict[str, object]", data).items():
            yield from _flatten(value, f"{path}.{key}" if path else key)
    elif isinstance(data, list):
        items = cast("list[object]", data)
        names = [_name(item) for item in items]
        if not items or None in names:
            yield path, _text(items)
            return
        yield path, _text(names)
        for name, item in zip(names, items, strict=True):
            yield f"{path}.{name}", str(cast("dict[str, object]", item).get("kind", "present"))
            for key, value in cast("dict[str, object]", item).items():
                if key != "name":
                    yield from _flatten(value, f"{path}.{name}.{key}")
    elif data is not None:
        yield path, _text(data)


def _name(item: object) -> str | None:
    name = cast("dict[str, object]", item).get("name") if isinstance(item, dict) else None
    return name if isinstance(name, str) else None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, cast('list[object]', value)))}]"
    return str(value)
