"""Check a YAML tree against a model, reporting every fault where it stands in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AbstractMapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Annotated, Any, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from .errors import ArchError, Diagnostic, ToolkitError
from .messages import describe_tree, explain
from .spec import (
    YAML_CONTEXT,
    Fault,
    Spec,
    SpecT,
    field_names,
    is_spec,
    members_by_kind,
    misspelt_fields,
    nearest_hint,
    step_into,
    strip,
)
from .yamltree import Document, Path, Place, YamlMap, YamlTree, find, locate, to_plain

__all__ = [
    "Fault",
    "Spec",
    "SpecT",
    "field_names",
    "find",
    "locate",
    "nearest_hint",
    "sorted_faults",
    "step_into",
    "validate_document",
    "validate_tree",
]


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
        return None, [tree.place.diagnostic(path, f"a map of fields is needed here, not {describe_tree(tree)}")]
    plain = to_plain(tree)
    try:
        return model.model_validate(plain, context=YAML_CONTEXT, by_alias=True, by_name=False), []
    except ValidationError as err:
        details = err.errors(include_url=False)
    found: dict[tuple[Path, str], Diagnostic] = {}
    for place, at, message in _all_faults(details, tree, plain, model):
        if at not in broken:
            found.setdefault((at, message), place.diagnostic((*path, *at), message))
    return None, sorted_faults(found.values())


def sorted_faults(faults: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Distinct faults in reading order, those without a place last."""
    distinct = dict.fromkeys(faults)
    return sorted(distinct, key=lambda fault: (fault.line == 0, fault.file, fault.line, fault.column))


def _all_faults(
    details: list[ErrorDetails], tree: YamlMap, plain: object, model: type[Spec]
) -> Iterator[tuple[Place, Path, str]]:
    for detail in details:
        yield from explain(detail, tree, model)
    # Pydantic leaves out the checks between fields of a model of which any field is faulty.
    between: list[tuple[Path, str]] = []
    _build(plain, model, (), between)
    for at, message in between:
        yield locate(tree, at), at, message


class _Broken:
    """Stands for a value that is not valid."""


_BROKEN = _Broken()


def _build(plain: object, annotation: object, path: Path, between: list[tuple[Path, str]]) -> object:
    """The value with faulty fields left out, collecting the faults between its sound fields."""
    bare = strip(annotation)
    members = members_by_kind(bare)
    if members and isinstance(plain, dict):
        bare = members.get(str(cast("dict[str, object]", plain).get("kind")), bare)
    if is_spec(bare) and isinstance(plain, dict):
        return _build_spec(cast("dict[str, object]", plain), bare, path, between)
    if get_origin(bare) is tuple and isinstance(plain, list) and _holds_specs(get_args(bare)[0]):
        items = cast("list[object]", plain)
        built = [_build(item, get_args(bare)[0], (*path, i), between) for i, item in enumerate(items)]
        return _BROKEN if any(item is _BROKEN for item in built) else tuple(built)
    if get_origin(bare) is dict and isinstance(plain, dict) and _holds_specs(get_args(bare)[1]):
        entries = cast("dict[str, object]", plain)
        return {key: _build(value, get_args(bare)[1], (*path, key), between) for key, value in entries.items()}
    try:
        return _adapter(annotation).validate_python(plain, context=YAML_CONTEXT)
    except ValidationError:
        return _BROKEN


def _build_spec(
    plain: AbstractMapping[str, object], model: type[Spec], path: Path, between: list[tuple[Path, str]]
) -> Spec:
    values: dict[str, object] = {}
    faulty = set(misspelt_fields(plain, model))
    for yaml_name, name in field_names(model).items():
        field = model.model_fields[name]
        if yaml_name not in plain:
            faulty |= {yaml_name} if field.is_required() else set()
            continue
        value = _build(plain[yaml_name], _annotated(field), (*path, yaml_name), between)
        if value is _BROKEN:
            faulty.add(yaml_name)
        else:
            values[name] = value
    spec = model.model_construct(_fields_set=set(values), **values)
    for yaml_name in faulty:
        with suppress(AttributeError):
            object.__delattr__(spec, field_names(model)[yaml_name])  # so that checks that read it stop
    is_whole = not faulty and plain.keys() <= field_names(model).keys()
    for check in spec.checks():
        with suppress(AttributeError):  # the check reads a faulty field, so it has nothing to say
            for fault in check:
                if is_whole or (fault.path and fault.path[0] not in faulty):
                    between.append(((*path, *fault.path), fault.message))
    return spec


def _annotated(field: FieldInfo) -> object:
    return Annotated[cast(Any, field.annotation), *field.metadata] if field.metadata else field.annotation


def _holds_specs(annotation: object) -> bool:
    return is_spec(strip(annotation)) or bool(members_by_kind(annotation))


def _adapter(annotation: object) -> TypeAdapter[object]:
    return TypeAdapter(cast(Any, annotation))
