"""Check a YAML tree against a pydantic model, reporting each fault where it stands in the file."""

from __future__ import annotations

import difflib
import types
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError
from typing_extensions import TypeIs

from .errors import ArchError, Diagnostic, ToolkitError
from .yamltree import Document, Path, Place, YamlList, YamlMap, YamlTree, find, locate, to_plain

YAML_CONTEXT = {"yaml": True}
"""Validation context that says that the values come from YAML."""

SpecT = TypeVar("SpecT", bound="Spec")


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault between fields: `path` is relative to the model, in YAML spelling."""

    path: Path
    message: str


class Spec(BaseModel):
    """Base of everything that users write: frozen, no unknown fields, quantities with units.

    In YAML a field has its alias; Python code uses the field's name and base units.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, use_attribute_docstrings=False
    )
    always_written: ClassVar[frozenset[str]] = frozenset({"kind", "schema_version"})

    def faults(self) -> Iterator[Fault]:
        """Faults between fields; each field by itself is valid."""
        yield from ()

    @model_validator(mode="after")
    def _check_faults(self) -> Self:
        faults = tuple(self.faults())
        if faults:
            reason = "; ".join(fault.message for fault in faults)
            raise PydanticCustomError("faults", "{reason}", {"reason": reason, "faults": faults})
        return self


def nearest_hint(word: str, known: Iterable[str], show: int = 12) -> str:
    """`; did you mean 'x'?` for the nearest known word, else the known ones."""
    names = [str(name) for name in known]
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if not near:
        near = [name for name in names if name.lower() == word.lower()]
    if near:
        return f"; did you mean '{near[0]}'?"
    if not names:
        return ""
    listed = ", ".join(names[:show]) + (", ..." if len(names) > show else "")
    return f"; known are {listed}"


def validate_document(doc: Document, model: type[SpecT], error_type: type[ToolkitError] = ArchError) -> SpecT:
    """Check a document against a model.

    Args:
        doc: What `read_yaml` returned.
        model: A `Spec`; its aliases are the fields that the file may use.
        error_type: Error to raise.

    Raises:
        ToolkitError: Of `error_type`, with every fault of the document in its diagnostics.
    """
    value, faults = validate_tree(doc.root, model)
    if value is None:
        raise error_type("", faults)
    return value


def validate_tree(
    tree: YamlTree, model: type[SpecT], path: Path = (), broken: AbstractSet[Path] = frozenset()
) -> tuple[SpecT | None, list[Diagnostic]]:
    """Check a tree against a model.

    Args:
        tree: The tree.
        model: What it should be.
        path: Path of the tree in its document, for messages.
        broken: Paths whose faults are known already.

    Returns:
        The model, or None with the faults found.
    """
    if not isinstance(tree, YamlMap):
        return None, [tree.place.diagnostic(path, f"a map of fields is needed here, not {_seen(tree)}")]
    plain = to_plain(tree)
    try:
        return model.model_validate(plain, context=YAML_CONTEXT, by_alias=True, by_name=False), []
    except ValidationError as err:
        details = err.errors(include_url=False)
    found: dict[tuple[Path, str], Diagnostic] = {}
    for detail in details:
        for place, at, message in _explain(detail, tree, model):
            if at not in broken:
                found.setdefault((at, message), place.diagnostic((*path, *at), message))
    ordered = sorted(found.values(), key=lambda d: (d.line == 0, d.file, d.line, d.column))
    return None, ordered


def _explain(detail: ErrorDetails, tree: YamlMap, model: type[Spec]) -> Iterator[tuple[Place, Path, str]]:
    """Place, path and message of each fault that one pydantic error stands for."""
    path, owner = _tree_path(detail["loc"], tree, model)
    kind = detail["type"]
    if kind == "faults":
        for fault in cast("tuple[Fault, ...]", detail.get("ctx", {})["faults"]):
            at = (*path, *fault.path)
            yield locate(tree, at), at, fault.message
        return
    if kind == "extra_forbidden":
        yield locate(tree, path, key=True), path, _unknown_field(str(path[-1]), owner)
        return
    if kind == "missing":
        yield locate(tree, path[:-1]), path, f"missing field '{path[-1]}'{_field_hint(str(path[-1]), owner)}"
        return
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tags = [tag.strip("'") for tag in str(detail.get("ctx", {}).get("expected_tags", "")).split(", ")]
        at = (*path, "kind")
        if kind == "union_tag_invalid":
            tag = str(detail.get("ctx", {}).get("tag"))
            yield locate(tree, at), at, f"unknown kind '{tag}'{nearest_hint(tag, tags)}"
        elif isinstance(find(tree, path), YamlMap):
            yield locate(tree, path), at, f"missing field 'kind'; known are {', '.join(tags or _tags(owner))}"
        else:
            yield locate(tree, path), path, f"a map of fields is needed here, not {_seen(find(tree, path))}"
        return
    yield locate(tree, path, key=detail["loc"][-1:] == ("[key]",)), path, _message(detail)


