"""Turn pydantic's errors into messages that say where, what and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import ErrorDetails

from .spec import Fault, Spec, field_names, is_spec, members_by_kind, misspelt_fields, nearest_hint, shown, step_into
from .yamltree import Path, Place, YamlList, YamlMap, YamlTree, find, locate


def explain(detail: ErrorDetails, tree: YamlMap, model: type[Spec]) -> Iterator[tuple[Place, Path, str]]:
    """Place, path and message of each fault that one pydantic error stands for."""
    at = _resolve(detail["loc"], tree, model)
    path, kind, ctx = at.path, detail["type"], detail.get("ctx", {})
    if kind == "faults":
        for fault in cast("tuple[Fault, ...]", ctx["faults"]):
            yield locate(tree, (*path, *fault.path)), (*path, *fault.path), fault.message
    elif kind == "extra_forbidden":
        yield locate(tree, path, key=True), path, _unknown_field(str(path[-1]), at.owner)
    elif kind == "missing":
        if not _is_misspelt(tree, at):
            message = f"missing field '{path[-1]}'{_field_hint(str(path[-1]), at.owner)}"
            yield locate(tree, path[:-1]), path, message
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        yield _explain_kind(detail, tree, at)
    elif kind == "too_short" and _num_items(find(tree, path)) >= ctx["min_length"]:
        return  # pydantic counts the valid items only; the others have faults of their own
    else:
        yield locate(tree, path, key=detail["loc"][-1:] == ("[key]",)), path, _message(detail)


def _explain_kind(detail: ErrorDetails, tree: YamlMap, at: _Spot) -> tuple[Place, Path, str]:
    tags = list(members_by_kind(at.annotation))
    inner = (*at.path, "kind")
    if detail["type"] == "union_tag_invalid":
        tag = str(detail.get("ctx", {}).get("tag"))
        return locate(tree, inner), inner, f"unknown kind '{tag}'{nearest_hint(tag, tags)}"
    here = find(tree, at.path)
    if isinstance(here, YamlMap):
        return here.place, inner, f"missing field 'kind'; known are {', '.join(tags)}"
    return locate(tree, at.path), at.path, f"a map of fields is needed here, not {describe_tree(here)}"


def _is_misspelt(tree: YamlMap, at: _Spot) -> bool:
    """Whether a missing field stands there under a wrong name, which has a fault of its own."""
    parent = find(tree, at.path[:-1])
    if at.owner is None or not isinstance(parent, YamlMap):
        return False
    return at.path[-1] in misspelt_fields(parent.entries, at.owner)


def _message(detail: ErrorDetails) -> str:
    kind, value, ctx = detail["type"], detail["input"], detail.get("ctx", {})
    if kind in ("literal_error", "enum") and isinstance(value, str):
        return f"unknown value '{value}'{nearest_hint(value, _expected(ctx))}"
    if kind in ("literal_error", "enum"):
        return f"unknown value {shown(value)}; known are {', '.join(_expected(ctx))}"
    if kind in _NEEDED:
        return f"{_NEEDED[kind]} is needed here, not {shown(value)}"
    if kind in _BOUNDS:
        bound, key = _BOUNDS[kind]
        return f"must be {bound} {ctx[key]:g}, not {shown(value)}"
    if kind == "string_pattern_mismatch":
        return f"'{value}' is not a name; names are letters, digits and '_' and start with a letter"
    if kind == "too_short":
        entries = "entry" if ctx["min_length"] == 1 else "entries"
        return f"needs at least {ctx['min_length']} {entries}, not {ctx['actual_length']}"
    if kind == "string_too_short":
        return "must not be empty"
    if kind == "quantity":
        return str(ctx["reason"])
    return detail["msg"][:1].lower() + detail["msg"][1:]


_NEEDED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map of fields",
    "model_attributes_type": "a map of fields",
}
_BOUNDS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("below", "lt"),
    "less_than_equal": ("at most", "le"),
}


def _expected(ctx: dict[str, Any]) -> list[str]:
    return [word.strip("'") for word in str(ctx.get("expected", "")).replace(" or ", ", ").split(", ")]


def describe_tree(tree: YamlTree | None) -> str:
    if isinstance(tree, YamlMap):
        return "a map"
    return "a list" if isinstance(tree, YamlList) else shown(tree.value if tree else None)


def _unknown_field(name: str, owner: type[Spec] | None) -> str:
    if owner is None:
        return "unknown field"
    spelling = {python: spelled for spelled, python in field_names(owner).items()}
    if name in spelling and spelling[name] != name:
        return f"unknown field; write '{spelling[name]}'"
    return f"unknown field{nearest_hint(name, field_names(owner))}"


def _field_hint(name: str, owner: type[Spec] | None) -> str:
    """` (what it is)`, from the field's description."""
    if owner is None or name not in field_names(owner):
        return ""
    description = owner.model_fields[field_names(owner)[name]].description
    return f" ({description[:1].lower()}{description[1:].rstrip('.')})" if description else ""


def _num_items(tree: YamlTree | None) -> int:
    if isinstance(tree, YamlList):
        return len(tree.items)
    return len(tree.entries) if isinstance(tree, YamlMap) else 0


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where a pydantic location leads: path in the tree, annotation there, and the model of its last step."""

    path: Path
    annotation: object
    owner: type[Spec] | None


def _resolve(loc: tuple[str | int, ...], tree: YamlTree, model: type[Spec]) -> _Spot:
    """Follow a pydantic location, which has the tags of unions between its steps."""
    path: list[str | int] = []
    annotation: object = model
    owner: type[Spec] | None = model
    for step in loc:
        if step == "[key]":
            break
        members = members_by_kind(annotation)
        if step in members and find(tree, (*path, step)) is None:
            annotation = members[str(step)]
            continue
        owner = annotation if is_spec(annotation) else None
        annotation = step_into(annotation, step)
        path.append(step)
    return _Spot(tuple(path), annotation, owner)
