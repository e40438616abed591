"""Write descriptions: canonical YAML, and the JSON Schema that editors complete and check with."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import Field, TypeAdapter

from .expressions import escape
from .loading import Arch
from .spec import Spec
from .system import System
from .yamlio import dump_yaml

Schema = dict[str, Any]

_DEFS = "#/$defs/"
_PARTIAL = "Partial"
_EXPRESSION: Schema = {"type": "string", "pattern": r"\$\{.*\}"}
_FILE_FIELDS: Schema = {
    "extends": {"type": "string", "description": "Preset, or file relative to this one, that this file changes."},
    "parameters": {
        "type": "object",
        "description": "Named numbers and texts that ${...} may use.",
        "additionalProperties": {"type": ["number", "string", "boolean"]},
    },
    "override": {"type": "object", "description": "New values by dotted path, e.g. hierarchy.scratchpad.capacity."},
}


def dump_arch(arch: Arch) -> str:
    """Canonical YAML of an architecture: fields in fixed order, defaults left out; loads back equal."""
    return dump_spec(arch)


def dump_system(system: System) -> str:
    """Canonical YAML of a system, its architectures written out; loads back equal."""
    return dump_spec(system)


def dump_spec(spec: Spec) -> str:
    """Canonical YAML of any description."""
    return dump_yaml(_escaped(spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)))


def arch_json_schema() -> Schema:
    """JSON Schema of an architecture file as users write it: YAML names, quantities and expressions as texts."""
    return _file_schema(TypeAdapter(Annotated[Arch, Field(discriminator="kind")]), "tileloom architecture")


def system_json_schema() -> Schema:
    """JSON Schema of a system file as users write it."""
    schema = _file_schema(TypeAdapter(System), "tileloom system")
    for name in ("ChipGroup", "ChipGroup" + _PARTIAL):
        if name in schema["$defs"]:
            arch = schema["$defs"][name]["properties"]["arch"]
            named = {"type": "string", "description": arch.pop("description", "")}
            schema["$defs"][name]["properties"]["arch"] = {"anyOf": [named, arch]}
    return schema


def _file_schema(adapter: TypeAdapter[Any], title: str) -> Schema:
    """The models' schema, with what a file may hold besides: expressions, `extends`, `parameters`, `override`.

    A file that extends another may leave out fields of its maps, but not of the elements of its lists.
    """
    schema = adapter.json_schema(by_alias=True, ref_template=_DEFS + "{model}")
    defs: Schema = {name: _with_expressions(model) for name, model in schema.pop("$defs").items()}
    roots = [ref["$ref"].removeprefix(_DEFS) for ref in schema.get("oneOf", [])]
    if not roots:
        roots = [str(schema["title"])]
        defs[roots[0]] = _with_expressions(schema)
    defs |= {name + _PARTIAL: _partial(model) for name, model in defs.items()}
    for root in roots:
        for name in (root, root + _PARTIAL):
            defs[name] = {**defs[name], "properties": {**_FILE_FIELDS, **defs[name]["properties"]}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "if": {"required": ["extends"]},
        "then": {"anyOf": [{"$ref": _DEFS + root + _PARTIAL} for root in roots]},
        "else": {"oneOf": [{"$ref": _DEFS + root} for root in roots]},
        "$defs": defs,
    }


def _with_expressions(schema: Any) -> Any:
    """The schema in which an expression may stand for any number, truth value or choice."""
    if isinstance(schema, list):
        return [_with_expressions(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    changed = {key: _with_expressions(value) for key, value in cast(Schema, schema).items()}
    is_open = changed.get("type") in ("integer", "number", "boolean") or "enum" in changed
    if not is_open:
        return changed
    about = {key: changed.pop(key) for key in ("description", "default", "title") if key in changed}
    return {**about, "anyOf": [changed, _EXPRESSION]}


def _partial(model: Schema) -> Schema:
    """A model none of whose fields, nor those of the maps in it, is required."""
    changed = {key: value for key, value in model.items() if key != "required"}
    if "properties" in model:
        changed["properties"] = {name: _partial_field(field) for name, field in model["properties"].items()}
    return changed


def _partial_field(field: Schema) -> Schema:
    if "$ref" in field:
        return {**field, "$ref": field["$ref"] + _PARTIAL}
    if "anyOf" in field:
        return {**field, "anyOf": [_partial_field(option) for option in field["anyOf"]]}
    return field


def _escaped(data: object) -> object:
    if isinstance(data, str):
        return escape(data)
    if isinstance(data, list):
        return [_escaped(item) for item in cast("list[object]", data)]
    if isinstance(data, dict):
        return {key: _escaped(value) for key, value in cast("dict[str, object]", data).items()}
    return data