def _message(detail: ErrorDetails) -> str:
    kind, value, ctx = detail["type"], detail["input"], detail.get("ctx", {})
    if kind in ("literal_error", "enum") and isinstance(value, str):
        return f"unknown value '{value}'{nearest_hint(value, _expected(ctx))}"
    if kind in ("literal_error", "enum"):
        return f"unknown value {_shown(value)}; known are {', '.join(_expected(ctx))}"
    if kind in _NEEDED:
        return f"{_NEEDED[kind]} is needed here, not {_shown(value)}"
    if kind in _BOUNDS:
        bound, key = _BOUNDS[kind]
        return f"must be {bound} {ctx[key]}, not {_shown(value)}"
    if kind == "string_pattern_mismatch":
        return f"'{value}' is not a name; names are letters, digits and '_' and start with a letter"
    if kind == "too_short":
        return f"needs at least {ctx['min_length']} entries, not {ctx['actual_length']}"
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


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else repr(value)


def _seen(tree: YamlTree | None) -> str:
    if isinstance(tree, YamlMap):
        return "a map"
    return "a list" if isinstance(tree, YamlList) else _shown(tree.value if tree else None)


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


def field_names(model: type[Spec]) -> dict[str, str]:
    """Python name of every field, per YAML name."""
    return {str(field.validation_alias or name): name for name, field in model.model_fields.items()}


def _tree_path(loc: tuple[str | int, ...], tree: YamlTree, model: type[Spec]) -> tuple[Path, type[Spec] | None]:
    """Path in the tree of a pydantic location, without union tags, and the model that owns its last step."""
    path: list[str | int] = []
    annotation: object = model
    owner: type[Spec] | None = model
    for step in loc:
        if step == "[key]":
            break
        members = _members(annotation)
        if step in members and find(tree, (*path, step)) is None:
            annotation = members[str(step)]
            continue
        owner = annotation if is_spec(annotation) else None
        annotation = step_into(annotation, step)
        path.append(step)
    if not path:
        owner = model
    return tuple(path), owner


def is_spec(annotation: object) -> TypeIs[type[Spec]]:
    """Whether an annotation is a model of ours."""
    return isinstance(annotation, type) and issubclass(annotation, Spec)


def strip(annotation: object) -> object:
    """An annotation without `Annotated`, `| None` and type aliases."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
            continue
        if get_origin(annotation) in (Union, types.UnionType):
            members = [arg for arg in get_args(annotation) if arg is not type(None)]
            if len(members) == 1:
                annotation = members[0]
                continue
        return annotation


def _members(annotation: object) -> dict[str, type[Spec]]:
    """Members of a union of models, per `kind`."""
    annotation = strip(annotation)
    if get_origin(annotation) not in (Union, types.UnionType):
        return {}
    found: dict[str, type[Spec]] = {}
    for member in get_args(annotation):
        if is_spec(member) and "kind" in member.model_fields:
            tag = member.model_fields["kind"].annotation
            found |= {str(name): member for name in get_args(tag) if get_origin(tag) is Literal}
    return found


def _tags(owner: object) -> list[str]:
    return list(_members(owner))


def step_into(annotation: object, step: str | int, kind: str | None = None) -> object:
    """Annotation of an element: a field by YAML name, a list's or dict's element.

    Args:
        annotation: What the step starts from.
        step: A field, key or index.
        kind: Value of the `kind` field, which selects a union's member.

    Returns:
        The annotation, or None where it is not known.
    """
    annotation = strip(annotation)
    if kind is not None:
        annotation = _members(annotation).get(kind, annotation)
    if is_spec(annotation):
        python_name = field_names(annotation).get(str(step))
        return strip(annotation.model_fields[python_name].annotation) if python_name else None
    if get_origin(annotation) in (tuple, list):
        return strip(get_args(annotation)[0])
    if get_origin(annotation) is dict:
        return strip(get_args(annotation)[1])
    return None
